// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade bwrap`, and this program under the name `bwrap`: bubblewrap's command line.

use clap::Args;
use std::ffi::{OsStr, OsString};

/// The name of the verb, and of the program that it stands for.
const NAME: &str = "bwrap";

#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// The options and the command, as bwrap(1) has them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Runs the verb without parsing the arguments as Palisade's own, if it is asked for. `given` begins with the program's
/// name.
pub(crate) fn shortcut(given: &[OsString]) -> Option<u8> {
    let (program, arguments) = given.split_first()?;
    let first = arguments.first().map(OsString::as_os_str);
    if program.as_encoded_bytes().rsplit(|byte| *byte == b'/').next() == Some(NAME.as_bytes())
        || is_itself(program, first)
    {
        return Some(palisade_bwrap::run(program, arguments.to_vec()));
    }
    let (verb, arguments) = arguments.split_first()?;
    (verb == NAME).then(|| palisade_bwrap::run(OsStr::new(NAME), arguments.to_vec()))
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
pub(crate) fn run(options: &Options) -> u8 {
    palisade_bwrap::run(OsStr::new(NAME), options.arguments.clone())
}
