// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures Palisade against its peers, honestly: paired and interleaved in one run, medians with intervals, the same command against
//! itself as a control, and the effect of every run verified. A launcher that fails is never shown as fast.
//!
//! In reading order: [`options`] is the command line; [`suite`] what a suite is and [`suites`] the suites; [`bench`] what they share.
//! [`entry`], [`peers`] and [`template`] say which launchers there are and how each is called, [`workload`] what they run and
//! [`proof`] how they are seen to isolate. [`launch`] is one run, [`rounds`] and [`interleave`] all of them, [`statistics`] and [`summary`] what
//! they mean, [`report`] how that is shown, [`output`] where it goes, [`compare`] two of them side by side, [`goal`] what is to be reached. [`profiles`] measures what opens applications,
//! [`agents`] what agents run and whom they talk to,
//! [`syscalls`] what single system calls cost,
//! [`shell`] what stands between a keyboard and a shell,
//! [`guard`] what it costs that a daemon is asked before files are opened and executed,
//! [`gate`] whether anything costs more than it did,
//! [`scopes`] what marked subtrees of processes cost each command.
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

/// What the program ends with when it can't do what was asked.
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

/// What is measured in this process is asked what it allocates.
#[global_allocator]
static ALLOCATOR: palisade_sys::counting::Counting = palisade_sys::counting::Counting;

/// The measurement said no: `aa` on a noisy machine, a row of ours that failed.
const NO: u8 = 1;
const ERROR: u8 = 2;
/// As a shell reports a program that a signal ended: this, and the signal's number.
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
        // With stderr closed there is nobody left to tell.
        let _ = writeln!(io::stderr(), "{words}");
        ExitCode::from(ERROR)
    })
}

fn measure(suite: &dyn Suite, options: Measure) -> Result<ExitCode, Fatal> {
    let mut bench = Bench::prepare(suite.name(), options)?;
    let (report, signal) = match suite.run(&mut bench) {
        Ok(report) => (report, None),
        // What was measured until then is worth as much as before.
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
        bench.say("palisade-bench: no peer could be compared with");
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
