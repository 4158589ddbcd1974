// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of changes: nothing else changes, and what is taken back is the same text, byte by byte.
#![expect(clippy::unwrap_used, reason = "a test may die of what it has made itself")]

use palisade_settings::{Change, Draft, Format, Node};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Text between the tokens of a document.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just(" // a, \"comment\" {\n".to_owned()),
        1 => Just("/* , } ] */".to_owned()),
    ]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("env".to_owned()),
        Just("hooks".to_owned()),
        Just("own".to_owned()),
        "[a-z\u{e4}]{1,6}",
        Just("a.b \\\"".to_owned()),
    ]
}

/// A value as text.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        any::<i32>().prop_map(|number| number.to_string()),
        Just("-1.5e300".to_owned()),
        "[ -!#-\\[\\]-~\u{e4}\u{1f600}]{0,8}".prop_map(|text| format!("\"{text}\"")),
        Just("\"\\u00e9 // \\\" \"".to_owned()),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        let parts = |one: BoxedStrategy<String>, open: char, close: char| {
            (proptest::collection::vec((gap(), one, gap()), 0..4), gap(), any::<bool>()).prop_map(
                move |(parts, last, trailing)| {
                    let texts: Vec<String> =
                        parts.iter().map(|(before, one, after)| format!("{before}{one}{after}")).collect();
                    let comma = if trailing && !texts.is_empty() { "," } else { "" };
                    format!("{open}{}{comma}{last}{close}", texts.join(","))
                },
            )
        };
        let member = (name(), gap(), gap(), inner.clone())
            .prop_map(|(name, before, after, value)| format!("\"{name}\"{before}:{after}{value}"));
        prop_oneof![parts(inner.boxed(), '[', ']'), parts(member.boxed(), '{', '}')]
    })
}

/// A settings file: mostly an object, with the members that are changed or without.
fn document() -> impl Strategy<Value = String> {
    let member = (name(), value()).prop_map(|(name, value)| format!("\"{name}\": {value}"));
    let object = (proptest::collection::vec((gap(), member, gap()), 0..5), gap(), any::<bool>()).prop_map(
        |(parts, last, trailing)| {
            let texts: Vec<String> =
                parts.iter().map(|(before, one, after)| format!("{before}{one}{after}")).collect();
            let comma = if trailing && !texts.is_empty() { "," } else { "" };
            format!("{{{}{comma}{last}}}", texts.join(","))
        },
    );
    let body = prop_oneof![6 => object, 1 => gap(), 1 => value()];
    (any::<bool>(), gap(), body, gap()).prop_map(|(mark, before, body, after)| {
        format!("{}{before}{body}{after}", if mark { "\u{feff}" } else { "" })
    })
}

#[derive(Debug, Clone)]
enum Step {
    Set(Vec<String>, Value),
    Prepend(Vec<String>, Vec<Value>),
}

fn step() -> impl Strategy<Value = Step> {
    let path = || proptest::collection::vec(name(), 1..4);
    let set = prop_oneof![
        Just(json!("/opt/palisade-line")),
        Just(json!({"command": "a", "list": [1, {"b": null}]})),
        Just(json!(["one", "t\"wo"])),
        Just(json!(1)),
    ];
    prop_oneof![
        (path(), set).prop_map(|(path, value)| Step::Set(path, value)),
        (
            path(),
            proptest::collection::vec(prop_oneof![Just(json!("x")), Just(json!({"command": "y"}))], 1..3)
        )
            .prop_map(|(path, values)| Step::Prepend(path, values)),
    ]
}

fn make(draft: &mut Draft, step: &Step) -> bool {
    let names = |path: &[String]| path.to_vec();
    match step {
        Step::Set(path, value) => {
            let names = names(path);
            draft.set(&names.iter().map(String::as_str).collect::<Vec<_>>(), value).is_ok()
        }
        Step::Prepend(path, values) => {
            let names = names(path);
            draft.prepend(&names.iter().map(String::as_str).collect::<Vec<_>>(), values).is_ok()
        }
    }
}

fn value_of(draft: &Draft) -> Option<Value> {
    draft.root().map(Node::value)
}

/// The content without the changes, the last taken back first.
fn without(content: &str, changes: &[Change]) -> Draft {
    let mut draft = Draft::new(content.as_bytes(), Format::Json).unwrap();
    for change in changes.iter().rev() {
        draft.undo(change).unwrap();
    }
    draft
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn taken_back_is_the_same_text(
        text in document(),
        steps in proptest::collection::vec(step(), 1..4),
    ) {
        let draft = Draft::new(text.as_bytes(), Format::Json);
        // Most of the documents must be ones that can be read.
        prop_assume!(draft.is_ok());
        let mut draft = draft.unwrap();
        prop_assert_eq!(draft.content(), text.clone());
        for step in &steps {
            let before = draft.content();
            if !make(&mut draft, step) {
                prop_assert_eq!(draft.content(), before);
            }
        }
        let changed = draft.content();
        let changes = draft.into_changes();
        // The records are written as JSON.
        let changes: Vec<Change> = serde_json::from_str(&serde_json::to_string(&changes).unwrap()).unwrap();
        let draft = Draft::new(changed.as_bytes(), Format::Json).unwrap();
        prop_assert!(changes.last().is_none_or(|change| draft.has(change)));
        prop_assert_eq!(without(&changed, &changes).content(), text);
    }

    #[test]
    fn nothing_else_changes(text in document(), step in step()) {
        let Ok(mut draft) = Draft::new(text.as_bytes(), Format::Json) else { return Ok(()) };
        let before = value_of(&draft);
        if !make(&mut draft, &step) { return Ok(()) }
        let after = value_of(&draft).unwrap();
        // The same change, made to the values.
        let mut expected = before.unwrap_or_else(|| json!({}));
        let (path, new) = match &step {
            Step::Set(path, value) => (path, value.clone()),
            Step::Prepend(path, values) => {
                let old = path.iter().try_fold(&expected, |value, name| value.get(name));
                let mut all = values.clone();
                all.extend(old.and_then(Value::as_array).cloned().unwrap_or_default());
                (path, Value::Array(all))
            }
        };
        let mut place = &mut expected;
        for name in path {
            if !place.is_object() { *place = json!({}); }
            place = place.as_object_mut().unwrap().entry(name.clone()).or_insert(json!({}));
        }
        *place = new;
        prop_assert_eq!(after, expected);
    }

    /// A program reads the file, adds a member, and writes everything in its own layout.
    #[test]
    fn a_program_that_writes_the_file_anew_keeps_what_it_has_added(text in document(), step in step()) {
        let Ok(mut draft) = Draft::new(text.as_bytes(), Format::Json) else { return Ok(()) };
        let before = value_of(&draft);
        if !make(&mut draft, &step) { return Ok(()) }
        let Some(Value::Object(mut members)) = value_of(&draft) else { return Ok(()) };
        let changes = draft.into_changes();
        members.insert("zz-added".to_owned(), json!([1]));
        let anew = serde_json::to_string_pretty(&Value::Object(members)).unwrap();
        let mut expected = before.filter(Value::is_object).unwrap_or_else(|| json!({}));
        expected["zz-added"] = json!([1]);
        prop_assert_eq!(value_of(&without(&anew, &changes)).unwrap(), expected);
    }

    #[test]
    fn no_text_makes_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), toml in any::<bool>()) {
        let _any = Draft::new(&bytes, if toml { Format::Toml } else { Format::Json });
    }
}
