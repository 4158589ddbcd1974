// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of a sandbox without a network namespace: its broker asks for each, and gets one end of a pair.
//!
//! The pair is a TCP connection within the host's loopback interface, because programs examine and set properties that
//! only such a socket has. The listener lives for one connection, and only the connection from the gateway's own socket
//! counts: any process of the host may connect to it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use palisade_sys::connection::{self, Wanted};
use palisade_sys::network::PORT;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixDatagram};

use crate::accept::{led, reached};
use crate::engine::Engine;
use crate::front;

/// How many other connections to the listener are turned away before the pair is given up.
const STRANGERS: usize = 64;

/// Makes a descriptor the source of requests. It is of the type `SOCK_SEQPACKET`, for which tokio has no name. Nothing that
/// depends on the type is done with it.
pub(crate) fn requests(broker: OwnedFd) -> io::Result<UnixDatagram> {
    let broker = std::os::unix::net::UnixDatagram::from(broker);
    broker.set_nonblocking(true)?;
    UnixDatagram::from_std(broker)
}

/// Answers requests until the broker has ended. The command may reach the loopback addresses' ports `reach`.
pub(crate) async fn serve(engine: Rc<Engine>, broker: UnixDatagram, reach: Vec<u16>) {
    loop {
        let asked = broker.async_io(Interest::READABLE, || Ok(connection::asked(&broker)?)).await;
        let Wanted { number, to } = match asked {
            Ok(Some(wanted)) => wanted,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BADMSG) => continue,
            Ok(None) | Err(_) => return,
        };
        let Some(place) = engine.admission.try_enter() else {
            engine.strained("there are too many connections at once");
            answer(&broker, number, Err(Errno::AGAIN));
            continue;
        };
        let (client, server) = match pair(to.is_ipv6()) {
            Ok(pair) => pair,
            Err(errno) => {
                answer(&broker, number, Err(errno));
                continue;
            }
        };
        answer(&broker, number, Ok(client));
        let reaches = to.ip().to_canonical().is_loopback() && reach.contains(&to.port());
        let engine = Rc::clone(&engine);
        tokio::task::spawn_local(async move {
            if reaches {
                reached(engine, server, to.port()).await;
            } else if is_proxy(to) {
                Box::pin(front::serve(engine, server)).await;
            } else {
                led(engine, server, to).await;
            }
            drop(place);
        });
    }
}

/// The proxy's address, which the variables name. Nothing listens there.
fn is_proxy(to: SocketAddr) -> bool {
    to.ip().to_canonical().is_loopback() && to.port() == PORT
}

fn answer(broker: &UnixDatagram, number: u32, answer: Result<OwnedFd, Errno>) {
    let socket = match &answer {
        Ok(socket) => Ok(socket.as_fd()),
        Err(errno) => Err(*errno),
    };
    // The broker asks for one connection at a time, so there is room. If it has ended, nobody waits.
    let _nobody_waits = connection::give(broker, number, socket);
}

/// A connected pair: the command's socket and the gateway's. `v6`: the command's is one of IPv6.
fn pair(v6: bool) -> Result<(OwnedFd, TcpStream), Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = |family| rustix::net::socket_with(family, SocketType::STREAM, flags, None);
    let listener = socket(AddressFamily::INET)?;
    rustix::net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    rustix::net::listen(&listener, 1)?;
    let place = address(rustix::net::getsockname(&listener)?)?;
    // Such a socket reaches IPv4, also where the host has no IPv6 address.
    let (client, place) = if v6 {
        let ip = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
        (socket(AddressFamily::INET6)?, SocketAddr::new(ip, place.port()))
    } else {
        (socket(AddressFamily::INET)?, place)
    };
    // On the loopback interface the kernel has made the connection when the call returns, unless the queue is full.
    match rustix::net::connect(&client, &place) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return Err(errno),
    }
    let own = address(rustix::net::getsockname(&client)?)?;
    for _stranger in 0..STRANGERS {
        let (server, peer) = rustix::net::acceptfrom_with(&listener, flags)?;
        if peer.map(address) == Some(Ok(own)) {
            let server = TcpStream::from_std(std::net::TcpStream::from(server));
            let server = server.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
            let _slower = server.set_nodelay(true);
            return Ok((client, server));
        }
    }
    Err(Errno::CONNREFUSED)
}

/// An address of the internet, without the mapping of IPv4 into IPv6.
fn address(address: rustix::net::SocketAddrAny) -> Result<SocketAddr, Errno> {
    let address = SocketAddr::try_from(address)?;
    Ok(SocketAddr::new(address.ip().to_canonical(), address.port()))
}
