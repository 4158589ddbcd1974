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
use palisade_protocol::connection::{pass, take};
use palisade_sys::child::spawn_tied;
use palisade_sys::fanotify::{BUFFER, Event, Gate, Reply};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::parent_id;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
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
    state: State,
    /// What it was told to answer.
    told: Option<OnStop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It hasn't run yet.
    Begins,
    /// It has said that it waits for the gate.
    Waits,
    /// It has the gate.
    Stands,
}

impl Standby {
    /// Starts one. Its exec is a question, and while it has the gate it must not wait for the answer: that comes later.
    pub(crate) fn start() -> io::Result<Self> {
        let (link, theirs) = UnixStream::pair()?;
        let child = spawn_tied(
            Command::new("/proc/self/exe")
                .arg("--stand-by")
                .env_clear()
                .envs(std::env::vars_os().filter(|(name, _)| name == "JOURNAL_STREAM"))
                .current_dir("/")
                .stdin(OwnedFd::from(theirs))
                .stdout(Stdio::null()),
        )?;
        Ok(Self { child, link, state: State::Begins, told: None })
    }

    /// Whether it would answer: it has the gate.
    pub(crate) fn stands(&self) -> bool {
        self.state == State::Stands
    }

    /// Tells it what to answer. Whether it is there.
    pub(crate) fn is_there(&mut self, gate: &Gate, answer: OnStop) -> bool {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return false;
        }
        if self.state == State::Waits {
            if pass(&self.link, gate.as_fd()).is_err() {
                return false;
            }
            self.state = State::Stands;
        }
        if self.state == State::Stands && self.told != Some(answer) {
            let byte = if answer == OnStop::Open { OPEN } else { CLOSED };
            let sent = send(&self.link, &[byte], SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            self.told = sent.is_ok().then_some(answer);
        }
        true
    }

    /// Waits until it says that questions lie unread, something else has news, or the time is over.
    pub(crate) fn wait(&mut self, patience: Duration, news: Option<BorrowedFd<'_>>) {
        let patience = Timespec::try_from(patience).ok();
        let link = PollFd::new(&self.link, PollFlags::IN);
        let news = news.map(|news| PollFd::from_borrowed_fd(news, PollFlags::IN));
        let mut polled: Vec<_> = std::iter::once(link).chain(news).collect();
        let _woken = poll(&mut polled, patience.as_ref());
        let mut bytes = [0; 16];
        let said = recv(&self.link, &mut bytes, RecvFlags::DONTWAIT);
        if self.state == State::Begins && matches!(said, Ok((1.., _))) {
            self.state = State::Waits;
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        // It ends by itself when the link is gone, and has nothing to keep.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The process that `--stand-by` is: its standard input is the link.
pub(crate) fn run() -> ExitCode {
    let _named = rustix::thread::set_name(c"standby");
    // Whoever ends palisaded may tell all its processes to end. This one ends with it, and not before.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ends_before = signal_hook::flag::register(signal, Arc::default());
    }
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
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(GuardError::Begin)?);
    let failed = |errno: Errno| GuardError::Begin(errno.into());
    send(&link, b"!", SendFlags::NOSIGNAL).map_err(failed)?;
    let gate = Gate::handed_over(take(&link).map_err(failed)?);
    Ok(Watch { link, gate, palisaded: parent_id(), answer: OnStop::Open })
}

/// Whether a thread is stopped, by a signal or by who traces it.
pub(crate) fn is_stopped(process: u32, thread: u32) -> bool {
    stat(process, thread).starts_with(['T', 't'])
}

/// What the kernel says of a thread, from its state on.
fn stat(process: u32, thread: u32) -> String {
    let stat = std::fs::read(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
    // Its name may hold anything, and is in parentheses.
    let rest = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2..));
    String::from_utf8_lossy(rest.unwrap_or_default()).into_owned()
}

/// Whether a process ends: its files are being closed (`PF_EXITING`), or it has gone.
fn is_ending(process: u32) -> bool {
    const EXITING: u64 = 4;
    let stat = stat(process, process);
    let flags = stat.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Whether the file that `process` has open as `number` may be opened and executed while nobody judges. Whoever serves it isn't
/// asked: nobody may wait for that.
pub(crate) fn allows(answer: OnStop, process: u32, number: RawFd) -> bool {
    let wanted = StatxFlags::UID | StatxFlags::MODE;
    let about = || statx(CWD, format!("/proc/{process}/fd/{number}"), AtFlags::STATX_DONT_SYNC, wanted);
    answer == OnStop::Open || about().is_ok_and(|about| about.stx_uid == 0 && about.stx_mode & 0o022 == 0)
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
        // What palisaded has open may wait for answers before it is closed.
        while self.waits(LOOK) && !is_ending(self.palisaded) {
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

    /// Whether palisaded is stopped, by a signal or by who traces it: one thread of it may be, and others answer.
    fn is_stopped(&self) -> bool {
        let (pid, threads) = (self.palisaded, format!("/proc/{}/task", self.palisaded));
        is_stopped(pid, pid)
            && std::fs::read_dir(threads).is_ok_and(|threads| {
                let number = |thread: std::fs::DirEntry| thread.file_name().to_str()?.parse().ok();
                threads.flatten().filter_map(number).all(|thread| is_stopped(pid, thread))
            })
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
                let allow = allows(self.answer, self.palisaded, number);
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
                let allow = allows(self.answer, std::process::id(), question.file.as_raw_fd());
                let _has_gone = self.gate.answer(&question, Reply { allow, audit: None });
            }
        });
    }
}
