// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade interpose`: counts, logs or answers a command's system calls in the command's own processes.
//!
//! - [`log`]: a line for each call
//! - [`report`]: what is printed when the command has ended
//! - [`sites`]: where calls came from, compared with what a scan finds
//! - [`error`]: why the command wasn't started

mod error;
mod log;
mod report;
mod sites;

use self::error::InterposeError;
use crate::output;
use clap::ValueHint;
use palisade_host::executable::{self, Found};
use palisade_interpose::fakes;
use palisade_interpose::launch::{self, Launch, Outcome};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

/// The exit code of a failure of Palisade, not of the command.
const FAILURE: u8 = 125;

/// Counts, logs or answers the system calls of a command and all that it starts, inside its own processes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
This is an accelerator and a tracer, never a boundary: a program that wants to gets around it. What
confines is `palisade run`.
Exit code: the command's own; 125 if it wasn't started, 126 not executable, 127 not found.

Examples:
  palisade interpose -- ls                        a table like `strace -c -f`, with its counts
  palisade interpose --time -- ls                 with what the calls took
  palisade interpose --sites -- python3 -c ''     where they came from
  palisade interpose --output calls.json --json -- make
  palisade interpose --log calls.txt -- make      a line for each call
  palisade interpose --fake time=2030-01-01 --fake hostname=there -- date")]
pub(crate) struct Options {
    /// Count calls, and print a table when all processes have ended; the default without --log and --fake
    #[arg(long)]
    count: bool,
    /// Count what calls take, too: by the clock on the wall (`strace -c -w`); costs some tens of nanoseconds a call
    #[arg(long, conflicts_with = "log")]
    time: bool,
    /// Say where calls came from, by file: sites that trapped beside those that a scan of the file finds
    #[arg(long)]
    sites: bool,
    /// Hide the vDSO from programs, so that they read clocks (and the processor's number) by system calls, which are
    /// counted and logged like others; as with --fake time
    #[arg(long)]
    no_vdso: bool,
    /// Write a line for each call to this file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Replace the kernel's answers: uname=RELEASE, hostname=NAME, time=YYYY-MM-DD or time=SECONDS (since 1970),
    /// cpus=NUMBER, pid=NUMBER; may be repeated
    #[arg(long, value_name = "WHAT=ANSWER")]
    fake: Vec<OsString>,
    /// Write the table to this file instead of to standard error
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write it as JSON
    #[arg(long)]
    json: bool,
    /// End with the command, not with the last process that it has started
    #[arg(long)]
    no_wait: bool,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs the command if the arguments are only this verb's options. This way doesn't build the parser of all verbs. Help
/// and mistakes are left to the complete parser.
pub(crate) fn shortcut(arguments: &[OsString]) -> Option<u8> {
    let [verb, ..] = arguments else { return None };
    if verb != "interpose" {
        return None;
    }
    let command = <Options as clap::Args>::augment_args(clap::Command::new("interpose"));
    let matches = command.try_get_matches_from(arguments).ok()?;
    let options = <Options as clap::FromArgMatches>::from_arg_matches(&matches).ok()?;
    Some(run(&options))
}

/// Returns the command's exit code, or Palisade's own.
pub(crate) fn run(options: &Options) -> u8 {
    match start(options) {
        Ok(outcome) => code(&outcome),
        Err(error) => {
            output::error(&error, error.hint().as_deref());
            error.code()
        }
    }
}

fn start(options: &Options) -> Result<Outcome, InterposeError> {
    let program = find(&options.command)?;
    let fakes = fakes::parse(&options.fake)?;
    // Open the files before the command starts: an unwritable file must be reported first.
    let table = report::Table::open(options.output.as_deref(), options.json)?;
    let mut log = options.log.as_deref().map(log::Log::create).transpose()?;
    let asked = options.log.is_some() || !options.fake.is_empty() || options.sites;
    let count = options.count || options.time || !asked;
    let launch = Launch {
        program: text(program.as_os_str().to_owned())?,
        arguments: options.command.iter().cloned().map(text).collect::<Result<_, _>>()?,
        environment: environment()?,
        count,
        time: options.time,
        sites: options.sites,
        hide_vdso: options.no_vdso,
        fakes,
        wait: !options.no_wait,
        meanwhile: report::prepare,
    };
    let outcome = match &mut log {
        None => launch::launch(&launch, None)?,
        Some(log) => launch::launch(&launch, Some(&mut |call| log.write(&call)))?,
    };
    if let Some(log) = log {
        log.finish(&outcome)?;
    }
    if count || options.sites {
        let sites = options.sites.then(|| sites::compare(&outcome.found));
        table.write(&outcome, &report::Shown { count, time: options.time, sites })?;
    }
    Ok(outcome)
}

/// Finds the command's file.
fn find(command: &[OsString]) -> Result<PathBuf, InterposeError> {
    let name = command.first().cloned().unwrap_or_default();
    let path = std::env::var_os("PATH");
    let program = match executable::find(&name, path.as_deref(), Path::new("")) {
        Found::Program(program) => program,
        Found::NotFound => return Err(InterposeError::NotFound { name }),
        Found::NotExecutable(path) | Found::Directory(path) => {
            return Err(InterposeError::NotExecutable { path });
        }
    };
    // The kernel gives such a program no extra rights while it is watched. The program would fail for no visible reason.
    let other = |metadata: &std::fs::Metadata| {
        let mode = metadata.permissions().mode();
        let user = mode & 0o4000 != 0 && metadata.uid() != rustix::process::geteuid().as_raw();
        let group = mode & 0o2010 == 0o2010 && metadata.gid() != rustix::process::getegid().as_raw();
        user || group
    };
    if !rustix::process::geteuid().is_root() && program.metadata().is_ok_and(|found| other(&found)) {
        return Err(InterposeError::OtherRights { path: program });
    }
    Ok(program)
}

fn text(of: OsString) -> Result<CString, InterposeError> {
    CString::new(of.into_vec()).map_err(|_zero| InterposeError::Zero)
}

fn environment() -> Result<Vec<CString>, InterposeError> {
    std::env::vars_os()
        .map(|(name, value)| {
            let mut both = name;
            both.push("=");
            both.push(value);
            text(both)
        })
        .collect()
}

/// The exit code as a shell gives it.
fn code(outcome: &Outcome) -> u8 {
    let code = match (outcome.status.code(), outcome.status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => i32::from(FAILURE),
    };
    u8::try_from(code).unwrap_or(FAILURE)
}

/// A name as text.
fn shown(name: &std::ffi::OsStr) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}
