// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the decisions of the policies that come with Palisade, and that they are the same for every subject.

use crate::sample;
use std::path::Path;

use palisade_guard::decide::Decider;
use palisade_guard::facts::Access;
use palisade_guard::known::Known;
use palisade_guard::policies::{KNOWN_LIBS, RESTRICTIVE};
use palisade_guard::rule::RuleSet;
use palisade_guard::rule::lint::lint;
use palisade_guard::rule::parse::parse;

fn rules(text: &str) -> RuleSet {
    parse(Path::new("policy.rules"), text.as_bytes(), &sample::Names)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn object(access: Access, trusted: bool, kind: &str) -> Known {
    Known { access, trusted, kind: kind.to_owned(), path: b"/srv/file".to_vec(), ..Known::default() }
}

#[test]
fn what_the_policies_allow() {
    use Access::{Execute, Open};
    // Access, trusted, kind; allowed by default, allowed by the restrictive policy.
    for (access, trusted, kind, default, restrictive) in [
        (Execute, true, "application/x-executable", true, true),
        (Open, true, "application/x-sharedlib", true, true),
        (Open, true, "text/x-python", true, true),
        // ./program, and ld.so ./program
        (Execute, false, "application/x-executable", false, false),
        (Open, false, "application/x-executable", false, false),
        (Open, false, "application/x-pie-executable", false, false),
        // LD_PRELOAD, dlopen()
        (Open, false, "application/x-sharedlib", false, false),
        (Open, false, "application/x-bad-elf", false, false),
        // python3 program.py, python3 < program
        (Open, false, "text/x-python", false, false),
        (Execute, false, "text/x-perl", false, false),
        // bash script, ./script
        (Open, false, "text/x-shellscript", true, false),
        (Execute, false, "text/x-shellscript", true, false),
        (Open, false, "text/plain", true, true),
        (Open, false, "?", true, true),
        (Execute, false, "text/plain", false, false),
        (Execute, false, "?", false, false),
    ] {
        let facts = object(access, trusted, kind);
        for (text, expected) in [(KNOWN_LIBS, default), (RESTRICTIVE, restrictive)] {
            let decider = Decider::new(&rules(text));
            let said = decider.decide(&facts);
            assert_eq!(said.decision.allow, expected, "{access} trusted={trusted} {kind}");
            // The kernel may be told of everything that is allowed. What is denied, package managers may read.
            let everybody = decider.for_every_subject(&facts);
            let reads = access == Open && !expected;
            assert_eq!(everybody, (!reads).then_some(said), "{access} trusted={trusted} {kind}");
            assert_eq!(said.decision.audit, !expected, "denials are audited, and nothing else");
        }
    }
}

#[test]
fn package_managers_read_what_they_unpack() {
    for text in [KNOWN_LIBS, RESTRICTIVE] {
        let decider = Decider::new(&rules(text));
        let by = |uid: u32, exe: &[u8], subject_trusted, access| {
            let facts = object(access, false, "application/x-executable");
            decider
                .decide(&Known { uids: vec![uid], exe: exe.to_vec(), subject_trusted, ..facts })
                .decision
                .allow
        };
        assert!(by(0, b"/usr/bin/dpkg", true, Access::Open));
        assert!(!by(0, b"/usr/bin/dpkg", true, Access::Execute));
        assert!(!by(0, b"/usr/bin/dpkg", false, Access::Open));
        assert!(!by(0, b"/usr/bin/cat", true, Access::Open));
        // Any user may start them, and make them load code of that user.
        assert!(!by(1000, b"/usr/bin/dpkg", true, Access::Open));
    }
}

#[test]
fn python_reads_the_bytecode_that_it_has_made_of_packages() {
    for text in [KNOWN_LIBS, RESTRICTIVE] {
        let decider = Decider::new(&rules(text));
        let at = |path: &[u8], access| {
            let facts = object(access, false, "application/x-bytecode.python");
            decider.decide(&Known { path: path.to_vec(), ..facts }).decision.allow
        };
        assert!(at(b"/usr/lib/python3/dist-packages/__pycache__/six.cpython-311.pyc", Access::Open));
        assert!(!at(b"/usr/lib/python3/x.pyc", Access::Execute));
        assert!(!at(b"/home/user/__pycache__/x.pyc", Access::Open));
        assert!(!at(b"(foreign)/usr/lib/x.pyc", Access::Open));
    }
}

#[test]
fn there_is_nothing_to_say_against_them() {
    for text in [KNOWN_LIBS, RESTRICTIVE] {
        let rules = rules(text);
        let findings: Vec<_> = lint(&rules).into_iter().filter(|finding| !finding.is_note()).collect();
        assert_eq!(findings, []);
    }
}
