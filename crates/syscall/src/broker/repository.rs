// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds out which directories git treats as repositories, whatever their names.
//!
//! A name that is protected in `.git` is protected in each such directory ([`palisade_policy::names::repository`]). A
//! directory becomes a repository when the last of the names is made by which git recognises one. That call also
//! turns all existing files in the directory into files of a repository. So they are judged at that moment, and files
//! that git obeys are replaced by copies, because another process may have them open.
//!
//! Another sandbox's broker may work in the same directory. So each broker locks the directory (`flock`) before it
//! checks whether the directory is a repository, and until its call is made.

use crate::broker::attributes::Order;
use crate::broker::config::{self, NotReplaced};
use crate::broker::name_policy::{Operation, Refused};
use crate::broker::report::Report;
use crate::broker::resolve::{Place, c_string, is_directory};
use crate::broker::way::Way;
use crate::broker::{Shared, Worker};
use palisade_policy::names::repository::{MARKS, Marks, mark};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// How long to wait for a lock of another broker, in milliseconds. Brokers hold their locks for microseconds.
const PATIENCE: u32 = 200;
/// How many entries of a directory that becomes a repository are examined.
const LOOKED_AT: usize = 100_000;
/// Flags to list a directory and to lock it.
pub(crate) const LISTED: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The directories that are locked while a call is made.
#[derive(Default)]
pub(crate) struct Locks(RefCell<Vec<Lock>>);

struct Lock {
    directory: OwnedFd,
    device: u64,
    inode: u64,
}

impl Locks {
    /// Locks a directory until [`release`](Self::release): exclusively, or shared with brokers that only read.
    ///
    /// # Errors
    /// `EAGAIN` if another process doesn't release the lock.
    fn hold(&self, directory: OwnedFd, alone: bool) -> Result<(), Errno> {
        let stat = rustix::fs::fstat(&directory)?;
        let mut held = self.0.borrow_mut();
        let same = |lock: &Lock| (lock.device, lock.inode) == (stat.st_dev, stat.st_ino);
        let known = held.iter().position(same);
        // If the directory is locked already, use that open file: a second open file would wait for the first.
        let file = known.map_or(&directory, |at| &held[at].directory);
        let operation = match alone {
            true => FlockOperation::NonBlockingLockExclusive,
            false if known.is_some() => return Ok(()),
            false => FlockOperation::NonBlockingLockShared,
        };
        for _ in 0..PATIENCE {
            match rustix::fs::flock(file, operation) {
                Err(Errno::WOULDBLOCK) => std::thread::sleep(Duration::from_millis(1)),
                // Some network file systems have no such locks.
                Ok(()) | Err(_) => {
                    if known.is_none() {
                        held.push(Lock { directory, device: stat.st_dev, inode: stat.st_ino });
                    }
                    return Ok(());
                }
            }
        }
        Err(Errno::AGAIN)
    }

    /// Releases all locks.
    pub(crate) fn release(&self) {
        self.0.borrow_mut().clear();
    }
}

/// The marks of a directory. `None` if they can't be found out, or if another process has locked the directory.
pub(crate) fn marks_of(directory: Result<OwnedFd, Errno>, locks: &Locks) -> Option<Marks> {
    let directory = directory.ok()?;
    match rustix::fs::openat(&directory, c".", LISTED, Mode::empty()) {
        Ok(listed) => locks.hold(listed, false).ok().map(|()| marks_in(directory.as_fd())),
        // A directory that can't be listed can't be locked.
        Err(_) => Some(marks_in(directory.as_fd())).filter(|marks| *marks == Marks::default()),
    }
}

fn marks_in(directory: BorrowedFd<'_>) -> Marks {
    Marks::ask(|mark| {
        let name = c_string(MARKS[mark].as_bytes());
        let found = name.and_then(|name| rustix::fs::statat(directory, &*name, AtFlags::SYMLINK_NOFOLLOW));
        !matches!(found, Err(Errno::NOENT | Errno::NOTDIR))
    })
}

impl Shared {
    /// The lock to hold while a file of this name is made. A name that may complete a repository needs the exclusive
    /// lock.
    pub(crate) fn order_for(&self, name: &[u8]) -> Order<'_> {
        if mark(name).is_some() { Order::Alone(self.write_order()) } else { Order::Shared(self.read_order()) }
    }
}

impl Worker<'_> {
    /// Call this before a file is made at `inside`. If the file turns the directory into a repository, this judges
    /// whether the existing files may be in one.
    pub(crate) fn may_begin(&self, inside: &[u8], way: &dyn Way) -> Result<(), Box<Refused>> {
        let Some(slash) = inside.iter().rposition(|byte| *byte == b'/') else { return Ok(()) };
        let (directory, name) = (&inside[..slash], &inside[slash + 1..]);
        let Some(mark) = mark(name) else { return Ok(()) };
        let name_policy = &self.shared.name_policy;
        let Some(host) = name_policy.unnamed_repository(directory) else { return Ok(()) };
        let distrusted = |why: &str| {
            name_policy.distrust_repository(directory).map_err(|mut refused| {
                refused.detail = why.to_owned();
                refused
            })
        };
        let Ok(found) = way.open(1) else { return distrusted("the directory can't be opened") };
        // A directory that can't be listed can't be locked; `look_into` refuses it.
        if let Ok(listed) = rustix::fs::openat(&found, c".", LISTED, Mode::empty())
            && self.locks.hold(listed, true).is_err()
        {
            return distrusted("another process has locked the directory");
        }
        let marks = marks_in(found.as_fd());
        if marks.are_enough() || !marks.with(mark).are_enough() {
            return Ok(());
        }
        self.look_into(found, directory).map_err(|mut refused| {
            if refused.detail.is_empty() {
                let name = String::from_utf8_lossy(name);
                refused.detail = format!("with {name}, git would treat the directory as a repository");
            }
            refused
        })?;
        self.shared.reporter.tell(&Report::Repository { path: host });
        Ok(())
    }

    /// Judges the content of a directory as if each file were made in a repository.
    fn look_into(&self, directory: OwnedFd, inside: &[u8]) -> Result<(), Box<Refused>> {
        let name_policy = &self.shared.name_policy;
        let mut left = LOOKED_AT;
        let mut pending = vec![(directory, inside.to_vec())];
        while let Some((directory, path)) = pending.pop() {
            let listed = rustix::fs::openat(&directory, c".", LISTED, Mode::empty())
                .and_then(|listed| rustix::fs::Dir::read_from(&listed));
            let Ok(entries) = listed else { return name_policy.distrust_repository(inside) };
            for entry in entries {
                left = left.saturating_sub(1);
                let entry = entry.ok().filter(|_entry| left > 0);
                let Some(entry) = entry else { return name_policy.distrust_repository(inside) };
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let path = [&path, b"/".as_slice(), name.to_bytes()].concat();
                let operation = if is_directory(&directory, name, entry.file_type()) {
                    Operation::MakeDirectory
                } else if entry.file_type() == FileType::Symlink {
                    Operation::MakeLink
                } else {
                    Operation::MakeFile
                };
                match name_policy.check_in_new(operation, &path, inside) {
                    Ok(false) => {}
                    Ok(true) => {
                        if operation == Operation::MakeDirectory {
                            let below = rustix::fs::openat(&directory, name, LISTED, Mode::empty());
                            let Ok(below) = below else { return name_policy.distrust_repository(inside) };
                            pending.push((below, path));
                        }
                    }
                    Err(mut refused) => {
                        if !refused.content || operation != Operation::MakeFile {
                            return Err(refused);
                        }
                        let copied = directory
                            .try_clone()
                            .map_err(|_full| NotReplaced::Failed(Errno::MFILE))
                            .and_then(|parent| {
                                let place = Place { parent, name: name.to_owned() };
                                config::adopt(&self.shared.baselines, &place, &refused.path)
                            });
                        if let Err(error) = copied {
                            refused.detail = error.to_string();
                            return Err(refused);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}
