// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a key to its echo through a pseudo-terminal: bash alone, and bash behind the proxy, in turns.

use super::{ShellError, series};
use crate::goal::{Bound, Goal, Unit};
use crate::random::Random;
use crate::statistics::{Estimate, quantile};
use crate::summary::{Scale, Table};
use palisade_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::Winsize;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Its name.
pub(crate) const NAME: &str = "pty_roundtrip";
/// Keys in a round: at the end the line is taken back.
const KEYS: usize = 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// A shell on a terminal.
struct Terminal {
    what: String,
    outer: OwnedFd,
    child: Child,
    times: Vec<f64>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Terminal {
    fn start(what: &str, mut command: Command) -> Result<Self, ShellError> {
        let failed = |source| ShellError::Start { what: what.to_owned(), source };
        let pair = terminal::open(Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })
            .map_err(failed)?;
        let child = terminal::start(&mut command, &pair.inner, &[]).map_err(failed)?;
        let mut terminal = Self { what: what.to_owned(), outer: pair.outer, child, times: Vec::new() };
        terminal.until(b"$ ")?;
        // What is read in the background is read.
        std::thread::sleep(Duration::from_millis(300));
        terminal.drain(Duration::from_millis(50));
        Ok(terminal)
    }

    /// Reads until these bytes came.
    fn until(&mut self, wanted: &[u8]) -> Result<(), ShellError> {
        let begun = Instant::now();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while begun.elapsed() < PATIENCE {
            let pause = Timespec { tv_sec: 1, tv_nsec: 0 };
            let mut set = [PollFd::new(&self.outer, PollFlags::IN)];
            if !matches!(poll(&mut set, Some(&pause)), Ok(1)) {
                continue;
            }
            let Ok(count) = rustix::io::read(&self.outer, &mut buffer) else { break };
            seen.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if seen.windows(wanted.len()).any(|window| window == wanted) {
                return Ok(());
            }
        }
        Err(ShellError::NoEcho { what: self.what.clone() })
    }

    /// Reads what comes, until nothing does.
    fn drain(&mut self, quiet: Duration) {
        let pause = Timespec { tv_sec: 0, tv_nsec: i64::from(quiet.subsec_nanos()) };
        let mut buffer = [0; 4096];
        loop {
            let mut set = [PollFd::new(&self.outer, PollFlags::IN)];
            if !matches!(poll(&mut set, Some(&pause)), Ok(1))
                || rustix::io::read(&self.outer, &mut buffer).is_err()
            {
                return;
            }
        }
    }

    /// Types keys one after the other; the median of their times in seconds.
    fn round(&mut self) -> Result<f64, ShellError> {
        let mut times = Vec::with_capacity(KEYS);
        for _ in 0..KEYS {
            let begun = Instant::now();
            let _sent = rustix::io::write(&self.outer, b"q");
            self.until(b"q")?;
            times.push(begun.elapsed().as_secs_f64());
            self.drain(Duration::from_millis(4));
        }
        let _sent = rustix::io::write(&self.outer, b"\x15");
        self.drain(Duration::from_millis(20));
        let median = quantile(&times, 0.5).unwrap_or_default();
        self.times.append(&mut times);
        Ok(median)
    }
}

/// The table of it; `palisade` is the program.
pub(crate) fn measure(palisade: &Path, rounds: usize, random: &mut Random) -> Result<Table, ShellError> {
    let home = tempfile::tempdir().map_err(ShellError::Home)?;
    let start = format!("PS1='$ '; HISTFILE=\neval \"$('{}' shell init bash)\"\n", palisade.display());
    std::fs::write(home.path().join(".bashrc"), start).map_err(ShellError::Home)?;
    let shell = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("HOME", home.path()).env("PS1", "$ ").env("TERM", "xterm-256color");
        for name in ["PALISADE_SHELL", "PALISADE_SHELL_OFF", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(name);
        }
        command
    };
    let bash = Path::new("/bin/bash");
    let mut terminals = [
        Terminal::start("bash", shell(bash, &["--norc", "-i"]))?,
        Terminal::start("bash again (A/A)", shell(bash, &["--norc", "-i"]))?,
        Terminal::start("palisade shell", shell(palisade, &["shell", "--shell", "/bin/bash"]))?,
    ];
    let mut walls = [const { Vec::new() }; 3];
    let mut order = [0, 1, 2];
    for round in 0..=rounds {
        random.shuffle(&mut order);
        for &index in &order {
            let wall = terminals[index].round()?;
            if round == 0 {
                terminals[index].times.clear();
            } else {
                walls[index].push(wall);
            }
        }
    }
    let rows =
        terminals.iter().zip(&walls).map(|(terminal, walls)| series(&terminal.what, "q", walls)).collect();
    let mut table = Table::summarise(NAME, rounds, KEYS, rows, random);
    table.scale = Scale::Microseconds;
    for (at, most) in [(0.5, 20e-6), (0.99, 60e-6)] {
        let of =
            |index: usize| terminals.get(index).and_then(|terminal: &Terminal| quantile(&terminal.times, at));
        let added = of(2).zip(of(0)).map(|(with, without)| with - without);
        table.goals.push(Goal {
            what: format!("palisade shell: added at the {:.0}th percentile of all keys", at * 100.0),
            unit: Unit::Microseconds,
            bound: Bound::AtMost,
            wanted: Some(most),
            seen: added.map(|added| Estimate { median: added, low: added, high: added }),
            published: None,
        });
    }
    Ok(table)
}
