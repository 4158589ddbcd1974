// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The settings of scopes, and the daemon's decisions about execs in them.
//!
//! A scope is a marked subtree of processes. The kernel watches what runs in it, warns about it, kills it or refuses it.
//! The programs in the kernel (crate `bpf`) decide which processes are marked and what happens to an exec; the daemon keeps
//! the list of scopes. This crate holds the settings for both, and the decisions that the daemon makes itself. In reading
//! order:
//!
//! - [`settings`]: `scopes.toml`: depth, profile, and what is denied
//! - [`denied`]: the names, files and contents that may not be executed in a scope
//! - [`judge`]: decides whether a reported exec is one of these
#![forbid(unsafe_code)]

pub mod denied;
pub mod judge;
pub mod settings;

pub use denied::Denied;
pub use settings::{Settings, SettingsError};
