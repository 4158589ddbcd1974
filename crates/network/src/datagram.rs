// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams with the address that they were sent to: an answer must come from the address that was asked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use palisade_sys::datagram;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A received datagram.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) bytes: Vec<u8>,
    pub(crate) from: SocketAddr,
    /// The address that it was sent to.
    pub(crate) to: Option<IpAddr>,
}

/// A socket for datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams(UdpSocket);

impl Datagrams {
    /// Takes a UDP socket, and makes it report the destination address of datagrams.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let v6 = rustix::net::getsockname(&socket)?.address_family() == rustix::net::AddressFamily::INET6;
        datagram::tell_destination(socket.as_fd(), v6)?;
        let socket = std::net::UdpSocket::from(socket);
        socket.set_nonblocking(true)?;
        Ok(Self(UdpSocket::from_std(socket)?))
    }

    /// The next datagram that isn't longer than `longest`.
    pub(crate) async fn receive(&self, longest: usize) -> io::Result<Received> {
        let mut buffer = vec![0; longest];
        loop {
            let received = self.0.async_io(Interest::READABLE, || receive(&self.0, &mut buffer)).await?;
            if let Some((length, from, to)) = received {
                buffer.truncate(length);
                return Ok(Received { bytes: buffer, from, to });
            }
        }
    }

    /// Sends a datagram, if there is room for it. Otherwise it is dropped, because the client asks again.
    pub(crate) fn send(&self, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        Ok(datagram::send(self.0.as_fd(), bytes, to, from)?)
    }
}

/// `None`: the datagram was too long.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr, Option<IpAddr>)>> {
    let arrived = datagram::receive(socket.as_fd(), buffer)?;
    Ok((!arrived.cut).then_some((arrived.length, arrived.from, arrived.to)))
}
