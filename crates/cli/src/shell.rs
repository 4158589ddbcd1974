// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade shell`: runs the user's own shell behind the shell proxy.
//!
//! - `start`: starts the proxy
//! - `classify`: the line guard's verdict on a line
//! - `status`: which parts work here
//! - [`history`]: the lines that were typed before
//! - `page`: numbers about what happened

pub(crate) mod classify;
mod history;
mod page;
mod start;
mod status;

use crate::verb;
use clap::{Subcommand, ValueEnum, ValueHint};
use palisade_protocol::scope::SOCKET;
use std::ffi::OsString;
use std::path::PathBuf;

pub(crate) use history::HistoryError;
pub(crate) use page::PageFailure;

/// How the shell is started, or what else is wanted.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Exit code: the shell's own; 125 when nothing could be started. Of the other verbs: 0 yes or done, 1 no, 2 error.

Examples:
  palisade shell                              # your $SHELL, for once
  eval \"$(palisade shell init bash)\"          # as the last line of ~/.bashrc: always
  palisade shell init fish | source           # the same for ~/.config/fish/config.fish
  palisade shell record session.cast          # what is on the screen, for asciinema
  palisade shell status                       # what works here, and what doesn't"
)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: Option<What>,
    /// The shell, instead of $SHELL
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::ExecutablePath)]
    shell: Option<PathBuf>,
    /// Where palisaded answers about scopes
    #[arg(long, value_name = "SOCKET", default_value = SOCKET, value_hint = ValueHint::FilePath)]
    scope_socket: PathBuf,
    /// How long a line waits for it, in milliseconds; then it runs without a scope
    #[arg(long, value_name = "MS", default_value_t = 50, value_parser = clap::value_parser!(u64).range(..=10_000))]
    scope_wait: u64,
    /// What the shell is started with
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print what a shell's start-up file is to evaluate
    Init {
        /// Which shell
        #[arg(value_enum)]
        shell: Kind,
    },
    /// Start the shell and write what is on the screen to a file, as asciicast version 2
    Record(start::Record),
    /// Take what waits in the terminal, for a hook of `init`
    #[command(hide = true)]
    Ahead,
    /// Show, search, import and forget what was typed
    History(history::Options),
    /// Say what the guard makes of a line; answers 1 unless it would simply be run
    Classify(classify::Options),
    /// Say which lines the guard never asks about
    #[command(subcommand)]
    Trust(classify::TrustVerb),
    /// Tell the guard which packages, hosts and URLs are bad
    #[command(subcommand)]
    Lists(classify::ListsVerb),
    /// Serve a page to this machine that shows what happened: lines, ghost text, the guard's rulings
    Page(page::Options),
    /// Say the same in numbers
    Metrics(page::Metrics),
    /// Say what works in this terminal; answers 1 unless the proxy runs here
    Status {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Shells whose editor can be followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// GNU bash
    Bash,
    /// The Z shell
    Zsh,
    /// fish
    Fish,
}

/// Returns the shell's exit code, or 0, 1 no, 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        None => start::shell(options),
        Some(What::Init { shell }) => verb::finish(false, start::init(*shell)),
        Some(What::Record(record)) => start::record(record),
        Some(What::Ahead) => verb::finish(false, start::ahead()),
        Some(What::History(options)) => history::run(options),
        Some(What::Classify(options)) => verb::finish(options.json, classify::classify(options)),
        Some(What::Trust(verb)) => {
            verb::finish(matches!(verb, classify::TrustVerb::List { json: true }), classify::trust(verb))
        }
        Some(What::Lists(verb)) => verb::finish(false, classify::lists(verb)),
        Some(What::Page(options)) => verb::finish(false, page::serve(options)),
        Some(What::Metrics(options)) => verb::finish(options.json, page::metrics(options)),
        Some(What::Status { json }) => verb::finish(*json, status::status(*json)),
    }
}
