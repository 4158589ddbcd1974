// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs a command again under the profile that was learned from it.
//!
//! A launch leaves its process unable to make another launch. So the process executes this program again for the second
//! run. Signals, the terminal and the exit code belong to the second run then, as they belonged to the first one. What
//! was learned is passed on in memory, so no file is left behind, however the run ends.

use super::{Options, Situation, Under, Watched, checked};
use crate::output;
use palisade_policy::Access;
use palisade_sandbox::error::PlanError;
pub(super) use palisade_sandbox::learned::second::{Handed, beginning};
use palisade_sandbox::learned::second::{Network, Refusals, Second};
use palisade_sandbox::learned::{Change, Disk};
use palisade_text::Show as _;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The word after `learn` that tells the second run where to find what was learned: a descriptor's number follows. It
/// is no option, because users don't type it.
const WORD: &str = "--second-run=";

/// The descriptor at which a first run left what it learned, and the arguments of that run. `None` if these arguments
/// aren't a second run's.
pub(crate) fn second_run(arguments: &[OsString]) -> Option<(u32, Vec<OsString>)> {
    let [verb, word, rest @ ..] = arguments else { return None };
    let number = word.to_str()?.strip_prefix(WORD).filter(|_| verb == "learn")?;
    Some((number.parse().ok()?, std::iter::once(verb).chain(rest).cloned().collect()))
}

/// Why there is no second run.
#[derive(Debug, thiserror::Error)]
pub(super) enum VerifyError {
    /// It can't be started.
    #[error("can't run the command again: {0}")]
    Start(std::io::Error),
    /// No first run started this process.
    #[error("can't read what a first run has learned: {0}")]
    Handed(std::io::Error),
}

/// Executes this program anew for the second run. Returns only if that fails.
pub(super) fn again(handed: &Handed, beginning: Option<u64>) -> VerifyError {
    let file = match handed.leave(beginning) {
        Ok(file) => file,
        Err(error) => return VerifyError::Start(error),
    };
    let mut given = std::env::args_os();
    let own = given.next().unwrap_or_default();
    let verb: Option<OsString> = given.next();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(own).args(verb).arg(format!("{WORD}{}", file.as_raw_fd())).args(given);
    VerifyError::Start(command.exec())
}

/// Reads what the first run left at a descriptor.
pub(super) fn take(number: u32) -> Result<Handed, VerifyError> {
    Handed::take(number).map_err(VerifyError::Handed)
}

/// Sentences about where a run under the profile differs from the first run.
pub(super) fn differences(
    handed: &Handed,
    situation: &Situation,
    (first, second): (&Under, &Under),
    run: &Watched,
) -> Result<Vec<String>, PlanError> {
    let mut told = Vec::new();
    if run.code != handed.code {
        told.push(format!("its exit code was {}, not {}", run.code, handed.code));
    }
    let second = Second {
        first,
        refused: &handed.refused.iter().map(|path| Path::new(OsStr::from_bytes(path))).collect(),
        under: second,
        trace: &run.trace,
        hosts: &run.hosts,
        calls: &run.calls,
        home: &situation.facts.account.home,
        host: &Disk,
    };
    let Refusals { files, lost, names, network, calls } = second.refusals()?;
    let mut of_files: Vec<String> = files.iter().map(sentence).collect();
    of_files.extend(
        lost.iter().map(|path| format!("{} was written to a private directory and lost", path.shown())),
    );
    of_files
        .extend(names.iter().map(|name| format!("the name {} was protected", palisade_text::harmless(name))));
    told.extend(checked::few(of_files));
    told.extend(checked::few(match network {
        Network::Refused(hosts) => hosts.iter().map(|host| format!("{host} was refused")).collect(),
        Network::Absent(addresses) => {
            let words = |address| format!("{address} couldn't be reached, there was no network");
            addresses.iter().map(words).collect()
        }
    }));
    let calls = calls.iter().map(|call| format!("the system call {call} was refused"));
    told.extend(checked::few(calls.collect()));
    Ok(told)
}

fn sentence(change: &Change) -> String {
    let done = match change.access {
        Access::Write => "changed",
        Access::Execute => "executed",
        _ => "read",
    };
    let programs = change.programs.to_string();
    let by = if programs.is_empty() { programs } else { format!(" by {programs}") };
    format!("{} couldn't be {done}{by}", change.path.shown())
}

/// Prints how the second run went. Returns whether the profile is enough.
pub(super) fn say(differences: &[String], code: u8, options: &Options) -> bool {
    for difference in differences {
        output::note(&format_args!("in the second run {}", palisade_text::harmless(difference)));
    }
    if differences.is_empty() {
        if !options.run.quiet {
            output::note(&format_args!(
                "verified: the second run, under the profile, ended as the first (exit code {code}) and was refused \
                 nothing"
            ));
        }
        return true;
    }
    output::error(
        &"not verified: under the profile the command behaves differently",
        Some("palisade learn --verify -c 'LINE'   # a line that does everything that the profile must allow"),
    );
    false
}
