// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The writer: the thread that writes to the store, so that the shell never waits for a disk.
//!
//! Each command is committed when it starts, and again when it ends. Changes that can't be written are kept for later,
//! the newest [`KEPT`] of them. The problem is reported once.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::store::Change;
use super::{Entry, Store, StoreError};

/// How many changes may wait for the thread; further ones are lost.
const WAITING: usize = 1024;
/// How many changes may wait for a store that can't be written.
const KEPT: usize = 1024;
/// The pause before the next attempt.
const PAUSE: Duration = Duration::from_secs(5);
/// How long dropping waits until everything is written.
const FAREWELL: Duration = Duration::from_millis(500);

/// The identity of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id(u64);

#[derive(Debug, Default)]
struct Shared {
    lost: AtomicU64,
    /// Changes that the thread hasn't tried to write.
    untried: AtomicU64,
    problems: Mutex<VecDeque<String>>,
}

/// Sends changes to the thread that writes them. On drop: waits at most half a second until everything is written.
#[derive(Debug)]
pub struct Writer {
    /// `None` when the thread is asked to end.
    changes: Option<SyncSender<Change>>,
    /// Closed by the thread when it ends.
    ended: Receiver<()>,
    shared: Arc<Shared>,
    next: AtomicU64,
}

impl Writer {
    /// Starts the thread for the store at `file`. The thread opens the store, and creates it if necessary. If no thread
    /// can be started, nothing is written, and [`Writer::problem`] says so.
    #[must_use]
    pub fn new(file: &Path) -> Self {
        let (changes, received) = sync_channel(WAITING);
        let (end, ended) = sync_channel(0);
        let shared = Arc::new(Shared::default());
        let mut desk = Desk::new(file, Arc::clone(&shared));
        let work = move || {
            let _end = end;
            desk.work(&received);
        };
        if let Err(error) = std::thread::Builder::new().name("history-writer".to_owned()).spawn(work) {
            shared.say(format!("the history isn't saved: can't start a thread: {error}"));
        }
        Self { changes: Some(changes), ended, shared, next: AtomicU64::new(0) }
    }

    /// Records that a command started. Never waits.
    pub fn started(&self, entry: Entry) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.send(Change::Started(id, Box::new(entry)));
        Id(id)
    }

    /// Records that the command ended after `duration` with this code. `context` is where it sent typed lines
    /// ([`Entry::context`]); empty: nothing new is known. Never waits.
    pub fn finished(&self, id: Id, exit: Option<i32>, duration: Option<Duration>, context: &str) {
        let duration = duration.map(|duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX));
        self.send(Change::Finished(id.0, exit, duration, context.to_owned()));
    }

    /// Deletes all entries of a line ([`Store::forget`]). Never waits.
    pub fn forget(&self, line: &str) {
        self.send(Change::Forget(line.to_owned()));
    }

    /// A message for the user, given once: nothing can be written, with a hint; or where a damaged store was moved to.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.shared.problems().pop_front()
    }

    /// How many changes were lost because the thread couldn't keep up, or because the store couldn't be written for
    /// long.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.lost.load(Ordering::Relaxed)
    }

    fn send(&self, change: Change) {
        let Some(changes) = &self.changes else { return };
        self.shared.untried.fetch_add(1, Ordering::Release);
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = changes.try_send(change) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            self.shared.untried.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether [`Writer::problem`] has something to say, or may have soon: the thread hasn't yet tried to write everything.
    #[must_use]
    pub fn may_tell(&self) -> bool {
        // In this order: the thread says the problem before it counts the change as tried.
        self.shared.untried.load(Ordering::Acquire) > 0 || !self.shared.problems().is_empty()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.changes = None;
        // The thread closes its end of the channel when it ends.
        let _in_time = self.ended.recv_timeout(FAREWELL);
    }
}

impl Shared {
    fn say(&self, problem: String) {
        self.problems().push_back(problem);
    }

    fn problems(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's state.
#[derive(Debug)]
struct Desk {
    file: PathBuf,
    store: Option<Store>,
    marks: HashMap<u64, i64>,
    kept: VecDeque<Change>,
    /// Don't try again before this time.
    again: Option<Instant>,
    told: bool,
    shared: Arc<Shared>,
}

impl Desk {
    fn new(file: &Path, shared: Arc<Shared>) -> Self {
        Self {
            file: file.to_owned(),
            store: None,
            marks: HashMap::new(),
            kept: VecDeque::new(),
            again: None,
            told: false,
            shared,
        }
    }

    fn work(&mut self, changes: &Receiver<Change>) {
        loop {
            let received = match self.again {
                Some(again) if !self.kept.is_empty() => {
                    changes.recv_timeout(again.saturating_duration_since(Instant::now()))
                }
                _ => changes.recv().map_err(|_closed| RecvTimeoutError::Disconnected),
            };
            let mut tried = 0;
            let mut open = match received {
                Ok(change) => {
                    self.keep(change);
                    tried += 1;
                    true
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => false,
            };
            // Changes that arrived meanwhile go into the same transaction.
            while open && self.kept.len() < KEPT {
                match changes.try_recv() {
                    Ok(change) => {
                        self.keep(change);
                        tried += 1;
                    }
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => open = false,
                }
            }
            if !open || self.again.is_none_or(|again| again <= Instant::now()) {
                self.write();
            }
            // During a pause the user knows already that nothing can be written.
            self.shared.untried.fetch_sub(tried, Ordering::Release);
            if !open {
                return;
            }
        }
    }

    fn keep(&mut self, change: Change) {
        if self.kept.len() == KEPT {
            self.kept.pop_front();
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.kept.push_back(change);
    }

    fn write(&mut self) {
        if self.kept.is_empty() {
            return;
        }
        match self.try_write() {
            Ok(()) => {
                self.kept.clear();
                self.again = None;
            }
            Err(error) => {
                self.store = None;
                self.again = Some(Instant::now() + PAUSE);
                if !self.told {
                    self.told = true;
                    let hint = hint(&error).map_or_else(String::new, |hint| format!("\nhint: {hint}"));
                    self.shared.say(format!("the history isn't saved for now: {error}{hint}"));
                }
            }
        }
    }

    fn try_write(&mut self) -> Result<(), StoreError> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(Store::open(&self.file)?),
        };
        store.change(self.kept.iter(), &mut self.marks)?;
        if let Some(aside) = store.take_aside() {
            let told = format!(
                "the history was damaged, so a new one was started; the damaged file is now {aside:?}"
            );
            self.shared.say(told);
        }
        Ok(())
    }
}

/// What the user can do about a store that can't be written.
fn hint(error: &StoreError) -> Option<String> {
    use rusqlite::ErrorCode;
    use std::io::ErrorKind;
    error.hint().or_else(|| match error {
        StoreError::Sqlite { path, source, .. } => match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Some(format!("make room: df -h {}", parent(path))),
            // So SQLite calls it where a file that it maps can't become longer.
            Some(ErrorCode::SystemIoFailure) if is_full(path) => {
                Some(format!("make room: df -h {}", parent(path)))
            }
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Some(format!("make the directory writable: ls -la {}", parent(path)))
            }
            _ => None,
        },
        StoreError::File { path, source, .. } => match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                Some(format!("make room: df -h {}", parent(path)))
            }
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Some(format!(
                "make the directory writable: ls -ld {}   # or set XDG_STATE_HOME",
                parent(path)
            )),
            _ => None,
        },
        _ => None,
    })
}

/// Whether the file system of a file has no room.
fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path.parent().unwrap_or(path)).is_ok_and(|found| found.f_bavail == 0)
}

/// The directory of a file, as a shell reads it.
fn parent(path: &Path) -> String {
    palisade_text::quoted(&path.parent().unwrap_or(path).to_string_lossy())
}
