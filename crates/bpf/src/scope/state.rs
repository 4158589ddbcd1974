// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's state of scopes, as plain data.

use std::time::Duration;

/// How an exec finds its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Depth {
    /// No exec finds a mark.
    #[default]
    Off,
    /// The mark is on the process or its parent.
    OneLevel,
    /// The mark is on the process or one of this many ancestors, 2 to [`MOST_HOPS`](super::MOST_HOPS).
    Ancestry(u8),
    /// Children of marked processes are marked, so the mark is on the process.
    Inherit,
    /// The mark is on the control group at this level below the root.
    Cgroup {
        /// 1 for a child of the root.
        level: u32,
    },
}

/// What happens to an exec below a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u32)]
pub enum Verdict {
    /// The exec happens, and is reported if every exec is.
    #[default]
    Watch = 0,
    /// The exec happens and is reported.
    Warn = 1,
    /// The process ends before the program's first instruction.
    Kill = 2,
    /// The exec fails with EPERM. If the security hook isn't called: as [`Verdict::Kill`].
    Refuse = 3,
}

/// The settings of all scopes. They change at once and as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// How marks are found.
    pub depth: Depth,
    /// Whether the security hook is called; set by [`ScopePrograms::refuse_at_hook`](super::ScopePrograms::refuse_at_hook).
    pub lsm: bool,
    /// Whether each exec below a mark is reported.
    pub report: bool,
    /// Whether denied files and names are refused below each mark.
    pub strict: bool,
    /// With `strict`: whether files that exist only in memory are refused, too.
    pub memory: bool,
}

/// A scope, as the kernel holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Its number; 0 is none.
    pub id: u32,
    /// The verdict for execs in it.
    pub verdict: Verdict,
    /// The user who owns it.
    pub owner: u32,
    /// Whether rare calls are reported.
    pub calls: bool,
    /// How many of `ever` have their mark in task storage.
    pub beyond: u64,
    /// Marked processes so far.
    pub ever: u64,
    /// When it was opened (`CLOCK_BOOTTIME`).
    pub began: Duration,
    /// The process that was marked first.
    pub root: u32,
    /// How strictly this scope is handled, if the settings aren't stricter: 0 adds nothing; 1 and 2 report each exec; 3
    /// also refuses denied files and names.
    pub profile: u32,
    /// Whether it is for a line of a shell. Then its root's mark is removed when the line is over.
    pub line: bool,
    /// For people; 47 bytes are kept.
    pub label: String,
}

/// The counts of what happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Execs that were found below a mark.
    pub execs: u64,
    /// Processes that were killed at an exec.
    pub killed: u64,
    /// Execs that were refused.
    pub refused: u64,
    /// Events that found no room.
    pub lost: u64,
    /// Children that could not be marked.
    pub unmarked: u64,
    /// Children whose mark is in task storage, because another process has their place in the table.
    pub overflowed: u64,
}

/// The answer to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It was done before.
    Already,
    /// The table is full.
    Full,
    /// There is no such scope.
    NoScope,
    /// The process belongs to another scope.
    Taken,
    /// There is no such process.
    NoProcess,
}
