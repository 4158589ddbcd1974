// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What goes wrong around a guard, and what the host must not notice of it.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Settings, has};
use palisade_protocol::guard::{Request, Response};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Longer than this nothing on the host may wait for a guard that is in trouble, on an idle machine.
const WAIT: Duration = Duration::from_secs(2);

/// A guard whose standard error is a pipe that nobody reads, and that is full.
fn unheard() -> (Bed, std::io::PipeReader) {
    let mut bed = Bed::new();
    bed.copy("/bin/cat", bed.at("cat"));
    bed.write(bed.at("secret"), "secret");
    bed.write(bed.at("plain"), "plain");
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules("deny_log perm=any all : path=BED/secret\nallow perm=any all : all\n");
    let (reader, writer) = std::io::pipe().unwrap();
    bed.said = Some(Stdio::from(OwnedFd::from(writer)));
    bed.launch();
    bed.wait(
        "the guard begins",
        |bed| matches!(bed.try_ask(&Request::Status), Some(Response::Status(status)) if status.enforcing),
    );
    let denied = bed.run(
        "/usr/bin/python3 -c '\nfor _ in range(10000):\n    try: open(\"secret\")\n    except PermissionError: pass\n    else: raise SystemExit(1)'",
    );
    denied.ok();
    (bed, reader)
}

/// How long it takes, as on an idle machine.
fn took(act: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed().div_f64(palisade_acceptance::patience::crowd().max(1.0))
}

#[test]
fn nobody_waits_for_what_nobody_reads() {
    if !has("fanotify") {
        return;
    }
    let (mut bed, mut reader) = unheard();
    // What other threads than those that log have to say.
    bed.write(bed.config("guard.toml"), "nonsense");
    for _ in 0..300 {
        bed.signal("-HUP");
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut strange = std::os::unix::net::UnixStream::connect(bed.outside(bed.socket())).unwrap();
    let _refused = strange.write_all(&[0xff; 64]);
    assert!(took(|| drop(bed.run("./cat plain").ok())) < WAIT);
    assert!(took(|| bed.run("./cat secret").refused()) < WAIT);
    assert!(took(|| drop(bed.status())) < WAIT);
    assert_ne!(bed.metrics().unlogged, 0);
    assert!(matches!(bed.ask(&Request::Stop), Response::Done { .. }));
    assert!(took(|| assert_eq!(bed.ended(), Some(0))) < WAIT);
    bed.run("./cat secret").ok();
    let mut said = String::new();
    reader.read_to_string(&mut said).unwrap();
    assert!(said.contains("dec=deny_log"), "{said}");
}

/// What any user can bring about forges no line of the log, and is no flood of lines.
#[test]
fn what_users_say_is_no_line_of_the_log() {
    if !has("fanotify") {
        return;
    }
    let mut bed = Bed::new();
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules("allow perm=any all : all\n");
    bed.start();
    let socket = bed.outside(bed.socket()).with_file_name("learn.sock");
    let begun = Instant::now();
    for _ in 0..500 {
        let mut connection = palisade_protocol::Connection::open(&socket, "test").unwrap();
        connection.send(&"x\nrule=1 dec=allow perm=open : path=/forged").unwrap();
        let _ended = connection.receive::<Response>();
    }
    let seconds = usize::try_from(begun.elapsed().as_secs()).unwrap() + 2;
    bed.stop();
    let log = bed.log();
    let said = log.lines().filter(|line| line.contains("forged")).count();
    // Ten in a second, and how many more there were.
    assert!((1..=10 * seconds).contains(&said), "{said} lines in {seconds} s");
    assert!(log.contains("more lines of that kind weren't said") || seconds == 2, "{log}");
    assert!(!log.lines().any(|line| line.starts_with("rule=1")), "{log}");
}

/// Who has followed every decision costs nobody anything afterwards.
#[test]
fn nobody_pays_for_who_followed_once() {
    if !has("fanotify") {
        return;
    }
    let mut bed = Bed::new();
    bed.write(bed.at("plain"), "plain");
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules("allow perm=any all : all\n");
    bed.start();
    let opens = |bed: &Bed| {
        let before = bed.metrics().questions;
        bed.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do : <plain; done").ok();
        bed.metrics().questions - before
    };
    let passed = |bed: &Bed| {
        opens(bed);
        opens(bed) < 5
    };
    bed.wait("the kernel answers by itself", passed);
    let mut follower = bed.talk();
    follower.send(&Request::Follow { all: true }).unwrap();
    assert!(matches!(follower.receive().unwrap(), Response::Done { .. }));
    assert!(opens(&bed) >= 20, "each is asked about");
    drop(follower);
    bed.wait("the kernel answers by itself again", passed);
    bed.stop();
}
