// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade bwrap`, and this program under the name `bwrap`: bubblewrap's command line.
//!
//! [`policed`] launches the same arguments by a policy; [`tree`] is the file tree that they state, and [`hint`] what its
//! hints say.

mod hint;
mod policed;
mod tree;

pub(crate) use hint::hint_by_policy;

use crate::output;
use clap::Args;
use palisade_bwrap::Policy;
use palisade_sandbox::error::user_namespaces::{self, Cause};
use std::ffi::{OsStr, OsString};
use std::time::Instant;

/// The name of the verb, and of the program that it stands for.
const NAME: &str = "bwrap";

/// The variable that names a policy for callers that can't give `--policy`.
const POLICY: &str = "PALISADE_BWRAP_POLICY";

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// Keep to a policy, too: a profile, by name or file
    #[arg(long, value_name = "NAME|FILE")]
    policy: Option<OsString>,
    /// The options and the command, as bwrap(1) has them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Runs the verb without parsing the arguments as Palisade's own, if it is asked for. `given` begins with the program's
/// name.
pub(crate) fn shortcut(given: &[OsString], begun: Instant) -> Option<u8> {
    let (program, arguments) = given.split_first()?;
    let first = arguments.first().map(OsString::as_os_str);
    if program.as_encoded_bytes().rsplit(|byte| *byte == b'/').next() == Some(NAME.as_bytes())
        || is_itself(program, first)
    {
        return Some(run_as(program, arguments, begun));
    }
    let (verb, arguments) = arguments.split_first()?;
    (verb == NAME).then(|| run_as(OsStr::new(NAME), arguments, begun))
}

/// Whether a process inside has executed its own program file with bubblewrap's options, to make a sandbox in a sandbox.
/// Palisade executes its own file, too, with a verb or with a word of its own.
fn is_itself(program: &OsStr, first: Option<&OsStr>) -> bool {
    let is_option = |word: &OsStr| {
        let bytes = word.as_encoded_bytes();
        bytes.starts_with(b"--")
            && !bytes.starts_with(b"--palisade-")
            && word != "--help"
            && word != "--version"
    };
    program == "/proc/self/exe" && first.is_some_and(is_option)
}

/// The same after the arguments were parsed.
pub(crate) fn run(options: &Options, begun: Instant) -> u8 {
    let policy = options.policy.iter().flat_map(|policy| ["--policy".into(), policy.clone()]);
    let arguments: Vec<OsString> = policy.chain(options.arguments.iter().cloned()).collect();
    run_as(OsStr::new(NAME), &arguments, begun)
}

fn run_as(name: &OsStr, arguments: &[OsString], begun: Instant) -> u8 {
    let launch = |request, policy: &OsStr| policed::launch(request, policy, begun);
    palisade_bwrap::run(name, arguments.to_vec(), Policy { usual: std::env::var_os(POLICY), launch }, explain)
}

/// Why this host refuses user namespaces, with the command that changes it: for the reasons that one command removes.
/// bubblewrap's own message names neither.
fn explain() -> Vec<String> {
    match user_namespaces::examine() {
        Some(cause @ (Cause::Forbidden | Cause::Privileged | Cause::AppArmor { .. })) => {
            let hint = user_namespaces::hint(&cause);
            vec![
                format!(
                    "palisade: note: this host refuses user namespaces: {}",
                    user_namespaces::words(&cause)
                ),
                format!("hint: {}", output::as_typed(&hint)),
            ]
        }
        _ => Vec::new(),
    }
}
