// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `guard`: the scenarios of fapolicyd's performance document, with no daemon, with Palisade's and with fapolicyd.

use std::time::Duration;

use crate::bench::{Bench, BenchError};
use crate::entry::Missing;
use crate::guard::daemon::{self, Program};
use crate::guard::scenarios::{self, Field};
use crate::guard::{GuardError, curves, days};
use crate::programs;
use crate::suite::{More, Suite};
use crate::summary::Report;

/// Notes for the reader.
const NOTES: [&str; 8] = [
    "off: no daemon is asked; `× plain` is × off. Each contender has its own file system with the same content, and watches only that",
    "call: from directly before `execve` to the first instruction of a static program, median of a round; wall: vfork, execve, run and wait, mean of a round. strace and tracepoints: the call itself, mean of a round, copies of `true` whose libraries no daemon watches",
    "in every round what the policy denies was seen to be denied: EPERM under palisaded, a line in the log under fapolicyd, which is permissive here",
    "allow all first: as in fapolicyd's document, after the rules that deny two files; the denials show that the daemon decides",
    "both daemons read the same rules and trusted files, are asked about opens and execs, and check no integrity; fapolicyd's own rules are its known-libs",
    "same core, different cores: load and daemon are each kept on one core",
    "in a home: as an ordinary user, who owns everything but compiler and Node, which no daemon watches; on any core; processor time: of the command, of all that it started and of the daemon",
    "user+sys here: of the daemon in one round; max: what the daemon has in memory (PSS), of off the load itself",
];

/// The suite: a daemon is asked before a file is opened or executed.
#[derive(Debug)]
pub(crate) struct Guard;

impl Suite for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn about(&self) -> &'static str {
        "Opens and execs that a daemon is asked about: palisaded, fapolicyd, and no daemon (root only)"
    }

    fn more(&self) -> More {
        More::Guard
    }

    fn run(&self, bench: &mut Bench) -> Result<Report, BenchError> {
        if !rustix::process::geteuid().is_root() {
            return Err(GuardError::NotRoot.into());
        }
        if !cfg!(target_arch = "x86_64") {
            return Err(GuardError::Architecture.into());
        }
        // A private mount namespace for everything that is started and mounted from here on. It ends with this process.
        palisade_sys::mount::of_ones_own().map_err(|errno| GuardError::Mounts { source: errno.into() })?;
        let mut missing = Vec::new();
        let palisaded = match daemon::find(bench.options.guard.daemon.as_deref()) {
            Ok(path) => Some(path),
            Err(error) => {
                let how = format!(
                    "no palisaded beside this program or on PATH, and none named by --daemon PATH: {error}"
                );
                missing.push(Missing { name: "palisade".to_owned(), how });
                None
            }
        };
        let fapolicyd = if bench.options.guard.ext4 {
            let how = "on ext4 it would watch the host's own file systems, too".to_owned();
            missing.push(Missing { name: "fapolicyd".to_owned(), how });
            None
        } else {
            let found = programs::on_path("fapolicyd").or_else(|| programs::on_path("/usr/sbin/fapolicyd"));
            if found.is_none() {
                let how = "`fapolicyd` is not on PATH; apt install fapolicyd".to_owned();
                missing.push(Missing { name: "fapolicyd".to_owned(), how });
            }
            found
        };
        let daemons = Daemons {
            palisaded: palisaded.map(|path| Program::Palisaded { path, ask_always: false }),
            fapolicyd: fapolicyd.map(|path| Program::Fapolicyd { path }),
        };
        if let Some(field) = Field::prepare(bench, &daemons, &mut missing)? {
            scenarios::all(bench, field, &mut missing)?;
        }
        days::all(bench, &daemons, &mut missing)?;
        if bench.options.guard.curves {
            curves::rules(bench, &daemons, &mut missing)?;
            curves::trusted(bench, &daemons, &mut missing)?;
        }
        bench.report(missing, &NOTES)
    }
}

/// The daemons that are installed.
#[derive(Debug)]
pub(crate) struct Daemons {
    pub(crate) palisaded: Option<Program>,
    pub(crate) fapolicyd: Option<Program>,
}

impl Daemons {
    /// palisaded in the mode in which the kernel never answers by itself.
    pub(crate) fn asked_always(&self) -> Option<Program> {
        match self.palisaded.clone()? {
            Program::Palisaded { path, .. } => Some(Program::Palisaded { path, ask_always: true }),
            other => Some(other),
        }
    }
}

/// The length of a window.
pub(crate) fn window(bench: &Bench) -> Duration {
    let quick = if bench.options.quick { 0.1 } else { 1.0 };
    Duration::from_secs_f64(bench.options.guard.window.unwrap_or(quick))
}
