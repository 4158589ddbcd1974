// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the process that made a request on the network inside: the process that has the socket.
//!
//! The kernel lists a network's sockets with addresses and inodes, and for each process the inodes of its open
//! descriptors. Both belong to the command's user, so the launcher may read them. If several processes have the socket,
//! or it was closed meanwhile, no process is named: nothing is guessed.

use crate::apply::start::Running;
use std::fs::File;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The most bytes of a list of sockets that are read: a command may open any number of sockets.
const LONGEST: u64 = 4 << 20;
/// How long one search may take, and all searches within a second: the launcher has other work.
const LOOK: Duration = Duration::from_millis(200);
const LOOKS: Duration = LOOK;

/// The process or program that made a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// The process, if only one has the socket.
    pub pid: Option<u32>,
    /// The program's name.
    pub program: String,
}

/// Finds processes by their sockets.
#[derive(Debug, Default)]
pub struct Askers {
    running: Option<Running>,
    /// The time that searches took within the second that began then.
    spent: Option<(Instant, Duration)>,
}

impl Askers {
    /// The command runs.
    pub fn started(&mut self, running: Running) {
        self.running = Some(running);
    }

    /// The process inside that has the socket of this address; `None` if it can't be determined, or after too many searches.
    pub fn find(&mut self, address: SocketAddr, datagrams: bool) -> Option<Asker> {
        let running = self.running?;
        let begin = Instant::now();
        let (since, spent) = self
            .spent
            .filter(|(since, _)| since.elapsed() < Duration::from_secs(1))
            .unwrap_or((begin, Duration::ZERO));
        if spent >= LOOKS {
            return None;
        }
        let found = look(running, address, datagrams, begin + LOOK);
        self.spent = Some((since, spent + begin.elapsed()));
        found
    }
}

fn look(running: Running, address: SocketAddr, datagrams: bool, deadline: Instant) -> Option<Asker> {
    let network = |pid: i32| socket(&format!("/proc/{pid}/net"), address, datagrams);
    let inode = running.init.and_then(network).or_else(|| network(running.pid))?;
    let link = format!("socket:[{inode}]");
    let mut owners = Vec::new();
    for pid in inside(running, deadline)? {
        if has(pid, &link, deadline)? {
            owners.push(pid);
        }
    }
    let name = |pid: &i32| {
        let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
        Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
    };
    let (first, others) = owners.split_first()?;
    let program = name(first)?;
    if others.iter().any(|other| name(other).as_ref() != Some(&program)) {
        return None;
    }
    let pid = u32::try_from(*first).ok().filter(|_pid| others.is_empty());
    Some(Asker { pid, program })
}

/// The processes inside: the command and its descendants, and those of init, which gets the orphans. Without namespaces
/// orphans aren't found.
fn inside(running: Running, deadline: Instant) -> Option<Vec<i32>> {
    let mut found = vec![running.pid];
    if let Some(init) = running.init {
        found.extend(children(init)?);
    }
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        if Instant::now() >= deadline {
            return None;
        }
        // The process may have ended.
        let new = children(pid).unwrap_or_default();
        found.extend(new);
    }
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The children of all threads of a process. This avoids a search through all processes of the host.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let text = std::fs::read_to_string(task.path().join("children")).ok()?;
        found.extend(text.split_ascii_whitespace().filter_map(|number| number.parse::<i32>().ok()));
    }
    Some(found)
}

/// Whether a process has a descriptor of this socket; `None` when no time is left.
fn has(pid: i32, link: &str, deadline: Instant) -> Option<bool> {
    // The process may have ended.
    let Ok(descriptors) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return Some(false) };
    for descriptor in descriptors.flatten() {
        if Instant::now() >= deadline {
            return None;
        }
        if std::fs::read_link(descriptor.path()).is_ok_and(|to| to.as_os_str().as_bytes() == link.as_bytes())
        {
            return Some(true);
        }
    }
    Some(false)
}

/// The inode of the only socket with this address.
fn socket(network: &str, address: SocketAddr, datagrams: bool) -> Option<u64> {
    let tables = if datagrams { ["udp", "udp6"] } else { ["tcp", "tcp6"] };
    let mut found = Vec::new();
    for table in tables {
        let mut text = String::new();
        // Without IPv6 the second table doesn't exist.
        let Ok(file) = File::open(Path::new(network).join(table)) else { continue };
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        found.extend(text.lines().skip(1).filter_map(row).filter(|(own, _inode)| is_at(*own, address)));
    }
    // A socket that is bound to exactly this address is preferred to one that is bound to all addresses.
    let exact = found.iter().filter(|(own, _inode)| !own.ip().is_unspecified()).count();
    found.retain(|(own, _inode)| exact == 0 || !own.ip().is_unspecified());
    match found[..] {
        [(_own, inode)] => Some(inode),
        _ => None,
    }
}

fn is_at(own: SocketAddr, address: SocketAddr) -> bool {
    let (own_ip, ip) = (own.ip().to_canonical(), address.ip().to_canonical());
    own.port() == address.port() && (own_ip == ip || own_ip.is_unspecified())
}

/// The local address and the inode in a line of `/proc/net/tcp` and similar files; `None` for a socket that no process has.
fn row(line: &str) -> Option<(SocketAddr, u64)> {
    let mut fields = line.split_ascii_whitespace();
    let (ip, port) = fields.nth(1)?.split_once(':')?;
    let inode: u64 = fields.nth(7)?.parse().ok()?;
    let words: Vec<[u8; 4]> = (0..ip.len() / 8)
        .map(|index| u32::from_str_radix(ip.get(index * 8..index * 8 + 8)?, 16).ok().map(u32::to_ne_bytes))
        .collect::<Option<_>>()?;
    let ip = match words[..] {
        [word] => IpAddr::from(Ipv4Addr::from(word)),
        [a, b, c, d] => {
            let bytes = [a, b, c, d].concat();
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes.as_slice()).ok()?))
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    (inode != 0).then_some((SocketAddr::new(ip, port), inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream, UdpSocket};

    #[test]
    fn lines_are_read() {
        let line = "   1: 0100007F:03FF 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0";
        assert_eq!(row(line), Some(("127.0.0.1:1023".parse().unwrap(), 4711)));
        let line = "   0: 0000000000000000FFFF000002000A0A:0035 0:0 01 0:0 00:0 0 1000 0 7 1 0";
        let (address, inode) = row(line).unwrap();
        assert_eq!(
            (address.ip().to_canonical(), address.port(), inode),
            ("10.10.0.2".parse().unwrap(), 53, 7)
        );
        for line in [
            "",
            "sl local",
            "0: 0100007F:03FF 0 0 0 0 0 0 0 0 0",
            "0: 01:1 0 0 0 0 0 0 0 5 0",
            "0: é:1 0 0 0 0 0 0 0 5 0",
        ] {
            assert_eq!(row(line), None, "{line}");
        }
    }

    /// The test looks for sockets of its own process. A connection has two sockets, with different addresses.
    #[test]
    fn a_socket_is_found_by_its_address() {
        let inode = |path: String| {
            let link = std::fs::read_link(path).unwrap();
            let text = link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').to_owned();
            text.parse::<u64>().unwrap()
        };
        use std::os::fd::AsRawFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let own = inode(format!("/proc/self/fd/{}", client.as_raw_fd()));
        assert_eq!(socket("/proc/self/net", client.local_addr().unwrap(), false), Some(own));
        assert_eq!(socket("/proc/self/net", client.local_addr().unwrap(), true), None);
        let datagrams = UdpSocket::bind("0.0.0.0:0").unwrap();
        let port = datagrams.local_addr().unwrap().port();
        let own = inode(format!("/proc/self/fd/{}", datagrams.as_raw_fd()));
        // This socket sends from any of the host's addresses.
        assert_eq!(
            socket("/proc/self/net", SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port), true),
            Some(own)
        );
        let link = format!("socket:[{own}]");
        let (pid, soon) =
            (i32::try_from(std::process::id()).unwrap(), Instant::now() + Duration::from_secs(60));
        assert_eq!(has(pid, &link, soon), Some(true));
        assert_eq!(has(pid, "socket:[0]", soon), Some(false));
        assert_eq!(has(pid, "socket:[0]", Instant::now()), None);
    }

    #[test]
    fn looking_has_a_limit() {
        let mut askers = Askers::default();
        askers.started(Running { pid: 1, init: Some(1) });
        let address = "127.0.0.1:1".parse().unwrap();
        askers.spent = Some((Instant::now(), LOOKS));
        assert_eq!(askers.find(address, false), None);
        assert_eq!(askers.spent.unwrap().1, LOOKS, "it didn't look");
    }
}
