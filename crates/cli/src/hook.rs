// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this program does under the names of hooks and wrapped commands: it launches the command of an agent, or the
//! command of that name.
//!
//! An agent's settings name a program, and give it the command in their own way. So each hook is a link to this program
//! in a directory of the agent, with a file beside it that holds the options of the launch ([`Launch`]):
//!
//! - `palisade-line LINE`: one argument, a command line (Claude Code)
//! - `palisade-shell -c LINE`: as a shell is started (opencode)
//! - `palisade-judge`: reads a question of the agent on standard input, and answers it ([`question`])
//!
//! [`line`] is what a line of Claude Code needs, [`server`] what a wrapped server needs there, and [`wrapped`] the command of a link on `PATH`.

mod line;
pub(crate) mod question;
mod server;
pub(crate) mod wrapped;

use crate::hook_error::HookError;
use crate::kept::Launch;
use crate::output;
use crate::run::FAILURE;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// This program's own name.
const MYSELF: &str = env!("CARGO_BIN_NAME");
/// The link that takes a command line as its argument.
pub(crate) const LINE: &str = "palisade-line";
/// The link that is started as a shell.
pub(crate) const SHELL: &str = "palisade-shell";
/// The link that answers questions.
pub(crate) const JUDGE: &str = "palisade-judge";
/// The file beside a link.
pub(crate) const LAUNCH: &str = "launch.json";

/// What a hook comes to.
#[derive(Debug)]
pub(crate) enum Started {
    /// A launch with these arguments.
    Launch(Vec<OsString>),
    /// An exit code.
    Ended(u8),
}

/// What to do under this program's name. `None`: it isn't the name of a hook or a wrapped command.
pub(crate) fn started(given: &[OsString]) -> Option<Started> {
    let (program, arguments) = given.split_first()?;
    let name = Path::new(program).file_name()?;
    let started = match name.to_str()? {
        LINE => launch_of(program, LINE).and_then(|launch| line::arguments(&launch, arguments)),
        SHELL => launch_of(program, SHELL).map(|launch| as_shell(&launch, arguments)),
        JUDGE => question::answer(program).map(Started::Ended),
        MYSELF => return None,
        name => match wrapped::started(name, arguments) {
            Ok(None) => return None,
            Ok(Some(started)) => Ok(started),
            Err(error) => Err(error),
        },
    };
    Some(started.unwrap_or_else(|error| {
        output::error(&error, error.hint().as_deref());
        Started::Ended(FAILURE)
    }))
}

/// The directory of a link that was started.
fn directory_of(program: &OsStr, name: &'static str) -> Result<PathBuf, HookError> {
    let path = Path::new(program);
    match path.parent() {
        Some(directory) if path.is_absolute() => Ok(directory.to_owned()),
        _ => Err(HookError::Nameless { name: name.to_owned() }),
    }
}

fn launch_of(program: &OsStr, name: &'static str) -> Result<Launch, HookError> {
    let path = directory_of(program, name)?.join(LAUNCH);
    Launch::read(&path)?.ok_or(HookError::Removed { path })
}

/// `palisade run --refusals OPTIONS -- COMMAND`: a model reads what a command prints.
fn run(launch: &Launch, more: &[OsString], command: Vec<OsString>) -> Started {
    let options = launch.options.iter().map(OsString::from).chain(more.iter().cloned());
    let words = ["run", "--refusals"].map(OsString::from).into_iter().chain(options);
    Started::Launch(words.chain(std::iter::once("--".into())).chain(command).collect())
}

fn as_shell(launch: &Launch, arguments: &[OsString]) -> Started {
    let command = std::iter::once(shell()).chain(arguments.iter().cloned());
    run(launch, &[], command.collect())
}

/// The shell of lines. Agents write lines for bash.
fn shell() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .any(|directory| directory.is_absolute() && directory.join("bash").is_file());
    if found { "bash".into() } else { "/bin/sh".into() }
}
