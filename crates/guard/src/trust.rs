// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files are trusted, and who says so.
//!
//! A database of a million files is looked into at each open and exec, so it is built once and then only read, with a
//! journal for what changes in between. In reading order:
//!
//! - [`entry`]: what is known of a trusted file
//! - [`record`]: the same as bytes
//! - [`base`], [`build`]: the database file, read and written
//! - [`journal`]: changes over it
//! - [`store`]: all of it together

pub mod base;
pub mod build;
pub mod entry;
pub mod journal;
pub mod record;
pub mod store;
