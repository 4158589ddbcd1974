// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell classify` with a user's own model. Without the feature `onnx`, a message says that there are none.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]
#![expect(clippy::cast_possible_truncation, reason = "bytes of numbers")]

#[allow(dead_code, reason = "not all of it is needed here")]
#[path = "../../shell/tests/model/onnx.rs"]
mod onnx;

use palisade_shell::classify::model::input::{LENGTH, place};
use std::path::Path;
use std::process::{Command, Output};

const LINE: &str = "/tmp/zzq-tool --now";

fn classify(home: &Path, arguments: &[&str]) -> (Output, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_palisade"))
        .args(["shell", "classify"])
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (said, noted) = (text(&output.stdout), text(&output.stderr));
    (output, said, noted)
}

#[test]
fn what_a_model_says_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join(".config/palisade/shell.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(
        &settings,
        "schema = 1\n[guard.model]\npath = '~/zzq.onnx'\nthreshold = 0.75\nbound-ms = 60000\n",
    )
    .unwrap();
    let (output, said, noted) = classify(home.path(), &["--explain", LINE]);
    // There is no file yet.
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.starts_with("allow\n  model: not used: "), "{said}");
    assert!(noted.contains("continues without its model"), "{noted}");
    std::fs::write(home.path().join("zzq.onnx"), onnx::logistic(LENGTH, &[(place(b"zzq"), 40.0)], -10.0))
        .unwrap();
    let (output, said, noted) = classify(home.path(), &["--explain", LINE]);
    let (_, json, _) = classify(home.path(), &["--json", LINE]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    if cfg!(feature = "onnx") {
        assert_eq!((output.status.code(), noted.as_str()), (Some(1), ""), "{said}");
        assert!(said.starts_with("confirm\n") && said.contains("(model/score)"), "{said}");
        assert!(said.ends_with("  model: 1.000, asks from 0.750\n"), "{said}");
        assert_eq!(json["model"]["score"]["threshold"], 0.75, "{json}");
    } else {
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("was built without the feature `onnx`"), "{said}");
        assert!(json["model"]["left-out"]["why"].is_string(), "{json}");
    }
    let (_, said, noted) = classify(home.path(), &["--explain", "ls"]);
    assert_eq!(said, "allow\n  model: not asked: the rules see nothing in it\n");
    assert_eq!(noted, "");
}
