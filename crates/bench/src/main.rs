// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade-bench` measures Palisade against its peers: runs are paired and interleaved, medians have intervals, the same
//! command is compared with itself as a control, and the effect of every run is verified. A launcher that fails is never
//! shown as fast.
//!
//! In reading order: [`options`] is the command line. [`suite`] defines a suite, [`suites`] has all suites, and [`mod@bench`] is
//! what they share. [`entry`], [`peers`] and [`template`] define the launchers and their command lines, [`workload`] the
//! commands that they run, and [`proof`] how their isolation is checked. [`launch`] is one run; [`rounds`] and [`interleave`]
//! are all runs. [`statistics`] and [`summary`] evaluate them, [`report`] shows the results, [`output`] writes them,
//! [`compare`] compares two result files, and [`goal`] has the targets.
//!
//! [`profiles`] measures opening applications, [`agents`] the commands of agents and their network, [`syscalls`] single
//! system calls, [`shell`] the proxy between a keyboard and a shell, [`guard`] asking a daemon before files are opened and
//! executed, [`scopes`] the cost of marked subtrees of processes for each command, and [`gate`] whether a launch or a key
//! costs more than before.
#![forbid(unsafe_code)]

mod agents;
mod bench;
mod compare;
mod entry;
mod environment;
mod files;
mod filter;
mod gate;
mod goal;
mod guard;
mod interleave;
mod launch;
mod oci;
mod options;
mod output;
mod peers;
mod profiles;
mod programs;
mod proof;
mod random;
mod report;
mod rounds;
mod scopes;
mod session;
mod shell;
mod statistics;
mod suite;
mod suites;
mod summary;
mod syscalls;
mod template;
mod watchdog;
mod workload;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use agents::client::InsideError;
use bench::{Bench, BenchError};
use compare::CompareError;
use guard::load::LoadError;
use options::{Measure, Request};
use output::{Format, OutputError, print};
use random::Random;
use shell::relay::RelayError;
use suite::{SUITES, Suite};
use syscalls::caller::CallerError;

/// Why the program can't do what was asked.
#[derive(Debug, thiserror::Error)]
enum Fatal {
    #[error(transparent)]
    Bench(#[from] BenchError),
    #[error(transparent)]
    Compare(#[from] CompareError),
    #[error(transparent)]
    Inside(#[from] InsideError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Caller(#[from] CallerError),
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// Counts the allocations of code that is measured in this process.
#[global_allocator]
static ALLOCATOR: palisade_sys::counting::Counting = palisade_sys::counting::Counting;

/// Exit code: the measurement's answer is no (`aa` on a noisy machine, or a failed row of our own).
const NO: u8 = 1;
const ERROR: u8 = 2;
/// Exit code after a signal: this plus the signal's number, as in a shell.
const SIGNALLED: u8 = 128;

fn main() -> ExitCode {
    let result = match options::parse() {
        Request::Measure(suite, options) => measure(suite, *options),
        Request::Compare(options) => {
            compare::compare(&options.a, &options.b, options.style(), &mut Random::new(0))
                .map_err(Fatal::from)
                .and_then(|text| Ok(print(&text)?))
                .map(|()| ExitCode::SUCCESS)
        }
        Request::Inside(inside) => inside.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Calls(caller) => caller.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Load(load) => load.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Relay(relay) => relay.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::List => print(&list()).map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
    };
    result.unwrap_or_else(|error| {
        let mut words = format!("palisade-bench: {error}");
        let mut cause = error.source();
        while let Some(error) = cause {
            words += &format!(": {error}");
            cause = error.source();
        }
        // If stderr is closed, the error can't be reported.
        let _ = writeln!(io::stderr(), "{words}");
        ExitCode::from(ERROR)
    })
}

fn measure(suite: &dyn Suite, options: Measure) -> Result<ExitCode, Fatal> {
    let mut bench = Bench::prepare(suite.name(), options)?;
    let (report, signal) = match suite.run(&mut bench) {
        Ok(report) => (report, None),
        // What was measured until then stays valid.
        Err(error) if error.is_stop() => {
            (bench.interrupted(), Some(bench.session.signal().unwrap_or_default()))
        }
        Err(error) => return Err(error.into()),
    };
    let output = bench.output();
    print(&output.rendered(&report, &bench.environment, Format::printed(&bench.options))?)?;
    output.write(&report, &bench.environment)?;
    if let Some(signal) = signal {
        return Ok(ExitCode::from(SIGNALLED + signal));
    }
    let failures = report.own_failures();
    for failure in &failures {
        bench.say(&format!("palisade-bench: failed: {failure}"));
    }
    let incomparable = bench.options.need_peers && !report.has_compared();
    if incomparable {
        bench.say("palisade-bench: palisade was compared with no peer");
    }
    let no = !failures.is_empty() || incomparable || report.answer == Some(false);
    Ok(if no { ExitCode::from(NO) } else { ExitCode::SUCCESS })
}

fn list() -> String {
    let mut text = "suites:\n".to_owned();
    for suite in SUITES {
        text += &format!("  {:<10} {}\n", suite.name(), suite.about());
    }
    text += "\nlaunchers:\n";
    for row in peers::palisade(None).into_iter().chain(peers::PEERS.iter().map(peers::Peer::look)) {
        text += &match row {
            Ok(entry) => format!("  {:<34} {}\n", entry.name, entry.template.program().unwrap_or_default()),
            Err(missing) => format!("  {:<34} not here: {}\n", missing.name, missing.how),
        };
    }
    text
}
