// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Defines when two events count as the same.

use crate::{Event, Object, Operation, Origin};

/// Two events of a launch count as the same if they happen within a second and have the same operation, object and
/// rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Likeness<'a> {
    /// The requested operation.
    pub operation: Operation,
    /// The object of the operation.
    pub object: &'a Object,
    /// The place of the rule.
    pub rule: Option<&'a Origin>,
}

impl Event {
    /// The values to compare with another event.
    #[must_use]
    pub fn likeness(&self) -> Likeness<'_> {
        Likeness { operation: self.operation, object: &self.object, rule: self.why.origin.as_ref() }
    }
}
