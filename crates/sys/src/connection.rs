// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The messages by which a broker has the gateway make a connection, over a pair of `SOCK_SEQPACKET` sockets.
//!
//! Without a network namespace nothing leads a command's connections to the gateway. So the broker asks for each, and the
//! gateway answers with a socket that is connected to itself. A message has one length, so both ends check only that.

use core::mem::MaybeUninit;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A connection that a command wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Names the request: an answer that comes too late is another request's.
    pub number: u32,
    /// Where to, in the family of the address that the command gave.
    pub to: SocketAddr,
}

const REQUEST: usize = 4 + 1 + 16 + 2;
const ANSWER: usize = 4 + 4;

/// Asks for a connection.
///
/// # Errors
/// As `sendmsg(2)`; `EPIPE` if the gateway has ended.
pub fn ask(gateway: impl AsFd, wanted: Wanted) -> Result<(), Errno> {
    let mut message = [0u8; REQUEST];
    let (number, rest) = message.split_at_mut(4);
    number.copy_from_slice(&wanted.number.to_ne_bytes());
    let (family, rest) = rest.split_at_mut(1);
    let (address, port) = rest.split_at_mut(16);
    match wanted.to.ip() {
        IpAddr::V4(v4) => address[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => {
            family[0] = 1;
            address.copy_from_slice(&v6.octets());
        }
    }
    port.copy_from_slice(&wanted.to.port().to_ne_bytes());
    sendmsg(gateway, &[IoSlice::new(&message)], &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The next request. `None`: the broker has ended.
///
/// # Errors
/// As `recvmsg(2)`, `EAGAIN` among them; `EBADMSG` if it isn't a request.
pub fn asked(broker: impl AsFd) -> Result<Option<Wanted>, Errno> {
    let mut message = [0u8; REQUEST + 1];
    let length = match rustix::net::recv(broker, &mut message, RecvFlags::DONTWAIT)? {
        (_, 0) => return Ok(None),
        (_, length) => length,
    };
    let message = message.get(..length).and_then(|bytes| <&[u8; REQUEST]>::try_from(bytes).ok());
    let [n0, n1, n2, n3, v6, address @ .., p0, p1] = *message.ok_or(Errno::BADMSG)?;
    let address: [u8; 16] = address;
    let ip = match (v6, address) {
        (0, [a, b, c, d, ..]) => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
        _ => IpAddr::V6(Ipv6Addr::from(address)),
    };
    let to = SocketAddr::new(ip, u16::from_ne_bytes([p0, p1]));
    Ok(Some(Wanted { number: u32::from_ne_bytes([n0, n1, n2, n3]), to }))
}

/// Answers request `number` with a connected socket, or with the error of the connection.
///
/// # Errors
/// As `sendmsg(2)`.
pub fn give(broker: impl AsFd, number: u32, socket: Result<BorrowedFd<'_>, Errno>) -> Result<(), Errno> {
    let errno = socket.err().map_or(0, Errno::raw_os_error);
    let mut message = [0u8; ANSWER];
    message[..4].copy_from_slice(&number.to_ne_bytes());
    message[4..].copy_from_slice(&errno.to_ne_bytes());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let sockets: Vec<BorrowedFd<'_>> = socket.into_iter().collect();
    if !sockets.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&sockets));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(broker, &[IoSlice::new(&message)], &mut ancillary, flags).map(drop)
}

/// Receives an answer: the request's number, and its socket or its error.
///
/// # Errors
/// As `recvmsg(2)`, `EAGAIN` among them; `EPIPE` if the gateway has ended; `EBADMSG` if it isn't an answer.
pub fn given(gateway: impl AsFd) -> Result<(u32, Result<OwnedFd, Errno>), Errno> {
    let mut message = [0u8; ANSWER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(gateway, &mut [IoSliceMut::new(&mut message)], &mut ancillary, flags)?;
    let socket = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    match received.bytes {
        0 => return Err(Errno::PIPE),
        ANSWER => {}
        _ => return Err(Errno::BADMSG),
    }
    let [n0, n1, n2, n3, errno @ ..] = message;
    let number = u32::from_ne_bytes([n0, n1, n2, n3]);
    let answer = match (i32::from_ne_bytes(errno), socket) {
        (0, Some(socket)) => Ok(socket),
        (0, None) => Err(Errno::NFILE),
        (errno, _) => Err(Errno::from_raw_os_error(errno)),
    };
    Ok((number, answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn what_is_sent_is_received() {
        let (broker, gateway) = pair();
        for (number, to) in
            [(7, "192.0.2.1:443"), (u32::MAX, "[2001:db8::1]:53"), (0, "[::ffff:192.0.2.1]:0")]
        {
            let wanted = Wanted { number, to: to.parse().unwrap() };
            ask(&broker, wanted).unwrap();
            assert_eq!(asked(&gateway), Ok(Some(wanted)));
            give(&gateway, number, Ok(gateway.as_fd())).unwrap();
            assert!(matches!(given(&broker), Ok((answered, Ok(_socket))) if answered == number));
            give(&gateway, number, Err(Errno::AGAIN)).unwrap();
            assert!(matches!(given(&broker), Ok((_, Err(Errno::AGAIN)))));
        }
        assert_eq!(asked(&gateway), Err(Errno::AGAIN));
        drop(broker);
        assert_eq!(asked(&gateway), Ok(None));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let (broker, gateway) = pair();
        for length in [1, REQUEST - 1, REQUEST + 1, 4000] {
            rustix::net::send(&broker, &vec![1; length], SendFlags::empty()).unwrap();
            assert_eq!(asked(&gateway), Err(Errno::BADMSG), "{length}");
        }
        for length in [1, ANSWER - 1] {
            rustix::net::send(&gateway, &vec![0; length], SendFlags::empty()).unwrap();
            assert!(matches!(given(&broker), Err(Errno::BADMSG)), "{length}");
        }
        // A success without a socket.
        rustix::net::send(&gateway, &[0; ANSWER], SendFlags::empty()).unwrap();
        assert!(matches!(given(&broker), Ok((0, Err(Errno::NFILE)))));
        drop(gateway);
        assert!(matches!(given(&broker), Err(Errno::PIPE)));
    }
}
