// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade bench`: executes the measuring suite. The suite is a separate program, so that the measured program
//! contains no measuring code.

use crate::output;
use palisade_text::Show as _;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Measures Palisade beside other launchers.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Options {
    /// The suite and its options; `palisade bench --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "SUITE")]
    arguments: Vec<OsString>,
}

/// Executes the suite in place of this process. Returns only if that fails.
pub(crate) fn run(options: &Options) -> u8 {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().map(|own| own.with_file_name("palisade-bench")).filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| PathBuf::from("palisade-bench"));
    let error = Command::new(&program).args(&options.arguments).exec();
    output::error(
        &format_args!("can't run {}: {error}", program.shown()),
        Some("build palisade-bench, and put it beside palisade or on PATH"),
    );
    2
}
