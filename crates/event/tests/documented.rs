// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the examples of `docs/events.md` are valid events, and that the page documents every word and member.
#![expect(clippy::unwrap_used, reason = "a test may die of what it is given")]

use palisade_event::{EVENT_SCHEMA, Event, Kind, Mechanism, Operation, Verdict};
use serde_json::Value;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../docs/events.md");

fn examples() -> Vec<Value> {
    let blocks = PAGE.split("```json\n").skip(1);
    let bodies = blocks.map(|block| block.split("```").next().unwrap());
    bodies.map(|body| serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))).collect()
}

#[test]
fn each_example_is_an_event_as_it_is_written() {
    let mut kinds = BTreeSet::new();
    for example in examples() {
        let event: Event =
            serde_json::from_value(example.clone()).unwrap_or_else(|error| panic!("{error}: {example}"));
        assert_eq!(event.schema, EVENT_SCHEMA, "{example}");
        assert_eq!(serde_json::to_value(&event).unwrap(), example);
        kinds.insert(event.kind());
    }
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), Kind::ALL, "there is one of each kind");
}

#[test]
fn every_word_is_documented() {
    let documented = |word: &str| PAGE.contains(&format!("`{word}`"));
    let words = Kind::ALL.iter().map(|word| word.word());
    let words = words.chain(Operation::ALL.iter().map(|word| word.word()));
    let words = words.chain(Verdict::ALL.iter().map(|word| word.word()));
    let words = words.chain(Mechanism::ALL.iter().map(|word| word.word()));
    let missing: Vec<&str> = words.filter(|word| !documented(word)).collect();
    assert!(missing.is_empty(), "docs/events.md doesn't say {missing:?}");
}

#[test]
fn every_member_is_documented() {
    let mut missing = BTreeSet::new();
    for example in examples() {
        let mut members = vec![(String::new(), example)];
        while let Some((_, value)) = members.pop() {
            if let Value::Object(object) = value {
                for (name, value) in object {
                    if !PAGE.contains(&format!("`{name}`")) {
                        missing.insert(name.clone());
                    }
                    members.push((name, value));
                }
            }
        }
    }
    assert!(missing.is_empty(), "docs/events.md doesn't say what {missing:?} are");
}
