// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where events go.
//!
//! An event is any value with a line for people ([`std::fmt::Display`]) and a form for programs
//! ([`serde::Serialize`], which carries its own `schema` version): this crate knows nothing of what it says.
//!
//! In reading order: [`Sink`], what takes events; [`Words`], lines on a terminal; [`JsonLines`], one object per
//! line on a descriptor. Nobody reading any more is no reason to stop the program that is confined: a sink
//! whose reader is gone falls silent, one that fails otherwise keeps the error for who asks.
#![forbid(unsafe_code)]

mod json_lines;
mod outlet;
mod words;

pub use json_lines::JsonLines;
pub use words::{Style, Words, harmless};

/// What takes events. Never panics and never blocks longer than its descriptor does.
pub trait Sink<E: ?Sized> {
    /// Takes one event.
    fn emit(&mut self, event: &E);

    /// Why this sink fell silent, unless its reader just went away.
    fn failure(&self) -> Option<&std::io::Error>;
}

/// Hands each event to every sink, in order.
impl<E: ?Sized> Sink<E> for Vec<Box<dyn Sink<E>>> {
    fn emit(&mut self, event: &E) {
        for sink in self {
            sink.emit(event);
        }
    }

    fn failure(&self) -> Option<&std::io::Error> {
        self.iter().find_map(|sink| sink.failure())
    }
}
