// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A supposed open or exec: decides about an access that no process has asked for.

use crate::facts::{Access, Facts, Start};
use crate::kind::{Kind, Recognizer, Stat};
use crate::subject::Subject;
use crate::trusted::Trusted;
use crate::watch::known::{HASHED_FOR_RULES, Identity, sha256};
use rustix::fs::{Mode, OFlags};
use std::cell::OnceCell;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The process that is supposed to ask.
#[derive(Debug, Clone)]
pub struct Who {
    /// The login user.
    pub auid: u32,
    /// User ids.
    pub uids: Vec<u32>,
    /// Group ids.
    pub gids: Vec<u32>,
    /// The session.
    pub session: u32,
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub ppid: u32,
    /// Its program.
    pub exe: PathBuf,
    /// Its short name.
    pub comm: Vec<u8>,
    /// How it was started.
    pub start: Start,
}

impl Who {
    /// The facts of a process from `/proc`; `None` if there is no process with this number.
    #[must_use]
    pub fn process(pid: u32) -> Option<Self> {
        let subject = Subject::read(pid);
        subject.is_there().then(|| Self {
            auid: subject.auid(),
            uids: subject.uids().to_vec(),
            gids: subject.gids().to_vec(),
            session: subject.session(),
            pid,
            ppid: subject.ppid(),
            exe: PathBuf::from(OsStr::from_bytes(subject.exe())),
            comm: subject.comm().to_vec(),
            start: Start::Normal,
        })
    }

    /// A process of root's that runs the program `exe`, as a child of init, as at boot.
    #[must_use]
    pub fn root(exe: &Path) -> Self {
        let name = exe.file_name().map(OsStrExt::as_bytes).unwrap_or_default();
        Self {
            auid: u32::MAX,
            uids: vec![0],
            gids: vec![0],
            session: u32::MAX,
            pid: 2,
            ppid: 1,
            exe: exe.to_owned(),
            // The kernel cuts the name at this length.
            comm: name[..name.len().min(15)].to_vec(),
            start: Start::Normal,
        }
    }
}

/// A supposed open or exec.
pub struct Supposed<'a> {
    access: Access,
    who: &'a Who,
    path: PathBuf,
    file: OwnedFd,
    identity: Identity,
    trust: &'a Trusted,
    recognizer: &'a Recognizer,
    kind: OnceCell<Kind>,
    subject_kind: OnceCell<Kind>,
    hash: OnceCell<Option<Box<str>>>,
    device: OnceCell<Box<[u8]>>,
}

impl<'a> Supposed<'a> {
    /// `who` opens or executes the file at `path`. Links are followed, as in the kernel.
    ///
    /// # Errors
    /// If the file can't be opened: then no process can open it, or this process may not read it.
    pub fn new(
        access: Access,
        path: &Path,
        who: &'a Who,
        trust: &'a Trusted,
        recognizer: &'a Recognizer,
    ) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(&path, flags, Mode::empty())?;
        let identity = Identity::of(&rustix::fs::fstat(&file)?);
        Ok(Self {
            access,
            who,
            path,
            file,
            identity,
            trust,
            recognizer,
            kind: OnceCell::new(),
            subject_kind: OnceCell::new(),
            hash: OnceCell::new(),
            device: OnceCell::new(),
        })
    }

    /// The file, with links followed.
    #[must_use]
    pub fn real_path(&self) -> &Path {
        &self.path
    }

    /// Whether fs-verity's missing protection is the only reason why the file isn't trusted.
    #[must_use]
    pub fn lacks_verity(&self) -> bool {
        self.trust.lacks_verity(self.path(), self.file.as_fd())
    }

    /// Whether this access is about the open file, as that is now.
    #[must_use]
    pub fn is_of(&self, file: BorrowedFd<'_>) -> bool {
        rustix::fs::fstat(file).is_ok_and(|status| Identity::of(&status) == self.identity)
    }
}

impl Facts for Supposed<'_> {
    fn access(&self) -> Access {
        self.access
    }

    fn file_id(&self) -> Option<(u64, u64)> {
        Some((self.identity.device, self.identity.inode))
    }

    fn auid(&self) -> u32 {
        self.who.auid
    }

    fn uids(&self) -> &[u32] {
        &self.who.uids
    }

    fn gids(&self) -> &[u32] {
        &self.who.gids
    }

    fn session(&self) -> u32 {
        self.who.session
    }

    fn pid(&self) -> u32 {
        self.who.pid
    }

    fn ppid(&self) -> u32 {
        self.who.ppid
    }

    fn subject_trusted(&self) -> bool {
        self.trust.knows(self.exe())
    }

    fn comm(&self) -> &[u8] {
        &self.who.comm
    }

    fn exe(&self) -> &[u8] {
        self.who.exe.as_os_str().as_bytes()
    }

    fn subject_kind(&self) -> &str {
        self.subject_kind
            .get_or_init(|| {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
                let Ok(file) = rustix::fs::open(&self.who.exe, flags, Mode::empty()) else {
                    return Kind::UNKNOWN;
                };
                match Stat::of(file.as_fd()) {
                    Ok(status) => self.recognizer.kind_of(file.as_fd(), self.exe(), status),
                    Err(_) => Kind::UNKNOWN,
                }
            })
            .as_str()
    }

    fn start(&self) -> Start {
        self.who.start
    }

    fn preloads(&self) -> bool {
        false
    }

    fn path(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    fn device(&self) -> &[u8] {
        self.device.get_or_init(|| crate::watch::device_name(self.identity.device))
    }

    fn kind(&self) -> &str {
        let status = Stat { mode: self.identity.mode, size: self.identity.size, in_memory: false };
        self.kind.get_or_init(|| self.recognizer.kind_of(self.file.as_fd(), self.path(), status)).as_str()
    }

    fn trusted(&self) -> bool {
        let mut hash = || self.content_hash().map(str::to_owned);
        self.trust.trusts(self.path(), self.identity.size, self.file.as_fd(), &mut hash)
    }

    fn hash(&self) -> Option<&str> {
        if self.identity.size > HASHED_FOR_RULES {
            return None;
        }
        self.content_hash()
    }
}

impl Supposed<'_> {
    fn content_hash(&self) -> Option<&str> {
        self.hash.get_or_init(|| sha256(self.file.as_fd(), self.identity, None).ok().flatten()).as_deref()
    }
}
