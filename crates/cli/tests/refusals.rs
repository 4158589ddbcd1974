// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which refusals are reported and recorded: those by mounts, where the broker sees them, and those by the filter.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::job::{self, below};
use crate::support::{Place, eventually, everybody, has};
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// The events that are kept.
fn kept(place: &Place) -> Vec<Value> {
    let watch = job::finish(place.command(place.binary()).args(["watch", "--all", "--no-follow", "--json"]));
    watch.ok().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last event about an object that ends so.
#[track_caller]
fn about(place: &Place, object: &str) -> Value {
    let events = kept(place);
    let found = events.iter().rfind(|event| event["object"].as_str().unwrap().ends_with(object));
    found.unwrap_or_else(|| panic!("nothing about {object} in {events:?}")).clone()
}

#[test]
fn a_directory_that_keeps_its_name_is_told() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/a/conf; echo x >~/work/a/conf/key");
        let run = place.sh(&["--hide", "a/conf/key"], "mv a/conf a/moved");
        assert!(run.err.contains("busy"), "{run:?}");
        let said = "work/a/conf by mv: the directory can't be renamed: the policy has a rule about ";
        assert!(run.err.contains(said) && run.err.contains("work/a/conf/key (broker)"), "{run:?}");
        let event = about(&place, "work/a/conf");
        assert_eq!((&event["operation"], &event["verdict"]), (&"write".into(), &"refused".into()));
        assert_eq!(event["subject"]["program"], "mv");
        assert!(event["subject"]["pid"].as_u64().unwrap() > 1, "{event}");
        // An exchange moves it, too.
        if has("python3") {
            let exchange =
                "python3 -c 'import ctypes; ctypes.CDLL(None).syscall(316, -100, b\"b\", -100, b\"a\", 2)'";
            let run = place.sh(&["--hide", "a/conf/key"], &format!("mkdir b; {exchange}"));
            assert!(run.err.contains("work/a by python3: the directory can't be renamed"), "{run:?}");
        }
        // What a policy says of it is explained, too.
        place.write(
            ".config/palisade/config.toml",
            "schema = 1\n[filesystem]\nhide = [\"~/work/a/conf/key\"]\n",
        );
        let explained =
            job::finish(place.command(place.binary()).args(["explain", "a/conf", "--access", "write"]));
        assert!(
            explained.out.contains("keeps name it can't be renamed: the policy has a rule about "),
            "{explained:?}"
        );
        std::fs::remove_file(place.home.join(".config/palisade/config.toml")).unwrap();
        // An allowed rename is not reported.
        let run = place.sh(&["--hide", "a/conf/key"], "mkdir c && mv c d && rmdir d");
        assert_eq!((run.ok(), run.err.as_str()), ("", ""));
    }
}

#[test]
fn a_directory_at_the_border_of_what_is_written_freely_is_told() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/node_modules/thing");
        let run = place.sh(&[], "mv node_modules/thing thing && ls -d thing");
        assert_eq!(run.ok(), "thing", "mv copies: {run:?}");
        let said = "work/node_modules/thing by mv: a directory can't be moved to ";
        assert!(run.err.contains(said) && run.err.contains("is protected on one side only"), "{run:?}");
        assert_eq!(about(&place, "node_modules/thing")["enforced_by"], "broker");
        let run = place.sh(&[], "mkdir node_modules/one && mv node_modules/one node_modules/two");
        assert_eq!((run.ok(), run.err.as_str()), ("", ""));
    }
}

#[test]
fn what_is_shown_read_only_is_told_with_what_permits_it() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/given/shut; echo x >~/work/given/file; chmod 555 ~/work/given/shut");
        for (line, object, grant) in [
            ("echo y >given/file", "work/given/file", "work/given/file"),
            ("echo y >>given/new", "work/given/new", "work/given"),
            ("mkdir given/made", "work/given/made", "work/given"),
            ("rm -f given/file", "work/given/file", "work/given"),
            ("mv given/file given/named", "work/given/named", "work/given"),
            ("ln -s x given/link", "work/given/link", "work/given"),
        ] {
            let run = place.sh(&["--ro", "given"], line);
            assert!(run.err.contains("Read-only file system"), "{line}: {run:?}");
            let said = format!("{object} by ");
            assert!(run.err.contains("refused: write ") && run.err.contains(&said), "{line}: {run:?}");
            let hint = format!("{grant} …");
            assert!(
                run.err.contains("hint: palisade run --rw ") && run.err.contains(&hint),
                "{line}: {run:?}"
            );
            assert_eq!(about(&place, object)["enforced_by"], "mount", "{line}");
        }
        // The command of the hint works.
        let given = place.work.join("given");
        place.sh(&["--rw", given.to_str().unwrap()], "echo z >given/file && mkdir given/made").ok();
        // A refusal by file permissions isn't the sandbox's, so it is not reported.
        let run = place.sh(&["--ro", "given"], "mkdir given/shut/made; mkdir given; rm given/nothing");
        assert!(run.err.contains("given/shut/made") && !run.err.contains("refused"), "{run:?}");
    }
}

#[test]
fn what_is_covered_is_told() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/secret; echo x >~/work/key; echo x >~/work/secret/key");
        let run = place.sh(&["--hide", "secret", "--deny", "key"], "mkdir secret/made; echo y >key");
        for object in ["work/secret/made by mkdir", "work/key by sh"] {
            assert!(run.err.contains(object), "{object}: {run:?}");
        }
        assert!(run.err.contains("the policy hides or denies the path"), "{run:?}");
        assert!(run.err.contains("hint: palisade explain --access write "), "{run:?}");
        assert_eq!(place.read("work/key"), "x\n");
    }
}

/// Makes calls by number, and prints the errors.
const CALLS: &str = r#"
import ctypes, errno, sys
call = ctypes.CDLL(None, use_errno=True).syscall
for text in sys.argv[1:]:
    number, *arguments = map(int, text.split(","))
    done = call(number, *arguments)
    print(errno.errorcode.get(ctypes.get_errno(), "?") if done == -1 else "made")
"#;

#[test]
fn a_call_that_the_filter_refuses_is_told() {
    for place in everybody().iter().filter(|_| has("python3") && cfg!(target_arch = "x86_64")) {
        // ptrace, bpf, socket of AF_VSOCK, io_uring_setup, clone3, openat2, getpid.
        let calls = ["101,0", "321,0", "41,40,1,0", "425,1", "435,0,0", "437,0,0,0,0", "39"];
        let command = [&["python3", "-c", CALLS], &calls[..]].concat();
        let run = place.run(&[], &command);
        assert_eq!(run.ok(), "EPERM\nEPERM\nEAFNOSUPPORT\nENOSYS\nENOSYS\nENOSYS\nmade");
        let told: Vec<&str> = run.err.lines().filter(|line| line.contains("refused: syscall")).collect();
        assert_eq!(told.len(), 2, "{run:?}");
        assert!(
            told[0].contains("refused: syscall ptrace by /")
                && told[0].contains(": it fails with EPERM: reads and steers other processes (seccomp)")
                && told[0].ends_with("hint: palisade run --feature debugger …")
                && told[1].ends_with("hint: palisade explain --syscall bpf"),
            "{run:?}"
        );
        let traced = place.run(&["--feature", "debugger"], &command);
        assert!(traced.ok().starts_with("made\nEPERM\n"), "{traced:?}");
        // A refusal that programs handle is recorded but not printed.
        let event = about(place, "io_uring_setup");
        assert_eq!((&event["operation"], &event["enforced_by"]), (&"syscall".into(), &"seccomp".into()));
        assert!(event["subject"]["pid"].as_u64().unwrap() > 1, "{event}");
        assert!(event["subject"]["program"].as_str().unwrap().contains("python3"), "{event}");
        for never in ["clone3", "openat2", "socket", "getpid"] {
            assert!(kept(place).iter().all(|event| event["object"] != never), "{never}");
        }
        // A launch without a broker gets none for this purpose: the kernel alone refuses the call.
        let run = place.run(&["--protect", "off"], &command);
        assert_eq!(run.ok(), "EPERM\nEPERM\nEAFNOSUPPORT\nENOSYS\nENOSYS\nENOSYS\nmade");
        assert!(!run.err.contains("refused"), "{run:?}");
    }
}

#[test]
fn a_loop_of_refused_calls_is_told_once() {
    for place in everybody().iter().filter(|_| has("python3") && cfg!(target_arch = "x86_64")) {
        let calls = vec!["101,0"; 2000];
        let run = place.run(&[], &[&["python3", "-c", CALLS], &calls[..]].concat());
        assert_eq!(run.ok(), vec!["EPERM"; 2000].join("\n"));
        assert_eq!(run.err.matches("syscall ptrace").count(), 1, "one line: {run:?}");
        let events = kept(place);
        let count = |event: &Value| event["count"].as_u64().unwrap();
        let told: u64 = events.iter().filter(|event| event["object"] == "ptrace").map(count).sum();
        assert_eq!(told, 1, "{events:?}");
    }
}

/// The broker only reports these refusals. The kernel makes them.
#[test]
fn refused_calls_stay_refused_when_the_broker_is_killed() {
    let line = "import ctypes, errno\nprint('ready', flush=True)\ninput()\n\
                done = ctypes.CDLL(None, use_errno=True).syscall(101, 0)\n\
                print(done, errno.errorcode[ctypes.get_errno()])";
    for victim in ["palisade-broker", "palisade-stub"] {
        for place in everybody().iter().filter(|_| has("python3") && cfg!(target_arch = "x86_64")) {
            let line = format!("open('made', 'w')\n{line}");
            let mut palisade = place.palisade(&[], &["/usr/bin/python3", "-c", &line]);
            palisade.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = palisade.spawn().unwrap();
            let mut out = BufReader::new(child.stdout.take().unwrap());
            let mut ready = String::new();
            out.read_line(&mut ready).unwrap();
            kill_process(below(child.id(), victim).unwrap(), Signal::KILL).unwrap();
            assert!(eventually(|| below(child.id(), "palisade-broker").is_none()));
            child.stdin.take().unwrap().write_all(b"go\n").unwrap();
            let said = std::io::read_to_string(out).unwrap();
            assert_eq!((ready.as_str(), said.as_str()), ("ready\n", "-1 ENOSYS\n"), "{victim}");
            job::wait(child);
        }
    }
}

/// A mode that only the broker can judge.
#[test]
fn a_mode_that_gives_rights_away_is_told() {
    for place in everybody() {
        let run = place.sh(&[], "echo x >file; chmod 2755 file; stat -c %a file");
        assert!(run.ok().ends_with("44"), "{run:?}");
        assert!(
            run.err.contains("work/file by chmod: the set-group-id bit would give away the rights"),
            "{run:?}"
        );
    }
}

#[test]
fn a_protected_name_is_told_with_its_parts() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/repo/.vscode");
        let run = place.sh(&[], "echo x >repo/.vscode/tasks.json");
        assert!(run.err.contains("refused: write ") && run.err.contains("tasks.json by "), "{run:?}");
        let event = about(&place, "repo/.vscode/tasks.json");
        assert_eq!(
            (&event["kind"], &event["target"]["type"]),
            (&"sandbox".into(), &"file".into()),
            "{event}"
        );
        assert_eq!(event["target"]["path"], event["object"], "{event}");
        assert_eq!(event["detail"]["call"], "openat", "{event}");
        let protected = event["detail"]["protected"].as_str().unwrap();
        assert!(event["why"]["text"].as_str().unwrap().starts_with(protected), "{event}");
        assert_eq!(event["hint"], format!("palisade run --allow-name {protected} …"), "{event}");
        assert_eq!(event["subject"].get("thread"), None, "{event}");
    }
}

/// The process is the one that `--pid` and `ps` know, whichever of its threads was refused.
#[test]
fn a_refusal_of_a_thread_is_its_process_s() {
    if !has("python3") {
        return;
    }
    let script = "
import threading, time
def write():
    try: open('.vscode/tasks.json', 'w')
    except OSError as error: print(error.strerror)
    # The launcher looks up whose thread it is.
    time.sleep(0.3)
thread = threading.Thread(target=write)
thread.start()
thread.join()
";
    for place in everybody() {
        place.outside("mkdir -p ~/work/.vscode");
        let run = place.run(&[], &["python3", "-c", script]);
        assert!(run.out.contains("not permitted") || run.out.contains("denied"), "{run:?}");
        let event = about(&place, ".vscode/tasks.json");
        let [pid, thread] = ["pid", "thread"].map(|member| event["subject"][member].as_u64().unwrap());
        assert!(pid > 1 && thread > 1 && pid != thread, "{event}");
    }
}
