// SPDX-License-Identifier: Apache-2.0 OR MIT
//! bubblewrap's command line on Palisade's engine: the same options, in the same order, with the same results.
//!
//! Programs that execute `bwrap` (Flatpak, coding agents, thumbnailers) can execute this instead. Nothing is added to
//! what the caller asks for. The behaviour is that of bubblewrap 0.11; the code is new.
//!
//! In reading order:
//!
//! - [`request`]: what the arguments ask for
//! - [`arguments`]: from arguments to a request, with `number` and `capability`
//! - [`process`]: the process in which arguments are parsed
//! - [`usage`]: the texts of `--help` and `--version`
//! - [`message`]: errors and warnings in bubblewrap's words, with `strerror`
#![forbid(unsafe_code)]

pub mod arguments;
mod capability;
pub mod message;
mod number;
pub mod process;
pub mod request;
mod strerror;
pub mod usage;
