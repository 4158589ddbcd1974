// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile has made for a launch, and what it has run around it.

use serde::{Deserialize, Serialize};

use crate::layer::Tighten;
use crate::pattern::PathPattern;

/// What a file that is made may be used for.
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

/// A file that is made for each launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MadeFile {
    /// What it is.
    pub made: Made,
    /// Where, inside.
    pub path: PathPattern,
    /// Its content, or where the link leads; filled in at launch.
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
    /// Beside it; when this ends, the sandbox does.
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

/// What a hook hears of the sandbox's command, at its standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capture {
    /// What the command prints.
    Output,
    /// What it says on standard error.
    Error,
}

impl Capture {
    /// All of them, with their words.
    pub const ALL: [(&'static str, Self); 2] = [("output", Self::Output), ("error", Self::Error)];

    /// The word for it.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Output => "output",
            Self::Error => "error",
        }
    }
}

/// What a hook runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    /// A program, by name or path.
    Program(String),
    /// A profile's application.
    Profile(String),
}

/// A program that is run on the host around a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hook {
    /// When.
    pub when: When,
    /// What.
    pub runs: Runs,
    /// With what; filled in at launch.
    pub arguments: Vec<String>,
    /// The launch doesn't wait for it, and it ends with the sandbox.
    pub attach: bool,
    /// The launch goes on if it fails.
    pub may_fail: bool,
    /// It gets the caller's variables.
    pub environment: bool,
    /// What of the command is its standard input.
    pub capture: Option<Capture>,
}

/// A hook more is one more program that runs.
impl Tighten for Hook {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// How a test starts an application and what shows that it works.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Stanza {
    /// The package that brings it (Debian's name).
    pub package: Option<String>,
    /// Its arguments; `${sample.KIND}` is a sample file.
    pub arguments: Vec<String>,
    /// What it reads.
    pub input: Option<String>,
    /// The code that it ends with.
    pub exit: u8,
    /// A part of what it prints.
    pub output: Option<String>,
    /// A part of a window's title.
    pub window: Option<String>,
    /// It needs no display.
    pub offscreen: bool,
}
