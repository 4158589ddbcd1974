// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a scenario tries something and reports the outcome.

use std::fmt::Display;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Precedes each report on the console, because the kernel writes there as well.
pub(crate) const MARK: &str = "palisade-guest: ";

/// Why a scenario failed.
pub(crate) type Result<T = ()> = std::result::Result<T, String>;

/// Runs a scenario and reports.
pub(crate) fn report(name: &str, scenario: impl FnOnce() -> Result) {
    let began = Instant::now();
    match scenario() {
        Ok(()) => println!("{MARK}ok {name}: {:.1} s", began.elapsed().as_secs_f32()),
        Err(why) => println!("{MARK}not ok {name}: {}", why.replace('\n', " | ")),
    }
}

/// The outcome of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It happened.
    Done,
    /// EPERM.
    Refused,
    /// Another error, which proves nothing.
    Failed(String),
}

impl Outcome {
    /// Checks that the outcome is EPERM.
    pub(crate) fn refused(&self) -> Result {
        expect("it", self, &Self::Refused)
    }
}

/// Exit status of [`crate::act`] for EPERM.
pub(crate) const REFUSED: u8 = 77;

/// Executes `program` with `arguments`, and waits.
pub(crate) fn execute(program: &str, arguments: &[&str]) -> Outcome {
    match Command::new(program).args(arguments).stdin(Stdio::null()).output() {
        Ok(output) => match output.status.code() {
            Some(0) => Outcome::Done,
            Some(code) if code == i32::from(REFUSED) => Outcome::Refused,
            code => {
                Outcome::Failed(format!("exit {code:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
            }
        },
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => Outcome::Refused,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

/// Whether a copy of this program runs.
pub(crate) fn run(program: &str) -> Outcome {
    execute(program, &["act", "nothing"])
}

/// Lets a trusted copy of this program do something.
pub(crate) fn act(arguments: &[&str]) -> Outcome {
    let all: Vec<&str> = ["act"].iter().chain(arguments).copied().collect();
    execute("/init", &all)
}

/// Checks that the outcome is `expected`; `what` describes the attempt.
pub(crate) fn expect(what: &str, found: &Outcome, expected: &Outcome) -> Result {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?}, expected {expected:?}")) }
}

/// Checks that every outcome is `expected`.
pub(crate) fn expect_each(what: &str, found: &[Outcome], expected: &Outcome) -> Result {
    if found.iter().all(|found| found == expected) {
        Ok(())
    } else {
        Err(format!("{what}: {found:?}, expected {expected:?} each"))
    }
}

/// Checks that it holds.
pub(crate) fn ensure(holds: bool, what: impl Display) -> Result {
    if holds { Ok(()) } else { Err(what.to_string()) }
}

/// Words for an error and its causes.
pub(crate) fn told(what: &str) -> impl Fn(&dyn std::error::Error) -> String {
    move |error| {
        let mut words = format!("{what}: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            words.push_str(&format!(": {error}"));
            cause = error.source();
        }
        words
    }
}

/// A new copy of this program below `/work`, instead of any earlier file.
pub(crate) fn copy(name: &str) -> Result<String> {
    let path = format!("/work/{name}");
    let make = || -> io::Result<()> {
        if Path::new(&path).exists() {
            fs::remove_file(&path)?;
        }
        fs::copy("/init", &path).map(|_| ())
    };
    make().map_err(|error| format!("copy to {path}: {error}"))?;
    Ok(path)
}
