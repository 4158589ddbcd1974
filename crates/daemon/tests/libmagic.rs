// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that libmagic runs in processes without rights, and that a user gains nothing by making one of them end.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::confinement::{child, of_threads};
use crate::stopped::signal;
use crate::support::{Bed, ORDINARY, Settings, has};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Only libmagic knows this kind.
const RULES: &str = "deny_log perm=open all : ftype=text/vcard\nallow perm=any all : all\n";
const FAILED: &str = "libmagic ended or took too long";
const CARD: &str = "BEGIN:VCARD\nVERSION:3.0\nEND:VCARD\n";

fn bed() -> Option<Bed> {
    if !has("fanotify") {
        return None;
    }
    let mut bed = Bed::new();
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules(RULES);
    bed.write(bed.at("plain"), "Dear reader,\nimport nothing.\n");
    for number in 0..8 {
        bed.write(bed.at(&format!("card-{number}")), CARD);
    }
    bed.start();
    Some(bed)
}

#[test]
fn without_its_database_the_guard_does_not_begin_and_says_what_to_install() {
    if !has("fanotify") {
        return;
    }
    let mut bed = Bed::new();
    bed.settings(&Settings { trust: "sources = []".into(), ..Settings::enforce() });
    bed.rules(RULES);
    for place in ["/usr/share/misc", "/usr/lib/file", "/usr/share/file"] {
        bed.run(&format!("[ ! -d {place} ] || mount -t tmpfs none {place}")).ok();
    }
    bed.launch();
    assert_eq!(bed.ended(), Some(1), "{}", bed.log());
    let log = bed.log();
    assert!(log.contains("libmagic's database can't be read"), "{log}");
    assert!(log.lines().any(|line| line.starts_with("hint: install libmagic's data, `apt install")), "{log}");
    assert!(!log.contains("\\n") && !log.contains("\\x0a"), "{log}");
}

/// A text that takes libmagic a quarter of a second.
fn slow() -> String {
    format!("from os import getpid\n{}", "\n".repeat(1 << 16))
}

/// The process that makes the libmagic children, once it has begun.
pub(crate) fn nursery(bed: &Bed) -> u32 {
    let mut found = None;
    bed.wait("libmagic can be asked", |bed| {
        found = child(bed.pid(), "--tell-kinds");
        found
            .is_some_and(|pid| of_threads(pid, "CapEff:").values().any(|rights| rights == "00000000000000c0"))
    });
    found.unwrap()
}

/// The libmagic children.
pub(crate) fn asked(nursery: u32) -> Vec<u32> {
    let children = fs::read_to_string(format!("/proc/{nursery}/task/{nursery}/children")).unwrap_or_default();
    let is_one =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "kind\n");
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).filter(is_one).collect()
}

/// Kills these children, and waits until they have closed their sockets. A file that is sent to a dying child looks like a
/// file that made the child end.
fn kill(bed: &Bed, these: Vec<u32>) {
    these.iter().for_each(|pid| signal("-KILL", *pid));
    let has_ended = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
        stat.is_ok_and(|stat| stat.contains(") Z ")) || !Path::new(&format!("/proc/{pid}")).exists()
    };
    bed.wait("those who are asked have ended", |_bed| these.iter().all(has_ended));
}

#[test]
fn who_is_asked_has_no_rights_and_the_guard_has_no_libmagic() {
    let Some(mut bed) = bed() else { return };
    bed.run_as_user("cat plain").ok();
    bed.run_as_user("cat card-0").refused();
    let children = asked(nursery(&bed));
    assert!(!children.is_empty());
    bed.wait("it is said", |bed| bed.log().contains("ftype=text/vcard"));
    assert!(!bed.log().contains(FAILED), "{}", bed.log());
    for pid in children {
        let of = |key: &str| of_threads(pid, key).into_values().next().unwrap();
        for rights in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(of(rights), "0000000000000000", "{rights}");
        }
        assert_eq!(of("Uid:"), "65532\t65532\t65532\t65532");
        assert_eq!(of("Groups:"), "");
        assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), ("1".to_owned(), "2".to_owned()));
        let files = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut files: Vec<String> = files
            .map(|file| fs::read_link(file.unwrap().path()).unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert!(files[3].starts_with("socket:"), "{files:?}");
        assert_eq!(
            (files.len(), &files[..3]),
            (4, &["/dev/null", "/dev/null", "/dev/null"].map(String::from)[..])
        );
    }
    let maps = fs::read_to_string(format!("/proc/{}/maps", bed.pid())).unwrap();
    assert!(maps.contains("palisaded") && !maps.contains("magic.mgc"));
    bed.stop();
}

#[test]
fn who_ends_it_gets_nothing_for_it() {
    let Some(mut bed) = bed() else { return };
    let nursery_before = nursery(&bed);
    bed.run_as_user("cat card-0").refused();
    // Each thread that asks has its own child.
    for card in 1..4 {
        kill(&bed, asked(nursery_before));
        bed.run_as_user(&format!("cat card-{card}")).refused();
    }
    assert!(!bed.log().contains(FAILED), "{}", bed.log());
    // A stopped child doesn't answer; another thread uses its own child.
    asked(nursery_before).into_iter().for_each(|pid| signal("-STOP", pid));
    let began = std::time::Instant::now();
    bed.run_as_user("cat card-4").refused();
    let crowd = palisade_acceptance::patience::crowd().max(1.0);
    assert!(began.elapsed() < crate::faults::WAIT.mul_f64(crowd), "{:?}", began.elapsed());
    bed.run_as_user("cat plain").ok();
    // A child ends at a file: here because it may not use the processor time that it asks for, and neither may later
    // children. The file's open is then refused, and no kind is invented for it.
    bed.write(bed.at("text"), "from os import getpid\n");
    bed.write(bed.at("text-too"), "from os import getpid\n");
    bed.run_as_user("cat text").ok();
    let limited = Command::new("prlimit").args(["--pid", &nursery_before.to_string(), "--cpu=1:1"]).status();
    assert!(limited.unwrap().success());
    kill(&bed, asked(nursery_before));
    bed.run_as_user("cat text-too").refused();
    bed.wait("it is said", |bed| bed.log().contains(FAILED));
    assert_eq!(nursery(&bed), nursery_before, "a file ends nobody but who is asked about it");
    bed.stop();
}

#[test]
fn without_a_nursery_the_host_goes_on_and_gets_another_one() {
    let Some(mut bed) = bed() else { return };
    let before = nursery(&bed);
    bed.run_as_user("cat card-0").refused();
    for (name, card) in [("-KILL", 1), ("-STOP", 3)] {
        let before = nursery(&bed);
        // A thread that has a child still uses it.
        asked(before).into_iter().for_each(|pid| signal("-KILL", pid));
        signal(name, before);
        let began = std::time::Instant::now();
        let _refused_or_told_otherwise = bed.run_as_user(&format!("cat card-{card}"));
        let crowd = palisade_acceptance::patience::crowd().max(1.0);
        assert!(began.elapsed() < crate::faults::WAIT.mul_f64(crowd), "{:?}", began.elapsed());
        // A thread that asks detects a stopped process, but it may have asked a dying child instead.
        bed.wait("another one", |bed| {
            let _refused_or_told_otherwise = bed.run_as_user(&format!("cat card-{card}"));
            child(bed.pid(), "--tell-kinds").is_some_and(|pid| pid != before)
        });
        assert!(bed.log().contains("alarm: the libmagic process has ended"));
        bed.wait("it is asked", |bed| bed.status().alarms.is_empty());
        bed.run_as_user(&format!("cat card-{}", card + 1)).refused();
    }
    assert_ne!(nursery(&bed), before);
    bed.stop();
}

/// libmagic takes a quarter of a second for 64 KiB of empty lines. A user with such texts is the only one who waits.
#[test]
fn a_users_slow_texts_hold_up_that_user_alone() {
    const TIMES: u32 = 8;
    let Some(mut bed) = bed() else { return };
    for number in 0..12 {
        bed.write(bed.at(&format!("slow-{number}")), slow());
    }
    bed.run(&format!("chown {ORDINARY} slow-*")).ok();
    let others = || {
        let began = std::time::Instant::now();
        for _ in 0..TIMES {
            bed.run("cat plain").ok();
            bed.run("cat card-1").refused();
        }
        began.elapsed()
    };
    let alone = others();
    let users: Vec<_> = (0..12)
        .map(|number| {
            let script = format!("cd {}; cat slow-{number} slow-{number} >/dev/null", bed.point.display());
            bed.command(ORDINARY, "240", &["/bin/sh", "-c", &script]).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let beside = others();
    let crowd = palisade_acceptance::patience::crowd().max(1.0);
    let more = std::time::Duration::from_millis(100).mul_f64(crowd) * 2 * TIMES;
    assert!(beside < alone + more, "{alone:?} alone, {beside:?} beside slow texts");
    for mut user in users {
        assert!(user.wait().unwrap().success(), "what takes long is told in the end");
    }
    bed.stop();
}
