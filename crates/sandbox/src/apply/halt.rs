// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stops every process inside while the user is asked a question.
//!
//! Every process inside descends from init or from the command, because the kernel gives orphans of a PID namespace to
//! the namespace's init. The broker and the other helper processes of a launch are children of the launcher, and
//! continue.
//!
//! The signal is `SIGSTOP`, sent in rounds. A process with a pending `SIGSTOP` runs no more code of its own, and its
//! `fork(2)` fails. So the next round finds only children of processes that the last round had not reached.
//! `cgroup.freeze` does not work here: a thread whose call the broker has received sleeps killably
//! (`SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV`), and its group never becomes frozen.

use crate::apply::start::Running;
use palisade_sys::wait;
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// For this many rounds a process gets no signal until its parent has stopped. A shell inside must not see its children
/// stop, because it would treat them as stopped jobs.
const PARENTS_FIRST: u32 = 32;
/// How long a round waits for the processes that got the signal.
const ROUND: Duration = Duration::from_millis(1);
/// Two rounds in a row must find no running process: one round alone can miss a process that is created while it runs.
const STILL_ROUNDS: u32 = 2;

const STOP: i32 = 19;
const CONT: i32 = 18;

/// Why not every process inside is stopped.
#[derive(Debug, thiserror::Error)]
pub enum HaltError {
    /// There is no PID namespace: some processes inside may not descend from the command.
    #[error("without a PID namespace the processes inside aren't known")]
    Unknown,
    /// Some still ran when the time was up.
    #[error("the processes inside can't be stopped in time; {0} still run")]
    Moving(usize),
    /// The process file system can't be read.
    #[error("the processes inside can't be listed: {0}")]
    List(#[from] Errno),
}

/// Processes that are stopped until this is dropped. Processes that were stopped before stay stopped.
#[derive(Debug)]
pub struct Halted {
    /// The processes that got the signal, in that order.
    stopped: Vec<Process>,
    /// The same processes, by number and time of birth.
    known: BTreeSet<(i32, u64)>,
}

/// Stops every process inside, until `deadline` at the latest.
///
/// # Errors
/// When some can't be stopped in time; then all go on.
pub fn halt(running: Running, deadline: Instant) -> Result<Halted, HaltError> {
    let init = running.init.ok_or(HaltError::Unknown)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut halted = Halted { stopped: Vec::new(), known: BTreeSet::new() };
    let mut still = 0;
    for round in 0.. {
        // Opened again each round: a directory that was read to its end would have to be rewound.
        let proc = rustix::fs::open("/proc", flags, Mode::empty())?;
        let found = Found::list(&proc)?;
        let inside = found.below([init, running.pid]);
        let moving = inside.iter().filter(|process| process.state == State::Moving).count();
        still = if moving == 0 && found.complete { still + 1 } else { 0 };
        if still == STILL_ROUNDS {
            return Ok(halted);
        }
        if Instant::now() >= deadline {
            return Err(HaltError::Moving(moving));
        }
        let is_moving = |process: &&Process| process.state == State::Moving;
        let moving_now: BTreeSet<i32> = inside.iter().filter(is_moving).map(|process| process.pid).collect();
        for process in &inside {
            let send = match process.state {
                State::Moving => round >= PARENTS_FIRST || !moving_now.contains(&process.parent),
                // It stops as soon as it wakes up.
                State::Waiting => true,
                // The launcher stops when its command stops. If it hasn't yet, the command has stopped in this moment.
                State::Stopped => process.pid == running.pid,
            };
            if send
                && wait::send(process.pid, STOP).is_ok()
                && halted.known.insert((process.pid, process.born))
            {
                halted.stopped.push(*process);
            }
        }
        if moving > 0 {
            std::thread::sleep(ROUND);
        }
    }
    Ok(halted)
}

impl Drop for Halted {
    fn drop(&mut self) {
        let Ok(proc) = rustix::fs::open("/proc", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else {
            return;
        };
        // Continue children before their parents, and traced processes before their tracers: no process may see another
        // one stopped.
        for process in self.stopped.iter().rev() {
            // The number may belong to another process by now.
            if Process::read(&proc, &process.pid.to_string()) == Ok(*process) {
                let _ended_meanwhile = wait::send(process.pid, CONT);
            }
        }
    }
}

/// Whether a process can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It may run code of its own.
    Moving,
    /// Some of its threads wait in the kernel, where no signal but `SIGKILL` wakes them; the others are stopped.
    Waiting,
    /// All of its threads are stopped, or dead.
    Stopped,
}

/// A process, known by its number and the time of its birth.
#[derive(Clone, Copy, Debug)]
struct Process {
    pid: i32,
    parent: i32,
    born: u64,
    state: State,
}

impl PartialEq for Process {
    fn eq(&self, other: &Self) -> bool {
        (self.pid, self.born) == (other.pid, other.born)
    }
}

/// Of a process or thread, what its `stat` says; see proc(5).
struct Stat {
    state: State,
    parent: i32,
    threads: u64,
    born: u64,
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Self> {
        // The name comes before these fields. The process chooses it, and it may contain parentheses.
        let end = text.iter().rposition(|byte| *byte == b')')?;
        let text = std::str::from_utf8(text.get(end + 1..)?).ok()?;
        let mut fields = text.split_ascii_whitespace();
        let state = match fields.next()? {
            "T" | "t" | "Z" | "X" => State::Stopped,
            "D" => State::Waiting,
            _ => State::Moving,
        };
        let parent = fields.next()?.parse().ok()?;
        let threads = fields.nth(15)?.parse().ok()?;
        let born = fields.nth(1)?.parse().ok()?;
        Some(Self { state, parent, threads, born })
    }

    fn read(directory: impl AsFd, name: &str) -> Result<Self, Errno> {
        let file = rustix::fs::openat(directory, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        // Large enough for the fields that are read, which come first.
        let mut text = [0u8; 1024];
        let length = rustix::io::read(&file, &mut text)?;
        Self::parse(text.get(..length).unwrap_or_default()).ok_or(Errno::INVAL)
    }
}

impl Process {
    fn read(proc: impl AsFd, number: &str) -> Result<Self, Errno> {
        let pid = number.parse().map_err(|_no_number| Errno::INVAL)?;
        let Stat { state, parent, born, .. } = Stat::read(proc, &format!("{number}/stat"))?;
        Ok(Self { pid, parent, born, state })
    }

    /// As [`read`](Self::read). If the process has several threads, the most active one decides.
    fn read_threads(proc: &OwnedFd, number: &str) -> Result<Self, Errno> {
        let pid = number.parse().map_err(|_no_number| Errno::INVAL)?;
        let Stat { mut state, parent, threads, born } = Stat::read(proc, &format!("{number}/stat"))?;
        if threads > 1 {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let tasks = rustix::fs::openat(proc, format!("{number}/task"), flags, Mode::empty())?;
            each(&tasks, |thread| {
                match (Stat::read(&tasks, &format!("{thread}/stat")).map(|stat| stat.state), state) {
                    (Ok(State::Stopped) | Err(_), _) | (_, State::Moving) => {}
                    (Ok(other), _) => state = other,
                }
            })?;
        }
        Ok(Self { pid, parent, born, state })
    }
}

/// Calls `with` with each number that names an entry of a directory of processes or threads.
fn each(directory: &OwnedFd, mut with: impl FnMut(&str)) -> Result<(), Errno> {
    // Small, so that each listed process is examined before it can end.
    let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 256];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if let Ok(name) = entry.file_name().to_str()
            && name.bytes().all(|byte| byte.is_ascii_digit())
        {
            with(name);
        }
    }
    Ok(())
}

/// The processes of this host at one time.
struct Found {
    processes: BTreeMap<i32, Process>,
    /// No process can be missing. One can be missing if it ended after it was listed and before it was examined, or if
    /// it ended before it was listed and after its child was listed. The child then has the smaller number, because
    /// numbers started again.
    complete: bool,
}

impl Found {
    fn list(proc: &OwnedFd) -> Result<Self, Errno> {
        let mut found = Self { processes: BTreeMap::new(), complete: true };
        each(proc, |number| match Process::read_threads(proc, number) {
            Ok(process) => drop(found.processes.insert(process.pid, process)),
            // Processes of other users may be unreadable (`hidepid`). Processes inside are the launcher's own.
            Err(Errno::ACCESS | Errno::PERM) => {}
            Err(_ended) => found.complete = false,
        })?;
        let lost = |child: &Process| child.parent > child.pid && !found.processes.contains_key(&child.parent);
        found.complete &= !found.processes.values().any(lost);
        Ok(found)
    }

    /// The processes below one of the roots, and the second root. Parents come before children, unless numbers started
    /// again.
    fn below(&self, [init, command]: [i32; 2]) -> Vec<Process> {
        let is_below = |process: &&Process| {
            let mut process = *process;
            // A line of ancestors is not longer than the number of processes.
            for _ancestor in 0..=self.processes.len() {
                if process.pid == command || process.parent == init {
                    return true;
                }
                match self.processes.get(&process.parent) {
                    Some(parent) => process = parent,
                    None => return false,
                }
            }
            false
        };
        self.processes.values().filter(|process| process.pid != init).filter(is_below).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_name_cannot_lie_about_the_state() {
        let text = b"7 (x) T 1 () R 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 4 0 9876 1 1\n";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.threads, stat.born), (State::Moving, 3, 4, 9876));
        let text = b"7 (sleep) t 3 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 5 1 1\n";
        assert_eq!(Stat::parse(text).unwrap().state, State::Stopped);
        assert!(Stat::parse(b"7 (sleep) t 3").is_none());
    }

    #[test]
    fn what_is_inside_descends_from_init_or_the_command() {
        let of = |&(pid, parent): &(i32, i32)| (pid, Process { pid, parent, born: 1, state: State::Moving });
        let lines = [(1, 0), (5, 1), (10, 5), (11, 5), (12, 11), (13, 10), (14, 13), (15, 5), (16, 99)];
        let found = Found { processes: lines.iter().map(of).collect(), complete: true };
        let inside: Vec<_> = found.below([10, 11]).iter().map(|process| process.pid).collect();
        // Not init itself, nor another child of the launcher, such as the broker.
        assert_eq!(inside, [11, 12, 13, 14]);
    }

    /// A shell is init in this test. Its children are a tree of two levels, and one of them was stopped before.
    #[test]
    fn all_are_stopped_and_those_go_on_that_ran() {
        let line = "sleep 600 & echo $!; sh -c 'sleep 600 & echo $!; wait' & echo $!; wait";
        let mut shell = Command::new("sh").args(["-c", line]).stdout(Stdio::piped()).spawn().unwrap();
        let numbers = std::io::BufRead::lines(std::io::BufReader::new(shell.stdout.take().unwrap()));
        let numbers: Vec<i32> = numbers.take(3).map(|line| line.unwrap().parse().unwrap()).collect();
        let state = |pid: &i32| {
            let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
            text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        let init = i32::try_from(shell.id()).unwrap();
        wait::send(numbers[0], STOP).unwrap();
        while state(&numbers[0]) != 'T' {
            std::thread::yield_now();
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        let halted = halt(Running { pid: init, init: Some(init) }, deadline).unwrap();
        assert!(numbers.iter().all(|pid| state(pid) == 'T'));
        drop(halted);
        assert_eq!(state(&numbers[0]), 'T');
        assert!(numbers[1..].iter().all(|pid| state(pid) != 'T'));
        // If no time is left, `halt` fails and leaves no process stopped.
        let error = halt(Running { pid: init, init: Some(init) }, Instant::now()).unwrap_err();
        assert!(matches!(error, HaltError::Moving(1..)), "{error}");
        assert!(numbers[1..].iter().all(|pid| state(pid) != 'T'));
        assert!(matches!(halt(Running { pid: init, init: None }, deadline), Err(HaltError::Unknown)));
        // The inner shell is the last one, and ends with its child.
        for pid in numbers {
            let _ended_by_itself = wait::send(pid, 9);
        }
        shell.kill().unwrap();
        shell.wait().unwrap();
    }
}
