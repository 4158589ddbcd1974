// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams with the address that they were sent to: an answer has to come from the address that was asked.
//!
//! By way of `nix`, as `rustix` doesn't know `IP_PKTINFO` as ancillary data, and `quinn-udp` turns on segmentation and
//! error queues on top.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc::{in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::sockopt::{Ipv4PacketInfo, Ipv6RecvPacketInfo};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt,
};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// A datagram that came.
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
    /// Takes a UDP socket, and has it say where datagrams were sent to.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        if rustix::net::getsockname(&socket)?.address_family() == rustix::net::AddressFamily::INET6 {
            setsockopt(&socket, Ipv6RecvPacketInfo, &true)?;
        } else {
            setsockopt(&socket, Ipv4PacketInfo, &true)?;
        }
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

    /// Sends a datagram, if there is room for it: who asked asks again.
    pub(crate) fn send(&self, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
        let parts = [IoSlice::new(bytes)];
        let to = SockaddrStorage::from(to);
        let (v4, v6);
        let control = match from {
            Some(IpAddr::V4(from)) => {
                let address = in_addr { s_addr: u32::from_ne_bytes(from.octets()) };
                v4 = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: in_addr { s_addr: 0 } };
                Some(ControlMessage::Ipv4PacketInfo(&v4))
            }
            Some(IpAddr::V6(from)) => {
                v6 = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
                Some(ControlMessage::Ipv6PacketInfo(&v6))
            }
            None => None,
        };
        sendmsg(self.0.as_raw_fd(), &parts, control.as_slice(), MsgFlags::MSG_DONTWAIT, Some(&to))?;
        Ok(())
    }
}

/// None: it was too long, or from nowhere.
fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<Option<(usize, SocketAddr, Option<IpAddr>)>> {
    let mut control = nix::cmsg_space!(in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
    let mut to = None;
    for control in message.cmsgs()? {
        match control {
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                to = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => {
                to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into())
            }
            _ => {}
        }
    }
    let from = message.address.and_then(|address| {
        let v4 = address.as_sockaddr_in().map(|address| SocketAddrV4::from(*address).into());
        v4.or_else(|| address.as_sockaddr_in6().map(|address| SocketAddrV6::from(*address).into()))
    });
    let whole = !message.flags.contains(MsgFlags::MSG_TRUNC);
    Ok(from.filter(|_from| whole).map(|from| (message.bytes, from, to)))
}
