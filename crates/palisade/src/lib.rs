// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts programs in sandboxes: from a request to a plan, and from a plan to a launch.
//!
//! ```no_run
#![doc = include_str!("../examples/first.rs")]
//! ```
//!
//! From tokio, with the feature `tokio`, nothing blocks a task:
//!
//! ```ignore
#![doc = include_str!("../examples/server.rs")]
//! ```
//!
//! Both are programs in `examples/`, and the tests run them.
//!
//! The policy files that hold for `palisade run` hold here, and what the builder states is the topmost layer: what an
//! administrator has locked stays locked.
//!
//! The process that uses this crate forks nothing that doesn't execute another program at once, and changes neither its signal
//! handlers nor its terminal, umask or working directory. Each sandbox is launched and watched over by one process of the
//! program `palisade` (see [`Helper`]), which ends with everything inside when the process that started it ends.
//!
//! In reading order:
//!
//! - [`Sandbox`]: what is stated; [`Command`]: what is started; [`Child`]: what runs, with [`Message`] and [`Question`]
//! - [`Helper`]: the program that launches
//! - [`Request`], [`Situation`]: the way from what is stated to a plan, which the command line goes, too; with [`Subject`] and
//!   [`Surroundings`]
//! - [`explanation`]: what happens with a path, a host, a command, a system call or a variable, and why
//! - [`examination`]: what the host can guarantee
//! - [`plan_file`]: a plan that was printed and approved before
//! - `launcher`: the other end of a [`Child`], for the program `palisade`
//! - [`Error`], [`PlanningError`]: what can go wrong, each with a hint
#![forbid(unsafe_code)]

mod child;
mod command;
mod error;
pub mod examination;
pub mod explanation;
mod helper;
#[doc(hidden)]
pub mod launcher;
pub mod plan_file;
mod queue;
mod request;
mod sandbox;
mod situation;
mod status;
mod stream;

pub use child::{Child, Message, Messages, Question};
pub use command::{Command, Output};
pub use error::{Error, PlanningError, StatementError};
pub use helper::{Helper, HelperError};
pub use palisade_event::Event;
pub use palisade_policy::{Limit, NetworkMode, Protect, View};
pub use palisade_protocol::launch::Answer;
pub use request::{Application, Request, Subject, Surroundings};
pub use sandbox::Sandbox;
pub use situation::Situation;
pub use status::ExitStatus;
pub use stream::Stream;
