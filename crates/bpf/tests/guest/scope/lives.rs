// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the scopes' programs when the daemon is killed: a new daemon reuses them, or clears them.

use std::fs;

use rustix::process::Signal;

use super::{Daemon, PINS, Waiting, ask, done, status, told};
use crate::archive::PALISADE;
use crate::scenario::{Result, ensure, report};
use palisade_event::Verdict;
use palisade_protocol::scope::Request;

const TRIED: [&str; 3] = ["plain:/work/program", "orphan:/work/program", "deep9:/work/program"];

fn held(settings: &str) -> Result<(Daemon, Vec<Waiting>)> {
    let daemon = Daemon::start(settings, &[])?;
    let run = [PALISADE, "scope", "run", "--verdict", "refuse", "--"];
    let waiting = (0..3).map(|_| Waiting::start(&run, &TRIED)).collect::<Result<Vec<_>>>()?;
    Ok((daemon, waiting))
}

pub(super) fn all() {
    report("scope-killed-daemon-refuses-on", || {
        let (daemon, mut waiting) = held("")?;
        daemon.end(Signal::KILL)?;
        let next = |waiting: &mut Vec<Waiting>| waiting.pop().ok_or("nobody waits");
        next(&mut waiting)?.go(&TRIED.map(|attempt| (attempt, "refused")))?;
        // The next daemon finds everything unchanged.
        let daemon = Daemon::start("", &[])?;
        let list = done(&["list"])?;
        ensure(list.matches(" refuse ").count() >= 2, list)?;
        let found = status()?;
        ensure(found.refuses && found.refuses_not.is_none() && found.pinned.is_some(), format!("{found:?}"))?;
        next(&mut waiting)?.go(&TRIED.map(|attempt| (attempt, "refused")))?;
        told("a refusal", |event| event.verdict == Verdict::Refused)?;
        done(&["clear"])?;
        ensure(!fs::exists(PINS).unwrap_or(true), "the pins are still there")?;
        next(&mut waiting)?.go(&TRIED.map(|attempt| (attempt, "ran")))?;
        daemon.end(Signal::TERM)
    });
    report("scope-lost-hook-is-said-and-kills", || {
        let (daemon, mut waiting) = held("")?;
        daemon.end(Signal::KILL)?;
        fs::remove_file(format!("{PINS}/link-palisade_scope_refuse"))
            .map_err(|error| format!("unpin: {error}"))?;
        let daemon = Daemon::start("", &[])?;
        let found = status()?;
        let said = !found.refuses
            && found.refuses_not.is_some()
            && found.alarms.iter().any(|alarm| alarm.contains("security hook is gone"));
        ensure(said, format!("{found:?}"))?;
        waiting.pop().ok_or("nobody waits")?.go(&TRIED.map(|attempt| (attempt, "killed")))?;
        let asked = ask(&Request::Clear { scope: None })?;
        ensure(matches!(asked, palisade_protocol::scope::Response::Done { .. }), format!("{asked:?}"))?;
        // The programs are loaded again, with their proof.
        ensure(status()?.refuses, "it doesn't refuse again")?;
        for waiting in waiting {
            waiting.go(&TRIED.map(|attempt| (attempt, "ran")))?;
        }
        daemon.end(Signal::TERM)?;
        ensure(!fs::exists(PINS).unwrap_or(true), "the pins are still there")
    });
    report("scope-end-with-scopes-leaves-them-in-force", || {
        let (daemon, mut waiting) = held("[enforcement]\ndepth = \"ancestry\"\nancestry_max_depth = 16")?;
        daemon.end(Signal::TERM)?;
        ensure(fs::exists(PINS).unwrap_or(false), "an orderly end took what is in use")?;
        let refused = [(TRIED[0], "refused"), (TRIED[1], "ran"), (TRIED[2], "refused")];
        // A process whose parent ended has left the ancestry.
        waiting.pop().ok_or("nobody waits")?.go(&refused)?;
        let daemon = Daemon::start("", &[])?;
        for waiting in waiting {
            drop(waiting);
        }
        done(&["clear"])?;
        daemon.end(Signal::TERM)
    });
}
