// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serves launchers that ask the kernel to record the system calls of their programs. The eBPF programs are attached only
//! while there is a session: when no launcher learns, system calls cost nothing extra.

use crate::conversation::{self, PATIENCE, Talks};
use crate::guard::GuardError;
use crate::log::chain;
use crate::saying::say;
use crate::scope::process;
use crate::{control, privileges};
use palisade_bpf::learn::LearnPrograms;
use palisade_protocol::guard::Refusal;
use palisade_protocol::learn::{Program, Request, Response};
use palisade_protocol::{Connection, Peer, ProtocolError};
use palisade_sys::peer;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The socket. Nothing else has to be ended.
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

/// A session. It ends when this is dropped.
struct Session<'s> {
    service: &'s Service,
    process: OwnedFd,
    uid: u32,
    number: u32,
    open: bool,
}

/// Serves beside the other parts of this process.
pub(crate) fn begin(socket: PathBuf) -> Result<Learning, GuardError> {
    let listener = control::listen(&socket)?;
    let service = Arc::new(Service::default());
    let work = move || {
        // Capabilities belong to a thread. Those that can't be dropped are kept.
        let _kept = privileges::drop_capabilities();
        conversation::serve(&service, &listener);
    };
    // The thread waits for the next connection, and ends with the process.
    drop(std::thread::Builder::new().name("learn-control".into()).spawn(work).map_err(GuardError::Begin)?);
    Ok(Learning { socket })
}

impl Learning {
    /// Removes the socket, so that no session can begin. The programs in the kernel end with this process.
    pub(crate) fn end(self) {
        let _gone = std::fs::remove_file(&self.socket);
    }
}

impl Talks for Service {
    const ABOUT: &'static str = "learning";
    const THREAD: &'static str = "learn-talk";
    /// The kernel's tables have room for more.
    const MOST: usize = 128;
    const EACH: usize = 16;

    fn talk(&self, connection: &mut Connection) -> Result<(), ProtocolError> {
        let peer = connection.peer()?;
        attend(self, connection, peer)
    }

    fn is_alone(&self) {
        self.state().programs = None;
    }
}

fn attend(service: &Service, connection: &mut Connection, peer: Peer) -> Result<(), ProtocolError> {
    let Request::Begin = connection.receive_within(Some(PATIENCE))? else { return Ok(()) };
    let Some(process) = launcher(connection, peer) else {
        return connection.send(&Response::Refused(Refusal {
            class: "launcher".into(),
            message: format!("process {}, which connected, has ended", peer.pid),
            hint: None,
        }));
    };
    let session = match service.begin(process, peer.uid) {
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
    if !asks_again(connection, &session.process) {
        return Ok(());
    }
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

/// The process that connected; another process may hold the socket by now. `None`: the process is gone, or can't be
/// distinguished from another process with the same number.
fn launcher(connection: &Connection, peer: Peer) -> Option<OwnedFd> {
    match peer::process(connection.socket()) {
        Ok(process) => Some(process),
        // The kernel is older than Linux 6.5.
        Err(Errno::NOPROTOOPT) => by_number(peer),
        Err(_gone) => None,
    }
}

/// The process with this number, if all its user ids are the peer's. If another process of the same user has the number by
/// now, the user learns nothing new.
fn by_number(peer: Peer) -> Option<OwnedFd> {
    let process = process::open(peer.pid)?;
    let same = process::user(peer.pid) == Some(peer.uid);
    // What was read is about this process only if the process still lives.
    (same && process::lives(process.as_fd())).then_some(process)
}

/// Waits until the launcher sends something or has ended. Returns whether the launcher is there.
fn asks_again(connection: &Connection, process: &OwnedFd) -> bool {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(connection.socket(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => {}
            Err(_) => return false,
            Ok(_ready) => return fds[0].revents().is_empty(),
        }
    }
}

impl Service {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, process: OwnedFd, uid: u32) -> Result<Session<'_>, palisade_bpf::Error> {
        let mut state = self.state();
        let programs = match state.programs.take() {
            Some(programs) => programs,
            None => LearnPrograms::load()?,
        };
        state.next = state.next.wrapping_add(1);
        let number = state.next;
        let begun = programs.begin(process.as_fd(), number);
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
        let (called, lost) = programs.end(self.process.as_fd(), self.number)?;
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
            say(&format!("palisaded: can't remove the recorded system calls of user {}: {error}", self.uid));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_only_a_process_of_the_same_user() {
        let pid = std::process::id();
        let uid = rustix::process::getuid().as_raw();
        assert!(by_number(Peer { pid, uid }).is_some());
        assert!(by_number(Peer { pid, uid: uid + 1 }).is_none(), "another user has the number by now");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(by_number(Peer { pid: child.id(), uid }).is_none(), "nobody has it");
    }
}
