// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for people: that of others, written so that it can't mislead who reads it, and what two texts differ in.
//!
//! Names of files, programs and hosts, answers of servers and policies of repositories are chosen by others. Shown as
//! they are, they can steer the terminal, end a line and forge the next one, turn the direction of text around, or hold
//! characters that nobody sees. [`shown`] writes each such character as an escape, and everything else as it is:
//!
//! ```
//! assert_eq!(palisade_text::shown("a\nb\u{202e}c").to_string(), r"a\nb\u{202e}c");
//! ```
//!
//! An escape, and not a replacement character: two names that differ stay different. The filter has no exceptions by
//! context. The joiners of emoji and of Persian words, variation selectors and soft hyphens are escaped, too: they are
//! invisible, so names could differ in them alone. Such a name stays readable.
//!
//! Kept are combining marks (file names of other systems are made of them), spaces of every width (they take room),
//! characters for private use (fonts give them a shape) and the backslash. So a name may itself hold the text of an
//! escape; on the other hand, text that was written harmlessly isn't changed when it is written so again.
//!
//! In reading order:
//!
//! - [`shown`], [`Show`], [`bytes`], [`Shown`]: text of others within a text of ours
//! - [`harmless`], [`harmless_lines`]: the same as a string
//! - [`json`]: a JSON document without such characters, of the same meaning
//! - [`is_hidden`]: which characters these are
//! - [`diff`]: what differs between two texts, line by line; nothing in it is escaped
#![forbid(unsafe_code)]

mod character;
pub mod diff;
mod json;
mod shown;

pub use character::is_hidden;
pub use json::json;
pub use shown::{Show, Shown, bytes, harmless, harmless_lines, shown};
