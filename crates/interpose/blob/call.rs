// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls made from the mapped code. They don't trap.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

/// Numbers of calls, as in `asm/unistd_64.h`.
pub(crate) mod number {
    pub(crate) const READ: u64 = 0;
    pub(crate) const CLOSE: u64 = 3;
    pub(crate) const MMAP: u64 = 9;
    pub(crate) const MPROTECT: u64 = 10;
    pub(crate) const MUNMAP: u64 = 11;
    pub(crate) const RT_SIGACTION: u64 = 13;
    pub(crate) const RT_SIGPROCMASK: u64 = 14;
    pub(crate) const RT_SIGRETURN: u64 = 15;
    pub(crate) const IOCTL: u64 = 16;
    pub(crate) const SHMAT: u64 = 30;
    pub(crate) const GETPID: u64 = 39;
    pub(crate) const CLONE: u64 = 56;
    pub(crate) const FORK: u64 = 57;
    pub(crate) const VFORK: u64 = 58;
    pub(crate) const EXECVE: u64 = 59;
    pub(crate) const EXIT: u64 = 60;
    pub(crate) const KILL: u64 = 62;
    pub(crate) const RT_SIGSUSPEND: u64 = 130;
    pub(crate) const UNAME: u64 = 63;
    pub(crate) const GETTIMEOFDAY: u64 = 96;
    pub(crate) const TIME: u64 = 201;
    pub(crate) const SCHED_GETAFFINITY: u64 = 204;
    pub(crate) const CLOCK_GETTIME: u64 = 228;
    pub(crate) const PRCTL: u64 = 157;
    pub(crate) const PTRACE: u64 = 101;
    pub(crate) const GETTID: u64 = 186;
    pub(crate) const FUTEX: u64 = 202;
    pub(crate) const TIMER_SETTIME: u64 = 223;
    pub(crate) const CLOCK_NANOSLEEP: u64 = 230;
    pub(crate) const MQ_TIMEDSEND: u64 = 242;
    pub(crate) const MQ_TIMEDRECEIVE: u64 = 243;
    pub(crate) const TIMERFD_SETTIME: u64 = 286;
    pub(crate) const FUTEX_WAITV: u64 = 449;
    pub(crate) const FUTEX_WAIT: u64 = 455;
    pub(crate) const EXIT_GROUP: u64 = 231;
    pub(crate) const OPENAT: u64 = 257;
    pub(crate) const TGKILL: u64 = 234;
    pub(crate) const PSELECT6: u64 = 270;
    pub(crate) const PPOLL: u64 = 271;
    pub(crate) const EPOLL_PWAIT: u64 = 281;
    pub(crate) const RT_SIGPENDING: u64 = 127;
    pub(crate) const RT_TGSIGQUEUEINFO: u64 = 297;
    pub(crate) const IO_PGETEVENTS: u64 = 333;
    pub(crate) const IO_URING_ENTER: u64 = 426;
    pub(crate) const SECCOMP: u64 = 317;
    pub(crate) const EXECVEAT: u64 = 322;
    pub(crate) const MEMBARRIER: u64 = 324;
    pub(crate) const CLONE3: u64 = 435;
    pub(crate) const EPOLL_PWAIT2: u64 = 441;
}

/// Makes a call; returns what the kernel leaves in `rax`.
///
/// # Safety
///
/// What the call itself requires.
pub(crate) unsafe fn raw(number: u64, a: [u64; 6]) -> i64 {
    let result: i64;
    // SAFETY: the kernel keeps all registers but these; the caller promises that the call is sound.
    unsafe {
        asm!("syscall", inlateout("rax") number as i64 => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
             in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a call with up to three arguments.
///
/// # Safety
///
/// What the call itself requires.
pub(crate) unsafe fn call(number: u64, a: u64, b: u64, c: u64) -> i64 {
    // SAFETY: needed: `raw` is unsafe. Sound: the caller promises that the call with these arguments is; the other three are 0,
    // which the calls made through this function ignore.
    unsafe { raw(number, [a, b, c, 0, 0, 0]) }
}

/// Whether a result is an error.
pub(crate) fn is_error(result: i64) -> bool {
    (-4095..0).contains(&result)
}

/// The number of this process.
pub(crate) fn process() -> u32 {
    // SAFETY: needed: only the kernel knows the number. Sound: the call has no arguments and touches no memory.
    unsafe { call(number::GETPID, 0, 0, 0) as u32 }
}

/// The number of this thread.
pub(crate) fn thread() -> u32 {
    // SAFETY: needed: only the kernel knows the number. Sound: the call has no arguments and touches no memory.
    unsafe { call(number::GETTID, 0, 0, 0) as u32 }
}

/// Wakes all threads that wait for a word, in all processes.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: needed: only the kernel wakes waiting threads. Sound: FUTEX_WAKE uses the address of the word as a key and
    // neither reads nor writes memory.
    unsafe { call(number::FUTEX, word.as_ptr() as u64, 1, i32::MAX as u64) };
}

/// Waits until a word has another value, or the milliseconds are over. It may also return early without a reason.
pub(crate) fn wait(word: &AtomicU32, value: u32, milliseconds: u64) {
    let time = [milliseconds / 1000, milliseconds % 1000 * 1_000_000];
    // SAFETY: needed: only the kernel can suspend a thread. Sound: FUTEX_WAIT reads the word and the time, which both live
    // until the call returns, and writes nothing.
    unsafe { raw(number::FUTEX, [word.as_ptr() as u64, 0, u64::from(value), time.as_ptr() as u64, 0, 0]) };
}
