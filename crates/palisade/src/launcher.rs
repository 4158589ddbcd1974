// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other side of [`Child`](crate::Child): what the program `palisade` says to the process that embeds it, and hears from
//! it. For that program only.

use crate::Answer;
use palisade_event::Event;
use palisade_protocol::launch::{Order, Told};
use palisade_protocol::{Connection, ProtocolError};
use palisade_sandbox::apply::monitor::Outcome;
use palisade_sandbox::apply::start::Running;
use palisade_sandbox::plan::{PROGRAM, Plan, SCHEMA, cache};
use palisade_sandbox::registry::Number;
use palisade_sandbox::registry::entry::Name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// A plan that is larger, in bytes, is none.
const LARGEST: u64 = 64 << 20;

/// Why nothing is launched, where that can't be told at the socket.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// No program embeds this process.
    #[error("its standard input is no socket")]
    NoSocket,
    /// The conversation broke off.
    #[error(transparent)]
    Talk(#[from] ProtocolError),
    /// The kernel refuses something.
    #[error("{0}")]
    System(#[from] rustix::io::Errno),
}

/// A launch that the other side has ordered.
#[derive(Debug)]
pub struct Ordered {
    /// The name of the sandbox.
    pub name: Option<String>,
    /// The plan's bytes, for [`plan()`].
    pub plan: Vec<u8>,
    connection: Connection,
}

/// The other side.
#[derive(Debug)]
pub struct Link {
    other: Mutex<Other>,
    waiting: Mutex<Waiting>,
    running: OnceLock<Processes>,
}

#[derive(Debug)]
struct Other {
    connection: Connection,
    /// Events that weren't told since the last one that was.
    lost: u64,
    /// What was said last of what went wrong.
    error: Option<(String, Option<String>)>,
    ended: bool,
}

/// Questions that wait for an answer.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    askers: BTreeMap<u64, SyncSender<Answer>>,
}

/// The command, and the process that everything inside dies with.
#[derive(Debug)]
struct Processes {
    command: Process,
    init: Option<Process>,
}

/// A process, by a descriptor; by its number where no descriptor is left.
#[derive(Debug)]
struct Process {
    pid: i32,
    descriptor: Option<OwnedFd>,
}

impl Ordered {
    /// Takes what is ordered at the socket that is this process's standard input, which becomes the command's. `own_name` is
    /// what this program calls itself, `failure` the exit code of a launch that doesn't come about. None: the other side
    /// was told why nothing is launched.
    ///
    /// # Errors
    /// There is no socket, or the conversation broke off.
    pub fn receive(own_name: &str, failure: u8) -> Result<Option<Self>, LauncherError> {
        let input = rustix::stdio::stdin();
        if FileType::from_raw_mode(rustix::fs::fstat(input)?.st_mode) != FileType::Socket {
            return Err(LauncherError::NoSocket);
        }
        let stream = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(input, 3)?);
        let mut connection = Connection::begin(stream, own_name)?;
        let Order::Launch { program, name } = connection.receive()? else {
            return Err(ProtocolError::Gone.into());
        };
        if program != PROGRAM {
            let message = format!(
                "the program palisade makes plans of the form {PROGRAM}, and the library that it was started by {program}"
            );
            let hint = Some("install both of one version".to_owned());
            connection.send(&Told::Failed { message, hint, code: failure })?;
            return Ok(None);
        }
        if let Some(Err(error)) = name.as_deref().map(Name::check) {
            connection.send(&Told::Failed { message: error.to_string(), hint: None, code: failure })?;
            return Ok(None);
        }
        connection.send(&Told::Ready)?;
        let plan = File::from(connection.take()?);
        rustix::stdio::dup2_stdin(connection.take()?)?;
        // The terminal is the other program's, and so is what is typed at it.
        rustix::process::setsid()?;
        Ok(Some(Self { name, plan: content(&plan)?, connection }))
    }

    /// Says that the plan is to be made anew.
    ///
    /// # Errors
    /// The other side has gone.
    pub fn refuse_plan(mut self) -> Result<(), LauncherError> {
        Ok(self.connection.send(&Told::Stale)?)
    }

    /// What says what happens, and the orders to come, for [`Link::started`].
    ///
    /// # Errors
    /// There is no descriptor left.
    pub fn link(self) -> Result<(Link, Connection), LauncherError> {
        let orders = self.connection.try_clone()?;
        let other = Other { connection: self.connection, lost: 0, error: None, ended: false };
        let link = Link { other: Mutex::new(other), waiting: Mutex::default(), running: OnceLock::new() };
        Ok((link, orders))
    }
}

/// The plan in these bytes; none if it is another program's or was made from what has changed since.
#[must_use]
pub fn plan(bytes: &[u8]) -> Option<Plan<'_>> {
    let known = |plan: &Plan<'_>| plan.schema == SCHEMA && plan.palisade == PROGRAM && cache::unchanged(plan);
    Plan::from_bytes(bytes).ok().filter(known)
}

fn content(file: &File) -> Result<Vec<u8>, rustix::io::Errno> {
    let size = u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(u64::MAX);
    let size = usize::try_from(size.min(LARGEST)).unwrap_or_default();
    let mut bytes = vec![0; size];
    let read = file.read_exact_at(&mut bytes, 0);
    read.map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
    Ok(bytes)
}

impl Link {
    /// The command runs. From here on the other side is obeyed.
    pub fn started(&'static self, running: Running, number: Number, orders: Option<Connection>) {
        let processes = self.running.get_or_init(|| Processes {
            command: Process::new(running.pid),
            init: running.init.map(Process::new),
        });
        let number = number.to_string();
        let told = self.tell(&Told::Started { pid: running.pid, init: running.init, number });
        let listens = orders.is_some_and(|orders| {
            let thread = std::thread::Builder::new().name("palisade-orders".to_owned());
            thread.spawn(move || self.obey(orders)).is_ok()
        });
        // Nobody is there, or nobody can be heard.
        if !told || !listens {
            processes.end();
        }
    }

    /// Whether the command has been started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.running.get().is_some()
    }

    /// Does what the other side says until it has gone. Then everything inside is ended.
    fn obey(&self, mut orders: Connection) {
        let Some(processes) = self.running.get() else { return };
        loop {
            match orders.receive() {
                Ok(Order::Answer { number, answer }) => {
                    if let Some(asker) = self.waiting().askers.remove(&number) {
                        let _too_late = asker.try_send(answer);
                    }
                }
                Ok(Order::Signal(number)) => {
                    if let Some(signal) = Signal::from_named_raw(number) {
                        processes.command.signal(signal);
                    }
                }
                Ok(Order::Kill) => processes.end(),
                // It speaks out of turn, or isn't there any more.
                Ok(Order::Launch { .. }) | Err(_) => return processes.end(),
            }
        }
    }

    /// What the plan was made from has changed: it is to be made anew.
    pub fn stale(&self) {
        let _told = self.tell(&Told::Stale);
    }

    /// Says something that the other side waits for. Whether it could be said.
    fn tell(&self, told: &Told) -> bool {
        self.other().connection.send(told).is_ok()
    }

    /// Asks what may go without an answer: the answer to what isn't asked is no. Whether it could be said.
    fn tell_if_there_is_room(&self, told: &Told) -> bool {
        let mut other = self.other();
        other.has_room() && other.connection.send(told).is_ok()
    }

    /// Says what the other side may miss: one that doesn't read mustn't keep the launcher from everything else. What can't
    /// be said counts as `count` events.
    fn tell_in_passing(&self, told: &Told, count: u64) {
        let mut other = self.other();
        if !other.has_room() {
            other.lost += count;
            return;
        }
        other.tell_lost();
        let _gone = other.connection.send(told);
    }

    /// Something was refused, or else is worth keeping.
    pub fn recorded(&self, event: &Event) {
        self.tell_in_passing(&Told::Event(Box::new(event.clone())), event.count);
    }

    /// So many refusals came too fast to be heard.
    pub fn lost(&self, count: u64) {
        self.other().lost += count;
    }

    /// A sentence for people.
    pub fn noted(&self, sentence: &str) {
        self.tell_in_passing(&Told::Note(sentence.trim_end().to_owned()), 1);
    }

    /// What went wrong, for people.
    pub fn failed(&self, message: &str, hint: Option<&str>) {
        self.other().error = Some((message.to_owned(), hint.map(str::to_owned)));
        self.noted(message);
    }

    /// The command has ended.
    pub fn ended(&self, outcome: Outcome) {
        let mut other = self.other();
        other.ended = true;
        let (code, signal) = match outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Killed(signal) => (None, Some(signal)),
        };
        other.tell_lost();
        let _gone = other.connection.send(&Told::Ended { code, signal });
    }

    /// The launch is over with this exit code: unless the command has ended, what went wrong is said.
    pub fn conclude(&self, code: u8) {
        let mut other = self.other();
        if !other.ended {
            let (message, hint) =
                other.error.take().unwrap_or_else(|| ("the launch failed".to_owned(), None));
            let _gone = other.connection.send(&Told::Failed { message, hint, code });
        }
    }

    /// Puts the question that `question` makes with its number; none without an answer in time.
    pub fn ask(&self, question: impl FnOnce(u64) -> Told, patience: Duration) -> Option<Answer> {
        let (sender, receiver) = sync_channel(1);
        let number = {
            let mut waiting = self.waiting();
            waiting.last += 1;
            let number = waiting.last;
            waiting.askers.insert(number, sender);
            number
        };
        let asked = self.tell_if_there_is_room(&question(number));
        let answer = if asked { receiver.recv_timeout(patience).ok() } else { None };
        self.waiting().askers.remove(&number);
        answer
    }

    fn other(&self) -> MutexGuard<'_, Other> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Other {
    /// Whether a message would be taken at once: a socket is ready for more when three quarters of its room are free.
    fn has_room(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.connection.socket(), PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&now))).is_ok_and(|count| count > 0)
    }

    /// Says how many events weren't told, if any.
    fn tell_lost(&mut self) {
        if self.lost > 0 {
            let lost = Told::Lost(std::mem::take(&mut self.lost));
            let _gone = self.connection.send(&lost);
        }
    }
}

impl Processes {
    /// Ends everything inside.
    fn end(&self) {
        for process in self.init.iter().chain([&self.command]) {
            process.signal(Signal::KILL);
        }
    }
}

impl Process {
    fn new(pid: i32) -> Self {
        let open = |pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
        Self { pid, descriptor: Pid::from_raw(pid).and_then(open) }
    }

    fn signal(&self, signal: Signal) {
        // It may have gone by then.
        let _gone = match &self.descriptor {
            Some(process) => rustix::process::pidfd_send_signal(process.as_fd(), signal),
            None => Pid::from_raw(self.pid).map_or(Ok(()), |pid| rustix::process::kill_process(pid, signal)),
        };
    }
}
