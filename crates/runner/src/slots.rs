// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places in which jobs run: as root each has an ordinary user of its own, made once for the run instead of once for
//! every test, so that what a job leaves behind is seen and ended.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use palisade_acceptance::person::{Person, PersonError};
use rustix::process::{Pid, Signal, kill_process};

use crate::scratch;

/// Why there is no place for jobs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SlotError {
    /// Its user.
    #[error(transparent)]
    Person(#[from] PersonError),
    /// The user's home.
    #[error("mount a tmpfs on {}: {source}; hint: PALISADE_TEST_SCRATCH=disk ./x test", home.display())]
    Mount {
        /// Which.
        home: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

/// A place for one job at a time.
#[derive(Debug)]
pub(crate) struct Slot {
    user: Option<Person>,
    /// Where a tmpfs is mounted.
    tmpfs: Vec<PathBuf>,
}

/// Beside a user's home: there root's tests keep their files (`support` of the crate `cli`).
fn beside(user: &Person) -> PathBuf {
    PathBuf::from(format!("/home/{}-root", user.name))
}

impl Drop for Slot {
    fn drop(&mut self) {
        // `userdel` can't remove a mount point. If this fails, it says so.
        for mounted in &self.tmpfs {
            let _unmounted = scratch::unmount_home(mounted);
        }
        // A test that was interrupted has left its files there.
        if let Some(user) = &self.user {
            let _absent_mostly = std::fs::remove_dir_all(beside(user));
        }
    }
}

/// What a sandbox that is being torn down may take after its command has ended.
const TEARDOWN: Duration = Duration::from_secs(3);

impl Slot {
    /// Makes the place's user where that is possible.
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

    /// What a job's environment says about it.
    pub(crate) fn environment(&self) -> Option<(String, String)> {
        self.user.as_ref().map(|user| (palisade_acceptance::person::GIVEN.to_owned(), user.name.clone()))
    }

    /// Ends what the user still runs, and names it.
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
            // A process that isn't dumpable has root's directory; it is the command's own then, whose end its
            // launcher waits for.
            (entry.metadata().ok()?.uid() == uid).then_some(())?;
            let stat =
                std::fs::read_to_string(PathBuf::from("/proc").join(pid.to_string()).join("stat")).ok()?;
            let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
            (!rest.trim_start().starts_with(['Z', 'X'])).then(|| (pid, name.to_owned()))
        })
        .collect()
}
