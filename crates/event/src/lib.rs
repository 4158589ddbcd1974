// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happened: one decision, and why it was taken.
//!
//! A sandbox, a filtered network, the guard and scopes all emit this one type, and every reader gets it: the terminal, JSON,
//! the store, the daemon's sockets. It is made where the facts are known and isn't translated on its way. Its JSON is
//! documented in `docs/events.md`, whose examples are tests of this crate. No I/O: the time and the process are given.
//!
//! In reading order:
//!
//! - [`Event`]: the type
//! - [`Subject`], [`Object`]: the process, and what it wanted to use
//! - [`Operation`], [`Verdict`], [`Mechanism`], [`Kind`]: words, each with one spelling
//! - [`Why`], [`Origin`], [`Layer`]: the reason, and the place of the rule
//! - [`Detail`]: what only events of one kind have: [`Sandbox`], [`Network`], [`Guard`], [`Scope`]
//! - [`Launch`]: the start of a sandbox that it belongs to
//! - [`Likeness`]: what makes two events the same
//! - `json`: the serialised form, and how an older one is read
#![forbid(unsafe_code)]

mod detail;
mod event;
mod json;
mod launch;
mod likeness;
mod object;
mod origin;
mod subject;
mod words;

pub use detail::{Decision, Detail, Guard, Network, Outcome, Parent, Sandbox, Scope};
pub use event::{EVENT_SCHEMA, Event, Why};
pub use launch::Launch;
pub use likeness::Likeness;
pub use object::{Device, File, Object, ParseDeviceError};
pub use origin::{Layer, Origin};
pub use subject::Subject;
pub use words::{Kind, Mechanism, Operation, UnknownWord, Verdict};
