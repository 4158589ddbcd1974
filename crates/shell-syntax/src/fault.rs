// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a text leaves the grammar.

use std::fmt;

/// The first place at which a shell would refuse a text, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub kind: FaultKind,
    /// Where, in bytes.
    pub at: usize,
    /// In words.
    pub words: &'static str,
}

/// What is wrong with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// Something is open at the end.
    Open,
    /// Something stands where it may not.
    Stray,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.at, self.words)
    }
}
