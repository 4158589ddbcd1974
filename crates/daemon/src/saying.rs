// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes messages to standard error, which may be a pipe that no process reads, or lead to systemd's journal. The host
//! waits for the thread that decides, so that thread must not wait for a reader. Another thread writes the messages; those
//! that find no room are counted, and the count is reported as soon as a process reads.

use crate::journald::{Journald, Message};
use palisade_event::{Detail, Event};
use palisade_text::shown;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The most lines that wait to be written.
const MOST: usize = 1024;
/// How long the end of the process waits for the last messages.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// The most messages in one second that any user can cause.
const EACH_SECOND: u64 = 10;

static QUEUE: OnceLock<Queue> = OnceLock::new();

struct Queue {
    lines: SyncSender<Message>,
    waiting: AtomicUsize,
    unsaid: AtomicU64,
    /// The journal, if standard error leads there.
    journal: Option<Journald>,
}

/// Starts the thread that writes messages.
pub(crate) fn begin() -> std::io::Result<()> {
    let (lines, said) = std::sync::mpsc::sync_channel(MOST);
    let (waiting, unsaid) = (AtomicUsize::new(0), AtomicU64::new(0));
    let queue = Queue { lines, waiting, unsaid, journal: Journald::behind_standard_error() };
    if QUEUE.set(queue).is_ok() {
        std::thread::Builder::new().name("said".into()).spawn(move || write(&said)).map(drop)?;
    }
    Ok(())
}

fn write(said: &Receiver<Message>) {
    let Some(queue) = QUEUE.get() else { return };
    // Capabilities belong to a thread. Those that can't be dropped are kept.
    let _kept = crate::privileges::drop_capabilities();
    let put = |message: Message| {
        if !queue.journal.as_ref().is_some_and(|journal| journal.send(&message)) {
            line_to_standard_error(&message.text);
        }
    };
    for message in said {
        let unsaid = queue.unsaid.swap(0, Ordering::Relaxed);
        if unsaid > 0 {
            let lost = format!("palisaded: {unsaid} lines weren't logged: no process read the earlier lines");
            put(Message::of_line(lost));
        }
        put(message);
        queue.waiting.fetch_sub(1, Ordering::Release);
    }
}

/// An unread standard error is no reason to end.
fn line_to_standard_error(line: &str) {
    let _nobody_reads = writeln!(std::io::stderr(), "{line}");
}

/// Writes one line. Names that it quotes are made safe to show. Returns false if there was no room.
pub(crate) fn say(line: &str) -> bool {
    put(Message::of_line(shown(line).to_string()))
}

/// Whether messages go to systemd's journal, which is the system's log.
pub(crate) fn has_journal() -> bool {
    QUEUE.get().is_some_and(|queue| queue.journal.is_some())
}

/// Reports a decision. Returns false if there was no room.
pub(crate) fn say_decision(event: &Event) -> bool {
    let Detail::Guard(guard) = &event.detail else { return true };
    put(Message::of_decision(shown(&guard.line).to_string(), event, guard))
}

fn put(message: Message) -> bool {
    let Some(queue) = QUEUE.get() else {
        line_to_standard_error(&message.text);
        return true;
    };
    queue.waiting.fetch_add(1, Ordering::Relaxed);
    let found_room = queue.lines.try_send(message).is_ok();
    if !found_room {
        queue.waiting.fetch_sub(1, Ordering::Relaxed);
        queue.unsaid.fetch_add(1, Ordering::Relaxed);
    }
    found_room
}

/// Writes a line that any user can cause, unless there were too many of them in this second.
pub(crate) fn say_of_users(line: &str) {
    struct Second {
        begun: Option<Instant>,
        said: u64,
    }
    static SECOND: Mutex<Second> = Mutex::new(Second { begun: None, said: 0 });
    let left_out = {
        let mut second = SECOND.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left_out = 0;
        if second.begun.is_none_or(|begun| begun.elapsed() >= Duration::from_secs(1)) {
            left_out = second.said.saturating_sub(EACH_SECOND);
            *second = Second { begun: Some(Instant::now()), said: 0 };
        }
        second.said += 1;
        if second.said > EACH_SECOND {
            return;
        }
        left_out
    };
    if left_out > 0 {
        say(&format!("palisaded: {left_out} more lines of that kind weren't logged"));
    }
    say(line);
}

/// Waits until all messages are written, but only for a moment if no process reads them.
pub(crate) fn finish() {
    let Some(queue) = QUEUE.get() else { return };
    let begun = Instant::now();
    while queue.waiting.load(Ordering::Acquire) > 0 && begun.elapsed() < LAST_WORDS {
        std::thread::sleep(Duration::from_millis(2));
    }
}
