// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The entries of a comparison: launchers, with the isolation that each one must prove.

use std::fmt;

use crate::template::Template;

/// A property that the proof must observe; otherwise the row is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A namespace of its own, by its name in `/proc/PID/ns`.
    Namespace(&'static str),
    /// A seccomp filter on the command.
    Seccomp,
    /// A directory beside the working directory, writable by the user, can't be written inside.
    NoWritingOutside,
    /// A file beside the working directory can't be read inside.
    NoReadingOutside,
}

impl fmt::Display for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(formatter, "a {name} namespace of its own"),
            Self::Seccomp => formatter.write_str("seccomp"),
            Self::NoWritingOutside => formatter.write_str("no writing outside"),
            Self::NoReadingOutside => formatter.write_str("no reading outside"),
        }
    }
}

/// A launcher with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) template: Template,
    pub(crate) claims: Vec<Claim>,
    /// The command that prints its version, if there is one.
    pub(crate) version: Vec<String>,
    /// It belongs to another project: its failure is a result and no error.
    pub(crate) peer: bool,
}

impl Entry {
    /// The command as it is, without a launcher.
    pub(crate) fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            template: Template::of(&["{}"]),
            claims: Vec::new(),
            version: Vec::new(),
            peer: false,
        }
    }
}

/// A launcher that isn't measured, and what would have to change.
#[derive(Clone, Debug)]
pub(crate) struct Missing {
    pub(crate) name: String,
    pub(crate) how: String,
}
