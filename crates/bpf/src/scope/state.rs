// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel holds of scopes: plain data.

use std::time::Duration;

/// How an exec finds the mark that it is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Depth {
    /// It finds none.
    #[default]
    Off,
    /// Its process or its process's parent is marked.
    OneLevel,
    /// Its process or one of so many ancestors is marked, 2 to [`MOST_HOPS`](super::MOST_HOPS).
    Ancestry(u8),
    /// Children of marked processes are marked.
    Inherit,
    /// The control group that is so many levels below the root is a scope's.
    Cgroup {
        /// 1 for a child of the root.
        level: u32,
    },
}

/// What becomes of an exec below a mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u32)]
pub enum Verdict {
    /// It happens, and is reported where everything is.
    #[default]
    Watch = 0,
    /// It happens, and is reported.
    Warn = 1,
    /// The process ends before the program's first instruction.
    Kill = 2,
    /// EPERM; where the security hook isn't called, as [`Verdict::Kill`].
    Refuse = 3,
}

/// What holds for all scopes. It changes at once and as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// How marks are found.
    pub depth: Depth,
    /// The security hook is called; set by [`ScopePrograms::refuse_at_hook`](super::ScopePrograms::refuse_at_hook).
    pub lsm: bool,
    /// Each exec below a mark is reported.
    pub report: bool,
    /// Denied files and names are refused below each mark.
    pub strict: bool,
    /// With `strict`: files that are only in memory are, too.
    pub memory: bool,
}

/// A scope, as the kernel holds it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scope {
    /// Its number; 0 is none.
    pub id: u32,
    /// What becomes of execs in it.
    pub verdict: Verdict,
    /// Whose it is.
    pub owner: u32,
    /// Rare calls are reported.
    pub calls: bool,
    /// Of `ever`, those whose mark is in their tasks' storage.
    pub beyond: u64,
    /// Marked processes so far.
    pub ever: u64,
    /// `CLOCK_BOOTTIME`.
    pub began: Duration,
    /// The process that was marked first.
    pub root: u32,
    /// How much is made of what happens in it, if the settings don't make more: 0 nothing by itself, 1 and 2 each exec is
    /// reported, 3 denied files and names are refused, too.
    pub profile: u32,
    /// It is a line of a shell's: its root will be released.
    pub line: bool,
    /// For people; 47 bytes of it are kept.
    pub label: String,
}

/// What happened so far.
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
    /// Children whose mark is in their task, because their place in the table is another's.
    pub overflowed: u64,
}

/// What came of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// It was so before.
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
