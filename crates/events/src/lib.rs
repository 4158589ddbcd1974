// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivers events to sinks and to the store.
//!
//! For a [`Sink`], an event is any value with a line for users ([`std::fmt::Display`]) and a form for programs
//! ([`serde::Serialize`], with its own `schema` version). [`Words`] writes lines to a terminal, [`JsonLines`] one
//! object per line to a descriptor. A missing reader must not stop the confined program: a sink whose reader is gone
//! stops writing. After another error it also stops, and keeps the error for [`Sink::failure`].
//!
//! Refusals are also stored, for `palisade watch`. In reading order:
//!
//! - [`Recorder`]: takes a launcher's refusals; with [`Damper`], which counts repeated ones, and [`Notices`], the
//!   lines that a launch prints by itself, and [`Refusals`] with [`RefusalFile`], for programs inside
//! - [`store`]: the database
//! - [`StoreFollower`]: reads a store and follows it; [`Changes`]: wakes at new events
//! - [`Clock`]: formats their times
#![forbid(unsafe_code)]

mod changes;
mod clock;
mod damper;
mod follower;
mod json_lines;
mod notices;
mod outlet;
mod recorder;
mod refusal_file;
mod refusals;
pub mod store;
mod words;

pub use changes::Changes;
pub use clock::Clock;
pub use damper::{Damper, OTHERS};
pub use follower::{Beginning, Look, StoreFollower};
pub use json_lines::JsonLines;
pub use notices::Notices;
pub use recorder::Recorder;
pub use refusal_file::RefusalFile;
pub use refusals::{RefusalOutlet, Refusals};
pub use store::{Entry, Filter, Page, Retention, Store, StoreError};
pub use words::{Style, Words};

/// A receiver of events. It never panics and never blocks longer than its descriptor does.
pub trait Sink<E: ?Sized> {
    /// Takes one event.
    fn emit(&mut self, event: &E);

    /// The error that stopped this sink. `None` if only its reader is gone.
    fn failure(&self) -> Option<&std::io::Error>;
}

/// Passes each event to every sink, in order.
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
