// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the host's `/etc/resolv.conf` and `/etc/hosts`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use palisade_policy::network::Name;
use palisade_protocol::network::Resolving;

/// The most servers, as in the C libraries (resolv.conf(5)).
const SERVERS: usize = 3;

/// The parsed [`Resolving`].
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) servers: Vec<SocketAddr>,
    pub(crate) attempts: usize,
    pub(crate) hosts: HashMap<Name, Vec<IpAddr>>,
}

impl Sources {
    /// Parses the texts. If there are `servers`, they replace those of `resolv.conf`. Invalid lines are skipped, as in
    /// the C libraries.
    pub(crate) fn read(resolving: &Resolving, servers: &[SocketAddr]) -> Self {
        let mut sources = Self { servers: servers.to_vec(), attempts: 2, hosts: HashMap::new() };
        for line in resolving.resolv_conf.lines() {
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") if servers.is_empty() && sources.servers.len() < SERVERS => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    sources.servers.extend(address.map(|address| SocketAddr::new(address, 53)));
                }
                Some("options") => {
                    let mut attempts = words.filter_map(|word| word.strip_prefix("attempts:")?.parse().ok());
                    sources.attempts = attempts.next_back().unwrap_or(sources.attempts).clamp(1, 5);
                }
                _ => {}
            }
        }
        if sources.servers.is_empty() {
            sources.servers.push((Ipv4Addr::LOCALHOST, 53).into());
        }
        for line in resolving.hosts.lines() {
            let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            for name in words.filter_map(|word| word.parse::<Name>().ok()) {
                sources.hosts.entry(name).or_default().push(address);
            }
        }
        sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_like_the_c_libraries_do() {
        let resolving = Resolving {
            resolv_conf: "# x\nsearch a.example\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver 2001:db8::1\n\
                          options rotate attempts:9 timeout:1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"
                .to_owned(),
            hosts: "127.0.0.1 localhost\n10.0.0.1\tDB.example db # here\n2001:db8::5 db\nbad line\n10.0.0.2 a/b c\n"
                .to_owned(),
        };
        let sources = Sources::read(&resolving, &[]);
        let servers: Vec<String> = sources.servers.iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"]);
        assert_eq!(sources.attempts, 5);
        let hosts = |name: &str| sources.hosts.get(&name.parse::<Name>().unwrap()).map(Vec::len);
        assert_eq!(
            [hosts("db"), hosts("db.example"), hosts("c"), hosts("here")],
            [Some(2), Some(1), Some(1), None]
        );
        let own = Sources::read(&resolving, &["192.0.2.9:5353".parse().unwrap()]);
        assert_eq!(own.servers, ["192.0.2.9:5353".parse().unwrap()]);
        assert_eq!(Sources::read(&Resolving::default(), &[]).servers, ["127.0.0.1:53".parse().unwrap()]);
    }
}
