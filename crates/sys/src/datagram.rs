// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams with the address of this host that they were sent to, or that they come from: `IP_PKTINFO` (ip(7)) and
//! `IPV6_PKTINFO` (ipv6(7)), which rustix doesn't know.

use crate::raw;
use rustix::io::Errno;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, BorrowedFd};

/// A datagram that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// How many bytes of it there are.
    pub length: usize,
    /// It had more.
    pub cut: bool,
    /// Who sent it.
    pub from: SocketAddr,
    /// The address that it was sent to, if the socket tells.
    pub to: Option<IpAddr>,
}

/// Has a socket tell which address datagrams were sent to.
///
/// # Errors
/// When it is no socket of that family.
pub fn tell_destination(socket: BorrowedFd<'_>, v6: bool) -> Result<(), Errno> {
    let (level, option) =
        if v6 { (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO) } else { (libc::IPPROTO_IP, libc::IP_PKTINFO) };
    raw::set_option(socket.as_raw_fd(), level, option, 1)
}

/// Room for one control message of the larger kind, aligned as the kernel's header of one is.
#[repr(C, align(8))]
struct Control {
    bytes: [u8; CONTROL],
}

/// A header and `struct in6_pktinfo`, rounded up.
const CONTROL: usize = 40;
const HEADER: usize = size_of::<libc::cmsghdr>();

/// Takes a datagram that is there.
///
/// # Errors
/// `AGAIN` if there is none; what an earlier answer came to (`CONNREFUSED`).
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<Arrived, Errno> {
    // SAFETY: needed because the structure has private padding on some targets. Sound: all zeroes are valid for it.
    let mut address: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
    let mut control = Control { bytes: [0; CONTROL] };
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: as above.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_name = (&raw mut address).cast();
    message.msg_namelen = size_of_val(&address) as _;
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = CONTROL as _;
    let length = raw::receive_message(socket.as_raw_fd(), &mut message, libc::MSG_DONTWAIT)?;
    let port = u16::from_be(address.sin6_port);
    let from = match i32::from(address.sin6_family) {
        libc::AF_INET => {
            // `struct sockaddr_in` has its address where this one has the flow.
            let ip = Ipv4Addr::from(address.sin6_flowinfo.to_ne_bytes());
            SocketAddr::V4(SocketAddrV4::new(ip, port))
        }
        libc::AF_INET6 => {
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            SocketAddr::V6(SocketAddrV6::new(ip, port, 0, address.sin6_scope_id))
        }
        _ => return Err(Errno::AFNOSUPPORT),
    };
    let told = usize::try_from(message.msg_controllen).unwrap_or(0).min(CONTROL);
    let to = control.bytes.get(..told).and_then(destination);
    Ok(Arrived { length, cut: message.msg_flags & libc::MSG_TRUNC != 0, from, to })
}

/// The address in a control message.
fn destination(control: &[u8]) -> Option<IpAddr> {
    let int = |at: usize| Some(i32::from_ne_bytes(control.get(at..at + 4)?.try_into().ok()?));
    let (level, kind) = (int(HEADER - 8)?, int(HEADER - 4)?);
    let data = control.get(HEADER..)?;
    match (level, kind) {
        // Interface, the address that an answer would come from, the address that was asked.
        (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
            Some(IpAddr::V4(<[u8; 4]>::try_from(data.get(8..12)?).ok()?.into()))
        }
        (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            Some(IpAddr::V6(<[u8; 16]>::try_from(data.get(..16)?).ok()?.into()))
        }
        _ => None,
    }
}

/// Sends a datagram, from a certain address of this host if one is given.
///
/// # Errors
/// `AGAIN` if there is no room; `INVAL` if the address is of another family or none of this host's.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> Result<(), Errno> {
    let mut control = Control { bytes: [0; CONTROL] };
    let mut used = 0;
    let mut write = |level: i32, kind: i32, data: &[u8]| {
        used = HEADER + data.len();
        let length = used.to_ne_bytes();
        // `socklen_t` on some C libraries, the size of a word on others: on a machine of 64 bits that stores the least
        // significant byte first it is the same.
        control.bytes[..length.len()].copy_from_slice(&length);
        control.bytes[HEADER - 8..HEADER - 4].copy_from_slice(&level.to_ne_bytes());
        control.bytes[HEADER - 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        control.bytes[HEADER..used].copy_from_slice(data);
    };
    match from {
        Some(IpAddr::V4(from)) => {
            let mut information = [0u8; 12];
            information[4..8].copy_from_slice(&from.octets());
            write(libc::IPPROTO_IP, libc::IP_PKTINFO, &information);
        }
        Some(IpAddr::V6(from)) => {
            let mut information = [0u8; 20];
            information[..16].copy_from_slice(&from.octets());
            write(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &information);
        }
        None => {}
    }
    let space = used.next_multiple_of(8);
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    raw::with_address(&to, |address, length| {
        // SAFETY: needed because the structure has private padding on some targets. Sound: all zeroes are valid for it.
        let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
        message.msg_name = address.cast_mut().cast();
        message.msg_namelen = length as _;
        message.msg_iov = &raw mut vector;
        message.msg_iovlen = 1;
        if space > 0 {
            message.msg_control = (&raw const control).cast_mut().cast();
            message.msg_controllen = space as _;
        }
        raw::send_message(socket.as_raw_fd(), &message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).map(drop)
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
