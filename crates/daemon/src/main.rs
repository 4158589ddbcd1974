// SPDX-License-Identifier: Apache-2.0 OR MIT
//! palisaded: decides for the whole host what may execute.
//!
//! - [`options`]: how it is started
//! - [`guard`]: the parts that run, and how they begin and end
//! - [`control`]: what the command line asks of it
//! - [`judge`]: what would become of an open or exec
//! - [`blind`]: what can't be seen
//! - [`trial`]: what is in force for a while
//! - [`keeper`], [`loader`]: the trust database, kept up to date by a process without rights
//! - [`territory`]: which file systems are watched, as they come and go
//! - [`journal`]: what is said, and to whom
//! - [`supervisor`]: systemd, and what happens when nothing goes on
//! - [`privileges`]: what it gives away
#![forbid(unsafe_code)]

mod blind;
mod control;
mod guard;
mod journal;
mod judge;
mod keeper;
mod loader;
mod options;
mod privileges;
mod supervisor;
mod territory;
mod trial;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let options = match options::Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _nobody_listens = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    if options.load_trust {
        return loader::run();
    }
    match guard::run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            journal::say(&format!("palisaded: error: {error}"));
            if let Some(hint) = error.hint() {
                journal::say(&format!("hint: {hint}"));
            }
            ExitCode::from(error.exit_code())
        }
    }
}
