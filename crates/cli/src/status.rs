// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of `--status-fd`: the command's start and end, and what it was refused.
//!
//! The recorder's thread writes refusals, and the launcher the rest. A reader may read only when the command has ended.
//! So refusals never fill the pipe: they would keep the launcher from its last line, and the reader from its end.

use palisade_event::Refusal;
use palisade_events::{JsonLines, RefusalOutlet, Sink};
use palisade_sandbox::apply::monitor::Outcome;
use palisade_sandbox::apply::start::Running;
use palisade_sandbox::error::StartError;
use palisade_sandbox::guarantee;
use palisade_sandbox::plan::Plan;
use rustix::fs::FileType;
use rustix::io::Errno;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The part of a pipe that refusals may fill. Lines take up to twice their size, because a page holds whole lines.
const SHARE_OF_PIPE: usize = 4;
/// How many bytes of refusals go to another descriptor than a pipe or a file: what it holds unread can't be asked.
const MOST: usize = 64 << 10;

/// One line of `--status-fd`.
#[derive(Debug, Serialize)]
pub(crate) struct Status<'r> {
    schema: u32,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// A refusal, with its count so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'r Refusal<'r>>,
    /// How many lines about refusals weren't written, because the reader was too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusals_lost: Option<u64>,
    /// The mechanism of each guarantee. A guarantee that the launch lacks has none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    guarantees: BTreeMap<&'static str, Option<&'static str>>,
}

impl<'r> Status<'r> {
    const fn of(event: &'static str) -> Self {
        Self {
            schema: 1,
            event,
            pid: None,
            init: None,
            code: None,
            signal: None,
            error: None,
            refusal: None,
            refusals_lost: None,
            guarantees: BTreeMap::new(),
        }
    }

    pub(crate) fn started(running: Running, plan: &Plan<'_>) -> Self {
        let held = guarantee::held(plan).into_iter();
        let guarantees = held.map(|held| (held.guarantee.name(), held.by)).collect();
        Self { pid: Some(running.pid), init: running.init, guarantees, ..Self::of("started") }
    }

    pub(crate) fn ended(outcome: Outcome) -> Self {
        let signal = match outcome {
            Outcome::Killed(signal) => Some(signal),
            Outcome::Exited(_) => None,
        };
        Self { code: Some(outcome.code()), signal, ..Self::of("ended") }
    }

    pub(crate) fn failed(error: &StartError) -> Self {
        Self { code: Some(error.exit_code()), error: Some(error.to_string()), ..Self::of("failed") }
    }

    fn refused(refusal: &'r Refusal<'r>) -> Self {
        Self { refusal: Some(refusal), ..Self::of("refused") }
    }
}

impl fmt::Display for Status<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.event)
    }
}

/// A copy of an inherited descriptor. The command doesn't get the copy.
#[derive(Debug, Clone)]
pub(crate) struct StatusDescriptor(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    lines: JsonLines<File>,
    descriptor: OwnedFd,
    kind: FileType,
    /// The bytes of refusals that were written.
    written: usize,
    lost: u64,
}

impl StatusDescriptor {
    /// The descriptor of this number.
    pub(crate) fn inherited(fd: i32) -> Result<Self, Errno> {
        // Not opened by its name in /proc: another user's file or pipe can't be opened so, and a socket can't at all.
        let copy = palisade_sys::process::inherited(u32::try_from(fd).map_err(|_negative| Errno::BADF)?)?;
        Self::new(copy)
    }

    fn new(descriptor: OwnedFd) -> Result<Self, Errno> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&descriptor)?.st_mode);
        let lines = JsonLines::new(File::from(descriptor.try_clone().map_err(|_full| Errno::MFILE)?));
        Ok(Self(Arc::new(Mutex::new(Inner { lines, descriptor, kind, written: 0, lost: 0 }))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line.
    pub(crate) fn emit(&self, mut status: Status<'_>) {
        let mut inner = self.lock();
        status.refusals_lost = Some(inner.lost).filter(|lost| *lost > 0);
        inner.lines.emit(&status);
    }
}

impl Inner {
    /// Whether a line of this length can be written without waiting for the reader.
    fn has_room(&self, length: usize) -> bool {
        match self.kind {
            FileType::RegularFile => true,
            FileType::Fifo => {
                let unread = rustix::io::ioctl_fionread(&self.descriptor).unwrap_or(u64::MAX);
                let size = rustix::pipe::fcntl_getpipe_size(&self.descriptor).unwrap_or_default();
                usize::try_from(unread)
                    .is_ok_and(|unread| unread.saturating_add(length) <= size / SHARE_OF_PIPE)
            }
            _ => self.written + length <= MOST,
        }
    }
}

impl RefusalOutlet for StatusDescriptor {
    fn take(&mut self, _number: usize, refusal: &Refusal<'_>) {
        let mut inner = self.lock();
        let status = Status::refused(refusal);
        let length = serde_json::to_string(&status).map_or(usize::MAX, |line| line.len());
        if inner.has_room(length) {
            inner.written += length;
            inner.lines.emit(&status);
        } else {
            inner.lost += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_event::{Detail, Event, Mechanism, Object, Operation, Sandbox, Subject, Verdict, Why};
    use std::io::{BufRead, BufReader, PipeReader};
    use std::time::SystemTime;

    fn refusal(object: &str) -> Event {
        Event::new(
            SystemTime::now(),
            Detail::Sandbox(Sandbox::default()),
            Subject { program: "sed".into(), ..Subject::default() },
            (Operation::Write, Object::file(object)),
            (Verdict::Refused, Mechanism::Mount),
            Why::text("nothing allows it"),
        )
    }

    fn piped() -> (PipeReader, StatusDescriptor) {
        let (reader, writer) = std::io::pipe().unwrap();
        (reader, StatusDescriptor::new(writer.into()).unwrap())
    }

    /// Nobody reads until the end: without a limit the last line would wait for ever.
    #[test]
    fn refusals_leave_room_for_the_end() {
        for length in [1, 500, 2100, 5000] {
            let (reader, status) = piped();
            let mut outlet = status.clone();
            for number in 0..2000 {
                let event = refusal(&format!("/{}{number}", "x".repeat(length)));
                outlet.take(number, &Refusal::new(&event, 1));
            }
            status.emit(Status::ended(Outcome::Exited(3)));
            drop((status, outlet));
            let lines: Vec<serde_json::Value> = BufReader::new(reader)
                .lines()
                .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
                .collect();
            let (last, refused) = lines.split_last().unwrap();
            assert!(!refused.is_empty() && refused.iter().all(|line| line["event"] == "refused"));
            assert_eq!((&last["event"], &last["code"]), (&"ended".into(), &3.into()));
            assert_eq!(last["refusals_lost"], 2000 - refused.len(), "none is lost without a word");
        }
    }

    #[test]
    fn a_reader_that_reads_loses_nothing() {
        let (reader, status) = piped();
        let mut reader = BufReader::new(reader);
        let mut outlet = status.clone();
        for number in 0..500 {
            outlet.take(number, &Refusal::new(&refusal("/a"), 7));
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!((&line["refusal"]["count"], &line["refusal"]["object"]), (&7.into(), &"/a".into()));
        }
        status.emit(Status::ended(Outcome::Exited(0)));
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(!line.contains("lost"), "{line}");
    }
}
