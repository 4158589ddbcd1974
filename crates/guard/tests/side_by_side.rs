// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares fapolicyd's decision with ours, event by event, for the same rules and facts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::support;
use std::collections::BTreeMap;
use std::path::Path;

use crate::support::observed::Observed;
use crate::support::world::{EVERYONE, world};
use palisade_guard::decide::Decider;
use palisade_guard::facts::{Access, Facts as _, Start};
use palisade_guard::linear;
use palisade_guard::rule::accounts::AccountFiles;
use palisade_guard::rule::{RuleSet, parse::parse};

/// Every kind of condition that 1.1.7 accepts and applies as written.
const MANY: &str = "\
%langs=text/x-python,text/x-perl,text/x-ruby,application/javascript
%users=1000,33
%apps=/mnt/w/bin/cat,/mnt/w/bin/true
allow perm=any pattern=static : trust=1
deny perm=any pattern=static : all
deny perm=any pattern=ld_so : all
deny_log perm=execute uid=33 : path=/mnt/w/other/true
deny perm=any uid=%users : ftype=%langs
allow perm=execute all : path=%apps
deny perm=open gid=27 : dir=/mnt/w/dir/
deny_syslog perm=any gid=4,5 : dir=/mnt/w/dirx/
allow perm=open exe=/mnt/w/bin/bash : path=/mnt/w/data/text
deny perm=any trust=0 comm=bash : trust=0 ftype=text/plain
allow perm=open dir=/mnt/w/other/ : sha256hash=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
allow_log perm=any exe=/mnt/w/bin/cat,/mnt/w/bin/true trust=1 : ftype=application/x-sharedlib
deny perm=open ftype=application/x-executable uid=65534 : ftype=application/x-bytecode.python,application/x-elc
allow exe=/usr/bin/bash path=/mnt/w/data/a.gz
deny uid=4000000 dir=/mnt/w/lib/
allow perm=open uid=0 : dir=/lib/,/mnt/w/data/
deny perm=any dir=/usr/bin/ : trust=0 dir=/mnt/w/data/
deny perm=execute all : trust=0
allow perm=open gid=0,100 : ftype=any
deny perm=any auid=1000 : all
deny perm=any sessionid=7 : all
allow perm=any all : device=/dev/none
deny perm=open uid=1000 : trust=1 ftype=text/xml
";

/// No rule matches most of the time.
const FEW: &str =
    "deny perm=execute uid=33 : all\ndeny perm=open gid=27 trust=0 : trust=1 dir=/mnt/w/data/\n";

fn rules(text: &str) -> RuleSet {
    parse(Path::new("compiled.rules"), text.as_bytes(), &AccountFiles::host())
        .unwrap_or_else(|error| panic!("our parser refuses what fapolicyd takes: {error}\n{text}"))
}

/// Compares, and returns how many events there were; panics at a difference that isn't explained.
fn compare(name: &str, text: &str, explained: impl Fn(&Observed) -> Option<&'static str>) -> usize {
    let rules = rules(text);
    let decider = Decider::new(&rules);
    let (observed, cut) = world().observe(text, EVERYONE);
    let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let mut differing: BTreeMap<(Option<u32>, Option<u32>), (usize, String)> = BTreeMap::new();
    for event in &observed {
        let slow = linear::decide(&rules, &**event);
        let fast = decider.decide(&**event);
        assert_eq!(slow, fast, "linear and decide differ: {event:?}");
        let ours = slow.rule.map(|rule| rule.number());
        *taken.entry(event.rule.unwrap_or(0)).or_default() += 1;
        let decision = if slow.rule.is_none() { "no-opinion" } else { slow.decision.name() };
        if ours == event.rule && decision == event.decision {
            continue;
        }
        if let Some(reason) = explained(event) {
            *reasons.entry(reason).or_default() += 1;
            continue;
        }
        let entry = differing.entry((ours, event.rule)).or_default();
        entry.0 += 1;
        if entry.1.is_empty() {
            let (path, exe) = (String::from_utf8_lossy(event.path()), String::from_utf8_lossy(event.exe()));
            entry.1 = format!("{exe} {} {path}: {decision}, {}; {event:?}", event.access(), event.decision);
        }
    }
    println!("{name}: {} events, {cut} cut, rules taken {taken:?}, explained {reasons:?}", observed.len());
    for ((ours, theirs), (count, example)) in &differing {
        println!("{count:6} ours {ours:?}, theirs {theirs:?}: {example}");
    }
    assert!(differing.is_empty() && cut == 0, "decisions differ");
    observed.len()
}

#[test]
fn decisions_are_fapolicyds() {
    if !support::has_fapolicyd() {
        return;
    }
    // At an exec, 1.1.7 lets only the first rule that asks for a pattern see that the program is static. If the rule's
    // other conditions don't hold, the next such rule doesn't match, though it names the same pattern.
    let asked_twice = |event: &Observed| {
        let at_exec =
            event.access() == Access::Execute && event.start() == Start::Static && event.rule > Some(2);
        at_exec.then_some("fapolicyd tells that a program is static only once for each exec")
    };
    assert!(compare("many", MANY, asked_twice) >= 5_000);
    compare("few", FEW, |_| None);
}

/// The policy that fapolicyd is shipped with.
#[test]
fn decisions_of_the_shipped_policy_are_fapolicyds() {
    let shipped = Path::new("/usr/share/fapolicyd/sample-rules");
    if !support::has_fapolicyd() || !shipped.exists() {
        return;
    }
    let files = [
        "10-languages",
        "20-dracut",
        "21-updaters",
        "30-patterns",
        "40-bad-elf",
        "41-shared-obj",
        "42-trusted-elf",
        "70-trusted-lang",
        "72-shell",
        "90-deny-execute",
        "95-allow-open",
    ];
    let text: String = files
        .iter()
        .map(|name| std::fs::read_to_string(shipped.join(format!("{name}.rules"))).unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    compare("shipped", &text, |_| None);
}
