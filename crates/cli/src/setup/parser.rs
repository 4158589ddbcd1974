// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `apparmor_parser`, which compiles profiles and gives them to the kernel.

use super::error::SetupError;
use super::profile::Profile;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where distributions have it. A user's `PATH` isn't asked: root executes the program.
const PLACES: [&str; 2] = ["/usr/sbin/apparmor_parser", "/sbin/apparmor_parser"];
/// The kernel's list of loaded profiles, a line each: `NAME (MODE)`. Only root may read it.
const LOADED: &str = "/sys/kernel/security/apparmor/profiles";

pub(super) struct Parser(PathBuf);

impl Parser {
    pub(super) fn find() -> Result<Self, SetupError> {
        let found = PLACES.iter().map(Path::new).find(|path| path.is_file());
        found.map(|path| Self(path.to_owned())).ok_or(SetupError::NoParser)
    }

    /// Checks that this version understands the profile. Loads nothing, and needs no rights.
    pub(super) fn check(&self, profile: &Profile) -> Result<(), SetupError> {
        let failed = |source| SetupError::Parser { parser: self.0.clone(), source };
        let mut child = self.command(&["--skip-kernel-load", "--skip-cache"]).spawn().map_err(failed)?;
        if let Some(mut input) = child.stdin.take() {
            // A parser that doesn't read to the end says why.
            let _said = input.write_all(profile.text.as_bytes());
        }
        let output = child.wait_with_output().map_err(failed)?;
        match output.status.success() {
            true => Ok(()),
            false => Err(SetupError::Rejected { parser: self.0.clone(), said: said(&output) }),
        }
    }

    /// Loads the profile's file, in place of an earlier version of the profile.
    pub(super) fn load(&self, file: &Path) -> Result<(), SetupError> {
        let output = self.run(&["--replace", "--skip-cache"], file)?;
        if output.status.success() { Ok(()) } else { Err(self.refused("load", file, &output)) }
    }

    /// Unloads the profile's file. That the profile isn't loaded is no error.
    pub(super) fn unload(&self, file: &Path, name: &str) -> Result<(), SetupError> {
        let output = self.run(&["--remove", "--skip-cache"], file)?;
        if output.status.success() || !is_loaded(name) {
            Ok(())
        } else {
            Err(self.refused("unload", file, &output))
        }
    }

    fn run(&self, options: &[&str], file: &Path) -> Result<Output, SetupError> {
        let failed = |source| SetupError::Parser { parser: self.0.clone(), source };
        self.command(options).arg(file).stdin(Stdio::null()).output().map_err(failed)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(options).current_dir("/").env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn refused(&self, action: &'static str, file: &Path, output: &Output) -> SetupError {
        let (parser, file) = (self.0.clone(), file.to_owned());
        SetupError::Kernel { parser, action, file, said: said(output) }
    }
}

/// Whether the kernel has the profile. It has if the list can't be read.
fn is_loaded(name: &str) -> bool {
    std::fs::read_to_string(LOADED).map_or(true, |list| {
        list.lines().any(|line| line.rsplit_once(" (").is_some_and(|(of, _)| of == name))
    })
}

fn said(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if said.is_empty() { output.status.to_string() } else { said }
}
