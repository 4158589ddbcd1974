// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loading a seccomp filter, and asking the kernel what one does.

use rustix::fd::AsRawFd;
use rustix::io::{Errno, Result, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, WaitOptions, waitpid};
use serde::{Deserialize, Serialize};

use crate::raw;

/// One instruction of classic BPF, as `struct sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions skipped when the comparison holds.
    pub jt: u8,
    /// Instructions skipped when it doesn't.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// A filter that allows every call.
pub(crate) const ALLOW: [Instruction; 1] =
    [Instruction { code: 0x06, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW }];

/// Puts a filter on the calling thread and all that it starts; it can't be taken off.
///
/// The thread must have set [`no_new_privileges`] (or have `CAP_SYS_ADMIN` in its user namespace).
/// Doesn't allocate and touches no thread-local storage: usable between clone and exec.
///
/// # Errors
/// `INVAL` for an empty, too long or malformed program, `ACCESS` without `no_new_privileges`.
pub fn install(program: &[Instruction]) -> Result<()> {
    raw::load_filter(program, 0).map(drop)
}

/// As [`install`], by the older call: filters that hold already may refuse the newer one.
///
/// # Errors
/// As [`install`].
pub fn install_by_prctl(program: &[Instruction]) -> Result<()> {
    raw::load_filter_by_prctl(program)
}

/// As [`install`], for every thread of the process, and what they start. With `told` the kernel logs what the filter
/// refuses (audit's record SECCOMP), if `/proc/sys/kernel/seccomp/actions_logged` has `errno`.
///
/// # Errors
/// As [`install`]; `SRCH` if a thread has filters of its own: then no thread has the new one.
pub fn install_everywhere(program: &[Instruction], told: bool) -> Result<()> {
    let told = if told { libc::SECCOMP_FILTER_FLAG_LOG } else { 0 };
    // The kernel reports a thread that prevents the change by its number, not by an error.
    match raw::load_filter(program, libc::SECCOMP_FILTER_FLAG_TSYNC | told)? {
        0 => Ok(()),
        _thread => Err(Errno::SRCH),
    }
}

/// As [`install`]; returns the descriptor of the listener, closed on exec.
///
/// A call that the listener has received can be interrupted only by a signal that ends its process, so the broker
/// doesn't do its work twice.
///
/// # Errors
/// As [`install`]; `BUSY` if another filter has a listener.
pub(crate) fn install_with_listener(program: &[Instruction]) -> Result<raw::Fd> {
    let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    raw::load_filter(program, flags)
}

/// Gives up the additional rights of set-user-ID programs, for the calling thread and all that it starts.
///
/// # Errors
/// None is known; the kernel's answer is passed on.
pub fn no_new_privileges() -> Result<()> {
    rustix::thread::set_no_new_privs(true)
}

/// Whether the kernel has filters with the actions that ours use.
///
/// # Errors
/// Kernel errors except "no such call" and "no such action", such as `PERM` under another filter.
pub fn available() -> Result<bool> {
    for action in [libc::SECCOMP_RET_ALLOW, libc::SECCOMP_RET_ERRNO, libc::SECCOMP_RET_KILL_PROCESS] {
        let arguments = [libc::SECCOMP_GET_ACTION_AVAIL as usize, 0, (&raw const action) as usize, 0, 0, 0];
        // SAFETY: needed because rustix has no seccomp(2). Sound: the kernel reads 4 bytes at a live `u32`.
        let answer = unsafe { raw::syscall(libc::SYS_seccomp, arguments) };
        match answer {
            Ok(_) => {}
            Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
    Ok(true)
}

/// What became of a call that [`probe_call`] made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// It returned this.
    Returned(usize),
    /// It failed.
    Failed(Errno),
    /// The process that made it ended by this signal, or without an answer (0).
    Ended(i32),
}

/// Makes one call in a forked process that has no descriptor of ours, and tells what became of it.
///
/// For checking that a filter on the calling thread, which the fork inherits, does what it promises.
/// Choose arguments that are invalid, for the case that the call is made after all.
///
/// # Errors
/// The pipe or the fork failed.
pub fn probe_call(number: u32, arguments: [u64; 6]) -> Result<Probe> {
    #[expect(clippy::cast_possible_truncation, reason = "usize has 64 bits on the supported architectures")]
    let arguments = arguments.map(|argument| argument as usize);
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    let answer = writer.as_raw_fd();
    // clone, not clone3, which the filter to be checked may refuse.
    // SAFETY: needed because rustix can't fork. Sound: without CLONE_VM the child has memory of its own;
    // it runs only the block below, which takes no lock, doesn't allocate and doesn't return.
    let child =
        unsafe { raw::syscall(libc::SYS_clone, [libc::SIGCHLD.unsigned_abs() as usize, 0, 0, 0, 0, 0]) }?;
    if child == 0 {
        let descriptor = answer.unsigned_abs();
        let below = if descriptor == 0 { Ok(()) } else { raw::close_range(0, descriptor - 1, 0) };
        if below.and_then(|()| raw::close_range(descriptor + 1, u32::MAX, 0)).is_ok() {
            // SAFETY: needed because any call may be asked for. Sound for the caller of this function: memory that
            // the call changes is a copy, and of the descriptors only the pipe is open.
            let (failed, value) = match unsafe { raw::syscall(number.into(), arguments) } {
                Ok(value) => (0u64, value as u64),
                Err(errno) => (1, u64::from(errno.raw_os_error().unsigned_abs())),
            };
            let mut message = [0u8; 16];
            message[..8].copy_from_slice(&failed.to_ne_bytes());
            message[8..].copy_from_slice(&value.to_ne_bytes());
            // If this write fails, the parent reads nothing and reports an error.
            let _told = raw::write(answer, &message);
        }
        raw::exit(0);
    }
    drop(writer);

    let mut message = [0u8; 16];
    let read = retry_on_intr(|| rustix::io::read(&reader, &mut message));
    let child = i32::try_from(child).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
    let ended = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    if read? < message.len() {
        let signal = ended.and_then(|(_, status)| status.terminating_signal());
        return Ok(Probe::Ended(signal.unwrap_or(0)));
    }
    let (halves, _none) = message.as_chunks::<8>();
    let [failed, value] = [0, 1].map(|half| u64::from_ne_bytes(halves[half]));
    #[expect(clippy::cast_possible_truncation, reason = "written above: a usize, or an errno of 12 bits")]
    Ok(if failed == 0 {
        Probe::Returned(value as usize)
    } else {
        Probe::Failed(Errno::from_raw_os_error(value as i32))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ret(k: u32) -> Instruction {
        Instruction { code: 0x06, jt: 0, jf: 0, k }
    }

    fn number(call: libc::c_long) -> u32 {
        call.try_into().unwrap()
    }

    #[test]
    fn a_filter_holds_for_its_thread() {
        let getppid = number(libc::SYS_getppid);
        std::thread::spawn(move || {
            no_new_privileges().unwrap();
            let load = Instruction { code: 0x20, jt: 0, jf: 0, k: 0 };
            let compare = Instruction { code: 0x15, jt: 0, jf: 1, k: getppid };
            install(&[load, compare, ret(libc::SECCOMP_RET_ERRNO | 1234), ret(libc::SECCOMP_RET_ALLOW)])
                .unwrap();
            assert_eq!(probe_call(getppid, [0; 6]), Ok(Probe::Failed(Errno::from_raw_os_error(1234))));
        })
        .join()
        .unwrap();
        assert!(matches!(probe_call(getppid, [0; 6]), Ok(Probe::Returned(_))));
    }

    #[test]
    fn programs_that_the_kernel_would_refuse() {
        assert_eq!(install(&[]), Err(Errno::INVAL));
        assert_eq!(install(&vec![ret(0); 70_000]), Err(Errno::INVAL));
    }

    #[test]
    fn the_kernel_has_filters() {
        assert_eq!(available(), Ok(true));
    }

    #[test]
    fn a_probe_that_ends_is_told_from_one_that_fails() {
        assert_eq!(probe_call(number(libc::SYS_exit_group), [0; 6]), Ok(Probe::Ended(0)));
        assert_eq!(probe_call(number(libc::SYS_close), [u64::MAX; 6]), Ok(Probe::Failed(Errno::BADF)));
    }
}
