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
//! In reading order:
//! - [`table`]: names and numbers; [`rules`]: what is denied, when and why (the built-in list is `data/deny.list`)
//! - [`reply`]: what a policy adds; `clock`: calls that use the time of day; `modes`: modes that give away rights;
//!   `ids`: changes of the user; [`refusal`]: which refusals are reported
//! - [`compile()`]: from rules to a [`Filter`]; [`explain`]: what happens for a call, and the filter as text;
//!   [`walls`]: which other walls judge the call
//! - `palisade_sys::seccomp::install` loads a filter; the [`broker`] answers what the filter passes on
//! - [`confined`]: the filters for palisaded, the guard's daemon (`data/guard.list`)
//! - [`group`]: named sets of calls (`data/groups.list`); [`store`]: the calls that were learned for each binary
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
