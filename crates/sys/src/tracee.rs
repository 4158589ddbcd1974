// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches a thread of another process by ptrace while it executes a program, and hides the program's vDSO before its
//! first instruction, so that the program has to ask the kernel for the time. It can also make a thread make a call
//! with other arguments.
//!
//! Each tracee belongs to the thread that has seized it, and such a thread has one tracee at a time. The kernel lets
//! a `PTRACE_SEIZE` wait for another thread's `execve`, which may itself wait until a tracee of the seizing thread is
//! reaped.

use crate::notify;
use crate::raw;
use core::ffi::c_int;
use rustix::io::{Errno, Result};

const SEIZE: usize = 0x4206;
const INTERRUPT: usize = 0x4207;
const LISTEN: usize = 0x4208;
const CONTINUE: usize = 7;
/// `PTRACE_SYSCALL`: until the next call begins or ends.
const TO_CALL: usize = 24;
const GET_MASK: usize = 0x420a;
const SET_MASK: usize = 0x420b;
const SET_REGISTERS: usize = 0x4205;
const DETACH: usize = 17;
const GET_REGISTERS: usize = 0x4204;
/// `NT_PRSTATUS`: the general registers.
const GENERAL: usize = 1;
/// `PTRACE_O_TRACESYSGOOD|PTRACE_O_TRACEEXEC|PTRACE_O_EXITKILL`: if the tracer ends, the kernel kills the tracees.
const OPTIONS: usize = 1 | 0x10 | 0x10_0000;
/// What a stop at a call looks like with the first of them.
const AT_CALL: c_int = libc::SIGTRAP | 0x80;
const EVENT_EXEC: c_int = 4;
const EVENT_STOP: c_int = 128;

/// In the auxiliary vector: where the vDSO is.
const AT_SYSINFO_EHDR: u64 = 33;
/// The key by which a program ignores the entry.
const AT_IGNORE: u64 = 1;

/// A thread that the calling thread watches. If it is dropped without [`detach`](Self::detach), it stays watched, and
/// is killed when the calling thread ends.
#[derive(Debug)]
pub struct Tracee {
    thread: u32,
}

/// Why a tracee has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It has executed a program, of which no instruction has run.
    Executed,
    /// [`interrupt`](Tracee::interrupt) has stopped it, or the state of its group stop has changed.
    Asked,
    /// Its process is stopped by this signal.
    Group(c_int),
    /// A call begins, or ends.
    Call,
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
    /// Begins to watch a thread, which continues. The thread will stop when it has executed a program. If the calling
    /// thread ends, the kernel kills the thread's process.
    ///
    /// # Errors
    /// `EPERM` when it may not be watched or is watched already; `ESRCH`.
    pub fn seize(thread: u32) -> Result<Self> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes numbers.
        unsafe { ptrace(SEIZE, thread, 0, OPTIONS) }?;
        Ok(Self { thread })
    }

    /// The thread's number. Once a thread has executed a program, this is its process's number.
    #[must_use]
    pub const fn thread(&self) -> u32 {
        self.thread
    }

    /// Makes the thread stop before it next returns from a system call, unless it stops before for another reason.
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

    /// Leaves the thread stopped with its process, until the process is continued.
    ///
    /// # Errors
    /// `ESRCH`: it has been killed.
    pub fn stay(&self) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: this request takes nothing.
        unsafe { ptrace(LISTEN, self.thread, 0, 0) }
    }

    /// Stops watching the thread: it continues, with a signal if it is to get one.
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
            // Any tracee of this thread: a thread that executes a program takes the number of its process's first
            // thread.
            let whoever = raw::arg(-1);
            let options = raw::arg(libc::__WALL | libc::__WNOTHREAD);
            // SAFETY: needed because rustix doesn't tell of ptrace's events. Sound: the kernel writes one int.
            let waited = unsafe {
                raw::syscall(libc::SYS_wait4, [whoever, &raw mut status as usize, options, 0, 0, 0])
            };
            match waited {
                Ok(thread) => self.thread = u32::try_from(thread).unwrap_or(self.thread),
                Err(Errno::INTR) => continue,
                // It was replaced by another thread of its process, which has executed a program.
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
                _ if signal == AT_CALL => Stop::Call,
                _ => Stop::Signal(signal),
            };
        }
    }

    /// Removes the vDSO from the auxiliary vector of a program that was just [executed](Stop::Executed), so that C
    /// libraries make system calls. Returns whether there was one.
    ///
    /// # Errors
    /// `EPERM` for a program that its user may not read; `EFAULT` when its stack isn't as the kernel makes it.
    pub fn hide_vdso(&self) -> Result<bool> {
        // On the stack: the number of arguments; the arguments and the environment, each ended by a null pointer; pairs.
        let (mut at, mut nulls, mut key) = (stack(&self.registers()?) + 8, 0, None);
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

    /// Makes the thread make another call when it is [about to return from one](Self::interrupt). The thread returns
    /// from the second call instead. `data` is written to free space of its stack, and its address becomes argument
    /// `index`.
    ///
    /// # Errors
    /// `EFAULT` without room below its stack, `ESRCH`. The interrupted call is unchanged then.
    pub fn call(&mut self, number: u64, arguments: [u64; 6], data: &[u8], index: usize) -> Result<()> {
        let before = self.registers()?;
        let place = (stack(&before) - RED_ZONE - data.len() as u64) & !15;
        if notify::write_memory(self.thread, place, data)? != data.len() {
            return Err(Errno::FAULT);
        }
        let mut arguments = arguments;
        if let Some(argument) = arguments.get_mut(index) {
            *argument = place;
        }
        // A signal handler would run with these registers.
        let mask = self.mask()?;
        self.set_mask(u64::MAX)?;
        let made = self.set_registers(&calling(before, number, arguments)).and_then(|()| self.until_made());
        let after = match &made {
            Ok((value, _)) => returning(before, *value),
            Err(_) => before,
        };
        self.set_registers(&after)?;
        self.set_mask(mask)?;
        if let Ok((_, Some(signal))) = made {
            // It is stopped in any case, and gets the signal when it continues.
            self.send(signal)?;
        }
        made.map(drop)
    }

    /// Waits until a call has been made. Returns its result, and a signal that came meanwhile although all are
    /// blocked.
    fn until_made(&mut self) -> Result<(u64, Option<c_int>)> {
        let (mut begun, mut signal) = (false, None);
        loop {
            // SAFETY: needed, see `ptrace`. Sound: this request takes numbers.
            unsafe { ptrace(TO_CALL, self.thread, 0, 0) }?;
            match self.wait() {
                Stop::Call if begun => return Ok((returned(&self.registers()?), signal)),
                Stop::Call => begun = true,
                Stop::Signal(came) => signal = Some(came),
                Stop::Asked | Stop::Group(_) => {}
                Stop::Executed | Stop::Ended => return Err(Errno::SRCH),
            }
        }
    }

    fn send(&self, signal: c_int) -> Result<()> {
        // SAFETY: needed because rustix sends no signals to threads. Sound: this call takes numbers.
        unsafe { raw::syscall(libc::SYS_tkill, [self.thread as usize, raw::arg(signal), 0, 0, 0, 0]) }
            .map(drop)
    }

    fn mask(&self) -> Result<u64> {
        let mut mask = 0u64;
        // SAFETY: needed, see `ptrace`. Sound: the kernel writes the eight bytes that it is told of.
        unsafe { ptrace(GET_MASK, self.thread, size_of::<u64>(), &raw mut mask as usize) }?;
        Ok(mask)
    }

    fn set_mask(&self, mask: u64) -> Result<()> {
        // SAFETY: needed, see `ptrace`. Sound: the kernel reads the eight bytes that it is told of.
        unsafe { ptrace(SET_MASK, self.thread, size_of::<u64>(), &raw const mask as usize) }
    }

    fn registers(&self) -> Result<Registers> {
        let mut registers = core::mem::MaybeUninit::<Registers>::zeroed();
        let mut place =
            libc::iovec { iov_base: registers.as_mut_ptr().cast(), iov_len: size_of::<Registers>() };
        // SAFETY: needed, see `ptrace`. Sound: the kernel writes at most `iov_len` bytes to `registers`, and the length
        // to `place`.
        unsafe { ptrace(GET_REGISTERS, self.thread, GENERAL, &raw mut place as usize) }?;
        // SAFETY: needed to look at what the kernel wrote. Sound: all bits are zeroed or written, and any are valid.
        Ok(unsafe { registers.assume_init() })
    }

    fn set_registers(&self, registers: &Registers) -> Result<()> {
        let mut place = libc::iovec {
            iov_base: core::ptr::from_ref(registers).cast_mut().cast(),
            iov_len: size_of::<Registers>(),
        };
        // SAFETY: needed, see `ptrace`. Sound: the kernel only reads `registers`, and writes the length to `place`.
        unsafe { ptrace(SET_REGISTERS, self.thread, GENERAL, &raw mut place as usize) }
    }
}

use libc::user_regs_struct as Registers;

/// Below its stack pointer a function may store local data.
const RED_ZONE: u64 = 128;

#[cfg(target_arch = "x86_64")]
const fn stack(registers: &Registers) -> u64 {
    registers.rsp
}

/// Changes the registers so that a thread which returns from a call makes another call.
#[cfg(target_arch = "x86_64")]
const fn calling(mut registers: Registers, number: u64, arguments: [u64; 6]) -> Registers {
    // The instruction `syscall` has two bytes. The interrupted call must not be restarted.
    (registers.rip, registers.rax, registers.orig_rax) = (registers.rip - 2, number, u64::MAX);
    [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
    registers
}

#[cfg(target_arch = "x86_64")]
const fn returned(registers: &Registers) -> u64 {
    registers.rax
}

#[cfg(target_arch = "x86_64")]
const fn returning(mut registers: Registers, value: u64) -> Registers {
    registers.rax = value;
    registers
}

#[cfg(target_arch = "aarch64")]
const fn stack(registers: &Registers) -> u64 {
    registers.sp
}

/// Changes the registers so that a thread which returns from a call makes another call.
#[cfg(target_arch = "aarch64")]
const fn calling(mut registers: Registers, number: u64, arguments: [u64; 6]) -> Registers {
    // The instruction `svc` has four bytes.
    registers.pc -= 4;
    registers.regs[8] = number;
    [
        registers.regs[0],
        registers.regs[1],
        registers.regs[2],
        registers.regs[3],
        registers.regs[4],
        registers.regs[5],
    ] = arguments;
    registers
}

#[cfg(target_arch = "aarch64")]
const fn returned(registers: &Registers) -> u64 {
    registers.regs[0]
}

#[cfg(target_arch = "aarch64")]
const fn returning(mut registers: Registers, value: u64) -> Registers {
    registers.regs[0] = value;
    registers
}
