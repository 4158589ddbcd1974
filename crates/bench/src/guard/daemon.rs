// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A daemon that watches one bed, as long as this value exists.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use palisade_protocol::Connection;
use palisade_protocol::guard::{Request, Response};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::GuardError;
use super::bed::Bed;
use super::fapolicyd;
use super::policy::Policy;
use crate::launch::LaunchError;
use crate::workload::first_line;

/// One of the daemons takes a minute for a million trusted files.
const PATIENCE: Duration = Duration::from_secs(180);
/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(1);
const ANSWER: Duration = Duration::from_secs(10);

/// The daemon, and its mode.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    Palisaded {
        path: PathBuf,
        /// The kernel never answers by itself.
        ask_always: bool,
    },
    Fapolicyd {
        path: PathBuf,
    },
}

/// Why a daemon doesn't work as a guard.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Unguarded {
    #[error("it ended with {status}: {said}")]
    Ended { status: String, said: String },
    #[error("it wasn't ready after {} s", PATIENCE.as_secs())]
    Slow,
    #[error("it doesn't watch exactly the bench's own file system: {said}")]
    Strays { said: String },
}

/// What a daemon has used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Use {
    /// Seconds of processor time.
    pub(crate) work: f64,
    /// Bytes; shared memory counts proportionally (PSS).
    pub(crate) memory: u64,
}

/// A running daemon.
#[derive(Debug)]
pub(crate) struct Guard {
    program: Program,
    own: PathBuf,
    bed: PathBuf,
    child: Child,
    /// The time from the start until it is ready, in seconds.
    pub(crate) ready: f64,
}

impl Guard {
    /// Configures and starts a daemon with its files in `own`.
    pub(crate) fn start(
        program: &Program,
        own: &Path,
        bed: &Bed,
        policy: &Policy,
        stop: &AtomicBool,
    ) -> Result<Result<Self, Unguarded>, GuardError> {
        fs::create_dir_all(own).map_err(GuardError::prepare("create", own))?;
        match program {
            Program::Palisaded { .. } => palisaded(own, bed, policy)?,
            Program::Fapolicyd { .. } => fapolicyd::configure(own, bed, policy)?,
        }
        Self::again(program, own, bed, stop)
    }

    /// Starts a daemon that is configured and has a database from an earlier start.
    pub(crate) fn again(
        program: &Program,
        own: &Path,
        bed: &Bed,
        stop: &AtomicBool,
    ) -> Result<Result<Self, Unguarded>, GuardError> {
        let log = own.join("log");
        let said = File::create(&log).map_err(GuardError::prepare("create", &log))?;
        let named = own.join("bed");
        fs::write(&named, bed.path.as_os_str().as_encoded_bytes())
            .map_err(GuardError::prepare("write", &named))?;
        let mut command = program.command(own)?;
        let also = said.try_clone().map_err(GuardError::prepare("use", &log))?;
        command.stdin(Stdio::null()).stdout(also).stderr(said);
        let start = Instant::now();
        let child = command.spawn().map_err(GuardError::prepare("start", program.path()))?;
        let mut guard =
            Self { program: program.clone(), own: own.to_owned(), bed: bed.path.clone(), child, ready: 0.0 };
        loop {
            match guard.is_ready() {
                Some(Ok(())) => break,
                Some(Err(why)) => return Ok(Err(why)),
                None => {}
            }
            if stop.load(Ordering::Relaxed) {
                return Err(LaunchError::Stopped.into());
            }
            if let Ok(Some(status)) = guard.child.try_wait() {
                let said = last_line(&guard.said());
                return Ok(Err(Unguarded::Ended { status: status.to_string(), said }));
            }
            if start.elapsed() > PATIENCE {
                return Ok(Err(Unguarded::Slow));
            }
            sleep(TICK);
        }
        guard.ready = start.elapsed().as_secs_f64();
        Ok(Ok(guard))
    }

    fn is_ready(&self) -> Option<Result<(), Unguarded>> {
        let strays = |said: String| Err(Unguarded::Strays { said });
        match self.program {
            Program::Palisaded { .. } => match self.ask(&Request::Status)? {
                Response::Status(status) if status.watched.is_empty() => None,
                Response::Status(status)
                    if !status.watched.iter().map(Path::new).eq([self.bed.as_path()]) =>
                {
                    Some(strays(format!("it watches {:?}", status.watched)))
                }
                // It refuses nothing until it knows which files are trusted.
                Response::Status(status) => status.enforcing.then_some(Ok(())),
                _ => None,
            },
            Program::Fapolicyd { .. } => {
                let said = self.said();
                fapolicyd::watches_only(&said, &self.bed)
                    .map(|only| if only { Ok(()) } else { strays(first_line(said.as_bytes())) })
            }
        }
    }

    fn ask(&self, request: &Request) -> Option<Response> {
        let mut connection = Connection::open(&self.own.join("socket"), "palisade-bench").ok()?;
        connection.send(request).ok()?;
        connection.receive_within(Some(ANSWER)).ok()
    }

    /// What the daemon has logged so far.
    fn said(&self) -> String {
        fs::read(self.own.join("log"))
            .map(|said| String::from_utf8_lossy(&said).into_owned())
            .unwrap_or_default()
    }

    /// Whether an operation that every policy denies fails. Otherwise the denial is only logged: see [`Guard::evidence`].
    pub(crate) fn enforces(&self) -> bool {
        matches!(self.program, Program::Palisaded { .. })
    }

    /// The process whose mount namespace a load must enter.
    pub(crate) fn view(&self) -> Option<u32> {
        matches!(self.program, Program::Fapolicyd { .. }).then(|| self.child.id())
    }

    /// A counter that grows with each denial of what every policy denies.
    pub(crate) fn evidence(&self) -> u64 {
        match self.program {
            Program::Palisaded { .. } => match self.ask(&Request::Metrics { reset: false }) {
                Some(Response::Metrics(metrics)) => metrics.questions.min(metrics.denied),
                _ => 0,
            },
            Program::Fapolicyd { .. } => fapolicyd::denials(&self.said(), &self.bed) as u64,
        }
    }

    /// The number of questions so far.
    pub(crate) fn asked(&self) -> u64 {
        match self.ask(&Request::Metrics { reset: false }) {
            Some(Response::Metrics(metrics)) => metrics.questions,
            _ => 0,
        }
    }

    /// Pins all threads of the daemon to one core; without a core, to those that this process may use.
    pub(crate) fn pin(&self, core: Option<usize>) {
        let mut cores = CpuSet::new();
        match core {
            Some(core) => cores.set(core),
            None => cores = sched_getaffinity(None).unwrap_or(cores),
        }
        for pid in family(self.child.id()) {
            for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
                let task =
                    task.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
                // A thread may have ended meanwhile.
                let _ = task.map(|task| sched_setaffinity(Some(task), &cores));
            }
        }
    }

    pub(crate) fn used(&self) -> Use {
        let mut used = Use::default();
        for pid in family(self.child.id()) {
            used.work += work(pid);
            used.memory +=
                proportional(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default());
        }
        used
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // The child isn't reaped yet, so this id still belongs to it.
        let _ = kill_process(pid, Signal::TERM);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if asked.elapsed() > GRACE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            sleep(TICK);
        }
    }
}

impl Program {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Palisaded { path, .. } | Self::Fapolicyd { path } => path,
        }
    }

    /// The daemon ends with the bench, also if the bench is killed.
    fn command(&self, own: &Path) -> Result<Command, GuardError> {
        let bench = std::env::current_exe().map_err(GuardError::prepare("find", "palisade-bench"))?;
        let mut command = Command::new(bench);
        command.args(["load", "tether"]);
        match self {
            Self::Palisaded { path, ask_always } => {
                command.arg("--").arg(path);
                for (option, name) in [("--config", "config"), ("--state", "state"), ("--socket", "socket")] {
                    command.arg(option).arg(own.join(name));
                }
                command.arg("--force");
                if *ask_always {
                    command.arg("--ask-always");
                }
            }
            Self::Fapolicyd { path } => {
                command.arg("--view").arg(own).arg("--").arg(path);
                command.args(["--debug-deny", "--permissive", "--no-details"]);
            }
        }
        Ok(command)
    }
}

/// Writes palisaded's configuration.
fn palisaded(own: &Path, bed: &Bed, policy: &Policy) -> Result<(), GuardError> {
    for name in ["config/guard.d", "config/trust.d", "state"] {
        let path = own.join(name);
        fs::create_dir_all(&path).map_err(GuardError::prepare("create", &path))?;
    }
    let settings = format!(
        "schema = 1\n\n[guard]\nmode = \"enforce\"\n\n[guard.watch]\nonly = [\"{}\"]\nasked = \"open-and-execute\"\n\n\
         [guard.trust]\nsources = [\"files\"]\nintegrity = \"none\"\n",
        bed.path.display()
    );
    for (name, text) in
        [("config/guard.toml", settings), ("config/guard.d/50-bench.rules", policy.rules(&bed.path))]
    {
        let path = own.join(name);
        fs::write(&path, text).map_err(GuardError::prepare("write", &path))?;
    }
    let trust = own.join("config/trust.d/bench.trust");
    policy.write_trust(bed, &trust).map_err(GuardError::prepare("write", &trust))
}

/// A process and all processes below it.
fn family(root: u32) -> Vec<u32> {
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(parent) = parent(&fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default())
        {
            parents.insert(pid, parent);
        }
    }
    let mut all = vec![root];
    let mut next = 0;
    while let Some(&pid) = all.get(next) {
        all.extend(parents.iter().filter(|(_, parent)| **parent == pid).map(|(&child, _)| child));
        next += 1;
    }
    all
}

/// The fourth field. The second one is in parentheses and may contain any character.
fn parent(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// The processor time of all threads, to the nanosecond.
fn work(pid: u32) -> f64 {
    let nanoseconds = |task: fs::DirEntry| -> Option<f64> {
        fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(nanoseconds).sum::<f64>() / 1e9
}

fn proportional(rollup: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    line.and_then(|value| value.trim().strip_suffix(" kB")?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

fn last_line(said: &str) -> String {
    said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it says nothing").to_owned()
}

/// Finds the daemon to measure: the named one, else the one beside this program, else the one on PATH.
pub(crate) fn find(named: Option<&Path>) -> io::Result<PathBuf> {
    let executable = |path: &Path| crate::programs::on_path(&path.to_string_lossy());
    if let Some(named) = named {
        let named = named.canonicalize()?;
        return executable(&named).ok_or_else(|| io::ErrorKind::PermissionDenied.into());
    }
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join("palisaded")));
    beside
        .and_then(|path| executable(&path))
        .or_else(|| crate::programs::on_path("palisaded"))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read() {
        assert_eq!(parent("12 (a) b) R 7 12 12"), Some(7));
        assert_eq!(
            proportional("1-2 ---p 0 00:00 0 [rollup]\nRss: 9 kB\nPss:      128 kB\nPss_Dirty: 1 kB\n"),
            128 << 10
        );
        assert!(family(std::process::id()).contains(&std::process::id()));
        assert!(work(std::process::id()) > 0.0);
    }

    #[test]
    fn a_daemon_that_was_named_must_be_there() {
        assert!(find(Some(Path::new("/no/such/palisaded"))).is_err());
        assert_eq!(find(Some(Path::new("/bin/sh"))).unwrap(), Path::new("/bin/sh").canonicalize().unwrap());
    }
}
