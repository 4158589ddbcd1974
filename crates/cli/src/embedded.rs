// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade embedded`: launches one command for a program that embeds Palisade (crate `palisade`), which is told at a
//! socket what happens and answers what is asked. What is said to people elsewhere goes there, too.

use crate::output;
use crate::prompt::Keep;
use crate::question::{Wish, Word};
use crate::run::{self, FAILURE};
use crate::scan::Presentation;
use palisade_event::Event;
use palisade_protocol::launch::{Answer, Order, Told, VERB};
use palisade_protocol::{Connection, ProtocolError};
use palisade_sandbox::apply::monitor::Outcome;
use palisade_sandbox::apply::start::{Happening, Running};
use palisade_sandbox::plan::{PROGRAM, Plan, SCHEMA, cache};
use palisade_sandbox::registry::Number;
use palisade_sandbox::registry::entry::Name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A plan that is larger, in bytes, is none.
const LARGEST: u64 = 64 << 20;

/// The other side, if this process launches for one.
static LINK: OnceLock<Link> = OnceLock::new();

/// The program that embeds Palisade.
pub(crate) struct Link {
    other: Mutex<Other>,
    waiting: Mutex<Waiting>,
    running: OnceLock<Processes>,
}

struct Other {
    connection: Connection,
    /// Events that weren't told since the last one that was.
    lost: u64,
    /// What was said last of what went wrong.
    error: Option<(String, Option<String>)>,
    ended: bool,
}

/// Questions that wait for an answer.
#[derive(Default)]
struct Waiting {
    last: u64,
    askers: BTreeMap<u64, SyncSender<Answer>>,
}

/// The command, and the process that everything inside dies with.
struct Processes {
    command: Process,
    init: Option<Process>,
}

/// A process, by a descriptor; by its number where no descriptor is left.
struct Process {
    pid: i32,
    descriptor: Option<OwnedFd>,
}

/// The other side, if this process launches for one.
pub(crate) fn link() -> Option<&'static Link> {
    LINK.get()
}

/// Launches for another program, if that is what this process was started for.
pub(crate) fn shortcut(arguments: &[OsString], begun: Instant) -> Option<u8> {
    let [verb, dashes, command @ ..] = arguments else { return None };
    if verb != VERB || dashes != "--" {
        return None;
    }
    Some(serve(command, begun).unwrap_or_else(|error| {
        output::error(
            &format_args!("can't launch for the program that started this one: {error}"),
            Some("palisade run -- COMMAND…   # `embedded` is for programs that embed Palisade"),
        );
        FAILURE
    }))
}

/// Why nothing is launched, where nobody can be told at the socket.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("its standard input is no socket")]
    NoSocket,
    #[error(transparent)]
    Talk(#[from] ProtocolError),
    #[error("{0}")]
    System(#[from] rustix::io::Errno),
}

fn serve(command: &[OsString], begun: Instant) -> Result<u8, ServeError> {
    let input = rustix::stdio::stdin();
    if FileType::from_raw_mode(rustix::fs::fstat(input)?.st_mode) != FileType::Socket {
        return Err(ServeError::NoSocket);
    }
    let stream = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(input, 3)?);
    let mut connection = Connection::begin(stream, palisade_protocol::client::OWN_NAME)?;
    let Order::Launch { program, name } = connection.receive()? else {
        return Err(ProtocolError::Gone.into());
    };
    if program != PROGRAM {
        let message = format!(
            "the program palisade makes plans of the form {PROGRAM}, and the library that it was started by {program}"
        );
        let hint = Some("install both of one version".to_owned());
        connection.send(&Told::Failed { message, hint, code: FAILURE })?;
        return Ok(FAILURE);
    }
    if let Some(Err(error)) = name.as_deref().map(Name::check) {
        connection.send(&Told::Failed { message: error.to_string(), hint: None, code: FAILURE })?;
        return Ok(FAILURE);
    }
    connection.send(&Told::Ready)?;
    let plan = File::from(connection.take()?);
    rustix::stdio::dup2_stdin(connection.take()?)?;
    // The terminal is the other program's, and so is what is typed at it.
    rustix::process::setsid()?;
    let bytes = content(&plan)?;
    let known = |plan: &Plan<'_>| plan.schema == SCHEMA && plan.palisade == PROGRAM && cache::unchanged(plan);
    let Some(plan) = Plan::from_bytes(&bytes).ok().filter(known) else {
        connection.send(&Told::Stale)?;
        return Ok(FAILURE);
    };
    let orders = connection.try_clone()?;
    let other = Other { connection, lost: 0, error: None, ended: false };
    let link = LINK.get_or_init(|| Link {
        other: Mutex::new(other),
        waiting: Mutex::default(),
        running: OnceLock::new(),
    });
    Ok(link.launch(&plan, command, name.as_deref(), orders, begun))
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
    fn launch(
        &'static self,
        plan: &Plan<'_>,
        command: &[OsString],
        name: Option<&str>,
        orders: Connection,
        begun: Instant,
    ) -> u8 {
        let presentation = Presentation { quiet: true, name, ..Presentation::default() };
        let mut orders = Some(orders);
        let result = run::apply(plan, command, presentation, begun, true, &mut |happening| {
            if let Happening::Started(running, number) = happening {
                self.started(*running, *number, orders.take());
            }
        });
        let code = match result {
            Ok(code) => code,
            Err(error) if error.is_stale() && self.running.get().is_none() => {
                self.tell(&Told::Stale);
                return FAILURE;
            }
            Err(error) => run::fail(&error),
        };
        let mut other = self.other();
        if !other.ended {
            let (message, hint) =
                other.error.take().unwrap_or_else(|| ("the launch failed".to_owned(), None));
            let _gone = other.connection.send(&Told::Failed { message, hint, code });
        }
        code
    }

    fn started(&'static self, running: Running, number: Number, orders: Option<Connection>) {
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

    /// Says something that the other side waits for. Whether it could be said.
    fn tell(&self, told: &Told) -> bool {
        self.other().connection.send(told).is_ok()
    }

    /// Asks what may go without an answer: the answer to what isn't asked is no. Whether it could be said.
    fn tell_if_there_is_room(&self, told: &Told) -> bool {
        let mut other = self.other();
        other.has_room() && other.connection.send(told).is_ok()
    }

    /// Says what the other side may miss: who doesn't read mustn't keep the launcher from everything else.
    fn tell_in_passing(&self, told: &Told) {
        let mut other = self.other();
        if !other.has_room() {
            other.lost += 1;
            return;
        }
        if other.lost > 0 {
            let lost = Told::Lost(std::mem::take(&mut other.lost));
            let _gone = other.connection.send(&lost);
        }
        let _gone = other.connection.send(told);
    }

    /// Something was refused, or else is worth keeping.
    pub(crate) fn recorded(&self, event: &Event) {
        self.tell_in_passing(&Told::Event(Box::new(event.clone())));
    }

    /// So many refusals came too fast to be heard.
    pub(crate) fn lost(&self, count: u64) {
        self.other().lost += count;
    }

    /// A sentence for people.
    pub(crate) fn noted(&self, sentence: &str) {
        self.tell_in_passing(&Told::Note(sentence.trim_end().to_owned()));
    }

    /// What went wrong, for people.
    pub(crate) fn failed(&self, message: &str, hint: Option<&str>) {
        self.other().error = Some((message.to_owned(), hint.map(str::to_owned)));
        self.noted(message);
    }

    /// The command has ended.
    pub(crate) fn ended(&self, outcome: Outcome) {
        let mut other = self.other();
        other.ended = true;
        let (code, signal) = match outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Killed(signal) => (None, Some(signal)),
        };
        if other.lost > 0 {
            let lost = Told::Lost(std::mem::take(&mut other.lost));
            let _gone = other.connection.send(&lost);
        }
        let _gone = other.connection.send(&Told::Ended { code, signal });
    }

    /// Asks; none if nobody answers in time.
    pub(crate) fn ask(&self, wish: &Wish, keep: Option<Keep<'_>>, patience: Duration) -> Option<Word> {
        let (sender, receiver) = sync_channel(1);
        let number = {
            let mut waiting = self.waiting();
            waiting.last += 1;
            let number = waiting.last;
            waiting.askers.insert(number, sender);
            number
        };
        let asked = self.tell_if_there_is_room(&Told::Question {
            number,
            program: wish.program.clone(),
            action: wish.action.clone(),
            why: wish.why.to_owned(),
            scope: wish.scope.clone().filter(|_scope| keep.is_some()),
        });
        let answer = if asked { receiver.recv_timeout(patience).ok() } else { None };
        self.waiting().askers.remove(&number);
        let word = match answer? {
            Answer::Once => Word::Once,
            Answer::Session => Word::Session,
            Answer::Always if keep.is_none() => Word::Session,
            Answer::Always => Word::Always,
            Answer::No => Word::No,
            Answer::Never => Word::Never,
        };
        if let (Word::Always, Some(keep)) = (word, keep) {
            self.noted(&keep());
        }
        Some(word)
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
