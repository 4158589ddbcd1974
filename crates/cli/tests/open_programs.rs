// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests opening programs that no profile describes, and another program than the profile's; and the shell in which a
//! user looks around inside.

use crate::support::{Place, Run, eventually, everybody, has, job};
use std::io::Write;
use std::process::Stdio;

fn open(place: &Place, arguments: &[&str]) -> Run {
    job::finish(place.command(place.binary()).arg("open").args(arguments))
}

#[test]
fn a_program_without_a_profile_sees_its_own_files() {
    for place in everybody() {
        place.write("secret", "secret");
        place.write("work/data", "b\na\n");
        place.write("work/script", "#!/bin/sh\ncat ~/secret; echo /usr/bin/w[c]; echo done\n");
        place.write("work/plain", "schema = 1\n[progam]\n");
        place.outside("chmod 755 ~/work/script ~/work/plain");
        let outside = place.outside("~/work/script");
        assert!(outside.starts_with("secret") && outside.contains("/usr/bin/wc"), "{outside}");
        for program in ["sort", "/usr/bin/sort"] {
            for _cold_and_hot in 0..2 {
                // The argument's file is shown, and the messages say what is.
                let run = open(&place, &[program, "data"]);
                assert_eq!((run.ok(), run.code), ("a\nb", 0), "{run:?}");
                for said in
                    [&format!("no profile for {program}:"), "view closure", "home none", "network none"]
                {
                    assert!(run.err.contains(said), "{said}: {run:?}");
                }
            }
        }
        let run = open(&place, &["--home", "private", "--net", "host", "sort", "data"]);
        assert!(run.err.contains("home private; network host"), "{run:?}");
        let run = open(&place, &["./script"]);
        assert_eq!(run.ok(), "/usr/bin/w[c]\ndone", "{run:?}");
        // The change that the message proposes.
        let run = open(&place, &["--quiet", "--ro", "../secret", "./script"]);
        assert!(run.out.starts_with("secret"), "{run:?}");
        // A mistake in a profile is reported, even if the profile can be executed. A name that is neither stays an error.
        open(&place, &["./plain"]).refused(125, &["progam"]);
        open(&place, &["no-such-program"])
            .refused(125, &["there is no profile \"no-such-program\""])
            .with_hint();
        open(&place, &["--config", "x", "sort"]).refused(125, &["there is no profile \"sort\""]);
        // A profile that is made later is used.
        place.write(
            ".config/palisade/profiles/sort.toml",
            "schema = 1\nname = \"sort\"\n[program]\npath = \"cat\"\npass_files = \"read\"\n",
        );
        assert_eq!(open(&place, &["sort", "data"]).ok(), "b\na");
    }
}

/// A second launch with the same program uses the plan of the first.
#[test]
fn a_plan_for_another_program_is_kept() {
    for place in everybody() {
        place.write(
            ".config/palisade/profiles/app.toml",
            "schema = 1\nname = \"app\"\n[program]\npath = \"cat\"\n",
        );
        let plans = || {
            let found = std::fs::read_dir(place.home.join(".cache/palisade/plans"));
            found.map_or(0, |plans| plans.filter_map(Result::ok).count())
        };
        let with = |arguments: &[&str]| {
            let before = plans();
            let run = open(&place, arguments);
            assert_eq!(run.code, 0, "{run:?}");
            (run.out.trim_end().to_owned(), plans() > before)
        };
        let programs = place.outside("readlink -f /usr/bin/basename /usr/bin/dirname");
        for program in programs.lines() {
            let name = program.rsplit('/').next().unwrap();
            let came = if name == "basename" { "b" } else { "/a" };
            // No plan is kept while something that it depends on has just changed.
            assert!(
                eventually(|| with(&["--program", program, "app", "/a/b"]).1),
                "{program}: no plan is kept"
            );
            let seen = with(&["--program", program, "app", "/a/b"]);
            assert_eq!(seen, (came.to_owned(), false), "{program}");
        }
        // The plans aren't the profile's, and another option isn't part of their key.
        assert_eq!(with(&["app", "/dev/null"]).0, "");
        let run = open(&place, &["--program", "/usr/bin/basename", "--home", "private", "app", "/a/b"]);
        assert_eq!(run.ok(), "b", "{run:?}");
    }
}

/// A profile with many libraries: its files are allowed by rules, under which no directory can be listed. The shell
/// lists directories, and a list has only files that are visible.
#[test]
fn a_shell_inside_lists_what_is_visible() {
    for place in everybody().iter().filter(|_| has("python3")) {
        place.write(
            ".config/palisade/profiles/app.toml",
            "schema = 1\nname = \"app\"\n[program]\npath = \"python3\"\n",
        );
        let line =
            "cd /usr && ls -d bin && ls / /etc >/dev/null && echo listed; ls /usr/bin; test -x /usr/bin/wc";
        let application = open(place, &["app", "-c", "import os; os.listdir('/usr')"]);
        assert!(application.err.contains("Permission denied: '/usr'"), "{application:?}");
        let run = open(place, &["--shell", "app", "-c", line]);
        assert!(run.out.starts_with("bin\nlisted\n"), "{run:?}");
        assert!(run.out.lines().any(|name| name == "python3"), "the application's program: {run:?}");
        assert!(!run.out.lines().any(|name| name == "wc") && run.code == 1, "{run:?}");
        // Of a command, too. The shell reads what to do from standard input.
        place.write("work/script", "#!/usr/bin/env python3\n");
        place.outside("chmod 755 script");
        for (command, shown) in [("python3", "python3"), ("./script", "python3"), ("no-such-program", "")] {
            let options = ["--quiet", "--view", "closure", "--shell"];
            let mut shell = place.palisade(&options, &[command]);
            let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            child
                .stdin
                .take()
                .unwrap()
                .write_all(b"cd /usr/bin; ls -d python3 wc 2>/dev/null; exit 0\n")
                .unwrap();
            assert_eq!(job::wait(child).ok(), shown, "{command}");
        }
    }
}
