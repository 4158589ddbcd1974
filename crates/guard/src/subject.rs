// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads from `/proc` what is known of a process that asks for access.
//!
//! The directory `/proc/PID` is opened once, and everything is read through its descriptor. So answers about two
//! processes that had the same number one after the other can't mix: after the first process is gone, its descriptor
//! returns `ESRCH`. Each fact is looked up when it is first asked for, and kept. A fact that can't be found out is `?`
//! or `u32::MAX`, as [`Facts`](crate::facts::Facts) says. [`text`] parses the texts, [`start`] determines how the
//! program was started.
//!
//! It differs from fapolicyd 1.1.7:
//!
//! - All four user ids and group ids match, not only the real ones, because a program that changed to a user acts as
//!   that user.
//! - fapolicyd looks for `LD_PRELOAD` and `LD_AUDIT` anywhere in the environment's first text, and in the first text
//!   after each line end. For fapolicyd `X=LD_PRELOAD` is a match, and a variable in second place isn't. Here all
//!   variables are examined, and only their names.
//! - A process without a program (a kernel thread, a process that is just ending) has the exe `?`; fapolicyd uses its
//!   short name instead, which every process chooses for itself.
//! - A short name with a line end in it is returned in full; fapolicyd cuts it there.

pub mod start;
pub mod text;

use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::kind::{Kind, Recognizer, Stat};
use crate::nowait::look_at;
use crate::shortage::noted;
use crate::watch::known::Identity;
use crate::watch::place;
use text::{Environment, Status};

/// The number that means "none".
pub const NONE: u32 = u32::MAX;

/// How much of a file below `/proc` is read at most: 65,536 groups of ten digits are 720 KB of `status`.
const LONGEST: usize = 1 << 20;
/// How much of the environment is read at most. The kernel accepts 6 MB of arguments and variables at most.
const LONGEST_ENVIRONMENT: usize = 8 << 20;

/// A process, whose facts are looked up one by one.
pub struct Subject {
    pid: u32,
    /// `/proc/PID`; `None` if the process was gone before the first question.
    directory: OnceCell<Option<OwnedFd>>,
    buffer: RefCell<Vec<u8>>,
    status: OnceCell<Status>,
    auid: OnceCell<u32>,
    session: OnceCell<u32>,
    comm: OnceCell<Vec<u8>>,
    exe: OnceCell<Vec<u8>>,
    kind: OnceCell<Kind>,
    preloads: OnceCell<bool>,
    started: OnceCell<Option<u64>>,
}

impl Subject {
    /// The process with this number, from the `/proc` of this mount namespace.
    ///
    /// The process may be gone already: then every fact about it is unknown.
    pub fn read(pid: u32) -> Self {
        Self::read_in(CWD, Path::new("/proc"), pid)
    }

    /// The same, with `/proc` at another path, relative to an open directory.
    pub fn read_in(base: BorrowedFd<'_>, proc: &Path, pid: u32) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = noted(openat(base, proc.join(pid.to_string()), flags, Mode::empty())).ok();
        Self::with(pid, OnceCell::from(directory))
    }

    /// The process with this number, looked up when the first fact is asked for. For a process that waits for the
    /// guard: it can end only by being killed, and then its facts are not needed.
    pub fn when_asked(pid: u32) -> Self {
        Self::with(pid, OnceCell::new())
    }

    fn with(pid: u32, directory: OnceCell<Option<OwnedFd>>) -> Self {
        Self {
            pid,
            directory,
            buffer: RefCell::default(),
            status: OnceCell::new(),
            auid: OnceCell::new(),
            session: OnceCell::new(),
            comm: OnceCell::new(),
            exe: OnceCell::new(),
            kind: OnceCell::new(),
            preloads: OnceCell::new(),
            started: OnceCell::new(),
        }
    }

    fn directory(&self) -> Option<&OwnedFd> {
        self.directory
            .get_or_init(|| {
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                noted(openat(CWD, format!("/proc/{}", self.pid), flags, Mode::empty())).ok()
            })
            .as_ref()
    }

    /// Its number.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Does the process still exist (perhaps as a zombie)?
    pub fn is_there(&self) -> bool {
        self.with_file("stat", LONGEST, |_| ()).is_some()
    }

    /// The login user, [`NONE`] without one.
    pub fn auid(&self) -> u32 {
        *self.auid.get_or_init(|| self.number("loginuid"))
    }

    /// The session of the audit system, [`NONE`] without one.
    pub fn session(&self) -> u32 {
        *self.session.get_or_init(|| self.number("sessionid"))
    }

    /// Real, effective, saved and file system user id; empty for a process that is gone.
    pub fn uids(&self) -> &[u32] {
        &self.status().uids
    }

    /// The four group ids, and the supplementary ones, sorted, each once.
    pub fn gids(&self) -> &[u32] {
        &self.status().gids
    }

    /// Its parent, [`NONE`] if the process is gone.
    pub fn ppid(&self) -> u32 {
        self.status().ppid
    }

    /// Its short name.
    pub fn comm(&self) -> &[u8] {
        self.comm.get_or_init(|| {
            self.with_file("comm", 64, |bytes| bytes.strip_suffix(b"\n").unwrap_or(bytes).to_vec())
                .unwrap_or_else(|| b"?".to_vec())
        })
    }

    /// The path of its program, also if that was deleted.
    pub fn exe(&self) -> &[u8] {
        self.exe.get_or_init(|| {
            let target = self.directory().and_then(|directory| readlinkat(directory, "exe", Vec::new()).ok());
            let Some(target) = target.map(std::ffi::CString::into_bytes) else { return b"?".to_vec() };
            // A file's own name may end like that: then the program isn't deleted.
            if target.ends_with(b" (deleted)") && self.is_at(&target) {
                return target;
            }
            text::without_deleted(target)
        })
    }

    fn is_at(&self, path: &[u8]) -> bool {
        let own = look_at(format!("/proc/{}/exe", self.pid));
        own.is_ok_and(|own| place::is_at(path, Identity::of_extended(&own)))
    }

    /// Opens its program: the file that it runs, even if that file was moved or deleted.
    ///
    /// This is an open like any other: the guard must not ask itself about it.
    ///
    /// # Errors
    ///
    /// The kernel's error; `ESRCH` if the process is gone.
    pub fn program(&self) -> Result<OwnedFd, Errno> {
        let directory = self.directory().ok_or(Errno::SRCH)?;
        noted(openat(directory, "exe", OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty()))
    }

    /// The kind of its program. fapolicyd uses the path `/proc/PID/exe` for this, so that an executed C library doesn't
    /// count as a library.
    pub fn kind(&self, recognizer: &Recognizer) -> &Kind {
        self.kind.get_or_init(|| {
            let Ok(program) = self.program() else { return Kind::UNKNOWN };
            let Ok(stat) = Stat::of(program.as_fd()) else { return Kind::UNKNOWN };
            recognizer.kind_of(program.as_fd(), b"/proc/exe", stat)
        })
    }

    /// Does the environment with which its program was started contain `LD_PRELOAD` or `LD_AUDIT`?
    pub fn preloads(&self) -> bool {
        *self.preloads.get_or_init(|| {
            let Some(file) = self.open("environ") else { return false };
            let mut environment = Environment::default();
            let mut chunk = [0; 8 << 10];
            let mut read = 0;
            while read < LONGEST_ENVIRONMENT {
                match rustix::io::read(&file, &mut chunk) {
                    Ok(0) => break,
                    Ok(count) => {
                        if environment.names_preload(&chunk[..count]) {
                            return true;
                        }
                        read += count;
                    }
                    Err(Errno::INTR) => {}
                    Err(_) => break,
                }
            }
            false
        })
    }

    /// When it was started, in clock ticks since boot. Together with the number this identifies a process for ever.
    pub fn started(&self) -> Option<u64> {
        *self.started.get_or_init(|| self.with_file("stat", LONGEST, text::started).flatten())
    }

    /// The path of its controlling terminal, if it has one.
    pub fn terminal(&self) -> Option<String> {
        self.with_file("stat", LONGEST, text::terminal).flatten()
    }

    fn status(&self) -> &Status {
        self.status.get_or_init(|| self.with_file("status", LONGEST, Status::parse).unwrap_or_default())
    }

    fn number(&self, name: &str) -> u32 {
        self.with_file(name, 32, text::number).flatten().unwrap_or(NONE)
    }

    fn open(&self, name: &str) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        noted(openat(self.directory()?, OsStr::new(name), flags, Mode::empty())).ok()
    }

    /// Reads a `/proc` file of the process into the buffer that all reads share, and parses it.
    fn with_file<T>(&self, name: &str, longest: usize, parse: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let file = self.open(name)?;
        let mut buffer = self.buffer.borrow_mut();
        let mut filled = 0;
        loop {
            if filled == buffer.len() {
                if filled >= longest {
                    break;
                }
                // `status` has 1.4 KB.
                let larger = (filled * 2).clamp(2 << 10, LONGEST);
                buffer.resize(larger, 0);
            }
            match rustix::io::read(&file, &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        Some(parse(&buffer[..filled]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::process::Command;

    #[test]
    fn myself() {
        let me = Subject::read(std::process::id());
        assert_eq!(me.ppid(), std::os::unix::process::parent_id());
        assert_eq!(me.uids().len(), 4);
        assert!(!me.gids().is_empty());
        assert_eq!(me.exe(), std::env::current_exe().unwrap().as_os_str().as_bytes());
        assert_eq!(me.kind(&Recognizer::own()).as_str(), "application/x-executable");
        assert!(me.started().is_some() && me.is_there());
    }

    #[test]
    fn preloaded_and_odd_names() {
        let directory = tempfile::tempdir().unwrap();
        let odd = directory.path().join("a) R 1\n(b");
        std::fs::copy("/bin/sleep", &odd).unwrap();
        let mut child = Command::new(&odd).arg("60").env_clear().env("A", "LD_PRELOAD=x").spawn().unwrap();
        let mut other =
            Command::new(&odd).arg("60").env_clear().env("A", "1").env("LD_AUDIT", "").spawn().unwrap();
        std::fs::remove_file(&odd).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (one, two) = (Subject::read(child.id()), Subject::read(other.id()));
        assert_eq!(one.comm(), b"a) R 1\n(b");
        assert_eq!(one.exe(), odd.as_os_str().as_bytes());
        assert_eq!(one.ppid(), std::process::id());
        assert!(one.started().is_some());
        assert!(!one.preloads() && two.preloads());
        for child in [&mut child, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        // The descriptor belongs to the process, not to its number.
        let gone = one;
        assert_eq!(gone.session(), NONE);
        assert!(!gone.is_there());
        let gone = Subject::read(child.id());
        assert_eq!((gone.exe(), gone.comm(), gone.ppid(), gone.auid()), (&b"?"[..], &b"?"[..], NONE, NONE));
        assert!(gone.uids().is_empty() && gone.gids().is_empty() && !gone.preloads());
        assert_eq!(gone.kind(&Recognizer::own()), &Kind::UNKNOWN);
    }
}
