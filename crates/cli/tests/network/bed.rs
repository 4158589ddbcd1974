// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host whose internet is simulated by `internet.py`.

use crate::support::{Place, Run, everybody, has, job};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// All test users, if the machine has what the simulated internet needs.
#[allow(dead_code, reason = "clients are tried by a list of their own")]
pub(crate) fn people() -> Vec<Place> {
    if has("internet") { everybody() } else { Vec::new() }
}

pub(crate) struct Bed {
    pub(crate) place: Place,
    internet: Child,
    /// The internet's, with its authority's certificate.
    pub(crate) directory: PathBuf,
}

impl Bed {
    /// Starts the internet, in a network of its own.
    pub(crate) fn new(place: Place) -> Self {
        Self::serving(place, &[])
    }

    /// Starts the internet with modules that serve more: their names and texts.
    pub(crate) fn serving(place: Place, modules: &[(&str, &str)]) -> Self {
        let directory = place.home.join("internet");
        std::fs::create_dir(&directory).unwrap();
        crate::support::give(&place, &directory);
        let script = place.write("internet.py", include_str!("internet.py"));
        let mut command = place.command("unshare");
        if !place.is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command.args(["--net", "--mount", "python3"]).arg(script).arg(&directory);
        for (name, text) in modules {
            place.write(&format!("{name}.py"), text);
            command.arg(name);
        }
        let mut internet = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(internet.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert_eq!(ready, "ready\n", "the internet doesn't start");
        Self { place, internet, directory }
    }

    /// A command on this host.
    pub(crate) fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command("nsenter");
        command.arg(format!("--target={}", self.internet.id()));
        if !self.place.is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        // A process that enters a mount namespace has its root as working directory.
        command.args(["--net", "--mount", "--", "env"]);
        command.arg(format!("--chdir={}", self.place.work.display())).arg(program);
        command
    }

    /// A line of shell on the host, outside of any sandbox.
    pub(crate) fn outside(&self, line: &str) -> Run {
        job::finish(self.command("/bin/sh").args(["-c", line]).env("CA", self.authority()))
    }

    /// A line of bash on the host.
    pub(crate) fn outside_bash(&self, line: &str) -> Run {
        job::finish(self.command("bash").args(["-c", line]).env("CA", self.authority()))
    }

    /// The process that is this internet.
    pub(crate) fn pid(&self) -> u32 {
        self.internet.id()
    }

    /// Makes the internet forget which clients have asked before.
    pub(crate) fn forget(&self) {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(self.pid().cast_signed()).unwrap(),
            rustix::process::Signal::USR1,
        )
        .unwrap();
    }

    /// Runs a line of bash inside.
    pub(crate) fn bash(&self, options: &[&str], line: &str) -> Run {
        let command = self.palisade(options, line);
        let arguments: Vec<_> = command
            .get_args()
            .map(|argument| if argument == "sh" { "bash".into() } else { argument.to_owned() })
            .collect();
        let mut bash = self.place.command(command.get_program());
        bash.args(arguments);
        drop(command);
        job::finish(&mut bash)
    }

    /// `palisade run OPTIONS -- sh -c LINE`, not started yet. `$CA` is the test authority's certificate.
    pub(crate) fn palisade(&self, options: &[&str], line: &str) -> Command {
        let authority = self.authority();
        let mut command = self.command(self.place.binary());
        command.args(["run", "--ro", &authority, "--env", &format!("CA={authority}")]);
        command.args(options).args(["--", "sh", "-c", line]);
        command
    }

    /// Runs a line of shell inside.
    pub(crate) fn sh(&self, options: &[&str], line: &str) -> Run {
        job::finish(&mut self.palisade(options, line))
    }

    pub(crate) fn authority(&self) -> String {
        self.directory.join("ca.pem").to_str().unwrap().to_owned()
    }

    /// What has been reached since the last time this was asked, a line each.
    pub(crate) fn reached(&self) -> Vec<String> {
        let file = self.directory.join("reached");
        let lines = std::fs::read_to_string(&file).unwrap_or_default();
        let _none_yet = std::fs::remove_file(&file);
        lines.lines().map(str::to_owned).collect()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _dead_already = self.internet.kill();
        let _reaped = self.internet.wait();
    }
}
