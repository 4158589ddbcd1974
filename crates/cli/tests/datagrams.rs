// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests unix datagram sockets: where they are allowed they work as they do natively and reach no socket of another
//! sandbox or of the host. Where they aren't allowed, a message says so.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, everybody, job};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

const WORK: &str = include_str!("datagrams/work.py");
const ATTACK: &str = include_str!("datagrams/attack.py");
/// Makes each kind of socket and prints the result.
const MAKE: &str = "\
import errno, socket\n\
for make in socket.socket, socket.socketpair:\n    \
    for kind in socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.SOCK_STREAM:\n        \
        try: made = make(socket.AF_UNIX, kind); print('made')\n        \
        except OSError as error: print(errno.errorcode[error.errno])";

/// What a program prints natively, in a directory of its own.
fn outside(place: &Place, program: &Path) -> String {
    let line = format!("cd $(mktemp -d) && python3 {} 2>&1; rm -r $PWD", program.display());
    place.outside(&line)
}

/// The same inside.
fn inside(place: &Place, options: &[&str], program: &Path) -> Run {
    let line = format!("mkdir of && cd of && python3 {} 2>&1; cd .. && rm -r of", program.display());
    place.sh(options, &line)
}

#[test]
fn datagram_sockets_work_as_natively() {
    for place in everybody() {
        let program = place.write("work/work.py", WORK);
        let natively = outside(&place, &program);
        assert!(natively.trim_end().ends_with("endpoints b'async'"), "{natively}");
        for options in [
            &["--allow-datagrams"][..],
            &["--allow-datagrams", "--syscalls", "learn"],
            &["--allow-datagrams", "--trace"],
            &["--allow-datagrams", "--view", "host"],
            &["--protect", "off"],
        ] {
            let run = inside(&place, options, &program);
            assert_eq!(run.out.trim_end(), natively.trim_end(), "{options:?}: {}", run.err);
        }
    }
}

#[test]
fn they_are_allowed_by_option_and_profile_and_else_it_is_said() {
    for place in everybody() {
        let made = |options: &[&str]| place.run(options, &["python3", "-c", MAKE]);
        let run = made(&[]);
        assert_eq!(run.ok(), "EACCES\nEACCES\nEACCES\nmade\nEACCES\nEACCES\nEACCES\nmade");
        assert!(
            run.err.contains("refused: syscall socket by") && run.err.contains("--allow-datagrams"),
            "{run:?}"
        );
        let all = ["made"; 8].join("\n");
        assert_eq!(made(&["--allow-datagrams"]).ok(), all);
        place.write(
            ".config/palisade/profiles/sends.toml",
            "schema = 1\nname = \"sends\"\n[process]\ndatagrams = true\n",
        );
        assert_eq!(made(&["--profile", "sends"]).ok(), all);
        place.write(".config/palisade/config.toml", "schema = 1\n[process]\ndatagrams = true\n");
        let explained = |call: &str| {
            job::finish(place.command(place.binary()).args(["explain", "--syscall", call])).ok().to_owned()
        };
        for call in ["socket", "socketpair"] {
            let said = explained(call);
            assert!(said.contains("allowed otherwise") && !said.contains("EACCES"), "{said}");
        }
        for call in ["sendto", "sendmsg", "sendmmsg"] {
            let said = explained(call);
            assert!(said.contains("asks the broker") && said.contains("a unix datagram socket"), "{said}");
        }
        place.write(".config/palisade/config.toml", "schema = 1\n");
        assert!(
            explained("socketpair").contains("EACCES")
                && explained("socketpair").contains("--allow-datagrams")
        );
        assert_eq!(explained("sendmsg").lines().skip(1).collect::<String>(), "  allowed");
    }
}

/// A socket of the host in the working directory, to which every user may send.
fn of_the_host(place: &Place) -> (UnixDatagram, PathBuf) {
    let path = place.home.join("work/theirs.sock");
    let _of_before = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
    socket.set_nonblocking(true).unwrap();
    (socket, path)
}

/// Takes what has arrived meanwhile, until `stop`.
fn arrived(socket: &UnixDatagram, stop: &std::sync::atomic::AtomicBool) -> Vec<String> {
    let mut messages = Vec::new();
    let mut buffer = [0; 64];
    loop {
        let stopped = stop.load(std::sync::atomic::Ordering::SeqCst);
        while let Ok(length) = socket.recv(&mut buffer) {
            messages.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        if stopped {
            return messages;
        }
        palisade_acceptance::patience::pause(std::time::Duration::from_millis(1));
    }
}

/// What arrives at a socket of the host's while a command runs.
fn attacked(place: &Place, command: impl FnOnce(&str) -> Run) -> (Vec<String>, Run) {
    let (socket, path) = of_the_host(place);
    place.outside("cd ~/work && rm -f own-socket-of-mine link && ln -s theirs.sock link");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let arrives = scope.spawn(|| arrived(&socket, &stop));
        let run = command(&format!("cd ~/work && python3 attack.py {} 400", path.display()));
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        (arrives.join().unwrap(), run)
    })
}

#[test]
fn nothing_reaches_a_socket_of_others() {
    for place in everybody() {
        place.write("work/attack.py", ATTACK);
        let natively =
            || attacked(&place, |line| Run { code: 0, out: place.outside(line), err: String::new() }).0;
        let mut messages = natively();
        // A single attempt may not win the race.
        for _ in 0..20 {
            if messages.iter().any(|arrived| arrived == "race") {
                break;
            }
            messages = natively();
        }
        for message in ["sendto", "sendmsg", "many", "connected", "race"] {
            assert!(messages.iter().any(|arrived| arrived == message), "natively {message}: {messages:?}");
        }
        for options in [
            &["--allow-datagrams"][..],
            &["--allow-datagrams", "--syscalls", "learn"],
            &["--allow-datagrams", "--trace"],
        ] {
            let (messages, run) = attacked(&place, |line| place.sh(options, line));
            assert_eq!(messages, [""; 0], "{options:?}: {run:?}");
            assert!(run.out.ends_with("done\n") && run.out.contains("Permission denied"), "{run:?}");
            assert!(run.err.contains("refused: connect") || options.contains(&"--trace"), "{run:?}");
        }
    }
}

/// No rule about system calls prevents the broker from judging them.
#[test]
fn what_a_policy_says_of_the_calls_loosens_nothing() {
    for place in everybody() {
        place.write("work/attack.py", ATTACK);
        for stated in [
            "allow = [\"sendmsg\", \"sendmmsg\", \"sendto\", \"socket\", \"socketpair\"]",
            "answers = [{ call = \"sendmsg\", action = \"allow\" }, { call = \"sendmmsg\", action = \"allow\" }, \
             { call = \"sendto\", action = \"allow\" }]",
        ] {
            let text =
                format!("schema = 1\nname = \"loose\"\n[process]\ndatagrams = true\n[syscalls]\n{stated}\n");
            place.write(".config/palisade/profiles/loose.toml", text);
            let (messages, run) = attacked(&place, |line| place.sh(&["--profile", "loose"], line));
            assert_eq!(messages, [""; 0], "{run:?}");
            assert!(run.out.ends_with("done\n"), "{run:?}");
        }
    }
}

#[test]
fn a_socket_that_is_granted_is_reached() {
    for place in everybody() {
        let (socket, path) = of_the_host(&place);
        let path = path.to_str().unwrap();
        let program = "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
            s.sendto(b'one', sys.argv[1]); s.sendmsg([b'two'], [], 0, sys.argv[1]); s.connect(sys.argv[1]); s.send(b'three')";
        place.run(&["--allow-datagrams", "--rw", path], &["python3", "-c", program, path]).ok();
        let stop = std::sync::atomic::AtomicBool::new(true);
        assert_eq!(arrived(&socket, &stop), ["one", "two", "three"]);
    }
}
