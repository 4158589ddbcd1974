// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests questions at the terminal while programs inside try to answer them, hide them or draw other questions over them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::network::bed::{Bed, people};
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, eventually, everybody, has};
use palisade_acceptance::patience::pause;
use std::time::Duration;

/// Makes a call, and writes its result to a file that appears complete.
const ASK: &str = "import os\n\
    try: came = 'made ' + str(os.sched_rr_get_interval(0) >= 0)\n\
    except OSError as error: came = 'refused ' + str(error.errno)\n\
    open('part', 'w').write(came); os.rename('part', 'came')\n";
const QUESTION: &str = "wants to call sched_rr_get_interval";
/// Draws another question over the whole screen without end, in its own process group.
const PAINT: &str = "import os, time\n\
    while True:\n\
    \x20   os.write(1, b'\\x1b\\\\\\x1b[?1049l\\x1b[2J\\x1b[HInstall? [y/n] '); time.sleep(0.01)\n";
/// Draws it in its own child, which it traces: no signal but the first reaches that.
const TRACE: &str = "import ctypes, os, signal, time\n\
    trace = ctypes.CDLL(None).ptrace\n\
    trace.argtypes = [ctypes.c_long] * 4\n\
    child = os.fork()\n\
    if child == 0:\n\
    \x20   trace(0, 0, 0, 0)\n\
    \x20   os.kill(os.getpid(), signal.SIGSTOP)\n\
    \x20   exec(open('paint.py').read())\n\
    while True:\n\
    \x20   pid, status = os.waitpid(child, 0)\n\
    \x20   open('traced', 'a').write(str(os.WSTOPSIG(status)) + ' ')\n\
    \x20   trace(7, child, 0, 0)\n";
/// Draws it in a child. The kernel keeps the parent waiting for the child's end, as after vfork(2).
const VFORK: &str = "import ctypes, os\n\
    CLONE_VFORK, SIGCHLD = 0x4000, 17\n\
    clone = {'x86_64': 56, 'aarch64': 220}[os.uname().machine]\n\
    if ctypes.CDLL(None).syscall(clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0:\n\
    \x20   open('vforked', 'w').write(open('/proc/%d/stat' % os.getppid()).read().rsplit(')', 1)[1].split()[0])\n\
    \x20   exec(open('paint.py').read())\n";
/// Prints as much as a pipe takes.
const FILL: &str = "import os\n\
    text = b'\\x1b[?1049l\\x1b[2J\\x1b[HInstall? [y/n] ' + b'.' * 200\n\
    for _ in range(100): os.write(1, text)\n\
    open('filled', 'w').close()\n\
    while True: os.write(1, text)\n";
/// Copies a pipe to the terminal, little by little.
const TRICKLE: &str = "import os, time\nwhile True: os.write(1, os.read(0, 100)); time.sleep(0.01)\n";
/// Copies a pipe to the terminal once the file `go` exists.
const HOLD: &str = "import os, time\n\
    while not os.path.exists('go'): time.sleep(0.02)\n\
    while (text := os.read(0, 65536)): os.write(1, text)\n";
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
        for (name, more) in
            [("told", ""), ("traced", "allow = [\"ptrace\"]\n[filesystem]\nprotect = \"mounts\"")]
        {
            place.write(
                &format!(".config/palisade/profiles/{name}.toml"),
                format!("schema = 1\nname = \"{name}\"\n{answers}\n{more}\n"),
            );
        }
        for (name, text) in [
            ("ask.py", ASK),
            ("paint.py", PAINT),
            ("trace.py", TRACE),
            ("vfork.py", VFORK),
            ("fill.py", FILL),
            ("trickle.py", TRICKLE),
            ("hold.py", HOLD),
            ("shrink.py", SHRINK),
        ] {
            place.write(&format!("work/{name}"), text);
        }
        let run = format!("{} run --profile told", place.binary().display());
        let mut runs = vec![run.clone()];
        if place.is_root() && has("cgroup-limits") {
            runs.push(format!("{run} --limit memory=800M --limit processes=4000"));
        }
        for run in runs {
            for made in ["came", "filled", "go", "traced", "vforked"] {
                let _first_time = std::fs::remove_file(place.work.join(made));
            }
            let terminal = Terminal::open(&place);
            test(&place, &terminal, &run);
        }
    }
}

fn came(place: &Place) -> String {
    assert!(eventually(|| place.work.join("came").exists()), "the program that asks doesn't go on");
    place.read("work/came")
}

/// Asserts that for a while the user sees the question and nothing else.
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
        terminal.key("Enter");
        assert_eq!(came(place), "refused 1");
        // The painter goes on.
        terminal.wait_for("Install?");
    });
}

/// What the command runs in these launches until the test tells it to end.
const UNTIL_TOLD: &str =
    "until [ -e asked ]; do sleep 0.05; done; python3 ask.py; until [ -e over ]; do sleep 0.05; done";

/// Ends such a launch, and forgets it. What was drawn before can reach the screen after that, over anything: the shell says that it
/// goes on until that is seen.
fn end(place: &Place, terminal: &Terminal<'_>) {
    place.write("work/over", "");
    assert!(eventually(|| place.work.join("left").exists()), "the launch doesn't end");
    let is_seen = eventually(|| {
        terminal.line("clear; echo en''ded");
        pause(Duration::from_millis(200));
        terminal.screen().lines().any(|line| line == "ended")
    });
    assert!(is_seen, "{}", terminal.screen());
    for made in ["came", "asked", "over", "left"] {
        std::fs::remove_file(place.work.join(made)).unwrap();
    }
}

/// Programs that are hard to stop: a traced one that its tracer lets continue, one that the kernel keeps waiting for its child,
/// and one in another group that copies other programs' output from a pipe.
#[test]
fn who_is_hard_to_stop_draws_over_no_question() {
    on_terminals(|place, terminal, run| {
        for painter in [
            "setsid python3 trace.py",
            "setsid python3 vfork.py",
            "python3 fill.py | setsid python3 trickle.py",
        ] {
            // A broker can't be used with tracing.
            let run = if painter.contains("trace") { run.replace("told", "traced") } else { run.to_owned() };
            terminal.line(&format!("clear; {run} -- sh -c '{painter} & {UNTIL_TOLD}'; : >left"));
            terminal.wait_for("Install?");
            place.write("work/asked", "");
            terminal.wait_for(QUESTION);
            assert_nothing_draws(terminal, QUESTION);
            terminal.wait_for_question(QUESTION);
            terminal.key("Enter");
            assert_eq!(came(place), "refused 1", "{painter}");
            // It goes on.
            terminal.wait_for("Install?");
            end(place, terminal);
        }
        // Both programs were in the intended state.
        assert!(place.read("work/traced").starts_with("19 "), "{}", place.read("work/traced"));
        assert_eq!(place.read("work/vforked"), "D");
    });
}

/// Output that a program outside hasn't copied to the terminal yet could cover a question, so no question is asked.
#[test]
fn what_is_left_in_a_pipe_to_the_outside_covers_no_question() {
    on_terminals(|place, terminal, run| {
        let line =
            format!("{run} -- sh -c 'python3 fill.py & {UNTIL_TOLD}' | setsid python3 hold.py; : >left");
        terminal.line(&line);
        assert!(eventually(|| place.work.join("filled").exists()), "nothing fills the pipe");
        place.write("work/asked", "");
        assert_eq!(came(place), "refused 1");
        terminal.wait_for("refused without a question: a pipe still holds");
        place.write("work/go", "");
        terminal.wait_for("Install?");
        end(place, terminal);
        // A program that reads the output all the time prevents no question.
        let line =
            format!("clear; {run} -- sh -c 'setsid python3 paint.py & {UNTIL_TOLD}' | setsid cat; : >left");
        terminal.line(&line);
        terminal.wait_for("Install?");
        place.write("work/asked", "");
        terminal.wait_for(QUESTION);
        assert_nothing_draws(terminal, QUESTION);
        terminal.answer(QUESTION, "y");
        assert_eq!(came(place), "made True");
        end(place, terminal);
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
fn what_is_typed_before_a_question_is_no_answer_and_the_end_of_input_is_no() {
    on_terminals(|place, terminal, run| {
        let line = "sleep 1; python3 ask.py; echo li''ves";
        let line = format!("{run} -- sh -c '{line}'; echo code $?");
        terminal.line(&line);
        terminal.text("y\ny\nalways\n");
        terminal.wait_for_question(QUESTION);
        let screen = terminal.screen();
        assert!(screen.trim_end().ends_with("Your answer:"), "{screen}");
        // In the middle of a line, too.
        terminal.text("y");
        terminal.key("C-d");
        assert_eq!(came(place), "refused 1");
        terminal.wait_for_line("lives");
        terminal.wait_for_line("code 0");
        let screen = terminal.screen();
        assert!(screen.contains("li''ves") && !screen.contains("asks for permission"), "{screen}");
        assert!(screen.contains(&format!("{QUESTION}: refused")), "{screen}");
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
