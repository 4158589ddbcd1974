// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes single members of other programs' settings files (JSON with comments, TOML), and takes the changes back.
//!
//! Nothing but the named member changes: comments, order, unknown members, trailing commas, indentation, line ends and a
//! byte order mark stay. What a change takes back is the same text, byte by byte, as if the change had never been made,
//! whatever was edited elsewhere in the file meanwhile.
//!
//! - [`tree`]: a document as values with their places in the text
//! - [`mod@draft`]: the text with changes, and without them; `render` and `removal` are its parts
//! - [`mod@file`]: reads a settings file and replaces it as a whole
//! - [`record`]: which changes were made, so that they can be taken back later
#![forbid(unsafe_code)]

pub mod draft;
pub mod file;
pub mod record;
mod removal;
mod render;
pub mod tree;

pub use draft::{Change, Draft, EditError};
pub use file::{FileError, Loaded};
pub use record::{Entry, Owned, RecordError, Records};
pub use tree::{Format, Malformed, Node};
