// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command that runs in a sandbox: its messages, its streams and its end.

use crate::queue::Queue;
use crate::{Answer, Error, ExitStatus};
use palisade_event::Event;
use palisade_protocol::launch::{Order, Told};
use palisade_protocol::{Connection, ProtocolError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::Duration;

/// How long the launcher may take to end everything inside. After that the launcher itself is killed, and the kernel
/// ends what is inside.
const PATIENCE: Duration = Duration::from_secs(5);

/// The launcher's process. It leaves no zombie, whatever happens after its start.
#[derive(Debug)]
pub(crate) struct Begun {
    process: std::process::Child,
    descriptor: OwnedFd,
    /// The command has started. From then on the launcher gets time to end what is inside.
    pub(crate) is_watched: bool,
    reaped: bool,
}

impl Begun {
    pub(crate) fn new(mut process: std::process::Child) -> io::Result<Self> {
        let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Ok(Self { process, descriptor, is_watched: false, reaped: false }),
            Err(errno) => {
                let _ended = process.kill().and_then(|()| process.wait());
                Err(errno.into())
            }
        }
    }

    /// Whether the launcher has ended, after waiting for at most `patience`.
    fn has_ended(&self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).ok();
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        rustix::io::retry_on_intr(|| poll(&mut polled, patience.as_ref())).is_ok_and(|count| count > 0)
    }

    /// Waits for the launcher's end. Returns how it ended, unless other code in this process has waited for it already.
    fn reap(&mut self) -> Option<ExitStatus> {
        if self.reaped {
            return None;
        }
        self.reaped = true;
        let status = self.process.wait().ok()?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => ExitStatus::Exited(code),
            (None, signal) => ExitStatus::Killed(signal.unwrap_or_default()),
        })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        // The launcher's socket is closed: it ends what is inside, and then itself.
        if !(self.is_watched && self.has_ended(PATIENCE)) {
            let _gone = self.process.kill();
        }
        let _status = self.reap();
    }
}

/// A message about a sandbox.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Message {
    /// A decision. Its `hint` is a command that would permit the request.
    Event(Box<Event>),
    /// A process inside waits for an answer.
    Question(Question),
    /// A note, in one sentence.
    Note(String),
    /// This many events weren't sent, because this program didn't read them in time.
    Lost(u64),
}

/// A request of a process inside that needs permission. The process waits for the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub(crate) number: u64,
    /// The program, as it calls itself.
    pub program: String,
    /// What it wants to do: `reach example.com:443`.
    pub action: String,
    /// Why it isn't allowed already.
    pub why: String,
    /// What [`Answer::Always`] would hold for. `None` if such an answer can't be kept.
    pub scope: Option<String>,
}

/// The last message of the launcher.
#[derive(Debug, Clone)]
enum End {
    Ended(ExitStatus),
    Failed { message: String, hint: Option<String>, code: u8 },
}

/// A command that runs in a sandbox. When this is dropped, everything inside is ended (in a sandbox without namespaces
/// only the command). That takes milliseconds, and five seconds at most.
#[derive(Debug)]
pub struct Child {
    /// This process's end of the command's standard input, if that is a pipe.
    pub stdin: Option<PipeWriter>,
    /// This process's end of the command's standard output, if that is a pipe.
    pub stdout: Option<PipeReader>,
    /// This process's end of the command's standard error, if that is a pipe.
    pub stderr: Option<PipeReader>,
    // Before the launcher's process: this must be closed before that process's end is awaited.
    connection: Connection,
    /// The program that launched it, for messages.
    pub(crate) helper: PathBuf,
    begun: Begun,
    pid: i32,
    init: Option<i32>,
    number: String,
    queue: Queue,
    end: Option<End>,
}

impl Child {
    pub(crate) fn new(
        begun: Begun,
        connection: Connection,
        (pid, init, number): (i32, Option<i32>, String),
        early: Vec<Told>,
    ) -> Self {
        let mut child = Self {
            stdin: None,
            stdout: None,
            stderr: None,
            connection,
            helper: PathBuf::new(),
            begun,
            pid,
            init,
            number,
            queue: Queue::default(),
            end: None,
        };
        early.into_iter().for_each(|told| child.hear(told));
        child
    }

    /// The process number of the command on the host.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.pid
    }

    /// The process number of the sandbox's init, if the sandbox has a PID namespace of its own.
    #[must_use]
    pub const fn init(&self) -> Option<i32> {
        self.init
    }

    /// The number by which `palisade ps` lists the sandbox and `palisade watch --sandbox` shows its refusals.
    #[must_use]
    pub fn number(&self) -> &str {
        &self.number
    }

    /// The messages about the sandbox, until the command has ended. The caller answers the questions among them.
    pub fn messages(&mut self) -> Messages<'_> {
        Messages(self)
    }

    /// Answers a question. An answer that comes too late has no effect.
    ///
    /// # Errors
    /// When the launcher has ended.
    pub fn answer(&mut self, question: &Question, answer: Answer) -> Result<(), Error> {
        self.order(&Order::Answer { number: question.number, answer })
    }

    /// Ends everything inside. [`Child::wait`] reports when everything has ended.
    ///
    /// # Errors
    /// When everything has ended already, or can't be ended.
    pub fn kill(&mut self) -> Result<(), Error> {
        match self.order(&Order::Kill) {
            Ok(()) => Ok(()),
            // When the launcher ends, the kernel ends what is inside.
            Err(_gone) => {
                self.begun.process.kill().map_err(|source| Error::System { action: "end a sandbox", source })
            }
        }
    }

    /// Sends the command a signal.
    ///
    /// # Errors
    /// When the launcher has ended.
    pub fn signal(&mut self, signal: i32) -> Result<(), Error> {
        self.order(&Order::Signal(signal))
    }

    /// Waits for the command's end. Every question until then gets the answer no.
    ///
    /// # Errors
    /// When it isn't known how the command ended.
    pub fn wait(&mut self) -> Result<ExitStatus, Error> {
        // A command that reads its input to the end would wait for this process.
        drop(self.stdin.take());
        while self.end.is_none() {
            self.listen();
            self.refuse_questions();
        }
        self.conclude()
    }

    /// How the command ended, if it has ended.
    ///
    /// # Errors
    /// When it isn't known how the command ended.
    pub fn try_wait(&mut self) -> Result<Option<ExitStatus>, Error> {
        while self.end.is_none() && self.is_readable() {
            self.listen();
        }
        if self.end.is_none() { Ok(None) } else { self.conclude().map(Some) }
    }

    /// Becomes readable when there is a message, for callers that wait for several events at once. [`Child::try_wait`]
    /// then reads the message.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.connection.socket()
    }

    /// The messages that have arrived already.
    pub fn heard(&mut self) -> Vec<Message> {
        while self.end.is_none() && self.is_readable() {
            self.listen();
        }
        std::iter::from_fn(|| self.queue.pop()).collect()
    }

    fn order(&mut self, order: &Order) -> Result<(), Error> {
        self.connection.send(order).map_err(|source| Error::Talk { helper: self.helper.clone(), source })
    }

    fn is_readable(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.connection.socket(), PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&now))).is_ok_and(|count| count > 0)
    }

    /// Waits for a message and handles it.
    fn listen(&mut self) {
        match self.connection.receive() {
            Ok(told) => self.hear(told),
            Err(error) => self.is_gone(&error),
        }
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Event(event) => self.queue.push(Message::Event(event)),
            Told::Question { number, program, action, why, scope } => {
                self.queue.push(Message::Question(Question { number, program, action, why, scope }));
            }
            Told::Note(note) => self.queue.push(Message::Note(note)),
            Told::Lost(count) => self.queue.push(Message::Lost(count)),
            Told::Ended { code, signal } => {
                let status = match (code, signal) {
                    (Some(code), _) => ExitStatus::Exited(code),
                    (None, signal) => ExitStatus::Killed(signal.unwrap_or_default()),
                };
                self.end = Some(End::Ended(status));
            }
            Told::Failed { message, hint, code } => self.end = Some(End::Failed { message, hint, code }),
            Told::Ready | Told::Stale | Told::Started { .. } => {}
        }
    }

    /// The launcher has ended without a message, and everything inside has ended with it.
    fn is_gone(&mut self, error: &ProtocolError) {
        let _kill = self.begun.process.kill();
        self.end = Some(match self.begun.reap() {
            Some(status @ ExitStatus::Killed(_)) => End::Ended(status),
            _ => {
                let message = format!("can't find out how the command ended: {error}");
                End::Failed { message, hint: None, code: 125 }
            }
        });
    }

    fn refuse_questions(&mut self) {
        for question in self.queue.questions() {
            // If the launcher has ended, it needs no answer.
            let _gone = self.answer(&question, Answer::Never);
        }
    }

    /// After the command's end: waits for the launcher's end, too.
    fn conclude(&mut self) -> Result<ExitStatus, Error> {
        let _status = self.begun.reap();
        match self.end.clone() {
            Some(End::Ended(status)) => Ok(status),
            Some(End::Failed { message, hint, code }) => Err(Error::Launch { message, hint, code }),
            None => Err(Error::Restless),
        }
    }
}

/// The messages about a sandbox, one after the other, until the command has ended.
#[derive(Debug)]
pub struct Messages<'c>(&'c mut Child);

impl Messages<'_> {
    /// Answers a question that was received.
    ///
    /// # Errors
    /// As [`Child::answer`].
    pub fn answer(&mut self, question: &Question, answer: Answer) -> Result<(), Error> {
        self.0.answer(question, answer)
    }
}

impl Iterator for Messages<'_> {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.0.queue.pop() {
                return Some(message);
            }
            if self.0.end.is_some() {
                return None;
            }
            self.0.listen();
        }
    }
}

#[cfg(feature = "tokio")]
impl Child {
    /// As [`Child::wait`], without blocking a thread.
    ///
    /// # Errors
    /// As [`Child::wait`]; and outside of a tokio runtime with I/O.
    pub async fn wait_async(&mut self) -> Result<ExitStatus, Error> {
        let failed = |source: io::Error| Error::System { action: "wait for a sandbox", source };
        drop(self.stdin.take());
        while self.end.is_none() {
            let socket = self.connection.socket().try_clone_to_owned().map_err(failed)?;
            readable(socket).await.map_err(failed)?;
            while self.end.is_none() && self.is_readable() {
                self.listen();
            }
            self.refuse_questions();
        }
        if !self.begun.reaped {
            let process = self.begun.descriptor.try_clone().map_err(failed)?;
            readable(process).await.map_err(failed)?;
        }
        self.conclude()
    }
}

/// Waits until there is a message to read.
#[cfg(feature = "tokio")]
#[expect(
    deprecated,
    reason = "the other constructor is unsafe, and an owned descriptor has what it asks for"
)]
async fn readable(descriptor: OwnedFd) -> io::Result<()> {
    use tokio::io::{Interest, unix::AsyncFd};
    let watched = AsyncFd::with_interest(descriptor, Interest::READABLE)?;
    watched.readable().await?.retain_ready();
    Ok(())
}
