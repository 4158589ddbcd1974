// SPDX-License-Identifier: Apache-2.0 OR MIT
//! bubblewrap's command line on Palisade's engine: the same options, in the same order, with the same results.
//!
//! Programs that execute `bwrap` (Flatpak, coding agents, thumbnailers) can execute this instead. Nothing is added to
//! what the caller asks for, unless it names a policy. The behaviour is that of bubblewrap 0.11; the code is new.
//!
//! In reading order:
//!
//! - [`request`]: what the arguments ask for
//! - [`arguments`]: from arguments to a request, with `number` and `capability`
//! - [`process`]: the process in which arguments are parsed
//! - [`usage`]: the texts of `--help` and `--version`
//! - [`run`], `launch`, `monitor`: the processes of a sandbox, and the one that waits
//! - `inside`, `reaper`: the first process inside, and process 1
//! - `steps`, `words`: from what is asked for to the engine's steps, and their errors
//! - `environment`, `status`: the command's variables, and what callers are told
//! - [`message`]: errors and warnings in bubblewrap's words, with `strerror`
#![forbid(unsafe_code)]

pub mod arguments;
mod capability;
mod environment;
mod inside;
mod launch;
pub mod message;
mod monitor;
mod number;
pub mod process;
mod reaper;
pub mod request;
mod run;
mod status;
mod steps;
mod strerror;
pub mod usage;
mod words;

pub use run::{FAILURE, Policy, run};
