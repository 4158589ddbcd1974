// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command in a sandbox, and how it is started.

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

/// What this side calls itself.
const OWN_NAME: &str = concat!("palisade library ", env!("CARGO_PKG_VERSION"));
/// So often a plan is made anew because what it was made from has changed meanwhile.
const ATTEMPTS: u32 = 5;
/// So many plans of one sandbox are kept: those of other programs, where plans are for one program.
const KEPT: usize = 16;

/// A plan, ready to be passed to who applies it.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// The program that it is for; none if it is for any.
    program: Option<Vec<u8>>,
    /// The working directory and the user that it is for.
    place: (PathBuf, u32),
    /// Its bytes, in memory that nobody changes any more.
    memory: OwnedFd,
}

/// A command in a sandbox. As [`std::process::Command`], but for its streams, which are [`Stream`]s.
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

    /// What its sandbox is called while it runs, in `palisade ps` and in events. No other sandbox of this user may be called so
    /// by then.
    pub fn name(&mut self, name: impl Into<String>) -> &mut Self {
        self.name = Some(name.into());
        self
    }

    /// What its standard input is; this process's own by default.
    pub fn stdin(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.input = Some(stream.into());
        self
    }

    /// What its standard output is; this process's own by default.
    pub fn stdout(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.output = Some(stream.into());
        self
    }

    /// What its standard error is; this process's own by default.
    pub fn stderr(&mut self, stream: impl Into<Stream>) -> &mut Self {
        self.error = Some(stream.into());
        self
    }

    /// The plan by which it would be started now.
    ///
    /// # Errors
    /// When something was stated that can't be, or the policy asks for what can't be given here.
    pub fn plan(&self) -> Result<Plan<'static>, Error> {
        let situation = self.sandbox.request(self.words.clone())?.settle()?;
        Ok(situation.plan().map_err(PlanningError::from)?)
    }

    /// Starts it. It runs when this returns.
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

    /// As [`Command::spawn`], in a thread of the runtime's for what blocks.
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

    /// Starts it and waits for its end. Every question is answered with no.
    ///
    /// # Errors
    /// As [`Command::spawn`], and [`Child::wait`].
    pub fn status(&self) -> Result<ExitStatus, Error> {
        self.spawn()?.wait()
    }

    /// Starts it, and collects what it writes until its end. Its standard input is empty unless something else was said.
    ///
    /// # Errors
    /// As [`Command::spawn`], and [`Child::wait`]; and when what it writes can't be read.
    pub fn output(&self) -> Result<Output, Error> {
        let mut command = self.clone();
        command.input.get_or_insert(Stream::null());
        command.output.get_or_insert(Stream::piped());
        command.error.get_or_insert(Stream::piped());
        let mut child = command.spawn()?;
        // Both pipes are read while the end is waited for: who waits answers questions, too.
        let readers = (child.stdout.take().map(reader), child.stderr.take().map(reader));
        let status = child.wait()?;
        Ok(Output { status, stdout: read(readers.0)?, stderr: read(readers.1)? })
    }

    /// The plan for it: one that was made before, or a new one.
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

    /// Has a plan applied. None: it has become stale.
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
        // What it has of the streams is its own; this process keeps none of it.
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
    // A plan is there or not; nothing is half done when somebody panics.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory with this content, which nobody can change any more.
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
