// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How long a decision takes, by the number of rules: nanoseconds, the median of 15 rounds.
//!
//! `cargo run --release -p palisade-guard --example decide`

use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use palisade_guard::decide::Decider;
use palisade_guard::facts::{Access, Start};
use palisade_guard::known::Known;
use palisade_guard::linear;
use palisade_guard::rule::accounts::AccountFiles;
use palisade_guard::rule::lint::lint;
use palisade_guard::rule::{RuleSet, parse};

/// Rules of all kinds, each with values of its own, before a default of five.
fn mixed(count: usize) -> String {
    let mut text = String::from("%languages=text/x-python,text/x-perl,text/x-ruby,text/x-lua\n");
    for number in 0..count.saturating_sub(5) {
        let rule = match number % 8 {
            0 => format!("allow perm=any all : path=/opt/vendor/tool{number} trust=1"),
            1 => format!("deny_audit perm=execute all : path=/srv/data/file{number}"),
            2 => format!("allow perm=any exe=/usr/bin/builder{number} : dir=/home/user{number}/build/"),
            3 => format!("deny perm=any all : dir=/var/spool/app{number}/"),
            4 => format!("allow perm=execute uid={number} : path=glob:/home/*/bin/tool{number}"),
            5 => format!("deny perm=any all : filehash={number:064x}"),
            6 => format!("allow perm=open gid={number} comm=job{number} : all"),
            _ => format!("deny perm=any exe=/usr/bin/app{number} : ftype=%languages"),
        };
        text.push_str(&rule);
        text.push('\n');
    }
    text.push_str(
        "deny_audit perm=any all : ftype=application/x-bad-elf\n\
         allow perm=open all : ftype=application/x-sharedlib trust=1\n\
         deny_audit perm=open all : ftype=application/x-sharedlib\n\
         allow perm=execute all : trust=1\n\
         allow perm=open all : all\n",
    );
    text
}

/// Half of the rules ask for one attribute, half for another: no word of rows is free in both.
fn interleaved(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = match number % 2 {
            0 => writeln!(text, "deny perm=any all : path=/opt/{number}"),
            _ => writeln!(text, "deny perm=any exe=/opt/{number} : all"),
        };
        text
    })
}

/// All rules ask for trust, which half of them find.
fn trusting(count: usize) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = writeln!(
            text,
            "deny perm=any uid={number} trust={} : trust={} dir=/usr/",
            number % 2,
            number / 2 % 2
        );
        text
    })
}

fn access() -> Known {
    Known {
        access: Access::Execute,
        uids: vec![1_000_000; 4],
        gids: vec![1_000_000, 4, 27, 100],
        exe: b"/usr/bin/bash".to_vec(),
        comm: b"bash".to_vec(),
        subject_trusted: true,
        subject_kind: "application/x-executable".to_owned(),
        start: Start::Normal,
        path: b"/usr/bin/ls".to_vec(),
        device: b"/dev/sda1".to_vec(),
        kind: "application/x-executable".to_owned(),
        trusted: true,
        hash: Some("f".repeat(64)),
        ..Known::default()
    }
}

fn nanoseconds(mut work: impl FnMut(), times: u32) -> f64 {
    let mut rounds: Vec<f64> = (0..15)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..times {
                work();
            }
            start.elapsed().as_nanos() as f64 / f64::from(times)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

/// Kibibytes of memory in use.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok()).unwrap_or_default() * 4
}

fn main() {
    let accounts = AccountFiles::host();
    println!(
        "{:<12} {:>7} {:>10} {:>10} {:>12} {:>9} {:>11} {:>9} {:>7}",
        "rules", "number", "decide", "linear", "any subject", "parse ms", "compile ms", "lint ms", "KiB",
    );
    for (name, text_of) in
        [("mixed", mixed as fn(usize) -> String), ("interleaved", interleaved), ("trusting", trusting)]
    {
        for count in [10, 100, 1_000, 10_000, 100_000] {
            let text = text_of(count);
            let before = resident();
            let start = Instant::now();
            let rules: RuleSet = match parse::parse(Path::new("example"), text.as_bytes(), &accounts) {
                Ok(rules) => rules,
                Err(error) => return eprintln!("{error}"),
            };
            let parsed = start.elapsed();
            let start = Instant::now();
            let decider = Decider::new(&rules);
            let compiled = start.elapsed();
            let start = Instant::now();
            let _ = lint(&rules);
            let linted = start.elapsed();
            let facts = access();
            assert_eq!(decider.decide(&facts), linear::decide(&rules, &facts));
            let decide = nanoseconds(|| _ = black_box(decider.decide(black_box(&facts))), 2_000);
            let linear = nanoseconds(|| _ = black_box(linear::decide(&rules, black_box(&facts))), 5);
            let every = nanoseconds(|| _ = black_box(decider.for_every_subject(black_box(&facts))), 2_000);
            println!(
                "{name:<12} {count:>7} {decide:>10.0} {linear:>10.0} {every:>12.0} {:>9.1} {:>11.1} {:>9.1} {:>7}",
                parsed.as_secs_f64() * 1e3,
                compiled.as_secs_f64() * 1e3,
                linted.as_secs_f64() * 1e3,
                resident() - before,
            );
        }
    }
}
