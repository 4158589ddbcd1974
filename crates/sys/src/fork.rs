// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs work in a forked process: [`as_user`] as another user, whose result only this process can read; [`apart`] for
//! as long as this process lives, with almost no rights.
//!
//! In [`as_user`] the child becomes the user permanently and never executes another program. It isn't dumpable since
//! its ids changed, so the kernel keeps the user's other processes from tracing it or reading its memory. So the data
//! in the pipe is what the child itself has written.

use crate::landlock::{self, Handled};
use crate::raw;
use crate::seccomp::Instruction;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// The user that the child becomes.
#[derive(Debug, Clone)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
    /// The variables that the work sees; no others.
    pub environment: Vec<(OsString, OsString)>,
}

/// Runs `work` in a child that is `user`, and returns what it returns, at most `most` bytes.
///
/// # Errors
/// When this process has other threads, or the child can't be made, can't become the user, dies, or writes more than
/// `most` bytes.
pub fn as_user(user: &User, most: u64, work: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has several threads"));
    }
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: needed for a child with all of this process's code and another identity. Sound: there is one thread, so
    // no other thread holds a lock, and the child may do whatever this process may.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            raw::exit(i32::from(work_as(user, theirs, work).is_err()))
        }
        child => {
            drop(theirs);
            let mut said = Vec::new();
            let read = File::from(ours).take(most + 1).read_to_end(&mut said);
            let ended = loop {
                match rustix::process::waitpid(
                    rustix::process::Pid::from_raw(child),
                    rustix::process::WaitOptions::empty(),
                ) {
                    Err(Errno::INTR) => {}
                    other => break other?,
                }
            };
            read?;
            if ended.is_none_or(|(_pid, status)| status.exit_status() != Some(0)) {
                return Err(io::Error::other("the child process for it has failed"));
            }
            if said.len() as u64 > most {
                return Err(io::Error::other("it is too large"));
            }
            Ok(said)
        }
    }
}

/// The child's part: becomes the user, runs the work and writes its result.
fn work_as(user: &User, to: OwnedFd, work: impl FnOnce() -> Vec<u8>) -> io::Result<()> {
    let groups: Vec<Gid> = user.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    rustix::thread::set_thread_groups(&groups)?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let before: Vec<OsString> = std::env::vars_os().map(|(name, _value)| name).collect();
    for name in before {
        // SAFETY: needed for work that looks at its variables. Sound: this process has one thread, and holds none of
        // their strings.
        unsafe { std::env::remove_var(name) };
    }
    for (name, value) in &user.environment {
        // SAFETY: as above.
        unsafe { std::env::set_var(name, value) };
    }
    File::from(to).write_all(&work())
}

/// The rights and resources that the child of [`apart`] keeps.
#[derive(Debug, Clone, Copy)]
pub struct Apart<'a> {
    /// Its process name, for `ps`.
    pub name: &'a std::ffi::CStr,
    /// The numbers of its descriptors, which are open. The standard streams are `/dev/null`.
    pub kept: &'a [i32],
    /// An open `/dev/null`, where the child must not open one itself.
    pub nothing: Option<i32>,
    /// The user and group that root's process becomes.
    pub identity: Option<[u32; 2]>,
    /// The calls that it can make.
    pub filter: &'a [Instruction],
}

/// Runs `work` in a child that can't open a file, send a signal or execute a program. The child has no capabilities
/// and none of this process's variables, and ends with this process. Returns its process id. The caller must reap it.
///
/// # Errors
/// When the child can't be made. A child that can't give up a right ends with code 1.
pub fn apart(apart: &Apart<'_>, work: impl FnOnce()) -> io::Result<i32> {
    let parent = raw::getpid();
    // SAFETY: needed for a child with all of this process's code and none of its rights. Sound: the processes that
    // share this process's memory (stub, refresher, init) use raw calls only and hold no lock of the C library's; a
    // thread that writes events may be running, but the child doesn't touch its queue or its file, and the C
    // library's `fork` makes its own locks, the allocator's among them, usable for the child.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            if give_up(apart, parent).is_err() {
                raw::exit(1);
            }
            work();
            raw::exit(0)
        }
        child => Ok(child),
    }
}

/// Has the kernel end this process by `SIGIO`, for which there is no handler, when the other end of its socket is
/// closed; with `false`, takes this back.
///
/// # Errors
/// As `fcntl(2)`.
pub fn ends_when_left(socket: BorrowedFd<'_>, ends: bool) -> io::Result<()> {
    if ends {
        let number = usize::try_from(socket.as_raw_fd()).unwrap_or(usize::MAX);
        let own = usize::try_from(raw::getpid()).unwrap_or(0);
        // SAFETY: needed because rustix doesn't have it. Sound: the call sets the receiver of a signal, and touches
        // no memory.
        unsafe { raw::syscall(libc::SYS_fcntl, [number, F_SETOWN, own, 0, 0, 0]) }?;
    }
    let flags = rustix::fs::fcntl_getfl(socket)?;
    Ok(rustix::fs::fcntl_setfl(socket, if ends { flags | ASYNC } else { flags - ASYNC })?)
}

const F_SETOWN: usize = 8;
/// `O_ASYNC`.
const ASYNC: rustix::fs::OFlags = rustix::fs::OFlags::from_bits_retain(0o20_000);

/// `RLIMIT_CORE`, whose type depends on the C library.
const CORE_SIZE: u32 = 4;

fn give_up(apart: &Apart<'_>, parent: i32) -> raw::Result<()> {
    let mut kept: Vec<u32> = apart.kept.iter().map(|fd| fd.unsigned_abs()).collect();
    kept.sort_unstable();
    let nothing = apart.nothing.map_or_else(|| raw::open(c"/dev/null", libc::O_RDWR), Ok)?;
    for stream in (0..3).filter(|stream| *stream != nothing) {
        raw::duplicate(nothing, stream)?;
    }
    let mut first = 3;
    for fd in kept.into_iter().filter(|fd| *fd > 2) {
        if fd > first {
            raw::close_range(first, fd - 1, 0)?;
        }
        first = fd + 1;
    }
    raw::close_range(first, u32::MAX, 0)?;
    // SAFETY: needed to overwrite secrets in this copy of memory. Sound: it has one thread, which uses no variable.
    unsafe { crate::process::wipe_environment() };
    let _name_is_cosmetic = raw::prctl(libc::PR_SET_NAME, apart.name.as_ptr() as usize, 0);
    // Input typed at a terminal is meant for other processes.
    raw::setsid()?;
    raw::raise_descriptor_limit()?;
    raw::set_limit(CORE_SIZE, 0, 0)?;
    if let Some([uid, gid]) = apart.identity {
        raw::clear_groups()?;
        raw::setresgid(gid)?;
        raw::setresuid(uid)?;
    }
    raw::prctl(libc::PR_SET_DUMPABLE, 0, 0)?;
    // A change of user cancels the parent-death signal, so it is requested again.
    crate::init::die_with_parent()?;
    if raw::getppid() != parent {
        return Err(Errno::SRCH);
    }
    raw::drop_capabilities()?;
    raw::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0)?;
    if let Some(abi) = landlock::abi() {
        let ruleset = landlock::create_ruleset(&Handled::by_abi(abi))?;
        landlock::restrict_self(ruleset)?;
        raw::close(ruleset)?;
    }
    raw::load_filter(apart.filter, 0).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_is_the_user_and_this_process_is_not() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let user = User {
            uid: 12345,
            gid: 54321,
            groups: vec![54321, 7],
            environment: vec![("A".into(), "b".into())],
        };
        // The test harness has threads, and `as_user` needs a single-threaded process: so a refusal is correct here.
        let error = as_user(&user, 100, Vec::new).unwrap_err();
        assert!(error.to_string().contains("several threads"), "{error}");
    }
}
