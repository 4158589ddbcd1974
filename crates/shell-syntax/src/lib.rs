// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shell text, read: what commands it has, which words they have, and which parts a word has. Nothing is executed, and
//! nothing is looked up: a text comes in, places in it come out.
//!
//! The grammar is bash's, with what POSIX shells share with it. A text that bash would refuse is read all the same, as
//! far as it goes; the [`Fault`] says where the grammar was left first. What isn't closed ends with the text.
//!
//! Time and memory grow with the length of the text, whatever the text is, and the depth of the stack is fixed: groups
//! of commands lie in a list, and texts within texts (substitutions) are read when the caller asks for it, with a
//! [`Reader`] of their own.
//!
//! In reading order:
//!
//! - [`Event`], [`End`], [`Redirect`]: what a text comes to, in order
//! - [`Reader`]: the events of a text; with it `frame`, the groups that are open, and [`Fault`]
//! - [`Part`], [`parts`]: what is in a word; [`Parameter`]: what is in `${…}`; [`ansi`]: what is in `$'…'`
//! - [`Assignment`], [`braces`]: words with a meaning of their own
//! - `quote`, `bracket`, `scan`: where quotes, brackets and words end
#![forbid(unsafe_code)]

mod ansi;
mod assignment;
mod braces;
mod bracket;
mod document;
mod event;
mod fault;
mod frame;
mod parameter;
mod part;
mod quote;
mod reader;
mod redirection;
mod reserved;
mod scan;
#[cfg(test)]
mod tests;

pub use ansi::ansi;
pub use assignment::{Assignment, elements};
pub use braces::braces;
pub use event::{Document, End, Event, Operator, Redirect};
pub use fault::{Fault, FaultKind};
pub use parameter::Parameter;
pub use part::{Part, Parts, Quoting, parts};
pub use reader::Reader;
