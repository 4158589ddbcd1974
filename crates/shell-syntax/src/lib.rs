// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses shell text: its commands, their words, and the parts of a word. Nothing is executed, and nothing is looked
//! up: the input is a text, the output is ranges in it.
//!
//! The grammar is bash's, and what POSIX shells share with it. A text that bash would refuse is parsed as far as
//! possible; the [`Fault`] gives the first place that violates the grammar. An open quote or group ends with the text.
//!
//! Time and memory grow with the length of the text, whatever the text is. The depth of the stack is fixed: groups of
//! commands are in a list, and a nested text (a substitution) is parsed only when the caller creates a [`Reader`] for
//! it.
//!
//! In reading order:
//!
//! - [`Event`], [`End`], [`Redirect`]: the events of a text, in order
//! - [`Reader`]: produces the events; with it `frame`, the open groups, and [`Fault`]
//! - [`Part`], [`parts`]: the parts of a word; [`Parameter`]: the content of `${…}`; [`ansi`]: the content of `$'…'`
//! - [`Assignment`], [`braces`]: words with a special meaning
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
