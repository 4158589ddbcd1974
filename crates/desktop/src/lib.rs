// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes links, desktop entries and services that start applications by their profiles, for one user, and removes them
//! again. The same for the menu entry of a package. The system's own files are only read.
//!
//! - [`Desktop`]: enables and disables applications, and reports what is enabled
//! - `application`: what is needed of a profile
//! - `entry`, `exec`, `command`, `overrides`: read desktop entries, and write those that start Palisade
//! - `programs`, `search`: find an application's files in the system
//! - `mime`: which application opens which files
//! - `disk`, `manifest`, `install`: make and remove files, and survive interruption
//! - `enable`: decides what to make; [`note`]: notes about it
//! - [`menu`], `icon`: find what a package contains for menus; [`user_menu`]: puts it into a user's menu
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
mod icon;
mod install;
mod manifest;
pub mod menu;
mod mime;
pub mod note;
mod overrides;
mod programs;
mod search;
pub mod status;
pub mod user_menu;

pub use desktop::{Desktop, Disabled, Enabled};
pub use error::{DesktopError, FindError};
pub use icon::Icon;
pub use install::Outcome;
pub use manifest::{Choices, Kind};
