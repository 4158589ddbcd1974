// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the modes enforce and permissive, temporary and permanent, with a palisaded that watches a tmpfs.

use super::world::{Guarded, NOT_BAD};
use std::time::Duration;

#[test]
fn enforced_and_not() {
    let Some(mut guarded) = Guarded::new(NOT_BAD) else { return };
    let (code, status) = guarded.json(&["status"]);
    assert_eq!((code, &status["enforcing"], &status["rules"]), (1, &false.into(), &2.into()), "{status}");
    assert_eq!(status["watched"], serde_json::json!([guarded.top().join("files")]));
    assert!(guarded.runs("bad"));
    let run = guarded.guard(&["status"]);
    assert!(run.out.starts_with("permissive: what the rules deny is only reported"), "{run:?}");
    assert!(run.out.contains("2 rules from ") && run.out.contains("fanotify decides"), "{run:?}");

    guarded.guard(&["enforce"]).ok();
    assert_eq!(guarded.json(&["status"]).0, 0);
    assert!(!guarded.runs("bad"));
    assert!(guarded.runs("good"));

    guarded.guard(&["permissive"]).ok();
    assert!(guarded.runs("bad"));

    guarded.guard(&["stop"]).ok();
    assert!(guarded.ends());
}

#[test]
fn a_trial_ends_by_itself() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    let run = guarded.guard(&["try", "--for", "2s"]);
    assert!(run.code == 0 && run.err.contains("hint: palisade guard keep"), "{run:?}");
    assert!(!guarded.runs("bad"));
    assert!(guarded.status()["trying"].is_u64());
    guarded.wait_until("it is over", || guarded.runs("bad"));
    assert!(guarded.status()["trying"].is_null());
    let run = guarded.guard(&["try", "--for", "1s", "--wait"]);
    assert!(run.code == 1 && run.err.ends_with("the trial has ended\n"), "{run:?}");
}

#[test]
fn a_trial_is_kept_or_reverted() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["try", "--for", "2s"]).ok();
    guarded.guard(&["keep"]).ok();
    std::thread::sleep(Duration::from_secs(3));
    assert!(!guarded.runs("bad"));
    for verb in ["keep", "revert"] {
        guarded.guard(&[verb]).refused(2, &["no trial is running"]).with_hint();
    }
    // Other rules, for a while.
    let other = guarded.top().join("other.rules");
    std::fs::write(
        &other,
        format!("deny perm=execute all : path={}\nallow perm=any all : all\n", guarded.file("good")),
    )
    .unwrap();
    guarded.guard(&["try", "--for", "60s", "--rules", other.to_str().unwrap()]).ok();
    assert!(guarded.runs("bad") && !guarded.runs("good"));
    guarded.guard(&["revert"]).ok();
    assert!(!guarded.runs("bad") && guarded.runs("good"));
}

#[test]
fn what_is_wrong_changes_nothing() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    let before = guarded.json(&["rules"]).1;
    guarded.write_rules("alow perm=any all : all\n");
    guarded.guard(&["reload"]).refused(2, &["10.rules:1:1", "unknown decision"]);
    guarded.guard(&["try", "--rules", "etc/guard.d"]).refused(2, &["can"]);
    let after = guarded.json(&["rules"]).1;
    let texts = |rules: &serde_json::Value| {
        let rules = rules["rules"].as_array().unwrap().iter();
        rules.map(|rule| rule["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(texts(&before), texts(&after));
    assert!(!guarded.runs("bad"));

    // Rules that would stop the host are enforced only with `--force`. Here only the tmpfs is watched.
    guarded.write_rules("deny perm=execute all : all\nallow perm=open all : all\n");
    guarded.guard(&["permissive"]).ok();
    guarded.guard(&["reload"]).ok();
    guarded.guard(&["enforce"]).refused(2, &["would stop the host"]).with_hint();
    assert!(guarded.runs("good"));
    guarded.guard(&["enforce", "--force"]).ok();
    assert!(!guarded.runs("good"));
}
