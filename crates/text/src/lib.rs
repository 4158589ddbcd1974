// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text for people: untrusted text, written so that it can't mislead its reader, and the differences between two texts.
//!
//! Names of files, programs and hosts, answers of servers and policies of repositories are untrusted. Printed
//! unchanged, they can control the terminal, end a line and forge the next one, reverse the direction of text, or hold
//! invisible characters. [`shown`] writes each such character as an escape, and leaves everything else unchanged:
//!
//! ```
//! assert_eq!(palisade_text::shown("a\nb\u{202e}c").to_string(), r"a\nb\u{202e}c");
//! ```
//!
//! It writes an escape and not a replacement character, so two names that differ stay different. The filter has no
//! exceptions by context. It escapes the joiners of emoji and of Persian words, variation selectors and soft hyphens,
//! too: they are invisible, so two names could differ in them alone. Such a name stays readable.
//!
//! It keeps combining marks (file names of other systems contain them), spaces of every width (they take room),
//! characters for private use (fonts give them a shape) and the backslash. So a name can contain the text of an
//! escape. On the other hand, escaping a text a second time doesn't change it.
//!
//! In reading order:
//!
//! - [`shown`], [`Show`], [`bytes`], [`Shown`]: untrusted text within our own text
//! - [`harmless`], [`harmless_lines`]: the same as a string
//! - [`json`]: a JSON document without such characters, with the same meaning
//! - [`is_hidden`]: which characters these are
//! - [`quoted`]: a word for a shell
//! - [`wildcard`]: whether a text matches a pattern; the grammar is the caller's
//! - [`diff`]: the differences between two texts, line by line; it escapes nothing
#![forbid(unsafe_code)]

mod character;
pub mod diff;
mod json;
mod shown;
mod wildcard;
mod word;

pub use character::is_hidden;
pub use json::json;
pub use shown::{Show, Shown, bytes, harmless, harmless_lines, shown};
pub use wildcard::wildcard;
pub use word::quoted;
