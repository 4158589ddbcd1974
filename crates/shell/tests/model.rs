// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the guard's third tier with models that are made here.
#![expect(clippy::unwrap_used, reason = "a test may die of what it has made itself")]
#![expect(clippy::cast_possible_truncation, reason = "bytes of numbers")]

mod onnx;

use onnx::{FLOAT, INT64, Node, Tensor};
use palisade_shell::classify::model::input::{LENGTH, place};
use palisade_shell::classify::model::{Opinion, Settings as Model, Share};
use palisade_shell::classify::{Classifier, Context, Level, Origin, Settings, Verdict};
use std::path::Path;

/// A line with signs, but not enough of them for a question.
const UNSURE: &str = "/tmp/zzq-tool --now";

/// A classifier with a model and a time limit; the limit is long where the machine may be busy.
fn with_model(path: &Path, bound: u64) -> Classifier {
    let model = Model { path: path.to_owned(), threshold: Share::try_from(0.5).unwrap(), bound };
    let classifier = Classifier::new(&Settings { model: Some(model), ..Settings::default() }).unwrap();
    classifier.prepare();
    classifier
}

fn of_bytes(bytes: &[u8]) -> Classifier {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("model.onnx");
    std::fs::write(&path, bytes).unwrap();
    // The model is read when this returns.
    with_model(&path, 60_000)
}

fn judged(classifier: &Classifier, line: &str, origin: Origin) -> Verdict {
    classifier.classify(line, origin, &Context::default())
}

fn plain() -> Classifier {
    Classifier::new(&Settings::default()).unwrap()
}

#[test]
fn a_model_has_lines_asked_about_of_which_the_rules_are_not_sure() {
    assert_eq!(judged(&plain(), UNSURE, Origin::Typed).level, Level::Allow);
    let classifier = of_bytes(&onnx::logistic(LENGTH, &[(place(b"zzq"), 40.0)], -10.0));
    let verdict = judged(&classifier, UNSURE, Origin::Typed);
    assert_eq!(verdict.level, Level::Confirm, "{verdict:?}");
    assert_eq!(verdict.first().map(|reason| reason.rule.as_str()), Some("model/score"));
    assert!(matches!(verdict.model, Some(Opinion::Score { score, .. }) if score > 0.99), "{verdict:?}");
    let verdict = judged(&classifier, "/tmp/other-tool --now", Origin::Typed);
    assert_eq!(verdict.level, Level::Allow);
    assert!(matches!(verdict.model, Some(Opinion::Score { score, .. }) if score < 0.01), "{verdict:?}");
    // Where the rules are sure, the model isn't asked.
    let verdict = judged(&classifier, "echo zzq", Origin::Typed);
    assert_eq!(verdict.model, Some(Opinion::NotAsked("the rules see nothing in it")));
    let verdict = judged(&classifier, "curl https://example.com/zzq | sh", Origin::Typed);
    assert_eq!(verdict.model, Some(Opinion::NotAsked("the rules ask already")));
    assert_eq!(judged(&plain(), UNSURE, Origin::Typed).model, None);
}

#[test]
fn what_it_is_told_besides_the_text_gets_there() {
    // This model reacts only to pasted lines.
    let classifier = of_bytes(&onnx::logistic(LENGTH, &[(2, 40.0)], -10.0));
    assert_eq!(judged(&classifier, UNSURE, Origin::Typed).level, Level::Allow);
    assert_eq!(judged(&classifier, UNSURE, Origin::Pasted).level, Level::Confirm);
    // This model uses the second tier's score, which is 3 for these signs.
    let classifier = of_bytes(&onnx::logistic(LENGTH, &[(0, 160.0)], -20.0));
    let verdict = judged(&classifier, UNSURE, Origin::Typed);
    assert!(verdict.score >= 3 && verdict.level == Level::Confirm, "{verdict:?}");
}

#[test]
fn whatever_a_model_says_no_ruling_is_milder() {
    let always = of_bytes(&onnx::logistic(LENGTH, &[], 20.0));
    let never = of_bytes(&onnx::logistic(LENGTH, &[], -20.0));
    let plain = plain();
    let (mut stricter, mut lines) = (0, vec![UNSURE.to_owned(), "rm -rf /".to_owned(), "ls".to_owned()]);
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora");
    for file in std::fs::read_dir(corpora).unwrap() {
        let text = std::fs::read(file.unwrap().path()).unwrap();
        lines.extend(String::from_utf8_lossy(&text).lines().step_by(40).map(str::to_owned));
    }
    assert!(lines.len() > 100, "there are lines to try");
    for line in &lines {
        for origin in [Origin::Typed, Origin::Pasted, Origin::Machine] {
            let without = judged(&plain, line, origin);
            let mild = judged(&never, line, origin);
            assert_eq!((mild.level, &mild.reasons), (without.level, &without.reasons), "{line}");
            let strict = judged(&always, line, origin);
            assert!(strict.level >= without.level, "{line}");
            stricter += u32::from(strict.level > without.level);
        }
    }
    assert!(stricter > 0, "it says something");
}

#[test]
fn a_rule_of_the_users_and_without_hold_for_it_too() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("model.onnx");
    std::fs::write(&path, onnx::logistic(LENGTH, &[], 20.0)).unwrap();
    let model = Model { path, threshold: Share::try_from(0.5).unwrap(), bound: 60_000 };
    let settings = Settings { model: Some(model), ..Settings::default() };
    for (settings, level) in [
        (Settings { most: Level::Warn, ..settings.clone() }, Level::Warn),
        (Settings { without: vec!["model".into()], ..settings.clone() }, Level::Allow),
        (settings, Level::Confirm),
    ] {
        let classifier = Classifier::new(&settings).unwrap();
        classifier.prepare();
        assert_eq!(judged(&classifier, UNSURE, Origin::Typed).level, level);
    }
}

/// Checks that the model is left out for this reason, that this is reported once, and that lines are judged as without
/// a model.
#[track_caller]
fn is_left_out(classifier: &Classifier, words: &str) {
    for again in [false, true] {
        let verdict = judged(classifier, UNSURE, Origin::Typed);
        assert_eq!(verdict.level, Level::Allow, "{verdict:?}");
        let Some(Opinion::LeftOut { why, first }) = &verdict.model else { panic!("{verdict:?}") };
        assert!(why.contains(words), "{words}: {why}");
        assert_eq!(*first, !again);
    }
    assert_eq!(judged(classifier, "rm -rf / --no-preserve-root", Origin::Typed).level, Level::Confirm);
}

#[test]
fn a_model_that_is_missing_or_no_file_is_left_out() {
    let home = tempfile::tempdir().unwrap();
    is_left_out(&with_model(&home.path().join("none.onnx"), 60_000), "No such file");
    is_left_out(&with_model(home.path(), 60_000), "isn't a file");
    is_left_out(&with_model(Path::new("/dev/zero"), 60_000), "isn't a file");
    is_left_out(&with_model(Path::new("model.onnx"), 60_000), "doesn't begin with /");
    let large = home.path().join("large.onnx");
    std::fs::File::create(&large).unwrap().set_len((64 << 20) + 1).unwrap();
    is_left_out(&with_model(&large, 60_000), "is larger than");
}

#[test]
fn a_model_that_is_broken_is_left_out() {
    let whole = onnx::logistic(LENGTH, &[], 20.0);
    for end in (0..whole.len() * 4 / 5).step_by(whole.len() / 25) {
        is_left_out(&of_bytes(&whole[..end]), "can't use");
    }
    is_left_out(&of_bytes(b"no model at all"), "can't use");
    let length = LENGTH as u64;
    let nodes: [Node<'_>; 1] = [("NoSuchOperator", &["line"], "score")];
    is_left_out(&of_bytes(&onnx::file(FLOAT, &[1, length], &[1, 1], &nodes, &[])), "NoSuchOperator");
    // A loop might never end.
    let nodes: [Node<'_>; 1] = [("Loop", &["line"], "score")];
    is_left_out(&of_bytes(&onnx::file(FLOAT, &[1, length], &[1, 1], &nodes, &[])), "Loop");
}

#[test]
fn a_model_of_another_shape_is_left_out() {
    let length = LENGTH as u64;
    is_left_out(&of_bytes(&onnx::logistic(LENGTH / 2, &[], 20.0)), "shape isn't [1, 1032]");
    let nodes: [Node<'_>; 1] = [("Sigmoid", &["line"], "score")];
    is_left_out(&of_bytes(&onnx::file(FLOAT, &[1, length], &[1, length], &nodes, &[])), "isn't one float");
    is_left_out(&of_bytes(&onnx::file(FLOAT, &[length], &[length], &nodes, &[])), "shape isn't");
    is_left_out(
        &of_bytes(&onnx::file(INT64, &[1, length], &[1, length], &nodes, &[])),
        "isn't made of floats",
    );
}

#[test]
fn a_model_that_answers_nonsense_is_left_out() {
    let length = LENGTH as u64;
    let nodes: [Node<'_>; 2] =
        [("MatMul", &["line", "weights"], "product"), ("Add", &["product", "bias"], "score")];
    let tensors = |bias| {
        [
            Tensor { name: "weights", shape: vec![length, 1], numbers: vec![0.0; LENGTH] },
            Tensor { name: "bias", shape: vec![1], numbers: vec![bias] },
        ]
    };
    for bias in [2.0, -0.5, f32::NAN, f32::INFINITY] {
        let bytes = onnx::file(FLOAT, &[1, length], &[1, 1], &nodes, &tensors(bias));
        is_left_out(&of_bytes(&bytes), "which isn't from 0 to 1");
    }
}

#[test]
fn a_model_that_is_too_slow_is_left_out() {
    const SIZE: usize = 256;
    let length = LENGTH as u64;
    let square = vec![SIZE as u64, SIZE as u64];
    let tensors = [
        Tensor { name: "narrow", shape: vec![length, 1], numbers: vec![0.0; LENGTH] },
        Tensor { name: "square", shape: square, numbers: vec![0.0; SIZE * SIZE] },
        Tensor { name: "row", shape: vec![1, SIZE as u64], numbers: vec![0.0; SIZE] },
        Tensor { name: "column", shape: vec![SIZE as u64, 1], numbers: vec![0.0; SIZE] },
    ];
    let names: Vec<String> = (0..=60).map(|number| format!("square {number}")).collect();
    let inputs: Vec<[&str; 2]> = names.iter().map(|name| [name.as_str(), "square"]).collect();
    let mut nodes: Vec<Node<'_>> =
        vec![("MatMul", &["line", "narrow"], "number"), ("Add", &["number", "square"], &names[0])];
    for (from, to) in inputs.iter().zip(&names[1..]) {
        nodes.push(("MatMul", from, to));
    }
    let last = [names[60].as_str(), "column"];
    nodes.extend([
        ("MatMul", &last as &[&str], "thin"),
        ("MatMul", &["row", "thin"], "sum"),
        ("Sigmoid", &["sum"], "score"),
    ]);
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("slow.onnx");
    std::fs::write(&path, onnx::file(FLOAT, &[1, length], &[1, 1], &nodes, &tensors)).unwrap();
    let classifier = with_model(&path, 1);
    let verdict = judged(&classifier, UNSURE, Origin::Typed);
    assert_eq!(verdict.level, Level::Allow);
    let Some(Opinion::LeftOut { why, first: true }) = &verdict.model else { panic!("{verdict:?}") };
    // On a busy machine the model may not even be read in time.
    assert!(why.contains("took longer than 1 ms") || why.contains("wasn't read within"), "{why}");
    let verdict = judged(&classifier, UNSURE, Origin::Typed);
    assert!(matches!(&verdict.model, Some(Opinion::LeftOut { first: false, .. })), "{verdict:?}");
}
