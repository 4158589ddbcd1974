// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The launcher's side of a filtered network: sockets at which nobody answers until somebody asks.
//!
//! Init has made them inside (`palisade_sys::network`). The first question or connection makes the kernel send a
//! signal, which the monitor takes among the others; only then is the process forked that serves them
//! (`palisade_network`), outside, with next to no rights. A command that never uses the network never pays for it. When
//! that process ends, its sockets are closed with it: who asks then is refused, and nothing else leads out.

use crate::error::StartError;
use crate::plan::{Network as Told, Plan};
use crate::start::Happening;
use palisade_network::control::{self, Control};
use palisade_network::{Inside, Report, Resolving};
use palisade_sys::fork::{self, Apart};
use palisade_sys::launch::Started;
use palisade_sys::network::{Made, Network, Use};
use palisade_sys::wait::{self, Change};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A file of more than this says nothing about names.
const LARGEST: usize = 1 << 20;

/// The network of a launch.
#[derive(Debug, Default)]
pub(crate) struct Gateway<'p> {
    told: Option<&'p Told<'p>>,
    identity: Option<[u32; 2]>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// There is none, or nobody serves it any more.
    #[default]
    Shut,
    /// Nobody has asked for anything.
    Alone(Sockets),
    /// Whoever asks is served.
    Open { process: i32, control: OwnedFd },
}

#[derive(Debug)]
struct Sockets {
    inside: Vec<Made>,
    publish: Vec<(OwnedFd, u16)>,
    lifeline: OwnedFd,
}

/// The sockets of the host whose connections go inside, made before anything is started.
pub(crate) fn publish(plan: &Plan<'_>) -> Result<Vec<(OwnedFd, u16)>, StartError> {
    let Some(told) = &plan.network else { return Ok(Vec::new()) };
    let bound = told.publish.iter().map(|published| {
        let address = (published.address, published.host_port);
        let listener = TcpListener::bind(address)
            .map_err(|source| StartError::Publish { address: address.into(), source })?;
        Ok((OwnedFd::from(listener), published.port))
    });
    bound.collect()
}

impl<'p> Gateway<'p> {
    /// Takes the sockets over and waits for whoever asks.
    pub(crate) fn of(
        plan: &'p Plan<'_>,
        network: Option<&Network>,
        publish: Vec<(OwnedFd, u16)>,
        started: &Started,
        tell: &mut dyn FnMut(Happening<'_>),
    ) -> Self {
        let (Some(told), Some(network), Some(lifeline)) = (&plan.network, network, &started.lifeline) else {
            return Self::default();
        };
        if let Some(why) = network.unled() {
            tell(Happening::Unled(why));
        }
        let mapped = plan.identity.kind == crate::plan::IdentityKind::Mapped;
        let identity = mapped.then_some([plan.identity.host_uid, plan.identity.host_gid]);
        let state = match lifeline.try_clone() {
            Ok(lifeline) => State::Alone(Sockets { inside: network.take(), publish, lifeline }),
            Err(_no_more) => State::Shut,
        };
        let gateway = Self { told: Some(told), identity, state };
        if let State::Alone(sockets) = &gateway.state {
            for socket in sockets.all() {
                let _looked_at_below = wait::signal_when_readable(socket);
            }
        }
        gateway
    }

    /// Looks whether somebody has asked, and what is reported.
    pub(crate) fn look(&mut self, tell: &mut dyn FnMut(Happening<'_>)) {
        if let State::Alone(sockets) = &self.state {
            if !sockets.any_readable() {
                return;
            }
            self.begin(tell);
        }
        if let State::Open { control, .. } = &self.state {
            hear(control.as_fd(), tell);
        }
    }

    /// A process has ended: perhaps the one that serves.
    pub(crate) fn reap(&mut self, tell: &mut dyn FnMut(Happening<'_>)) {
        let State::Open { process, control } = &self.state else { return };
        if let Ok(Some(Change::Exited(_) | Change::Killed(_))) | Err(_) = wait::poll(*process) {
            hear(control.as_fd(), tell);
            self.state = State::Shut;
            tell(Happening::NetworkEnded("the process that serves it has ended"));
        }
    }

    fn begin(&mut self, tell: &mut dyn FnMut(Happening<'_>)) {
        let State::Alone(sockets) = std::mem::take(&mut self.state) else { return };
        let Some(told) = self.told else { return };
        match start(told, self.identity, sockets) {
            Ok((process, control)) => self.state = State::Open { process, control },
            Err(error) => tell(Happening::NetworkEnded(&error.to_string())),
        }
    }

    /// Ends whoever serves. Nobody is left inside who could ask.
    pub(crate) fn end(&mut self, tell: &mut dyn FnMut(Happening<'_>)) {
        if let State::Open { process, control } = std::mem::take(&mut self.state) {
            let _dead_already = wait::send(process, 9);
            let _reaped = wait::blocking(process);
            hear(control.as_fd(), tell);
        }
    }
}

/// Whoever leaves early leaves nobody behind.
impl Drop for Gateway<'_> {
    fn drop(&mut self) {
        self.end(&mut |_nobody_listens| {});
    }
}

impl Sockets {
    fn all(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let publish = self.publish.iter().map(|(socket, _port)| socket.as_fd());
        self.inside.iter().map(|made| made.socket.as_fd()).chain(publish)
    }

    fn any_readable(&self) -> bool {
        let mut polled: Vec<PollFd<'_>> =
            self.all().map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    fn into_inside(self) -> (Inside, OwnedFd) {
        let mut inside = Inside { publish: self.publish, ..Inside::default() };
        for made in self.inside {
            match made.used {
                Use::Connections => inside.tcp.push(made.socket),
                Use::Questions => inside.dns.push(made.socket),
                Use::LongQuestions => inside.dns_tcp.push(made.socket),
                Use::Reach(port) => inside.reach.push((made.socket, port)),
            }
        }
        (inside, self.lifeline)
    }
}

/// Forks the process that serves.
fn start(
    told: &Told<'_>,
    identity: Option<[u32; 2]>,
    sockets: Sockets,
) -> Result<(i32, OwnedFd), Box<dyn std::error::Error>> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let rules = told.rules.get()?;
    let upstream = told.upstream.get()?;
    let resolving = resolving();
    let filter = told.filter.instructions();
    for socket in sockets.all() {
        wait::no_signal_when_readable(socket)?;
    }
    let (inside, lifeline) = sockets.into_inside();
    let mut kept: Vec<BorrowedFd<'_>> = inside.descriptors().collect();
    kept.extend([theirs.as_fd(), lifeline.as_fd()]);
    let apart = Apart { name: c"palisade-net", kept: &kept, identity, filter: &filter };
    // SAFETY of what is shared: the fork has this whole function's memory and, of the descriptors, those kept.
    let process = fork::apart(&apart, || {
        let _ended = serve(&inside, &rules, &upstream, &resolving, &theirs, &lifeline);
    })?;
    wait::signal_when_readable(ours.as_fd())?;
    Ok((process, ours))
}
