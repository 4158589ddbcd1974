// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that a profile makes for a launch, and the hooks that it runs around the launch.

use serde::{Deserialize, Serialize};

use crate::layer::Tighten;
use crate::pattern::PathPattern;

/// How a made file may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Made {
    /// It can be read.
    Read,
    /// It can be read and changed.
    Write,
    /// It can be read and executed.
    Execute,
    /// It is a symbolic link.
    Link,
}

/// A file that is made at each launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeFile {
    /// Its kind.
    pub made: Made,
    /// Its path inside.
    pub path: PathPattern,
    /// Its content, or the target of the link. Variables are filled in at launch.
    pub content: String,
}

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Before the sandbox is made.
    Before,
    /// After it has ended.
    After,
    /// Beside it. When this program ends, the sandbox ends.
    Parent,
}

impl When {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Before, Self::After, Self::Parent];

    /// The key of the hooks.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
            Self::Parent => "parent",
        }
    }
}

/// What a hook gets from the sandbox's command at its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// The command's standard output.
    Output,
    /// The command's standard error.
    Error,
}

impl Capture {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 2] = [("output", Self::Output), ("error", Self::Error)];

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Error => "error",
        }
    }
}

/// What a hook executes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    /// A program, by name or path.
    Program(String),
    /// The application of a profile.
    Profile(String),
}

/// A program that is run on the host around a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hook {
    /// When it runs.
    pub when: When,
    /// What it executes.
    pub runs: Runs,
    /// Its arguments. Variables are filled in at launch.
    pub arguments: Vec<String>,
    /// The launch doesn't wait for the hook, and the hook ends with the sandbox.
    pub attach: bool,
    /// The launch continues if the hook fails.
    pub may_fail: bool,
    /// The hook gets the caller's variables.
    pub environment: bool,
    /// Which output of the command the hook gets as its standard input.
    pub capture: Option<Capture>,
}

/// Each further hook loosens a lock: it is one more program that runs outside.
impl Tighten for Hook {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// How a test starts an application, and how it recognises success.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stanza {
    /// The package that contains it (Debian's name).
    pub package: Option<String>,
    /// Its arguments; `${sample.KIND}` is a sample file.
    pub arguments: Vec<String>,
    /// Its standard input.
    pub input: Option<String>,
    /// Its expected exit code.
    pub exit: u8,
    /// A part of its expected output.
    pub output: Option<String>,
    /// A part of an expected window title.
    pub window: Option<String>,
    /// It needs no display.
    pub offscreen: bool,
}
