// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread of another process that is watched while it executes a program, and what is done to the program before
//! its first instruction: its vDSO is hidden, so that it has to ask the kernel for the time.
//!
//! Each tracee belongs to the thread that has seized it, and such a thread has one at a time: the kernel lets a
//! `PTRACE_SEIZE` wait for another thread's `execve`, which may itself wait for a tracee of the seizing thread to be
//! reaped.

use crate::notify;
use crate::raw;
use core::ffi::c_int;
use rustix::io::{Errno, Result};

const SEIZE: usize = 0x4206;
const INTERRUPT: usize = 0x4207;
const LISTEN: usize = 0x4208;
const CONTINUE: usize = 7;
const DETACH: usize = 17;
const GET_REGISTERS: usize = 0x4204;
/// `NT_PRSTATUS`: the general registers.
const GENERAL: usize = 1;
/// `PTRACE_O_TRACEEXEC|PTRACE_O_EXITKILL`: should the watcher end, so does what it watches.
const OPTIONS: usize = 0x10 | 0x10_0000;
const EVENT_EXEC: c_int = 4;
const EVENT_STOP: c_int = 128;

/// In the auxiliary vector: where the vDSO is.
const AT_SYSINFO_EHDR: u64 = 33;
/// The same entry, for nobody.
const AT_IGNORE: u64 = 1;

/// A thread that is watched by the calling thread. Dropped without [`detach`](Self::detach) it stays watched, and is
/// killed when the calling thread ends.
#[derive(Debug)]
pub struct Tracee {
    thread: u32,
}

/// Why a tracee has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It has executed a program, of which no instruction has run.
    Executed,
    /// It was asked to, by [`interrupt`](Tracee::interrupt), or has got a new place among stopped ones.
    Asked,
    /// Its process is stopped by this signal.
    Group(c_int),
    /// It is about to get this signal.
    Signal(c_int),
    /// It has ended.
    Ended,
}

/// Issues one ptrace request.
///
/// # Safety
/// `data` is what the kernel expects of `request`: a number, or a pointer that is valid for it.
unsafe fn ptrace(request: usize, thread: u32, address: usize, data: usize) -> Result<()> {
    // SAFETY: needed because rustix has no ptrace. Sound by the caller's promise.
    unsafe { raw::syscall(libc::SYS_ptrace, [request, thread as usize, address, data, 0, 0]) }.map(drop)
}

impl Tracee {
    /// Begins to watch a thread, which goes on: it will stop when it has executed a program. Should the calling thread
    /// end, its process is killed.
    ///
    /// # Errors
    /// `EPERM` when it may not be watched or is watched already; `ESRCH`.
    pub fn seize(thread: u32) -> Result<Self> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes numbers.
        unsafe { ptrace(SEIZE, thread, 0, OPTIONS) }?;
        Ok(Self { thread })
    }

    /// Its number; that of its process, once a thread has executed a program.
    #[must_use]
    pub const fn thread(&self) -> u32 {
        self.thread
    }

    /// Has it stop before it next returns from a system call, unless it stops before for another reason.
    ///
    /// # Errors
    /// `ESRCH`: it has been killed.
    pub fn interrupt(&self) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes nothing.
        unsafe { ptrace(INTERRUPT, self.thread, 0, 0) }
    }

    /// Lets it go on, with a signal if it is to get one.
    ///
    /// # Errors
    /// `ESRCH`: it has been killed.
    pub fn go_on(&self, signal: c_int) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes numbers.
        unsafe { ptrace(CONTINUE, self.thread, 0, raw::arg(signal)) }
    }

    /// Leaves it stopped with its process, until that goes on.
    ///
    /// # Errors
    /// `ESRCH`: it has been killed.
    pub fn stay(&self) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes nothing.
        unsafe { ptrace(LISTEN, self.thread, 0, 0) }
    }

    /// Watches it no more: it goes on, with a signal if it is to get one.
    ///
    /// # Errors
    /// `ESRCH`: it has been killed.
    pub fn detach(self, signal: c_int) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes numbers.
        unsafe { ptrace(DETACH, self.thread, 0, raw::arg(signal)) }
    }

    /// Waits until it stops or ends.
    pub fn wait(&mut self) -> Stop {
        loop {
            let mut status: c_int = 0;
            // Whoever it is now: a thread that executes a program becomes its process's first.
            let whoever = raw::arg(-1);
            let options = raw::arg(libc::__WALL | libc::__WNOTHREAD);
            // SAFETY: needed because rustix doesn't tell of ptrace's events. Sound: the kernel writes one int.
            let waited = unsafe {
                raw::syscall(libc::SYS_wait4, [whoever, &raw mut status as usize, options, 0, 0, 0])
            };
            match waited {
                Ok(thread) => self.thread = u32::try_from(thread).unwrap_or(self.thread),
                Err(Errno::INTR) => continue,
                // It was replaced by a thread of its process that has executed a program.
                Err(_nobody) => return Stop::Ended,
            }
            if !libc::WIFSTOPPED(status) {
                return Stop::Ended;
            }
            let signal = libc::WSTOPSIG(status);
            return match status >> 16 {
                EVENT_EXEC => Stop::Executed,
                EVENT_STOP if signal == libc::SIGTRAP => Stop::Asked,
                EVENT_STOP => Stop::Group(signal),
                _ => Stop::Signal(signal),
            };
        }
    }

    /// Takes the vDSO out of what a program is told that was just [executed](Stop::Executed): C libraries make system
    /// calls then. Whether there was one.
    ///
    /// # Errors
    /// `EPERM` for a program that its user may not read; `EFAULT` when its stack isn't as the kernel makes it.
    pub fn hide_vdso(&self) -> Result<bool> {
        // On the stack: the number of arguments; the arguments and the environment, each ended by a null pointer; pairs.
        let (mut at, mut nulls, mut key) = (self.stack()? + 8, 0, None);
        let mut bytes = [0u8; 4096];
        loop {
            let read = notify::read_memory(self.thread, at, &mut bytes)?;
            let (words, _rest) = bytes[..read].as_chunks::<8>();
            if words.is_empty() {
                return Err(Errno::FAULT);
            }
            for (word, place) in words.iter().zip((at..).step_by(8)) {
                let word = u64::from_ne_bytes(*word);
                match key {
                    _ if nulls < 2 => nulls += u32::from(word == 0),
                    None => key = Some(word),
                    Some(AT_SYSINFO_EHDR) => {
                        let written = notify::write_memory(self.thread, place - 8, &AT_IGNORE.to_ne_bytes())?;
                        return if written == 8 { Ok(true) } else { Err(Errno::FAULT) };
                    }
                    Some(0) => return Ok(false),
                    Some(_) => key = None,
                }
            }
            at += 8 * words.len() as u64;
        }
    }

    /// Its stack pointer.
    fn stack(&self) -> Result<u64> {
        let mut registers = core::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
        let mut place = libc::iovec {
            iov_base: registers.as_mut_ptr().cast(),
            iov_len: size_of::<libc::user_regs_struct>(),
        };
        // SAFETY: needed, see `ptrace`. Sound: the kernel writes at most `iov_len` bytes to `registers`, and the length
        // to `place`.
        unsafe { ptrace(GET_REGISTERS, self.thread, GENERAL, &raw mut place as usize) }?;
        // SAFETY: needed to look at what the kernel wrote. Sound: all bits are zeroed, or written, and any are valid.
        let registers = unsafe { registers.assume_init() };
        #[cfg(target_arch = "x86_64")]
        return Ok(registers.rsp);
        #[cfg(target_arch = "aarch64")]
        return Ok(registers.sp);
    }
}
