// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records events independently of followers: in a file, and on the terminal of the process that was refused.

use crate::log::Nonblocking;
use palisade_event::{Event, Verdict};
use palisade_text::shown;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The largest size of the log file. One earlier file is kept.
const LARGEST: u64 = 16 << 20;
/// How often the same message is written to a terminal.
const REPEAT: Duration = Duration::from_secs(10);

/// The log file, and the recent messages on terminals.
#[derive(Debug)]
pub(super) struct Log {
    state: Mutex<State>,
    path: PathBuf,
}

#[derive(Debug, Default)]
struct State {
    file: Option<File>,
    told: HashMap<(Option<u32>, String), Instant>,
}

impl Log {
    /// A log in `directory`.
    pub(super) fn new(directory: &Path) -> Self {
        Self { state: Mutex::default(), path: directory.join("scopes.jsonl") }
    }

    /// Records an event; `terminal` is the scope's terminal.
    pub(super) fn take(&self, event: &Event, terminal: Option<&Path>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.write(&self.path, event);
        if let Some(terminal) = terminal
            && event.verdict.stopped_it()
        {
            state.say(terminal, event);
        }
    }
}

impl State {
    /// Writes a line of JSON. A log that can't be written must not end anything.
    fn write(&mut self, path: &Path, event: &Event) {
        if self.file.as_ref().is_some_and(|log| log.metadata().is_ok_and(|found| found.len() > LARGEST)) {
            self.file = None;
            let _not_kept = std::fs::rename(path, path.with_extension("jsonl.1"));
        }
        if self.file.is_none() {
            if let Some(directory) = path.parent() {
                let _there = std::fs::create_dir_all(directory);
            }
            self.file = OpenOptions::new().create(true).append(true).mode(0o600).open(path).ok();
        }
        let Some(log) = &mut self.file else { return };
        let Ok(line) = serde_json::to_string(event) else { return };
        let line = palisade_text::json(line) + "\n";
        if log.write_all(line.as_bytes()).is_err() {
            self.file = None;
        }
    }

    /// Writes the event to the terminal, where the user looks.
    fn say(&mut self, terminal: &Path, event: &Event) {
        self.told.retain(|_, at| at.elapsed() < REPEAT);
        let object = event.object.to_string();
        let scope = event.subject.scope;
        let key = (scope, object.clone());
        if self.told.len() >= 256 || self.told.contains_key(&key) {
            return;
        }
        let Ok(mut file) = OpenOptions::new().write(true).custom_flags_nonblocking().open(terminal) else {
            return;
        };
        self.told.insert(key, Instant::now());
        let what = if event.verdict == Verdict::Killed { "killed" } else { "refused" };
        let scope = scope.unwrap_or_default();
        let _nobody_reads = write!(
            file,
            "\r\npalisade: {what} {} in scope {scope}: {}\r\nhint: palisade scope events --scope {scope}\r\n",
            shown(&object),
            shown(&event.why.text),
        );
    }
}
