// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls by number, for code that runs between clone and exec.
//!
//! That code shares its parent's memory, thread-local storage included. So it may not use a C library, which would
//! overwrite the parent's `errno`. It needs calls that neither allocate nor lock nor touch thread-local storage. Only
//! the system call instruction itself fulfils this.

#![expect(
    clippy::cast_sign_loss,
    clippy::cast_possible_truncation,
    reason = "a register holds what the kernel reads from it: both supported architectures have 64 bits, and \
              the kernel reads the low 32 of an int"
)]

use core::ffi::CStr;
use rustix::io::Errno;

pub(crate) type Result<T> = core::result::Result<T, Errno>;

/// A descriptor number, borrowed: no code in the child owns one, and the descriptor table ends with exec.
pub(crate) type Fd = i32;

/// Issues one system call.
///
/// # Safety
/// `arguments` must satisfy what the kernel expects of call `number`: each pointer valid for the
/// access the call makes, for as long as it makes it.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> Result<usize> {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: needed because no safe interface issues arbitrary calls. Sound under the caller's
    // promise; the kernel changes only rax, rcx and r11, which are declared.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => returned,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    check(returned)
}

/// Issues one system call.
///
/// # Safety
/// `arguments` must satisfy what the kernel expects of call `number`: each pointer valid for the
/// access the call makes, for as long as it makes it.
#[cfg(target_arch = "aarch64")]
#[inline]
pub(crate) unsafe fn syscall(number: libc::c_long, arguments: [usize; 6]) -> Result<usize> {
    let [a, b, c, d, e, f] = arguments;
    let returned: isize;
    // SAFETY: needed because no safe interface issues arbitrary calls. Sound under the caller's
    // promise; the kernel changes only x0, which is declared.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number as isize,
            inlateout("x0") a.cast_signed() => returned,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    check(returned)
}

/// Splits a raw return value: the kernel reports errors as -4095..=-1.
#[inline]
pub(crate) fn check(returned: isize) -> Result<usize> {
    if (-4095..0).contains(&returned) {
        Err(Errno::from_raw_os_error(-returned as i32))
    } else {
        Ok(returned as usize)
    }
}

/// A descriptor as a system-call argument: sign-extended, as the kernel expects of `AT_FDCWD`.
#[inline]
pub(crate) fn arg(fd: Fd) -> usize {
    fd as isize as usize
}

#[expect(clippy::cast_possible_wrap, reason = "descriptors and pids fit in 31 bits")]
fn number(value: usize) -> i32 {
    value as i32
}

macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {{
        let mut arguments = [0usize; 6];
        let given = [$($argument as usize),*];
        arguments[..given.len()].copy_from_slice(&given);
        // SAFETY: needed, see `syscall`. Sound: every pointer handed over in this module comes
        // from a reference that outlives the call, with its length beside it.
        unsafe { syscall($number, arguments) }
    }};
}

mod file;
mod socket;

pub(crate) use file::*;
pub(crate) use socket::*;

pub(crate) fn openat2(dir: Fd, path: &CStr, flags: i32, mode: u32, resolve: u64) -> Result<Fd> {
    let how = [u64::from(flags.unsigned_abs()), u64::from(mode), resolve];
    call!(libc::SYS_openat2, arg(dir), path.as_ptr(), &raw const how, size_of_val(&how)).map(number)
}

/// The number of files and directories on a file system. Zero on one that doesn't count them.
pub(crate) fn count_files(on: Fd) -> Result<u64> {
    let mut found = core::mem::MaybeUninit::<libc::statfs>::zeroed();
    call!(libc::SYS_fstatfs, arg(on), found.as_mut_ptr())?;
    // SAFETY: needed to read what the kernel has written. Sound: it is zeroed, and any bytes are a valid `statfs`.
    let found = unsafe { found.assume_init() };
    Ok(found.f_files.saturating_sub(found.f_ffree))
}

pub(crate) fn open(path: &CStr, flags: i32) -> Result<Fd> {
    call!(libc::SYS_openat, arg(libc::AT_FDCWD), path.as_ptr(), flags | libc::O_CLOEXEC, 0usize).map(number)
}

pub(crate) fn openat(dir: Fd, path: &CStr, flags: i32) -> Result<Fd> {
    call!(libc::SYS_openat, arg(dir), path.as_ptr(), flags | libc::O_CLOEXEC, 0usize).map(number)
}

pub(crate) fn create(path: &CStr, mode: u32) -> Result<Fd> {
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY | libc::O_CLOEXEC | libc::O_NOFOLLOW;
    call!(libc::SYS_openat, arg(libc::AT_FDCWD), path.as_ptr(), flags, mode).map(number)
}

/// Makes an empty file: one call where opening and closing it would be two.
pub(crate) fn make_file(path: &CStr, mode: u32) -> Result<()> {
    call!(libc::SYS_mknodat, arg(libc::AT_FDCWD), path.as_ptr(), libc::S_IFREG | mode, 0usize).map(drop)
}

pub(crate) fn close(fd: Fd) -> Result<()> {
    call!(libc::SYS_close, arg(fd)).map(drop)
}

/// Makes descriptor number `to` a copy of `from`.
pub(crate) fn duplicate(from: Fd, to: Fd) -> Result<()> {
    if from == to {
        return Ok(());
    }
    call!(libc::SYS_dup3, arg(from), arg(to), 0usize).map(drop)
}

pub(crate) fn close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    call!(libc::SYS_close_range, first, last, flags).map(drop)
}

pub(crate) fn read(fd: Fd, buffer: &mut [u8]) -> Result<usize> {
    call!(libc::SYS_read, arg(fd), buffer.as_mut_ptr(), buffer.len())
}

pub(crate) fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    call!(libc::SYS_write, arg(fd), bytes.as_ptr(), bytes.len())
}

/// Writes `bytes` to an existing file in one call, as the map files of `/proc` require.
pub(crate) fn write_file(path: &CStr, bytes: &[u8]) -> Result<()> {
    let fd = open(path, libc::O_WRONLY)?;
    let written = write(fd, bytes);
    close(fd)?;
    written.map(drop)
}

pub(crate) fn mkdir(path: &CStr, mode: u32) -> Result<()> {
    call!(libc::SYS_mkdirat, arg(libc::AT_FDCWD), path.as_ptr(), mode).map(drop)
}

pub(crate) fn symlink(target: &CStr, path: &CStr) -> Result<()> {
    call!(libc::SYS_symlinkat, target.as_ptr(), arg(libc::AT_FDCWD), path.as_ptr()).map(drop)
}

pub(crate) fn chroot(path: &CStr) -> Result<()> {
    call!(libc::SYS_chroot, path.as_ptr()).map(drop)
}

pub(crate) fn chdir(path: &CStr) -> Result<()> {
    call!(libc::SYS_chdir, path.as_ptr()).map(drop)
}

pub(crate) fn fchdir(fd: Fd) -> Result<()> {
    call!(libc::SYS_fchdir, arg(fd)).map(drop)
}

pub(crate) fn umask(mask: u32) {
    let _previous = call!(libc::SYS_umask, mask);
}

pub(crate) fn open_tree(dir: Fd, path: &CStr, flags: u32) -> Result<Fd> {
    call!(libc::SYS_open_tree, arg(dir), path.as_ptr(), flags).map(number)
}

pub(crate) fn move_mount(from: Fd, from_path: &CStr, to: Fd, to_path: &CStr, flags: u32) -> Result<()> {
    call!(libc::SYS_move_mount, arg(from), from_path.as_ptr(), arg(to), to_path.as_ptr(), flags).map(drop)
}

pub(crate) fn fsopen(kind: &CStr) -> Result<Fd> {
    const FSOPEN_CLOEXEC: usize = 1;
    call!(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC).map(number)
}

pub(crate) fn fsconfig_string(fs: Fd, key: &CStr, value: &CStr) -> Result<()> {
    const FSCONFIG_SET_STRING: usize = 1;
    call!(libc::SYS_fsconfig, arg(fs), FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr(), 0usize).map(drop)
}

pub(crate) fn fsconfig_flag(fs: Fd, key: &CStr) -> Result<()> {
    const FSCONFIG_SET_FLAG: usize = 0;
    call!(libc::SYS_fsconfig, arg(fs), FSCONFIG_SET_FLAG, key.as_ptr(), 0usize, 0usize).map(drop)
}

pub(crate) fn fsconfig_create(fs: Fd) -> Result<()> {
    const FSCONFIG_CMD_CREATE: usize = 6;
    call!(libc::SYS_fsconfig, arg(fs), FSCONFIG_CMD_CREATE, 0usize, 0usize, 0usize).map(drop)
}

pub(crate) fn fsmount(fs: Fd, attributes: u64) -> Result<Fd> {
    const FSMOUNT_CLOEXEC: usize = 1;
    call!(libc::SYS_fsmount, arg(fs), FSMOUNT_CLOEXEC, attributes).map(number)
}

/// `struct mount_attr` of `mount_setattr(2)`.
#[repr(C)]
pub(crate) struct MountAttr {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) userns: u64,
}

pub(crate) fn mount_setattr(fd: Fd, recursive: bool, attr: &MountAttr) -> Result<()> {
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    call!(libc::SYS_mount_setattr, arg(fd), c"".as_ptr(), flags, &raw const *attr, size_of::<MountAttr>())
        .map(drop)
}

/// Mounts an overlay by its option string: before Linux 6.5 the newer calls refuse commas in paths.
pub(crate) fn mount_overlay(target: &CStr, options: &CStr) -> Result<()> {
    let kind = c"overlay";
    call!(libc::SYS_mount, kind.as_ptr(), target.as_ptr(), kind.as_ptr(), 0usize, options.as_ptr()).map(drop)
}

pub(crate) fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    call!(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()).map(drop)
}

pub(crate) fn unmount_detached(path: &CStr) -> Result<()> {
    call!(libc::SYS_umount2, path.as_ptr(), libc::MNT_DETACH).map(drop)
}

pub(crate) fn unshare(flags: i32) -> Result<()> {
    call!(libc::SYS_unshare, flags).map(drop)
}

pub(crate) fn setns(fd: Fd, kind: i32) -> Result<()> {
    call!(libc::SYS_setns, arg(fd), kind).map(drop)
}

pub(crate) fn sethostname(name: &[u8]) -> Result<()> {
    call!(libc::SYS_sethostname, name.as_ptr(), name.len()).map(drop)
}

pub(crate) fn setresuid(id: u32) -> Result<()> {
    call!(libc::SYS_setresuid, id, id, id).map(drop)
}

pub(crate) fn setresgid(id: u32) -> Result<()> {
    call!(libc::SYS_setresgid, id, id, id).map(drop)
}

pub(crate) fn clear_groups() -> Result<()> {
    call!(libc::SYS_setgroups, 0usize, 0usize).map(drop)
}

pub(crate) fn prctl(option: i32, a: usize, b: usize) -> Result<usize> {
    call!(libc::SYS_prctl, option, a, b, 0usize, 0usize)
}

pub(crate) fn getppid() -> i32 {
    call!(libc::SYS_getppid).map_or(0, number)
}

pub(crate) fn getpid() -> i32 {
    call!(libc::SYS_getpid).map_or(0, number)
}

/// The caller's process group; 0 when that isn't in the caller's PID namespace.
pub(crate) fn getpgid() -> i32 {
    call!(libc::SYS_getpgid, 0usize).map_or(0, number)
}

/// The caller's session; 0 when that isn't in the caller's PID namespace.
pub(crate) fn getsid() -> i32 {
    call!(libc::SYS_getsid, 0usize).map_or(0, number)
}

pub(crate) fn gettid() -> i32 {
    call!(libc::SYS_gettid).map_or(0, number)
}

pub(crate) fn tgkill(process: i32, thread: i32, signal: i32) -> Result<()> {
    call!(libc::SYS_tgkill, arg(process), arg(thread), signal).map(drop)
}

pub(crate) fn kill(pid: i32, signal: i32) -> Result<()> {
    call!(libc::SYS_kill, arg(pid), signal).map(drop)
}

/// Gives up the session's terminal. The kernel permits this to each process that isn't the session's leader.
pub(crate) fn give_up_terminal(terminal: Fd) -> Result<()> {
    call!(libc::SYS_ioctl, arg(terminal), libc::TIOCNOTTY, 0).map(drop)
}

/// The session of a terminal that controls the caller; 0 when that session isn't in the caller's PID namespace.
pub(crate) fn terminals_session(terminal: Fd) -> Result<i32> {
    let mut session: i32 = 0;
    call!(libc::SYS_ioctl, arg(terminal), libc::TIOCGSID, &raw mut session)?;
    Ok(session)
}

pub(crate) fn setsid() -> Result<()> {
    call!(libc::SYS_setsid).map(drop)
}

pub(crate) fn setpgid(pid: i32, group: i32) -> Result<()> {
    call!(libc::SYS_setpgid, arg(pid), arg(group)).map(drop)
}

/// Makes `group` the terminal's foreground process group.
pub(crate) fn set_foreground_group(terminal: Fd, group: i32) -> Result<()> {
    call!(libc::SYS_ioctl, arg(terminal), libc::TIOCSPGRP, &raw const group).map(drop)
}

pub(crate) fn set_limit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    call!(libc::SYS_prlimit64, 0usize, resource, limit.as_ptr(), 0usize).map(drop)
}

/// Sleeps while `word` holds `expected`, 10 ms at most.
pub(crate) fn futex_wait(word: &core::sync::atomic::AtomicU32, expected: u32) -> Result<()> {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
    call!(libc::SYS_futex, word.as_ptr(), operation, expected, &raw const timeout).map(drop)
}

/// Wakes all threads that sleep on `word`.
pub(crate) fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let _woken = call!(libc::SYS_futex, word.as_ptr(), operation, i32::MAX);
}

/// The number of the processor that the caller runs on.
pub(crate) fn processor() -> Result<u32> {
    let mut here = 0u32;
    call!(libc::SYS_getcpu, &raw mut here, 0usize, 0usize)?;
    Ok(here)
}

/// Lets `pid` run on any processor but the caller's, if there is another that it may use.
///
/// A new process is queued where its parent runs when the others look busy at that moment, and
/// stays there until the parent sleeps.
pub(crate) fn place_elsewhere(pid: i32) -> Result<()> {
    let here = processor()?;
    let mut allowed = [0u64; 16];
    call!(libc::SYS_sched_getaffinity, 0usize, size_of_val(&allowed), allowed.as_mut_ptr())?;
    let word = allowed.get_mut(here as usize / 64).ok_or(Errno::INVAL)?;
    *word &= !(1 << (here % 64));
    if allowed == [0; 16] {
        return Ok(());
    }
    call!(libc::SYS_sched_setaffinity, arg(pid), size_of_val(&allowed), allowed.as_ptr()).map(drop)
}

/// From now on the caller preempts no other process when it becomes runnable.
pub(crate) fn let_others_run_first() -> Result<()> {
    let priority = 0i32;
    call!(libc::SYS_sched_setscheduler, 0usize, libc::SCHED_BATCH, &raw const priority).map(drop)
}

/// Whether the process that `pidfd` refers to has ended.
pub(crate) fn has_ended(pidfd: Fd) -> bool {
    let mut poll = libc::pollfd { fd: pidfd, events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    call!(libc::SYS_ppoll, &raw mut poll, 1usize, &raw const timeout, 0usize, 0usize) != Ok(0)
}

/// Ignores `signal`.
pub(crate) fn ignore(signal: i32) -> Result<()> {
    set_disposition(signal, libc::SIG_IGN)
}

/// Gives `signal` its default action.
pub(crate) fn restore_default(signal: i32) -> Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

fn set_disposition(signal: i32, handler: usize) -> Result<()> {
    // The kernel's `struct sigaction`: handler, flags, restorer, mask.
    let action = [handler as u64, 0, 0, 0];
    call!(libc::SYS_rt_sigaction, signal, action.as_ptr(), 0usize, size_of::<u64>()).map(drop)
}

/// Sets the mask of blocked signals.
pub(crate) fn set_signal_mask(mask: u64) -> Result<()> {
    call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, 0usize, size_of::<u64>()).map(drop)
}

/// Sets the mask of blocked signals, and answers what it was.
pub(crate) fn exchange_signal_mask(mask: u64) -> Result<u64> {
    let mut before = 0u64;
    call!(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const mask, &raw mut before, size_of::<u64>())?;
    Ok(before)
}

/// Gives up every capability of the calling process.
pub(crate) fn drop_capabilities() -> Result<()> {
    keep_capabilities(0)
}

/// Gives up every capability but those below 32 in this set of bits.
pub(crate) fn keep_capabilities(kept: u32) -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    // Effective, permitted, inheritable; then the same for capabilities from 32 on.
    let sets = [kept, kept, 0, 0, 0, 0];
    call!(libc::SYS_capset, header.as_ptr(), sets.as_ptr()).map(drop)
}

/// Loads a filter; returns the listener if `flags` ask for one.
pub(crate) fn load_filter(program: &[crate::seccomp::Instruction], flags: libc::c_ulong) -> Result<Fd> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_too_long| Errno::INVAL)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    call!(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program).map(number)
}

/// Loads a filter by `prctl`, which older filters may allow where they don't know `seccomp`.
pub(crate) fn load_filter_by_prctl(program: &[crate::seccomp::Instruction]) -> Result<()> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_too_long| Errno::INVAL)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    let mode = libc::SECCOMP_MODE_FILTER;
    call!(libc::SYS_prctl, libc::PR_SET_SECCOMP, mode, &raw const program, 0usize, 0usize).map(drop)
}

/// Waits until `fd` has something to read, or its other end is closed; returns the events.
pub(crate) fn poll_in(fd: Fd) -> Result<i16> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    call!(libc::SYS_ppoll, &raw mut poll, 1usize, 0usize, 0usize, 0usize)?;
    Ok(poll.revents)
}

/// The same for at most `milliseconds`; 0: no event came.
pub(crate) fn poll_in_within(fd: Fd, milliseconds: i64) -> Result<i16> {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let time = libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
    call!(libc::SYS_ppoll, &raw mut poll, 1usize, &raw const time, 0usize, 0usize)?;
    Ok(poll.revents)
}

/// Waits until `fd` has something to read or the process behind `process` has ended; returns whether the process has ended.
pub(crate) fn poll_two(fd: Fd, process: Fd) -> Result<bool> {
    let waiting = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut polls = [waiting(fd), waiting(process)];
    call!(libc::SYS_ppoll, polls.as_mut_ptr(), polls.len(), 0usize, 0usize, 0usize)?;
    Ok(polls[1].revents != 0)
}

/// Waits for some microseconds, fewer than a million; less if a signal comes.
pub(crate) fn pause(microseconds: u32) -> Result<()> {
    // The kernel writes the remaining time back.
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: (microseconds.min(999_999) * 1000).into() };
    match call!(libc::SYS_ppoll, 0usize, 0usize, &raw mut time, 0usize, 0usize) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A non-blocking queue of changes.
pub(crate) fn inotify() -> Result<Fd> {
    call!(libc::SYS_inotify_init1, libc::IN_CLOEXEC | libc::IN_NONBLOCK).map(number)
}

/// Has changes of `path` put into a queue.
pub(crate) fn inotify_add(queue: Fd, path: &CStr, changes: u32) -> Result<()> {
    call!(libc::SYS_inotify_add_watch, arg(queue), path.as_ptr(), changes).map(drop)
}

/// The identity and type of an open file.
pub(crate) struct Stat {
    /// Device and inode.
    pub(crate) identity: (u64, u64),
    mode: u32,
}

impl Stat {
    /// Whether it is of this type, one of `S_IF*`.
    pub(crate) const fn is(&self, kind: u32) -> bool {
        self.mode & libc::S_IFMT == kind
    }
}

pub(crate) fn stat(fd: Fd) -> Result<Stat> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    call!(libc::SYS_fstat, arg(fd), stat.as_mut_ptr())?;
    // SAFETY: needed to read what the kernel wrote. Sound: zeroes are a valid structure of integers.
    let stat = unsafe { stat.assume_init() };
    Ok(Stat { identity: (stat.st_dev, stat.st_ino), mode: stat.st_mode })
}

/// The `ST_*` flags of the mount that an open file lies on.
pub(crate) fn statfs_flags(fd: Fd) -> Result<u64> {
    // Of the structure, all of which are words here, the flags are the eleventh.
    let mut words = [0u64; 16];
    call!(libc::SYS_fstatfs, arg(fd), words.as_mut_ptr())?;
    Ok(words[10])
}

/// Allows as many descriptors as the hard limit does.
pub(crate) fn raise_descriptor_limit() -> Result<()> {
    // The constant's type differs between C libraries.
    const OPEN_FILES: u32 = 7;
    let mut limit = [0u64; 2];
    call!(libc::SYS_prlimit64, 0usize, OPEN_FILES, 0usize, limit.as_mut_ptr())?;
    set_limit(OPEN_FILES, limit[1], limit[1])
}

/// Replaces the process image; returns only on failure.
///
/// # Safety
/// `arguments` and `environment` must be arrays of valid C strings that end in a null pointer.
pub(crate) unsafe fn exec(path: &CStr, arguments: *const *const u8, environment: *const *const u8) -> Errno {
    match call!(libc::SYS_execve, path.as_ptr(), arguments, environment) {
        Ok(_never) => Errno::INVAL,
        Err(errno) => errno,
    }
}

/// Executes the null pointer, which a broker treats as a request to be watched. The kernel would answer `EFAULT`.
pub(crate) fn ask_to_be_watched() -> Result<()> {
    call!(libc::SYS_execve, 0usize, 0usize, 0usize).map(drop)
}

/// Nanoseconds of the monotonic clock.
pub(crate) fn now() -> u64 {
    time_of(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since the machine's start, those in which it slept among them.
pub(crate) fn since_boot() -> u64 {
    time_of(libc::CLOCK_BOOTTIME)
}

fn time_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let _always_succeeds = call!(libc::SYS_clock_gettime, clock, &raw mut time);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Ends this process without running anything registered at exit.
pub(crate) fn exit(code: i32) -> ! {
    loop {
        let _never_returns = call!(libc::SYS_exit_group, code);
    }
}
