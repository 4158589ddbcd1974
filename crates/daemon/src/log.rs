// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports decisions: to standard error, the system's log, the followers, and the terminal of the process that was refused.
//!
//! Reporting must not delay deciding. Decisions arrive over a bounded queue, and those that don't fit are counted.

use crate::followers::{Followers, News};
use crate::saying::{has_journal, say, say_decision};
use palisade_event::{Detail, Event, Operation, Verdict};
use palisade_guard::watch::Judged;
use palisade_text::shown;
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The most decisions that wait to be reported.
pub(crate) const QUEUE: usize = 4096;
/// How many terminals are remembered that recently got a message.
const TERMINALS: usize = 256;
/// The time between two attempts to write to a terminal that another process writes to.
const MOMENT: Duration = Duration::from_millis(1);
/// The most attempts in one second: other messages wait meanwhile.
const TRIES: u32 = 200;
/// How often the same program's refusal of the same file is written to a terminal.
const REPEAT: Duration = Duration::from_secs(10);

/// An error and its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    words
}

/// Reports the decisions in the queue until its other end is closed.
pub(crate) struct DecisionLog {
    /// The followers to send to.
    pub(crate) followers: Arc<Followers>,
    /// The most lines in one second.
    pub(crate) per_second: u64,
    /// Whether to write to terminals.
    pub(crate) terminal: bool,
    /// Counts the decisions that aren't reported because there are too many.
    pub(crate) unsaid: Box<dyn Fn(u64) + Send>,
}

impl DecisionLog {
    /// Runs until the queue is closed.
    pub(crate) fn keep(self, queue: &Receiver<Judged>) {
        let log = SystemLog::default();
        let mut second = (Instant::now(), 0_u64, 0_u64);
        let mut tries = TRIES;
        let mut told: HashMap<(Option<u32>, String), Instant> = HashMap::new();
        for Judged { event, syslog, terminal, user } in queue {
            let logged = syslog || event.verdict != Verdict::Allowed;
            let event = Arc::new(event);
            self.followers.tell(News { event: Arc::clone(&event), user, logged });
            if !logged {
                continue;
            }
            if second.0.elapsed() >= Duration::from_secs(1) {
                if second.2 > 0 {
                    say(&format!("palisaded: {} more decisions in one second weren't logged", second.2));
                }
                second = (Instant::now(), 0, 0);
                tries = TRIES;
            }
            second.1 += 1;
            if second.1 > self.per_second {
                second.2 += 1;
                (self.unsaid)(1);
                continue;
            }
            if !say_decision(&event) {
                (self.unsaid)(1);
            }
            if let Detail::Guard(guard) = &event.detail
                && syslog
                && !has_journal()
            {
                log.write(&guard.line);
            }
            if let Some(terminal) = terminal.filter(|_| self.terminal && event.verdict == Verdict::Refused) {
                told.retain(|_, at| at.elapsed() < REPEAT);
                let key = (event.subject.pid, event.object.to_string());
                if told.len() < TERMINALS && !told.contains_key(&key) {
                    told.insert(key, Instant::now());
                    tell_terminal(&terminal, &event, &mut tries);
                }
            }
        }
    }
}

/// Writes a refusal to the terminal of the process, where the user looks. `tries` is how many attempts are left in this
/// second.
fn tell_terminal(terminal: &str, event: &Event, tries: &mut u32) {
    let Ok(mut file) = std::fs::OpenOptions::new().write(true).custom_flags_nonblocking().open(terminal)
    else {
        return;
    };
    let what = if event.operation == Operation::Execute { "execute" } else { "open" };
    let (rule, path) = (event.decided_by(), event.object.to_string());
    let (rule, path) = (shown(&rule), shown(&path));
    let word = palisade_text::quoted(&path.to_string());
    let text =
        format!("\r\npalisade: refused to {what} {path} ({rule})\r\nhint: palisade guard explain {word}\r\n");
    // Repeat, because the shell prints its own message at the same time, and the kernel lets only one of them write. But
    // limit the attempts, because a stopped terminal (Ctrl-S) accepts nothing for as long as its user likes.
    let mut rest = text.as_bytes();
    loop {
        match file.write(rest) {
            Ok(count) if count >= rest.len() => return,
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::WouldBlock && *tries > 0 => {
                *tries -= 1;
                std::thread::sleep(MOMENT);
            }
            Err(_nobody_reads) => return,
        }
    }
}

/// Opening a terminal must not wait for a carrier, and must not make it the daemon's controlling terminal.
pub(crate) trait Nonblocking {
    fn custom_flags_nonblocking(&mut self) -> &mut Self;
}

impl Nonblocking for std::fs::OpenOptions {
    fn custom_flags_nonblocking(&mut self) -> &mut Self {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt;
        let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
        self.custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
    }
}

/// The system's log (`/dev/log`), if there is one.
#[derive(Debug, Default)]
struct SystemLog(Mutex<Option<UnixDatagram>>);

/// `LOG_DAEMON | LOG_WARNING`.
const PRIORITY: u8 = 3 << 3 | 4;

impl SystemLog {
    fn write(&self, line: &str) {
        let mut socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if socket.is_none() {
            *socket = UnixDatagram::unbound().ok().filter(|socket| {
                socket.set_nonblocking(true).is_ok() && socket.connect(Path::new("/dev/log")).is_ok()
            });
        }
        let message = format!("<{PRIORITY}>palisaded[{}]: {}", std::process::id(), shown(line));
        if socket.as_ref().is_some_and(|socket| {
            socket.send(message.as_bytes()).is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock)
        }) {
            *socket = None;
        }
    }
}
