// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records a launch's refusals.
//!
//! Until the first refusal the recorder costs nothing: it touches no file and starts no thread. From then on one
//! thread writes. So neither a slow disk nor a terminal without a reader delays the thread that answers the program.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use palisade_event::{Detail, Event, Launch, Likeness, Verdict};

use crate::{Damper, Notices, Refusals, Store};

/// How many events may wait to be written. If more do, the disk doesn't respond; further events are dropped.
const LONGEST_QUEUE: usize = 4096;
/// How long the end of a launch waits for the last events to be written.
const PATIENCE: Duration = Duration::from_secs(1);
/// After a failure the store isn't tried again for this time.
const RETRY: Duration = Duration::from_secs(5);
/// How long one attempt waits for a store that other processes keep busy. The thread then does other work.
const BUSY: Duration = Duration::from_millis(150);
/// If other processes keep the store busy, it is tried again at this interval. At the end it is tried for the time
/// below, which is shorter than the launch waits.
const AGAIN: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_millis(250);

/// Records the refusals of one launch: in the store, and as some lines on standard error. It never fails and never
/// waits for a disk or a terminal. Several threads may use it.
///
/// Its thread inherits the signal mask of the thread that records first.
#[derive(Debug)]
pub struct Recorder {
    launch: Launch,
    shared: Arc<Shared>,
}

/// A function that gets each event when it is made.
struct Observer(Box<dyn Fn(&Event) + Send + Sync>);

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    observer: OnceLock<Observer>,
}

#[derive(Default)]
struct State {
    damper: Damper,
    queue: VecDeque<Event>,
    /// What the thread will need. Taken when it is started.
    idle: Option<Idle>,
    working: bool,
    closing: bool,
    /// The command has failed.
    failed: bool,
}

struct Idle {
    place: Box<dyn FnOnce() -> Option<PathBuf> + Send>,
    notices: Notices,
    refusals: Refusals,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("queue", &self.queue.len()).finish_non_exhaustive()
    }
}

impl Recorder {
    /// A recorder for one launch. `place` returns the path of the store, if there is one. The recorder's thread calls
    /// it, after the first refusal.
    pub fn new(
        launch: Launch,
        notices: Notices,
        place: impl FnOnce() -> Option<PathBuf> + Send + 'static,
    ) -> Self {
        let idle = Some(Idle { place: Box::new(place), notices, refusals: Refusals::default() });
        let state = Mutex::new(State { idle, ..State::default() });
        Self { launch, shared: Arc::new(Shared { state, ..Shared::default() }) }
    }

    /// Also passes each event to `observer`, which must not block.
    #[must_use]
    pub fn watched_by(self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        let _once = self.shared.observer.set(Observer(Box::new(observer)));
        self
    }

    /// Also passes refusals on to where programs read them.
    #[must_use]
    pub fn passing_on(self, refusals: Refusals) -> Self {
        if let Some(idle) = &mut self.shared.lock().idle {
            idle.refusals = refusals;
        }
        self
    }

    /// Records an event of this launch. Long texts are cut.
    pub fn record(&self, event: Event) {
        let mut event = Event { launch: Some(self.launch.clone()), ..event };
        event.shorten();
        self.take(&mut self.shared.lock(), event);
    }

    /// Records an event that is built only if no similar one was just recorded. This makes a loop of refusals cheap:
    /// building each event needs lookups in `/proc`.
    pub fn record_with(&self, likeness: Likeness<'_>, make: impl FnOnce() -> Event) {
        if self.shared.lock().damper.absorbs(likeness, Instant::now()) {
            return;
        }
        self.record(make());
    }

    fn take(&self, state: &mut State, event: Event) {
        let Some(event) = state.damper.pass(event, Instant::now()) else { return };
        self.shared.observed(&event);
        if state.queue.len() < LONGEST_QUEUE {
            state.queue.push_back(event);
        }
        if let Some(idle) = state.idle.take() {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new()
                .name("palisade-events".to_owned())
                .spawn(move || work(&shared, idle));
            // If the thread can't be started, no events are recorded, and the launch continues.
            state.working = started.is_ok();
        }
        self.shared.changed.notify_all();
    }

    /// Writes the remaining events and ends. Waits for a second at most. Dropping does the same. If the command has
    /// `failed`, the last refusals are printed again where the user may have lost sight of them.
    pub fn finish(self, failed: bool) {
        self.shared.lock().failed = failed;
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.shared.lock();
        state.closing = true;
        self.shared.changed.notify_all();
        while state.working {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observed(&self, event: &Event) {
        if let Some(Observer(observer)) = self.observer.get() {
            observer(event);
        }
    }

    /// Waits for work, at most until `until`: new events, counts of older ones, or the end.
    fn next(&self, until: Option<Instant>) -> (Vec<Event>, Vec<Event>, bool) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            let counted = if state.closing { state.damper.rest() } else { state.damper.due(now) };
            let late = until.is_some_and(|until| until <= now);
            if late || state.closing || !state.queue.is_empty() || !counted.is_empty() {
                return (state.queue.drain(..).collect(), counted, state.closing);
            }
            state = match [state.damper.next(), until].into_iter().flatten().min() {
                Some(next) => {
                    let left = next.saturating_duration_since(now);
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// The body of the recorder's thread.
fn work(shared: &Shared, idle: Idle) {
    let Idle { place, mut notices, mut refusals } = idle;
    let mut writer =
        Writer { path: place(), store: None, retry: None, waiting: Vec::new(), complained: false };
    loop {
        let until = (!writer.waiting.is_empty()).then(|| Instant::now() + AGAIN);
        let (mut events, counted, closing) = shared.next(until);
        // First for programs: the line for people may lead them to read it.
        events.iter().chain(&counted).for_each(|event| refusals.take(event));
        for event in events.iter().filter(|event| is_told(event)) {
            notices.refused(event);
        }
        refusals.complaints().iter().for_each(|complaint| notices.note(complaint));
        counted.iter().for_each(|event| shared.observed(event));
        events.extend(counted);
        writer.append(events, &mut notices);
        if closing {
            writer.conclude(&mut notices);
            if shared.lock().failed {
                notices.failed(Instant::now());
            }
            break;
        }
    }
    notices.flush();
    // Close the store before the launcher continues with its end.
    drop(writer);
    shared.lock().working = false;
    shared.changed.notify_all();
}

/// Whether a line is printed about an event. An allowed operation is printed only with a hint about it. An operation
/// that programs can do without is only stored.
fn is_told(event: &Event) -> bool {
    let expected = matches!(&event.detail, Detail::Sandbox(sandbox) if sandbox.expected);
    !expected && (event.verdict != Verdict::Allowed || event.hint.is_some())
}

struct Writer {
    path: Option<PathBuf>,
    store: Option<Store>,
    retry: Option<Instant>,
    /// Events that wait because other processes keep the store busy.
    waiting: Vec<Event>,
    complained: bool,
}

impl Writer {
    fn append(&mut self, events: Vec<Event>, notices: &mut Notices) {
        let Some(path) = self.path.clone() else {
            return self.complain("the state directory is unknown: set HOME or XDG_STATE_HOME", notices);
        };
        self.waiting.extend(events);
        if self.waiting.is_empty() || self.retry.is_some_and(|retry| Instant::now() < retry) {
            // Events during the pause after a failure are lost.
            return self.waiting.clear();
        }
        let events = std::mem::take(&mut self.waiting);
        match self.try_append(&path, &events, notices) {
            Ok(()) => {}
            Err(crate::StoreError::Busy { .. }) if events.len() < LONGEST_QUEUE => self.waiting = events,
            Err(error) => self.give_up(&error, notices),
        }
    }

    /// At the end: keeps trying for a short time.
    fn conclude(&mut self, notices: &mut Notices) {
        let until = Instant::now() + LAST;
        while !self.waiting.is_empty() && Instant::now() < until {
            std::thread::sleep(AGAIN);
            self.append(Vec::new(), notices);
        }
        if let (false, Some(path)) = (self.waiting.is_empty(), self.path.clone()) {
            self.give_up(&crate::StoreError::Busy { path }, notices);
        }
    }

    fn give_up(&mut self, error: &crate::StoreError, notices: &mut Notices) {
        self.store = None;
        self.retry = Some(Instant::now() + RETRY);
        let hint = error.hint().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
        self.complain(&format!("{error}{hint}"), notices);
    }

    fn try_append(
        &mut self,
        path: &Path,
        events: &[Event],
        notices: &mut Notices,
    ) -> Result<(), crate::StoreError> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert(Store::open_within(path, BUSY)?),
        };
        let appended = store.append(events);
        if let Some(aside) = store.take_aside() {
            notices.note(&format!("the store of refusals was damaged and has been moved to {aside:?}"));
        }
        appended
    }

    fn complain(&mut self, why: &str, notices: &mut Notices) {
        if !self.complained {
            self.complained = true;
            notices.note(&format!("refusals aren't recorded: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Filter;
    use crate::tests::{launch, refusal};
    use crate::{Entry, Style};
    use std::io::{PipeReader, Read};
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn recorder(path: Option<&Path>) -> (Recorder, PipeReader) {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = path.map(Path::to_owned);
        let notices = Notices::new(Box::new(writer), Style::Plain);
        (Recorder::new(launch(&["make", "all"]), notices, move || path), reader)
    }

    fn said(mut reader: PipeReader) -> String {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    }

    fn entries(path: &Path) -> Vec<Entry> {
        Store::find(path).unwrap().unwrap().after(0, &Filter::default()).unwrap().entries
    }

    #[test]
    fn nothing_is_touched_before_the_first_refusal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/events.sqlite");
        static ASKED: AtomicBool = AtomicBool::new(false);
        let (_, notices) = (0, Notices::new(Box::new(std::io::sink()), Style::Plain));
        let place = path.clone();
        let recorder = Recorder::new(launch(&["x"]), notices, move || {
            ASKED.store(true, Ordering::Relaxed);
            Some(place)
        });
        let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
        let before = threads();
        drop(recorder);
        assert!(!ASKED.load(Ordering::Relaxed) && !path.parent().unwrap().exists());
        assert!(threads() <= before);
    }

    #[test]
    fn a_refusal_is_recorded_and_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/events.sqlite");
        let (recorder, reader) = recorder(Some(&path));
        recorder.record(refusal("/a").with_hint(Some("palisade run --rw /a".into())));
        recorder.finish(false);
        let entries = entries(&path);
        assert_eq!(entries.len(), 1);
        assert_eq!(&*entries[0].event.launch.as_ref().unwrap().command, "make all");
        assert_eq!(entries[0].event.hint.as_deref(), Some("palisade run --rw /a"));
        assert_eq!(said(reader).lines().count(), 1);
    }

    #[test]
    fn a_loop_of_refusals_is_a_row_and_every_one_is_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sqlite");
        let (recorder, reader) = recorder(Some(&path));
        let event = refusal("/a");
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25_000 {
                        recorder.record_with(event.likeness(), || event.clone());
                    }
                });
            }
        });
        let took = begun.elapsed();
        recorder.finish(false);
        let entries = entries(&path);
        assert_eq!(entries.iter().map(|entry| entry.event.count).sum::<u64>(), 100_000);
        let seconds = usize::try_from(took.as_secs()).unwrap();
        assert!(entries.len() <= seconds + 2, "{} rows in {took:?}", entries.len());
        assert_eq!(said(reader).lines().count(), 1);
    }

    #[test]
    fn without_a_place_it_says_so_once_and_goes_on() {
        let (recorder, reader) = recorder(None);
        for number in 0..3 {
            recorder.record(refusal(&number.to_string()));
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(recorder);
        let text = said(reader);
        assert_eq!(text.lines().count(), 4, "{text}");
        assert_eq!(text.matches("note: refusals aren't recorded: ").count(), 1, "{text}");
    }

    #[test]
    fn a_place_that_others_may_write_to_is_refused_once_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let (recorder, reader) = recorder(Some(&dir.path().join("events.sqlite")));
        recorder.record(refusal("/a"));
        std::thread::sleep(Duration::from_millis(50));
        recorder.record(refusal("/b"));
        drop(recorder);
        let text = said(reader);
        assert_eq!(text.matches("may be written by others").count(), 1, "{text}");
        assert!(text.contains("chmod go-w"), "{text}");
        assert!(!dir.path().join("events.sqlite").exists());
    }

    #[test]
    fn a_store_that_others_keep_busy_holds_up_neither_words_nor_what_follows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sqlite");
        drop(Store::open(&path).unwrap());
        let holder = rusqlite::Connection::open(&path).unwrap();
        for (held_until_the_end, rows) in [(false, 2), (true, 2)] {
            holder.execute_batch("BEGIN EXCLUSIVE").unwrap();
            let (recorder, reader) = recorder(Some(&path));
            recorder.record(refusal("/a"));
            std::thread::sleep(Duration::from_millis(50));
            recorder.record(refusal("/b"));
            std::thread::sleep(PATIENCE / 2);
            if !held_until_the_end {
                holder.execute_batch("COMMIT").unwrap();
            }
            recorder.finish(false);
            let text = said(reader);
            assert!(text.contains("/a") && text.contains("/b"), "{text}");
            assert_eq!(
                text.contains("aren't recorded") && text.contains("busy"),
                held_until_the_end,
                "{text}"
            );
            if held_until_the_end {
                holder.execute_batch("COMMIT").unwrap();
            }
            assert_eq!(entries(&path).len(), rows);
        }
    }

    #[test]
    fn a_damaged_store_is_put_aside_and_the_refusal_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.sqlite");
        std::fs::write(&path, "no database").unwrap();
        let (recorder, reader) = recorder(Some(&path));
        recorder.record(refusal("/a"));
        drop(recorder);
        assert!(said(reader).contains("events.sqlite.damaged"));
        assert_eq!(entries(&path).len(), 1);
    }
}
