// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that stores counts.

use super::{Counts, file};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long dropping waits until everything is written.
const FAREWELL: Duration = Duration::from_millis(500);

/// Sends counts to the thread that adds them to the file. On drop: waits at most half a second until everything is
/// written.
#[derive(Debug)]
pub struct MetricsThread {
    /// `None` when the thread is asked to end.
    counts: Option<SyncSender<Box<Counts>>>,
    /// Closed by the thread when it ends.
    ended: Receiver<()>,
    /// A problem to report to the user.
    problem: Arc<Mutex<Option<String>>>,
    /// Counts for which the thread's queue had no room.
    behind: Counts,
}

impl MetricsThread {
    /// Starts the thread for the file in a state directory. The thread creates the directory. If no thread can be
    /// started, nothing is stored, and [`MetricsThread::problem`] says so.
    #[must_use]
    pub fn in_directory(state: &Path) -> Self {
        let (counts, received) = sync_channel::<Box<Counts>>(4);
        let (end, ended) = sync_channel(0);
        let problem = Arc::new(Mutex::new(None));
        let (state, said) = (state.to_owned(), Arc::clone(&problem));
        let work = move || {
            let _end = end;
            work(&state, &received, &said);
        };
        if let Err(error) = std::thread::Builder::new().name("metrics".to_owned()).spawn(work) {
            say(&problem, format!("nothing is counted: can't start a thread: {error}"));
        }
        Self { counts: Some(counts), ended, problem, behind: Counts::default() }
    }

    /// Passes counts to the thread. Never waits.
    pub fn add(&mut self, counts: Counts) {
        let Some(sender) = &self.counts else { return };
        let mut all = core::mem::take(&mut self.behind);
        all.add(&counts);
        if all.is_empty() {
            return;
        }
        if let Err(TrySendError::Full(all) | TrySendError::Disconnected(all)) = sender.try_send(Box::new(all))
        {
            self.behind = *all;
        }
    }

    /// A message for the user, given once: nothing can be stored.
    #[must_use]
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for MetricsThread {
    fn drop(&mut self) {
        self.add(Counts::default());
        self.counts = None;
        // The thread closes its end of the channel when it ends.
        let _in_time = self.ended.recv_timeout(FAREWELL);
    }
}

fn say(problem: &Mutex<Option<String>>, words: String) {
    *problem.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
}

/// Adds the counts that arrive. Counts that can't be stored are added to the next ones.
fn work(state: &Path, received: &Receiver<Box<Counts>>, problem: &Mutex<Option<String>>) {
    let (mut waiting, mut told) = (Counts::default(), false);
    while let Ok(counts) = received.recv() {
        waiting.add(&counts);
        match file::add(state, &waiting) {
            Ok(()) => waiting = Counts::default(),
            Err(error) if !told => {
                told = true;
                say(problem, format!("counts can't be saved for now: {error}\nhint: {}", error.hint()));
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn what_cannot_be_kept_is_said_once_and_kept_later() {
        let home = tempfile::tempdir().unwrap();
        let state = home.path().join("file/palisade");
        std::fs::write(home.path().join("file"), "").unwrap();
        let mut metrics = MetricsThread::in_directory(&state);
        let one = || Counts { lines: 1, ..Counts::default() };
        metrics.add(one());
        let until = Instant::now() + Duration::from_secs(60);
        let said = loop {
            if let Some(said) = metrics.problem() {
                break said;
            }
            assert!(Instant::now() < until, "nothing is said");
            std::thread::yield_now();
        };
        assert!(said.contains("file/palisade") && said.contains("hint: ls -ld"), "{said}");
        std::fs::remove_file(home.path().join("file")).unwrap();
        metrics.add(one());
        let counted = || file::read(&state).unwrap().map_or(0, |counts| counts.lines);
        while counted() < 2 {
            assert!(Instant::now() < until, "nothing is kept");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(metrics.problem(), None);
    }

    #[test]
    fn nothing_makes_no_file() {
        let home = tempfile::tempdir().unwrap();
        drop(MetricsThread::in_directory(home.path()));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
