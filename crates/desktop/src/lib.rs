// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes links, desktop entries and services that start applications by their profiles, for one user, and removes them
//! again. The system's own files are only read.
//!
//! - [`Desktop`]: enables and disables applications, and reports what is enabled
//! - `application`: what is needed of a profile
//! - `entry`, `exec`, `command`, `overrides`: read desktop entries, and write those that start Palisade
//! - `programs`, `search`: find an application's files in the system
//! - `mime`: which application opens which files
//! - `disk`, `manifest`, `install`: make and remove files, and survive interruption
//! - `enable`: decides what to make; [`note`]: notes about it
//! - [`status`]: whether it is still there
//! - `error`: the errors
#![forbid(unsafe_code)]

mod application;
mod command;
mod desktop;
mod disk;
mod enable;
mod entry;
mod error;
mod exec;
mod install;
mod manifest;
mod mime;
pub mod note;
mod overrides;
mod programs;
mod search;
pub mod status;

pub use desktop::{Desktop, Disabled, Enabled};
pub use error::{DesktopError, FindError};
pub use install::Outcome;
pub use manifest::{Choices, Kind};
