// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Launchers that have the kernel put down what their programs call. The programs are attached while there is a session:
//! where nobody learns, no call costs anything.

use crate::conversation::{self, PATIENCE, Talks};
use crate::guard::GuardError;
use crate::journal::{chain, say};
use crate::{control, privileges};
use palisade_bpf::learn::LearnPrograms;
use palisade_protocol::guard::Refusal;
use palisade_protocol::learn::{Program, Request, Response};
use palisade_protocol::{Connection, ProtocolError};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
        conversation::serve(&service, &listener);
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

impl Talks for Service {
    const ABOUT: &'static str = "learning";
    const THREAD: &'static str = "learn-talk";
    /// What the kernel's tables hold is more.
    const MOST: usize = 128;
    const EACH: usize = 16;

    fn talk(&self, connection: &mut Connection) -> Result<(), ProtocolError> {
        let peer = connection.peer()?;
        attend(self, connection, peer.pid, peer.uid)
    }

    fn is_alone(&self) {
        self.state().programs = None;
    }
}

fn attend(
    service: &Service,
    connection: &mut Connection,
    process: u32,
    uid: u32,
) -> Result<(), ProtocolError> {
    let Request::Begin = connection.receive_within(Some(PATIENCE))? else { return Ok(()) };
    let session = match service.begin(process, uid) {
        Ok(session) => session,
        Err(error) => {
            let hint = Some("palisade doctor   # says what this kernel offers".to_owned());
            return connection.send(&Response::Refused(Refusal {
                class: "programs".into(),
                message: chain(&error),
                hint,
            }));
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
