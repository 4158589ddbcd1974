// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what systemd's journal gets if standard error leads there. The test itself answers at the journal's socket.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Settings, has};
use palisade_protocol::guard::{Request, Response};
use std::fs::File;
use std::os::linux::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const RULES: &str = "deny_syslog perm=any all : path=/root/secret\nallow perm=any all : all\n";

/// A host with a guard that is told that systemd has started it. If `listens`, the journal answers.
fn host(listens: bool, names_it: bool) -> Option<(Bed, Option<UnixDatagram>)> {
    if !has("fanotify") {
        return None;
    }
    let mut bed = Bed::host();
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules(RULES);
    bed.write("/root/secret", "secret");
    bed.run("mkdir -p /run/systemd/journal").ok();
    // The outside path is too long for a socket address.
    let directory = File::open(bed.outside("/run/systemd/journal")).unwrap();
    let socket = format!("/proc/self/fd/{}/socket", std::os::fd::AsRawFd::as_raw_fd(&directory));
    let journal = listens.then(|| UnixDatagram::bind(socket).unwrap());
    let log = bed.outside("/run/said");
    let said = File::create(&log).unwrap();
    let found = said.metadata().unwrap();
    let inode = if names_it { found.st_ino() } else { found.st_ino() + 1 };
    let stream = format!("JOURNAL_STREAM={}:{inode}", found.st_dev());
    bed.starter = ["env".to_owned(), stream].map(|word| &*word.leak()).to_vec();
    bed.said = Some(said.into());
    bed.launch();
    bed.wait(
        "the guard begins",
        |bed| matches!(bed.try_ask(&Request::Status), Some(Response::Status(status)) if status.enforcing),
    );
    let refused = bed.run("cat /root/secret");
    assert!(!refused.worked(), "{refused:?}");
    Some((bed, journal))
}

fn said(bed: &Bed) -> String {
    std::fs::read_to_string(bed.outside("/run/said")).unwrap()
}

#[test]
fn a_decision_has_a_priority_and_fields() {
    let Some((mut bed, Some(journal))) = host(true, true) else { return };
    journal.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut buffer = [0; 1 << 16];
    let mut messages = Vec::new();
    let decision = loop {
        let length = journal.recv(&mut buffer).unwrap_or_else(|error| panic!("{error}: {messages:?}"));
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        if message.contains("PALISADE_DECISION=") {
            break message;
        }
        messages.push(message);
    };
    let field = |name: &str| {
        let mut values = decision.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        let value = values.next().unwrap_or_else(|| panic!("{name}: {decision}"));
        assert_eq!(values.next(), None, "{name} twice: {decision}");
        value
    };
    assert!(field("MESSAGE").contains("dec=deny_syslog"), "{decision}");
    assert_eq!((field("PRIORITY"), field("SYSLOG_IDENTIFIER")), ("4", "palisaded"));
    assert_eq!((field("PALISADE_DECISION"), field("PALISADE_REFUSED")), ("deny_syslog", "1"));
    assert_eq!((field("PALISADE_PATH"), field("PALISADE_ACCESS")), ("/root/secret", "open"));
    assert_eq!((field("PALISADE_RULE"), field("PALISADE_UID")), ("1", "0"));
    assert!(
        field("OBJECT_PID").parse::<u32>().is_ok() && field("PALISADE_EXE").ends_with("/cat"),
        "{decision}"
    );
    assert!(messages.iter().all(|message| message.contains("PRIORITY=6\n")), "{messages:?}");
    bed.stop();
    assert_eq!(said(&bed), "", "what the journal has isn't said again");
}

#[test]
fn without_the_journal_standard_error_has_it() {
    for names_it in [true, false] {
        // If the variable names another stream, the guard doesn't use the journal.
        let Some((mut bed, journal)) = host(!names_it, names_it) else { return };
        bed.wait("it is said", |bed| said(bed).contains("dec=deny_syslog"));
        bed.stop();
        if let Some(journal) = journal {
            journal.set_nonblocking(true).unwrap();
            assert!(journal.recv(&mut [0; 16]).is_err());
        }
    }
}

/// The kernel lets one process write to a terminal at a time, and a non-blocking writer fails instead of waiting.
#[test]
fn a_terminal_that_others_write_to_is_told_of_each_refusal() {
    if !has("fanotify") {
        return;
    }
    const COUNT: usize = 30;
    let mut bed = Bed::new();
    for number in 0..COUNT {
        bed.copy("/bin/true", bed.at(&format!("refused-{number}")));
    }
    bed.settings(&Settings::enforce().log("terminal = true"));
    bed.rules("deny_log perm=execute all : all\nallow perm=any all : all\n");
    bed.start();
    let typescript = bed.base.join("typescript");
    // `script` reads what both write. Each refusal is of another file, because refusals of the same file are reported once.
    let inside = format!(
        "while :; do echo something; done >/dev/tty & for number in $(seq 0 {}); do ./refused-$number; sleep 0.05; done 2>/dev/null; kill $!",
        COUNT - 1
    );
    bed.run(&format!("SHELL=/bin/bash script -qfc '{inside}' '{}' >/dev/null", typescript.display()));
    let told = std::fs::read(&typescript).unwrap();
    let told = String::from_utf8_lossy(&told);
    let found = told.matches("palisade: refused to execute").count();
    // With only one attempt for each, half of them would be lost.
    assert!(found + 1 >= COUNT, "{found}: {}", bed.log());
    bed.stop();
}
