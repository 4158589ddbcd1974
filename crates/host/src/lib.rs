// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Facts about this host. This crate only reads: its code doesn't write, run a program or change the process, and
//! other crates decide what to do with a fact.
//!
//! All functions take their subjects as parameters (paths, an [`Environment`]), so that tests can build a home in a
//! temporary directory. Files that a *project* wrote are read up to a bound, without following their links, and
//! trusted only with proof ([`worktree`], [`virtualenv`]).
//!
//! In reading order:
//!
//! - [`environment`], [`file`](mod@file), [`trusted`], [`fingerprint`], [`birth`]: the basis: variables, bounded reads,
//!   and a file's state at a moment;
//! - [`account`], [`places`], [`layout`], [`resolver`]: the user, Palisade's own directories, the
//!   system's directories, name resolution;
//! - [`toolchain`], [`worktree`], [`virtualenv`], [`installation`], [`gitconfig`], [`git_index`], [`registries`]: what a
//!   developer's command needs in addition to its working directory;
//! - [`executable`], [`walk`](mod@walk), [`names`], [`links`]: which program a command is; paths that match a pattern;
//!   a cache of names and links; the links along a path;
//! - [`elf`], [`closure`], [`needs`]: which files are loaded with a program, and which directories belong to it;
//! - [`kernel`], [`mounts`], [`cgroup`], [`machine`]: what the kernel allows, which limits can be set, and
//!   on which machine a measurement was made.

pub mod account;
pub mod birth;
pub mod cgroup;
pub mod closure;
pub mod elf;
pub mod environment;
pub mod executable;
pub mod file;
pub mod fingerprint;
pub mod git_index;
pub mod gitconfig;
pub mod installation;
pub mod kernel;
pub mod layout;
pub mod links;
pub mod machine;
pub mod mounts;
pub mod names;
pub mod needs;
pub mod places;
pub mod registries;
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
