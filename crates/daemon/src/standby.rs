// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The standby: a second process that holds the gate and answers while the daemon is stopped (SIGSTOP, a debugger).
//! Otherwise every open on the host would wait until the daemon continues.
//!
//! The standby regularly checks whether palisaded is stopped, and whether questions lie unread. It answers only if
//! palisaded is stopped. If questions lie unread, it wakes palisaded's watchdog, which sleeps while no questions arrive;
//! the watchdog lets another thread continue reading.
//!
//! The kernel matches an answer to its question by the descriptor number that the question's file has in the process that
//! read it. So the standby can also answer questions that palisaded had read before it was stopped.

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

/// How often the standby checks.
const LOOK: Duration = Duration::from_millis(1200);
/// How long palisaded must be stopped before the standby answers, so that a short stop has no effect.
const STOPPED: Duration = Duration::from_millis(300);
/// How often the standby checks whether palisaded continues, while it answers.
const ANSWERING: Duration = Duration::from_millis(50);

/// A byte that tells the standby what to answer; palisaded sends it when that changes.
const OPEN: u8 = b'o';
const CLOSED: u8 = b'c';

/// The standby, as palisaded sees it.
#[derive(Debug)]
pub(crate) struct Standby {
    child: Child,
    link: UnixStream,
    state: State,
    /// What the standby was last told to answer.
    told: Option<OnStop>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The standby hasn't begun.
    Begins,
    /// The standby has said that it waits for the gate.
    Waits,
    /// The standby has the gate.
    Stands,
}

impl Standby {
    /// Starts a standby. Its exec is a question. A standby that holds the gate must not wait for that answer, so it gets
    /// the gate later.
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

    /// Whether the standby would answer: it has the gate.
    pub(crate) fn stands(&self) -> bool {
        self.state == State::Stands
    }

    /// Tells the standby what to answer. Returns whether the standby is there.
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

    /// Waits until the standby reports unread questions, `news` becomes readable, or the time is over.
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
        // The standby would end by itself when the link is closed, and has no state to save.
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The main function of `--stand-by`. Its standard input is the link.
pub(crate) fn run() -> ExitCode {
    let _named = rustix::thread::set_name(c"standby");
    // A signal that should end palisaded may be sent to all its processes. The standby ends with palisaded, and not before.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let _ends_before = signal_hook::flag::register(signal, Arc::default());
    }
    match begin() {
        Ok(watch) => watch.keep(),
        Err(error) => {
            say(&format!("palisaded: error: the standby process: {error}"));
            saying::finish();
            ExitCode::FAILURE
        }
    }
}

fn begin() -> Result<Watch, GuardError> {
    saying::begin().map_err(GuardError::Begin)?;
    // The standby needs rights only to read in /proc whether palisaded is stopped.
    crate::privileges::keep_only(rustix::thread::CapabilitySet::SYS_PTRACE).map_err(GuardError::Gate)?;
    let link = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(GuardError::Begin)?);
    let failed = |errno: Errno| GuardError::Begin(errno.into());
    send(&link, b"!", SendFlags::NOSIGNAL).map_err(failed)?;
    let gate = Gate::handed_over(take(&link).map_err(failed)?);
    Ok(Watch { link, gate, palisaded: parent_id(), answer: OnStop::Open })
}

/// Whether a thread is stopped, by a signal or by a tracer.
pub(crate) fn is_stopped(process: u32, thread: u32) -> bool {
    stat(process, thread).starts_with(['T', 't'])
}

/// The fields of a thread's `stat` file, from its state on.
fn stat(process: u32, thread: u32) -> String {
    let stat = std::fs::read(format!("/proc/{process}/task/{thread}/stat")).unwrap_or_default();
    // The thread's name is in parentheses and may contain any character.
    let rest = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2..));
    String::from_utf8_lossy(rest.unwrap_or_default()).into_owned()
}

/// Whether a process is ending: its files are being closed (`PF_EXITING`), or it is gone.
fn is_ending(process: u32) -> bool {
    const EXITING: u64 = 4;
    let stat = stat(process, process);
    let flags = stat.split(' ').nth(6).and_then(|flags| flags.parse::<u64>().ok());
    flags.is_none_or(|flags| flags & EXITING != 0)
}

/// Whether the file that `process` has open as `number` may be opened and executed while no guard judges. Doesn't contact
/// the server of a remote file, because nothing may wait for it.
pub(crate) fn allows(answer: OnStop, process: u32, number: RawFd) -> bool {
    let wanted = StatxFlags::UID | StatxFlags::MODE;
    let about = || statx(CWD, format!("/proc/{process}/fd/{number}"), AtFlags::STATX_DONT_SYNC, wanted);
    answer == OnStop::Open || about().is_ok_and(|about| about.stx_uid == 0 && about.stx_mode & 0o022 == 0)
}

/// What the standby keeps to do its work.
struct Watch {
    link: UnixStream,
    gate: Gate,
    /// palisaded's process number.
    palisaded: u32,
    /// What to answer when palisaded is stopped.
    answer: OnStop,
}

impl Watch {
    /// Runs until palisaded ends. The gate closes with both processes, and from then on the kernel allows everything.
    fn keep(mut self) -> ExitCode {
        // When palisaded ends, closing its files may wait for answers, so don't keep the gate then.
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

    /// Waits that long, and receives palisaded's messages. Returns false if palisaded has ended.
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

    /// Whether all of palisaded is stopped, by a signal or a tracer. If only one thread is stopped, others answer.
    fn is_stopped(&self) -> bool {
        let (pid, threads) = (self.palisaded, format!("/proc/{}/task", self.palisaded));
        is_stopped(pid, pid)
            && std::fs::read_dir(threads).is_ok_and(|threads| {
                let number = |thread: std::fs::DirEntry| thread.file_name().to_str()?.parse().ok();
                threads.flatten().filter_map(number).all(|thread| is_stopped(pid, thread))
            })
    }

    /// Answers until palisaded continues.
    fn stand_in(&self) {
        let pid = self.palisaded;
        let answered = match self.answer {
            OnStop::Open => "everything may be opened and executed",
            OnStop::Closed => "files that users other than root can change are refused",
        };
        say(&format!(
            "palisaded: alarm: palisaded (process {pid}) is stopped: {answered} until palisaded continues"
        ));
        say(&format!("hint: sudo kill -CONT {pid}"));
        while self.is_stopped() {
            self.answer_read();
            while self.is_stopped() && self.gate.has_questions(ANSWERING) {
                self.answer_next();
            }
        }
        say("palisaded: alarm ended: palisaded is stopped");
    }

    /// Answers the questions that palisaded has read. The standby tries all of palisaded's descriptors: only the kernel
    /// knows which belong to questions.
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

    /// Reads one question and answers it.
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
