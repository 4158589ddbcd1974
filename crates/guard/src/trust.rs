// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trust: which files are trusted, and by which source.
//!
//! Each open and exec looks into a database of up to a million files. So the database is built once and then only read,
//! with a write-ahead log for changes in between. In reading order:
//!
//! - [`entry`]: what is known of a trusted file
//! - [`record`]: the same as bytes
//! - [`base`], [`build`]: the database file, read and written
//! - [`wal`]: changes over it
//! - [`store`]: all of these together
//! - [`filter`]: which files are imported
//! - [`trust_file`]: the administrator's own list
//! - [`edit`]: changing that list
//! - [`dpkg`], [`rpm`]: the files of packages
//! - [`real_path`], [`measure`]: a file's real path, and its digest
//! - [`import`], [`loader`]: all of these at once, and in a process without rights
//! - [`rebuild`]: building the database again
//! - [`integrity`]: is an open file the one that is trusted?
//! - [`verify`]: comparing all of it with the disk, and writing it as text

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
