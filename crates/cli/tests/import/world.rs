// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of the import tests.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// A home, and a directory of foreign files beside it.
pub(crate) struct World {
    root: tempfile::TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl World {
    pub(crate) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for directory in ["home", "foreign"] {
            std::fs::create_dir(root.path().join(directory)).unwrap();
        }
        Self { root }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    pub(crate) fn write(&self, below: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let binary =
            std::env::var_os("PALISADE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_palisade").into());
        let mut command = Command::new("timeout");
        command
            .args(["-k", "1", "60"])
            .arg(binary)
            .args(arguments)
            .current_dir(self.path("foreign"))
            .env_clear()
            .env("HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        let Output { status, stdout, stderr } = command.output().unwrap();
        Answer {
            code: status.code().unwrap_or(-1),
            out: String::from_utf8(stdout).unwrap(),
            err: String::from_utf8(stderr).unwrap(),
        }
    }

    pub(crate) fn import(&self, from: &str, file: &str, more: &[&str]) -> Answer {
        self.run(&[&["import", "--from", from, file], more].concat())
    }

    /// The profile as it was understood, and the report.
    pub(crate) fn imported(&self, from: &str, file: &str, more: &[&str]) -> (toml::Table, Value) {
        let answer = self.import(from, file, &[more, &["--json"]].concat());
        let report: Value =
            serde_json::from_str(&answer.out).unwrap_or_else(|error| panic!("{error}: {answer:?}"));
        assert_eq!(answer.code, 0, "{answer:?}");
        let text = report["text"].as_str().unwrap();
        let table: toml::Table = toml::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let checked = self.write("foreign/checked.toml", text);
        let feature: &[&str] = if more.contains(&"--feature") { &["--as-feature"] } else { &[] };
        let check = self.run(&[&["check", "--layer", "user", &checked], feature].concat());
        assert_eq!(check.code, 0, "{check:?}\n{text}");
        (table, report)
    }
}

/// What stands at `SECTION.KEY`; where a key has dots in it, at `SECTION KEY`.
pub(crate) fn at<'t>(table: &'t toml::Table, path: &str) -> &'t toml::Value {
    let mut parts = path.split(if path.contains(' ') { ' ' } else { '.' });
    let first = &table[parts.next().unwrap()];
    parts.fold(first, |value, part| value.get(part).unwrap_or_else(|| panic!("no {path} in {table}")))
}

/// The texts of a list.
pub(crate) fn list<'t>(table: &'t toml::Table, path: &str) -> Vec<&'t str> {
    at(table, path).as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect()
}

/// The reasons for which something wasn't imported as it is, by statement.
pub(crate) fn reasons(report: &Value, kind: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    report[kind]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (text(&finding["statement"]), text(&finding["reason"])))
        .collect()
}
