// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The slots in which jobs run. As root each slot has an ordinary user of its own, made once for the run instead of once
//! for every test, so that the processes which a job leaves behind are found and ended.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use palisade_acceptance::person::{Person, PersonError};
use rustix::process::{Pid, Signal, kill_process};

use crate::scratch;

/// Why a slot can't be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotError {
    /// Its user can't be made.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// The tmpfs for the user's home can't be mounted.
    #[error("can't mount a tmpfs on {}: {source}; hint: PALISADE_TEST_SCRATCH=disk ./x test", home.display())]
    Mount {
        /// Which.
        home: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// A slot for one job at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    user: Option<Person>,
    /// Where a tmpfs is mounted.
    tmpfs: Vec<PathBuf>,
}

/// The directory beside a user's home where root's tests keep their files (`support` of the crate `cli`).
fn beside(user: &Person) -> PathBuf {
    PathBuf::from(format!("/home/{}-root", user.name))
}

impl Drop for Slot {
    fn drop(&mut self) {
        // `userdel` can't remove a mount point. It reports that if this fails.
        for mounted in &self.tmpfs {
            let _unmounted = scratch::unmount_home(mounted);
        }
        // A test that was interrupted has left its files there.
        if let Some(user) = &self.user {
            let _absent_mostly = std::fs::remove_dir_all(beside(user));
        }
    }
}

/// How long the teardown of a sandbox may take after its command has ended.
const TEARDOWN: Duration = Duration::from_secs(3);

impl Slot {
    /// Makes the slot's user where that is possible.
    ///
    /// # Errors
    /// If root can't make a user, or mount a file system for its home.
    pub(crate) fn new(number: usize) -> Result<Slot, SlotError> {
        let is_root = rustix::process::geteuid().is_root();
        let user = is_root.then(|| Person::ordinary(&format!("slot{number}"))).transpose()?;
        let mut slot = Slot { user, tmpfs: Vec::new() };
        if let Some(user) = slot.user.as_ref().filter(|_| scratch::is_private()) {
            let home = PathBuf::from("/home").join(&user.name);
            for (home, uid, gid) in [(home, user.uid, user.gid), (beside(user), 0, 0)] {
                std::fs::create_dir_all(&home)
                    .and_then(|()| scratch::mount_home(&home, uid, gid))
                    .map_err(|source| SlotError::Mount { home: home.clone(), source })?;
                slot.tmpfs.push(home);
            }
        }
        Ok(slot)
    }

    /// The environment variable that names the slot's user for a job.
    pub(crate) fn environment(&self) -> Option<(String, String)> {
        self.user.as_ref().map(|user| (palisade_acceptance::person::GIVEN.to_owned(), user.name.clone()))
    }

    /// Ends the processes that the user still runs, and returns their names.
    pub(crate) fn clear(&self) -> Vec<String> {
        let Some(user) = &self.user else { return Vec::new() };
        let until = Instant::now() + TEARDOWN;
        loop {
            let left = processes_of(user.uid);
            if left.is_empty() {
                return Vec::new();
            }
            if Instant::now() >= until {
                let names = left.iter().map(|(pid, name)| format!("{name} ({pid})")).collect();
                for (pid, _) in left {
                    if let Some(pid) = Pid::from_raw(pid) {
                        // It may have ended by itself.
                        let _ended = kill_process(pid, Signal::KILL);
                    }
                }
                return names;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes of a user that aren't dead yet, with their names.
fn processes_of(uid: u32) -> Vec<(i32, String)> {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            // The /proc directory of a process that isn't dumpable belongs to root, so it is skipped here. Such a process is a
            // command, and its launcher waits for its end.
            (entry.metadata().ok()?.uid() == uid).then_some(())?;
            let stat =
                std::fs::read_to_string(PathBuf::from("/proc").join(pid.to_string()).join("stat")).ok()?;
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            (!rest.trim_start().starts_with(['Z', 'X'])).then(|| (pid, name.to_owned()))
        })
        .collect()
}
