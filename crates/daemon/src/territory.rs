// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which file systems are watched, as they come and go.

use crate::journal::say;
use palisade_guard::settings::{Asked, Watch};
use palisade_guard::watch::engine::Engine;
use palisade_guard::watch::mounts::{self, Selection};
use palisade_sys::fanotify::Questions;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// What is watched.
#[derive(Debug, Default)]
pub(crate) struct Territory {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watched: BTreeMap<(u32, u32), PathBuf>,
    unwatched: Vec<(PathBuf, String)>,
}

impl Territory {
    /// Mount points that are watched, and those that aren't with the reason.
    pub(crate) fn list(&self) -> (Vec<String>, Vec<(String, String)>) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |path: &Path| path.display().to_string();
        (
            state.watched.values().map(|point| name(point)).collect(),
            state.unwatched.iter().map(|(point, reason)| (name(point), reason.clone())).collect(),
        )
    }

    /// Looks at the mounts and watches what is to be watched; what can't be is told once.
    pub(crate) fn look(&self, engine: &Engine, mountinfo: &[u8], watch: &Watch) {
        let Selection { watched, unwatched } =
            mounts::select(&palisade_host::mounts::parse(mountinfo), watch);
        let questions = questions(watch.asked);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = State {
            unwatched: unwatched.into_iter().map(|(point, reason)| (point, reason.to_owned())).collect(),
            ..State::default()
        };
        for (device, point) in watched {
            if state.watched.contains_key(&device) {
                now.watched.insert(device, point);
                continue;
            }
            match self.begin(engine, &point, questions) {
                Ok(()) => {
                    now.watched.insert(device, point);
                }
                Err(reason) => {
                    if !state.unwatched.iter().any(|(known, _)| *known == point) {
                        say(&format!("palisaded: alarm: can't watch {}: {reason}", point.display()));
                    }
                    now.unwatched.push((point, reason));
                }
            }
        }
        for (device, point) in &state.watched {
            if !now.watched.contains_key(device) {
                // Gone with its file system, mostly; otherwise the settings have changed.
                let _gone = c_string(point).map(|point| engine.gate().unwatch(&point, questions));
            }
        }
        *state = now;
    }

    fn begin(&self, engine: &Engine, point: &Path, questions: Questions) -> Result<(), String> {
        let name = c_string(point).ok_or("its name has a NUL in it")?;
        engine.filesystems.add(point).map_err(|errno| format!("{errno}"))?;
        engine.gate().watch(&name, questions).map_err(|errno| format!("{errno}"))
    }

    /// Watches what is mounted from now on, until `stop`. `settings` are asked for each time.
    pub(crate) fn follow(&self, engine: &Engine, settings: impl Fn() -> Watch, stop: &AtomicBool) {
        let Ok(mut file) = File::open("/proc/self/mountinfo") else {
            say(
                "palisaded: alarm: /proc/self/mountinfo can't be read: what is mounted from now on isn't watched",
            );
            return;
        };
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        while !stop.load(Ordering::Relaxed) {
            let mut waited = [PollFd::new(&file, PollFlags::PRI | PollFlags::ERR)];
            if !matches!(poll(&mut waited, Some(&second)), Ok(1..)) {
                continue;
            }
            let mut text = Vec::new();
            if file.rewind().is_ok() && file.read_to_end(&mut text).is_ok() {
                self.look(engine, &text, &settings());
            }
        }
    }
}

fn c_string(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

fn questions(asked: Asked) -> Questions {
    Questions { open: asked == Asked::OpenAndExecute, execute: true }
}
