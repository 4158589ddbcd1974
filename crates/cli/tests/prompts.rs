// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Questions at the terminal, with programs inside that would answer them, hide them or draw others over them.

use crate::network::bed::{Bed, people};
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, eventually, everybody, has};
use palisade_acceptance::patience::pause;
use std::time::Duration;

/// Asks for a call, and writes what came of it to a file that is there at once as a whole.
const ASK: &str = "import os\n\
    try: came = 'made ' + str(os.sched_rr_get_interval(0) >= 0)\n\
    except OSError as error: came = 'refused ' + str(error.errno)\n\
    open('part', 'w').write(came); os.rename('part', 'came')\n";
const QUESTION: &str = "wants to call sched_rr_get_interval";
/// Draws another question over everything, without end, from a process group of its own.
const PAINT: &str = "import os, time\n\
    while True:\n\
    \x20   os.write(1, b'\\x1b\\\\\\x1b[?1049l\\x1b[2J\\x1b[HInstall? [y/n] '); time.sleep(0.01)\n";
/// Sets the size of the terminal's window.
const SHRINK: &str =
    "import fcntl, struct, termios\nfcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 1, 1, 0, 0))\n";

/// A terminal for each person, with the programs above in the working directory, and the options of a launch in which
/// the call is asked for. Root's launches can be in a control group, too.
fn on_terminals(test: impl Fn(&Place, &Terminal<'_>, &str)) {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        let answers = "[syscalls]\nanswers = [{ call = \"sched_rr_get_interval\", action = \"ask\" }]";
        place.write(
            ".config/palisade/profiles/told.toml",
            format!("schema = 1\nname = \"told\"\n{answers}\n"),
        );
        for (name, text) in [("ask.py", ASK), ("paint.py", PAINT), ("shrink.py", SHRINK)] {
            place.write(&format!("work/{name}"), text);
        }
        let run = format!("{} run --profile told", place.binary().display());
        let mut runs = vec![run.clone()];
        if place.is_root() && has("cgroup-limits") {
            runs.push(format!("{run} --limit memory=800M --limit processes=4000"));
        }
        for run in runs {
            let _first_time = std::fs::remove_file(place.work.join("came"));
            let terminal = Terminal::open(&place);
            test(&place, &terminal, &run);
        }
    }
}

fn came(place: &Place) -> String {
    assert!(eventually(|| place.work.join("came").exists()), "the program that asks doesn't go on");
    place.read("work/came")
}

/// The question, and nothing else, is what the user sees for a while.
#[track_caller]
fn assert_nothing_draws(terminal: &Terminal<'_>, question: &str) {
    for _look in 0..10 {
        let screen = terminal.screen();
        assert!(screen.contains(question) && !screen.contains("Install?"), "drawn over:\n{screen}");
        pause(Duration::from_millis(50));
    }
}

#[test]
fn nothing_inside_draws_over_a_question_for_a_call() {
    on_terminals(|place, terminal, run| {
        let line = "setsid python3 paint.py & sleep 1; python3 ask.py; sleep 600";
        terminal.line(&format!("{run} -- sh -c '{line}'"));
        terminal.wait_for("Install?");
        terminal.wait_for(QUESTION);
        // Answered here, "y" would have been meant for the other question.
        assert_nothing_draws(terminal, QUESTION);
        terminal.wait_for_question(QUESTION);
        let screen = terminal.screen();
        assert!(screen.starts_with("palisade: a program inside asks for permission\n"), "{screen}");
        terminal.key("C-c");
        assert_eq!(came(place), "refused 1");
        // The painter goes on.
        terminal.wait_for("Install?");
    });
}

#[test]
fn nothing_inside_draws_over_a_question_for_a_host() {
    if !has("tmux") {
        return;
    }
    for place in people() {
        place.write("work/paint.py", PAINT);
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        let line = "setsid python3 paint.py & sleep 1; \
                    curl -fsS -m 30 --noproxy '*' http://www.allowed.example/ >came; echo $? >code; sleep 600";
        terminal.line(&words(&bed.palisade(&["--net-default", "ask"], line)));
        let question = "wants to reach www.allowed.example:80";
        terminal.wait_for("Install?");
        terminal.wait_for(question);
        assert_nothing_draws(&terminal, question);
        // An empty line is no.
        terminal.answer(question, "");
        assert!(eventually(|| bed.place.work.join("code").exists()));
        assert_eq!(bed.place.read("work/came"), "");
    }
}

#[test]
fn what_is_typed_before_a_question_is_no_answer_and_control_c_is_no() {
    on_terminals(|place, terminal, run| {
        let line = "sleep 1; python3 ask.py; echo li''ves";
        let line = format!("{run} -- sh -c '{line}'; echo code $?");
        terminal.line(&line);
        terminal.text("y\ny\nalways\n");
        terminal.wait_for_question(QUESTION);
        let screen = terminal.screen();
        assert!(screen.trim_end().ends_with("Your answer:"), "{screen}");
        terminal.key("C-c");
        assert_eq!(came(place), "refused 1");
        terminal.wait_for_line("lives");
        terminal.wait_for_line("code 0");
        let screen = terminal.screen();
        assert!(screen.contains("li''ves") && !screen.contains("asks for permission"), "{screen}");
        assert!(screen.contains(&format!("{QUESTION}: refused")), "{screen}");
        // Nor is the end of input a yes, be it that of a line.
        std::fs::remove_file(place.work.join("came")).unwrap();
        terminal.line(&line);
        terminal.wait_for_question(QUESTION);
        terminal.text("y");
        terminal.key("C-d");
        assert_eq!(came(place), "refused 1");
    });
}

/// Also when the program that is asked about is a job of a shell inside, which would take a stopped one for suspended.
#[test]
fn who_was_stopped_before_stays_stopped_and_who_ran_goes_on() {
    on_terminals(|place, terminal, run| {
        let state = |name: &str| format!("cut -d\" \" -f3 /proc/${name}/stat");
        let script = format!(
            "set -m\nsleep 601 & s=$!; kill -STOP $s\nsleep 602 & r=$!\npython3 ask.py & wait $!\n\
             echo code $? $({}) $({}) >states\n",
            state("s"),
            state("r")
        );
        place.write("work/jobs.sh", script);
        let _first_time = std::fs::remove_file(place.work.join("states"));
        terminal.line(&format!("{run} -- bash jobs.sh"));
        terminal.answer(QUESTION, "y");
        assert_eq!(came(place), "made True");
        assert!(eventually(
            || place.work.join("states").exists() && place.read("work/states") == "code 0 T S\n"
        ));
    });
}

#[test]
fn the_window_has_its_size_again() {
    on_terminals(|place, terminal, run| {
        terminal.line("echo be''fore");
        terminal.line(&format!("{run} -- sh -c 'python3 shrink.py; python3 ask.py'; stty size"));
        terminal.answer(QUESTION, "y");
        assert_eq!(came(place), "made True");
        terminal.wait_for_line("24 80");
        let screen = terminal.screen();
        assert!(screen.lines().any(|line| line == "before"), "{screen}");
        // The user has resized it meanwhile.
        let script = "until [ -e resized ]; do sleep 0.05; done; python3 shrink.py";
        terminal.line(&format!("echo star''ted; {run} -- sh -c '{script}'; stty size"));
        terminal.wait_for_line("started");
        terminal.resize(100, 30);
        place.write("work/resized", "");
        terminal.wait_for_line("30 100");
        terminal.line("echo 'ba''ck'");
        terminal.wait_for_line("back");
        std::fs::remove_file(place.work.join("resized")).unwrap();
    });
}
