// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests processes that end while they are examined.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::process::Command;
use std::time::Instant;

use palisade_guard::kind::Recognizer;
use palisade_guard::subject::{NONE, Subject};

/// Every answer is that of the process or the answer for no process; never a mixture.
#[test]
fn ending_while_it_is_asked() {
    let recognizer = Recognizer::own();
    let (mut there, mut gone) = (0, 0);
    for round in 0..200_u64 {
        let mut child = Command::new("/bin/true").spawn().unwrap();
        // From immediately to long after its end.
        std::thread::sleep(std::time::Duration::from_micros(round * 10));
        let subject = Subject::read(child.id());
        if round % 3 == 0 {
            child.wait().unwrap();
        }
        let parent = subject.ppid();
        assert!(parent == std::process::id() || parent == NONE);
        assert_eq!(subject.uids().len(), if parent == NONE { 0 } else { 4 });
        assert!(!subject.comm().is_empty());
        let exe = subject.exe();
        assert!(exe == b"?" || exe.starts_with(b"/"), "{exe:?}");
        let _ = (
            subject.kind(&recognizer),
            subject.preloads(),
            subject.auid(),
            subject.session(),
            subject.started(),
        );
        if parent == NONE {
            gone += 1
        } else {
            there += 1
        }
        child.wait().unwrap();
        assert!(!subject.is_there());
    }
    println!("{there} were asked, {gone} were gone");
    assert!(there > 0 && gone > 0);
}

/// How long it takes.
#[test]
#[ignore = "a measurement; run it with --release --ignored --nocapture"]
fn microseconds_per_process() {
    let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let recognizer = Recognizer::own();
    type Question = (&'static str, fn(&Subject, &Recognizer));
    let questions: [Question; 9] = [
        ("nothing", |_, _| ()),
        ("auid", |subject, _| {
            std::hint::black_box(subject.auid());
        }),
        ("status", |subject, _| {
            std::hint::black_box(subject.gids().len());
        }),
        ("comm", |subject, _| {
            std::hint::black_box(subject.comm().len());
        }),
        ("exe", |subject, _| {
            std::hint::black_box(subject.exe().len());
        }),
        ("kind", |subject, recognizer| {
            std::hint::black_box(subject.kind(recognizer).as_str().len());
        }),
        ("environment", |subject, _| {
            std::hint::black_box(subject.preloads());
        }),
        ("start", |subject, _| {
            std::hint::black_box(subject.started());
        }),
        ("all", |subject, recognizer| {
            let numbers =
                (subject.auid(), subject.session(), subject.ppid(), subject.preloads(), subject.started());
            std::hint::black_box((numbers, subject.comm(), subject.exe(), subject.kind(recognizer)));
        }),
    ];
    for (name, ask) in questions {
        let start = Instant::now();
        for _ in 0..2_000 {
            ask(&Subject::read(child.id()), &recognizer);
        }
        println!("{name:12} {:6.1} us", start.elapsed().as_secs_f64() * 1e6 / 2_000.0);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}
