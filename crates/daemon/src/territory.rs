// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches file systems as they appear and disappear.

use crate::saying::say;
use palisade_guard::settings::{Asked, Watch};
use palisade_guard::watch::engine::Engine;
use palisade_guard::watch::mounts::{self, Selection};
use palisade_host::mounts::Mount;
use palisade_sys::fanotify::Questions;
use palisade_text::Show as _;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The file systems that are watched.
#[derive(Debug, Default)]
pub(crate) struct Territory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watched: BTreeMap<(u32, u32), PathBuf>,
    unwatched: Vec<(PathBuf, String)>,
    left_out: BTreeSet<(u32, u32)>,
}

impl Territory {
    /// The mount points that are watched, and those that aren't with the reason.
    pub(crate) fn list(&self) -> (Vec<String>, Vec<(String, String)>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |path: &Path| path.display().to_string();
        (
            state.watched.values().map(|point| name(point)).collect(),
            state.unwatched.iter().map(|(point, reason)| (name(point), reason.clone())).collect(),
        )
    }

    /// The devices of file systems that the settings leave out.
    pub(crate) fn left_out(&self) -> BTreeSet<(u32, u32)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).left_out.clone()
    }

    /// Reads the mounts and watches those that the settings name. Reports once what can't be watched. What is watched stays
    /// watched if a look fails for a passing reason. Returns false in that case: the caller must look again.
    pub(crate) fn look(&self, engine: &Engine, mountinfo: &[u8], watch: &Watch) -> bool {
        let all = palisade_host::mounts::parse(mountinfo);
        let left_out = mounts::left_out(&all, watch);
        // A mount that is covered by another mount can't be reached by its path: that leads to the other mount.
        let is_there = |mount: &Mount| match open(mount).and_then(|file| is_of(&file, mount)) {
            Ok(is_it) => is_it,
            // If the path can't be opened for another reason, assume that the mount is there.
            Err(errno) => ![Errno::NOENT, Errno::NOTDIR].contains(&errno),
        };
        let is_kept = |mount: &Mount| {
            mounts::holds_files(mount) && (mounts::lies_below_served(mount, &all, watch) || is_there(mount))
        };
        let mounts: Vec<Mount> = all.iter().filter(|mount| is_kept(mount)).cloned().collect();
        let Selection { watched, unwatched } = mounts::select(&mounts, watch);
        let unwatched = unwatched.into_iter().map(|(point, reason)| (point, reason.to_owned())).collect();
        let questions = questions(watch.asked);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = State { unwatched, left_out, ..State::default() };
        let mut is_whole = true;
        let at = |device: (u32, u32), point: &Path| {
            mounts.iter().find(|mount| mount.device == device && mount.point == point)
        };
        for (device, point) in watched {
            let Some(mount) = at(device, &point) else { continue };
            // Watch it again even if it is watched already: another file system may have got the device number of one that
            // is gone.
            match self.begin(engine, mount, questions) {
                Ok(()) => {
                    if mounts::is_served(mount) && !state.watched.contains_key(&device) {
                        say(&format!(
                            "palisaded: {} is watched: a process that opens a file there waits for the files' server, and \
                             so do processes that wait for palisaded then",
                            point.shown()
                        ));
                    }
                    now.watched.insert(device, point);
                }
                Err(errno) if is_passing(errno) && state.watched.contains_key(&device) => {
                    is_whole = false;
                    now.watched.insert(device, point);
                }
                Err(errno) => {
                    is_whole &= !is_passing(errno);
                    let reason = errno.to_string();
                    if !state.unwatched.iter().any(|(known, _)| *known == point) {
                        say(&format!("palisaded: alarm: can't watch {}: {reason}", point.shown()));
                    }
                    now.unwatched.push((point, reason));
                }
            }
        }
        for device in state.watched.keys().filter(|device| !now.watched.contains_key(device)) {
            // Usually the file system is gone, and its mark with it. Another file system may be at its mount point now.
            if let Some(mount) = mounts.iter().find(|mount| mount.device == *device) {
                let _gone = marked(mount, |name| engine.gate().unwatch(name, questions));
            }
        }
        *state = now;
        is_whole
    }

    fn begin(&self, engine: &Engine, mount: &Mount, questions: Questions) -> Result<(), Errno> {
        engine.filesystems.add(&mount.point)?;
        marked(mount, |name| engine.gate().watch(name, questions))
    }

    /// Calls `look` whenever the mounts change, until `stop`. A new value of `stop` takes effect at the next change.
    pub(crate) fn follow(look: impl Fn(), stop: &AtomicBool) {
        let Ok(file) = File::open("/proc/self/mountinfo") else {
            say(
                "palisaded: alarm: /proc/self/mountinfo can't be read: new mounts aren't watched from now on",
            );
            return;
        };
        while !stop.load(Ordering::Relaxed) {
            let mut waited = [PollFd::new(&file, PollFlags::PRI | PollFlags::ERR)];
            if matches!(poll(&mut waited, None), Ok(1..)) {
                look();
            }
        }
    }
}

/// Opens what is at a mount point, without causing a question.
fn open(mount: &Mount) -> Result<OwnedFd, Errno> {
    rustix::fs::open(&mount.point, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Whether a file is of this mount. Asks only the kernel: the server of a file system may not answer, or not to root.
fn is_of(file: &OwnedFd, mount: &Mount) -> Result<bool, Errno> {
    let about = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
    let about = about.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let number = about.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    Ok(number == Some(mount.id))
}

/// Whether an error may soon pass: descriptors or memory are used up.
fn is_passing(errno: Errno) -> bool {
    [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::INTR].contains(&errno)
}

/// Changes the mark of the file system that is mounted there, and of no other.
fn marked(mount: &Mount, change: impl FnOnce(&CStr) -> Result<(), Errno>) -> Result<(), Errno> {
    let file = open(mount)?;
    if !is_of(&file, mount)? {
        return Err(Errno::NOENT);
    }
    let name = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(|_| Errno::INVAL)?;
    change(&name)
}

fn questions(asked: Asked) -> Questions {
    Questions { open: asked == Asked::OpenAndExecute, execute: true }
}
