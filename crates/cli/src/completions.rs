// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade completions`: prints a shell's completions, made from the same table as the parser.

use crate::verb::{self, YES};
use clap::CommandFactory;
use clap_complete::Shell;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Prints the completions. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut crate::Cli::command(), "palisade", &mut script);
    verb::finish(false, verb::print_exactly(&String::from_utf8_lossy(&script)).map(|()| YES))
}
