// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What makes two events the same.

use crate::{Event, Object, Operation, Origin};

/// What makes two events of a launch the same, if they happen within a second: the operation, what it is on
/// and the rule that refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Likeness<'a> {
    /// What was asked for.
    pub operation: Operation,
    /// Of what.
    pub object: &'a Object,
    /// The rule's place.
    pub rule: Option<&'a Origin>,
}

impl Event {
    /// What makes another one the same.
    #[must_use]
    pub fn likeness(&self) -> Likeness<'_> {
        Likeness { operation: self.operation, object: &self.object, rule: self.why.origin.as_ref() }
    }
}
