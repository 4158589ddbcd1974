// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what programs inside are told of refusals: the line on standard error, the file that `PALISADE_REFUSALS` names,
//! and the lines of `--status-fd`.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::job::{self, Run};
use crate::support::{Place, everybody, has, is_root};
use serde_json::Value;
use std::path::PathBuf;

/// What every line for a model says.
const DO_NOT: &str = ". Do not retry. Only the user can ";

/// The refusals in a file of JSON lines.
#[track_caller]
fn read(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// The only refusal of an object that ends so.
#[track_caller]
fn about<'r>(refusals: &'r [Value], object: &str) -> &'r Value {
    let found: Vec<&Value> =
        refusals.iter().filter(|one| one["object"].as_str().unwrap().ends_with(object)).collect();
    assert_eq!(found.len(), 1, "{object} in {refusals:#?}");
    found[0]
}

/// Runs a line of shell inside, with the user's file of refusals. Returns what the file has.
fn run(place: &Place, options: &[&str], line: &str) -> (Run, Vec<Value>) {
    let file = place.home.join("refusals.jsonl");
    let run = job::finish(place.palisade(options, &["sh", "-c", line]).env("PALISADE_REFUSALS", &file));
    let refusals = std::fs::read_to_string(&file).unwrap_or_default();
    let _none = std::fs::remove_file(&file);
    (run, read(&refusals))
}

/// Asserts that a refusal is one line for a model, in its whole form in the file, and counted there.
#[track_caller]
fn assert_told(run: &Run, refusals: &[Value], (object, wall): (&str, &str), hint: &[&str], count: u64) {
    let refusal = about(refusals, object);
    let text = refusal["text"].as_str().unwrap();
    let lines = run.err.lines().filter(|line| line.strip_prefix("palisade: ") == Some(text)).count();
    assert_eq!(lines, 1, "{text}\n{run:?}");
    assert!(text.contains(DO_NOT), "{text}");
    assert_eq!((&refusal["wall"], &refusal["retry"]), (&wall.into(), &false.into()), "{refusal}");
    assert_eq!(refusal["count"], count, "{refusal}");
    assert_eq!(refusal["hint"], serde_json::json!(hint), "{refusal}");
    assert_eq!(refusal["permits"], hint[1] == "run", "{refusal}");
    assert!(text.contains(&hint.join(" ")), "{refusal}");
}

#[test]
fn each_wall_is_told_in_one_line_and_counted() {
    for place in everybody() {
        place.outside("mkdir -p ~/work/given; echo x >~/work/given/file");
        // The same works outside.
        place.outside("cd; mkdir -p tried/.vscode && echo y >work/given/file");
        let given = place.work.join("given/file");
        let given = given.to_str().unwrap();
        let thrice = |line: &str| format!("for n in 1 2 3; do {line}; done");
        let (done, told) = run(&place, &[], &thrice("mkdir .vscode"));
        assert_told(
            &done,
            &told,
            ("work/.vscode", "broker"),
            &["palisade", "run", "--allow-name", ".vscode"],
            3,
        );
        let (done, told) = run(&place, &["--ro", "given"], &thrice("(echo z >given/file)"));
        assert_told(&done, &told, ("given/file", "mount"), &["palisade", "run", "--rw", given], 3);
        assert_eq!(place.read("work/given/file"), "y\n");
        let (done, told) = run(&place, &[], "getent hosts one.example; getent hosts one.example; true");
        let hint = ["palisade", "run", "--allow", "one.example"];
        // A name that is looked up again without a network isn't reported again.
        assert_told(&done, &told, ("one.example", "gateway"), &hint, 1);
        if has("python3") {
            let socket = place.home.join("service");
            let serve = format!(
                "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind({socket:?})\ns.listen()\n\
                 print('ready', flush=True)\nsys.stdin.read()"
            );
            let mut command = place.command("python3");
            command
                .args(["-c", &serve])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped());
            let mut server = command.spawn().unwrap();
            let mut ready = String::new();
            let mut out = std::io::BufReader::new(server.stdout.take().unwrap());
            std::io::BufRead::read_line(&mut out, &mut ready).unwrap();
            assert_eq!(ready, "ready\n");
            let connect = format!(
                "python3 -c 'import socket\nfor n in range(4):\n try: socket.socket(socket.AF_UNIX).connect(\"{0}\")\n \
                 except OSError: pass'",
                socket.display()
            );
            let shown = socket.to_str().unwrap();
            let (done, told) = run(&place, &["--ro", shown], &connect);
            drop(server.stdin.take());
            assert!(server.wait().unwrap().success());
            assert_told(&done, &told, (shown, "broker"), &["palisade", "run", "--rw", shown], 4);
            if cfg!(target_arch = "x86_64") {
                let calls = "python3 -c 'import ctypes\nc = ctypes.CDLL(None).syscall\nc(101, 0); c(101, 0); c(321, 0)'";
                let (done, told) = run(&place, &[], calls);
                // The filter reports a call of a program once.
                let debug = ["palisade", "run", "--feature", "debugger"];
                assert_told(&done, &told, ("ptrace", "seccomp"), &debug, 1);
                let explain = ["palisade", "explain", "--syscall", "bpf"];
                assert_told(&done, &told, ("bpf", "seccomp"), &explain, 1);
            }
        }
    }
}

#[test]
fn a_host_that_a_rule_refuses_is_told_with_the_rule() {
    for place in people() {
        let bed = Bed::new(place);
        let file = bed.place.home.join("refusals.jsonl");
        let fetch = "curl -sS -m 20 http://denied.example/; curl -sS -m 20 http://other.example/; true";
        let mut palisade =
            bed.palisade(&["--allow", "*.allowed.example", "--deny-host", "denied.example"], fetch);
        let run = job::finish(palisade.env("PALISADE_REFUSALS", &file));
        let told = read(&std::fs::read_to_string(&file).unwrap());
        let (denied, other) = (about(&told, "denied.example:80"), about(&told, "other.example:80"));
        assert_eq!(denied["rule"]["layer"], "command-line", "{run:?}");
        assert_eq!((&other["rule"], &other["wall"]), (&Value::Null, &"gateway".into()));
        assert_eq!(run.err.matches(DO_NOT).count(), 2, "{run:?}");
    }
}

/// The launch sets the variable inside to a file that can be read and not changed. Each attempt works on a file outside.
#[test]
fn the_file_inside_is_the_launchers() {
    const ATTEMPTS: [&str; 10] = [
        "echo forged >\"$F\"",
        "echo forged >>\"$F\"",
        "rm -f \"$F\"",
        "mv \"$F\" moved",
        "ln \"$F\" linked && echo forged >linked",
        "chmod 666 \"$F\"",
        "truncate -s 0 \"$F\"",
        "touch -d 2001-01-01 \"$F\"",
        "exec 3<\"$F\"; echo forged >/proc/self/fd/3",
        "mkdir -p \"${F%/*}\" && touch \"${F%/*}/other\"",
    ];
    for place in everybody() {
        for attempt in ATTEMPTS {
            place.outside(&format!("mkdir -p ~/out; echo x >~/out/file; cd ~/out; F=~/out/file; {attempt}"));
        }
        let attempts: String = ATTEMPTS
            .map(|attempt| format!("if ({attempt}) 2>/dev/null; then echo 'did {attempt}'; fi; "))
            .concat();
        let line = format!(
            "F=$PALISADE_REFUSALS; mkdir .vscode; until grep -q vscode \"$F\"; do sleep 0.02; done; {attempts} \
             grep -c vscode \"$F\"; echo $F"
        );
        let done = place.sh(&["--refusals"], &format!("timeout 60 sh -c '{}'", line.replace('\'', "'\\''")));
        assert_eq!(done.ok(), "1\n/.palisade/refusals.jsonl", "{done:?}");
        // Without the option there is neither a file nor a variable, and the line is as for everybody.
        let done =
            place.sh(&[], "mkdir .vscode; ls /.palisade/refusals.jsonl; echo \"<$PALISADE_REFUSALS>\"");
        assert_eq!(done.ok(), "<>");
        assert!(done.err.contains("; hint: palisade run --allow-name .vscode …"), "{done:?}");
        assert!(!done.err.contains(DO_NOT), "{done:?}");
    }
}

/// Repetitions become visible inside while the command runs.
#[test]
fn a_program_inside_reads_how_often_it_was_refused() {
    for place in everybody() {
        let line = "for n in 1 2 3 4 5; do mkdir .vscode 2>/dev/null; done
            until grep -q '\"count\": *5,' \"$PALISADE_REFUSALS\"; do sleep 0.05; done; cat \"$PALISADE_REFUSALS\"";
        let done = place.run(&["--refusals", "--quiet"], &["timeout", "60", "sh", "-c", line]);
        let told = read(done.ok());
        assert_eq!((told.len(), &about(&told, ".vscode")["count"]), (1, &5.into()));
        assert_eq!(done.err, "", "with --quiet only the file tells");
    }
}

/// The policy asks for it, too: an agent's profile, for example.
#[test]
fn a_policy_asks_for_it() {
    for place in everybody() {
        place.write(".config/palisade/config.toml", "schema = 1\n[behaviour]\nrefusals = true\n");
        for _kept_plan in 0..2 {
            let done = place.sh(&[], "mkdir .vscode; echo $PALISADE_REFUSALS");
            assert_eq!(done.ok(), "/.palisade/refusals.jsonl");
            assert!(done.err.contains(DO_NOT), "{done:?}");
        }
        // Without namespaces there is no file of the launch's own. The user's file is written.
        let (done, told) =
            run(&place, &["--namespaces", "none"], "mkdir .vscode; echo \"<$PALISADE_REFUSALS>\"");
        assert_eq!(done.ok(), "<>", "{done:?}");
        let has_broker = done.err.contains("refused: ");
        assert_eq!(told.len(), usize::from(has_broker), "{done:?}");
    }
}

/// Whatever lies at the path that the user names, the launch goes on, says why once, and changes nothing there.
#[test]
fn the_users_file_is_never_anothers_and_never_waited_for() {
    for place in everybody() {
        let cases = [
            ("ln -s ~/target ~/file", "it is a symbolic link"),
            ("ln ~/target ~/file", "the same file has another name, too"),
            ("mkfifo ~/file", "it is no regular file"),
            ("mkdir ~/file", "it is no regular file"),
            ("echo x >~/file; chmod 666 ~/file", "other users may write to it"),
            ("mkdir ~/gone; rmdir ~/gone; ln -s ~/gone/file ~/file", "it is a symbolic link"),
        ];
        let file = place.home.join("file");
        let launch = |file: &PathBuf| {
            let line = "mkdir .vscode; mkdir .vscode; timeout 60 sh -c \
                'until grep -q vscode $PALISADE_REFUSALS; do sleep 0.02; done' && exit 7";
            job::finish(place.palisade(&[], &["sh", "-c", line]).env("PALISADE_REFUSALS", file))
        };
        place.outside("echo target >~/target");
        for (prepare, why) in cases {
            place.outside(prepare);
            let done = launch(&file);
            let said = format!("palisade: note: refusals aren't written to {}: {why}\n", file.display());
            assert_eq!(done.code, 7, "{prepare}: {done:?}");
            assert_eq!(done.err.matches(&said).count(), 1, "{prepare}: {done:?}");
            place.outside("rm -rf ~/file");
            assert_eq!(place.read("target"), "target\n", "{prepare}");
        }
        // A path that the sandbox can write to, by a link, too.
        place.outside("ln -s ~/work ~/link");
        for inside in [place.work.join("file"), place.home.join("link/file")] {
            let done = launch(&inside);
            assert_eq!(done.code, 7, "{done:?}");
            let linked = inside.starts_with(place.home.join("link"));
            let why = if linked && place.is_root() {
                "a directory above it is a symbolic link, which root doesn't follow"
            } else {
                "the sandbox can write there"
            };
            assert!(done.err.contains(&format!(": {why}\n")), "{done:?}");
            assert!(!inside.exists());
        }
        for odd in ["relative", "/", "/dev/full", "/proc/self/mem", "/nowhere/file"] {
            let done = launch(&odd.into());
            assert_eq!(done.code, 7, "{odd}: {done:?}");
            assert_eq!(done.err.matches("refusals aren't written to ").count(), 1, "{odd}: {done:?}");
        }
        if is_root() {
            // A file of somebody else's.
            let other = if place.is_root() { 4711 } else { 0 };
            place.write("file", "others'");
            std::os::unix::fs::chown(&file, Some(other), None).unwrap();
            let done = launch(&file);
            assert_eq!(done.code, 7, "{done:?}");
            assert!(done.err.contains(&format!(": it belongs to user {other}\n")), "{done:?}");
            assert_eq!(place.read("file"), "others'");
        }
    }
}

#[test]
fn a_full_disk_costs_the_file_and_not_the_launch() {
    for place in everybody().iter().filter(|_| has("userns")) {
        place.outside("mkdir -p ~/small");
        let mut host = place.command("unshare");
        if !place.is_root() {
            host.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        let line =
            "mount -t tmpfs -o size=8k x ~/small && head -c 7000 /dev/zero >~/small/rest && chmod 700 ~/small
            PALISADE_REFUSALS=~/small/file \"$0\" run -- sh -c \
                'for n in $(seq 40); do mkdir -p $n; mkdir $n/.vscode; done 2>/dev/null; exit 7'
            echo $?; cat ~/small/file";
        let done = job::finish(host.args(["--mount", "sh", "-c", line]).arg(place.binary()));
        let (code, lines) = done.out.split_once('\n').unwrap_or_else(|| panic!("{done:?}"));
        assert_eq!(code, "7", "{done:?}");
        assert_eq!(done.err.matches("refusals aren't written to ").count(), 1, "{done:?}");
        let told = read(lines);
        assert!(told.len() < 40, "the disk has no room for these: {done:?}");
    }
}

/// An earlier launch, or another program of the user's, has put something in the place of this launch's file.
#[test]
fn a_name_that_is_taken_in_the_runtime_directory_is_left_alone() {
    for place in everybody() {
        place.outside("mkdir -m 700 -p ~/runtime/palisade; echo target >~/target");
        for put in ["ln -s ~/target", "ln ~/target", "mkfifo", "mkdir"] {
            let line = format!(
                "{put} ~/runtime/palisade/refusals-$$-0; XDG_RUNTIME_DIR=$HOME/runtime exec \"$0\" run --refusals -- \
                 sh -c 'mkdir .vscode; timeout 60 sh -c \"until grep -q vscode $PALISADE_REFUSALS; do sleep 0.02; done\"'"
            );
            let done = job::finish(place.command("sh").args(["-c", &line]).arg(place.binary()));
            assert_eq!(done.ok(), "", "{put}: {done:?}");
            assert!(!done.err.contains("can't read"), "{put}: {done:?}");
            assert_eq!(place.read("target"), "target\n");
            // Its own file is gone, and the other one is left.
            assert_eq!(place.outside("ls ~/runtime/palisade | grep -c refusals-").trim(), "1", "{put}");
            place.outside("rm -rf ~/runtime/palisade/refusals-*");
        }
        // A directory that others write to isn't used.
        place.outside("chmod 777 ~/runtime/palisade");
        let mut palisade = place.palisade(&["--refusals"], &["sh", "-c", "cat $PALISADE_REFUSALS; exit 7"]);
        let done = job::finish(palisade.env("XDG_RUNTIME_DIR", place.home.join("runtime")));
        assert_eq!(done.code, 7, "{done:?}");
        assert_eq!(place.outside("ls ~/runtime/palisade | grep -c refusals- || true").trim(), "0");
    }
}

#[test]
fn launches_at_the_same_time_share_the_users_file() {
    for place in everybody() {
        let file = place.home.join("refusals.jsonl");
        let launch = |number: usize| {
            let line =
                format!("mkdir -p d{number}; for n in 1 2 3 4; do mkdir d{number}/.vscode; done; true");
            let mut palisade = place.palisade(&["--quiet"], &["sh", "-c", &line]);
            job::finish(palisade.env("PALISADE_REFUSALS", &file)).ok();
        };
        std::thread::scope(|scope| {
            for number in 0..6 {
                scope.spawn(move || launch(number));
            }
        });
        let told = read(&std::fs::read_to_string(&file).unwrap());
        assert_eq!(told.len(), 6);
        for number in 0..6 {
            assert_eq!(about(&told, &format!("d{number}/.vscode"))["count"], 4);
        }
    }
}

#[test]
fn the_status_descriptor_tells_of_refusals_too() {
    for place in everybody() {
        let line = "\"$0\" run --status-fd 3 -- sh -c 'mkdir .vscode; mkdir .vscode' 3>~/status";
        let done = job::finish(place.command("sh").args(["-c", line]).arg(place.binary()));
        assert_ne!(done.code, 0);
        assert!(done.err.contains("; hint: "), "{done:?}");
        let status = read(&place.read("status"));
        let events: Vec<&str> = status.iter().map(|line| line["event"].as_str().unwrap()).collect();
        assert_eq!(events, ["started", "refused", "refused", "ended"]);
        let counts = [1, 2].map(|line: usize| status[line]["refusal"]["count"].as_u64().unwrap());
        assert_eq!(counts, [1, 2]);
        assert_eq!(status[2]["refusal"]["hint"][2], "--allow-name");
        assert!(status[3].get("refusals_lost").is_none());
        // Nobody reads the pipe until the launch has ended.
        let made = "n=0; while [ $n -lt 1500 ]; do n=$((n+1)); mkdir -p d$n; mkdir d$n/.vscode; done 2>/dev/null; exit 7";
        let line = "rm -f ~/over; { \"$0\" run -q --status-fd 3 -- sh -c \"$1\" 3>&1 >/dev/null; echo $? >~/code; mv ~/code \
            ~/over; } | { until [ -e ~/over ]; do sleep 0.05; done; cat; }; cat ~/over >&2";
        let done = job::finish(place.command("sh").args(["-c", line]).arg(place.binary()).arg(made));
        assert_eq!(done.err.trim(), "7", "{done:?}");
        let status = read(&done.out);
        let last = status.last().unwrap();
        assert_eq!((&last["event"], &last["code"]), (&"ended".into(), &7.into()));
        assert!(last["refusals_lost"].as_u64().unwrap() > 0 && status.len() > 4, "{last}");
    }
}
