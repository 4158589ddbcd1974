// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The environment of the guard's tests: its own configuration, and a palisaded that watches only its own tmpfs.

use crate::support::job::{Run, finish};
use crate::support::{self, Place};
use palisade_acceptance::patience::Patience;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A place with a configuration in it.
pub struct World {
    pub place: Place,
}

/// What is allowed but what this names.
pub const NOT_BAD: &str = "deny_audit perm=execute all : path=%DIR%/bad\nallow perm=any all : all\n";

impl World {
    /// For each person.
    pub fn each() -> Vec<Self> {
        support::everybody().into_iter().map(|place| Self { place }).collect()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.work.join(name)
    }

    /// A file below the work directory, its directories made.
    pub fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        for made in path.ancestors().take_while(|made| *made != self.place.work) {
            std::os::unix::fs::chown(made, Some(self.place.uid), Some(self.place.gid)).unwrap();
        }
        path
    }

    /// `palisade guard …` with this place's files and no daemon.
    pub fn guard(&self, arguments: &[&str]) -> Run {
        finish(&mut self.guard_command(arguments))
    }

    pub fn guard_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.place.command(self.place.binary());
        command.arg("guard").args(arguments);
        for (option, name) in [("--config", "etc"), ("--state", "state"), ("--socket", "sock")] {
            command.arg(option).arg(self.path(name));
        }
        command
    }

    /// What `palisade guard … --json` answers, and its exit code.
    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let run = self.guard(&[arguments, &["--json"]].concat());
        (run.code, parse(&run))
    }
}

#[track_caller]
pub fn parse(run: &Run) -> Value {
    let value: Value = serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"));
    assert_eq!(value["schema"], 1, "{value}");
    value
}

/// The daemon that was built beside the command line, or is now.
fn palisaded() -> PathBuf {
    palisade_acceptance::programs::palisaded(Path::new(env!("CARGO_BIN_EXE_palisade")))
}

/// A daemon in its own mount namespace, where it watches a tmpfs that no other process has.
pub struct Guarded {
    daemon: Child,
    directory: TempDir,
    binary: PathBuf,
}

impl Guarded {
    /// Nothing where fanotify can't be had: root's, and not everywhere.
    pub fn new(rules: &str) -> Option<Self> {
        Self::trusting(rules, "")
    }

    /// With sources of trust.
    pub fn trusting(rules: &str, sources: &str) -> Option<Self> {
        if !support::is_root() || !support::has("fanotify") {
            return None;
        }
        let directory = tempfile::Builder::new().prefix("palisade-guard").tempdir_in("/var/tmp").unwrap();
        let top = directory.path();
        std::fs::set_permissions(top, PermissionsExt::from_mode(0o755)).unwrap();
        for name in ["etc/guard.d", "files"] {
            std::fs::create_dir_all(top.join(name)).unwrap();
        }
        // Where ordinary users reach it, too.
        let binary = top.join("palisade");
        std::fs::copy(env!("CARGO_BIN_EXE_palisade"), &binary).unwrap();
        let settings = format!(
            "schema = 1\n[guard]\n[guard.watch]\nonly = [\"{}\"]\n[guard.trust]\nsources = [{sources}]\n[guard.log]\nterminal = false\n",
            top.join("files").display()
        );
        std::fs::write(top.join("etc/guard.toml"), settings).unwrap();
        let script = r#"mount -t tmpfs palisade-test "$1/files" && cp /bin/true "$1/files/good" &&
            cp /bin/true "$1/files/bad" && exec "$2" --other-calls kill --config "$1/etc" --state "$1/state" --socket "$1/sock""#;
        std::fs::write(top.join("etc/guard.d/10.rules"), fill(rules, top)).unwrap();
        let log = std::fs::File::create(top.join("log")).unwrap();
        let daemon = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"])
            .arg(top)
            .arg(palisaded())
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let guarded = Self { daemon, directory, binary };
        guarded.wait_until("it answers", || {
            let run = guarded.guard(&["status", "--json"]);
            run.code < 2 && parse(&run)["watched"].as_array().is_some_and(|watched| watched.len() == 1)
        });
        Some(guarded)
    }

    pub fn top(&self) -> &Path {
        self.directory.path()
    }

    /// A file on the tmpfs.
    pub fn file(&self, name: &str) -> String {
        self.top().join("files").join(name).to_str().unwrap().to_owned()
    }

    /// Other rules in the configuration, not in force yet.
    pub fn write_rules(&self, rules: &str) {
        std::fs::write(self.top().join("etc/guard.d/10.rules"), fill(rules, self.top())).unwrap();
    }

    /// A command where the tmpfs is seen.
    pub fn inside(&self, command: &[&str]) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.arg("--mount").arg("-t").arg(self.daemon.id().to_string()).args(command);
        nsenter
    }

    /// Whether a program on the tmpfs can be executed.
    pub fn runs(&self, name: &str) -> bool {
        finish(&mut self.inside(&["sh", "-c", "exec \"$0\"", &self.file(name)])).code == 0
    }

    pub fn guard_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.inside(&[self.binary.to_str().unwrap(), "guard"]);
        command.args(arguments);
        for (option, name) in [("--config", "etc"), ("--state", "state"), ("--socket", "sock")] {
            command.arg(option).arg(self.top().join(name));
        }
        command
    }

    /// `palisade guard …` as root, where the tmpfs is seen.
    pub fn guard(&self, arguments: &[&str]) -> Run {
        finish(&mut self.guard_command(arguments))
    }

    /// The same as an ordinary user, elsewhere.
    pub fn guard_as_user(&self, arguments: &[&str]) -> Run {
        let place = support::ordinary();
        finish(&mut self.user_command(&place, arguments))
    }

    /// The same, not yet started.
    pub fn user_command(&self, place: &support::Place, arguments: &[&str]) -> Command {
        let mut command = place.command(&self.binary);
        command.arg("guard").args(arguments).arg("--socket").arg(self.top().join("sock"));
        command.arg("--config").arg(self.top().join("etc")).arg("--state").arg(self.top().join("state"));
        command
    }

    pub fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let run = self.guard(&[arguments, &["--json"]].concat());
        (run.code, parse(&run))
    }

    pub fn status(&self) -> Value {
        self.json(&["status"]).1
    }

    #[track_caller]
    pub fn wait_until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let mut patience = Patience::new(Duration::from_secs(60));
        while !holds() {
            let log = std::fs::read_to_string(self.top().join("log")).unwrap_or_default();
            assert!(!patience.is_spent(), "never: {what}\n{log}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Whether the daemon ends by itself.
    pub fn ends(&mut self) -> bool {
        let mut patience = Patience::new(Duration::from_secs(20));
        while !patience.is_spent() {
            if self.daemon.try_wait().unwrap().is_some() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }
}

fn fill(rules: &str, top: &Path) -> String {
    rules.replace("%DIR%", top.join("files").to_str().unwrap())
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let pid = i32::try_from(self.daemon.id()).ok().and_then(Pid::from_raw);
        if let (Ok(None), Some(pid)) = (self.daemon.try_wait(), pid) {
            let _gone = kill_process(pid, Signal::TERM);
            if !self.ends() {
                let _gone = self.daemon.kill();
            }
        }
        let _gone = self.daemon.wait();
    }
}
