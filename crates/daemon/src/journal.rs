// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is said of decisions, and to whom: standard error, the system's log, whoever follows, and the terminal of the
//! process that was refused.
//!
//! Saying must not hold up deciding: decisions come over a bounded queue, and what doesn't fit is counted.

use crate::saying::{has_journal, say, say_decision};
use palisade_guard::watch::Judged;
use palisade_protocol::guard::Decided;
use palisade_text::shown;
use std::collections::HashMap;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Decisions that wait to be said, at most.
pub(crate) const QUEUE: usize = 4096;
/// Decisions that wait for one follower, at most.
const FOLLOWER: usize = 1024;
/// Terminals that are remembered as having heard something lately.
const TERMINALS: usize = 256;
/// How long lies between two tries at a terminal that somebody else writes to.
const MOMENT: Duration = Duration::from_millis(1);
/// So many tries there are within a second: what is said elsewhere waits meanwhile.
const TRIES: u32 = 200;
/// How often the same program's refusal of the same file is said on a terminal.
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

/// Those who follow: `palisade guard watch`.
#[derive(Debug, Default)]
pub(crate) struct Followers(Mutex<Vec<Follower>>);

#[derive(Debug)]
struct Follower {
    number: u64,
    /// Wants decisions that nobody wanted logged as well.
    all: bool,
    decisions: SyncSender<Decided>,
}

impl Followers {
    /// One more, by a number by which it can be taken away again. `tell` hears whether somebody wants every decision.
    pub(crate) fn add(&self, all: bool, tell: impl FnOnce(bool)) -> (u64, Receiver<Decided>) {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (decisions, receiver) = std::sync::mpsc::sync_channel(FOLLOWER);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut list = self.list();
        list.push(Follower { number, all, decisions });
        tell(list.iter().any(|follower| follower.all));
        (number, receiver)
    }

    /// One less.
    pub(crate) fn remove(&self, number: u64, tell: impl FnOnce(bool)) {
        let mut list = self.list();
        list.retain(|follower| follower.number != number);
        tell(list.iter().any(|follower| follower.all));
    }

    fn list(&self) -> MutexGuard<'_, Vec<Follower>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands it to each who wants it; who is slow misses it.
    fn tell(&self, decided: &Decided, logged: bool) {
        for follower in self.list().iter().filter(|follower| follower.all || logged) {
            let _missed = follower.decisions.try_send(decided.clone());
        }
    }
}

/// Says what comes over the queue until its other end is gone.
pub(crate) struct Journal {
    /// Whom to tell.
    pub(crate) followers: Arc<Followers>,
    /// Lines in a second.
    pub(crate) per_second: u64,
    /// Terminals are told.
    pub(crate) terminal: bool,
    /// Counts what isn't said because there is too much of it.
    pub(crate) unsaid: Box<dyn Fn(u64) + Send>,
}

impl Journal {
    /// Until the end.
    pub(crate) fn keep(self, queue: &Receiver<Judged>) {
        let log = SystemLog::default();
        let mut second = (Instant::now(), 0_u64, 0_u64);
        let mut tries = TRIES;
        let mut told: HashMap<(u32, String), Instant> = HashMap::new();
        for Judged { decided, syslog, terminal } in queue {
            let logged = syslog || !decided.decision.starts_with("allow");
            self.followers.tell(&decided, logged);
            if !logged {
                continue;
            }
            if second.0.elapsed() >= Duration::from_secs(1) {
                if second.2 > 0 {
                    say(&format!("palisaded: {} more decisions within a second weren't said", second.2));
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
            if !say_decision(&decided) {
                (self.unsaid)(1);
            }
            if syslog && !has_journal() {
                log.write(&decided.line);
            }
            if let Some(terminal) = terminal.filter(|_| self.terminal && decided.refused) {
                told.retain(|_, at| at.elapsed() < REPEAT);
                let key = (decided.pid, decided.path.clone());
                if told.len() < TERMINALS && !told.contains_key(&key) {
                    told.insert(key, Instant::now());
                    tell_terminal(&terminal, &decided, &mut tries);
                }
            }
        }
    }
}

/// Says a refusal where the user looks: on the terminal of the process. `tries` are those that are left of this second.
fn tell_terminal(terminal: &str, decided: &Decided, tries: &mut u32) {
    let Ok(mut file) = std::fs::OpenOptions::new().write(true).custom_flags_nonblocking().open(terminal)
    else {
        return;
    };
    let what = if decided.access == "execute" { "execute" } else { "open" };
    let rule = shown(decided.origin.as_deref().unwrap_or("no rule"));
    let path = shown(&decided.path);
    let text =
        format!("\r\npalisade: may not {what} {path} ({rule})\r\nhint: palisade guard explain {path}\r\n");
    // The shell prints its own message at the same time, and the kernel lets one of them write; but a terminal that is stopped
    // (Ctrl-S) takes nothing for as long as its user likes.
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

/// Opening a terminal must not wait for a carrier, nor make it the daemon's own.
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

/// The system's log (`/dev/log`), as far as there is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_hears_and_who_is_taken_away_does_not() {
        let followers = Followers::default();
        let (_, some) = followers.add(false, |all| assert!(!all));
        let (number, all) = followers.add(true, |all| assert!(all));
        followers.tell(&Decided::default(), false);
        followers.tell(&Decided::default(), true);
        assert_eq!((some.try_iter().count(), all.try_iter().count()), (1, 2));
        followers.remove(number, |all| assert!(!all));
        followers.tell(&Decided::default(), true);
        assert_eq!((some.try_iter().count(), all.try_iter().count()), (1, 0));
    }
}
