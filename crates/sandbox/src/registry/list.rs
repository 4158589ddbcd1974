// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readers' side of the registry: lists running sandboxes. Entries of launches that ended without emptying them are
//! removed.

use super::directory::{Directory, Unusable};
use super::process::{self, Processes, Tree};
use super::record::{self, Content, HEADER, Record};
use super::slot::{self, SIZE};
use super::{RegistryError, Tier};
use palisade_host::places;
use palisade_policy::NetworkMode;
use palisade_sys::process::since_boot;
use palisade_sys::record_lock;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The most slots of another user that are read: that user's file may hold anything, and each slot may be locked.
const MOST_OF_OTHERS: usize = 4096;
/// Bytes that are read at a time.
const CHUNK: usize = 32 * SIZE;
/// How often a slot that is being written is read again, and how long after.
const LOOKS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(1);
/// The most repetitions in one file, in case a process holds slots without writing them.
const PAUSES: u32 = 200;

/// The state of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// Its launcher has ended, and the processes inside are about to end.
    Ending,
    /// Its launcher was killed. The command continues, because only Landlock confines it.
    Unattended,
}

impl State {
    /// The word for the state.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ending => "ending",
            Self::Unattended => "unattended",
        }
    }
}

/// A sandbox that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Its number, as in events.
    pub id: String,
    /// The name that the user gave it.
    pub name: Option<String>,
    /// The number of its user.
    pub user: u32,
    /// Its state.
    pub state: State,
    /// Which mechanisms separate it.
    pub tier: Tier,
    /// Its network mode.
    pub network: NetworkMode,
    /// The profile, or the application's profile.
    pub profile: Option<Vec<u8>>,
    /// The policy files that apply to it, in addition to the built-in layer.
    pub policies: Vec<Vec<u8>>,
    /// How many more policy files there are.
    pub more_policies: u32,
    /// The command's words.
    pub words: Vec<Vec<u8>>,
    /// There are more words.
    pub more_words: bool,
    /// The launcher's process.
    pub launcher: u32,
    /// Process 1 of the sandbox.
    pub init: Option<i32>,
    /// The command's process.
    pub command: i32,
    /// The number of its processes.
    pub processes: Processes,
    /// When it was started.
    pub started: SystemTime,
    /// The time since then, independent of changes to the clock.
    pub age: Duration,
}

/// The result of reading the registry.
#[derive(Debug, Default)]
pub struct Listed {
    /// Running sandboxes, in the order in which they were started.
    pub sandboxes: Vec<Sandbox>,
    /// Directories that can't be read.
    pub errors: Vec<RegistryError>,
    /// Entries of a newer version.
    pub newer: usize,
    /// Entries of launches that had ended, which were removed.
    pub removed: usize,
}

/// Reads these directories, each with the user that must own it. A missing directory has no entries.
#[must_use]
pub fn list<'p>(directories: impl IntoIterator<Item = (&'p Path, u32)>) -> Listed {
    let mut listed = Listed::default();
    let mut tree = None;
    for (path, uid) in directories {
        if let Err(error) = look_into(path, uid, &mut tree, &mut listed) {
            listed.errors.push(error);
        }
    }
    listed.sandboxes.sort_by(|one, other| (one.started, &one.id).cmp(&(other.started, &other.id)));
    listed
}

/// The existing runtime directories of all users, at their usual paths.
#[must_use]
pub fn of_all_users() -> Vec<(PathBuf, u32)> {
    let numbers = |directory: &str, prefix: &'static str| {
        let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries.filter_map(move |entry| entry.file_name().to_str()?.strip_prefix(prefix)?.parse::<u32>().ok())
    };
    let mut users: Vec<u32> = numbers("/run/user", "").chain(numbers("/tmp", "palisade-")).collect();
    users.sort_unstable();
    users.dedup();
    users.into_iter().flat_map(|uid| places::runtimes(uid).map(|path| (path, uid))).collect()
}

fn look_into(
    path: &Path,
    uid: u32,
    tree: &mut Option<Tree>,
    listed: &mut Listed,
) -> Result<(), RegistryError> {
    let directory = match Directory::find(path, uid) {
        Ok(directory) => directory,
        Err(Unusable::Absent) => return Ok(()),
        Err(Unusable::Error(error)) => return Err(error),
    };
    let own = uid == rustix::process::geteuid().as_raw();
    let file = match directory.look(own, uid) {
        // The file system has become read-only.
        Err(RegistryError::File { source: Errno::ROFS, .. }) => directory.look(false, uid)?,
        found => found?,
    };
    let Some(file) = file else { return Ok(()) };
    let mut look = Look { file: &file, uid, own, pauses: PAUSES, tree, listed };
    look.all().map_err(|source| RegistryError::file("read", path, source))
}

/// The state of reading one file.
struct Look<'l> {
    file: &'l OwnedFd,
    uid: u32,
    /// The file is the user's own: entries of ended launches are removed.
    own: bool,
    pauses: u32,
    tree: &'l mut Option<Tree>,
    listed: &'l mut Listed,
}

impl Look<'_> {
    fn all(&mut self) -> Result<(), Errno> {
        let size = u64::try_from(rustix::fs::fstat(self.file)?.st_size).unwrap_or(0);
        let size = size.min(slot::offset(slot::MOST));
        let mut chunk = vec![0; CHUNK];
        let (mut position, mut seen) = (0, 0);
        while position < size && (self.own || seen < MOST_OF_OTHERS) {
            // Skips parts of the file that were never written.
            position = match rustix::fs::seek(self.file, SeekFrom::Data(position)) {
                Ok(data) => data / SIZE as u64 * SIZE as u64,
                Err(Errno::NXIO) => break,
                Err(_no_such_call) => position,
            };
            let wanted = usize::try_from(size.saturating_sub(position)).unwrap_or(CHUNK).min(CHUNK);
            let read = rustix::io::pread(self.file, &mut chunk[..wanted], position)?;
            if read == 0 {
                break;
            }
            for (slot, bytes) in (position / SIZE as u64..).zip(chunk[..read].chunks(SIZE)) {
                // Most slots are empty. They need no further call.
                if record::decoded(bytes) != Content::Empty {
                    self.one(slot)?;
                    seen += 1;
                }
            }
            position += CHUNK as u64;
        }
        Ok(())
    }

    /// Reads a slot.
    fn one(&mut self, slot: u64) -> Result<(), Errno> {
        let mut bytes = [0; SIZE];
        for look in 1..=LOOKS {
            // Checked before the record is read: a launcher that holds `life` has written the whole record.
            let held = record_lock::is_taken(self.file.as_fd(), slot::life(slot))?;
            let read = rustix::io::pread(self.file, &mut bytes, slot::offset(slot))?;
            let content = record::decoded(&bytes[..read]);
            let changing = || record_lock::is_taken(self.file.as_fd(), slot::change(slot));
            match content {
                Content::Empty => return Ok(()),
                Content::Newer => {
                    self.listed.newer += 1;
                    return Ok(());
                }
                Content::Record(record) if held => {
                    self.add(&record, true);
                    return Ok(());
                }
                // A launcher is writing, or another reader is removing the entry.
                _ if look < LOOKS && self.pauses > 0 && (held || changing()?) => {
                    self.pauses -= 1;
                    std::thread::sleep(PAUSE);
                }
                Content::Record(record) => {
                    // Asked once: the process may end at any moment, and an entry is either listed or removed.
                    match left(&record) {
                        Left::Nothing => self.forget(slot, &bytes[..read])?,
                        Left::Something => self.add(&record, false),
                        // Its processes belong to another PID namespace. It is shown if its process seems to live.
                        Left::Unknown if process::lives(record.last(), record.written) => {
                            self.add(&record, false)
                        }
                        Left::Unknown => {}
                    }
                    return Ok(());
                }
                Content::Garbage => return self.forget(slot, &bytes[..read]),
            }
        }
        Ok(())
    }

    /// Removes an entry of a launch that has ended, if the file is the user's own.
    fn forget(&mut self, slot: u64, seen: &[u8]) -> Result<(), Errno> {
        self.listed.removed += usize::from(self.own && self.remove(slot, seen)?);
        Ok(())
    }

    /// Empties a slot if its content is unchanged and no launcher holds it. A launch takes a slot under the same lock.
    fn remove(&self, slot: u64, seen: &[u8]) -> Result<bool, Errno> {
        let file = self.file.as_fd();
        if !record_lock::take(file, slot::change(slot))? {
            return Ok(false);
        }
        let mut bytes = [0; SIZE];
        let read = rustix::io::pread(file, &mut bytes, slot::offset(slot))?;
        let same = bytes[..read] == *seen && !record_lock::is_taken(file, slot::life(slot))?;
        let emptied = same && rustix::io::pwrite(file, &[0; HEADER], slot::offset(slot)) == Ok(HEADER);
        record_lock::give_back(file, slot::change(slot))?;
        Ok(emptied)
    }

    fn add(&mut self, record: &Record<'_>, held: bool) {
        let state = match (held || record.replaced, record.init) {
            (true, _) => State::Running,
            (false, Some(_)) => State::Ending,
            (false, None) => State::Unattended,
        };
        // If the launcher lives but isn't found, its numbers are of another PID namespace.
        let launcher = i32::try_from(record.number.launcher).unwrap_or(0);
        let known = match record.view {
            0 => !held || process::lives(launcher, record.written),
            view => view == process::own_view(),
        };
        let processes = if known {
            let tree = self.tree.get_or_insert_with(Tree::read);
            tree.inside(record.command, record.init, record.written)
        } else {
            Processes::Unknown
        };
        let owned = |parts: record::Bytes<'_>| parts.parts().map(<[u8]>::to_vec).collect();
        self.listed.sandboxes.push(Sandbox {
            id: record.number.to_string(),
            name: record.name.map(str::to_owned),
            user: self.uid,
            state,
            tier: record.tier,
            network: record.network,
            profile: record.profile.map(|profile| profile.0.to_vec()),
            policies: owned(record.policies),
            more_policies: record.more_policies,
            words: owned(record.words),
            more_words: record.more_words,
            launcher: record.number.launcher,
            init: record.init,
            command: record.command,
            processes,
            started: record.number.time(),
            age: Duration::from_nanos(since_boot().saturating_sub(record.written)),
        });
    }
}

/// What remains of a launch whose launcher doesn't hold its slot: the launcher has become the command, or was killed,
/// and its processes may still live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing.
    Nothing,
    /// The process whose end ends the sandbox.
    Something,
    /// The numbers may be of another PID namespace, so this isn't known.
    Unknown,
}

/// Two times of the machine's start that differ by less count as the same.
const SAME_BOOT: u64 = 2_000_000_000;
/// An entry that no reader could judge counts as ended after a day.
const FORGOTTEN: u64 = 24 * 3600 * 1_000_000_000;

pub(super) fn left(record: &Record<'_>) -> Left {
    let lives = process::lives(record.last(), record.written);
    if record.view != 0 && record.view != process::own_view() {
        let old = since_boot().saturating_sub(record.written) > FORGOTTEN;
        return if old && !lives { Left::Nothing } else { Left::Unknown };
    }
    // The times differ if the clock was set, or if the entry is of an earlier start, in a directory that survived it.
    let same_boot = || record.boot.abs_diff(super::boot(since_boot())) < SAME_BOOT;
    let words = || record.words.parts().map(<[u8]>::to_vec).take(words_known(record));
    let is_it = lives && (same_boot() || process::resembles(record.last(), record.init.is_some(), words()));
    if is_it { Left::Something } else { Left::Nothing }
}

/// How many of a command's words are complete.
fn words_known(record: &Record<'_>) -> usize {
    record.words.parts().count() - usize::from(record.more_words)
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
