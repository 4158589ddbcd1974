// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures Palisade against its peers, honestly: paired and interleaved in one run, medians with intervals, the same command against
//! itself as a control, and the effect of every run verified. A launcher that fails is never shown as fast.
//!
//! In reading order: [`options`] is the command line; [`suite`] what a suite is and [`suites`] the suites; [`bench`] what they share.
//! [`entry`], [`peers`] and [`template`] say which launchers there are and how each is called, [`workload`] what they run and
//! [`proof`] how they are seen to isolate. [`launch`] is one run, [`interleave`] all of them, [`statistics`] and [`summary`] what
//! they mean, [`report`] how that is shown, [`compare`] two of them side by side, [`goal`] what is to be reached. [`profiles`] measures what opens applications,
//! [`agents`] what agents run and whom they talk to,
//! [`syscalls`] what single system calls cost,
//! [`shell`] what stands between a keyboard and a shell,
//! [`guard`] what it costs that a daemon is asked before files are opened and executed,
//! [`scopes`] what marked subtrees of processes cost each command.
#![forbid(unsafe_code)]

mod agents;
mod bench;
mod compare;
mod entry;
mod environment;
mod files;
mod filter;
mod goal;
mod guard;
mod interleave;
mod launch;
mod oci;
mod options;
mod peers;
mod profiles;
mod programs;
mod proof;
mod random;
mod report;
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
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agents::client::InsideError;
use bench::{Bench, BenchError};
use compare::CompareError;
use guard::load::LoadError;
use options::{Measure, Request};
use random::Random;
use report::text::Style;
use shell::relay::RelayError;
use suite::{SUITES, Suite};
use summary::Report;
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
    #[error("can't write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("can't write to standard output")]
    Print { source: io::Error },
    #[error("can't write the results as JSON")]
    Json { source: serde_json::Error },
}

/// What is measured in this process is asked what it allocates.
#[global_allocator]
static ALLOCATOR: palisade_sys::counting::Counting = palisade_sys::counting::Counting;

/// The measurement said no: `aa` on a noisy machine.
const NO: u8 = 1;
const ERROR: u8 = 2;
/// As a shell reports a program that ended by SIGINT.
const STOPPED: u8 = 130;

fn main() -> ExitCode {
    let result = match options::parse() {
        Request::Measure(suite, options) => measure(suite, *options),
        Request::Compare(options) => {
            compare::compare(&options.a, &options.b, options.style(), &mut Random::new(0))
                .map_err(Fatal::from)
                .and_then(|text| print(&text))
                .map(|()| ExitCode::SUCCESS)
        }
        Request::Inside(inside) => inside.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Calls(caller) => caller.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Load(load) => load.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::Relay(relay) => relay.run().map(|()| ExitCode::SUCCESS).map_err(Fatal::from),
        Request::List => print(&list()).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        if matches!(&error, Fatal::Bench(error) if error.is_stop()) {
            return ExitCode::from(STOPPED);
        }
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
    let mut bench = Bench::prepare(options)?;
    let report = suite.run(&mut bench)?;
    let options = &bench.options;
    print(&rendered(
        &bench,
        &report,
        if options.json { Format::Json } else { Format::Text(options.style()) },
    )?)?;
    if let Some(path) = &options.output {
        write(path, &rendered(&bench, &report, Format::of(path))?)?;
    }
    if options.save() {
        let directory = Path::new("bench/history");
        let path =
            directory.join(format!("{}-{}.json", suite.name(), bench.environment.date.replace(':', "")));
        fs::create_dir_all(directory)
            .map_err(|source| Fatal::Write { path: directory.to_owned(), source })?;
        write(&path, &rendered(&bench, &report, Format::Json)?)?;
    }
    if let Some(path) = &options.svg {
        write(path, &rendered(&bench, &report, Format::Svg)?)?;
    }
    let noisy = report
        .tables
        .iter()
        .any(|table| table.control.as_ref().is_none_or(|control| control.noisy.is_some()));
    // Only `aa` asks a question with yes or no for an answer.
    Ok(if noisy && suite.name() == suites::aa::Control.name() {
        ExitCode::from(NO)
    } else {
        ExitCode::SUCCESS
    })
}

#[derive(Clone, Copy)]
enum Format {
    Text(Style),
    Json,
    Svg,
}

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("json") => Self::Json,
            Some("md") => Self::Text(Style::Markdown),
            Some("svg") => Self::Svg,
            _ => Self::Text(Style::Aligned),
        }
    }
}

fn rendered(bench: &Bench, report: &Report, format: Format) -> Result<String, Fatal> {
    Ok(match format {
        Format::Text(style) => report::text::render(report, &bench.environment, bench.seed, style),
        Format::Svg => report::plot::render(report, &bench.environment),
        Format::Json => {
            #[expect(clippy::cast_precision_loss, reason = "a gap of 2⁵³ ms would not end")]
            let document =
                report::json::document(report, &bench.environment, bench.seed, bench.options.gap as f64);
            serde_json::to_string_pretty(&document).map_err(|source| Fatal::Json { source })? + "\n"
        }
    })
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

fn write(path: &Path, text: &str) -> Result<(), Fatal> {
    fs::write(path, text).map_err(|source| Fatal::Write { path: path.to_owned(), source })
}

fn print(text: &str) -> Result<(), Fatal> {
    match io::stdout().write_all(text.as_bytes()) {
        // `palisade-bench list | head -1` is no error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|source| Fatal::Print { source }),
    }
}
