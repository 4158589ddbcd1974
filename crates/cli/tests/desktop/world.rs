// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the tests of `palisade desktop` share: a home, a data directory of the system, and the result of a run.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

pub const APP: &str = "\
[Desktop Entry]
Type=Application
Name=App
Name[de]=Anwendung
Icon=app
TryExec=true
Exec=true --started %U
DBusActivatable=true
MimeType=application/pdf;
Categories=Utility;
Actions=new;

[Desktop Action new]
Name=New Window
Exec=true --new-window
";

/// A home, a system's directory of data beside it, and a Palisade of its own.
pub struct World {
    root: tempfile::TempDir,
}

/// Everything in the home: a file's content, a link's target, or a directory's name.
pub type Tree = BTreeMap<PathBuf, String>;

impl World {
    pub fn new() -> Self {
        let world = Self { root: tempfile::tempdir().unwrap() };
        for directory in ["home/.config/palisade/profiles", "share", "a b"] {
            std::fs::create_dir_all(world.path(directory)).unwrap();
        }
        let given = std::env::var_os("PALISADE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_palisade").into());
        // A child process copies it. If this process did, a child of another test could still have the file open for
        // writing, and exec would fail.
        let copied = Command::new("cp").arg(&given).arg(world.palisade()).status().unwrap();
        assert!(copied.success());
        world.profile("app");
        world
    }

    pub fn with_entry() -> Self {
        let world = Self::new();
        world.write("share/applications/app.desktop", APP);
        world
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(below)
    }

    pub fn home(&self, below: &str) -> PathBuf {
        self.path("home").join(below)
    }

    /// In a directory with a space in its name.
    pub fn palisade(&self) -> PathBuf {
        self.path("a b/palisade")
    }

    pub fn write(&self, below: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    pub fn profile(&self, name: &str) {
        self.write(&format!("home/.config/palisade/profiles/{name}.toml"), "schema = 1\n");
    }

    pub fn environment<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .current_dir(self.path(""))
            .env_clear()
            .env("HOME", self.home(""))
            .env("PATH", format!("{}:/usr/bin:/bin", self.home(".local/bin").display()))
            .env("XDG_DATA_DIRS", self.path("share"))
            .env("LC_ALL", "C.UTF-8")
            .env("RECORD", self.path("record"))
            .stdin(Stdio::null())
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.palisade());
        self.environment(command.arg("desktop").args(arguments));
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    pub fn done(&self, arguments: &[&str]) -> Answer {
        let answer = self.run(arguments);
        assert_eq!(answer.code, 0, "{arguments:?}: {answer:?}");
        answer
    }

    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let answer = self.run(&[arguments, &["--json"]].concat());
        let value: Value = serde_json::from_str(&answer.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}\n{}", answer.out, answer.err));
        assert_eq!(value["schema"], 1, "{arguments:?}");
        (answer.code, value)
    }

    /// A line of shell as the user, with this Palisade.
    pub fn shell(&self, line: &str) -> Answer {
        let mut command = Command::new("timeout");
        self.environment(command.args(["-k", "1", "20", "sh", "-c", line]));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.path("a b").display()));
        Answer::from(command.output().unwrap())
    }

    pub fn tree(&self) -> Tree {
        fn walk(path: &Path, tree: &mut Tree) {
            for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    tree.insert(path.clone(), "directory".to_owned());
                    walk(&path, tree);
                } else if let Ok(target) = std::fs::read_link(&path) {
                    tree.insert(path, format!("to {}", target.display()));
                } else {
                    tree.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
                }
            }
        }
        let mut tree = Tree::new();
        walk(&self.home(""), &mut tree);
        tree
    }

    pub fn read(&self, below: &str) -> String {
        std::fs::read_to_string(self.home(below)).unwrap_or_else(|error| panic!("{below}: {error}"))
    }

    /// Puts a program in Palisade's place that writes down what it is started with.
    pub fn put_recorder(&self) {
        const SCRIPT: &str = r#"#!/bin/sh
for word; do printf '%s\0' "$word"; done >"$RECORD.new"
mv "$RECORD.new" "$RECORD"
exit 1
"#;
        let script = self.write("recorder", SCRIPT);
        std::fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let copied = Command::new("cp")
            .arg("--remove-destination")
            .arg(&script)
            .arg(self.palisade())
            .status()
            .unwrap();
        assert!(copied.success());
    }

    /// What it wrote down.
    pub fn recorded(&self) -> Vec<String> {
        let record = self.path("record");
        assert!(crate::support::eventually(|| record.exists()), "nothing was started");
        let words = std::fs::read(&record).unwrap();
        std::fs::remove_file(&record).unwrap();
        let mut words: Vec<String> =
            words.split(|byte| *byte == 0).map(|word| String::from_utf8(word.to_vec()).unwrap()).collect();
        words.pop();
        words
    }
}

#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
