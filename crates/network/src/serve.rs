// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The entry point: takes the sandbox's sockets and serves them.

use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::Duration;

use palisade_policy::network::NetworkRules;
use palisade_protocol::network::{Instruction, Resolving};
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::accept::{Wish, listen, published, reached, redirected};
use crate::admission::affordable;
use crate::control::{self, Instructions};
use crate::datagram::Datagrams;
use crate::dns;
use crate::engine::Engine;
use crate::pairs;
use crate::stream::Stream;
use crate::upstream::Upstream;
use crate::wait::{Either, first};

/// Sockets of a sandbox's network. All are made non-blocking.
#[derive(Debug, Default)]
pub struct Inside {
    /// TCP listeners to which every connection is redirected. They also accept `CONNECT` and SOCKS5.
    pub tcp: Vec<OwnedFd>,
    /// UDP sockets on port 53 of every address. This crate makes them report the destination of each datagram
    /// (`IP_PKTINFO`, `IPV6_RECVPKTINFO`).
    pub dns: Vec<OwnedFd>,
    /// TCP listeners on port 53 of the loopback addresses.
    pub dns_tcp: Vec<OwnedFd>,
    /// Listeners inside, each with the port of the host that it leads to.
    pub reach: Vec<(OwnedFd, u16)>,
    /// Listeners of the host, each with the port inside that it leads to.
    pub publish: Vec<(OwnedFd, u16)>,
    /// For a sandbox without a network namespace: requests in place of listeners.
    pub asked: Option<Asked>,
}

impl Inside {
    /// The host's ports that the command may reach.
    fn reached(&self) -> Vec<u16> {
        let asked = self.asked.iter().flat_map(|asked| asked.reach.iter().copied());
        self.reach.iter().map(|(_listener, port)| *port).chain(asked).collect()
    }
}

/// A sandbox without a network namespace, whose broker asks for each connection.
#[derive(Debug)]
pub struct Asked {
    /// The socket of the broker's requests ([`palisade_sys::connection`]).
    pub broker: OwnedFd,
    /// Ports of the loopback addresses that may be reached.
    pub reach: Vec<u16>,
}

/// Makes sockets inside the sandbox's network.
pub trait Maker {
    /// A TCP socket of the sandbox's network, not connected. The gateway waits for it, so this must return at once.
    ///
    /// # Errors
    ///
    /// There is no socket.
    fn socket(&mut self, v6: bool) -> io::Result<OwnedFd>;
}

/// Serves a sandbox's network until the other end of `control` (see [`Control::pair`](crate::Control::pair)) is closed.
///
/// The process must ignore SIGPIPE, as Rust programs do by default, because splice(2) has no flag for that. Connections
/// that are open at the end are reset or closed. The process's limit of open files is raised as far as possible.
/// `rules` and `answered` are kept until the process ends. `answered` has the hosts that the user has allowed before,
/// where the rules ask the user.
///
/// # Errors
///
/// A socket isn't of the expected type, or the runtime can't be made.
pub fn serve(
    inside: Inside,
    rules: &NetworkRules,
    answered: &NetworkRules,
    upstream: &Upstream,
    resolving: &Resolving,
    maker: &mut dyn Maker,
    control: OwnedFd,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut engine = Engine::new(rules, answered, upstream, resolving, affordable());
    engine.reach = inside.reached();
    let engine = Rc::new(engine);
    let tasks = LocalSet::new();
    let last = std::os::unix::net::UnixStream::from(control.try_clone()?);
    let result = runtime.block_on(tasks.run_until(run(Rc::clone(&engine), inside, maker, control)));
    // Dropping the tasks drops their connections.
    drop(tasks);
    // A reader that has shut down its end for writing may still read.
    let _nobody_reads = engine.outbox.flush(&last, PATIENCE);
    result
}

/// How long the end waits until the remaining messages are read.
const PATIENCE: Duration = Duration::from_millis(500);

/// Makes a listener of a descriptor.
fn listener(socket: OwnedFd) -> io::Result<TcpListener> {
    let socket = std::net::TcpListener::from(socket);
    socket.set_nonblocking(true)?;
    TcpListener::from_std(socket)
}

/// Serves with an existing engine.
pub(crate) async fn run(
    engine: Rc<Engine>,
    inside: Inside,
    maker: &mut dyn Maker,
    control: OwnedFd,
) -> io::Result<()> {
    let (wishes, mut wished) = mpsc::unbounded_channel::<Wish>();
    for socket in inside.tcp {
        tokio::task::spawn_local(listen(Rc::clone(&engine), listener(socket)?, redirected));
    }
    for socket in inside.dns {
        tokio::task::spawn_local(dns::serve(Rc::clone(&engine), Datagrams::new(socket)?));
    }
    for socket in inside.dns_tcp {
        let handle = |engine: Rc<Engine>, stream| async move {
            let asker = control::asker(&stream);
            dns::serve_stream(&engine, asker, Stream::new(stream, Vec::new())).await;
        };
        tokio::task::spawn_local(listen(Rc::clone(&engine), listener(socket)?, handle));
    }
    for (socket, port) in inside.reach {
        let handle = move |engine, stream| reached(engine, stream, port);
        tokio::task::spawn_local(listen(Rc::clone(&engine), listener(socket)?, handle));
    }
    for (socket, port) in inside.publish {
        let wishes = wishes.clone();
        let handle = move |engine, stream| published(engine, stream, port, wishes.clone());
        tokio::task::spawn_local(listen(Rc::clone(&engine), listener(socket)?, handle));
    }
    if let Some(Asked { broker, reach }) = inside.asked {
        tokio::task::spawn_local(pairs::serve(Rc::clone(&engine), pairs::requests(broker)?, reach));
    }
    let control = std::os::unix::net::UnixStream::from(control);
    control.set_nonblocking(true)?;
    let (hears, tells) = {
        let other = control.try_clone()?;
        (UnixStream::from_std(control)?, UnixStream::from_std(other)?)
    };
    let teller = Rc::clone(&engine);
    let told = tokio::task::spawn_local(async move { teller.outbox.send(&tells).await });
    let told_to = Rc::clone(&engine);
    let hears = tokio::task::spawn_local(async move {
        let mut instructions = Instructions::of(hears);
        while let Some(instruction) = instructions.next().await? {
            match instruction {
                Instruction::Answer { number, answer } => told_to.decisions.answered(number, Ok(answer)),
                Instruction::Unasked { number, why } => told_to.decisions.answered(number, Err(why)),
                Instruction::Noted { number } => told_to.decisions.noted(number),
                Instruction::Resolving(resolving) => told_to.resolver.renew(&resolving),
            }
        }
        io::Result::Ok(())
    });
    let mut ended = Box::pin(first(hears, told));
    loop {
        match first(ended.as_mut(), wished.recv()).await {
            Either::First(_closed) => {
                engine.over.notify_waiters();
                // Let each connection report its end.
                for _turn in 0..3 {
                    tokio::task::yield_now().await;
                }
                return Ok(());
            }
            Either::Second(Some((v6, answer))) => {
                let _nobody_waits = answer.send(maker.socket(v6));
            }
            Either::Second(None) => return Ok(()),
        }
    }
}
