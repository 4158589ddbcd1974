// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers the command line's requests about scopes.

use super::error::ScopeError;
use super::process;
use super::service::Service;
use crate::conversation::{self, Talks, Words};
use crate::followers::Interest;
use palisade_protocol::scope::{Request, Response};
use palisade_protocol::{Connection, Peer, ProtocolError};
use palisade_sys::peer;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;

const WORDS: Words<Response> = Words {
    event: Response::Event,
    missed: |count| Response::Missed { count },
    done: |said| Response::Done { said },
};

impl Talks for Service {
    const ABOUT: &'static str = "scopes";
    const THREAD: &'static str = "scope-talk";
    const MOST: usize = 128;
    const EACH: usize = 32;

    fn talk(&self, connection: &mut Connection) -> Result<(), ProtocolError> {
        let peer = connection.peer()?;
        loop {
            let request: Request = conversation::next(connection, Response::Refused)?;
            if let Request::Follow { scope, past, end, refused } = request {
                let interest = Interest { scope, refused, ..Interest::of(peer.uid) };
                return follow(self, connection, interest, past, end);
            }
            let response = answer(self, connection, peer, request)
                .unwrap_or_else(|error| Response::Refused(error.refusal()));
            connection.send(&response)?;
        }
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
            // Before Linux 6.5 a process can be found only by number. The number was the caller's when it connected, and
            // the caller waits for the answer.
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
    let following = service.followers.add(interest, past, |_all| ());
    let is_over = || service.stop.load(Ordering::Relaxed);
    let told = conversation::tell(connection, &following, end, is_over, &WORDS);
    service.followers.remove(following.number, |_all| ());
    told
}
