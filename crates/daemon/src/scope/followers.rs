// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom to tell what happened: who follows, a file, and the terminal of who was refused.

use crate::journal::Nonblocking;
use palisade_protocol::scope::Happened;
use palisade_text::shown;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Events that are remembered.
const REMEMBERED: usize = 4096;
/// Events that wait for one follower, at most.
const WAITING: usize = 1024;
/// The log file's size, at most; the one before is kept.
const LARGEST: u64 = 16 << 20;
/// How often the same is said on a terminal.
const REPEAT: Duration = Duration::from_secs(10);

/// Who follows: of which user's scopes, of which scope.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interest {
    /// `None`: everybody's.
    pub(super) owner: Option<u32>,
    /// `None`: all.
    pub(super) scope: Option<u32>,
    /// Only what was killed or refused.
    pub(super) refused: bool,
}

impl Interest {
    fn wants(&self, happened: &Happened) -> bool {
        self.owner.is_none_or(|owner| owner == happened.owner)
            && self.scope.is_none_or(|scope| scope == happened.scope)
            && (!self.refused || refused(happened))
    }
}

/// Whether something was kept from happening.
fn refused(happened: &Happened) -> bool {
    use palisade_protocol::scope::Verdict;
    matches!(happened.verdict, Verdict::Kill | Verdict::Refuse)
        && happened.what != "ended"
        && happened.what != "began"
}

#[derive(Debug, Default)]
struct State {
    past: VecDeque<Happened>,
    followers: Vec<(Interest, SyncSender<Happened>)>,
    log: Option<File>,
    told: HashMap<(u32, String), Instant>,
    missed: u64,
}

/// Those who are told.
#[derive(Debug)]
pub(super) struct Followers {
    state: Mutex<State>,
    path: PathBuf,
}

impl Followers {
    /// With a log in `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        Self { state: Mutex::default(), path: directory.join("scopes.jsonl") }
    }

    /// One more; with those events that are remembered, if `past`.
    pub(super) fn add(&self, interest: Interest, past: bool) -> (Vec<Happened>, Receiver<Happened>) {
        let (sender, receiver) = sync_channel(WAITING);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let past = if past {
            state.past.iter().filter(|happened| interest.wants(happened)).cloned().collect()
        } else {
            Vec::new()
        };
        state.followers.push((interest, sender));
        (past, receiver)
    }

    /// Events that slow followers missed.
    pub(super) fn missed(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).missed
    }

    /// Tells everybody; `terminal` is the scope's.
    pub(super) fn tell(&self, happened: Happened, terminal: Option<&Path>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { followers, missed, .. } = &mut *state;
        followers.retain(|(interest, follower)| {
            if !interest.wants(&happened) {
                return true;
            }
            match follower.try_send(happened.clone()) {
                Err(TrySendError::Disconnected(_)) => false,
                Err(TrySendError::Full(_)) => {
                    *missed += 1;
                    true
                }
                Ok(()) => true,
            }
        });
        state.write(&self.path, &happened);
        if let Some(terminal) = terminal
            && refused(&happened)
        {
            state.say(terminal, &happened);
        }
        if state.past.len() == REMEMBERED {
            state.past.pop_front();
        }
        state.past.push_back(happened);
    }
}

impl State {
    /// A line of JSON. That the log can't be written must not end anything.
    fn write(&mut self, path: &Path, happened: &Happened) {
        if self.log.as_ref().is_some_and(|log| log.metadata().is_ok_and(|found| found.len() > LARGEST)) {
            self.log = None;
            let _not_kept = std::fs::rename(path, path.with_extension("jsonl.1"));
        }
        if self.log.is_none() {
            if let Some(directory) = path.parent() {
                let _there = std::fs::create_dir_all(directory);
            }
            self.log = OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok();
        }
        let Some(log) = &mut self.log else { return };
        let Ok(line) = serde_json::to_string(happened) else { return };
        let line = palisade_text::json(line) + "\n";
        if log.write_all(line.as_bytes()).is_err() {
            self.log = None;
        }
    }

    /// Where the user looks.
    fn say(&mut self, terminal: &Path, happened: &Happened) {
        self.told.retain(|_, at| at.elapsed() < REPEAT);
        let key = (happened.scope, happened.path.clone());
        if self.told.len() >= 256 || self.told.contains_key(&key) {
            return;
        }
        let Ok(mut file) = OpenOptions::new().write(true).custom_flags_nonblocking().open(terminal) else {
            return;
        };
        self.told.insert(key, Instant::now());
        let what =
            if happened.verdict == palisade_protocol::scope::Verdict::Kill { "killed" } else { "refused" };
        let _nobody_reads = write!(
            file,
            "\r\npalisade: {what} {} in scope {}: {}\r\nhint: palisade scope events --scope {}\r\n",
            shown(&happened.path),
            happened.scope,
            shown(&happened.why),
            happened.scope
        );
    }
}
