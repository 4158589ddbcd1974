// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the tests of the workspace: `./x test` starts it.
//!
//! Every integration test runs in a process of its own; the unit tests of a crate share a few. Several processes run at
//! once. `tests/suites.toml` states which tests may not, which are for the long run, and which take longer than usual.
//! The run doesn't stop at a failure. A test that ran out of time is repeated alone before it counts as failed.
//!
//! In reading order: [`options`] is the command line, [`programs`] has cargo build the test programs, [`listing`] asks
//! them for their tests, [`suites`] reads `tests/suites.toml`, [`base`] finds which files changed, [`plan`]
//! makes the jobs, [`schedule`] decides which job may start next, [`job`] is one process, [`slots`] the ordinary users
//! that tests run as, [`scratch`] the file systems that they write to, [`run`] combines these, [`progress`] and
//! [`report`] are the output for people, [`times`] keeps how long tests took, [`cases`] counts the tests of each suite.
#![forbid(unsafe_code)]

mod base;
mod cases;
mod job;
mod listing;
mod options;
mod plan;
mod programs;
mod progress;
mod reason;
mod report;
mod room;
mod run;
mod schedule;
mod scratch;
mod slots;
mod suites;
mod times;

use std::io::Write;
use std::process::ExitCode;

use options::Request;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match options::parse(&arguments) {
        Ok(Request::Help) => {
            let _nobody_reads = std::io::stdout().write_all(options::HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Ok(Request::Cases(request)) => cases::main(&request),
        Ok(Request::Run(request)) => run::main(&request),
        Err(error) => Err(error),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _nobody_reads = writeln!(std::io::stderr(), "x test: error: {error}");
            ExitCode::from(2)
        }
    }
}
