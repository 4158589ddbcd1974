// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scope is a marked subtree of processes; what runs in it is watched, warned about, killed or refused by the kernel.
//!
//! Who is marked and what becomes of an exec is decided in the kernel (crate `bpf`); the daemon holds the scopes. Here is
//! what both are told, and what the daemon decides by itself. In reading order:
//!
//! - [`settings`]: `scopes.toml`: depth, profile, and what is denied
//! - [`denied`]: names, files and contents that may not be executed in a scope
//! - [`judge`]: whether an exec that was told of is one of these
#![forbid(unsafe_code)]

pub mod denied;
pub mod judge;
pub mod settings;

pub use denied::Denied;
pub use settings::{Settings, SettingsError};
