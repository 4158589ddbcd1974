// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures the cost of a proxy between the keyboard and the shell.
//!
//! [`operations`] measures single steps for keys and output, in this process, with their allocations. [`roundtrip`] measures
//! from a key to its echo through a pseudo-terminal, with and without the proxy. [`throughput`] measures large output on the
//! same way back. `terminal` is bash on a pseudo-terminal, and [`relay`] measures what any proxy costs.

pub(crate) mod operations;
pub(crate) mod relay;
pub(crate) mod roundtrip;
mod terminal;
pub(crate) mod throughput;

use crate::interleave::{Sample, Series};

/// Why something can't be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShellError {
    #[error("can't start {what} on a pseudo-terminal: {source}")]
    Start { what: String, source: std::io::Error },
    #[error("{what} didn't echo a key")]
    NoEcho { what: String },
    #[error("{what} printed only {seen} of {wanted} bytes in time")]
    Cut { what: String, seen: usize, wanted: usize },
    #[error("the command that prints the text ended with code {code} in {what}")]
    Code { what: String, code: String },
    #[error("the guard can't be made: {0}")]
    Guard(#[from] palisade_shell::classify::RuleError),
    #[error("can't make a home for the shell: {0}")]
    Home(#[source] std::io::Error),
}

/// A row of times that this process measured itself, in seconds.
fn series(name: &str, command: &str, walls: &[f64]) -> Series {
    let samples = walls
        .iter()
        .enumerate()
        .map(|(round, &wall)| Sample { round, wall, user: 0.0, system: 0.0, max_rss: 0, exit_code: 0 })
        .collect();
    Series { samples, ..Series::begun(name, command.to_owned()) }
}
