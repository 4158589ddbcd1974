// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `--repo`: git works below the top of a repository, in worktrees and in submodules, and what programs outside obey
//! stays protected there.

use crate::support::{Place, Run, everybody, has, job};

/// `work/main` with a directory `sub` and a commit; `work/tree` is a worktree of it, and `work/other` another one.
fn people() -> Vec<Place> {
    let places: Vec<Place> = everybody().into_iter().filter(|_| has("git")).collect();
    for place in &places {
        place.outside(
            "cd; printf '[user]\\n\\tname = a\\n\\temail = a@example.org\\n[init]\\n\\tdefaultBranch = main\\n\
             [protocol \"file\"]\\n\\tallow = always\\n' >.gitconfig; cd work; git init -q main; cd main; \
             mkdir sub; echo 1 >sub/file; echo 1 >top; git add .; git commit -q -m one; \
             git worktree add -q ../tree; git worktree add -q ../other",
        );
    }
    places
}

/// Runs a line of shell inside, in a directory below the home.
fn within(place: &Place, directory: &str, options: &[&str], line: &str) -> Run {
    let mut palisade = place.palisade(options, &["sh", "-c", line]);
    job::finish(palisade.current_dir(place.home.join(directory)))
}

/// A line, and what the last commits are afterwards.
const WORK: [(&str, &str); 5] = [
    ("echo 2 >>file && git add file && git commit -q -m two", "two one"),
    ("echo 3 >>file && git stash -q && git stash pop -q && git commit -q -a -m three", "three two one"),
    ("git switch -q -c side && git commit -q --allow-empty -m four", "four three two one"),
    ("git commit -q --amend --allow-empty -m five && git tag t", "five three two one"),
    ("git rebase -q -f --root --empty=keep", "five three two one"),
];

#[test]
fn git_works_below_the_top_of_a_repository_and_says_the_option() {
    for place in people() {
        for (line, log) in WORK {
            let without = within(&place, "work/main/sub", &[], line);
            assert_ne!(without.code, 0, "{line}: {without:?}");
            assert!(without.err.contains("hint: palisade run --repo …"), "{line}: {without:?}");
            place.outside("cd ~/work/main; git checkout -q .");
            let run = within(&place, "work/main/sub", &["--repo"], line);
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{line}: {run:?}");
            let subjects = place.outside("cd ~/work/main; git log --format=%s");
            assert_eq!(subjects.split_whitespace().collect::<Vec<_>>().join(" "), log, "{line}");
        }
        // Other members of a workspace are written to, too.
        within(&place, "work/main/sub", &["--repo"], "mkdir ../node_modules && echo x >../node_modules/x")
            .ok();
        assert_eq!(place.read("work/main/node_modules/x"), "x\n");
    }
}

#[test]
fn git_works_in_a_worktree_and_leaves_the_others_alone() {
    for place in people() {
        place.write("work/tree/deep/file", "1\n");
        for directory in ["work/tree", "work/tree/deep"] {
            let line = "echo 2 >>\"$(git rev-parse --show-toplevel)/top\" && git commit -q -a -m two";
            let without = within(&place, directory, &[], line);
            assert_ne!(without.code, 0, "{directory}: {without:?}");
            assert!(without.err.contains("hint: palisade run --repo …"), "{directory}: {without:?}");
            place.outside("cd ~/work/tree; git checkout -q .");
            let run = within(&place, directory, &["--repo"], line);
            assert_eq!((run.code, run.err.as_str()), (0, ""), "{directory}: {run:?}");
        }
        assert_eq!(place.outside("cd ~/work/main; git log --format=%s tree"), "two\ntwo\none\n");
        assert_eq!(
            place.outside("cd ~/work/main; git status --porcelain; git -C ../other status --porcelain"),
            ""
        );
        // What belongs to the other worktrees can be changed outside, and not inside.
        for name in ["HEAD", "index", "worktrees/other/HEAD", "worktrees/new", "hooks/post-commit", "config"]
        {
            let path = place.home.join("work/main/.git").join(name);
            let line = format!("echo x >>'{}'", path.display());
            let before = std::fs::read(&path).ok();
            let inside = within(&place, "work/tree", &["--repo"], &line);
            assert_ne!(inside.code, 0, "{name}: {inside:?}");
            assert!(inside.err.contains("refused: write"), "{name}: {inside:?}");
            assert_eq!(std::fs::read(&path).ok(), before, "{name}");
            place.outside(&line);
            match before {
                Some(before) => std::fs::write(&path, before).unwrap(),
                None => std::fs::remove_file(&path).unwrap(),
            }
        }
        for line in
            ["rm -rf ~/work/main/.git/worktrees/other", "mv ~/work/main/.git/worktrees ~/work/main/.git/w"]
        {
            within(&place, "work/tree", &["--repo"], line);
            place.outside("cd ~/work/other; git status");
        }
    }
}

/// The plan is kept, and the main worktree gets its index afterwards.
#[test]
fn what_other_worktrees_get_later_stays_as_it_is_too() {
    for place in people() {
        // A plan made of what was just changed isn't kept.
        place.outside("rm ~/work/main/.git/index; sleep 0.2");
        within(&place, "work/tree", &["--repo"], "true").ok();
        place.outside("cd ~/work/main; git reset -q");
        let run = within(&place, "work/tree", &["--repo"], "echo x >>~/work/main/.git/index");
        assert_ne!(run.code, 0, "{run:?}");
        assert_eq!(place.outside("cd ~/work/main; git status --porcelain"), "");
    }
}

#[test]
fn git_works_in_a_submodule() {
    for place in people() {
        place.outside("cd ~/work; git init -q super; cd super; git submodule --quiet add ../main inner; git commit -q -m s");
        let line = "echo 2 >>top && git commit -q -a -m two";
        let without = within(&place, "work/super/inner", &[], line);
        assert_ne!(without.code, 0, "{without:?}");
        assert!(without.err.contains("hint: palisade run --repo …"), "{without:?}");
        place.outside("cd ~/work/super/inner; git checkout -q .");
        within(&place, "work/super/inner", &["--repo"], line).ok();
        assert_eq!(place.outside("cd ~/work/super/inner; git log --format=%s"), "two\none\n");
        let hook = within(
            &place,
            "work/super/inner",
            &["--repo"],
            "echo x >\"$(git rev-parse --git-dir)/hooks/post-commit\"",
        );
        assert_ne!(hook.code, 0, "{hook:?}");
    }
}

/// What `explain` proposes is what a refusal proposes.
#[test]
fn explain_proposes_the_option_in_a_repository_only() {
    for place in people() {
        let explain = |directory: &str, path: &str| {
            let mut palisade = place.command(place.binary());
            palisade.args(["explain", "--access", "write", path]).current_dir(place.home.join(directory));
            job::finish(&mut palisade).out
        };
        let inside = explain("work/main/sub", "../.git/index.lock");
        assert!(inside.contains("to permit  palisade run --repo -- COMMAND…"), "{inside}");
        let hooks = explain("work/main/sub", "../.git/hooks/new");
        assert!(!hooks.contains("--repo -- COMMAND"), "{hooks}");
        let outside = explain("work", "../nothing");
        assert!(!outside.contains("--repo"), "{outside}");
    }
}

#[test]
fn without_a_repository_or_with_one_that_leads_elsewhere_nothing_starts() {
    for place in people() {
        let run = within(&place, "work", &["--repo"], "echo started");
        assert_eq!((run.code, run.out.as_str()), (125, ""), "{run:?}");
        assert!(run.err.contains("there is no git repository in"), "{run:?}");
        // A project that names the keys of its user.
        place.write(".ssh/HEAD", "ref: refs/heads/main\n");
        place.write("work/evil/.git", format!("gitdir: {}/.ssh\n", place.home.display()));
        let run = within(&place, "work/evil", &["--repo"], "echo started");
        assert_eq!((run.code, run.out.as_str()), (125, ""), "{run:?}");
        assert!(run.err.contains("isn't taken for a git repository"), "{run:?}");
    }
}

#[test]
fn a_worktree_that_is_pointed_elsewhere_afterwards_gets_no_more() {
    for place in people() {
        let line = "echo 2 >>top; git commit -q -a -m two";
        within(&place, "work/tree", &["--repo"], line).ok();
        place.outside("cp -r ~/work/main ~/work/second; echo 'gitdir: ../second/.git' >~/work/tree/.git");
        let run = within(&place, "work/tree", &["--repo"], "echo x >~/work/second/.git/HEAD; echo started");
        assert_eq!((run.code, run.out.as_str()), (125, ""), "{run:?}");
        assert!(!place.read("work/second/.git/HEAD").contains('x'));
    }
}
