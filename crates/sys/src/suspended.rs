// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program that its process executes only on request, so that the parent can begin to watch the process before.
//!
//! The process shares its parent's memory until then. After a fork both would copy each page that either writes to:
//! for a program of Palisade's size that takes longer than all other steps of a start.

use crate::clone::{self, Stacks};
use crate::raw;
use core::ffi::c_void;
use core::ptr::null;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::ffi::CString;
use std::rc::Rc;

/// A process waits to be told.
const WAITS: u32 = 0;
/// It is to execute its program.
const GOES: u32 = 1;

/// A process that executes a program when [`go`](Self::go) is called. Dropping this value before that kills the
/// process. Its parent must wait for its end, as for any child.
#[derive(Debug)]
pub struct SuspendedChild {
    process: i32,
    shared: Rc<Shared>,
    /// The process uses them as long as `shared.held` isn't 0.
    _stacks: Stacks,
}

/// The memory by which the two processes communicate.
#[derive(Debug)]
struct Shared {
    program: CString,
    /// Pointers to the strings below, ended by a null pointer.
    arguments: Vec<*const u8>,
    environment: Vec<*const u8>,
    _strings: [Vec<CString>; 2],
    /// The signal mask that the parent had before.
    mask: u64,
    parent: i32,
    state: AtomicU32,
    /// Not 0 while the process uses this memory.
    held: AtomicU32,
    /// Why the program couldn't be executed.
    failed: AtomicI32,
}

impl SuspendedChild {
    /// Makes a process for a program that will have these arguments and this environment. The program gets the
    /// default action for `SIGPIPE`. For other signals it gets the actions that this process has now. `meanwhile`
    /// gets the process's number and may change these actions: signals stay blocked in both processes until it has
    /// returned.
    ///
    /// # Errors
    /// As `clone(2)`.
    pub fn start<T>(
        program: CString,
        arguments: Vec<CString>,
        environment: Vec<CString>,
        meanwhile: impl FnOnce(i32) -> T,
    ) -> Result<(Self, T), Errno> {
        let list = |strings: &[CString]| -> Vec<*const u8> {
            strings.iter().map(|string| string.as_ptr().cast()).chain([null()]).collect()
        };
        let quiet = Quiet::begin()?;
        let mut stacks = Stacks::new();
        let shared = Rc::new(Shared {
            program,
            arguments: list(&arguments),
            environment: list(&environment),
            _strings: [arguments, environment],
            mask: quiet.mask,
            parent: raw::getpid(),
            state: AtomicU32::new(WAITS),
            held: AtomicU32::new(1),
            failed: AtomicI32::new(0),
        });
        let argument = Rc::as_ptr(&shared).cast_mut().cast::<c_void>();
        // SAFETY: needed for a child that shares memory. Sound: `shared`, which has the strings, and the stack stay
        // until the kernel says that the child has stopped using them, as `drop` waits for that; of `shared` both
        // sides have shared references only, and change atomics; `execute_when_told` uses raw calls only.
        let process = unsafe {
            clone::sharing_memory_noted(
                libc::SIGCHLD,
                stacks.of(0),
                execute_when_told,
                argument,
                &shared.held,
            )
        }?;
        let held = Self { process, shared, _stacks: stacks };
        let meant = meanwhile(process);
        drop(quiet);
        Ok((held, meant))
    }

    /// Its number.
    #[must_use]
    pub const fn process(&self) -> i32 {
        self.process
    }

    /// Lets it execute its program.
    pub fn go(&self) {
        self.shared.state.store(GOES, Ordering::Release);
        raw::futex_wake(&self.shared.state);
    }

    /// The error of exec, once the process has ended because of it.
    #[must_use]
    pub fn failure(&self) -> Option<Errno> {
        match self.shared.failed.load(Ordering::Acquire) {
            0 => None,
            number => Some(Errno::from_raw_os_error(number)),
        }
    }
}

impl Drop for SuspendedChild {
    fn drop(&mut self) {
        if self.shared.held.load(Ordering::Acquire) == 0 {
            return;
        }
        let _ended = raw::kill(self.process, libc::SIGKILL);
        while self.shared.held.load(Ordering::Acquire) != 0 {
            match waitpid(Pid::from_raw(self.process), WaitOptions::empty()) {
                Ok(_) | Err(Errno::INTR) => {}
                // Another waiter has reaped the process, so the process uses this memory no longer.
                Err(_nobody) => break,
            }
        }
    }
}

/// Blocks all signals as long as it lives.
struct Quiet {
    mask: u64,
}

impl Quiet {
    fn begin() -> Result<Self, Errno> {
        raw::exchange_signal_mask(u64::MAX).map(|mask| Self { mask })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _valid = raw::set_signal_mask(self.mask);
    }
}

/// The child's process.
///
/// # Safety
/// `shared` must point to a [`Shared`] that stays until this process has executed or ended.
unsafe extern "C" fn execute_when_told(shared: *mut c_void) -> ! {
    // SAFETY: needed because a child gets a pointer only. Sound: as promised by the caller.
    let shared = unsafe { &*shared.cast::<Shared>() };
    // Rust's runtime ignores SIGPIPE, and the program would inherit that.
    let _valid = raw::restore_default(libc::SIGPIPE);
    while shared.state.load(Ordering::Acquire) == WAITS {
        // The state has changed, or 10 ms are over.
        let _woken = raw::futex_wait(&shared.state, WAITS);
        if raw::getppid() != shared.parent {
            raw::exit(127);
        }
    }
    // Until exec a handler of the parent would run, on the parent's memory.
    let _valid = raw::set_signal_mask(shared.mask);
    // SAFETY: needed to execute. Sound: both lists end in a null pointer, and have C strings.
    let errno = unsafe { raw::exec(&shared.program, shared.arguments.as_ptr(), shared.environment.as_ptr()) };
    shared.failed.store(errno.raw_os_error(), Ordering::Release);
    raw::exit(127)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ffi::c_int;

    fn status(process: i32) -> c_int {
        let mut status = 0;
        // SAFETY: writes a status.
        assert_eq!(unsafe { libc::waitpid(process, &raw mut status, 0) }, process);
        status
    }

    fn strings(of: &[&str]) -> Vec<CString> {
        of.iter().map(|one| CString::new(*one).unwrap()).collect()
    }

    #[test]
    fn a_program_is_executed_when_told_with_its_arguments_environment_and_signals() {
        let script = "test \"$1 $NAME\" = 'one two' || exit 1; kill -PIPE $$; exit 2";
        let (arguments, environment) = (strings(&["sh", "-c", script, "sh", "one"]), strings(&["NAME=two"]));
        let (held, born) =
            SuspendedChild::start(c"/bin/sh".into(), arguments, environment, |process| process).unwrap();
        assert_eq!(born, held.process());
        assert_eq!(held.shared.held.load(Ordering::Acquire), 1);
        held.go();
        let status = status(held.process());
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGPIPE, "{status:#x}");
        assert_eq!(held.failure(), None);
        assert_eq!(held.shared.held.load(Ordering::Acquire), 0);
    }

    #[test]
    fn what_cannot_be_executed_is_told() {
        let (held, ()) = SuspendedChild::start(c"/no/such/program".into(), vec![], vec![], |_| ()).unwrap();
        held.go();
        assert_eq!(libc::WEXITSTATUS(status(held.process())), 127);
        assert_eq!(held.failure(), Some(Errno::NOENT));
    }

    #[test]
    fn one_that_is_never_told_is_gone() {
        let (held, process) =
            SuspendedChild::start(c"/bin/true".into(), vec![], vec![], |process| process).unwrap();
        drop(held);
        assert_eq!(raw::kill(process, 0), Err(Errno::SRCH));
    }
}
