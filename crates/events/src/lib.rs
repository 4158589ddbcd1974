// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where events go.
//!
//! To a [`Sink`] an event is any value with a line for people ([`std::fmt::Display`]) and a form for programs
//! ([`serde::Serialize`], which carries its own `schema` version): [`Words`] writes lines on a terminal,
//! [`JsonLines`] one object per line on a descriptor. Nobody reading any more is no reason to stop the program
//! that is confined: a sink whose reader is gone falls silent, one that fails otherwise keeps the error for who
//! asks.
//!
//! Refusals are also kept, for `palisade watch`. In reading order:
//!
//! - [`Recorder`]: what a launcher hands them to; with [`Damper`], which counts what comes too often, and
//!   [`Notices`], the lines that a launch says by itself
//! - [`store`]: where they are kept
//! - [`StoreFollower`]: what they have, and what comes into them; [`Changes`]: hearing of new ones
//! - [`Clock`]: their times
#![forbid(unsafe_code)]

mod changes;
mod clock;
mod damper;
mod follower;
mod json_lines;
mod notices;
mod outlet;
mod recorder;
pub mod store;
mod words;

pub use changes::Changes;
pub use clock::Clock;
pub use damper::{Damper, OTHERS};
pub use follower::{Beginning, Look, StoreFollower};
pub use json_lines::JsonLines;
pub use notices::Notices;
pub use recorder::Recorder;
pub use store::{Entry, Filter, Page, Retention, Store, StoreError};
pub use words::{Style, Words};

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

#[cfg(test)]
mod tests {
    use palisade_event::{
        Detail, Event, Launch, Layer, Mechanism, Object, Operation, Origin, Sandbox, Subject, Verdict, Why,
    };
    use std::path::Path;
    use std::time::SystemTime;

    /// A refusal to write `object`.
    pub(crate) fn refusal(object: &str) -> Event {
        Event::new(
            SystemTime::now(),
            Detail::Sandbox(Sandbox::default()),
            Subject { pid: Some(7), uid: Some(1), program: "sed".into(), ..Subject::default() },
            (Operation::Write, Object::file(object)),
            (Verdict::Refused, Mechanism::Broker),
            Why {
                origin: Some(Origin {
                    layer: Layer::User,
                    file: Some(Path::new("/c/config.toml").into()),
                    line: 3,
                    column: 1,
                }),
                text: "protected".into(),
            },
        )
    }

    pub(crate) fn launch(command: &[&str]) -> Launch {
        Launch::new(command, std::process::id(), SystemTime::now())
    }
}
