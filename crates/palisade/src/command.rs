// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command in a sandbox: how it is described and started.

use crate::child::{Begun, Child};
use crate::{Error, ExitStatus, PlanningError, Sandbox, Stream};
use palisade_protocol::launch::{Order, Told, VERB};
use palisade_protocol::{Connection, ProtocolError};
use palisade_sandbox::plan::{PROGRAM, Plan};
use palisade_sandbox::view::closure;
use rustix::fs::{MemfdFlags, SealFlags};
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The name of this library in the protocol.
const OWN_NAME: &str = concat!("palisade library ", env!("CARGO_PKG_VERSION"));
/// How often a plan is made again because its inputs changed meanwhile.
const ATTEMPTS: u32 = 5;
/// How many plans of one sandbox are kept. There are several if each is for one program.
const KEPT: usize = 16;

/// A plan, ready to be passed to the launcher.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The program that the plan is for. `None`: any program.
    program: Option<Vec<u8>>,
    /// The working directory and the user that the plan is for.
    place: (PathBuf, u32),
    /// The plan's bytes, in memory that no process can change any more.
    memory: OwnedFd,
}

/// A command in a sandbox. It is like [`std::process::Command`], except that its streams are [`Stream`]s.
#[derive(Debug, Clone)]
pub struct Command {
    sandbox: Sandbox,
    words: Vec<OsString>,
    name: Option<String>,
    input: Option<Stream>,
    output: Option<Stream>,
    error: Option<Stream>,
}

/// How a command ended, and what it wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
}

impl Command {
    pub(crate) fn new(sandbox: Sandbox, program: &OsStr) -> Self {
        Self { sandbox, words: vec![program.to_owned()], name: None, input: None, output: None, error: None }
    }

    /// Adds an argument.
    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.words.push(argument.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(&mut self, arguments: impl IntoIterator<Item = S>) -> &mut Self {
        self.words.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// The sandbox's name while it runs, in `palisade ps` and in events. No other running sandbox of this user may have
    /// that name then.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// The command's standard input; this process's own by default.
    pub fn stdin(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.input = Some(stream.into());
        self
    }

    /// The command's standard output; this process's own by default.
    pub fn stdout(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.output = Some(stream.into());
        self
    }

    /// The command's standard error; this process's own by default.
    pub fn stderr(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.error = Some(stream.into());
        self
    }

    /// The plan with which the command would start now.
    ///
    /// # Errors
    /// When a statement isn't valid, or this host can't give what the policy asks for.
    pub fn plan(&self) -> Result<Plan<'static>, Error> {
        let situation = self.sandbox.request(self.words.clone())?.settle()?;
        Ok(situation.plan().map_err(PlanningError::from)?)
    }

    /// Starts the command. It runs when this returns.
    ///
    /// # Errors
    /// When there is no plan, or the command can't be started.
    pub fn spawn(&self) -> Result<Child, Error> {
        for _attempt in 0..ATTEMPTS {
            let prepared = self.prepared()?;
            if let Some(child) = self.launch(&prepared)? {
                return Ok(child);
            }
            kept(&self.sandbox).retain(|other| !Arc::ptr_eq(other, &prepared));
        }
        Err(Error::Restless)
    }

    /// As [`Command::spawn`], in one of the runtime's threads for blocking work.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    #[cfg(feature = "tokio")]
    pub async fn spawn_async(self) -> Result<Child, Error> {
        let spawned = tokio::task::spawn_blocking(move || self.spawn()).await;
        spawned.unwrap_or_else(|ended| {
            let source = io::Error::other(ended);
            Err(Error::System { action: "wait for the thread that starts a sandbox", source })
        })
    }

    /// Starts the command and waits for its end. Every question gets the answer no.
    ///
    /// # Errors
    /// As [`Command::spawn`], and [`Child::wait`].
    pub fn status(&self) -> Result<ExitStatus, Error> {
        self.spawn()?.wait()
    }

    /// Starts the command, and collects what it writes until its end. Its standard input is empty unless another one is set.
    ///
    /// # Errors
    /// As [`Command::spawn`] and [`Child::wait`]; and when the command's output can't be read.
    pub fn output(&self) -> Result<Output, Error> {
        let mut command = self.clone();
        command.input.get_or_insert(Stream::null());
        command.output.get_or_insert(Stream::piped());
        command.error.get_or_insert(Stream::piped());
        let mut child = command.spawn()?;
        // Threads read both pipes, because this thread waits for the end and answers questions.
        let readers = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        let status = child.wait()?;
        Ok(Output { status, stdout: read(readers.0)?, stderr: read(readers.1)? })
    }

    /// The plan for the command: a kept one or a new one.
    fn prepared(&self) -> Result<Arc<Prepared>, Error> {
        let program = closure::program_of(&self.words);
        let place = (self.sandbox.directory()?, rustix::process::geteuid().as_raw());
        let fits = |plan: &&Arc<Prepared>| {
            plan.place == place && plan.program.as_deref().is_none_or(|own| own == program.as_bytes())
        };
        if let Some(found) = kept(&self.sandbox).iter().find(fits) {
            return Ok(Arc::clone(found));
        }
        let plan = self.plan()?;
        let failed = |source: io::Error| Error::System { action: "keep a plan in memory", source };
        let bytes = plan.to_bytes().map_err(|error| failed(io::Error::other(error)))?;
        let memory = sealed(&bytes).map_err(failed)?;
        let program = plan.program.as_ref().map(|program| program.as_bytes().to_vec());
        let made = Arc::new(Prepared { program, place, memory });
        let mut kept = kept(&self.sandbox);
        if kept.len() == KEPT {
            kept.remove(0);
        }
        kept.push(Arc::clone(&made));
        Ok(made)
    }

    /// Lets the launcher apply a plan. `None`: the plan is stale.
    fn launch(&self, prepared: &Prepared) -> Result<Option<Child>, Error> {
        let failed = |action| move |source: io::Error| Error::System { action, source };
        let helper = self.sandbox.launcher()?;
        let (ours, theirs) = UnixStream::pair().map_err(failed("make a socket pair"))?;
        let streams = failed("prepare the command's streams");
        let (input, stdin) = self.input.clone().unwrap_or_default().input().map_err(streams)?;
        let (output, stdout) = self.output.clone().unwrap_or_default().output().map_err(streams)?;
        let (error, stderr) = self.error.clone().unwrap_or_default().output().map_err(streams)?;
        let mut command = std::process::Command::new(helper.program());
        command.arg0("palisade").arg(VERB).arg("--").args(&self.words);
        command.env_clear().envs(self.sandbox.environment());
        command.stdin(OwnedFd::from(theirs)).stdout(output).stderr(error);
        command.current_dir(&prepared.place.0);
        let process = command.spawn().map_err(failed("start the program palisade"))?;
        // The launcher has its own copies of the streams. This process closes its copies.
        drop(command);
        let mut begun = Begun::new(process).map_err(failed("watch the program palisade"))?;
        let talk = |source| Error::Talk { helper: helper.path().to_owned(), source };
        let mut connection = Connection::begin(ours, OWN_NAME).map_err(talk)?;
        let order = Order::Launch { program: PROGRAM.to_owned(), name: self.name.clone() };
        connection.send(&order).map_err(talk)?;
        match connection.receive().map_err(talk)? {
            Told::Ready => {}
            Told::Failed { message, hint, code } => return Err(Error::Launch { message, hint, code }),
            _ => return Err(talk(ProtocolError::Gone)),
        }
        connection.pass(prepared.memory.as_fd()).map_err(talk)?;
        connection.pass(input.as_fd()).map_err(talk)?;
        drop(input);
        let mut early = Vec::new();
        loop {
            match connection.receive().map_err(talk)? {
                Told::Started { pid, init, number } => {
                    begun.is_watched = true;
                    let mut child = Child::new(begun, connection, (pid, init, number), early);
                    (child.stdin, child.stdout, child.stderr) = (stdin, stdout, stderr);
                    helper.path().clone_into(&mut child.helper);
                    return Ok(Some(child));
                }
                Told::Stale => return Ok(None),
                Told::Failed { message, hint, code } => return Err(Error::Launch { message, hint, code }),
                told => early.push(told),
            }
        }
    }
}

fn kept(sandbox: &Sandbox) -> MutexGuard<'_, Vec<Arc<Prepared>>> {
    let kept: &Mutex<_> = sandbox.kept();
    // A plan is added or removed as a whole, so the list is consistent even after a panic.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory with this content, which no process can change any more.
fn sealed(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("palisade-plan", flags)?);
    file.write_all(bytes)?;
    let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

/// Reads a pipe to its end.
fn reader(mut from: PipeReader) -> JoinHandle<io::Result<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).map(|_length| bytes)
    })
}

fn read(reader: Option<JoinHandle<io::Result<Vec<u8>>>>) -> Result<Vec<u8>, Error> {
    let Some(reader) = reader else { return Ok(Vec::new()) };
    let bytes = reader.join().unwrap_or_else(|_panic| Err(io::Error::other("the reader panicked")));
    bytes.map_err(|source| Error::System { action: "read what the command writes", source })
}
