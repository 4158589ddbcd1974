// SPDX-License-Identifier: Apache-2.0 OR MIT
//! palisaded: the daemon that decides for the whole host what may execute.
//!
//! - [`options`]: the command line options
//! - [`guard`]: the running guard: how its parts begin and end
//! - [`control`]: answers requests of the command line
//! - [`conversation`]: limits how many conversations a socket has at once, and begins and ends them
//! - [`judge`]: answers how the guard would decide
//! - [`lsm`]: makes the kernel refuse by itself what fanotify didn't ask about
//! - [`essential`]: labels in advance what must go on after the guard has died
//! - [`learn`]: records system calls in the kernel for launchers
//! - [`scope`]: marked subtrees of processes
//! - [`blind`]: lists what can't be seen
//! - [`trial`]: rules that are in force for a while
//! - [`trust_updater`], [`loader`]: keep the trust database up to date, with a process without rights
//! - [`kinds`]: runs libmagic in processes without rights
//! - [`territory`]: watches file systems as they appear and disappear
//! - [`alarms`]: what is wrong with the guard now
//! - [`waker`]: wakes threads that wait for work
//! - [`followers`]: sends events to followers as they happen
//! - [`log`]: reports decisions
//! - [`saying`], [`journald`]: write messages without waiting for the reader; with priorities and fields in systemd's
//!   journal
//! - [`supervisor`]: reports to systemd, and acts when the guard makes no progress
//! - [`standby`]: a second process that answers while this one is stopped
//! - [`privileges`]: drops capabilities
//! - [`confinement`]: limits the daemon's system calls
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
    // The kernel may pipe a core dump to a program, and would ask this dying process about the start of that program.
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
                // Root doesn't need it, and hosts without it exist.
                let sudo = if rustix::process::geteuid().is_root() { "sudo " } else { "" };
                saying::say(&format!("hint: {}", hint.strip_prefix(sudo).unwrap_or(&hint)));
            }
            ExitCode::from(error.exit_code())
        }
    };
    saying::finish();
    code
}

/// Runs both parts, or one. Without scopes the guard continues; without the guard the daemon ends.
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
                saying::say(&format!("palisaded: alarm: scopes are unavailable: {error}"));
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
