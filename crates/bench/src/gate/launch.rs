// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts what a launch from a kept plan does: the launcher, builder, init and broker stub together, up to the command's
//! first instruction, without the command itself.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use palisade_sys::counted::{self, By, Counted};
use palisade_syscall::{Arch, Syscall};
use rustix::io::Errno;
use rustix::process::Pid;

use super::GateError;
use super::baseline::{Host, Launch};
use crate::bench::Bench;
use crate::launch::LaunchError;
use crate::programs;
use crate::watchdog::Watchdog;

/// The number of launches whose calls are counted. For each call the smallest number counts, because waiting processes are
/// sometimes woken more often.
const CALLS: usize = 12;
/// Stepping through a launch takes ten seconds where each instruction causes a virtual-machine exit. It takes minutes where
/// other programs run at the same time.
const LONGEST: Duration = Duration::from_secs(600);
/// After this number of launches, the plan is kept.
const WARM: usize = 4;
/// Calls whose number depends on which process is faster: calls that a process repeats after it was woken too early, and the
/// last call of a process that may be killed with its namespace before it ends.
const UNSTEADY: [&str; 10] = [
    "exit",
    "exit_group",
    "futex",
    "poll",
    "ppoll",
    "restart_syscall",
    "rt_sigreturn",
    "sched_yield",
    "wait4",
    "waitid",
];

/// A palisade, with a home and a working directory for it.
pub(crate) struct Stage<'b> {
    bench: &'b Bench,
    palisade: PathBuf,
    home: PathBuf,
}

impl<'b> Stage<'b> {
    pub(crate) fn prepare(bench: &'b Bench, palisade: &Path) -> Result<Self, GateError> {
        let home = bench.session.scratch().join("home");
        fs::create_dir_all(&home).map_err(|source| GateError::Prepare { path: home.clone(), source })?;
        Ok(Self { bench, palisade: palisade.to_owned(), home })
    }

    /// Counts calls and instructions, for a program that was built with this profile; without a profile, only calls.
    pub(crate) fn count(&self, profile: Option<&str>) -> Result<Launch, GateError> {
        for _ in 0..WARM {
            let status = self.command().stdout(Stdio::null()).status();
            let status = status.map_err(|source| self.not_run(source))?;
            if !status.success() {
                return Err(self.fails(format!("`run -- true` ends with {status}")));
            }
        }
        let mut calls: Option<BTreeMap<u64, u64>> = None;
        for _ in 0..CALLS {
            let found = self.counted(By::Calls)?.calls;
            let fewest = calls.get_or_insert_with(|| found.clone());
            fewest.retain(|number, count| {
                *count = (*count).min(found.get(number).copied().unwrap_or(0));
                *count > 0
            });
        }
        let mut instructions = BTreeMap::new();
        if let Some(profile) = profile {
            // Count the instructions once: this takes seconds, and the addresses are the same each time.
            instructions.insert(profile.to_owned(), self.counted(By::Instructions)?.instructions);
        }
        Ok(Launch { host: self.host()?, calls: named(calls.unwrap_or_default()), instructions })
    }

    /// `palisade run -- true` in a fixed environment.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.palisade);
        self.surround(&mut command);
        command.args(["run", "--", "/bin/true"]);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .current_dir(self.bench.session.work());
    }

    fn counted(&self, by: By) -> Result<Counted, GateError> {
        if self.bench.is_stopped() {
            return Err(LaunchError::Stopped.into());
        }
        let mut command = Command::new("/bin/sh");
        self.surround(&mut command);
        // The shell announces itself and waits for a line. So the program that it executes is watched from its first
        // instruction on.
        let script = "echo; read _; exec \"$@\" </dev/null >/dev/null";
        command.args(["-c", script, "sh"]).arg(&self.palisade);
        command.args(["run", "--", "/bin/true"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (stop, limit) = (Arc::clone(self.bench.session.stop()), self.bench.options.limit().max(LONGEST));
        // In a separate thread, which has no other children.
        let watching = thread::spawn(move || watch(&mut command, by, stop, limit));
        let counted = match watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
            Ok(counted) => counted,
            Err(Unwatched::NotRun(source)) => return Err(self.not_run(source)),
            Err(Unwatched::TooLong) => return Err(self.fails("it took too long and was ended".to_owned())),
            Err(Unwatched::Refused(source)) => {
                return Err(GateError::Count { path: self.palisade.clone(), source });
            }
        };
        if self.bench.is_stopped() {
            return Err(LaunchError::Stopped.into());
        }
        if counted.status.success() {
            Ok(counted)
        } else {
            Err(self.fails(format!("`run -- true`, while it is watched, ends with {}", counted.status)))
        }
    }

    fn host(&self) -> Result<Host, GateError> {
        let read = |source| GateError::Read { path: self.palisade.clone(), source };
        let program = fs::read(&self.palisade).map_err(read)?;
        let machine = rustix::system::uname();
        let release = machine.release().to_string_lossy().into_owned();
        let root = rustix::process::geteuid().is_root();
        Ok(Host {
            architecture: std::env::consts::ARCH.to_owned(),
            kernel: release.split('.').take(2).collect::<Vec<_>>().join("."),
            user: if root { "root" } else { "ordinary" }.to_owned(),
            linkage: if has_loader(&program) { "dynamic" } else { "static" }.to_owned(),
            layout: layout(),
        })
    }

    fn not_run(&self, source: io::Error) -> GateError {
        GateError::Run { program: self.palisade.display().to_string(), source }
    }

    fn fails(&self, why: String) -> GateError {
        GateError::Fails { path: self.palisade.clone(), why }
    }
}

/// Why nothing was counted.
enum Unwatched {
    NotRun(io::Error),
    TooLong,
    Refused(Errno),
}

fn watch(
    command: &mut Command,
    by: By,
    stop: Arc<AtomicBool>,
    limit: Duration,
) -> Result<Counted, Unwatched> {
    let watchdog = Watchdog::start(stop);
    let started = counted::at_the_same_addresses(|| command.spawn());
    // A container's filter may forbid fixed addresses. Then the addresses are random.
    let started = started.unwrap_or_else(|_refused| command.spawn());
    let mut child = started.map_err(Unwatched::NotRun)?;
    let pid = Pid::from_child(&child);
    let mut pipe = child.stdin.take();
    watchdog.arm(pid, limit);
    let there = child.stdout.take().map_or(Ok(()), |mut said| said.read_exact(&mut [0]));
    there.map_err(Unwatched::NotRun)?;
    let counted = counted::count(pid, by, || {
        let told = pipe.take().map(|mut pipe| pipe.write_all(b"\n"));
        told.unwrap_or(Ok(())).map_err(|_closed| Errno::PIPE)
    });
    if watchdog.disarm() { Err(Unwatched::TooLong) } else { counted.map_err(Unwatched::Refused) }
}

/// The calls by name, without those whose number varies between launches.
fn named(calls: BTreeMap<u64, u64>) -> BTreeMap<String, u64> {
    let mut named = BTreeMap::new();
    for (number, count) in calls {
        let call =
            Syscall::all().find(|call| call.number(Arch::NATIVE).is_some_and(|own| u64::from(own) == number));
        let name = call.map_or_else(|| format!("call {number}"), |call| call.name().to_owned());
        if !UNSTEADY.contains(&name.as_str()) {
            named.insert(name, count);
        }
    }
    named
}

/// Whether an ELF file names a loader (`PT_INTERP`).
fn has_loader(program: &[u8]) -> bool {
    let number = |at: usize, size: usize| -> Option<usize> {
        let bytes = program.get(at..at + size)?;
        Some(bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
    };
    let headers =
        || -> Option<(usize, usize, usize)> { Some((number(32, 8)?, number(54, 2)?, number(56, 2)?)) };
    let Some((begin, size, count)) = headers() else { return false };
    (0..count).any(|index| number(begin + index * size, 4) == Some(3))
}

/// A digest (FNV-1a) of the names in `/`, each with its file type. What a launch must mount depends on them.
fn layout() -> String {
    let mut names: Vec<String> = fs::read_dir("/")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| {
            let kind = entry.file_type().map_or("?", |kind| if kind.is_symlink() { "l" } else { "f" });
            format!("{kind}{}\n", entry.file_name().to_string_lossy())
        })
        .collect();
    names.sort_unstable();
    let digest = names.concat().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{digest:016x}")
}

/// The path of the palisade to measure.
pub(crate) fn palisade(named: Option<&Path>) -> Result<PathBuf, GateError> {
    let variable = std::env::var_os("PALISADE_BIN").map(PathBuf::from);
    programs::palisade(named.or(variable.as_deref())).ok_or(GateError::NoPalisade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_and_unsteady_ones_are_left_out() {
        let number = |name: &str| u64::from(name.parse::<Syscall>().unwrap().number(Arch::NATIVE).unwrap());
        let calls = named(
            [(number("openat"), 3), (number("wait4"), 9), (number("exit_group"), 2), (99_999, 1)].into(),
        );
        assert_eq!(calls, [("call 99999".to_owned(), 1), ("openat".to_owned(), 3)].into());
    }

    #[test]
    fn a_loader_is_seen() {
        let shell = fs::read("/bin/sh").unwrap();
        assert!(has_loader(&shell));
        assert!(!has_loader(&shell[..100]) && !has_loader(b""));
    }
}
