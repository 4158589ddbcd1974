// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random rules and accesses from few words, so that they match often.
#![allow(dead_code, unreachable_pub, reason = "each test uses what it needs")]

use palisade_guard::facts::{Access, Start};
use palisade_guard::known::Known;
use palisade_guard::rule::accounts::Accounts;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Two users and a group.
pub struct Names;

impl Accounts for Names {
    fn user(&self, name: &[u8]) -> Option<u32> {
        match name {
            b"root" => Some(0),
            b"alice" => Some(1000),
            _ => None,
        }
    }
    fn group(&self, name: &[u8]) -> Option<u32> {
        (name == b"wheel").then_some(10)
    }
}

const PATHS: &[&str] = &[
    "/usr/bin/vi",
    "/usr/bin/python3",
    "/usr/lib/a.so",
    "/etc/passwd",
    "/tmp/a",
    "/tmp/x y",
    "/tmp/a,b",
    "/tmp/\"q",
    "/tmp/.hidden",
    "/home/alice/bin/tool",
    "/lib64/ld.so",
    "/tmp",
    "/",
    "?",
    "untrusted",
];
const PATTERNS: &[&str] = &[
    "glob:/tmp/*",
    "glob:/home/*/bin/tool",
    "glob:/usr/*/a.so",
    "glob:/tmp/[a-c]",
    "glob:/*/*",
    "glob:/tmp/x ?",
    "untrusted",
];
const DIRECTORIES: &[&str] = &[
    "/usr/",
    "/usr/bin/",
    "/usr/lib",
    "/tmp",
    "/tmp/",
    "/tmp/x ",
    "/home/alice/",
    "/",
    "execdirs",
    "systemdirs",
    "untrusted",
    "/usr/bin/python",
];
const KINDS: &[&str] = &["text/x-python", "application/x-sharedlib", "application/x-executable", "any", "?"];
const DEVICES: &[&str] = &["/dev/sda1", "/dev/sdb", "?"];
const COMMS: &[&str] = &["vi", "python3", "nfsd", "a b"];
const HASHES: &[&str] = &[
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "0000000000000000000000000000000000000000000000000000000000000000",
];
const NUMBERS: &[u32] = &[0, 1, 2, 10, 1000, u32::MAX];

fn quoted(value: &str) -> String {
    if value.contains([' ', ',', '"']) {
        format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace(',', "\\,"))
    } else {
        value.to_owned()
    }
}

fn list(values: Vec<&'static str>) -> impl Strategy<Value = String> {
    let most = values.len().min(3);
    subsequence(values, 1..=most)
        .prop_shuffle()
        .prop_map(|values| values.into_iter().map(quoted).collect::<Vec<_>>().join(","))
}

fn numbers() -> impl Strategy<Value = String> {
    subsequence(NUMBERS.to_vec(), 1..=2)
        .prop_map(|values| values.iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

fn both(one: &[&'static str], other: &[&'static str]) -> Vec<&'static str> {
    one.iter().chain(other).copied().filter(|value| *value != "untrusted").chain(["untrusted"]).collect()
}

fn subject_field() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("all".to_owned()),
        2 => numbers().prop_map(|values| format!("uid={values}")),
        2 => prop_oneof![numbers(), Just("wheel".to_owned())].prop_map(|values| format!("gid={values}")),
        1 => numbers().prop_map(|values| format!("auid={values}")),
        1 => numbers().prop_map(|values| format!("sessionid={values}")),
        1 => select(&["0", "1", "-1", "2,1000"][..]).prop_map(|values| format!("pid={values}")),
        1 => select(&["2", "1", "-1"][..]).prop_map(|values| format!("ppid={values}")),
        2 => select(&["0", "1"][..]).prop_map(|value| format!("trust={value}")),
        1 => list(COMMS.to_vec()).prop_map(|values| format!("comm={values}")),
        4 => list(both(PATHS, PATTERNS)).prop_map(|values| format!("exe={values}")),
        3 => list(DIRECTORIES.to_vec()).prop_map(|values| format!("dir={values}")),
        1 => list(KINDS.to_vec()).prop_map(|values| format!("ftype={values}")),
        3 => select(&["normal", "ld_so", "ld_preload", "static"][..]).prop_map(|value| format!("pattern={value}")),
        1 => Just("exe=untrusted".to_owned()),
    ]
}

fn object_field() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("all".to_owned()),
        4 => list(both(PATHS, PATTERNS)).prop_map(|values| format!("path={values}")),
        4 => list(DIRECTORIES.to_vec()).prop_map(|values| format!("dir={values}")),
        1 => list(DEVICES.to_vec()).prop_map(|values| format!("device={values}")),
        3 => list(KINDS.to_vec()).prop_map(|values| format!("ftype={values}")),
        3 => select(&["0", "1"][..]).prop_map(|value| format!("trust={value}")),
        1 => list(HASHES.to_vec()).prop_map(|values| format!("filehash={values}")),
        1 => Just("path=untrusted".to_owned()),
        1 => Just("path=".to_owned()),
    ]
}

/// A line with a rule of the form with a colon.
pub fn line() -> impl Strategy<Value = Vec<u8>> {
    line_of(1..4)
}

/// A line with a rule that few accesses match.
pub fn narrow_line() -> impl Strategy<Value = Vec<u8>> {
    line_of(3..6)
}

fn line_of(fields: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
    (
        select(
            &["allow", "deny", "allow", "deny", "allow_audit", "deny_audit", "deny_syslog", "allow_log"][..],
        ),
        select(&["", " perm=open", " perm=execute", " perm=any", " perm=any"][..]),
        proptest::collection::vec(subject_field(), fields.clone()),
        proptest::collection::vec(object_field(), fields),
    )
        .prop_map(|(decision, permission, subject, object)| {
            format!("{decision}{permission} {} : {}\n", subject.join(" "), object.join(" ")).into_bytes()
        })
}

fn text(values: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    select(values).prop_map(|value| value.as_bytes().to_vec())
}

/// A process.
pub fn subject() -> impl Strategy<Value = Known> {
    let numbers = || select(NUMBERS);
    (
        (numbers(), numbers(), numbers(), numbers()),
        (proptest::collection::vec(numbers(), 1..5), proptest::collection::vec(numbers(), 0..6)),
        (any::<bool>(), any::<bool>(), text(COMMS), text(PATHS), select(KINDS)),
        select(&[Start::Unknown, Start::Normal, Start::LinkerItself, Start::Static][..]),
    )
        .prop_map(
            |((auid, session, pid, ppid), (uids, gids), (trusted, preloads, comm, exe, kind), start)| Known {
                auid,
                session,
                pid,
                ppid,
                uids,
                gids,
                subject_trusted: trusted,
                preloads,
                comm,
                exe,
                subject_kind: kind.to_owned(),
                start,
                ..Known::default()
            },
        )
}

/// An access to a file.
pub fn object() -> impl Strategy<Value = Known> {
    (
        any::<bool>(),
        any::<bool>(),
        text(PATHS),
        text(DEVICES),
        select(KINDS),
        proptest::option::of(select(HASHES)),
    )
        .prop_map(|(execute, trusted, path, device, kind, hash)| Known {
            access: if execute { Access::Execute } else { Access::Open },
            trusted,
            path,
            device,
            kind: kind.to_owned(),
            hash: hash.map(str::to_owned),
            ..Known::default()
        })
}

/// The process accesses the file.
pub fn join(subject: &Known, object: &Known) -> Known {
    Known {
        access: object.access,
        trusted: object.trusted,
        path: object.path.clone(),
        device: object.device.clone(),
        kind: object.kind.clone(),
        hash: object.hash.clone(),
        ..subject.clone()
    }
}
