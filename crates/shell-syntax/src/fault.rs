// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes where a text violates the grammar.

use std::fmt;

/// The first place at which a shell would refuse a text, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The kind of error.
    pub kind: FaultKind,
    /// The place, in bytes.
    pub at: usize,
    /// The message.
    pub words: &'static str,
}

/// The kind of error in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A quote or group is still open at the end.
    Open,
    /// A word or sign stands where it isn't allowed.
    Stray,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.words)
    }
}
