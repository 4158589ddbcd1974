// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links, desktop entries and services that start applications by their profiles, for one user, until they are taken away
//! again. The system's own files are only read.
//!
//! - [`Desktop`]: enabling and disabling applications, and what is enabled
//! - `application`: what of a profile is needed
//! - `entry`, `exec`, `command`, `overrides`: reading desktop entries and writing those that start Palisade
//! - `programs`, `search`: which of the system's files are an application's
//! - `mime`: who opens which files
//! - `disk`, `manifest`, `install`: making files and taking them away, whenever it is interrupted
//! - `enable`: what there is to be made; [`note`]: what there is to know about it
//! - [`status`]: whether it is still there
//! - `error`: why not
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
