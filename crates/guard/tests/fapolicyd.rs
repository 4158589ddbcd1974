// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the guard with the real fapolicyd, by real opens and execs. Needs root, and fapolicyd installed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::support;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd as _;

use crate::support::oracle::WATCHED;
use crate::support::world::{EVERYONE, world};
use palisade_guard::facts::{Access, Facts as _, Start};
use palisade_guard::kind::{Recognizer, Stat};
use palisade_guard::subject::text::Environment;

/// How a program was started, by the rule that fapolicyd took.
#[test]
fn starts_are_fapolicyds() {
    if !support::has_fapolicyd() {
        return;
    }
    let rules = "allow perm=any pattern=static : all\nallow perm=any pattern=ld_so : all\n\
                 allow perm=any all : all\n";
    let (observed, cut) = world().observe(rules, EVERYONE);
    println!("{} events, {cut} cut", observed.len());
    assert!(observed.len() >= 5_000 && cut == 0);
    let mut differing: BTreeMap<(String, String), (usize, String)> = BTreeMap::new();
    for event in &observed {
        let theirs = match event.rule {
            Some(1) => Start::Static,
            Some(2) => Start::LinkerItself,
            _ => Start::Normal,
        };
        // fapolicyd has no name for programs that are started as usual (`pattern=normal`), only for the others.
        let ours = if event.start() == Start::Unknown { Start::Normal } else { event.start() };
        if theirs != ours {
            let entry = differing.entry((format!("{:?}", event.start()), format!("{theirs:?}"))).or_default();
            entry.0 += 1;
            if entry.1.is_empty() {
                entry.1 = format!("{event:?}");
            }
        }
    }
    for ((ours, theirs), (count, example)) in &differing {
        println!("{count:6} ours {ours}, theirs {theirs}: {example}");
    }
    assert!(differing.is_empty(), "starts differ");
}

/// fapolicyd's facts about the files are the same as ours.
#[test]
fn facts_are_fapolicyds() {
    if !support::has_fapolicyd() {
        return;
    }
    let world = world();
    let (observed, cut) = world.observe("allow perm=any all : all\n", EVERYONE);
    assert!(observed.len() >= 5_000 && cut == 0, "{} events, {cut} cut", observed.len());
    let executed = observed.iter().filter(|event| event.access() == Access::Execute).count();
    println!("{} events, {executed} of them to execute", observed.len());
    assert!(executed > 500);

    let recognizer = Recognizer::new().unwrap();
    let mut differing = BTreeMap::new();
    for event in &observed {
        let file = File::open(world.here(event.path())).unwrap();
        let ours = recognizer.kind_of(file.as_fd(), event.path(), Stat::of(file.as_fd()).unwrap());
        if ours.as_str() != event.kind() {
            differing.insert(
                String::from_utf8_lossy(event.path()).into_owned(),
                (ours.to_string(), event.kind().to_owned()),
            );
        }
    }
    println!("kinds differ: {differing:?}");
    // Scripts whose interpreter is at a path that libmagic doesn't know.
    differing.retain(|path, _| !["/mnt/w/data/elsewhere", "/mnt/w/data/script.sh"].contains(&path.as_str()));
    if !cfg!(feature = "libmagic") {
        // Two lines of Python, too few for libmagic's rules.
        differing.remove("/mnt/w/data/module.py");
    }
    assert!(differing.is_empty(), "{differing:?}");

    let uids: std::collections::BTreeSet<_> =
        observed.iter().flat_map(|event| event.uids().to_vec()).collect();
    assert_eq!(uids.into_iter().collect::<Vec<_>>(), [0, 33, 1000, 65534, 4_000_000]);
    let empty = observed.iter().find(|event| event.path() == b"/mnt/w/data/empty").unwrap();
    assert_eq!(empty.hash(), Some("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    let odd = observed.iter().find(|event| event.path() == b"/mnt/w/data/\xff\xfe").unwrap();
    assert!(!odd.trusted() && odd.kind() == "text/plain");
    assert!(observed.iter().any(|event| event.path() == b"/mnt/w/data/ path= exe="));
    assert!(
        observed.iter().any(|event| event.trusted()) && observed.iter().any(|event| event.subject_trusted())
    );
    assert!(observed.iter().any(|event| event.gids() == [27, 100, 1000]));
}

/// fapolicyd looks for `LD_PRELOAD` only in the first text of the environment, and anywhere in that text.
#[test]
fn preloaded_libraries_as_fapolicyd_sees_them() {
    if !support::has_fapolicyd() {
        return;
    }
    let commands = "\
        env -i LD_PRELOAD=/mnt/w/lib/libz.so.1 /mnt/w/bin/cat /mnt/w/data/text >/dev/null\n\
        env -i A=1 LD_PRELOAD=/mnt/w/lib/libz.so.1 /mnt/w/bin/cat /mnt/w/data/a.gz >/dev/null\n\
        env -i A=LD_PRELOAD /mnt/w/bin/cat /mnt/w/data/a.xml >/dev/null\n\
        env -i A=1 /mnt/w/bin/cat /mnt/w/data/a.pl >/dev/null\n";
    let (observed, _) =
        world().observe("allow perm=any pattern=ld_preload : all\nallow perm=any all : all\n", commands);
    let seen = |path: &str| {
        let event =
            observed.iter().find(|event| event.path() == path.as_bytes() && event.exe().ends_with(b"/cat"));
        event.unwrap_or_else(|| panic!("{path} was opened: {observed:?}")).rule == Some(1)
    };
    let theirs = ["text", "a.gz", "a.xml", "a.pl"].map(|name| seen(&format!("{WATCHED}/data/{name}")));
    assert_eq!(theirs, [true, false, true, false]);
    let ours = [&b"LD_PRELOAD=x\0"[..], b"A=1\0LD_PRELOAD=x\0", b"A=LD_PRELOAD\0", b"A=1\0"]
        .map(|environment| Environment::default().names_preload(environment));
    assert_eq!(ours, [true, true, false, false]);
}
