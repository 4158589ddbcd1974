// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections of a command without a network namespace: the gateway makes each one.
//!
//! The broker can't connect the caller's socket: a container may refuse the call by which the broker would get it, and the
//! gateway has to know the destination anyway. So the gateway makes a pair of connected sockets, keeps one and gives the
//! other, which takes the place of the caller's. The caller's socket itself is never connected.

use crate::broker::caller::{Caller, DecimalBuffer};
use crate::broker::sockets::given_address;
use crate::broker::{Outcome, Worker};
use palisade_sys::connection::{self, Wanted};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the gateway may take, which answers before it connects to the host. Its start is part of the first answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many sockets are remembered as connected.
const REMEMBERED: usize = 4096;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// The way to the gateway.
pub(crate) struct Connections {
    gateway: OwnedFd,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The last request's.
    number: u32,
    /// The inodes of given sockets, the newest last.
    connected: VecDeque<u64>,
}

impl Connections {
    pub(crate) fn new(gateway: OwnedFd) -> Self {
        Self { gateway, state: Mutex::default() }
    }

    /// Asks the gateway for a socket that is connected to `to`.
    fn open(&self, state: &mut State, to: SocketAddr) -> Result<OwnedFd, Errno> {
        state.number = state.number.wrapping_add(1);
        let number = state.number;
        let ended = |errno| if errno == Errno::PIPE { Errno::CONNREFUSED } else { errno };
        connection::ask(&self.gateway, Wanted { number, to }).map_err(ended)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match connection::given(&self.gateway) {
                Ok((answered, answer)) if answered == number => return answer,
                // An answer to a request that was given up.
                Ok(_late) => continue,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(ended(errno)),
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Errno::TIMEDOUT);
            }
            let left = Timespec::try_from(left).map_err(|_too_long| Errno::INVAL)?;
            match poll(&mut [PollFd::new(&self.gateway, PollFlags::IN)], Some(&left)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Worker<'_> {
    /// Connects a socket by putting another one in its place.
    pub(crate) fn connect_by_gateway(
        &self,
        caller: &Caller<'_>,
        connections: &Connections,
    ) -> Result<Outcome, Errno> {
        let number = caller.int(0);
        let place = u32::try_from(number).map_err(|_negative| Errno::BADF)?;
        let inode = socket_at(caller, place)?;
        let to = internet_address(&given_address(caller)?)?;
        let mut state = connections.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.connected.contains(&inode) {
            return Err(Errno::ISCONN);
        }
        let flags = caller.flags_of(number)?;
        let socket = connections.open(&mut state, to)?;
        rustix::fs::fcntl_setfl(&socket, flags & OFlags::NONBLOCK)?;
        let listener = &self.shared.listener;
        listener.replace(caller.call.id, socket.as_fd(), place, flags.contains(OFlags::CLOEXEC))?;
        if state.connected.len() == REMEMBERED {
            state.connected.pop_front();
        }
        state.connected.push_back(rustix::fs::fstat(&socket)?.st_ino);
        Ok(Outcome::Value(0))
    }
}

/// The inode of the socket behind one of the caller's descriptors.
fn socket_at(caller: &Caller<'_>, number: u32) -> Result<u64, Errno> {
    let mut digits = DecimalBuffer::default();
    let path = [b"fd/", digits.write(number)].concat();
    let link = rustix::fs::readlinkat(&*caller.directory(false)?, &*path, Vec::new());
    let link = link.map_err(|errno| if errno == Errno::NOENT { Errno::BADF } else { errno })?;
    let inode = link.to_str().ok().and_then(|link| link.strip_prefix("socket:[")?.strip_suffix(']'));
    inode.and_then(|inode| inode.parse().ok()).ok_or(Errno::NOTSOCK)
}

/// The address that `struct sockaddr_in` or `struct sockaddr_in6` names.
fn internet_address(bytes: &[u8]) -> Result<SocketAddr, Errno> {
    let (family, rest) = bytes.split_first_chunk::<2>().ok_or(Errno::INVAL)?;
    let port = |rest: &[u8]| rest.first_chunk::<2>().map(|port| u16::from_be_bytes(*port));
    let (ip, port) = match u16::from_ne_bytes(*family) {
        // The kernel wants the whole structure.
        AF_INET if bytes.len() >= 16 => {
            (rest[2..].first_chunk::<4>().map(|bytes| IpAddr::V4(Ipv4Addr::from(*bytes))), port(rest))
        }
        AF_INET6 if bytes.len() >= 24 => {
            (rest[6..].first_chunk::<16>().map(|bytes| IpAddr::V6(Ipv6Addr::from(*bytes))), port(rest))
        }
        AF_INET | AF_INET6 => return Err(Errno::INVAL),
        // To take back a connection (`AF_UNSPEC`) isn't possible either.
        _ => return Err(Errno::AFNOSUPPORT),
    };
    ip.zip(port).map(SocketAddr::from).ok_or(Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_reads_them() {
        let v4 = |length: usize| {
            let mut bytes = vec![0; length.max(8)];
            bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
            bytes[2..8].copy_from_slice(&[1, 187, 192, 0, 2, 1]);
            bytes.truncate(length);
            internet_address(&bytes)
        };
        assert_eq!(v4(16), Ok("192.0.2.1:443".parse().unwrap()));
        assert_eq!(v4(128), v4(16));
        for length in [2, 7, 8, 15] {
            assert_eq!(v4(length), Err(Errno::INVAL), "{length}");
        }
        let v6 = |length: usize| {
            let mut bytes = vec![0; length];
            bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
            bytes[2..4].copy_from_slice(&[0, 53]);
            bytes[length - 1] = 1;
            internet_address(&bytes)
        };
        assert_eq!(v6(24), Ok("[::1]:53".parse().unwrap()));
        assert_eq!(v6(23), Err(Errno::INVAL));
        assert_eq!(internet_address(&[0; 16]), Err(Errno::AFNOSUPPORT));
        assert_eq!(internet_address(&[1, 0, b'/']), Err(Errno::AFNOSUPPORT));
        for short in [&[][..], &[2]] {
            assert_eq!(internet_address(short), Err(Errno::INVAL));
        }
    }
}
