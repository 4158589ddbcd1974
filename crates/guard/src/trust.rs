// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files are trusted, and who says so.
//!
//! A database of a million files is looked into at each open and exec, so it is built once and then only read, with a
//! journal for what changes in between. In reading order:
//!
//! - [`entry`]: what is known of a trusted file
//! - [`record`]: the same as bytes
//! - [`base`], [`build`]: the database file, read and written
//! - [`wal`]: changes over it
//! - [`store`]: all of it together
//! - [`filter`]: which files can matter at all
//! - [`trust_file`]: the administrator's own list
//! - [`edit`]: changing that
//! - [`dpkg`], [`rpm`]: what packages bring
//! - [`real_path`], [`measure`]: where a file really is, and its digest
//! - [`import`], [`loader`]: all of these at once, and in a process without rights
//! - [`rebuild`]: the database made anew
//! - [`integrity`]: is an open file the one that is trusted?
//! - [`verify`]: all of it against the disk, and as text

pub mod base;
pub mod build;
pub mod dpkg;
pub mod edit;
pub mod entry;
pub mod filter;
pub mod import;
pub mod integrity;
pub mod loader;
pub mod measure;
pub mod real_path;
pub mod rebuild;
pub mod record;
pub mod rpm;
pub mod store;
pub mod trust_file;
pub mod verify;
pub mod wal;
