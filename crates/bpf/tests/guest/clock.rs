// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets the clock forward and back while a palisaded decides by content. Only a virtual machine has a clock that a test may
//! set.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use palisade_protocol::guard::Request;
use rustix::process::Signal;
use rustix::time::{ClockId, Timespec, clock_settime};
use sha2::{Digest, Sha256};

use crate::daemon::{Daemon, PATIENCE, done, in_force, said, status};
use crate::lives::eventually;
use crate::scenario::{Outcome, Result, ensure, execute, expect, report};

const PLACE: &str = "/clock";
const TRUSTED: &str = "/clock/trusted.script";
const UNTRUSTED: &str = "/clock/untrusted.script";
const SAYS: &str = "#!/bin/sh act\n# as it should be\n";
/// Other content of the same size.
const SAYS_ELSE: &str = "#!/bin/sh act\n# as it shouldn't\n";
const RULES: &str = "/etc/palisade/guard.d/10-clock.rules";
const DAY: i64 = 86_400;
/// Measured by the monotonic clock.
const TRIAL: Duration = Duration::from_secs(12);

fn prepare() -> Result {
    let make = || -> io::Result<()> {
        fs::create_dir_all(PLACE)?;
        let digest =
            Sha256::digest(SAYS).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        for path in [TRUSTED, UNTRUSTED] {
            fs::write(path, SAYS)?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
        fs::write("/etc/palisade/trust.d/clock", format!("{TRUSTED} {} {digest}\n", SAYS.len()))?;
        fs::create_dir_all("/etc/palisade/guard.d")?;
        let rules = "allow perm=any all : trust=1\ndeny_audit perm=execute all : dir=/clock/\nallow perm=any all : all\n";
        fs::write(RULES, rules)
    };
    make().map_err(|error| format!("prepare: {error}"))
}

/// Moves the clock by this many seconds.
fn jump(seconds: i64) -> Result {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let now = i64::try_from(now.as_secs()).map_err(|error| error.to_string())?;
    clock_settime(ClockId::Realtime, Timespec { tv_sec: now + seconds, tv_nsec: 0 })
        .map_err(|error| format!("set the clock: {error}"))
}

fn write(text: &str) -> Result {
    fs::write(TRUSTED, text).map_err(|error| format!("write: {error}"))
}

fn run(path: &str) -> Outcome {
    execute(path, &[])
}

/// Decisions must not depend on the time.
fn decides(when: &str) -> Result {
    for _known_by_then in 0..2 {
        expect(&format!("{when}: trusted"), &run(TRUSTED), &Outcome::Done)?;
        expect(&format!("{when}: untrusted"), &run(UNTRUSTED), &Outcome::Refused)?;
    }
    // At this write the file's former change time may lie in the future, or the new one may equal an earlier one.
    for _again in 0..5 {
        write(SAYS_ELSE)?;
        expect(&format!("{when}: changed"), &run(TRUSTED), &Outcome::Refused)?;
        write(SAYS)?;
        eventually(&format!("{when}: changed back"), || run(TRUSTED), &Outcome::Done)?;
    }
    Ok(())
}

pub(crate) fn all() {
    let mut daemon = None;
    let mut jumped = 0;
    let mut set = |seconds: i64| {
        jumped += seconds;
        jump(seconds)
    };
    report("daemon-clock-jumps-change-no-decision", || {
        prepare()?;
        daemon = Some(Daemon::start("trust.integrity = \"sha256\"", in_force)?);
        eventually("the database is read", || run(TRUSTED), &Outcome::Done)?;
        decides("before")?;
        for (seconds, when) in [(DAY, "a day later"), (-400 * DAY, "a year ago"), (400 * DAY, "and back")] {
            set(seconds)?;
            decides(when)?;
            done(&Request::Reload { force: false })?;
            decides(when)?;
            done(&Request::Sync { seconds: PATIENCE.as_secs() })?;
            status()?;
        }
        Ok(())
    });
    report("daemon-clock-jumps-neither-end-nor-prolong-a-trial", || {
        done(&Request::Mode { enforce: false, force: false })?;
        expect("permissive", &run(UNTRUSTED), &Outcome::Done)?;
        done(&Request::Try { seconds: TRIAL.as_secs(), rules: None, force: false })?;
        let began = Instant::now();
        set(DAY)?;
        expect("tried, a day later", &run(UNTRUSTED), &Outcome::Refused)?;
        ensure(status()?.trying.is_some_and(|left| left <= TRIAL.as_secs()), "it isn't tried any more")?;
        set(-2 * DAY)?;
        while run(UNTRUSTED) != Outcome::Done && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(100));
        }
        let took = began.elapsed();
        ensure(took >= TRIAL && took < PATIENCE, format!("over after {took:?}: {}", said()))
    });
    let _ = jump(-jumped);
    if let Some(daemon) = daemon {
        let _ = daemon.end(Signal::TERM);
    }
    let _ = fs::remove_file(RULES);
    let _ = fs::remove_file("/etc/palisade/trust.d/clock");
}
