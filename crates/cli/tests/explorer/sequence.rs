// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A sequence: a tree of the host, and the calls of each actor in it, by launch.

use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Actor {
    /// The host, before the launch begins.
    Before,
    /// The host, while the launch goes on.
    Host,
    /// The first sandbox of the launch.
    First,
    /// The second one, on the same tree at the same time.
    Second,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    pub(super) launch: usize,
    pub(super) actor: Actor,
    /// As `player.c` reads it, with `@` for the path of the ground; the host's are `rename FROM TO`.
    pub(super) call: String,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Sequence {
    /// What the host makes before the first launch, parents first; a directory ends in a slash.
    pub(super) tree: Vec<String>,
    /// By launch; what the host does before a launch comes first in it.
    pub(super) steps: Vec<Step>,
}

impl Sequence {
    pub(super) fn launches(&self) -> usize {
        self.steps.iter().map(|step| step.launch + 1).max().unwrap_or(0)
    }
}

/// A sequence with the result of each step, for people.
pub(super) struct Played<'s> {
    pub(super) sequence: &'s Sequence,
    /// 0 or errno, in the order of the steps.
    pub(super) results: &'s [i32],
}

impl fmt::Display for Played<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "  the host's tree: {}", self.sequence.tree.join(" "))?;
        for (index, step) in self.sequence.steps.iter().enumerate() {
            let actor = match step.actor {
                Actor::Before | Actor::Host => "host",
                Actor::First => "sandbox 1",
                Actor::Second => "sandbox 2",
            };
            let when = if step.actor == Actor::Before { "before launch" } else { "launch" };
            let result = match self.results.get(index) {
                Some(0) | None => String::new(),
                Some(errno) => format!("  ({})", std::io::Error::from_raw_os_error(*errno)),
            };
            writeln!(to, "  {when} {}, {actor}: {}{result}", step.launch + 1, step.call)?;
        }
        Ok(())
    }
}
