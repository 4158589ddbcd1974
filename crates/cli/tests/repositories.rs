// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests repositories with other names: a directory that git accepts as a repository is protected like `.git`. (The attacks
//! are in the acceptance suite.)

use crate::support::{Place, everybody, has, job};
use std::os::fd::AsFd;

/// A bare repository of the user's, with a hook.
fn mine(place: &Place) {
    place.outside(
        "cd ~/work; rm -rf mine; git init -q --bare mine; printf old >mine/hooks/update; chmod 755 mine/hooks/update",
    );
}

const ATTACK: &str = "{ echo new >mine/hooks/update; mv mine/refs r; mv mine/hooks h; git -C mine config core.fsmonitor x; \
     echo '* filter=x' >mine/info/attributes; } 2>/dev/null; cat mine/hooks/update; ls -d mine/refs mine/info/*";

#[test]
fn it_is_protected_by_whoever_keeps_names() {
    for place in everybody().iter().filter(|_| has("git")) {
        mine(place);
        let run = place.sh(&[], ATTACK);
        assert_eq!(run.out, "oldmine/info/exclude\nmine/refs\n", "{run:?}");
        assert!(run.err.contains("git treats a directory above it as a repository, and git runs"), "{run:?}");
        assert!(run.err.contains("palisade run --allow-name .git/hooks"), "{run:?}");
        // Mounts keep what is there.
        let run = place.sh(&["--quiet", "--protect", "mounts"], ATTACK);
        assert!(run.out.starts_with("old"), "{run:?}");
        assert!(!place.read("work/mine/config").contains("fsmonitor"));
        mine(place);
        let run = place.sh(&["--quiet", "--protect", "off"], ATTACK);
        assert!(!run.out.starts_with("old"), "{run:?}");
        mine(place);
        let run = place.sh(&["--quiet", "--allow-name", ".git/hooks"], "echo new >mine/hooks/update");
        assert_eq!((run.code, place.read("work/mine/hooks/update").as_str()), (0, "new\n"), "{run:?}");
    }
}

#[test]
fn what_makes_one_is_told_at_the_end_and_why_not() {
    for place in everybody().iter().filter(|_| has("git")) {
        let run = place.sh(
            &[],
            "git init -q --bare new; mkdir -p not/hooks not/objects; touch not/hooks/update; mkdir not/refs",
        );
        assert!(
            run.err.contains("a repository was made inside: ") && run.err.contains("work/new\n"),
            "{run:?}"
        );
        assert!(run.err.contains("with refs, git would treat the directory as a repository"), "{run:?}");
        assert!(run.err.contains("work/not/hooks/update"), "{run:?}");
        assert!(!place.work.join("not/refs").exists());
    }
}

#[test]
fn explain_knows_it() {
    for place in everybody().iter().filter(|_| has("git")) {
        mine(place);
        let explain = |path: &str| {
            let mut explain = place.command(place.binary());
            job::finish(explain.args(["explain", path]).current_dir(&place.work)).out
        };
        assert!(
            explain("mine/hooks/update").contains("git runs what is in it"),
            "{}",
            explain("mine/hooks/update")
        );
        assert!(!explain("mine/objects/hooks").contains("git runs what is in it"));
    }
}

/// A program inside that holds the lock by which brokers keep out of each other's way: it can't have more
/// than before.
#[test]
fn somebody_elses_lock_refuses() {
    for place in everybody().iter().filter(|_| has("git")) {
        mine(place);
        let held = std::fs::File::open(place.work.join("mine")).unwrap();
        rustix::fs::flock(held.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        let run = place.sh(
            &["--quiet"],
            "echo new >mine/hooks/update; echo x >mine/HEAD2; mkdir objects; mkdir refs; ls -d refs",
        );
        assert_eq!(run.out, "refs\n", "{run:?}");
        assert_eq!(place.read("work/mine/hooks/update"), "old");
        drop(held);
        let held = std::fs::File::open(&place.work).unwrap();
        rustix::fs::flock(held.as_fd(), rustix::fs::FlockOperation::LockExclusive).unwrap();
        let run = place.sh(
            &["--quiet"],
            "mv refs r; mkdir made && mkdir made/objects && mkdir made/refs; ls -d refs made/refs",
        );
        assert_eq!(run.out, "made/refs\nrefs\n", "{run:?}");
    }
}

/// From a directory below the top the rest of the repository is shown, and rules about its parts hold.
#[test]
fn rules_about_the_rest_of_the_repository_hold() {
    for place in everybody().iter().filter(|_| has("git")) {
        place.write("work/.env", "secret\n");
        place.write("work/other/file", "other\n");
        place.write("work/sub/own", "own\n");
        place.outside("cd ~/work && git init -q .");
        let within = |options: &[&str], line: &str| {
            job::finish(place.palisade(options, &["sh", "-c", line]).current_dir(place.work.join("sub")))
        };
        let line = "cat ../.env ../other/file own";
        assert_eq!(within(&[], line).out, "secret\nother\nown\n");
        assert_eq!(within(&["--hide", "../.env"], line).out, "other\nown\n");
        let run = within(&["--deny", "../.env", "--deny", "../other"], line);
        assert_eq!(run.out, "own\n", "{run:?}");
        assert!(run.err.contains("Permission denied"), "{run:?}");
        assert_eq!(within(&["--tmpfs", "../other"], line).out, "secret\nown\n");
        // The rule is about the working directory, too.
        assert_eq!(within(&["--hide", ".."], line).out, "");
        assert_eq!(within(&["--hide", "..", "--rw", "."], line).out, "own\n");
        assert_eq!(within(&["--rw", "../other"], "echo x >../other/file").code, 0);
        assert_eq!(place.read("work/other/file"), "x\n");
        assert_ne!(within(&[], "echo y >../other/file").code, 0);
    }
}
