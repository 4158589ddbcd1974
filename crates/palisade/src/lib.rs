// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts programs in sandboxes: from a request to a plan, and from a plan to a launch.
//!
//! ```no_run
#![doc = include_str!("../examples/first.rs")]
//! ```
//!
//! With the feature `tokio`, nothing blocks a tokio task:
//!
//! ```ignore
#![doc = include_str!("../examples/server.rs")]
//! ```
//!
//! Both are programs in `examples/`, and the tests run them.
//!
//! The policy files for `palisade run` apply here, too. The statements of a [`Sandbox`] are the topmost layer: what an
//! administrator has locked stays locked.
//!
//! This crate forks only to execute another program at once. It changes neither the process's signal handlers nor its
//! terminal, umask or working directory. For each sandbox, one process of the program `palisade` (see [`Helper`])
//! launches and monitors it. That process ends with everything inside when the process that started it ends.
//!
//! In reading order:
//!
//! - [`Sandbox`]: the statements; [`Command`]: the command to start; [`Child`]: the running command, with [`Message`]
//!   and [`Question`]
//! - [`Helper`]: the program that launches
//! - [`Request`], [`Situation`]: the way from the statements to a plan, which the command line uses, too; with
//!   [`Subject`] and [`Surroundings`]
//! - [`explanation`]: what happens with a path, a host, a command, a system call or a variable, and why
//! - [`examination`]: what the host can guarantee
//! - [`plan_file`]: a plan that was printed and approved before
//! - `launcher`: the other end of a [`Child`], for the program `palisade`
//! - [`Error`], [`PlanningError`]: the errors, each with a hint
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
mod repository;
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
pub use palisade_policy::{Guarantee, Limit, NetworkMode, Protect, View};
pub use palisade_protocol::launch::Answer;
pub use repository::RepositoryError;
pub use request::{Application, Request, Subject, Surroundings};
pub use sandbox::Sandbox;
pub use situation::Situation;
pub use status::ExitStatus;
pub use stream::Stream;
