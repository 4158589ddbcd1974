// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A home for a verb that reads and changes stores. The verb gets no terminal, and no variable of the caller's.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// An empty home, and the verb that is run in it.
pub struct Home {
    root: tempfile::TempDir,
    verb: &'static [&'static str],
}

/// The result of one run.
#[derive(Debug)]
pub struct Answer {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new(verb: &'static [&'static str]) -> Self {
        Self { root: tempfile::tempdir().unwrap(), verb }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(name)
    }

    pub fn run(&self, arguments: &[&str]) -> Answer {
        // Without a controlling terminal, so that it can't ask a user.
        let output = Command::new("setsid")
            .arg("--wait")
            .arg(env!("CARGO_BIN_EXE_palisade"))
            .args(self.verb)
            .args(arguments)
            .current_dir(self.root.path())
            .env_clear()
            .env("HOME", self.path(""))
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Answer {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The output, if the exit code is this one and there is no message.
    pub fn text(&self, code: i32, arguments: &[&str]) -> String {
        let Answer { code: found, out, err } = self.run(arguments);
        assert_eq!((found, err.as_str()), (code, ""), "{arguments:?}: {out}");
        out
    }

    /// The JSON output, if the exit code is this one.
    pub fn json(&self, code: i32, arguments: &[&str]) -> Value {
        let Answer { code: found, out, err } = self.run(&[arguments, &["--json"]].concat());
        assert_eq!(found, code, "{arguments:?}: {out}{err}");
        let value: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(value["schema"], 1, "{arguments:?}");
        value
    }
}
