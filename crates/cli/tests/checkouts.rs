// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests git commands that bring another version of every protected name that a repository can carry. The write to
//! those names is refused, so each command must end as if the user had then changed or removed those files: `HEAD` and
//! the index are valid, every other file is the new one, and no command of git stops half done.

use crate::support::{Place, Run, everybody, has};
use palisade_policy::names::{BuiltInName, Content, built_in};
use std::collections::BTreeSet;

/// Files that nothing protects; git writes some of them before the protected ones, and some after.
const PLAIN: [&str; 4] = [".a", "aaa", "src/deep/file", "zzz"];

/// The protected names as paths in a repository.
fn carried() -> Vec<String> {
    let on = built_in().iter().filter(|name| name.on).map(|name| name.rule.path.replace('*', "x"));
    // git's own directory can't be carried.
    let all: BTreeSet<String> = on.filter(|path| !path.starts_with(".git/")).collect();
    // A file of this name prevents the files below it.
    let lies_in = |path: &str| {
        all.iter().any(|other| path.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('/')))
    };
    all.iter().filter(|path| !lies_in(path)).cloned().collect()
}

/// What the second commit does to a protected name.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Changed,
    Made,
    Removed,
}

fn change(number: usize) -> Change {
    [Change::Changed, Change::Made, Change::Changed, Change::Removed][number % 4]
}

/// `work/repository` on `main`, where all names are as in the first commit. `other` has the second one, which `mine`
/// doesn't contain. `work/origin.git` has all of them.
fn prepare(place: &Place, names: &[String]) {
    place.outside(
        "git init -q -b main ~/work/repository; cd ~/work/repository; git config user.name a; \
         git config user.email a@example.org",
    );
    let write = |path: &str, text: &str| place.write(&format!("work/repository/{path}"), text);
    for plain in PLAIN {
        write(plain, "old\n");
    }
    for (number, name) in names.iter().enumerate() {
        if change(number) != Change::Made {
            write(name, "# old\n");
        }
    }
    place.outside("cd ~/work/repository; git add -A; git commit -q -m one; git checkout -q -b other");
    for plain in PLAIN {
        write(plain, "new\n");
    }
    for (number, name) in names.iter().enumerate() {
        match change(number) {
            Change::Removed => std::fs::remove_file(place.work.join("repository").join(name))
                .unwrap_or_else(|error| panic!("{name}: {error}")),
            _ => drop(write(name, "# new\n")),
        }
    }
    place.outside(
        "cd ~/work/repository; git add -A; git commit -q -m two; git checkout -q main; git checkout -q -b mine; \
         echo mine >mine; git add mine; git commit -q -m mine; git checkout -q main; \
         git clone -q --bare . ../origin.git; git remote add origin ../origin.git",
    );
}

/// Runs a line of git's commands inside, from where they see `repository`.
fn inside(line: &str, check: impl Fn(&Place, &Run)) {
    for place in everybody().iter().filter(|_| has("git")) {
        let names = carried();
        assert!(names.len() > 100, "{}", names.len());
        prepare(place, &names);
        let run = place.sh(&[], line);
        check(place, &run);
    }
}

fn sorted(words: &str) -> BTreeSet<&str> {
    words.split_whitespace().collect()
}

/// What is wrong with the repository after a command of git that brought the second commit.
fn half_done(place: &Place, run: &Run, log: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let names = carried();
    let git = |line: &str| place.outside(&format!("cd ~/work/repository; git {line}"));
    if run.code != 0 {
        wrong.push(format!("git exited with {}", run.code));
    }
    // Commits of one second have no order.
    let subjects = git("log --format=%s");
    if !subjects.starts_with(log.split(' ').next().unwrap_or_default()) || sorted(&subjects) != sorted(log) {
        wrong.push(format!("HEAD is at: {subjects}"));
    }
    let staged = git("diff --cached --name-only HEAD");
    if !staged.is_empty() {
        wrong.push(format!("the index differs from HEAD: {} files", staged.lines().count()));
    }
    for left in place.outside("cd ~/work/repository/.git; find . -name '*.lock'; ls -d rebase-* *_HEAD sequencer 2>/dev/null || true").lines() {
        if !matches!(left, "ORIG_HEAD" | "FETCH_HEAD") {
            wrong.push(format!("left behind: {left}"));
        }
    }
    for plain in PLAIN {
        if place.read(&format!("work/repository/{plain}")) != "new\n" {
            wrong.push(format!("{plain} is the old one"));
        }
    }
    for line in git("status --porcelain --untracked-files=all").lines() {
        let (kind, path) = line.split_at(3);
        let stays = matches!(kind, " M " | " D " | "?? ") && names.iter().any(|name| name == path);
        if !stays {
            wrong.push(format!("git status: {line}"));
        }
    }
    let content = |name: &str| std::fs::read_to_string(place.work.join("repository").join(name)).ok();
    let refused = |name: &String| content(name).is_none_or(|text| text != "# new\n");
    for name in names.iter().filter(|name| !refused(name)) {
        wrong.push(format!("{name} was written"));
    }
    // Each refusal is reported, or a line says where the others are.
    let told = |name: &String| run.err.contains(&format!("/repository/{name} by git: "));
    if !names.iter().any(told) || !(names.iter().all(told) || run.err.contains("palisade watch --all")) {
        wrong.push("the refusals aren't told".to_owned());
    }
    wrong
}

/// A user who has reviewed the changes can accept them with git outside.
fn can_be_accepted(place: &Place) {
    place.outside("cd ~/work/repository; git checkout -q -f HEAD; git clean -q -d -f");
    for (number, name) in carried().iter().enumerate() {
        let there = std::fs::read_to_string(place.work.join("repository").join(name)).ok();
        let wanted = (change(number) != Change::Removed).then(|| "# new\n".to_owned());
        assert_eq!(there, wanted, "{name}");
    }
    assert_eq!(place.outside("cd ~/work/repository; git status --porcelain"), "");
}

fn brings(line: &str, log: &str) {
    inside(line, |place, run| {
        let wrong = half_done(place, run, log);
        assert!(wrong.is_empty(), "{line}\n  {}\n{run:?}", wrong.join("\n  "));
        can_be_accepted(place);
    });
}

#[test]
fn a_clone_lacks_what_is_obeyed_and_git_knows_it() {
    // What leads a program elsewhere may be made with its directory: it is harmless where it leads.
    let comes = |name: &str| {
        let kept =
            |known: &BuiltInName| matches!(known.rule.content, Content::WithDirectory | Content::Directory);
        built_in().iter().any(|known| known.rule.path == name && kept(known))
    };
    inside("git clone -q -b other origin.git copy", |place, run| {
        let mut wrong = Vec::new();
        let mut missing = Vec::new();
        for (number, name) in carried().iter().enumerate() {
            let there = std::fs::read_to_string(place.work.join("copy").join(name)).ok();
            let has = change(number) != Change::Removed;
            if there != (has && comes(name)).then(|| "# new\n".to_owned()) {
                wrong.push(format!("{name}: {there:?}"));
            }
            if has && !comes(name) {
                missing.push(format!(" D {name}"));
            }
        }
        assert!(missing.len() > 100, "{missing:?}");
        let status = place.outside("cd ~/work/copy; git status --porcelain 2>&1 || true");
        if status.lines().ne(&missing) {
            wrong.push(format!("git status: {status}"));
        }
        assert!(run.code == 0 && wrong.is_empty(), "{}\n{run:?}", wrong.join("\n"));
        place.outside("cd ~/work/copy; git restore .");
        assert_eq!(place.outside("cd ~/work/copy; git status --porcelain"), "");
    });
}

#[test]
fn a_checkout_is_whole() {
    brings("git -C repository checkout -q other", "two one");
}

#[test]
fn a_pull_is_whole() {
    brings("git -C repository pull -q origin other", "two one");
}

#[test]
fn a_rebase_is_whole() {
    brings("git -C repository checkout -q mine && git -C repository rebase -q other", "mine two one");
}

#[test]
fn a_merge_is_whole() {
    brings(
        "git -C repository checkout -q mine && git -C repository merge -q -m merge other",
        "merge two mine one",
    );
}

#[test]
fn a_reset_is_whole() {
    brings("git -C repository reset -q --hard other", "two one");
}

#[test]
fn a_cherry_pick_is_whole() {
    brings("git -C repository checkout -q mine && git -C repository cherry-pick other", "two mine one");
}
