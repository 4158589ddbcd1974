// SPDX-License-Identifier: Apache-2.0 OR MIT
//! palisaded: decides for the whole host what may execute.
//!
//! - [`options`]: how it is started
//! - [`guard`]: the parts that run, and how they begin and end
//! - [`control`]: what the command line asks of it
//! - [`conversation`]: how many talk at once over a socket, and how that begins and ends
//! - [`judge`]: what would become of an open or exec
//! - [`lsm`]: what the kernel refuses by itself because nobody was asked about it
//! - [`essential`]: what must go on when the guard has died
//! - [`learn`]: launchers that have the kernel put down what their programs call
//! - [`scope`]: marked subtrees of processes
//! - [`blind`]: what can't be seen
//! - [`trial`]: what is in force for a while
//! - [`trust_updater`], [`loader`]: the trust database, kept up to date by a process without rights
//! - [`kinds`]: libmagic, in processes without rights
//! - [`territory`]: which file systems are watched, as they come and go
//! - [`alarms`]: what is wrong with the guard
//! - [`waker`]: how threads that have nothing to do are woken
//! - [`followers`]: who is told what happens, as it happens
//! - [`log`]: what is said, and to whom
//! - [`saying`], [`journald`]: how, without waiting for whoever reads it; with priorities and fields in systemd's journal
//! - [`supervisor`]: systemd, and what happens when nothing goes on
//! - [`standby`]: a second process that answers while this one is stopped
//! - [`privileges`]: what it gives away
//! - [`confinement`]: which system calls it keeps
#![forbid(unsafe_code)]

mod alarms;
mod blind;
mod confinement;
mod control;
mod conversation;
mod essential;
mod followers;
mod guard;
mod journald;
mod judge;
mod kinds;
mod learn;
mod loader;
mod log;
mod lsm;
mod options;
mod privileges;
mod saying;
mod scope;
mod standby;
mod supervisor;
mod territory;
mod trial;
mod trust_updater;
mod waker;

use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    palisade_sys::process::abort_on_panic();
    let options = match options::Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let _nobody_listens = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    if options.man {
        let printed = options::manual().and_then(|page| io::stdout().write_all(&page));
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    if options.load_trust {
        return loader::run();
    }
    if options.prove_refusal {
        return scope::proof::act();
    }
    if options.prove_calls {
        return confinement::prove(options.other_calls);
    }
    // A core dump may go to a program by a pipe, about whose start the kernel would ask this process while it dies.
    let _always_works =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    if options.stand_by {
        return standby::run();
    }
    if options.tell_kinds {
        return kinds::run();
    }
    let code = match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            saying::say(&format!("palisaded: error: {error}"));
            if let Some(hint) = error.hint() {
                saying::say(&format!("hint: {hint}"));
            }
            ExitCode::from(error.exit_code())
        }
    };
    saying::finish();
    code
}

/// Both parts, or one. Without scopes the guard goes on; without the guard nothing does.
fn run(options: &options::Options) -> Result<(), guard::GuardError> {
    if !options.check {
        saying::begin().map_err(guard::GuardError::Begin)?;
    }
    if options.only == Some(options::Part::Scopes) {
        return scope::run(options);
    }
    let scopes = match (options.only, options.check) {
        (None, false) => match scope::begin(options) {
            Ok(scopes) => Some(scopes),
            Err(error @ guard::GuardError::Scopes(_)) => return Err(error),
            Err(error) => {
                saying::say(&format!("palisaded: alarm: no scopes: {error}"));
                None
            }
        },
        _ => None,
    };
    let result = guard::run(options);
    if let Some(scopes) = scopes {
        scopes.end();
    }
    result
}
