// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host whose internet is `internet.py`.

use crate::support::{Place, Run, job};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The name server of that internet.
pub const NAME_SERVER: &str = "11.11.11.11";

pub struct Bed {
    pub place: Place,
    internet: Child,
    /// The internet's, with its authority's certificate.
    pub(crate) directory: PathBuf,
}

impl Bed {
    /// Starts the internet, in a network of its own.
    pub fn new(place: Place) -> Self {
        let directory = place.home.join("internet");
        std::fs::create_dir(&directory).unwrap();
        crate::support::give(&place, &directory);
        let script = place.write("internet.py", include_str!("internet.py"));
        let mut command = place.command("unshare");
        if !place.is_root() {
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command.args(["--net", "python3"]).arg(script).arg(&directory);
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
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.place.command("nsenter");
        command.arg(format!("--target={}", self.internet.id()));
        if !self.place.is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--net").arg("--").arg(program);
        command
    }

    /// A line of shell on the host, outside of any sandbox.
    pub fn outside(&self, line: &str) -> Run {
        job::finish(self.command("/bin/sh").args(["-c", line]).env("CA", self.authority()))
    }

    /// `palisade run OPTIONS -- sh -c LINE`, not started yet. `$CA` is the test authority's certificate.
    pub fn palisade(&self, options: &[&str], line: &str) -> Command {
        let authority = self.authority();
        let mut command = self.command(self.place.binary());
        command.args(["run", "--dns", NAME_SERVER, "--ro", &authority, "--env", &format!("CA={authority}")]);
        command.args(options).args(["--", "sh", "-c", line]);
        command
    }

    /// Runs a line of shell inside.
    pub fn sh(&self, options: &[&str], line: &str) -> Run {
        job::finish(&mut self.palisade(options, line))
    }

    pub fn authority(&self) -> String {
        self.directory.join("ca.pem").to_str().unwrap().to_owned()
    }

    /// What has been reached since the last time this was asked, a line each.
    pub fn reached(&self) -> Vec<String> {
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
