// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A palisaded that serves scopes only, with its own settings, state, socket and pins.

use palisade_acceptance::patience::Patience;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Two ordinary users without accounts.
pub(crate) const ORDINARY: u32 = 47_210;
pub(crate) const OTHER: u32 = 47_211;
/// The longest that one command may take, in seconds.
const PATIENCE: &str = "60";

/// How a command ended.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        let status = output.status;
        Self {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Scopes that are served.
pub(crate) struct World {
    pub(crate) base: PathBuf,
    pub(crate) palisade: PathBuf,
    daemon: Option<Child>,
}

impl World {
    /// With settings, without their first line.
    pub(crate) fn new(settings: &str) -> Self {
        let mut world = Self::without_daemon(settings);
        world.start(&[]);
        world
    }

    pub(crate) fn without_daemon(settings: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let base = PathBuf::from(format!("/var/tmp/palisade-scope-{}-{number}", std::process::id()));
        for directory in ["", "config", "state", "bpf", "files"] {
            fs::create_dir(base.join(directory)).unwrap();
            fs::set_permissions(base.join(directory), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::set_permissions(base.join("files"), fs::Permissions::from_mode(0o777)).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("bpf", base.join("bpf"), "bpf", flags, None).unwrap();
        // Where ordinary users reach it.
        let palisade = base.join("palisade");
        duplicate(env!("CARGO_BIN_EXE_palisade"), &palisade);
        let world = Self { base, palisade, daemon: None };
        world.settings(settings);
        world
    }

    pub(crate) fn settings(&self, settings: &str) {
        fs::write(self.base.join("config/scopes.toml"), format!("schema = 1\n{settings}\n")).unwrap();
    }

    /// Starts the daemon, below `before` if that is something.
    pub(crate) fn start(&mut self, before: &[&str]) {
        let palisaded = palisaded();
        let words: Vec<&str> = before.iter().copied().chain([palisaded.to_str().unwrap()]).collect();
        let log = fs::OpenOptions::new().create(true).append(true).open(self.base.join("log")).unwrap();
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .args(["--only", "scopes", "--other-calls", "kill", "--config"])
            .arg(self.base.join("config"));
        command.arg("--state").arg(self.base.join("state")).arg("--socket").arg(self.base.join("guard.sock"));
        command.arg("--scope-pins").arg(self.base.join("bpf/scope")).stdin(Stdio::null()).stderr(log);
        self.daemon = Some(command.spawn().unwrap());
        let mut patience = Patience::new(Duration::from_secs(20));
        while std::os::unix::net::UnixStream::connect(self.socket()).is_err() {
            assert!(!patience.is_spent(), "no daemon\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.base.join("scope.sock")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.base.join("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    /// Sends the daemon a signal.
    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.pid().to_string()]).status().unwrap().success());
    }

    /// Sends a signal and waits until the daemon has ended.
    pub(crate) fn end(&mut self, signal: &str) {
        self.signal(signal);
        self.daemon.take().unwrap().wait().unwrap();
    }

    /// A command as the user `uid`, not yet started.
    pub(crate) fn command(&self, uid: u32, words: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.args(["-k", "1", PATIENCE]);
        if uid != 0 {
            let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
            command.args(["setpriv", &user, &group, "--clear-groups", "--"]);
        }
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("LC_ALL", "C").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.current_dir(self.base.join("files"));
        command
    }

    /// `palisade scope …`, not yet started.
    pub(crate) fn scope_command(&self, uid: u32, words: &[&str]) -> Command {
        let (palisade, socket) = (self.palisade.to_str().unwrap(), self.socket());
        let all = [&[palisade, "scope", "--socket", socket.to_str().unwrap()], words].concat();
        self.command(uid, &all)
    }

    /// `palisade scope …` as the user `uid`.
    pub(crate) fn scope_as(&self, uid: u32, words: &[&str]) -> Run {
        self.scope_command(uid, words).output().unwrap().into()
    }

    /// `palisade scope …` as root.
    pub(crate) fn scope(&self, words: &[&str]) -> Run {
        self.scope_as(0, words)
    }

    /// The output of a script in its own scope; `[killed]` if the script was killed.
    pub(crate) fn script(&self, options: &[&str], script: &str) -> Run {
        let words = [&["run", "-q"], options, &["--", "sh", "-c", script]].concat();
        self.scope(&words)
    }

    /// A Python program, in a scope of its own.
    pub(crate) fn python(&self, options: &[&str], script: &str) -> Run {
        let words = [&["run", "-q"], options, &["--", "/usr/bin/python3", "-c", script]].concat();
        self.scope(&words)
    }

    /// The answer for programs.
    #[track_caller]
    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let run = self.scope(words);
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}\n{}", self.log()))
    }

    pub(crate) fn status(&self) -> Value {
        self.json(&["status", "--json"])
    }

    /// What is remembered.
    pub(crate) fn events_as(&self, uid: u32) -> Vec<Value> {
        let run = self.scope_as(uid, &["events", "--json"]);
        assert_eq!(run.code, 0, "{run:?}");
        run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until what is remembered has what `wanted` says.
    #[track_caller]
    pub(crate) fn event(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut patience = Patience::new(Duration::from_secs(10));
        loop {
            let events = self.events_as(0);
            if let Some(event) = events.iter().find(|event| wanted(event)) {
                return event.clone();
            }
            assert!(!patience.is_spent(), "{events:#?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A copy of a program, in a directory that every user can read.
    pub(crate) fn copy(&self, from: &str, to: &str) -> PathBuf {
        let to = self.base.join("files").join(to);
        duplicate(from, &to);
        to
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _gone = daemon.kill();
            let _reaped = daemon.wait();
        }
        let _gone = rustix::mount::unmount(self.base.join("bpf"), rustix::mount::UnmountFlags::DETACH);
        if std::thread::panicking() {
            eprintln!("the daemon's last words:\n{}", self.log());
        }
        let _removed = fs::remove_dir_all(&self.base);
    }
}

/// Copies a file by another process. If this process did it, a child of another thread could inherit the open file, and
/// exec of the copy would fail.
fn duplicate(from: &str, to: &Path) {
    assert!(Command::new("cp").arg(from).arg(to).status().unwrap().success());
}

/// The daemon that was built beside the command line, or is now.
fn palisaded() -> PathBuf {
    palisade_acceptance::programs::palisaded(Path::new(env!("CARGO_BIN_EXE_palisade")))
}
