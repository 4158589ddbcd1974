// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade man`: prints the manual's pages, made from the same table as the parser.

use crate::verb::{self, Failure, YES};
use clap::{Command, CommandFactory, ValueHint};
use std::path::PathBuf;

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write a page for each verb into this directory instead of printing the main one
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

/// Prints or writes the pages. Returns 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    verb::finish(false, pages(options).map(|()| YES))
}

fn pages(options: &Options) -> Result<(), Failure> {
    let mut command = without_help(crate::Cli::command());
    // Names the pages of verbs "palisade-run" and so on.
    command.build();
    if let Some(directory) = &options.directory {
        let failed = |source| Failure::Write { path: directory.clone(), source };
        std::fs::create_dir_all(directory).map_err(failed)?;
        return clap_mangen::generate_to(command, directory).map_err(failed);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(|source| Failure::Output { source })?;
    verb::print_exactly(&String::from_utf8_lossy(&page))
}

/// The table without the verb `help`, which would get a page for each page.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}
