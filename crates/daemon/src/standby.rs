// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second process that holds the gate, and answers while the daemon is stopped (SIGSTOP, a debugger): otherwise every open
//! on the host would wait until it goes on.
//!
//! It looks once in a while whether palisaded is stopped, and whether questions lie unread. It answers only in the first case.
//! In the second it wakes palisaded's watchdog, which sleeps while nobody asks anything, and has another thread read on.
//!
//! The kernel finds the question of an answer by the number that its file has in the process that read it. So those that
//! palisaded has read before it was stopped can be answered here, too.

use crate::guard::GuardError;
use crate::saying::{self, say};
use palisade_guard::settings::OnStop;
use palisade_sys::fanotify::{BUFFER, Event, Gate, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(1200);
/// So long palisaded has been stopped when it begins to answer: who stops it for a moment isn't noticed.
const STOPPED: Duration = Duration::from_millis(300);
/// How often it looks whether palisaded goes on, while it answers.
const ANSWERING: Duration = Duration::from_millis(50);

/// What is answered: a byte that palisaded sends when it changes.
const OPEN: u8 = b'o';
const CLOSED: u8 = b'c';

/// The second process, as palisaded sees it.
#[derive(Debug)]
pub(crate) struct Standby {
    child: Child,
    link: UnixStream,
    told: Option<OnStop>,
}

impl Standby {
    /// Starts one.
    pub(crate) fn start(gate: &Gate) -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        let child = Command::new("/proc/self/exe")
            .arg("--stand-by")
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "JOURNAL_STREAM"))
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::from(gate.as_fd().try_clone_to_owned()?))
            .spawn()?;
        Ok(Self { child, link, told: None })
    }

    /// Tells it what to answer. Whether it is there.
    pub(crate) fn is_there(&mut self, answer: OnStop) -> bool {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return false;
        }
        if self.told != Some(answer) {
            let byte = if answer == OnStop::Open { OPEN } else { CLOSED };
            let sent = send(&self.link, &[byte], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            self.told = sent.is_ok().then_some(answer);
        }
        true
    }

    /// Waits until it says that questions lie unread, or the time is over.
    pub(crate) fn wait(&self, patience: Duration) {
        let patience = Timespec::try_from(patience).ok();
        let _woken = poll(&mut [PollFd::new(&self.link, PollFlags::IN)], patience.as_ref());
        let mut bytes = [0; 16];
        let _all_the_same = recv(&self.link, &mut bytes, RecvFlags::DONTWAIT);
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        // It ends by itself when the link is gone, and has nothing to keep.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The process that `--stand-by` is: its standard input is the link, its standard output the gate.
pub(crate) fn run() -> ExitCode {
    let _named = rustix::thread::set_name(c"standby");
    match begin() {
        Ok(watch) => watch.keep(),
        Err(error) => {
            say(&format!("palisaded: error: the standby can't begin: {error}"));
            saying::finish();
            ExitCode::FAILURE
        }
    }
}

fn begin() -> Result<Watch, GuardError> {
    saying::begin().map_err(GuardError::Begin)?;
    // Who was stopped is looked at in /proc, and nothing else is needed.
    crate::privileges::keep_only(rustix::thread::CapabilitySet::SYS_PTRACE).map_err(GuardError::Gate)?;
    let handed_over = |file: BorrowedFd<'_>| file.try_clone_to_owned().map_err(GuardError::Begin);
    let link = UnixStream::from(handed_over(io::stdin().as_fd())?);
    let gate = Gate::handed_over(handed_over(io::stdout().as_fd())?);
    Ok(Watch { link, gate, palisaded: parent_id(), answer: OnStop::Open })
}

/// What is looked after.
struct Watch {
    link: UnixStream,
    gate: Gate,
    /// The process that is.
    palisaded: u32,
    /// What is answered when it is stopped.
    answer: OnStop,
}

impl Watch {
    /// Until palisaded ends. The gate ends with both processes, and the kernel says yes from then on.
    fn keep(mut self) -> ExitCode {
        while self.waits(LOOK) {
            if self.is_stopped() {
                if !self.waits(STOPPED) {
                    break;
                }
                if self.is_stopped() {
                    self.stand_in();
                }
            } else if self.gate.has_questions(Duration::ZERO) {
                let _it_will_look = send(&self.link, b"?", SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            }
        }
        ExitCode::SUCCESS
    }

    /// Waits that long, and hears what palisaded tells; false if it has ended.
    fn waits(&mut self, patience: Duration) -> bool {
        let until = std::time::Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let mut polled = [PollFd::new(&self.link, PollFlags::IN)];
            match poll(&mut polled, Timespec::try_from(left).ok().as_ref()) {
                Ok(0) => return true,
                Ok(_) => {
                    let mut bytes = [0; 16];
                    match recv(&self.link, &mut bytes, RecvFlags::DONTWAIT) {
                        Ok((1.., count)) => {
                            let last = bytes.get(..count).and_then(<[u8]>::last);
                            self.answer = if last == Some(&CLOSED) { OnStop::Closed } else { OnStop::Open };
                        }
                        Err(Errno::AGAIN | Errno::INTR) => {}
                        _ => return false,
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// Whether palisaded is stopped, by a signal or by who traces it.
    fn is_stopped(&self) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", self.palisaded)).unwrap_or_default();
        // Its name may hold anything, and is in parentheses.
        let state = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2));
        matches!(state, Some(b'T' | b't'))
    }

    /// Answers until palisaded goes on.
    fn stand_in(&self) {
        let pid = self.palisaded;
        let answered = match self.answer {
            OnStop::Open => "everything may be opened and executed",
            OnStop::Closed => "what others than root may change is refused",
        };
        say(&format!("palisaded: alarm: palisaded (process {pid}) is stopped: {answered} until it goes on"));
        say(&format!("hint: sudo kill -CONT {pid}"));
        while self.is_stopped() {
            self.answer_read();
            while self.is_stopped() && self.gate.has_questions(ANSWERING) {
                self.answer_next();
            }
        }
        say("palisaded: no longer so: palisaded is stopped");
    }

    /// Answers the questions that palisaded has read. Nothing says which of its files came with one: the kernel knows those.
    fn answer_read(&self) {
        let directory = format!("/proc/{}/fd", self.palisaded);
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let number = entry.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
            if let Some(number) = number.filter(|_| self.is_stopped()) {
                let allow = self.allows(|| std::fs::metadata(entry.path()));
                let _others_are_no_question = self.gate.answer_number(number, Reply { allow, audit: None });
            }
        }
    }

    /// Reads a question and answers it.
    fn answer_next(&self) {
        let mut buffer = [0; BUFFER];
        let one = size_of::<[u64; 3]>();
        let _again = self.gate.read(&mut buffer[..one], |event| {
            if let Event::Question(question) = event {
                let allow = self.allows(|| question.file.try_clone().map(std::fs::File::from)?.metadata());
                let _has_gone = self.gate.answer(&question, Reply { allow, audit: None });
            }
        });
    }

    /// Whether a file may be opened and executed.
    fn allows(&self, about: impl FnOnce() -> io::Result<std::fs::Metadata>) -> bool {
        match self.answer {
            OnStop::Open => true,
            OnStop::Closed => about().is_ok_and(|about| about.uid() == 0 && about.mode() & 0o022 == 0),
        }
    }
}
