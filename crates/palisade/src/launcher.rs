// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other end of a [`Child`](crate::Child): what the program `palisade` sends to the embedding process, and what it
//! receives. Only that program uses this module.

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

/// A larger file, in bytes, is no plan.
const LARGEST: u64 = 64 << 20;

/// Why nothing is launched, if that can't be sent over the socket.
#[derive(Debug, thiserror::Error)]
pub enum LauncherError {
    /// No program embeds this process.
    #[error("its standard input is no socket")]
    NoSocket,
    /// The connection broke.
    #[error(transparent)]
    Talk(#[from] ProtocolError),
    /// The kernel refuses something.
    #[error("{0}")]
    System(#[from] rustix::io::Errno),
}

/// A launch that the embedding process has ordered.
#[derive(Debug)]
pub struct Ordered {
    /// The name of the sandbox.
    pub name: Option<String>,
    /// The plan's bytes, for [`plan()`].
    pub plan: Vec<u8>,
    connection: Connection,
}

/// The connection to the embedding process.
#[derive(Debug)]
pub struct Link {
    other: Mutex<Other>,
    waiting: Mutex<Waiting>,
    running: OnceLock<Processes>,
}

#[derive(Debug)]
struct Other {
    connection: Connection,
    /// Events since the last one sent that couldn't be sent.
    lost: u64,
    /// The last error message, with its hint.
    error: Option<(String, Option<String>)>,
    ended: bool,
}

/// Questions that wait for an answer.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    askers: BTreeMap<u64, SyncSender<Answer>>,
}

/// The command, and the process whose end ends everything inside.
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
    /// Receives the order at the socket that is this process's standard input. The command's standard input takes its
    /// place. `own_name` is this program's name in the protocol. `failure` is the exit code of a launch that fails.
    /// `None`: the embedding process was told why nothing is launched.
    ///
    /// # Errors
    /// There is no socket, or the connection broke.
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
                "the program palisade has plan format {PROGRAM}, and the library that started it has {program}"
            );
            let hint = Some("install the same version of both".to_owned());
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
        // The terminal belongs to the embedding program, and so does the input that is typed there.
        rustix::process::setsid()?;
        Ok(Some(Self { name, plan: content(&plan)?, connection }))
    }

    /// Reports that the plan must be made again.
    ///
    /// # Errors
    /// The embedding process has ended.
    pub fn refuse_plan(mut self) -> Result<(), LauncherError> {
        Ok(self.connection.send(&Told::Stale)?)
    }

    /// The link for messages, and the connection for later orders, which [`Link::started`] takes.
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

/// The plan in these bytes. `None` if another version of the program made it, or if its inputs have changed since.
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
    /// Reports that the command runs. From now on the embedding process's orders are obeyed.
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
        // The embedding process has ended, or its orders can't be received.
        if !told || !listens {
            processes.end();
        }
    }

    /// Whether the command has been started.
    #[must_use]
    pub fn has_started(&self) -> bool {
        self.running.get().is_some()
    }

    /// Obeys orders until the embedding process has ended. Then it ends everything inside.
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
                // The embedding process broke the protocol, or it has ended.
                Ok(Order::Launch { .. }) | Err(_) => return processes.end(),
            }
        }
    }

    /// Reports that the plan's inputs have changed: the plan must be made again.
    pub fn stale(&self) {
        let _told = self.tell(&Told::Stale);
    }

    /// Sends a message that the embedding process waits for. Returns whether it was sent.
    fn tell(&self, told: &Told) -> bool {
        self.other().connection.send(told).is_ok()
    }

    /// Sends a question, if there is room. A question that isn't sent gets the answer no. Returns whether it was sent.
    fn tell_if_there_is_room(&self, told: &Told) -> bool {
        let mut other = self.other();
        other.has_room() && other.connection.send(told).is_ok()
    }

    /// Sends a message that the embedding process may miss: if that process doesn't read, the launcher must go on. A
    /// message that can't be sent counts as `count` lost events.
    fn tell_in_passing(&self, told: &Told, count: u64) {
        let mut other = self.other();
        if !other.has_room() {
            other.lost += count;
            return;
        }
        other.tell_lost();
        let _gone = other.connection.send(told);
    }

    /// Reports an event: a refusal, or something else that is recorded.
    pub fn recorded(&self, event: &Event) {
        self.tell_in_passing(&Told::Event(Box::new(event.clone())), event.count);
    }

    /// Counts refusals that came too fast to be received.
    pub fn lost(&self, count: u64) {
        self.other().lost += count;
    }

    /// Sends a note for people.
    pub fn noted(&self, sentence: &str) {
        self.tell_in_passing(&Told::Note(sentence.trim_end().to_owned()), 1);
    }

    /// Reports an error for people.
    pub fn failed(&self, message: &str, hint: Option<&str>) {
        self.other().error = Some((message.to_owned(), hint.map(str::to_owned)));
        self.noted(message);
    }

    /// Reports that the command has ended.
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

    /// Ends the launch with this exit code. Unless the command has ended, it reports the last error.
    pub fn conclude(&self, code: u8) {
        let mut other = self.other();
        if !other.ended {
            let (message, hint) =
                other.error.take().unwrap_or_else(|| ("the launch failed".to_owned(), None));
            let _gone = other.connection.send(&Told::Failed { message, hint, code });
        }
    }

    /// Asks the question that `question` makes with its number. `None` if no answer comes in time.
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
    /// Whether a message would be sent at once. A socket is ready for writing when three quarters of its room are free.
    fn has_room(&self) -> bool {
        let mut polled = [PollFd::from_borrowed_fd(self.connection.socket(), PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        rustix::io::retry_on_intr(|| poll(&mut polled, Some(&now))).is_ok_and(|count| count > 0)
    }

    /// Sends the number of lost events, if there are any.
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
        // The process may have ended by then.
        let _gone = match &self.descriptor {
            Some(process) => rustix::process::pidfd_send_signal(process.as_fd(), signal),
            None => Pid::from_raw(self.pid).map_or(Ok(()), |pid| rustix::process::kill_process(pid, signal)),
        };
    }
}
