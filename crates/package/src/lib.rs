// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages: an application with all that it needs, in one file that begins with Palisade's own program.
//!
//! - [`trailer`]: how a file states that it carries a package, and where
//! - [`manifest`]: what is in a package, as data that another host has written; [`menu`]: the part of it for menus
//! - [`select`](mod@select): which files of this host a plan takes; [`pack`](mod@pack): writing them
//! - [`content`]: reading them back; [`store`]: unpacked packages, below the user's cache
//! - [`error`]: the errors, with hints
//!
//! `palisade_sandbox::package` decides which paths a package takes, and makes the plan by which an unpacked one runs.
#![forbid(unsafe_code)]

pub mod content;
pub mod error;
pub mod manifest;
pub mod menu;
pub mod pack;
pub mod select;
pub mod store;
pub mod trailer;
