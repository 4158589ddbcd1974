// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the newest entries of a file in bounded memory.

use std::collections::VecDeque;

use super::{Imported, Limits, Taken};
use crate::history::Entry;
use crate::history::entry::usable;

/// The distance between invented times, in nanoseconds.
const APART: i64 = 1_000;

/// The newest entries so far.
#[derive(Debug)]
pub(super) struct Newest {
    entries: VecDeque<(Entry, bool)>,
    most: usize,
    text: usize,
    most_text: usize,
    unusable: usize,
    older: usize,
}

impl Newest {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            entries: VecDeque::new(),
            most: limits.entries,
            text: 0,
            most_text: limits.text,
            unusable: 0,
            older: 0,
        }
    }

    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Counts an unusable entry.
    pub(super) fn refuse(&mut self) {
        self.unusable += 1;
    }

    /// Adds a command's bytes, its duration, and its time in nanoseconds since 1970 if that is known.
    pub(super) fn put_bytes(&mut self, line: &[u8], started: Option<i64>, duration: Option<i64>) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => {
                let timed = started.is_some();
                let started = started.unwrap_or(0);
                let entry = Entry { line: line.to_owned(), started, duration, ..Entry::default() };
                self.put(entry, timed);
            }
            Err(_) => self.refuse(),
        }
    }

    /// Adds an entry.
    pub(super) fn put(&mut self, entry: Entry, timed: bool) {
        if entry.line.trim().is_empty() {
            return;
        }
        if !usable(&entry.line) {
            self.refuse();
            return;
        }
        self.text += entry.line.len();
        self.entries.push_back((entry, timed));
        while self.entries.len() > self.most || self.text > self.most_text {
            let Some((oldest, _timed)) = self.entries.pop_front() else { break };
            self.text -= oldest.line.len();
            self.older += 1;
        }
    }

    /// Returns all entries. An entry without a time gets one right after the entry before it. The first entries get
    /// times right before the first entry that has a time, or else before `modified`.
    pub(super) fn finish(self, modified: i64) -> Imported {
        let mut entries = self.entries;
        let first = entries.iter().position(|(_entry, timed)| *timed);
        let begin = match first {
            Some(first) => entries[first].0.started,
            None => modified,
        };
        let leading = first.unwrap_or(entries.len());
        for (at, (entry, _timed)) in entries.iter_mut().take(leading).enumerate() {
            let before = i64::try_from(leading - at).unwrap_or(i64::MAX).saturating_mul(APART);
            entry.started = begin.saturating_sub(before);
        }
        let mut last = begin;
        for (entry, timed) in entries.iter_mut().skip(leading) {
            if !*timed {
                entry.started = last.saturating_add(APART);
            }
            last = entry.started;
        }
        Imported {
            entries: entries.into_iter().map(|(entry, timed)| Taken { entry, timed }).collect(),
            unusable: self.unusable,
            older: self.older,
            cut: false,
        }
    }
}
