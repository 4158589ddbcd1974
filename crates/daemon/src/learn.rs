// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Launchers that have the kernel put down what their programs call. The programs are attached while there is a session:
//! where nobody learns, no call costs anything.

use crate::guard::GuardError;
use crate::journal::say;
use crate::{control, privileges};
use palisade_bpf::learn::LearnPrograms;
use palisade_protocol::guard::Refusal;
use palisade_protocol::learn::{Program, Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::collections::HashMap;
use std::error::Error as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sessions at once; what the kernel's tables hold is more.
const MOST: usize = 128;
/// Sessions of one ordinary user at once.
const EACH: usize = 16;
/// How long one may say nothing before it begins. Then a command runs as long as it runs.
const PATIENCE: Duration = Duration::from_secs(30);

/// The socket, and nothing else that would have to be ended.
#[derive(Debug)]
pub(crate) struct Learning {
    socket: PathBuf,
}

#[derive(Debug, Default)]
struct Service {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    programs: Option<LearnPrograms>,
    /// Sessions, by user.
    sessions: HashMap<u32, usize>,
    next: u32,
}

/// A session; ended when it is dropped.
struct Session<'s> {
    service: &'s Service,
    process: u32,
    uid: u32,
    number: u32,
    open: bool,
}

/// Serves beside whatever else this process does.
pub(crate) fn begin(socket: PathBuf) -> Result<Learning, GuardError> {
    let listener = control::listen(&socket)?;
    let service = Arc::new(Service::default());
    let work = move || {
        // Rights are a thread's own. What can't be given away is kept.
        let _kept = privileges::drop_capabilities();
        serve(&service, &listener);
    };
    // It waits for the next who connects, and ends with the process.
    drop(std::thread::Builder::new().name("learn-control".into()).spawn(work).map_err(GuardError::Begin)?);
    Ok(Learning { socket })
}

impl Learning {
    /// Nobody can begin any more; the kernel's programs end with this process.
    pub(crate) fn end(self) {
        let _gone = std::fs::remove_file(&self.socket);
    }
}

fn serve(service: &Arc<Service>, listener: &UnixListener) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Descriptors are used up; some conversation will end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let uid = credentials.uid.as_raw();
        if !service.state().enter(uid) {
            continue;
        }
        let talking = Arc::clone(service);
        let spawned = std::thread::Builder::new().name("learn-talk".into()).spawn(move || {
            converse(&talking, stream, uid);
            talking.state().leave(uid);
        });
        if spawned.is_err() {
            service.state().leave(uid);
        }
    }
}

fn converse(service: &Service, stream: UnixStream, uid: u32) {
    let outcome = Connection::begin(stream, concat!("palisaded ", env!("CARGO_PKG_VERSION")))
        .and_then(|mut connection| attend(service, &mut connection, uid));
    if let Err(error) = outcome
        && !matches!(error, ProtocolError::Gone | ProtocolError::Broken(_) | ProtocolError::TooSlow)
    {
        say(&format!("palisaded: a conversation about learning ended: {error}"));
    }
}

fn attend(service: &Service, connection: &mut Connection, uid: u32) -> Result<(), ProtocolError> {
    let process = connection.peer()?.pid;
    let Request::Begin = connection.receive_within(Some(PATIENCE))? else { return Ok(()) };
    let session = match service.begin(process, uid) {
        Ok(session) => session,
        Err(error) => {
            let mut message = error.to_string();
            let mut next = error.source();
            while let Some(cause) = next {
                message.push_str(&format!(": {cause}"));
                next = cause.source();
            }
            let hint = Some("palisade doctor   # says what this kernel offers".to_owned());
            return connection.send(&Response::Refused(Refusal { class: "programs".into(), message, hint }));
        }
    };
    connection.send(&Response::Begun)?;
    let Request::End = connection.receive()? else { return Ok(()) };
    match session.end() {
        Ok((called, lost)) => {
            for program in called {
                connection.send(&Response::Called(program))?;
            }
            connection.send(&Response::Done { lost })
        }
        Err(error) => {
            let refusal = Refusal { class: "programs".into(), message: error.to_string(), hint: None };
            connection.send(&Response::Refused(refusal))
        }
    }
}

impl State {
    fn enter(&mut self, uid: u32) -> bool {
        let all: usize = self.sessions.values().sum();
        let own = self.sessions.entry(uid).or_default();
        if all >= MOST || (uid != 0 && *own >= EACH) {
            return false;
        }
        *own += 1;
        true
    }

    fn leave(&mut self, uid: u32) {
        if let Some(own) = self.sessions.get_mut(&uid) {
            *own -= 1;
            if *own == 0 {
                self.sessions.remove(&uid);
            }
        }
        if self.sessions.is_empty() {
            self.programs = None;
        }
    }
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, process: u32, uid: u32) -> Result<Session<'_>, palisade_bpf::Error> {
        let mut state = self.state();
        let programs = match state.programs.take() {
            Some(programs) => programs,
            None => LearnPrograms::load()?,
        };
        state.next = state.next.wrapping_add(1);
        let number = state.next;
        let begun = programs.begin(process, number);
        state.programs = Some(programs);
        begun.map(|()| Session { service: self, process, uid, number, open: true })
    }
}

impl Session<'_> {
    fn end(mut self) -> Result<(Vec<Program>, u64), palisade_bpf::Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(Vec<Program>, u64), palisade_bpf::Error> {
        self.open = false;
        let state = self.service.state();
        let Some(programs) = &state.programs else { return Ok((Vec::new(), 0)) };
        let (called, lost) = programs.end(self.process, self.number)?;
        let called = called.into_iter().map(|one| Program {
            path: one.path,
            device: one.device,
            inode: one.inode,
            calls: one.calls,
        });
        Ok((called.collect(), lost))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        if self.open
            && let Err(error) = self.finish()
        {
            say(&format!("palisaded: what user {} learned isn't cleared away: {error}", self.uid));
        }
    }
}
