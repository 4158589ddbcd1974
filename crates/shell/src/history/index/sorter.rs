// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The thread that merges fresh lines into the base. The old base answers lookups meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use super::base::{Base, Builder};
use super::fresh::Line;

/// A job for the thread.
enum Job {
    /// Merge these lines into the base.
    Sort { base: Arc<Base>, lines: Vec<Line>, directories: usize, until: u64 },
    /// Free this memory: for many megabytes this takes a millisecond.
    Drop { _base: Arc<Base> },
}

/// The thread's result: the base with all changes up to `until`.
pub(super) struct Sorted {
    pub(super) base: Arc<Base>,
    pub(super) until: u64,
}

/// The thread; it starts with its first job, and ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Sorter {
    thread: Option<(Sender<Job>, Receiver<Sorted>)>,
    busy: bool,
}

impl Sorter {
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// Starts to sort. If no thread can be started, the lines stay fresh.
    pub(super) fn sort(&mut self, base: &Arc<Base>, lines: &[Line], directories: usize, until: u64) {
        if self.thread.is_none() {
            self.thread = start();
        }
        if let Some((jobs, _sorted)) = &self.thread {
            let job = Job::Sort { base: Arc::clone(base), lines: lines.to_vec(), directories, until };
            self.busy = jobs.send(job).is_ok();
        }
    }

    /// The sorted base, if it is ready; with `wait`, waits for it.
    pub(super) fn take(&mut self, wait: bool) -> Option<Sorted> {
        if !self.busy {
            return None;
        }
        let (_jobs, sorted) = self.thread.as_ref()?;
        let sorted = if wait {
            sorted.recv().ok()
        } else {
            match sorted.try_recv() {
                Err(TryRecvError::Empty) => return None,
                sorted => sorted.ok(),
            }
        };
        self.busy = false;
        if sorted.is_none() {
            self.thread = None;
        }
        sorted
    }

    pub(super) fn dispose(&self, base: Arc<Base>) {
        if let Some((jobs, _sorted)) = &self.thread {
            let _dropped_here_then = jobs.send(Job::Drop { _base: base });
        }
    }
}

fn start() -> Option<(Sender<Job>, Receiver<Sorted>)> {
    let (jobs, todo) = channel();
    let (done, sorted) = channel();
    let work = move || {
        while let Ok(job) = todo.recv() {
            let Job::Sort { base, lines, directories, until } = job else { continue };
            let base = Arc::new(merge(&base, lines, directories));
            if done.send(Sorted { base, until }).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("history-index".to_owned()).spawn(work).ok()?;
    Some((jobs, sorted))
}

/// A base with these lines in place of its own versions of them.
pub(super) fn merge(base: &Base, mut lines: Vec<Line>, directories: usize) -> Base {
    lines.sort_unstable_by(|one, other| one.text.cmp(&other.text));
    let (mut count, mut text, mut uses) = base.sizes();
    count += lines.len();
    for line in &lines {
        text += line.text.len() + 1;
        uses += line.uses.len();
    }
    let mut builder = Builder::new(count, text, uses);
    let mut lines = lines.into_iter().peekable();
    for at in (0..base.len()).filter(|at| base.is_there(*at)) {
        let old = base.line(at);
        while let Some(line) = lines.next_if(|line| &*line.text < old) {
            builder.push(&line.text, line.good, line.last, line.uses);
        }
        if lines.peek().is_some_and(|line| &*line.text == old) {
            continue;
        }
        let (good, last, uses) = base.record(at);
        builder.push(old, good, last, uses);
    }
    for line in lines {
        builder.push(&line.text, line.good, line.last, line.uses);
    }
    builder.finish(directories)
}
