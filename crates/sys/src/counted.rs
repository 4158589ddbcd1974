// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the system calls or the instructions of a program and all processes that it starts, by ptrace. Measuring
//! programs use it where no hardware counter is available, and where a figure must be the same each time.

use crate::raw;
use core::ffi::c_int;
use rustix::io::{Errno, Result};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

const SEIZE: usize = 0x4206;
const LISTEN: usize = 0x4208;
const CONTINUE: usize = 7;
const STEP: usize = 9;
/// `PTRACE_SYSCALL`: until the next call begins or ends.
const TO_CALL: usize = 24;
const GET_MESSAGE: usize = 0x4201;
const GET_CALL: usize = 0x420e;
/// `PTRACE_O_TRACESYSGOOD|TRACEFORK|TRACEVFORK|TRACECLONE|TRACEEXEC|EXITKILL`
const OPTIONS: usize = 1 | 2 | 4 | 8 | 0x10 | 0x10_0000;
const AT_CALL: c_int = libc::SIGTRAP | 0x80;
const EVENT_FORK: c_int = 1;
const EVENT_VFORK: c_int = 2;
const EVENT_CLONE: c_int = 3;
const EVENT_EXEC: c_int = 4;
const EVENT_STOP: c_int = 128;
/// `PTRACE_SYSCALL_INFO_ENTRY`
const ENTRY: u8 = 1;
/// `ADDR_NO_RANDOMIZE`
const NOT_RANDOM: usize = 0x0004_0000;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// System calls.
    Calls,
    /// Instructions of the first process, in user mode, by a stop after each: a hundred thousand a second at best.
    Instructions,
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// How often each system call was begun, by its number; empty where instructions are counted.
    pub calls: BTreeMap<u64, u64>,
    /// Instructions; 0 where calls are counted.
    pub instructions: u64,
    /// Processes and threads that were counted.
    pub tasks: usize,
    /// How the first one ended.
    pub status: ExitStatus,
}

/// A watched thread.
#[derive(Clone, Copy, Debug)]
struct Task {
    /// It is the first one.
    first: bool,
    /// How many programs it has executed, including those that its ancestors executed.
    executed: u32,
}

impl Task {
    /// Counts from the first executed program, which is the measured one, until the second, which the measured
    /// program executed.
    const fn counts(self) -> bool {
        self.executed == 1
    }
}

/// Runs `f` in a thread whose new programs have the same memory addresses each time.
///
/// # Errors
/// The kernel's: a container's filter may refuse the call.
pub fn at_the_same_addresses<T>(f: impl FnOnce() -> T) -> Result<T> {
    let exchange = |value: usize| {
        // SAFETY: needed because rustix has no such call. Sound: it takes a number.
        unsafe { raw::syscall(libc::SYS_personality, [value, 0, 0, 0, 0, 0]) }
    };
    let before = exchange(0xffff_ffff)?;
    exchange(before | NOT_RANDOM)?;
    let done = f();
    exchange(before)?;
    Ok(done)
}

/// Counts what the child `first` and all processes that it starts do, from the moment when `first` executes a
/// program. What happens after one of them executes another program isn't counted. `first` waits until `go` lets it
/// continue. This function calls `go` once it watches `first`. It reaps `first` and all other watched processes.
///
/// `first` must already run its own program. The spawning process may be told of the spawn before `first` has
/// executed that program, which would then be taken for the measured one.
///
/// The calling thread must have no other children, and no other code may wait for these children meanwhile.
///
/// # Errors
/// `EPERM` where ptrace isn't permitted; the error of `go`.
pub fn count(first: Pid, by: By, go: impl FnOnce() -> Result<()>) -> Result<Counted> {
    let leader = first.as_raw_nonzero().get();
    let _pinned = (by == By::Instructions).then(|| Pinned::with(first));
    ptrace(SEIZE, leader, 0, OPTIONS)?;
    go()?;
    let mut counted =
        Counted { calls: BTreeMap::new(), instructions: 0, tasks: 0, status: ExitStatus::from_raw(0) };
    let mut tasks = BTreeMap::from([(leader, Task { first: true, executed: 0 })]);
    // Children that have stopped before their parents said that they have them.
    let mut early = BTreeSet::new();
    while let Some((task, status)) = next()? {
        if !libc::WIFSTOPPED(status) {
            tasks.remove(&task);
            early.remove(&task);
            if task == leader {
                counted.status = ExitStatus::from_raw(status);
            }
            continue;
        }
        let Some(known) = tasks.get(&task).copied() else {
            early.insert(task);
            continue;
        };
        let signal = libc::WSTOPSIG(status);
        let mut deliver = 0;
        match status >> 16 {
            EVENT_EXEC => {
                // A thread that executes becomes its process's first.
                let executed = known.executed + 1;
                tasks.insert(task, Task { executed, ..known });
                counted.tasks += usize::from(executed == 1);
            }
            EVENT_FORK | EVENT_VFORK | EVENT_CLONE => {
                let child = message(task)?;
                let known = Task { first: false, ..known };
                tasks.insert(child, known);
                counted.tasks += usize::from(known.counts());
                if early.remove(&child) {
                    go_on(child, known, by, 0)?;
                }
            }
            EVENT_STOP if signal == libc::SIGTRAP => {}
            EVENT_STOP => {
                // Its process is stopped, until another process continues it.
                gone(ptrace(LISTEN, task, 0, 0))?;
                continue;
            }
            _ if signal == AT_CALL => {
                if let Some(number) = begun(task)?.filter(|_| known.counts()) {
                    *counted.calls.entry(number).or_default() += 1;
                }
            }
            _ if signal == libc::SIGTRAP && by == By::Instructions && known.first && known.counts() => {
                counted.instructions += 1;
            }
            _ => deliver = signal,
        }
        if let Some(now) = tasks.get(&task) {
            go_on(task, *now, by, deliver)?;
        }
    }
    Ok(counted)
}

/// Keeps tracer and tracee on one processor until it is dropped. Each step wakes the other one of the two, and waking a thread on
/// another processor takes longer than the step: 10.3 s instead of 3.9 s for two runs of `/bin/true`, in a virtual machine.
struct Pinned(Option<CpuSet>);

impl Pinned {
    fn with(tracee: Pid) -> Self {
        let Ok(before) = sched_getaffinity(None) else { return Self(None) };
        let mut here = CpuSet::new();
        here.set(sched_getcpu());
        // Without it stepping is slower, and counts the same.
        let _faster = sched_setaffinity(None, &here).and_then(|()| sched_setaffinity(Some(tracee), &here));
        Self(Some(before))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _back = self.0.take().map(|before| sched_setaffinity(None, &before));
    }
}

fn go_on(task: i32, how: Task, by: By, signal: c_int) -> Result<()> {
    let request = match by {
        _ if !how.counts() => CONTINUE,
        By::Calls => TO_CALL,
        By::Instructions if how.first => STEP,
        By::Instructions => CONTINUE,
    };
    gone(ptrace(request, task, 0, raw::arg(signal)))
}

/// Ignores the error of a thread that was killed meanwhile: the next wait reports its end.
fn gone(result: Result<()>) -> Result<()> {
    match result {
        Err(Errno::SRCH) => Ok(()),
        result => result,
    }
}

/// The next stop or end of a watched thread; `None` when all have ended.
fn next() -> Result<Option<(i32, c_int)>> {
    loop {
        let mut status: c_int = 0;
        let options = raw::arg(libc::__WALL | libc::__WNOTHREAD);
        // SAFETY: needed because rustix doesn't report ptrace's events. Sound: the kernel writes one int.
        let waited = unsafe {
            raw::syscall(libc::SYS_wait4, [raw::arg(-1), &raw mut status as usize, options, 0, 0, 0])
        };
        match waited {
            Ok(task) => return i32::try_from(task).map(|task| Some((task, status))).map_err(|_| Errno::SRCH),
            Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// Which call begins, at a stop for a call; `None` at its end.
fn begun(task: i32) -> Result<Option<u64>> {
    /// The head of `struct ptrace_syscall_info`, and the number of a call that begins.
    #[repr(C)]
    #[derive(Default)]
    struct Call {
        kind: u8,
        _reserved: u8,
        _flags: u16,
        _architecture: u32,
        _place: u64,
        _stack: u64,
        number: u64,
    }
    let mut call = Call::default();
    // SAFETY: needed because rustix has no ptrace. Sound: the kernel writes no more than the size that it is told.
    let read = unsafe {
        raw::syscall(
            libc::SYS_ptrace,
            [GET_CALL, raw::arg(task), size_of::<Call>(), &raw mut call as usize, 0, 0],
        )
    };
    gone(read.map(drop))?;
    Ok((call.kind == ENTRY).then_some(call.number))
}

/// The number of the process or thread that `task` has made.
fn message(task: i32) -> Result<i32> {
    let mut made: libc::c_ulong = 0;
    // SAFETY: needed because rustix has no ptrace. Sound: the kernel writes one long.
    unsafe {
        raw::syscall(libc::SYS_ptrace, [GET_MESSAGE, raw::arg(task), 0, &raw mut made as usize, 0, 0])
    }?;
    i32::try_from(made).map_err(|_| Errno::SRCH)
}

/// A request that takes numbers.
fn ptrace(request: usize, task: i32, address: usize, data: usize) -> Result<()> {
    debug_assert!([SEIZE, LISTEN, CONTINUE, STEP, TO_CALL].contains(&request));
    // SAFETY: needed because rustix has no ptrace. Sound: these requests read and write no memory.
    unsafe { raw::syscall(libc::SYS_ptrace, [request, raw::arg(task), address, data, 0, 0]) }.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    #[expect(clippy::zombie_processes, reason = "what counts is what waits")]
    fn counted(by: By, words: &[&str]) -> Counted {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        // A separate thread, so that the children of other tests aren't counted.
        std::thread::spawn(move || {
            let mut child = Command::new("/bin/sh")
                .args(["-c", "echo; read _; exec \"$@\" </dev/null >/dev/null", "sh"])
                .args(&words)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = child.stdout.take().unwrap();
            said.read_exact(&mut [0]).unwrap();
            let mut pipe = child.stdin.as_ref().unwrap();
            count(Pid::from_child(&child), by, || {
                pipe.write_all(b"\n").unwrap();
                Ok(())
            })
            .unwrap()
        })
        .join()
        .unwrap()
    }

    fn of(counted: &Counted, number: libc::c_long) -> u64 {
        counted.calls.get(&u64::try_from(number).unwrap()).copied().unwrap_or(0)
    }

    #[test]
    fn calls_are_counted_over_all_processes_up_to_the_next_program() {
        let without = counted(By::Calls, &["/bin/sh", "-c", "cd /; cd /"]);
        let with = counted(By::Calls, &["/bin/sh", "-c", "cd /; (cd /; cd /); cd /"]);
        assert!(without.status.success() && with.status.success());
        assert_eq!(of(&with, libc::SYS_chdir) - of(&without, libc::SYS_chdir), 2);
        assert_eq!((without.tasks, with.tasks), (1, 2));
        // Calls of the second program aren't counted.
        let program = counted(By::Calls, &["/bin/sh", "-c", "cd /; exec /bin/sh -c 'cd /; cd /; cd /'"]);
        assert_eq!(of(&program, libc::SYS_chdir), 1);
        assert_eq!(counted(By::Calls, &["/bin/sh", "-c", "exit 7"]).status.code(), Some(7));
    }

    #[test]
    fn instructions_are_the_same_each_time() {
        // Every instruction is a stop, so the program is a short one.
        let once = || counted(By::Instructions, &["/bin/true"]).instructions;
        let (one, other) = (once(), once());
        assert!(one > 20_000, "{one}");
        assert!(one.abs_diff(other) * 50 < one, "{one} {other}");
    }

    #[test]
    fn the_addresses_are_the_same_each_time() {
        let stack = || {
            at_the_same_addresses(|| {
                let output = Command::new("/bin/sh").args(["-c", "grep stack /proc/self/maps"]).output();
                String::from_utf8(output.unwrap().stdout).unwrap()
            })
            .unwrap()
        };
        let (one, other) = (stack(), stack());
        assert!(one.contains("[stack]"), "{one}");
        assert_eq!(one, other);
    }

    #[test]
    fn a_signal_ends_what_is_watched() {
        let killed = counted(By::Calls, &["/bin/sh", "-c", "kill -TERM $$"]);
        assert_eq!(killed.status.signal(), Some(libc::SIGTERM));
    }
}
