// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade learn --verify`: the command runs a second time under the learned profile, and the differences are
//! printed before the profile is saved.

use crate::support::terminal::Terminal;
use crate::support::{Place, Run, everybody, has, job};
use std::fs::File;
use std::process::{Command, Stdio};

/// `palisade learn --verify --name p OPTIONS -- sh -c LINE` where there is no terminal.
fn command(place: &Place, options: &[&str], line: &str) -> Command {
    let mut palisade = place.command("setsid");
    palisade.arg("--wait").arg(place.binary()).args(["learn", "--verify", "--name", "p"]);
    palisade.args(options).args(["--", "sh", "-c", line]);
    palisade
}

fn verify(place: &Place, options: &[&str], line: &str) -> Run {
    job::finish(&mut command(place, options, line))
}

fn is_written(place: &Place) -> bool {
    place.home.join(".config/palisade/profiles/p.toml").exists()
}

/// Grants the directory `data` of the home.
fn data(place: &Place, option: &str) -> [String; 2] {
    [option.to_owned(), place.home.join("data").to_string_lossy().into_owned()]
}

#[test]
fn a_profile_that_is_enough_is_verified_and_written() {
    for place in everybody() {
        place.write("data/x", "read\n");
        place.write("temporary/.keep", "");
        let [option, path] = data(&place, "--ro");
        // What the first run hands to the second is no descriptor of the command's.
        let line = "cat ~/data/x; echo run >>runs; ls -l /proc/self/fd >fds; ! grep learned fds";
        let mut learn = command(&place, &["--yes", &option, &path], line);
        let run = job::finish(learn.env("TMPDIR", place.home.join("temporary")));
        assert_eq!((run.code, run.out.as_str()), (0, "read\nread\n"), "{run:?}");
        let verified = "verified: the second run, under the profile, ended as the first (exit code 0)";
        assert!(run.err.contains(verified) && !run.err.contains("in the second run"), "{run:?}");
        assert_eq!(place.read("work/runs"), "run\nrun\n");
        assert!(is_written(&place), "{run:?}");
        place.run(&["--profile", "p"], &["cat", &format!("{path}/x")]).ok();
        assert_eq!(place.outside("ls -A ~/temporary ~/.config/palisade/profiles | tr '\\n' ' '"), {
            let home = place.home.display();
            format!("{home}/.config/palisade/profiles: p.toml  {home}/temporary: .keep ")
        });
        place.assert_all_dead();
    }
}

#[test]
fn what_only_the_second_run_needs_is_said_and_nothing_is_kept() {
    for place in everybody() {
        place.write("data/x", "read\n");
        for (option, needs, said) in [
            ("--ro", "cat ~/data/x", "data/x couldn't be read by cat"),
            ("--rw", "echo y >~/data/y", "data couldn't be changed by sh"),
            ("--rw", "mkdir -p ~/data; echo y >~/data/y", "data was written to a private directory and lost"),
        ] {
            let line = format!("if [ -e once ]; then {needs}; else touch once; fi; true");
            let [option, path] = data(&place, option);
            for (options, kept) in [
                (&["--yes"][..], "note: nothing is written"),
                (&[], "nothing is written, there is no terminal to ask on"),
                (&["--output", "-"], "note: nothing is written"),
            ] {
                let run = verify(&place, &[options, &[&option, &path]].concat(), &line);
                run.refused(125, &["in the second run ", said, "not verified", kept]).with_hint();
                assert!(!is_written(&place) && !run.out.contains("schema"), "{run:?}");
                std::fs::remove_file(place.work.join("once")).unwrap();
            }
        }
        // It is shown all the same, and asked about at a terminal.
        let [option, path] = data(&place, "--ro");
        let line = "if [ -e once ]; then cat ~/data/x; else touch once; fi";
        let shown = verify(&place, &["--dry-run", &option, &path], line);
        shown.refused(125, &["its exit code was 1, not 0", "data/x couldn't be read by cat"]);
        assert!(shown.err.contains("+name = \"p\""), "{shown:?}");
    }
}

/// What fails in both runs is no difference; what the host refuses in both isn't either.
#[test]
fn a_command_may_fail_as_it_did_before() {
    for place in everybody() {
        let run = verify(&place, &["--yes"], "exit 7");
        assert_eq!(run.code, 7, "{run:?}");
        assert!(run.err.contains("ended as the first (exit code 7)") && is_written(&place), "{run:?}");
        let run = verify(&place, &["--yes"], "if [ -e once ]; then exit 3; fi; touch once");
        run.refused(125, &["in the second run its exit code was 3, not 0"]).with_hint();
        place.write("data/x", "not for others\n");
        place.outside("chmod 444 ~/data/x");
        let [option, path] = data(&place, "--rw");
        let run = verify(&place, &["--yes", &option, &path], "echo more >>~/data/x; true");
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.read("data/x"), "not for others\n");
    }
}

#[test]
fn the_second_run_reads_a_file_at_its_input_from_the_same_place() {
    for place in everybody() {
        let input = place.write("input", "five\n");
        let mut learn = command(&place, &["--yes"], "cat");
        learn.stdin(File::open(input).unwrap()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = job::wait(learn.spawn().unwrap());
        assert_eq!((run.code, run.out.as_str()), (0, "five\nfive\n"), "{run:?}");
    }
}

#[test]
fn a_second_run_without_a_first_is_an_error() {
    for place in everybody() {
        let words = ["learn", "--second-run=77", "--verify", "--", "touch", "started"];
        let run = job::finish(place.command(place.binary()).args(words));
        run.refused(125, &["can't read what a first run has learned"]).with_hint();
        assert!(!place.work.join("started").exists());
        let help = job::finish(place.command(place.binary()).args(["learn", "--help"]));
        assert!(help.ok().contains("--verify") && !help.out.contains("second-run"), "{help:?}");
        for shell in ["bash", "zsh", "fish"] {
            let script = job::finish(place.command(place.binary()).args(["completions", shell]));
            assert!(script.ok().contains("verify") && !script.out.contains("second-run"), "{shell}");
        }
    }
}

/// On a terminal for each person: `palisade learn`, and what the shell says of its end.
fn on_terminals(test: impl Fn(&Place, &Terminal<'_>, &str)) {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        let terminal = Terminal::open(&place);
        test(&place, &terminal, &format!("{} learn --quiet --name p", place.binary().display()));
    }
}

#[test]
fn control_c_ends_the_second_run_and_nothing_is_kept() {
    on_terminals(|place, terminal, learn| {
        let line = "if [ -e once ]; then echo sec\"\"ond; sleep 1000; fi; touch once";
        terminal.line(&format!("{learn} --verify --yes -- sh -c '{line}'; echo \"code $?\""));
        terminal.wait_for_line("second");
        terminal.key("C-c");
        terminal.wait_for_line("code 125");
        // Where the line is broken depends on how long the place's name is.
        let said: String = terminal.screen().split_whitespace().collect();
        assert!(said.contains("itsexitcodewas130,not0"), "{said}");
        assert!(!is_written(place));
        assert!(!place.living().iter().any(|process| process.contains("sleep")), "{:?}", place.living());
        terminal.line("echo ba''ck");
        terminal.wait_for_line("back");
    });
}

/// Waits for the question, and not for that before it, which is on the screen until that is cleared.
fn is_asked(terminal: &Terminal<'_>) {
    terminal.wait_until("Write /", |screen| screen.contains("Write /") && !screen.contains("code 130"));
}

#[test]
fn control_c_at_the_question_keeps_nothing() {
    on_terminals(|place, terminal, learn| {
        for verify in ["", "--verify"] {
            terminal.line(&format!("clear; {learn} {verify} -- true"));
            is_asked(terminal);
            terminal.key("C-c");
            // What is typed before the shell is back is thrown away with the key.
            terminal.wait_for_line("$");
            terminal.line("echo code $?");
            terminal.wait_for_line("code 130");
            assert!(!is_written(place));
        }
        terminal.line(&format!("clear; {learn} --verify -- true; echo \"code $?\""));
        is_asked(terminal);
        terminal.line("y");
        terminal.wait_for_line("code 0");
        assert!(is_written(place));
    });
}
