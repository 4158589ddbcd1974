// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `on-death = "closed"`: what must go on when no guard labels files any more, and that a new guard reuses what
//! stayed in force. Also tests opens that no guard is asked about.

use std::fs::{self, File};
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use palisade_bpf::{GuardPrograms, Pins};
use palisade_protocol::guard::Request;
use rustix::process::Signal;

use crate::daemon::{
    Daemon, TRUSTED, UNTRUSTED, done, eventually_said, in_force, map, memfd, open, refuses_nothing,
    refuses_what_has_no_label,
};
use crate::inside::class_of;
use crate::scenario::{Outcome, Result, ensure, execute, expect, report, run, told};

/// One of the guard's essential programs, which nothing here executes.
pub(crate) const ESSENTIAL: &str = "/bin/bash";
/// Trusted too, but not essential.
pub(crate) const NEVER: &str = "/never";
/// Essential, but not trusted.
const REFUSED: &str = "/usr/bin/su";

const CLOSED: &str = "on-death = \"closed\"";

/// How long earlier labels stay valid, and one second more.
const GRACE: Duration = Duration::from_secs(11);

/// Where the number of the layout is in `struct settings`.
const LAYOUT: std::ops::Range<usize> = 8..12;

pub(crate) fn all() {
    report("daemon-essential-runs-after-death", || {
        fs::create_dir_all("/usr/bin").map_err(|error| format!("make /usr/bin: {error}"))?;
        fs::copy("/init", REFUSED).map_err(|error| format!("copy: {error}"))?;
        // `--force`, because under these rules no process can become another user.
        let result =
            Daemon::start_with(&["--force"], CLOSED, in_force).and_then(|daemon| daemon.end(Signal::KILL));
        let tried = result.and_then(|()| after_death());
        fs::remove_file(REFUSED).map_err(|error| format!("remove: {error}"))?;
        tried
    });
    report("daemon-essential-is-labelled-after-a-reload", || {
        let daemon = Daemon::start(CLOSED, in_force)?;
        done(&Request::Reload { force: false })?;
        done(&Request::Sync { seconds: crate::daemon::PATIENCE.as_secs() })?;
        daemon.end(Signal::KILL)?;
        // Earlier labels stay valid for a while, so check the labels themselves.
        let programs = GuardPrograms::open(&Pins::default()).map_err(|error| told("open")(&error))?;
        let programs = programs.ok_or("nothing is pinned")?;
        let class = |path: &str| class_of(&programs, path);
        ensure(class(ESSENTIAL)?.is_some(), "it has no label of these rules")?;
        ensure(class(ESSENTIAL)? == class("/bin/sh")?, "its label isn't a program's")?;
        ensure(class(NEVER)?.is_none() && class(UNTRUSTED)?.is_none(), "others are labelled")?;
        expect("essential", &run(ESSENTIAL), &Outcome::Done)
    });
    report("daemon-killed-while-it-reloads", || {
        let daemon = Daemon::start(CLOSED, in_force)?;
        done(&Request::Reload { force: false })?;
        // By now the trust database was read again, and labels are given again.
        daemon.end(Signal::KILL)?;
        std::thread::sleep(GRACE);
        expect("not essential", &run(NEVER), &Outcome::Refused)?;
        expect("essential", &run(ESSENTIAL), &Outcome::Done)
    });
    report("daemon-other-layout-is-made-anew", || {
        let pin = Pins::default().directory().join("map-settings");
        let settings = MapHandle::from_pinned_path(&pin).map_err(|error| format!("open the pin: {error}"))?;
        let key = [0; 4];
        let found = settings.lookup(&key, MapFlags::ANY).map_err(|error| format!("read: {error}"))?;
        let mut found = found.ok_or("no settings")?;
        found[LAYOUT].copy_from_slice(&77u32.to_ne_bytes());
        settings.update(&key, &found, MapFlags::ANY).map_err(|error| format!("write: {error}"))?;
        drop(settings);
        let daemon = Daemon::start(CLOSED, in_force)?;
        eventually_said("palisaded: alarm: ", "loading new ones")?;
        refuses_what_has_no_label()?;
        let programs = GuardPrograms::open(&Pins::default()).map_err(|error| told("open")(&error))?;
        ensure(programs.is_some(), "nothing is pinned")?;
        drop(programs);
        done(&Request::Stop)?;
        daemon.wait()
    });
    report("daemon-stop-clears", || {
        ensure(!Pins::default().exist(), "the pins are still there")?;
        refuses_nothing()
    });
    report("daemon-asked-execute", asked_execute);
}

fn after_death() -> Result {
    expect("not essential", &run(NEVER), &Outcome::Refused)?;
    expect("essential, and the rules refuse it", &run(REFUSED), &Outcome::Refused)?;
    expect("essential", &run(ESSENTIAL), &Outcome::Done)?;
    // A program that it executes is judged by that program's own label.
    expect("by it", &execute(ESSENTIAL, &["act", "execute", "/bin/sh"]), &Outcome::Done)?;
    expect("by it", &execute(ESSENTIAL, &["act", "execute", NEVER]), &Outcome::Refused)
}

/// A guard that is asked only about execs doesn't label libraries, so libraries must not be refused. Everything else still
/// applies.
fn asked_execute() -> Result {
    let before = open(UNTRUSTED)?;
    let daemon = Daemon::start("watch.asked = \"execute\"", in_force)?;
    let status = crate::daemon::status()?;
    ensure(status.asked == "execute", &status.asked)?;
    refuses_what_has_no_label()?;
    expect("opened before, mapped after", &map(&before), &Outcome::Done)?;
    expect("opened and mapped", &map(&open(UNTRUSTED)?), &Outcome::Done)?;
    // A program that was allowed and is then changed has no label, and fanotify asks about it again.
    drop(File::options().append(true).open(TRUSTED).map_err(|error| format!("open: {error}"))?);
    crate::lives::eventually("changed", || run(TRUSTED), &Outcome::Done)?;
    expect("in memory", &memfd(), &Outcome::Refused)?;
    daemon.end(Signal::TERM)
}
