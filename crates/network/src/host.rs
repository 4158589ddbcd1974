// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses hosts as clients name them: `example.com:80`, `[::1]:443`, `192.0.2.1`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use palisade_policy::network::Name;

use crate::resolver::is_localhost;

/// The host that a client wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Host {
    /// A name.
    Name(Name),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl Host {
    /// Whether this is the machine itself, in every notation.
    pub(crate) fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => is_localhost(name),
            Self::Address(address) => address.to_canonical().is_loopback(),
        }
    }

    /// Reads a host without brackets or port.
    pub(crate) fn bare(text: &str) -> Option<Self> {
        match text.parse::<IpAddr>() {
            Ok(address) => Some(Self::Address(address.to_canonical())),
            Err(_no_address) => text.parse().ok().map(Self::Name),
        }
    }

    /// Parses a host and its optional port. Strictly: neither a user name before nor anything behind is accepted.
    pub(crate) fn with_port(text: &str) -> Option<(Self, Option<u16>)> {
        let (host, port) = if let Some(rest) = text.strip_prefix('[') {
            let (address, rest) = rest.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            (Self::Address(IpAddr::V6(address).to_canonical()), rest)
        } else {
            let end = text.find(':').unwrap_or(text.len());
            let (host, rest) = text.split_at(end);
            match host.parse::<Ipv4Addr>() {
                Ok(address) => (Self::Address(address.into()), rest),
                Err(_no_address) => (Self::Name(host.parse().ok()?), rest),
            }
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some(digits) if digits.len() <= 5 && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|port| *port != 0)?)
            }
            Some(_) => return None,
        };
        Some((host, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_itself_is_loopback_and_nothing_else() {
        let is = |text: &str| Host::bare(text).unwrap().is_loopback();
        for own in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1", "localhost", "x.localhost"] {
            assert!(is(own), "{own}");
        }
        for other in ["0.0.0.0", "::", "10.0.0.1", "1.1.1.1", "localhost.example", "notlocalhost"] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn hosts_are_read_strictly() {
        let read = |text| Host::with_port(text).map(|(host, port)| (host.to_string(), port));
        let is = |text, host: &str, port| assert_eq!(read(text), Some((host.to_owned(), port)));
        is("example.com", "example.com", None);
        is("Example.COM.:80", "example.com", Some(80));
        is("192.0.2.1:1", "192.0.2.1", Some(1));
        is("[2001:db8::1]:443", "2001:db8::1", Some(443));
        is("[::ffff:10.0.0.1]", "10.0.0.1", None);
        for wrong in [
            "",
            ":80",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a: 1",
            "a b",
            "user@a",
            "a@b:1",
            "a/b",
            "a,b",
            "[::1",
            "[::1]x",
            "::1",
            "127.1",
            "0x7f.1",
            "a:1:2",
            "a\tb",
            "[a]",
            "a..b",
            "2130706433",
            "1.2.3.4.5",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
