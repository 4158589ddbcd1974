// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the examples in the documentation do what they say.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::everybody::{Place, helper};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example's program, as cargo builds it beside the tests.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    if !path.exists() {
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--offline", "-q", "-p", "palisade", "--all-features", "--example", name]);
        assert!(build.status().unwrap().success());
    }
    path
}

fn run(name: &str) -> String {
    let place = Place::new();
    let output = Command::new(example(name))
        .current_dir(place.work())
        .env("PALISADE_HELPER", helper().path())
        .env("HOME", place.work().parent().unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_first_one_says_what_was_refused() {
    let said = run("first");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("a command sees ") && !lines[0].contains(" 0 "), "{said}");
    assert!(said.contains("refused: write") && said.contains("to permit it: palisade run "), "{said}");
    assert!(said.ends_with("the second command has ended: exit code 2\n"), "{said}");
}

/// The README shows a part of the example.
#[test]
fn the_readme_has_it_word_for_word() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = std::fs::read_to_string(root.join("../../README.md")).unwrap();
    let example = std::fs::read_to_string(root.join("examples/first.rs")).unwrap();
    let shown = readme.split("```rust\n").nth(1).unwrap().split("```").next().unwrap();
    let mut lines = shown.lines().filter(|line| !line.is_empty()).peekable();
    assert!(lines.peek().is_some());
    for line in lines {
        assert!(example.lines().any(|own| own.trim_start() == line.trim_start()), "{line}");
    }
}

#[test]
fn the_server_waits_for_its_commands() {
    let ended = |code: u8| format!("a request's command has ended: exit code {code}\n");
    assert_eq!(run("server"), [ended(0), ended(1), ended(2)].concat());
}
