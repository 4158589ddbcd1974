// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network namespace in which every address is local: made by init, served from outside. Or one without any way out,
//! in which only name queries are answered ([`Network::closed`]).
//!
//! All addresses are routed to the loopback interface, which makes them local ("AnyIP"). One rule of nftables leads
//! every TCP connection, but those to 127.0.0.0/8 and ::1, to a listener that asks the kernel where it was to go
//! (`SO_ORIGINAL_DST`); sockets at port 53 of every address take questions about names. A socket belongs for good to
//! the namespace that it was made in. So init makes them, and a process outside serves them, without a process, an
//! interface or an address of the host's in between. What isn't TCP is refused at once, by an ICMP error.
//!
//! Processes inside have no capabilities, so they can't change any of this. If no process serves the sockets,
//! connections lead nowhere: the namespace has no other way out.

mod rules;

use self::rules::rules;
use crate::netlink::Messages;
use crate::raw::{self, Fd, Result};
use core::sync::atomic::{AtomicI32, Ordering};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::io::IoSliceMut;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};
use std::sync::LazyLock;

/// The port that connections are led to. No process inside can bind it: it is a privileged port, and no process
/// inside has that privilege.
pub const PORT: u16 = 1023;
/// The port of name servers.
pub const DNS: u16 = 53;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Takes the connections that are led to it.
    Connections,
    /// Takes questions in datagrams.
    Questions,
    /// Takes questions in connections.
    LongQuestions,
    /// Takes connections to a port of the loopback interface that stands for the host's.
    Reach(u16),
}

/// A socket that is made inside.
#[derive(Debug)]
struct Socket {
    used: Use,
    address: SocketAddr,
    made: AtomicI32,
}

const NOT_YET: i32 = -1;

/// What makes addresses local.
#[derive(Debug)]
enum Routes {
    /// Routes for every address, of IPv4 and IPv6, and rules that lead connections to the listener.
    Everywhere { families: [Messages; 2], rules: Messages },
    /// Routes for the name servers.
    NameServers([Messages; 2]),
}

/// The network of a launch. For one launch.
#[derive(Debug)]
pub struct Network {
    routes: Routes,
    sockets: Vec<Socket>,
    /// The error because of which there is no IPv6 or connections aren't led to the listener: an errno, or zero.
    without_v6: AtomicI32,
    without_rules: AtomicI32,
}

/// A socket that was made.
#[derive(Debug)]
pub struct Made {
    /// Its purpose.
    pub used: Use,
    /// Its address.
    pub address: SocketAddr,
    /// The socket.
    pub socket: OwnedFd,
}

impl Network {
    /// Prepares one in which `reach` are the ports that stand for the host's.
    #[must_use]
    pub fn new(reach: &[u16]) -> Self {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        let mut sockets = Vec::with_capacity(6 + 2 * reach.len());
        let mut add = |used, addresses: [IpAddr; 2], port| {
            sockets.extend(addresses.map(|address| Socket {
                used,
                address: SocketAddr::new(address, port),
                made: AtomicI32::new(NOT_YET),
            }));
        };
        add(Use::Connections, loopback, PORT);
        add(Use::Questions, every, DNS);
        add(Use::LongQuestions, loopback, DNS);
        for port in reach {
            add(Use::Reach(*port), loopback, *port);
        }
        let mut v4 = loopback_up();
        lead(&mut v4, libc::AF_INET, &[]);
        v4.acknowledge();
        Self::with(Routes::Everywhere { families: [v4, route(libc::AF_INET6)], rules: rules() }, sockets)
    }

    /// Prepares one without a way out. Only `servers`, the name servers of the host, and 127.0.0.0/8 have a socket at
    /// port 53, so that a program that looks up a name gets an answer. Every other address is unreachable, as in a
    /// namespace that nothing was added to.
    #[must_use]
    pub fn closed(servers: &[IpAddr]) -> Self {
        let mut routes = [loopback_up(), Messages::new()];
        let mut addresses = vec![IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        for (at, server) in servers.iter().enumerate() {
            // A host may list a server twice.
            if server.is_loopback() || servers[..at].contains(server) {
                continue;
            }
            match server {
                IpAddr::V4(server) => lead(&mut routes[0], libc::AF_INET, &server.octets()),
                IpAddr::V6(server) => lead(&mut routes[1], libc::AF_INET6, &server.octets()),
            }
        }
        let [v4, v6] = &mut routes;
        v4.acknowledge();
        v6.acknowledge();
        if servers.iter().any(IpAddr::is_ipv6) {
            addresses.push(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
        }
        let socket = |address| Socket {
            used: Use::Questions,
            address: SocketAddr::new(address, DNS),
            made: AtomicI32::new(NOT_YET),
        };
        Self::with(Routes::NameServers(routes), addresses.into_iter().map(socket).collect())
    }

    fn with(routes: Routes, sockets: Vec<Socket>) -> Self {
        Self { routes, sockets, without_v6: AtomicI32::new(0), without_rules: AtomicI32::new(0) }
    }

    /// In init, in its new namespace; uses raw calls only.
    pub(crate) fn make(&self) -> Result<()> {
        let v6 = match &self.routes {
            Routes::Everywhere { families: [v4, v6], rules } => {
                v4.send(libc::NETLINK_ROUTE)?;
                if let Err(errno) = rules.send(libc::NETLINK_NETFILTER) {
                    self.without_rules.store(errno.raw_os_error(), Ordering::Relaxed);
                }
                v6
            }
            Routes::NameServers([v4, v6]) => {
                // A host may list an address that nothing can be routed to. Then look-ups fail without an answer.
                if v4.send(libc::NETLINK_ROUTE).is_err() {
                    raw::loopback_up()?;
                }
                v6
            }
        };
        if let Err(errno) = v6.send(libc::NETLINK_ROUTE) {
            self.without_v6.store(errno.raw_os_error(), Ordering::Relaxed);
        }
        for socket in &self.sockets {
            if socket.address.is_ipv6() && self.without_v6.load(Ordering::Relaxed) != 0 {
                continue;
            }
            socket.made.store(socket.make()?, Ordering::Release);
        }
        Ok(())
    }

    /// The sockets that were made. Each is given once.
    #[must_use]
    pub fn take(&self) -> Vec<Made> {
        let made = self.sockets.iter().filter_map(|socket| {
            let fd = socket.made.swap(NOT_YET, Ordering::AcqRel);
            // SAFETY: needed to own what init has made. Sound: it made it in the table that it shared with this process,
            // and each number is taken out of its cell once.
            let owned = || unsafe { OwnedFd::from_raw_fd(fd) };
            (fd != NOT_YET).then(|| Made { used: socket.used, address: socket.address, socket: owned() })
        });
        made.collect()
    }

    /// Why connections aren't led to the listener. Only programs that use a proxy reach a host then.
    #[must_use]
    pub fn unled(&self) -> Option<Errno> {
        errno(&self.without_rules)
    }

    /// Why there is no IPv6 inside.
    #[must_use]
    pub fn without_v6(&self) -> Option<Errno> {
        errno(&self.without_v6)
    }
}

/// Has init make a stream socket inside. `lifeline` is [`Started::lifeline`](crate::launch::Started::lifeline). Only
/// one process may use it in this way.
///
/// # Errors
/// When init has ended, or can't make the socket.
pub fn socket_inside(lifeline: BorrowedFd<'_>, v6: bool) -> core::result::Result<OwnedFd, Errno> {
    let wanted = [if v6 { crate::init::SOCKET_V6 } else { crate::init::SOCKET_V4 }];
    rustix::net::send(lifeline, &wanted, SendFlags::NOSIGNAL)?;
    let mut byte = [0u8];
    let mut space = [core::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = rustix::net::recvmsg(lifeline, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Err(Errno::CONNRESET);
    }
    let mut messages = ancillary.drain();
    let given = messages.find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    given.ok_or(Errno::NFILE)
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.take());
    }
}

fn errno(cell: &AtomicI32) -> Option<Errno> {
    let errno = cell.load(Ordering::Acquire);
    (errno != 0).then(|| Errno::from_raw_os_error(errno))
}

impl Socket {
    fn make(&self) -> Result<Fd> {
        let v6 = self.address.is_ipv6();
        let family = if v6 { libc::AF_INET6 } else { libc::AF_INET };
        let datagrams = self.used == Use::Questions;
        let kind = if datagrams { libc::SOCK_DGRAM } else { libc::SOCK_STREAM };
        let socket = raw::socket(family, kind | libc::SOCK_NONBLOCK)?;
        if v6 {
            raw::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        }
        if datagrams {
            let (level, told) = if v6 {
                (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
            } else {
                (libc::IPPROTO_IP, libc::IP_PKTINFO)
            };
            raw::set_option(socket, level, told, 1)?;
            if v6 {
                // Answers come from the address that the question was sent to, which belongs to no interface.
                raw::set_option(socket, level, libc::IPV6_FREEBIND, 1)?;
            }
        }
        raw::bind_address(socket, &self.address)?;
        if !datagrams {
            raw::listen(socket)?;
        }
        Ok(socket)
    }
}

/// The messages that probes send, made before they fork.
static PROBED: LazyLock<([Messages; 2], Messages)> =
    LazyLock::new(|| ([route(libc::AF_INET), route(libc::AF_INET6)], rules()));

pub(crate) fn prepare() {
    LazyLock::force(&PROBED);
}

/// Routes every address to the loopback interface. After [`prepare`].
pub(crate) fn lead_addresses() -> Result<()> {
    let [v4, _optional] = &PROBED.0;
    v4.send(libc::NETLINK_ROUTE)
}

/// Leads every connection to a listener. After [`prepare`]. Without a module of netfilter's: `OPNOTSUPP`.
pub(crate) fn lead_connections() -> Result<()> {
    PROBED.1.send(libc::NETLINK_NETFILTER).map_err(|errno| match errno {
        Errno::NOENT | Errno::PROTONOSUPPORT => Errno::OPNOTSUPP,
        other => other,
    })
}

/// In every namespace the loopback interface is the first.
const LOOPBACK: u32 = 1;

/// `ip link set lo up`, as the kernel is told it. It goes with the routes, which costs less than a call of its own.
fn loopback_up() -> Messages {
    const SET_LINK: u16 = 19;
    const UP: u32 = 1;
    // Family and type of the device; its index, its flags, and which flags are meant.
    let numbers = [0, LOOPBACK, UP, UP].map(u32::to_ne_bytes);
    let mut messages = Messages::new();
    messages.message(SET_LINK, 0, numbers.as_flattened(), |_no_attributes| {});
    messages
}

/// `ip route add local default dev lo`, as the kernel is told it.
fn route(family: i32) -> Messages {
    let mut messages = Messages::new();
    lead(&mut messages, family, &[]);
    messages.acknowledge();
    messages
}

/// Appends `ip route add local DESTINATION dev lo`. An empty destination is every address.
fn lead(messages: &mut Messages, family: i32, destination: &[u8]) {
    const NEW: u16 = 24;
    const CREATE: u16 = 0x400;
    const EXCLUSIVE: u16 = 0x200;
    const TABLE_LOCAL: u8 = 255;
    const STATIC: u8 = 4;
    const SCOPE_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    const TO: u16 = 1;
    const OUT: u16 = 4;
    let family = u8::try_from(family).unwrap_or(0);
    let bits = u8::try_from(destination.len() * 8).unwrap_or(0);
    // Family, lengths of destination and source, type of service, table, protocol, scope, type; four bytes of flags.
    let fixed = [family, bits, 0, 0, TABLE_LOCAL, STATIC, SCOPE_HOST, LOCAL, 0, 0, 0, 0];
    messages.message(NEW, CREATE | EXCLUSIVE, &fixed, |message| {
        if !destination.is_empty() {
            message.attribute(TO, destination);
        }
        message.attribute(OUT, &LOOPBACK.to_ne_bytes());
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::UnshareFlags;
    use std::io::{ErrorKind, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    /// Runs `work` in a separate thread with its own network; for root only. Tests of the command cover what an
    /// ordinary user's launch makes.
    fn inside(work: impl FnOnce(&Network) + Send + 'static) {
        inside_of(Network::new(&[4321]), work);
    }

    fn inside_of(network: Network, work: impl FnOnce(&Network) + Send + 'static) {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let thread = std::thread::spawn(move || {
            // SAFETY: needed for a network of its own. Sound: no file descriptor is unshared.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
            network.make().unwrap();
            assert_eq!((network.unled(), network.without_v6()), (None, None));
            work(&network);
        });
        thread.join().unwrap();
    }

    fn listener(made: &[Made], used: Use, v6: bool) -> TcpListener {
        let found = made.iter().find(|made| made.used == used && made.address.is_ipv6() == v6).unwrap();
        let listener = TcpListener::from(found.socket.try_clone().unwrap());
        listener.set_nonblocking(false).unwrap();
        listener
    }

    #[test]
    fn every_connection_is_led_to_the_listener_with_its_destination() {
        inside(|network| {
            let made = network.take();
            assert_eq!(made.len(), 8);
            assert!(network.take().is_empty(), "once");
            for (address, v6) in [("192.0.2.7:80", false), ("[2001:db8::7]:443", true)] {
                let address: SocketAddr = address.parse().unwrap();
                let mut client = TcpStream::connect(address).unwrap();
                let (mut server, _from) = listener(&made, Use::Connections, v6).accept().unwrap();
                let asked = match address {
                    SocketAddr::V4(_) => rustix::net::sockopt::ip_original_dst(&server).map(SocketAddr::from),
                    SocketAddr::V6(_) => {
                        rustix::net::sockopt::ipv6_original_dst(&server).map(SocketAddr::from)
                    }
                };
                assert_eq!(asked.unwrap(), address);
                client.write_all(b"x").unwrap();
                let mut byte = [0];
                server.read_exact(&mut byte).unwrap();
            }
            let own = TcpListener::bind("127.0.0.1:0").unwrap();
            TcpStream::connect(own.local_addr().unwrap()).unwrap();
            own.accept().unwrap();
            assert_eq!(TcpStream::connect("127.0.0.1:9").unwrap_err().kind(), ErrorKind::ConnectionRefused);
            TcpStream::connect("127.0.0.1:4321").unwrap();
            listener(&made, Use::Reach(4321), false).accept().unwrap();
        });
    }

    #[test]
    fn questions_arrive_and_other_datagrams_are_refused() {
        inside(|network| {
            let made = network.take();
            for (server, from) in [
                ("192.0.2.53:53", "0.0.0.0:0"),
                ("[2001:db8::53]:53", "[::]:0"),
                ("127.0.0.53:53", "0.0.0.0:0"),
            ] {
                let client = UdpSocket::bind(from).unwrap();
                client.connect(server).unwrap();
                client.send(b"question").unwrap();
                let v6 = server.starts_with('[');
                let found =
                    made.iter().find(|made| made.used == Use::Questions && made.address.is_ipv6() == v6);
                let socket = UdpSocket::from(found.unwrap().socket.try_clone().unwrap());
                socket.set_nonblocking(false).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                let mut buffer = [0; 16];
                assert_eq!(socket.recv_from(&mut buffer).unwrap().0, 8, "{server}");
            }
            for (server, from) in [("192.0.2.53:443", "0.0.0.0:0"), ("[2001:db8::53]:443", "[::]:0")] {
                let client = UdpSocket::bind(from).unwrap();
                client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                client.connect(server).unwrap();
                let refused = client.send(b"x").and_then(|_sent| client.recv(&mut [0; 16]));
                assert_eq!(refused.unwrap_err().kind(), ErrorKind::ConnectionRefused, "{server}");
            }
            let own = UdpSocket::bind("127.0.0.1:0").unwrap();
            own.send_to(b"x", own.local_addr().unwrap()).unwrap();
            assert_eq!(own.recv(&mut [0; 16]).unwrap(), 1);
        });
    }

    #[test]
    fn without_a_way_out_only_the_name_servers_are_there() {
        let servers = ["192.0.2.53", "192.0.2.53", "127.0.0.53", "192.0.2.54", "2001:db8::53"];
        inside_of(Network::closed(&servers.map(|server| server.parse().unwrap())), |network| {
            let made = network.take();
            assert_eq!(made.len(), 2);
            for (server, from) in [
                ("192.0.2.53:53", "0.0.0.0:0"),
                ("192.0.2.54:53", "0.0.0.0:0"),
                ("127.0.0.1:53", "0.0.0.0:0"),
                ("[2001:db8::53]:53", "[::]:0"),
            ] {
                let client = UdpSocket::bind(from).unwrap();
                client.connect(server).unwrap();
                client.send(b"question").unwrap();
                let found = made.iter().find(|made| made.address.is_ipv6() == server.starts_with('['));
                let socket = UdpSocket::from(found.unwrap().socket.try_clone().unwrap());
                socket.set_nonblocking(false).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                assert_eq!(socket.recv_from(&mut [0; 16]).unwrap().0, 8, "{server}");
            }
            for elsewhere in ["192.0.2.55:53", "[2001:db8::55]:53"] {
                let refused = TcpStream::connect(elsewhere).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::NetworkUnreachable, "{elsewhere}");
            }
        });
        inside_of(Network::closed(&[]), |network| assert_eq!(network.take().len(), 1));
        // Addresses that no route leads to.
        let strange = ["0.0.0.0", "255.255.255.255", "224.0.0.1", "0.0.0.1"];
        inside_of(Network::closed(&strange.map(|server| server.parse().unwrap())), |network| {
            assert_eq!(network.take().len(), 1);
            let own = UdpSocket::bind("127.0.0.1:0").unwrap();
            own.send_to(b"x", own.local_addr().unwrap()).unwrap();
            assert_eq!(own.recv(&mut [0; 16]).unwrap(), 1, "the loopback interface is up");
        });
    }
}
