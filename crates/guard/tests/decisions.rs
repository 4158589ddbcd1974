// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the compiled rules answer like the plain list of rules, and that an answer for every subject is right.

use std::cell::Cell;
use std::path::Path;

use palisade_guard::decide::Decider;
use palisade_guard::facts::{Access, Facts, Start};
use palisade_guard::known::Known;
use palisade_guard::linear;
use palisade_guard::rule::{RuleSet, parse};
use proptest::prelude::*;

use crate::sample::{self, Names, line, narrow_line, object, subject};

fn rules(text: &[u8]) -> RuleSet {
    parse::parse(Path::new("test.rules"), text, &Names).unwrap_or_else(|error| panic!("{error}"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn compiled_rules_answer_as_the_rules_do(
        narrow in proptest::collection::vec(narrow_line(), 0..80),
        lines in proptest::collection::vec(line(), 0..10),
        accesses in proptest::collection::vec((subject(), object()), 16),
    ) {
        let rules = rules(&[narrow.concat(), lines.concat()].concat());
        let decider = Decider::new(&rules);
        for (subject, object) in accesses {
            let facts = sample::join(&subject, &object);
            prop_assert_eq!(decider.decide(&facts), linear::decide(&rules, &facts), "{:?}\n{}", facts, rules);
        }
    }

    #[test]
    fn what_holds_for_every_subject_does(
        lines in proptest::collection::vec(line(), 0..30),
        subjects in proptest::collection::vec(subject(), 20),
        objects in proptest::collection::vec(object(), 15),
    ) {
        let rules = rules(&lines.concat());
        let decider = Decider::new(&rules);
        for object in objects {
            let Some(said) = decider.for_every_subject(&ObjectOnly(&object)) else { continue };
            for subject in &subjects {
                let facts = sample::join(subject, &object);
                prop_assert_eq!(said.decision, linear::decide(&rules, &facts).decision, "{:?}\n{}", facts, rules);
            }
        }
    }

    #[test]
    fn without_linkers_what_holds_for_every_subject_does(
        lines in proptest::collection::vec(line(), 0..12),
        pattern_at in 0..4usize,
        subjects in proptest::collection::vec(subject(), 20),
        objects in proptest::collection::vec(object(), 15),
    ) {
        let mut lines = lines;
        let at = pattern_at.min(lines.len());
        lines.insert(at, b"deny_audit perm=any pattern=ld_so : all\n".to_vec());
        let rules = rules(&lines.concat());
        let linkers = [Box::from(&b"/lib64/ld.so"[..])];
        let decider = Decider::new(&rules).with_linkers(&linkers);
        // Only subjects that can exist: one that was started by the linker exists only if some subject may execute it.
        let can_be = |start: Start| start != Start::LinkerItself || subjects.iter().any(|subject| {
            objects.iter().any(|object| {
                let mut exec = sample::join(subject, object);
                exec.access = Access::Execute;
                exec.path = b"/lib64/ld.so".to_vec();
                exec.start = Start::LinkerItself;
                linear::decide(&rules, &exec).decision.allow
            })
        });
        let is_linker_possible = can_be(Start::LinkerItself);
        for object in &objects {
            let Some(said) = decider.for_every_subject(&ObjectOnly(object)) else { continue };
            for subject in &subjects {
                if subject.start == Start::LinkerItself && !is_linker_possible {
                    continue;
                }
                let facts = sample::join(subject, object);
                prop_assert_eq!(said.decision, linear::decide(&rules, &facts).decision, "{:?}\n{}", facts, rules);
            }
        }
    }

    #[test]
    fn printed_rules_read_as_the_same_rules(lines in proptest::collection::vec(line(), 0..25)) {
        let first = rules(&lines.concat());
        let second = rules(&first.print_all());
        let of = |rules: &RuleSet| rules.iter().map(|(_, rule)| rule.clone()).collect::<Vec<_>>();
        prop_assert_eq!(of(&first), of(&second));
        prop_assert_eq!(first.print_all(), second.print_all());
    }

    #[test]
    fn explaining_ends_with_what_decided(
        lines in proptest::collection::vec(line(), 0..20),
        subject in subject(),
        object in object(),
    ) {
        let rules = rules(&lines.concat());
        let facts = sample::join(&subject, &object);
        let steps = linear::explain(&rules, &facts);
        let decided = steps.last().filter(|step| step.mismatch.is_none()).map(|step| step.rule);
        prop_assert_eq!(decided, linear::decide(&rules, &facts).rule);
        for step in &steps {
            prop_assert_eq!(step.mismatch.is_some(), step.reason(&rules, &facts).is_some());
        }
    }
}

/// So many rules that groups have many words, and that most shapes share a group.
#[test]
fn thousands_of_rules_answer_as_the_rules_do() {
    proptest!(ProptestConfig::with_cases(3), |(
        narrow in proptest::collection::vec(narrow_line(), 1000..1500),
        accesses in proptest::collection::vec((subject(), object()), 40),
    )| {
        let rules = rules(&narrow.concat());
        let decider = Decider::new(&rules);
        for (subject, object) in &accesses {
            let facts = sample::join(subject, object);
            prop_assert_eq!(decider.decide(&facts), linear::decide(&rules, &facts), "{:?}", facts);
            if let Some(said) = decider.for_every_subject(&ObjectOnly(object)) {
                for (subject, _) in &accesses {
                    let facts = sample::join(subject, object);
                    prop_assert_eq!(said.decision, linear::decide(&rules, &facts).decision, "{:?}", facts);
                }
            }
        }
    });
}

/// Panics when a fact about the subject is asked for.
struct ObjectOnly<'a>(&'a Known);

/// Counts the questions for facts that are expensive.
struct Costly<'a> {
    known: &'a Known,
    asked: Cell<Vec<&'static str>>,
}

impl Costly<'_> {
    fn note(&self, what: &'static str) {
        let mut asked = self.asked.take();
        asked.push(what);
        self.asked.set(asked);
    }
}

macro_rules! facts {
    ($type:ident, $self:ident, $known:expr, $subject:expr, $costly:expr) => {
        impl Facts for $type<'_> {
            fn access(&$self) -> Access { $known.access() }
            fn path(&$self) -> &[u8] { $known.path() }
            fn device(&$self) -> &[u8] { $known.device() }
            fn kind(&$self) -> &str { $costly("kind"); $known.kind() }
            fn trusted(&$self) -> bool { $costly("trusted"); $known.trusted() }
            fn hash(&$self) -> Option<&str> { $costly("hash"); $known.hash() }
            fn auid(&$self) -> u32 { $subject("auid"); $known.auid() }
            fn uids(&$self) -> &[u32] { $subject("uids"); $known.uids() }
            fn gids(&$self) -> &[u32] { $subject("gids"); $known.gids() }
            fn session(&$self) -> u32 { $subject("session"); $known.session() }
            fn pid(&$self) -> u32 { $subject("pid"); $known.pid() }
            fn ppid(&$self) -> u32 { $subject("ppid"); $known.ppid() }
            fn subject_trusted(&$self) -> bool { $subject("subject_trusted"); $known.subject_trusted() }
            fn comm(&$self) -> &[u8] { $subject("comm"); $known.comm() }
            fn exe(&$self) -> &[u8] { $subject("exe"); $known.exe() }
            fn subject_kind(&$self) -> &str { $subject("subject_kind"); $known.subject_kind() }
            fn start(&$self) -> Start { $subject("start"); $known.start() }
            fn preloads(&$self) -> bool { $subject("preloads"); $known.preloads() }
        }
    };
}

facts!(ObjectOnly, self, self.0, |what: &str| panic!("the subject's {what} was asked for"), |_: &str| ());
facts!(Costly, self, self.known, |what| self.note(what), |what| self.note(what));

#[test]
fn nothing_is_asked_for_that_no_possible_rule_needs() {
    let rules = rules(
        b"deny perm=execute all : dir=/tmp/ ftype=text/x-python\n\
          allow perm=any all : path=/usr/bin/env\n\
          allow perm=any uid=0 : trust=1\n\
          deny perm=any all : filehash=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n",
    );
    let decider = Decider::new(&rules);
    let asked = |known: &Known| {
        let facts = Costly { known, asked: Cell::default() };
        let _ = decider.decide(&facts);
        facts.asked.take()
    };
    let env = Known { path: b"/usr/bin/env".to_vec(), ..Known::default() };
    assert_eq!(asked(&env), Vec::<&str>::new());
    let other = Known { path: b"/srv/x".to_vec(), uids: vec![5], ..Known::default() };
    assert_eq!(asked(&other), ["uids", "hash"]);
    let root = Known { path: b"/srv/x".to_vec(), uids: vec![0], trusted: true, ..Known::default() };
    assert_eq!(asked(&root), ["uids", "trusted"]);
}

#[test]
fn the_linker_is_ruled_out_only_if_nobody_may_execute_it() {
    let linkers = [Box::from(&b"/lib64/ld.so"[..])];
    let object = Known { path: b"/usr/lib/x.so".to_vec(), trusted: true, ..Known::default() };
    for (before, expected) in [
        ("", Some(true)),
        // Root may execute the linker, so a process that was started that way can exist.
        ("allow perm=any uid=0 : all\n", None),
        ("allow perm=execute all : path=/lib64/ld.so trust=1\n", None),
        ("allow perm=execute all : path=/lib64/other.so trust=1\n", Some(true)),
        ("deny perm=execute uid=0 : path=/lib64/ld.so\n", Some(true)),
    ] {
        let text = format!("{before}deny_audit perm=any pattern=ld_so : all\nallow perm=any all : trust=1\n");
        let decider = Decider::new(&rules(text.as_bytes()));
        assert_eq!(decider.for_every_subject(&object), None, "{text}");
        let decider = decider.with_linkers(&linkers);
        assert_eq!(
            decider.for_every_subject(&object).map(|outcome| outcome.decision.allow),
            expected,
            "{text}"
        );
    }
}

#[test]
fn many_directories_and_groups_are_looked_up_in_the_rules() {
    let mut text = String::new();
    for depth in 1..60 {
        text.push_str(&format!("deny perm=any gid={depth} : dir={}\n", "/a".repeat(depth)));
    }
    text.push_str("deny_log perm=any gid=59 gid=3 : dir=/a path=glob:/a/*\n");
    let rules = rules(text.as_bytes());
    let decider = Decider::new(&rules);
    for path in ["/a".repeat(59), "/a/a".to_owned(), "/b".to_owned()] {
        for gids in [(60..120).collect::<Vec<u32>>(), (0..60).collect(), vec![40, 3], vec![]] {
            let facts = Known { path: path.clone().into_bytes(), gids, ..Known::default() };
            assert_eq!(decider.decide(&facts), linear::decide(&rules, &facts), "{facts:?}");
        }
    }
}
