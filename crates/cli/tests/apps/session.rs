// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A desktop session, for as long as one application is tried.

use super::display::Display;
use crate::support::{Place, eventually, give, is_root, ordinary};
use palisade_acceptance::patience::Patience;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// An ordinary user with a home, a display and applications that are open.
pub(crate) struct Session {
    pub(crate) place: Place,
    pub(crate) display: Option<Display>,
}

impl Session {
    /// Begins one; with a display if the application needs one.
    ///
    /// # Errors
    /// In words, what is missing.
    pub(crate) fn begin(with_display: bool) -> Result<Self, String> {
        let place = ordinary();
        // A home that has been lived in has both: names that come into it make plans old.
        for directory in ["run", ".cache"].map(|name| place.home.join(name)) {
            std::fs::create_dir(&directory).unwrap();
            std::fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
            give(&place, &directory);
        }
        let display = with_display.then(|| Display::start(&place)).transpose()?;
        Ok(Self { place, display })
    }

    /// `program` as the person of this session.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command(program);
        command.env("XDG_RUNTIME_DIR", self.place.home.join("run"));
        if let Some(display) = &self.display {
            command.env("DISPLAY", &display.name).env("XAUTHORITY", &display.authority);
        }
        command
    }

    /// Starts `palisade ARGUMENTS` with `input`; what it says goes to files.
    pub(crate) fn start(&self, arguments: &[String], input: Option<&str>) -> Job {
        let stdin = match input {
            Some(input) => Stdio::from(File::open(self.place.write("input", input)).unwrap()),
            None => Stdio::null(),
        };
        let [out, err] = ["out", "err"].map(|name| {
            let path = self.place.write(name, "");
            std::fs::OpenOptions::new().append(true).open(path).unwrap()
        });
        let mut command = self.command(self.place.binary());
        let child = command.args(arguments).stdin(stdin).stdout(out).stderr(err).spawn().unwrap();
        Job { child, out: self.place.home.join("out"), err: self.place.home.join("err") }
    }

    /// The processes of this session that still run, without the display.
    pub(crate) fn strays(&self) -> Vec<i32> {
        let mark = format!("PALISADE_TEST_MARK={}", self.place.mark);
        let display = self.display.as_ref().and_then(Display::pid);
        let mut strays = Vec::new();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            // The user was made for this test, so all processes of the user belong to it.
            let ours = is_root() && process.metadata().is_ok_and(|about| about.uid() == self.place.uid);
            let marked = || {
                let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
                environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
            };
            // A process that has ended and was not yet waited for doesn't count.
            let ended = || {
                let state = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
                state.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
            };
            if (ours || marked()) && !ended() && u32::try_from(pid).ok() != display {
                strays.push(pid);
            }
        }
        strays
    }

    /// Waits until nothing that was started here is left.
    ///
    /// # Errors
    /// What is left; it is killed.
    pub(crate) fn assert_empty(&self) -> Result<(), String> {
        if eventually(|| self.strays().is_empty()) {
            return Ok(());
        }
        let left: Vec<String> = self.strays().into_iter().map(describe).collect();
        self.kill_strays();
        Err(format!("left behind: {}", left.join(", ")))
    }

    fn kill_strays(&self) {
        for pid in self.strays() {
            if let Some(pid) = Pid::from_raw(pid) {
                let _gone_already = kill_process(pid, Signal::KILL);
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.kill_strays();
        let _gone = eventually(|| self.strays().is_empty());
    }
}

fn describe(pid: i32) -> String {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ").trim_end())
}

/// A launcher that runs.
pub(crate) struct Job {
    child: Child,
    out: std::path::PathBuf,
    err: std::path::PathBuf,
}

impl Job {
    /// The exit code, if it has ended; negative for a signal.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().map(crate::support::job::code)
    }

    /// Waits for its end; nothing if it goes on for longer.
    pub(crate) fn end_within(&mut self, limit: Duration) -> Option<i32> {
        let mut patience = Patience::new(limit);
        loop {
            if let Some(code) = self.ended() {
                return Some(code);
            }
            if patience.is_spent() {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the command in the sandbox, which is a child of the launcher's, once it is there: whether it was.
    pub(crate) fn kill_command(&self) -> bool {
        let launcher = self.child.id();
        let children = std::fs::read_to_string(format!("/proc/{launcher}/task/{launcher}/children"));
        let command = children.unwrap_or_default().split_whitespace().find_map(|child| {
            // Init, and the command before its exec, still have the launcher's name.
            let name = std::fs::read_to_string(format!("/proc/{child}/comm")).ok()?;
            if name.starts_with("palisade") { None } else { Pid::from_raw(child.parse().ok()?) }
        });
        command.is_some_and(|command| kill_process(command, Signal::KILL).is_ok())
    }

    /// Asks it to end, and waits; in the end it is killed, which everything in the sandbox has to follow, too.
    ///
    /// Returns whether asking was enough: some applications don't listen while they ask their first question.
    pub(crate) fn terminate(&mut self) -> bool {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| self.ended().is_none()) {
            kill_process(pid, Signal::TERM).unwrap();
        }
        let ended = self.end_within(Duration::from_secs(15)).is_some();
        if !ended {
            self.child.kill().unwrap();
            self.child.wait().unwrap();
        }
        ended
    }

    /// What it printed.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.out).unwrap_or_default()).into_owned()
    }

    /// The end of what it complained about.
    pub(crate) fn complaint(&self) -> String {
        let text = String::from_utf8_lossy(&std::fs::read(&self.err).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(12)..].join("\n    ")
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}
