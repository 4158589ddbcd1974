// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what a launch says at its end: files that are gone, and why a command may have failed.

use crate::support::terminal::Terminal;
use crate::support::{Place, everybody, has, job};
use std::path::Path;

/// Runs a line of shell inside, in `work/deep`, and returns what was said.
fn said(place: &Place, options: &[&str], line: &str) -> String {
    said_in(place, &place.work.join("deep"), options, line)
}

/// The same in another directory.
fn said_in(place: &Place, directory: &Path, options: &[&str], line: &str) -> String {
    place.outside(&format!("mkdir -p {}", directory.display()));
    let mut palisade = place.palisade(options, &["sh", "-c", line]);
    job::finish(palisade.current_dir(directory)).err
}

#[test]
fn files_that_are_gone_are_named_and_the_option_keeps_them() {
    for place in everybody() {
        let home = "palisade run --home private --home-name NAME …";
        for (line, named, keep) in [
            ("echo x >~/notes", "~/notes", home),
            ("mkdir -p ~/wt/a/b", "~/wt/", "mkdir ~/wt; palisade run --rw ~/wt …"),
            ("ln -s /nowhere ~/link", "~/link", home),
            ("echo x >../../notes", "~/notes", home),
        ] {
            let text = said(&place, &[], line);
            assert_eq!(
                text,
                format!(
                    "palisade: note: a path written outside the shown directories is gone: {named}; to keep: {keep}\n"
                ),
                "{line}"
            );
        }
        let text = said(&place, &[], "echo x >~/a; echo x >~/b; echo x >~/c; echo x >~/d");
        assert!(text.contains("4 paths written") && text.contains(" and 1 more; to keep: "), "{text}");
        let kept = &["--home", "private", "--home-name", "kept"];
        assert_eq!(said(&place, kept, "echo x >~/own"), "");
        assert_eq!(said(&place, kept, "cat ~/own"), "");
    }
}

/// Git remembers a worktree that is gone.
#[test]
fn a_worktree_that_is_gone_is_named() {
    for place in everybody().iter().filter(|_| has("git")) {
        place.outside(
            "mkdir ~/top; cd ~/top; git init -q; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m 1",
        );
        let mut palisade = place.palisade(&[], &["git", "worktree", "add", "-q", "../tree"]);
        let run = job::finish(palisade.current_dir(place.home.join("top")));
        let tree = place.home.join("tree").display().to_string();
        let line = format!(
            "palisade: note: the worktree {tree} was made in a private place and is gone; \
             hint: git worktree add -f {tree}   # outside of the sandbox\n"
        );
        assert_eq!(run.err, line);
    }
}

/// A program that writes beside the working directory would succeed, and the file would be gone.
#[test]
fn nothing_is_made_in_a_directory_above_that_only_the_sandbox_has_and_the_option_allows_it() {
    for place in everybody() {
        let temporary = std::env::temp_dir().join(&place.mark).join(place.name());
        for (above, directory) in
            [(&place.work, place.work.join("deep")), (&temporary, temporary.join("deep"))]
        {
            let all = above.display();
            for (line, named) in [
                ("echo x >../notes", "notes"),
                ("mkdir -p ../wt/a/b", "wt"),
                ("ln -s /nowhere ../link", "link"),
            ] {
                let text = said_in(&place, &directory, &[], line);
                let refused = format!("palisade: refused: write {all}/{named} by ");
                assert!(text.contains(&refused), "{line}\n{text}");
                assert!(text.contains(&format!("; hint: palisade run --rw {all} …\n")), "{line}\n{text}");
                assert!(above.join(named).symlink_metadata().is_err(), "{line}");
                assert_eq!(said_in(&place, &directory, &["--rw", &all.to_string()], line), "", "{line}");
                assert!(above.join(named).symlink_metadata().is_ok(), "{line}");
                place.outside(&format!("rm -r {all}/{named}"));
            }
            // What isn't written isn't told of.
            assert_eq!(
                said_in(&place, &directory, &[], "ls .. ../nothing >/dev/null 2>&1; rm -f ../nothing"),
                ""
            );
        }
        std::fs::remove_dir_all(&temporary).unwrap();
        // Programs have files of their own there.
        for directory in [".config/x", "go/src/x"] {
            let directory = place.home.join(directory);
            assert_eq!(said_in(&place, &directory, &[], "mkdir ../.y && echo x >../z && rm ../z"), "");
        }
    }
}

#[test]
fn a_worktree_beside_the_repository_is_made_on_the_host_or_not_at_all() {
    for place in everybody().iter().filter(|_| has("git")) {
        place.outside(
            "git init -q ~/work/r; cd ~/work/r; git -c user.name=a -c user.email=a@b.example commit -q --allow-empty -m x",
        );
        let run = |options: &[&str], line: &str| {
            let mut palisade = place.palisade(options, &["sh", "-c", line]);
            job::finish(palisade.current_dir(place.work.join("r")))
        };
        let refused = run(&[], "git worktree add -q ../wt");
        let above = place.work.display().to_string();
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.err.contains(&format!("hint: palisade run --rw {above} …")), "{refused:?}");
        assert_eq!(place.outside("cd ~/work/r; git worktree list | wc -l").trim(), "1");
        let made = run(&["--rw", &above], "git worktree add -q ../wt2");
        assert_eq!(made.code, 0, "{made:?}");
        assert!(place.outside("cd ~/work/wt2; git log --oneline").contains(" x"));
    }
}

#[test]
fn what_is_not_lost_or_expected_to_be_is_not_named() {
    for place in everybody() {
        for (options, line) in [
            (&[][..], "echo x >kept; mkdir -p a/b"),
            (&[], "echo x >/tmp/x; mkdir -p /run/user/x; mktemp -d"),
            (&[], "mkdir -p ~/.cache/x ~/go/pkg; echo x >~/.config.x"),
            (&[], "echo x >~/there-and-gone; rm ~/there-and-gone"),
            (&["-q"], "echo x >~/notes"),
            (&["--namespaces", "none", "--protect", "off"], "true"),
        ] {
            assert_eq!(said(&place, options, line), "", "{options:?} {line}");
        }
    }
}

/// A command can leave any names.
#[test]
fn names_can_not_steer_the_terminal_and_many_end_soon() {
    for place in everybody() {
        let text = said(&place, &[], "touch ~/\"$(printf 'a\\033[2Jb\\nc')\"");
        assert_eq!(text.lines().count(), 1, "{text:?}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
        let text = said(
            &place,
            &[],
            "mkdir ~/many; cd ~/many; seq 30000 | xargs touch; seq 1 3000 | sed s/^/..\\\\/f/ | xargs touch",
        );
        assert!(text.contains(" and 997 more; to keep: "), "{text:?}");
    }
}

#[test]
fn a_removed_variable_is_named_after_a_failure_of_who_may_need_it() {
    for place in everybody() {
        let run = |name: &str, value: &str, command: &[&str]| {
            let run = job::finish(place.palisade(&[], command).env(name, value));
            (run.code, run.err)
        };
        let url = "postgres://me:s3cret@db.example/app";
        let (code, text) = run("DATABASE_URL", url, &["sh", "-c", "test -n \"$DATABASE_URL\""]);
        assert_eq!(code, 1);
        assert!(text.contains("not passed on: DATABASE_URL (a URL with a password)"), "{text}");
        assert!(
            text.contains("palisade run --keep-env DATABASE_URL …") && !text.contains("s3cret"),
            "{text}"
        );
        let kept = job::finish(
            place
                .palisade(&["--keep-env", "DATABASE_URL"], &["sh", "-c", "test -n \"$DATABASE_URL\""])
                .env("DATABASE_URL", url),
        );
        assert_eq!((kept.code, kept.err.as_str()), (0, ""));
        let (_code, text) = run("PYTHON3_TOKEN", "x", &["python3", "-c", "exit(3)"]);
        assert!(text.contains("not passed on: PYTHON3_TOKEN;"), "{text}");
        let (_code, text) = run("OTHER_TOKEN", "x", &["python3", "-c", "exit(3)"]);
        assert_eq!(text, "");
        assert_eq!(run("DATABASE_URL", url, &["true"]), (0, String::new()));
        let plan = job::finish(
            place.palisade(&["--dry-run"], &["true"]).env("GH_PAT", "x").env("DATABASE_URL", url),
        );
        let removed = plan.out.lines().find(|line| line.starts_with("variables that are removed: ")).unwrap();
        assert!(
            removed.contains("GH_PAT") && removed.contains("DATABASE_URL (a URL with a password)"),
            "{removed}"
        );
    }
}

#[test]
fn the_last_refusals_are_repeated_after_a_failure_that_came_later() {
    for place in everybody().iter().filter(|_| has("git")) {
        place.outside("git init -q ~/work/r");
        let line = "for i in 1 2 3 4 5 6 7; do echo x >.git/hooks/h$i; done; exit 3";
        let run = |options: &[&str], line: &str| {
            let mut palisade = place.palisade(options, &["sh", "-c", line]);
            job::finish(palisade.current_dir(place.work.join("r")))
        };
        let text = run(&[], line).err;
        let again: Vec<&str> =
            text.lines().filter(|line| line.starts_with("palisade: perhaps why it failed: write ")).collect();
        assert_eq!(again.len(), 3, "{text}");
        for (line, hook) in again.iter().zip(["h5", "h6", "h7"]) {
            assert!(
                line.contains(hook) && line.ends_with("hint: palisade run --allow-name .git/hooks …"),
                "{text}"
            );
        }
        // These two are still in sight.
        let soon = run(&[], "echo x >.git/hooks/a; echo x >.git/hooks/b; exit 3").err;
        assert!(!soon.contains("perhaps"), "{soon}");
        assert!(!run(&[], &line.replace("exit 3", "exit 0")).err.contains("perhaps"));
        assert_eq!(run(&["-q"], line).err.matches("palisade").count(), 0);
    }
}

#[test]
fn why_shows_the_last_launch_and_each_hint() {
    for place in everybody().iter().filter(|_| has("git")) {
        let why = |words: &[&str]| job::finish(place.command(place.binary()).args(words));
        let nothing = why(&["why"]);
        assert_eq!(nothing.code, 1, "{nothing:?}");
        assert!(nothing.err.contains("no launch from this terminal"), "{nothing:?}");
        place.outside("git init -q ~/work/r");
        let line = "echo x >.git/hooks/h; getent hosts a.example; exit 7";
        let mut palisade = place.palisade(&["--hide", "/opt"], &["sh", "-c", line]);
        assert_eq!(job::finish(palisade.current_dir(place.work.join("r"))).code, 7);
        // A launch that was refused nothing and succeeded is none that one asks about.
        place.run(&[], &["true"]).ok();
        for words in [&["why"][..], &["explain"]] {
            let said = why(words);
            let text = said.ok();
            assert!(text.contains(" ended with code 7, ") && text.contains("s ago (sandbox "), "{text}");
            for expected in [
                ".git/hooks/h by sh: ",
                "palisade run --allow-name .git/hooks …",
                "a.example by getent: the sandbox has no network",
                "palisade run --allow a.example …",
                "palisade run --trace --hide /opt -- sh -c ",
            ] {
                assert!(text.contains(expected), "{expected}: {text}");
            }
        }
        let json: serde_json::Value = serde_json::from_str(why(&["why", "--json"]).ok()).unwrap();
        assert_eq!((&json["schema"], &json["launch"]["code"]), (&1.into(), &7.into()));
        assert_eq!(json["events"].as_array().unwrap().len(), 2, "{json}");
    }
}

/// A person who sees a failure without a reason is told how to find one. A program isn't.
#[test]
fn on_a_terminal_a_failure_without_a_refusal_names_the_trace() {
    for place in everybody().iter().filter(|_| has("tmux")) {
        let terminal = Terminal::open(place);
        let palisade = place.binary().display();
        terminal.line(&format!(
            "clear; '{palisade}' run -- sh -c 'exit 3'; '{palisade}' run -- false; echo a''ll"
        ));
        terminal.wait_until("the end", |screen| screen.lines().any(|line| line == "all"));
        let screen = terminal.screen().replace('\n', "");
        assert!(screen.contains("palisade run --trace -- sh -c 'exit 3'"), "{screen}");
        assert_eq!(screen.matches("--trace").count(), 1, "{screen}");
        assert_eq!(place.run(&[], &["sh", "-c", "exit 3"]).err, "");
    }
}
