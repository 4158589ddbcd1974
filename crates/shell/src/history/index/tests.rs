// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The index must answer like a search through all entries.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn entry(line: &str, directory: &str, started: i64, exit: Option<i32>) -> Entry {
    Entry { line: line.into(), directory: directory.into(), started, exit, ..Entry::default() }
}

/// The slow and simple search that the index is compared with.
fn expected(entries: &[Entry], typed: &str, directory: &str) -> Vec<String> {
    let mut lines: BTreeMap<&str, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        lines.entry(&entry.line).or_default().push(entry);
    }
    let mut found: Vec<_> = lines
        .into_iter()
        .filter(|(line, _uses)| *line != typed && line.contains(typed))
        .map(|(line, uses)| {
            let good = uses.iter().any(|entry| entry.went_well());
            let last = |here: bool| {
                uses.iter()
                    .filter(|entry| !here || !directory.is_empty() && entry.directory == directory)
                    .map(|entry| entry.started)
                    .max()
            };
            let here = last(true);
            (line.starts_with(typed), good, here.is_some(), here.or(last(false)), Reverse(line))
        })
        .collect();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.into_iter().map(|(.., Reverse(line))| line.to_owned()).collect()
}

fn check(index: &Index, entries: &[Entry], typed: &str, directory: &str) {
    let all = expected(entries, typed, directory);
    let mut into = [Found::default(); LIST];
    let count = index.list(typed, directory, &mut into);
    let listed: Vec<&str> = into[..count].iter().map(|found| found.line).collect();
    assert_eq!(listed, all.iter().take(LIST).collect::<Vec<_>>(), "{typed:?} in {directory:?}");
    let best = all.first().filter(|line| line.starts_with(typed) && !typed.is_empty());
    assert_eq!(index.suggest(typed, directory), best.map(String::as_str), "{typed:?} in {directory:?}");
}

#[derive(Debug, Clone)]
enum Step {
    Add(Entry),
    Delete(String),
    /// Start sorting, without waiting.
    Sort,
    Settle,
}

fn line() -> impl Strategy<Value = String> {
    // Few letters, so that many lines are alike. Some lines are equal in more than eight bytes.
    let short = "[abü ]{1,6}";
    prop_oneof![3 => short.boxed(), 1 => "(aaaaaaaa|abababab)[abü]{0,12}".boxed()]
        .prop_filter("blank", |line| !line.trim().is_empty())
}

fn step() -> impl Strategy<Value = Step> {
    let exit = prop::sample::select(vec![None, Some(0), Some(1), Some(130)]);
    let directory = prop::sample::select(vec!["", "/", "/a", "/b"]);
    let add = (line(), directory, 0..20i64, exit)
        .prop_map(|(line, directory, started, exit)| Step::Add(entry(&line, directory, started, exit)));
    prop_oneof![
        20 => add,
        2 => line().prop_map(Step::Delete),
        1 => Just(Step::Sort),
        1 => Just(Step::Settle),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn it_answers_as_a_look_through_all_would(
        old in prop::collection::vec(step(), 0..60),
        new in prop::collection::vec(step(), 0..60),
        queries in prop::collection::vec((line(), 0..7usize), 1..12),
    ) {
        let of = |step: &Step| match step { Step::Add(entry) => Some(entry.clone()), _ => None };
        let mut entries: Vec<Entry> = old.iter().filter_map(of).collect();
        let mut index = Index::build(&entries);
        for step in new {
            match step {
                Step::Add(entry) => {
                    index.add(&entry);
                    entries.push(entry);
                }
                Step::Delete(line) => {
                    // Mostly a line that exists.
                    let line = entries.get(line.len() * 7 % 31).map_or(line, |entry| entry.line.clone());
                    let there = entries.iter().any(|entry| entry.line == line);
                    assert_eq!(index.delete(&line), there);
                    entries.retain(|entry| entry.line != line);
                }
                Step::Sort if !index.sorter.is_busy() => index.sort(),
                Step::Sort => {}
                Step::Settle => index.settle(),
            }
        }
        for (line, cut) in &queries {
            let typed: String = line.chars().take(*cut).collect();
            for directory in ["/a", "/b", "", "/never"] {
                check(&index, &entries, &typed, directory);
            }
        }
        index.settle();
        for (line, cut) in &queries {
            let typed: String = line.chars().take(*cut).collect();
            check(&index, &entries, &typed, "/a");
        }
    }

    #[test]
    fn one_made_meanwhile_is_taken_over(
        stored in prop::collection::vec(step(), 0..40),
        typed in prop::collection::vec(step(), 0..40),
        query in line(),
    ) {
        let of = |step: &Step| match step { Step::Add(entry) => Some(entry.clone()), _ => None };
        let stored: Vec<Entry> = stored.iter().filter_map(of).collect();
        let typed: Vec<Entry> = typed.iter().filter_map(of).collect();
        let mut index = Index::default();
        for entry in &typed {
            index.add(entry);
        }
        index.adopt(Index::build(&stored));
        let all: Vec<Entry> = stored.into_iter().chain(typed).collect();
        for cut in 0..query.chars().count() {
            let typed: String = query.chars().take(cut).collect();
            for directory in ["/a", "/b", ""] {
                check(&index, &all, &typed, directory);
            }
        }
    }
}

#[test]
fn an_empty_index_knows_nothing() {
    let mut index = Index::default();
    assert_eq!(index.suggest("a", "/"), None);
    assert_eq!(index.list("", "/", &mut [Found::default(); 9]), 0);
    assert!(!index.delete("a"));
    index.settle();
    assert!(index.is_empty());
}

#[test]
fn what_cannot_be_typed_again_is_left_out() {
    let mut index = Index::default();
    for line in ["", "  ", "\n", "a\0b", &"x".repeat(super::super::LONGEST + 1)] {
        index.add(&entry(line, "/", 1, None));
    }
    assert!(index.is_empty());
    let longest = "x".repeat(super::super::LONGEST);
    index.add(&entry(&longest, "/", 1, None));
    assert_eq!(index.suggest(&longest[..1024], "/"), Some(longest.as_str()));
    assert_eq!(index.suggest(&longest[..1025], "/"), None);
    assert_eq!(index.suggest("x\0", "/"), None);
}

#[test]
fn what_failed_comes_last_and_what_was_interrupted_did_not_fail() {
    let mut index = Index::default();
    index.add(&entry("make test", "/a", 1, Some(0)));
    index.add(&entry("make tset", "/a", 2, Some(2)));
    assert_eq!(index.suggest("make ", "/a"), Some("make test"));
    index.add(&entry("make serve", "/a", 3, Some(130)));
    assert_eq!(index.suggest("make ", "/a"), Some("make serve"));
    // The line failed this time, but it isn't a typing error: it went well before.
    index.add(&entry("make test", "/a", 4, Some(1)));
    assert_eq!(index.suggest("make ", "/a"), Some("make test"));
}

#[test]
fn a_lot_is_sorted_by_the_thread_and_stays_the_same() {
    let mut index = Index::default();
    let mut entries = Vec::new();
    for number in 0..2_000i64 {
        let entry = entry(
            &format!("echo {}", number % 700),
            if number % 2 == 0 { "/a" } else { "/b" },
            number,
            Some(0),
        );
        index.add(&entry);
        entries.push(entry);
        if number % 97 == 0 {
            let line = format!("echo {}", number % 13);
            index.delete(&line);
            entries.retain(|entry| entry.line != line);
        }
        if number % 50 == 0 {
            check(&index, &entries, "echo 1", "/a");
            check(&index, &entries, "1", "/b");
        }
    }
    index.settle();
    assert_eq!(index.fresh.len(), 0);
    check(&index, &entries, "e", "/b");
}
