// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade scope run`: runs a command in a scope of its own.
//!
//! This process gets the mark, then it becomes the command. So nothing of the command runs unmarked, and the caller
//! gets no mark.

use super::New;
use crate::output;
use palisade_protocol::client::{self, DaemonError};
use palisade_protocol::scope::{Request, Response, Verdict, Wanted};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The exit code if the command isn't started.
const NOT_STARTED: u8 = 125;

/// What to run.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(flatten)]
    new: New,
    /// Run it also where no scope can be had, or where what would be refused can only be killed
    #[arg(long)]
    best_effort: bool,
    /// Say nothing
    #[arg(long, short)]
    quiet: bool,
    /// The command
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Runs the command. Returns only if it isn't started: 125, 126 if it can't be executed, 127 if it isn't found.
pub(super) fn launch(socket: &Path, options: &Options) -> u8 {
    let Some((program, words)) = options.command.split_first() else { return NOT_STARTED };
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    match mark(socket, options, name) {
        Ok(notes) if !options.quiet => notes.iter().for_each(|note| output::note(note)),
        Ok(_) => {}
        Err(error) if options.best_effort => {
            if !options.quiet {
                output::note(&format!("the command runs unmarked: {error}"));
            }
        }
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            return NOT_STARTED;
        }
    }
    let error = Command::new(program).args(words).exec();
    let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
    output::error(&format_args!("can't execute {program:?}: {error}"), None);
    code
}

/// Marks this process. Returns notes about what differs from the request.
fn mark(socket: &Path, options: &Options, name: String) -> Result<Vec<String>, DaemonError> {
    let mut scope = options.new.wanted(|| name);
    // The connection ends with the answer, so the command doesn't get it.
    let ask = |scope: Wanted| match client::ask(socket, &Request::Run { scope })? {
        Response::Marked(marked) => Ok(marked.notes),
        _ => Err(DaemonError::Strange),
    };
    match ask(scope.clone()) {
        // The fallback is stricter, not laxer.
        Err(error) if options.best_effort && error.class() == "cant-refuse" => {
            scope.verdict = Verdict::Kill;
            let mut notes = ask(scope)?;
            notes.insert(0, format!("programs are killed before their first instruction instead: {error}"));
            Ok(notes)
        }
        result => result,
    }
}
