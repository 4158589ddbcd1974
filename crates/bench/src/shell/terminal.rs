// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs bash on a pseudo-terminal, alone or behind the proxy.

use super::ShellError;
use palisade_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::Winsize;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const BASH: &str = "/bin/bash";
const PATIENCE: Duration = Duration::from_secs(10);

/// The home of the shells, and the program of the proxy.
pub(super) struct Home {
    directory: tempfile::TempDir,
    palisade: PathBuf,
}

impl Home {
    pub(super) fn prepare(palisade: &Path) -> Result<Self, ShellError> {
        let directory = tempfile::tempdir().map_err(ShellError::Home)?;
        let home = Self { directory, palisade: palisade.to_owned() };
        let start =
            format!("PS1='$ '; HISTFILE=\neval \"$('{}' shell init bash)\"\n", home.palisade.display());
        std::fs::write(home.path(".bashrc"), start).map_err(ShellError::Home)?;
        Ok(home)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.directory.path()).env("HOME", self.directory.path());
        command.env("PS1", "$ ").env("TERM", "xterm-256color");
        for name in [
            "PALISADE_SHELL",
            "PALISADE_SHELL_OFF",
            "PALISADE_SHELL_BARE",
            "XDG_STATE_HOME",
            "XDG_CONFIG_HOME",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// bash without a proxy.
    pub(super) fn alone(&self, what: &str) -> Result<Terminal, ShellError> {
        Terminal::start(what, self.command(Path::new(BASH), &["--norc", "-i"]))
    }

    /// bash behind the relay, which only reads and writes.
    pub(super) fn relayed(&self) -> Result<Terminal, ShellError> {
        let own = std::env::current_exe().map_err(ShellError::Home)?;
        Terminal::start("a bare relay", self.command(&own, &["relay", "--", BASH, "--norc", "-i"]))
    }

    /// bash behind the proxy, with all default modules or with none.
    pub(super) fn proxied(&self, what: &str, modules: bool) -> Result<Terminal, ShellError> {
        let mut command = self.command(&self.palisade, &["shell", "--shell", BASH]);
        if !modules {
            command.env("PALISADE_SHELL_BARE", "1");
        }
        Terminal::start(what, command)
    }
}

/// A shell on a terminal.
pub(super) struct Terminal {
    pub(super) what: String,
    pub(super) outer: OwnedFd,
    child: Child,
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
        let mut terminal = Self { what: what.to_owned(), outer: pair.outer, child };
        terminal.until(b"$ ")?;
        // By now the shell has read its files in the background.
        std::thread::sleep(Duration::from_millis(300));
        terminal.drain(Duration::from_millis(50));
        Ok(terminal)
    }

    /// Types bytes.
    pub(super) fn keys(&self, bytes: &[u8]) {
        // A lost key is noticed when its echo doesn't arrive.
        let _sent = rustix::io::write(&self.outer, bytes);
    }

    /// Reads the available bytes into a buffer, waiting at most a second; `None` if there are none.
    pub(super) fn read(&self, buffer: &mut [u8]) -> Option<usize> {
        let pause = Timespec { tv_sec: 1, tv_nsec: 0 };
        let mut set = [PollFd::new(&self.outer, PollFlags::IN)];
        if !matches!(poll(&mut set, Some(&pause)), Ok(1)) {
            return None;
        }
        // After the shell has ended, each read returns 0.
        Some(rustix::io::read(&self.outer, buffer).unwrap_or(0))
    }

    /// Reads until these bytes arrive.
    pub(super) fn until(&mut self, wanted: &[u8]) -> Result<(), ShellError> {
        let begun = Instant::now();
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while begun.elapsed() < PATIENCE {
            let Some(count) = self.read(&mut buffer) else { continue };
            if count == 0 {
                break;
            }
            seen.extend_from_slice(buffer.get(..count).unwrap_or_default());
            if seen.windows(wanted.len()).any(|window| window == wanted) {
                return Ok(());
            }
        }
        Err(ShellError::NoEcho { what: self.what.clone() })
    }

    /// Reads until nothing arrives any more.
    pub(super) fn drain(&mut self, quiet: Duration) {
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
}
