// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Work that root has done in somebody else's name, and whose result only root gets to see.
//!
//! The child becomes the user for good and never executes another program. So the kernel keeps the user's other
//! processes from tracing it or reading its memory (it isn't dumpable since its ids changed), and what comes through
//! the pipe is what it has written.

use crate::raw;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// Whom to become.
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
/// When this process has other threads, or the child can't be made, can't become the user, dies, or says too much.
pub fn as_user(user: &User, most: u64, work: impl FnOnce() -> Vec<u8>) -> io::Result<Vec<u8>> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("this process has several threads"));
    }
    let (ours, theirs) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: needed for a child with all of this process's code and none of its identity. Sound: there is one thread,
    // so no lock is held by another and the child may do whatever this process may.
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
                return Err(io::Error::other("the child that was to do it has failed"));
            }
            if said.len() as u64 > most {
                return Err(io::Error::other("it is too large"));
            }
            Ok(said)
        }
    }
}

/// What the child does.
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
        // The harness has threads: a process of one is what it takes, and the refusal is right here.
        let error = as_user(&user, 100, Vec::new).unwrap_err();
        assert!(error.to_string().contains("several threads"), "{error}");
    }
}
