// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Palisade: starts programs in isolation and says what was refused and why.
//!
//! - [`scan`], [`run`], [`run_options`], [`dry_run`]: `palisade run`
//! - [`output`]: words for people
#![forbid(unsafe_code)]

mod dry_run;
mod output;
mod run;
mod run_options;
mod scan;

use clap::{FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Instant;

/// Confines programs and controls what runs, fast enough that nobody turns it off.
#[derive(Debug, Parser)]
#[command(name = "palisade", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a command in isolation
    Run(run_options::RunOptions),
}

fn main() -> ExitCode {
    let begun = Instant::now();
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(code) = run::shortcut(&arguments, begun) {
        return ExitCode::from(code);
    }
    ExitCode::from(long_way(&arguments, begun))
}

/// Everything but a launch that was seen before.
fn long_way(arguments: &[OsString], begun: Instant) -> u8 {
    let command = <Cli as clap::CommandFactory>::command();
    let named = std::iter::once(OsString::from("palisade")).chain(arguments.iter().cloned());
    let parsed = command.try_get_matches_from(named).and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((matches, cli))
    });
    let (matches, cli) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let _nobody_listens = error.print();
            let running = arguments.first().is_some_and(|verb| verb == "run");
            return match (error.use_stderr(), running) {
                (false, _) => 0,
                (true, true) => 125,
                (true, false) => 2,
            };
        }
    };
    match (&cli.verb, matches.subcommand()) {
        (Verb::Run(options), Some((_run, matches))) => run::run(options, matches, arguments, begun),
        (_, None) => 2,
    }
}
