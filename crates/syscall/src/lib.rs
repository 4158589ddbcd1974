// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System call filters for seccomp: rules are data, a compiler makes them into classic BPF.
//!
//! ```
//! use palisade_syscall::{Arch, Rules, compile};
//!
//! let rules = Rules::deny_list().with(&["ptrace"], &["memfd_create"])?;
//! let filter = compile(&rules, Arch::X86_64)?;
//! assert!(filter.program.len() < 150);
//! # Ok::<(), palisade_syscall::Error>(())
//! ```
//!
//! In reading order: [`table`] (names and numbers), [`rules`] (what is denied, when and why; the built-in
//! list is `data/deny.list`), [`reply`] (what a policy adds), `clock` (which calls know the time of day), `modes` (which modes give away rights), `ids` (that nobody becomes another user), [`refusal`] (which refusals are told), [`compile()`] (rules to a [`Filter`]) and [`explain`] (what happens for a call, and the
//! filter as text; [`walls`]: who else judges it). Loading is `palisade_sys::seccomp::install`. What a filter doesn't decide, the [`broker`] answers.
//! [`confined`] is what palisaded, the guard's daemon, may call (`data/guard.list`).
//! [`group`] gives names to sets of calls (`data/groups.list`), and [`store`] keeps what was learned of binaries.
#![forbid(unsafe_code)]

pub mod arguments;
pub mod broker;
mod clock;
mod compile;
pub mod confined;
pub mod error;
pub mod explain;
pub mod group;
mod ids;
mod list;
mod modes;
mod numbers;
mod passed;
mod program;
pub mod refusal;
pub mod reply;
pub mod rules;
pub mod store;
pub mod table;
pub mod walls;

pub use compile::compile;
pub use error::Error;
pub use numbers::Numbers;
pub use passed::Passed;
pub use program::Filter;
pub use rules::{Action, Call, Errno, Rule, Rules, Test};
pub use table::{Arch, Syscall};

pub use palisade_sys::seccomp::Instruction;
