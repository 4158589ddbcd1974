// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends and receives datagrams together with the local address that they were sent to or come from: `IP_PKTINFO`
//! (ip(7)) and `IPV6_PKTINFO` (ipv6(7)), which rustix doesn't have.

use crate::raw::{self, ControlHeader, Message, Vector};
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A received datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number of bytes in the buffer.
    pub length: usize,
    /// It had more bytes than the buffer.
    pub cut: bool,
    /// The sender's address.
    pub from: SocketAddr,
    /// The address that it was sent to, if the socket reports that.
    pub to: Option<IpAddr>,
}

/// Makes a socket report the address that each datagram was sent to.
///
/// # Errors
/// If the socket isn't of that family.
pub fn tell_destination(socket: BorrowedFd<'_>, v6: bool) -> Result<(), Errno> {
    let (level, option) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    raw::set_option(socket.as_raw_fd(), level, option, 1)
}

/// Room for one control message of the larger kind, aligned as the kernel's header of one is.
#[repr(C)]
struct Control {
    header: ControlHeader,
    /// `struct in_pktinfo` or `struct in6_pktinfo`.
    data: [u8; 24],
}

impl Control {
    const EMPTY: Self = Self { header: ControlHeader { length: 0, level: 0, kind: 0 }, data: [0; 24] };
}

/// Receives a datagram without waiting.
///
/// # Errors
/// `AGAIN` if there is none; the error that an earlier answer caused (`CONNREFUSED`).
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Arrived, Errno> {
    // SAFETY: needed because the structure has private padding on some targets. Sound: all zeroes are valid for it.
    let mut address: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
    let mut control = Control::EMPTY;
    let vector = Vector { base: buffer.as_mut_ptr(), length: buffer.len() };
    let mut message = Message {
        name: (&raw mut address).cast(),
        name_length: SPACE_OF_ADDRESS,
        vector: &raw const vector,
        vectors: 1,
        control: (&raw mut control).cast(),
        control_length: size_of::<Control>(),
        flags: 0,
    };
    // SAFETY: needed to have the control message. Sound: buffer, address and control outlive the call, and are given with
    // their lengths.
    let length = unsafe { raw::receive_message(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) }?;
    let port = u16::from_be(address.sin6_port);
    let from = match i32::from(address.sin6_family) {
        libc::AF_INET => {
            // `struct sockaddr_in` has its address where this structure has the flow.
            let ip = Ipv4Addr::from(address.sin6_flowinfo.to_ne_bytes());
            SocketAddr::V4(SocketAddrV4::new(ip, port))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            SocketAddr::V6(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id))
        }
        _ => return Err(Errno::AFNOSUPPORT),
    };
    let to = (message.control_length > 0).then(|| destination(&control)).flatten();
    Ok(Arrived { length, cut: message.flags & libc::MSG_TRUNC != 0, from, to })
}

const SPACE_OF_ADDRESS: u32 = 28;
const _: () = assert!(size_of::<libc::sockaddr_in6>() == SPACE_OF_ADDRESS as usize);

/// The address in a control message.
fn destination(control: &Control) -> Option<IpAddr> {
    let data = &control.data;
    match (control.header.level, control.header.kind) {
        // Fields: interface, the address that an answer would come from, the address that the datagram was sent to.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            Some(IpAddr::V4(<[u8; 4]>::try_from(&data[8..12]).ok()?.into()))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            Some(IpAddr::V6(<[u8; 16]>::try_from(&data[..16]).ok()?.into()))
        }
        _ => None,
    }
}

/// Sends a datagram, from a certain address of this host if one is given.
///
/// # Errors
/// `AGAIN` if there is no room; `INVAL` if the address is of another family or isn't an address of this machine.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> Result<(), Errno> {
    let mut control = Control::EMPTY;
    let used = match from {
        Some(IpAddr::V4(from)) => {
            control.data[4..8].copy_from_slice(&from.octets());
            (control.header.level, control.header.kind) = (libc::IPPROTO_IP, libc::IP_PKTINFO);
            12
        }
        Some(IpAddr::V6(from)) => {
            control.data[..16].copy_from_slice(&from.octets());
            (control.header.level, control.header.kind) = (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO);
            20
        }
        None => 0,
    };
    control.header.length = size_of::<ControlHeader>() + used;
    let vector = Vector { base: bytes.as_ptr(), length: bytes.len() };
    raw::with_address(&to, |address, length| {
        let message = Message {
            name: address,
            name_length: length,
            vector: &raw const vector,
            vectors: 1,
            control: if used > 0 { (&raw const control).cast() } else { core::ptr::null() },
            control_length: if used > 0 { control.header.length.next_multiple_of(8) } else { 0 },
            flags: 0,
        };
        // SAFETY: needed to set the source address. Sound: bytes, address and control outlive the call, and are given
        // with their lengths.
        unsafe { raw::send_message(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) }
            .map(drop)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn answers_come_from_the_address_that_was_asked() {
        for (any, asked, v6) in [("0.0.0.0:0", "127.0.0.53", false), ("[::]:0", "::1", true)] {
            let server = UdpSocket::bind(any).unwrap();
            tell_destination(server.as_fd(), v6).unwrap();
            let port = server.local_addr().unwrap().port();
            let asked: IpAddr = asked.parse().unwrap();
            let client = UdpSocket::bind((asked, 0)).unwrap();
            client.connect((asked, port)).unwrap();
            client.send(b"question").unwrap();
            let mut buffer = [0; 4];
            let arrived = loop {
                match receive(server.as_fd(), &mut buffer) {
                    Err(Errno::AGAIN) => std::thread::yield_now(),
                    other => break other.unwrap(),
                }
            };
            let from = client.local_addr().unwrap();
            assert_eq!(arrived, Arrived { length: 4, cut: true, from, to: Some(asked) });
            assert_eq!(receive(server.as_fd(), &mut buffer), Err(Errno::AGAIN));
            // A connected socket takes nothing from elsewhere.
            send(server.as_fd(), b"answer", arrived.from, arrived.to).unwrap();
            let mut answer = [0; 16];
            assert_eq!(client.recv(&mut answer).unwrap(), 6);
            send(server.as_fd(), b"plain", arrived.from, None).unwrap();
        }
    }

    #[test]
    fn addresses_that_are_not_this_hosts_are_refused() {
        let server = UdpSocket::bind("0.0.0.0:0").unwrap();
        let foreign = Some("192.0.2.1".parse().unwrap());
        let to = "127.0.0.1:9".parse().unwrap();
        assert!(send(server.as_fd(), b"x", to, foreign).is_err());
    }
}
