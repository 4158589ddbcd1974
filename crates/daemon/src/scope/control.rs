// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the command line asks about scopes.

use super::followers::Interest;
use super::process;
use super::service::{ScopeError, Service};
use crate::journal::say;
use palisade_protocol::guard::Refusal;
use palisade_protocol::scope::{Request, Response};
use palisade_protocol::{Connection, Peer, ProtocolError};
use palisade_sys::peer;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Conversations at once.
const MOST: usize = 128;
/// Conversations of one ordinary user at once: the others shall be heard, too.
const EACH: usize = 32;
/// How long one may say nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// Serves as long as the process lives.
pub(super) fn serve(service: &Arc<Service>, listener: &UnixListener) {
    let serving: Arc<Mutex<HashMap<u32, usize>>> = Arc::default();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Descriptors are used up; some conversation will end.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Ok(credentials) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let uid = credentials.uid.as_raw();
        {
            let mut serving = serving.lock().unwrap_or_else(PoisonError::into_inner);
            let all: usize = serving.values().sum();
            let own = serving.entry(uid).or_default();
            if all >= MOST || (uid != 0 && *own >= EACH) {
                continue;
            }
            *own += 1;
        }
        let (service, counted) = (Arc::clone(service), Arc::clone(&serving));
        let over = move || {
            let mut serving = counted.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(own) = serving.get_mut(&uid) {
                *own -= 1;
                if *own == 0 {
                    serving.remove(&uid);
                }
            }
        };
        let ended = over.clone();
        let spawned = std::thread::Builder::new().name("scope-talk".into()).spawn(move || {
            converse(&service, stream);
            ended();
        });
        if spawned.is_err() {
            over();
        }
    }
}

fn converse(service: &Service, stream: UnixStream) {
    let outcome = Connection::begin(stream, concat!("palisaded ", env!("CARGO_PKG_VERSION")))
        .and_then(|mut connection| answer_all(service, &mut connection));
    if let Err(error) = outcome
        && !matches!(error, ProtocolError::Gone | ProtocolError::Broken(_) | ProtocolError::TooSlow)
    {
        say(&format!("palisaded: a conversation about scopes ended: {error}"));
    }
}

fn answer_all(service: &Service, connection: &mut Connection) -> Result<(), ProtocolError> {
    let peer = connection.peer()?;
    loop {
        let request: Request = match connection.receive_within(Some(PATIENCE)) {
            Ok(request) => request,
            Err(ProtocolError::Malformed(error)) => {
                connection.send(&Response::Refused(Refusal {
                    class: "request".into(),
                    message: format!("can't understand what is asked: {error}"),
                    hint: Some("update palisade and palisaded to the same version".into()),
                }))?;
                continue;
            }
            Err(error) => return Err(error),
        };
        if let Request::Follow { scope, past, end, refused } = request {
            let owner = (peer.uid != 0).then_some(peer.uid);
            return follow(service, connection, Interest { owner, scope, refused }, past, end);
        }
        let response = answer(service, connection, peer, request)
            .unwrap_or_else(|error| Response::Refused(error.refusal()));
        connection.send(&response)?;
    }
}

fn answer(
    service: &Service,
    connection: &Connection,
    peer: Peer,
    request: Request,
) -> Result<Response, ScopeError> {
    let done = |said: String| Ok(Response::Done { said });
    let outside = || match Service::inside(&service.state(), peer.pid) {
        Some(scope) => Err(ScopeError::Inside(scope)),
        None => Ok(()),
    };
    let root = || if peer.uid == 0 { Ok(()) } else { Err(ScopeError::RootOnly) };
    match request {
        Request::Run { scope } => {
            // Before Linux 6.5 only by number: it was the asker's when it connected, and the asker waits for the answer.
            let process = peer::process(connection.socket()).ok().or_else(|| process::open(peer.pid));
            let process = process.ok_or(ScopeError::NoProcess(peer.pid))?;
            Ok(Response::Marked(service.mark_launcher(peer.uid, process.as_fd(), &scope)?))
        }
        Request::Mark { pid, alone, scope } => {
            Ok(Response::Marked(service.mark_running(peer.uid, peer.pid, pid, alone, &scope)?))
        }
        Request::Line { pid, scope } => {
            Ok(Response::Marked(service.mark_line(peer.uid, peer.pid, pid, &scope)?))
        }
        Request::Release { pid } => {
            service.release(peer.uid, peer.pid, pid)?;
            done(format!("process {pid} isn't marked"))
        }
        Request::Judge { scope, verdict } => {
            outside()?;
            service.judge(peer.uid, scope, verdict)?;
            done(format!("execs in scope {scope}: {verdict}"))
        }
        Request::List => {
            let scopes = service.list((peer.uid != 0).then_some(peer.uid))?;
            Ok(Response::Scopes { scopes })
        }
        Request::Clear { scope } => {
            outside()?;
            let count = service.clear(peer.uid, scope)?;
            let all = if peer.uid == 0 && scope.is_none() { ", and programs and pins removed" } else { "" };
            done(format!("{count} {} ended{all}", if count == 1 { "scope" } else { "scopes" }))
        }
        Request::Status => Ok(Response::Status(Box::new(service.status()))),
        Request::Profile { profile } => {
            root()?;
            outside()?;
            service.change(|settings| settings.profile = profile)?;
            done(format!("profile: {profile}"))
        }
        Request::Depth { depth } => {
            root()?;
            outside()?;
            service.change(|settings| settings.depth = depth)?;
            done(format!("depth: {depth}"))
        }
        Request::Follow { .. } => Err(ScopeError::NoScope(0)),
    }
}

fn follow(
    service: &Service,
    connection: &mut Connection,
    interest: Interest,
    past: bool,
    end: bool,
) -> Result<(), ProtocolError> {
    use std::sync::atomic::Ordering;
    let (before, events) = service.followers.add(interest, past);
    connection.send(&Response::Done { said: "following".into() })?;
    for happened in before {
        connection.send(&Response::Happened(Box::new(happened)))?;
    }
    if end {
        return Ok(());
    }
    loop {
        match events.recv_timeout(Duration::from_millis(200)) {
            Ok(happened) => connection.send(&Response::Happened(Box::new(happened)))?,
            Err(RecvTimeoutError::Timeout) => {
                if service.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                // Whoever follows says nothing any more, so that it says something means that it has gone.
                match connection.receive_within::<Request>(Some(Duration::from_millis(1))) {
                    Err(ProtocolError::TooSlow) => {}
                    _ => return Ok(()),
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}
