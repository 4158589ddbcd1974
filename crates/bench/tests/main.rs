// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of the suite, and short runs of its measurements.
//!
//! One program for all of them: each file here would otherwise be linked by itself.
#![forbid(unsafe_code)]

mod agents;
mod command_line;
mod gate;
mod guard;
mod honest;
mod readme;
mod scopes;
mod shell;
mod syscalls;
