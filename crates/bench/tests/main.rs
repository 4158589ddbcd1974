// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the bench's command line, and short runs of its suites.
//!
//! All tests are one program: otherwise each file here would be linked separately.
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
