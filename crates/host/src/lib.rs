// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Facts about this host. Reads only: nothing here writes, runs a program or changes the process,
//! and what to do with a fact is decided elsewhere.
//!
//! Everything takes what it asks about as parameters (paths, an [`Environment`]), so that tests
//! build a home in a temporary directory. What a *project* wrote is read bounded, without
//! following its links, and believed only with proof ([`worktree`], [`virtualenv`]).
//!
//! In reading order:
//!
//! - [`environment`], [`file`](mod@file), [`trusted`], [`fingerprint`]: the ground: variables, bounded reads,
//!   and what a file was;
//! - [`account`], [`places`], [`layout`], [`resolver`]: the user, Palisade's own directories, the
//!   system's directories, name resolution;
//! - [`toolchain`], [`worktree`], [`virtualenv`], [`gitconfig`]: what a developer's command needs
//!   beside its working directory;
//! - [`executable`], [`walk`](mod@walk), [`names`], [`links`]: what a command is; paths that match a pattern; links,
//!   looked at once, and those on the way of a path;
//! - [`elf`], [`closure`], [`needs`]: which files a program is loaded with, and what else is its own;
//! - [`kernel`], [`mounts`], [`cgroup`], [`machine`]: what the kernel allows, which limits can be set, and
//!   what a measurement was made on.

pub mod account;
pub mod cgroup;
pub mod closure;
pub mod elf;
pub mod environment;
pub mod executable;
pub mod file;
pub mod fingerprint;
pub mod gitconfig;
pub mod kernel;
pub mod layout;
pub mod links;
pub mod machine;
pub mod mounts;
pub mod names;
pub mod needs;
pub mod places;
pub mod resolver;
pub mod script;
pub mod toolchain;
pub mod trusted;
pub mod virtualenv;
pub mod walk;
pub mod worktree;

pub use account::Account;
pub use environment::Environment;
pub use fingerprint::Fingerprint;
pub use layout::Layout;
pub use places::Places;
