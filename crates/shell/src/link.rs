// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The link with palisaded: each line's processes become a scope, and the shell reports what the kernel refuses in it.
//!
//! The shell's own process is marked while one of its lines runs. Processes that it starts meanwhile inherit the mark
//! and keep it. The shell at its prompt isn't marked, nor is what it starts there.
//!
//! A line waits for the daemon at most the configured time ([`PATIENCE`] by default), and only once: while an answer is
//! due, no further request is sent, and lines run as they would without a daemon. Nothing else waits.

mod talk;

use palisade_event::{Detail, Event, Verdict};
use palisade_protocol::client::restart_hint;
use palisade_protocol::scope::{Request, Response, Wanted};
use palisade_text::harmless;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use talk::{Talk, TalkError};

/// The default for the longest time that a line waits for the daemon.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// How many of our scopes are remembered.
const SCOPES: usize = 64;
/// How many refusals are reported one by one.
const TOLD: usize = 4;
/// `PROC_PID_INIT_INO` of `linux/proc_ns.h`. Only in this namespace are process numbers the same as the daemon's.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Line,
    Release,
}

/// The link of one shell with palisaded.
#[derive(Debug)]
pub struct Link {
    socket: PathBuf,
    patience: Duration,
    shell: u32,
    /// Whether scopes are possible in this process.
    possible: bool,
    ask: Option<Talk>,
    watch: Option<Talk>,
    /// The unanswered requests, oldest first.
    due: VecDeque<Asked>,
    /// The scope that the shell is in.
    held: Option<u32>,
    /// A line of the shell runs.
    running: bool,
    own: VecDeque<u32>,
    refused: Vec<(u32, String)>,
    more: usize,
    problem: Option<String>,
    /// The problems that were reported: each is reported once.
    complained: Vec<String>,
    waits: u64,
}

impl Link {
    /// The link for the shell with this process number. `socket` is the daemon's socket, and `patience` is how long a
    /// line waits. Nothing is requested yet.
    #[must_use]
    pub fn of(shell: u32, socket: &Path, patience: Duration) -> Self {
        let possible =
            std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_NAMESPACE);
        Self {
            socket: socket.to_owned(),
            patience,
            shell,
            possible,
            ask: None,
            watch: None,
            due: VecDeque::new(),
            held: None,
            running: false,
            own: VecDeque::with_capacity(SCOPES),
            refused: Vec::new(),
            more: 0,
            problem: None,
            complained: Vec::new(),
            waits: 0,
        }
    }

    /// Opens the conversation, so that the daemon is ready for the first line. Waits for nothing.
    pub fn begin(&mut self) {
        if !self.possible {
            return;
        }
        if self.watch.is_none() {
            let follow = Request::Follow { scope: None, past: false, end: false, refused: true };
            self.watch = self.opened(&follow);
        }
        if self.ask.is_none() {
            // Releases any earlier mark: between two lines the shell isn't marked.
            self.ask = self.opened(&Request::Release { pid: self.shell });
            self.held = None;
            self.due.clear();
            if self.ask.is_some() {
                self.due.push_back(Asked::Release);
            }
        }
    }

    fn opened(&mut self, first: &Request) -> Option<Talk> {
        let talk = Talk::begin(&self.socket).and_then(|mut talk| {
            talk.ask(first)?;
            Ok(talk)
        });
        talk.map_err(|error| self.complain(&error)).ok()
    }

    /// A line is about to run. The processes that it starts become a scope with these properties.
    pub fn run(&mut self, wanted: Wanted) {
        if !self.possible {
            return;
        }
        self.hear();
        // The end of the line before may not have been reported. It has ended, since the next one begins.
        self.over();
        self.begin();
        self.running = true;
        // An answer is still due, so the line doesn't wait again.
        if self.due.contains(&Asked::Line) {
            return;
        }
        if self.tell(&Request::Line { pid: self.shell, scope: wanted }) {
            self.due.push_back(Asked::Line);
        }
        let until = Instant::now() + self.patience;
        while self.due.contains(&Asked::Line) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let words = "palisaded doesn't answer: until it does, lines run without a scope";
                self.say_once(words, restart_hint());
                return;
            }
            self.wait(left);
            self.hear();
        }
    }

    /// The line has ended.
    pub fn over(&mut self) {
        if !core::mem::take(&mut self.running) {
            return;
        }
        if self.ask.is_none() && self.held.is_some() {
            return self.begin();
        }
        if (self.held.is_some() || self.due.contains(&Asked::Line))
            && self.tell(&Request::Release { pid: self.shell })
        {
            self.due.push_back(Asked::Release);
        }
    }

    /// Reads the answers that have arrived. Waits for nothing.
    pub fn hear(&mut self) {
        while let Some(talk) = &mut self.ask {
            match talk.flush().and_then(|()| talk.answer()) {
                Ok(Some(response)) => self.answered(response),
                Ok(None) => break,
                Err(error) => {
                    self.complain(&error);
                    self.ask = None;
                    self.due.clear();
                }
            }
        }
        while let Some(talk) = &mut self.watch {
            match talk.flush().and_then(|()| talk.answer()) {
                Ok(Some(Response::Event(event))) => self.happened(&event),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    self.complain(&error);
                    self.watch = None;
                }
            }
        }
    }

    /// The descriptors to poll, with the events to poll for.
    pub fn polled(&self) -> [Option<(BorrowedFd<'_>, PollFlags)>; 2] {
        [&self.ask, &self.watch].map(|talk| {
            let talk = talk.as_ref()?;
            let out = if talk.is_waiting() { PollFlags::OUT } else { PollFlags::empty() };
            Some((talk.fd(), PollFlags::IN | out))
        })
    }

    /// Messages for the user, if there are any: each line has a line end.
    pub fn words(&mut self) -> Option<String> {
        let mut words = String::new();
        for (_, what) in self.refused.iter().take(TOLD) {
            words.push_str(&format!("palisade: {what}\n"));
        }
        let more = self.more + self.refused.len().saturating_sub(TOLD);
        if more > 0 {
            words.push_str(&format!("palisade: and {more} more\n"));
        }
        if let Some((scope, _)) = self.refused.first() {
            words.push_str(&format!("hint: palisade scope events --scope {scope}\n"));
        }
        self.refused.clear();
        self.more = 0;
        words.extend(self.problem.take());
        (!words.is_empty()).then_some(words)
    }

    /// The scope that the shell is in.
    #[must_use]
    pub fn held(&self) -> Option<u32> {
        self.held
    }

    /// How often the link has waited so far.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits
    }

    fn tell(&mut self, request: &Request) -> bool {
        let Some(talk) = &mut self.ask else { return false };
        let told = talk.ask(request);
        if let Err(error) = &told {
            self.complain(error);
            self.ask = None;
            self.due.clear();
        }
        told.is_ok()
    }

    fn wait(&mut self, left: Duration) {
        let Some(talk) = &self.ask else { return };
        let out = if talk.is_waiting() { PollFlags::OUT } else { PollFlags::empty() };
        let mut sets = [PollFd::from_borrowed_fd(talk.fd(), PollFlags::IN | out)];
        let left = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        self.waits += 1;
        let _whatever_comes = poll(&mut sets, Some(&left));
    }

    fn answered(&mut self, response: Response) {
        match (self.due.pop_front(), response) {
            (Some(Asked::Line), Response::Marked(marked)) => {
                self.held = Some(marked.scope);
                if self.own.len() == SCOPES {
                    self.own.pop_front();
                }
                self.own.push_back(marked.scope);
                // The answer came too late for its line: the line is over, but the mark hasn't been released.
                if !self.running
                    && !self.due.contains(&Asked::Release)
                    && self.tell(&Request::Release { pid: self.shell })
                {
                    self.due.push_back(Asked::Release);
                }
            }
            (Some(Asked::Release), Response::Done { .. }) => self.held = None,
            // Another program has put the shell into a scope. That scope stays.
            (_, Response::Refused(refusal)) if matches!(refusal.class.as_str(), "inside" | "taken") => {
                self.held = None;
            }
            (_, Response::Refused(refusal)) => {
                self.held = None;
                let words = format!("lines run without a scope: {}", refusal.message);
                self.say_once(&words, refusal.hint.as_deref().unwrap_or("palisade scope status"));
            }
            _ => {
                self.complain(&TalkError::Strange("its answer doesn't match the request".into()));
                self.ask = None;
                self.due.clear();
            }
        }
    }

    fn happened(&mut self, event: &Event) {
        let Some(scope) = event.subject.scope.filter(|scope| self.own.contains(scope)) else { return };
        let Detail::Scope(detail) = &event.detail else { return };
        let what = match event.verdict {
            Verdict::Refused => "refused",
            _ => "killed",
        };
        let parents = &detail.parents;
        let below: Vec<&str> = parents
            .iter()
            .map(|parent| parent.comm.as_str())
            .filter(|name| !name.is_empty())
            .take(2)
            .collect();
        let below = if below.is_empty() { String::new() } else { format!(", below {}", below.join(" < ")) };
        let pid = event.subject.pid.unwrap_or_default();
        let text = format!("{what} {} (process {pid}{below}): {}", event.object, event.why.text);
        if self.refused.len() < TOLD {
            self.refused.push((scope, harmless(&text)));
        } else {
            self.more += 1;
        }
    }

    fn complain(&mut self, error: &TalkError) {
        if let TalkError::Strange(_) = error {
            let words = format!("lines run without a scope: {error}");
            self.say_once(&words, restart_hint());
        }
    }

    fn say_once(&mut self, words: &str, hint: &str) {
        if self.complained.len() < 16 && !self.complained.iter().any(|before| before == words) {
            self.complained.push(words.to_owned());
            self.problem = Some(format!("palisade: {}\nhint: {}\n", harmless(words), harmless(hint)));
        }
    }
}

#[cfg(test)]
mod tests;
