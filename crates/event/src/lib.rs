// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The event: one decision, with its reason.
//!
//! A sandbox, a filtered network, the guard and scopes all emit this one type, and every reader gets it: the
//! terminal, JSON, the store, the daemon's sockets. It is made where the facts are known, and no part translates it
//! on the way. `docs/events.md` documents its JSON; the examples there are tests of this crate. This crate does no
//! I/O: the caller gives the time and the process.
//!
//! In reading order:
//!
//! - [`Event`]: the type
//! - [`Subject`], [`Object`]: the process, and what it wanted to use
//! - [`Operation`], [`Verdict`], [`Mechanism`], [`Kind`]: words, each with one spelling
//! - [`Why`], [`Origin`], [`Layer`]: the reason, and the place of the rule
//! - [`Detail`]: members that only one kind has: [`Sandbox`], [`Network`], [`Guard`], [`Scope`]
//! - [`Launch`]: the start of a sandbox to which the event belongs
//! - [`Likeness`]: when two events count as the same
//! - [`Refusal`], [`ForModel`]: a refusal for a program that acts on what it reads
//! - `json`: the serialised form, and the parser of older forms
#![forbid(unsafe_code)]

mod detail;
mod event;
mod json;
mod launch;
mod likeness;
mod object;
mod origin;
mod refusal;
mod subject;
mod words;

pub use detail::{Decision, Detail, Guard, Network, Outcome, Parent, Sandbox, Scope};
pub use event::{EVENT_SCHEMA, Event, Why};
pub use launch::Launch;
pub use likeness::Likeness;
pub use object::{Device, File, Object, ParseDeviceError};
pub use origin::{Layer, Origin};
pub use refusal::{ForModel, Refusal};
pub use subject::Subject;
pub use words::{Kind, Mechanism, Operation, UnknownWord, Verdict};
