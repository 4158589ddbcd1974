// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the syscall modes by program: calls are learned, then enforced, or the user is asked.

use crate::support::job::below;
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, Run, eventually, everybody, has, job};

use palisade_acceptance::patience::pause;
use rustix::process::{Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

/// A line of Python that makes a call that Python by itself doesn't make.
const PRIORITY: &str = "import os; print(os.getpriority(os.PRIO_PROCESS, 0))";
/// The same with another one.
const INTERVAL: &str = "import os; print(os.sched_rr_get_interval(0) >= 0)";

fn python(place: &Place, options: &[&str], line: &str) -> Run {
    let mut command = place.command(place.binary());
    job::finish(command.arg("run").args(options).args(["--", "python3", "-c", line]))
}

fn palisade(place: &Place, arguments: &[&str]) -> Run {
    job::finish(place.command(place.binary()).args(arguments))
}

const LEARN: &[&str] = &["--syscalls", "learn"];
const ENFORCE: &[&str] = &["--syscalls", "enforce"];
const KILL: &[&str] = &["--syscalls", "enforce", "--syscall-refusal", "kill"];

#[test]
fn what_was_learned_may_be_called_and_nothing_else() {
    for place in everybody() {
        let run = python(&place, ENFORCE, PRIORITY);
        run.refused(125, &["no system calls were learned for \"/usr/bin/python3"]).with_hint();
        let run = python(&place, LEARN, PRIORITY);
        assert!(run.err.contains("new system calls were learned for \"/usr/bin/python3"), "{run:?}");
        assert!(run.err.contains("\", from 1 programs"), "{run:?}");
        assert_eq!(run.ok(), "0");
        for _cold_and_hot in 0..3 {
            assert_eq!(python(&place, ENFORCE, PRIORITY).ok(), "0");
            assert_eq!(python(&place, KILL, PRIORITY).ok(), "0");
            // Outside the same works.
            assert_eq!(place.outside(&format!("python3 -c '{INTERVAL}'")), "True\n");
            let run = python(&place, ENFORCE, INTERVAL);
            assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
            assert!(run.err.contains("PermissionError"), "{run:?}");
            let told = "refused: syscall sched_rr_get_interval by /usr/bin/python3";
            assert!(
                run.err.contains(told)
                    && run.err.contains("it wasn't learned for programs of /usr/bin/python3"),
                "{run:?}"
            );
            let run = python(&place, KILL, INTERVAL);
            assert_eq!((run.code, run.out.as_str()), (128 + 9, ""), "{run:?}");
            assert!(run.err.contains("killed: syscall sched_rr_get_interval by /usr/bin/python3"), "{run:?}");
        }
        let watched = palisade(&place, &["watch", "--all", "--no-follow", "--json"]);
        let event = watched.ok().lines().find(|line| line.contains("\"killed\"")).unwrap().to_owned();
        assert!(
            event.contains("\"sched_rr_get_interval\"") && event.contains("palisade syscalls explain"),
            "{event}"
        );
        // Learned once more, it may be called from the next launch on, though that plan is kept.
        let run = python(&place, LEARN, INTERVAL);
        assert!(run.err.contains("1 new system calls were learned"), "{run:?}");
        assert_eq!(python(&place, ENFORCE, INTERVAL).ok(), "True");
        assert_eq!(python(&place, KILL, PRIORITY).ok(), "0");
        place.assert_all_dead();
    }
}

/// When a process signals its own threads depends on how they meet, so no run teaches it for certain.
#[test]
fn a_process_signals_its_own_threads_without_having_learned_it() {
    let line = |call: &str| {
        format!(
            "import ctypes, os, signal, threading; libc = ctypes.CDLL(None, use_errno=True)\n\
             if os.fork() == 0: {call}; print(flush=True); os._exit(0)\n\
             os.wait()"
        )
    };
    let own = line("print(signal.pthread_kill(threading.get_ident(), 0), end='')");
    let other = line("print(libc.tgkill(os.getppid(), os.getppid(), 0), ctypes.get_errno(), end='')");
    for place in everybody() {
        assert_eq!(python(&place, LEARN, &line("pass")).ok(), "");
        assert_eq!(python(&place, KILL, &own).ok(), "None");
        assert_eq!(python(&place, &[], &other).ok(), "0 0");
        let run = python(&place, ENFORCE, &other);
        assert_eq!(run.out.trim(), "-1 1", "{run:?}");
        assert!(run.err.contains("refused: syscall tgkill by"), "{run:?}");
    }
}

/// What another file teaches that is called like a program permits nothing to that program, whatever the file is.
#[test]
fn a_program_is_not_its_name() {
    for place in everybody() {
        let run = |mode: &str, program: &str, line: &str| {
            palisade(&place, &["run", "--syscalls", mode, "--", program, "-c", line])
        };
        assert_eq!(python(&place, LEARN, PRIORITY).ok(), "0");
        place.outside("mkdir lp && cp $(readlink -f $(command -v python3)) lp/python3");
        assert_eq!(run("learn", "./lp/python3", INTERVAL).ok(), "True");
        assert_eq!(run("enforce", "./lp/python3", INTERVAL).ok(), "True");
        assert_eq!(run("enforce", "python3", INTERVAL).code, 1, "a copy");
        // A script that has the program itself make the call.
        place.outside("rm lp/python3; printf '#!/usr/bin/python3\nimport os; os.sched_rr_get_interval(0)\n' >lp/python3; chmod +x lp/python3");
        let other = run("enforce", "./lp/python3", INTERVAL);
        other.refused(125, &["no system calls were learned for", "lp/python3 ("]).with_hint();
        run("learn", "./lp/python3", INTERVAL).ok();
        assert_eq!(run("enforce", "python3", INTERVAL).code, 1, "a script");
        // Renamed, it is another program, too.
        place.outside("mv lp/python3 lp/moved");
        run("enforce", "./lp/moved", INTERVAL).refused(125, &["lp/moved ("]).with_hint();
        // A link is the program that it leads to.
        place.outside("ln -s /usr/bin/python3 lp/python3");
        assert_eq!(run("enforce", "./lp/python3", INTERVAL).code, 1, "a link");
        assert_eq!(run("enforce", "python3", PRIORITY).ok(), "0");
        let listed = palisade(&place, &["syscalls", "list"]);
        assert!(
            listed.ok().contains("/usr/bin/python3") && listed.out.contains("lp/python3 ("),
            "{listed:?}"
        );
    }
}

/// What an older Palisade learned under the name of a command is kept, and takes effect only after the user merges it.
#[test]
fn what_was_kept_by_a_name_is_taken_over_when_it_is_asked_for() {
    for place in everybody() {
        let exported = "schema = 1\nprofile = \"python3\"\ncalls = [\"getpriority\"]\n";
        place.write("work/old.toml", exported);
        palisade(&place, &["syscalls", "import", "old.toml", "--profile", "python3"]).ok();
        let refused = python(&place, ENFORCE, PRIORITY);
        refused.refused(125, &["no system calls were learned for \"/usr/bin/python3"]);
        let hint = refused.err.lines().find_map(|line| line.strip_prefix("hint: palisade ")).unwrap();
        assert!(hint.starts_with("syscalls merge python3 --into /usr/bin/python3"), "{hint}");
        let words: Vec<&str> = hint.split('#').next().unwrap().split_whitespace().collect();
        palisade(&place, &words).ok();
        let shown = palisade(&place, &["syscalls", "show", "/usr/bin/python3"]);
        assert!(shown.ok().contains("getpriority"), "{shown:?}");
        assert_ne!(python(&place, ENFORCE, PRIORITY).code, 125);
    }
}

#[test]
fn calls_are_the_programs_that_made_them() {
    for place in everybody() {
        let line = format!("nice -n 1 true; python3 -c '{PRIORITY}'; sync -f .; cat /dev/null");
        let run = palisade(&place, &["run", "--syscalls", "learn", "-c", &line]);
        assert_eq!(run.ok(), "0", "{run:?}");
        let learned = |program: &str| {
            let shown = palisade(&place, &["syscalls", "show", program, "--json"]);
            shown.ok().to_owned()
        };
        let real =
            |program: &str| place.outside(&format!("readlink -f $(command -v {program})")).trim().to_owned();
        let (nice, python, sync) =
            (learned(&real("nice")), learned(&real("python3")), learned(&real("sync")));
        assert!(nice.contains("\"setpriority\"") && !nice.contains("\"syncfs\""), "{nice}");
        assert!(python.contains("\"getpriority\"") && !python.contains("\"setpriority\""), "{python}");
        assert!(sync.contains("\"syncfs\""), "{sync}");
        // Whatever runs by the profile may make the calls of all its programs.
        let run = palisade(&place, &["run", "--syscalls", "enforce", "-c", &line]);
        assert_eq!(run.ok(), "0", "{run:?}");
        assert!(run.err.is_empty(), "{run:?}");
    }
}

/// The broker remembers for a moment which program a thread runs. It forgets that at an exec, whichever thread executed.
#[test]
fn a_program_makes_its_first_calls_itself() {
    for place in everybody() {
        place.outside(
            "cp $(readlink -f $(command -v cat)) one && cp one two && cp one three && echo done >text",
        );
        // These processes end before the memory would expire anyway. The first thread continues to call until the exec ends it.
        let line = "import os, threading\n\
                    def calls():\n\
                    \x20   while True: os.close(os.open('text', os.O_RDONLY))\n\
                    if os.fork() == 0:\n\
                    \x20   for _ in range(9): os.close(os.open('text', os.O_RDONLY))\n\
                    \x20   os.execv('./one', ['one', 'text'])\n\
                    os.wait()\n\
                    os.waitpid(os.posix_spawn('./two', ['two', 'text'], os.environ), 0)\n\
                    threading.Timer(0.3, os.execv, ['./three', ['three', 'text']]).start()\n\
                    calls()\n";
        let run = python(&place, LEARN, line);
        assert_eq!(run.ok(), "done\ndone\ndone", "{run:?}");
        for program in ["one", "two", "three"] {
            let path = place.work.join(program);
            let shown = palisade(&place, &["syscalls", "show", path.to_str().unwrap(), "--json"]);
            // Which all have made already, as another program.
            assert!(shown.ok().contains("\"openat\""), "{program}: {shown:?}");
        }
        place.assert_all_dead();
    }
}

/// By a profile, whatever the command; and what its policy allows by name needn't be learned.
#[test]
fn a_profile_says_the_mode() {
    for place in everybody() {
        let profile = |body: &str| {
            place.write(
                ".config/palisade/profiles/tool.toml",
                format!("schema = 1\nname = \"tool\"\n[program]\npath = \"python3\"\n[closure]\nprograms = [\"sh\"]\n[syscalls]\n{body}\n"),
            );
        };
        profile("mode = \"learn\"");
        let open = |line: &str| palisade(&place, &["open", "tool", "-c", line]);
        assert_eq!(open(PRIORITY).ok(), "0");
        profile("mode = \"enforce\"");
        assert_eq!(open(PRIORITY).ok(), "0");
        assert_eq!(open(INTERVAL).code, 1);
        profile("mode = \"enforce\"\nrefusal = \"kill\"");
        assert_eq!(open(INTERVAL).code, 128 + 9);
        profile("mode = \"enforce\"\nallow = [\"sched_rr_get_interval\"]");
        assert_eq!(open(INTERVAL).ok(), "True");
        profile("mode = \"enforced\"");
        open(PRIORITY).refused(125, &["mode", "enforce"]);
    }
}

/// Allowing a call allows nothing else: names stay protected, and calls that are always refused stay refused.
#[test]
fn the_broker_judges_names_in_every_mode() {
    for place in everybody() {
        let line = "echo a >file && mv file other && cat other && mkdir .vscode; \
                    python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.mount(None, None, None, 0, None), ctypes.get_errno())'";
        let expected = "a\n-1 1\n";
        for mode in ["off", "learn", "enforce", "learn"] {
            let run = palisade(&place, &["run", "--syscalls", mode, "-c", line]);
            assert_eq!(run.out, expected, "{mode}: {run:?}");
            assert!(run.err.contains("refused: write") && run.err.contains(".vscode"), "{mode}: {run:?}");
            let told = run.err.matches("refused: syscall").count();
            assert_eq!(told, run.err.matches("refused: syscall mount by ").count(), "{mode}: {run:?}");
            assert_eq!(told, 1, "{mode}: {run:?}");
            // Without a broker for names, too.
            let run = palisade(
                &place,
                &["run", "--protect", "off", "--syscalls", mode, "-c", "echo a >file; cat file; connect=1"],
            );
            assert_eq!(run.ok(), "a", "{mode}: {run:?}");
        }
        // `mount` was never made, so it isn't learned.
        let shown = palisade(&place, &["syscalls", "show", "sh", "--json"]);
        assert!(shown.ok().contains("\"mkdir\"") && !shown.out.contains("\"mount\""), "{shown:?}");
    }
}

/// What was learned is out of reach of what is confined by it.
#[test]
fn what_is_confined_cannot_learn_by_itself() {
    for place in everybody() {
        python(&place, LEARN, "pass").ok();
        let store = ".local/state/palisade/syscalls.sqlite";
        assert!(place.home.join(store).exists());
        let before = std::fs::read(place.home.join(store)).unwrap();
        let line = format!("echo x >>~/{store}; rm -f ~/{store}; mv ~/.local/state ~/.local/other; true");
        for options in [&["--rw", "~"][..], &["--view", "host", "--rw", "~/.local"], &[]] {
            let run = palisade(&place, &[&["run"], options, &["-c", &line]].concat());
            // Granting a directory above it is refused as a whole, or it isn't there inside.
            assert!(run.code == 125 || run.code == 0, "{run:?}");
            assert_eq!(std::fs::read(place.home.join(store)).unwrap(), before, "{options:?}: {run:?}");
        }
    }
}

#[test]
fn threads_forks_and_signals_go_on_while_calls_are_learned() {
    for place in everybody() {
        let line = "import os, threading, signal, time, subprocess\n\
                    got = []\n\
                    signal.signal(signal.SIGALRM, lambda *a: got.append(1))\n\
                    signal.siginterrupt(signal.SIGALRM, False)\n\
                    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)\n\
                    def work():\n\
                    \x20   for _ in range(300): os.getpriority(0, 0); os.sched_getscheduler(0)\n\
                    threads = [threading.Thread(target=work) for _ in range(8)]\n\
                    [t.start() for t in threads]\n\
                    children = [subprocess.Popen(['true']) for _ in range(8)]\n\
                    print(sum(c.wait() for c in children))\n\
                    [t.join() for t in threads]\n\
                    signal.setitimer(signal.ITIMER_REAL, 0)\n\
                    print(len(got) > 3)\n";
        for mode in ["learn", "enforce"] {
            let run = python(&place, &["--syscalls", mode], line);
            assert_eq!(run.ok(), "0\nTrue", "{mode}: {run:?}");
        }
        place.assert_all_dead();
    }
}

/// The test kills the broker, which judges calls: after that no call is made.
#[test]
fn without_a_judge_nothing_is_allowed() {
    for place in everybody() {
        python(&place, LEARN, PRIORITY).ok();
        let line = "import os, sys, time\n\
                    try: os.sched_rr_get_interval(0)\n\
                    except OSError: pass\n\
                    print('asked', flush=True); sys.stdin.readline()\n\
                    try: print('made', os.sched_rr_get_interval(0))\n\
                    except OSError as e: print('refused', e.errno)\n";
        let mut command = place.command(place.binary());
        command.args(["run", "--syscalls", "enforce", "--", "python3", "-c", line]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut broker = None;
        eventually(|| {
            broker = below(child.id(), "palisade-broker");
            broker.is_some()
        });
        let broker = broker.expect("no broker");
        pause(Duration::from_millis(300));
        kill_process(broker, Signal::KILL).unwrap();
        pause(Duration::from_millis(200));
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert!(
            out.contains("refused 38") && !out.contains("made"),
            "{out} {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn without_namespaces_calls_are_refused_without_a_word() {
    for place in everybody() {
        python(&place, LEARN, PRIORITY).ok();
        let in_place = |more: &[&'static str], line: &str| {
            let options = [&["--namespaces", "none", "--protect", "off"][..], more].concat();
            python(&place, &options, line)
        };
        in_place(LEARN, PRIORITY)
            .refused(125, &["without namespaces no process can receive the system calls"]);
        in_place(&["--syscalls", "ask"], PRIORITY).refused(125, &["no process can receive the system calls"]);
        assert_eq!(in_place(ENFORCE, PRIORITY).ok(), "0");
        assert_eq!(in_place(ENFORCE, INTERVAL).code, 1);
        // A plan that is kept for one program holds for no other.
        let other = [&["--namespaces", "none", "--protect", "off"][..], ENFORCE].concat();
        place
            .run(&other, &["cat", "/dev/null"])
            .refused(125, &["no system calls were learned for \"/usr/bin/cat\""]);
        // The filter's signal; it is the launcher's place that the command had taken.
        let code = in_place(KILL, INTERVAL).code;
        assert_eq!(-code & 0x7f, 31, "{code}");
    }
}

#[test]
fn without_a_terminal_no_is_the_answer() {
    for place in everybody() {
        let run = python(&place, &["--syscalls", "ask"], "pass");
        assert_ne!(run.code, 125, "what nobody allows is refused, not the launch: {run:?}");
        python(&place, LEARN, PRIORITY).ok();
        let run = python(&place, &["--syscalls", "ask"], PRIORITY);
        assert_eq!(run.ok(), "0");
        let run = python(&place, &["--syscalls", "ask"], INTERVAL);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.err.contains("no answer allowed it for programs of /usr/bin/python3"), "{run:?}");
        let run = python(&place, &["--syscalls", "ask", "--syscall-refusal", "kill"], INTERVAL);
        assert_eq!(run.code, 128 + 9, "{run:?}");
    }
}

#[test]
fn the_user_is_asked_what_may_be_called() {
    if !has("tmux") {
        return;
    }
    for place in everybody() {
        python(&place, LEARN, PRIORITY).ok();
        let terminal = Terminal::open(&place);
        let ask = |line: &str| {
            let mut command = place.command(place.binary());
            command.args(["run", "--syscalls", "ask", "--", "python3", "-c", line]);
            terminal.line(&words(&command));
        };
        let twice = format!("{INTERVAL}; print(os.sched_rr_get_interval(0) >= 0, \"twice\")");
        let question = "wants to call sched_rr_get_interval";
        ask(&twice);
        terminal.answer(question, "y");
        // Once is once.
        terminal.answer(question, "n");
        terminal.wait_for("PermissionError");
        assert!(terminal.screen().contains("True\n"), "{}", terminal.screen());
        for (answer, kept) in [("session", false), ("never", false), ("always", true)] {
            terminal.line("clear");
            terminal.wait_until("an empty screen", |screen| !screen.contains(question));
            ask(&twice);
            terminal.answer(question, answer);
            terminal.wait_for(if answer == "never" { "PermissionError" } else { "True twice" });
            let screen = terminal.screen();
            assert_eq!(screen.matches(question).count(), 1, "{screen}");
            let allowed = python(&place, ENFORCE, INTERVAL);
            assert_eq!(allowed.code == 0, kept, "{answer}: {allowed:?}");
        }
        // It was kept, and so needs no question any more.
        assert_eq!(python(&place, ENFORCE, INTERVAL).ok(), "True");
    }
}

/// If the store can't be used, a confined command still runs, and a message says so. A launch that would enforce is refused.
#[test]
fn a_store_that_cannot_be_used_is_no_permission() {
    for place in everybody() {
        python(&place, LEARN, PRIORITY).ok();
        let store =
            place.write(".local/state/palisade/syscalls.sqlite", "this is no database, as anybody can see");
        for options in [ENFORCE, KILL, &["--syscalls", "ask"]] {
            let run = python(&place, options, PRIORITY);
            assert_eq!((run.code, run.out.as_str()), (125, ""), "{run:?}");
            assert!(run.err.contains("syscalls.sqlite"), "{run:?}");
        }
        let run = python(&place, LEARN, PRIORITY);
        assert_eq!(run.ok(), "0");
        assert!(run.err.contains("the learned system calls aren't saved"), "{run:?}");
        assert_eq!(std::fs::read(store).unwrap(), b"this is no database, as anybody can see");
    }
}
