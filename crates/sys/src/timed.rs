// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Executes a program and reads the clock directly before `execve`.
//!
//! A parent that times `execve` also times the making of the process, which takes longer.

use crate::clone::{self, Stacks};
use crate::raw;
use core::ffi::{CStr, c_void};
use core::ptr::null;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::time::Duration;

/// A running program. The caller must wait for it.
#[derive(Debug, Clone, Copy)]
pub struct Executed {
    /// Its process.
    pub pid: Pid,
    /// `CLOCK_MONOTONIC` in its process, directly before `execve`.
    pub before: Duration,
}

struct Shared<'a> {
    program: &'a CStr,
    before: u64,
    failed: Option<Errno>,
}

/// Executes `program` in a new process, with its own name as the only argument and without variables. This thread
/// sleeps until the exec.
///
/// # Errors
/// As `clone3(2)` and `execve(2)`. If exec fails, no process is left.
pub fn execute(program: &CStr) -> Result<Executed, Errno> {
    let mut shared = Shared { program, before: 0, failed: None };
    let mut stacks = Stacks::new();
    let argument: *mut c_void = (&raw mut shared).cast();
    // SAFETY: needed for a child that shares memory, as `vfork` makes one: copying this process's would be most of
    // what is measured. Sound: `shared` and the stack outlive the child's use of them because VFORK suspends this
    // thread until exec or exit, and `become_program` uses raw calls only.
    let pid = unsafe {
        clone::sharing_memory(libc::CLONE_VFORK, libc::SIGCHLD, stacks.of(0), become_program, argument)
    }?;
    let pid = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    if let Some(errno) = shared.failed {
        while let Err(Errno::INTR) = waitpid(Some(pid), WaitOptions::empty()) {}
        return Err(errno);
    }
    Ok(Executed { pid, before: Duration::from_nanos(shared.before) })
}

/// The child's process.
///
/// # Safety
/// `shared` must point to a [`Shared`] that no other process touches until this process has executed or ended.
unsafe extern "C" fn become_program(shared: *mut c_void) -> ! {
    // SAFETY: needed because a child gets a pointer only. Sound: as promised by the caller.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    let name = shared.program.as_ptr().cast::<u8>();
    let (arguments, environment) = ([name, null()], [null()]);
    shared.before = raw::now();
    // SAFETY: needed to execute. Sound: both arrays end in a null pointer, and the name is a C string.
    let errno = unsafe { raw::exec(shared.program, arguments.as_ptr(), environment.as_ptr()) };
    shared.failed = Some(errno);
    raw::exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::time::{ClockId, clock_gettime};

    #[test]
    fn the_clock_is_read_between_the_call_and_the_program() {
        let now = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let start = now();
        let executed = execute(c"/bin/false").unwrap();
        assert!(start <= executed.before && executed.before <= now());
        let (_pid, status) = waitpid(Some(executed.pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(1));
    }

    #[test]
    fn what_cannot_be_executed_is_an_error() {
        assert_eq!(execute(c"/no/such/program").unwrap_err(), Errno::NOENT);
        assert_eq!(execute(c"/").unwrap_err(), Errno::ACCESS);
    }
}
