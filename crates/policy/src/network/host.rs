// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses hosts in rules.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::address::Cidr;

/// The longest name in the DNS, without the trailing dot (RFC 1035).
const LONGEST_NAME: usize = 253;
const LONGEST_LABEL: usize = 63;

/// A host's name: small letters, digits, `-` and `_`, without a trailing dot.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Name(Box<str>);

/// Why a text is no valid host name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty, or has two dots in a row.
    #[error("a name and each of its parts need at least one character")]
    Empty,
    /// It or a part of it is too long.
    #[error("a name has at most 253 characters, each of its parts at most 63")]
    Long,
    /// It contains another character.
    #[error(
        "a name has letters, digits, `-` and `_`; names in other scripts are written as in the DNS, `xn--…`"
    )]
    Character,
    /// It is an address, or programs would take it for one.
    #[error("a name can't end in a number")]
    Number,
}

impl Name {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name itself, then the name without its first part, and so on.
    pub fn and_above(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |name| name.split_once('.').map(|(_first, rest)| rest))
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl std::borrow::Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = NameError;

    /// Converts to small letters and removes one trailing dot.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.len() > LONGEST_NAME {
            return Err(NameError::Long);
        }
        for part in text.split('.') {
            if part.is_empty() {
                return Err(NameError::Empty);
            }
            if part.len() > LONGEST_LABEL {
                return Err(NameError::Long);
            }
            if !part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
                return Err(NameError::Character);
            }
        }
        // Programs parse a name that ends in a number as an address (`127.1`, `0x7f.1`; WHATWG URL, 3.5).
        let last = text.rsplit('.').next().unwrap_or_default();
        let hexadecimal = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        if last.bytes().all(|byte| byte.is_ascii_digit())
            || hexadecimal.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        {
            return Err(NameError::Number);
        }
        Ok(Self(text.to_ascii_lowercase().into()))
    }
}

/// The hosts that a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostPattern {
    /// `*`: every name, and every address of the public internet.
    Any,
    /// One name.
    Name(Name),
    /// `*.NAME`: names that end in it, but not the name itself.
    Below(Name),
    /// A range of addresses.
    Addresses(Cidr),
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Name(name) => name.fmt(f),
            Self::Below(name) => write!(f, "*.{name}"),
            Self::Addresses(range) => range.fmt(f),
        }
    }
}

/// A range of ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ports {
    /// The first port.
    pub first: u16,
    /// The last port, not before the first.
    pub last: u16,
}

impl Ports {
    /// All ports.
    pub const ALL: Self = Self { first: 0, last: u16::MAX };

    /// Whether the range contains a port.
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// A host and its ports: an entry of `network.allow`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    /// The hosts.
    pub host: HostPattern,
    /// The ports.
    pub ports: Ports,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ports { first, last } = self.ports;
        if self.ports == Ports::ALL {
            return self.host.fmt(f);
        }
        match self.host {
            HostPattern::Addresses(range) if range.first().is_ipv6() => write!(f, "[{range}]")?,
            _ => self.host.fmt(f)?,
        }
        if first == last { write!(f, ":{first}") } else { write!(f, ":{first}-{last}") }
    }
}

/// Why a text is no valid host entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// It is a URL.
    #[error("{text:?} is a URL; a rule names a host: `{host}`")]
    Url {
        /// The text.
        text: String,
        /// The host in it.
        host: String,
    },
    /// A star doesn't stand for whole parts at the beginning.
    #[error("{text:?}: `*` must stand alone or at the start, as in `*.example.com`")]
    Star {
        /// The text.
        text: String,
    },
    /// The name isn't valid.
    #[error("{text:?} is no host: {error}")]
    Name {
        /// The text.
        text: String,
        /// The reason.
        error: NameError,
    },
    /// The range of addresses isn't valid.
    #[error("{text:?} is no range of addresses, as in `10.0.0.0/8`")]
    Range {
        /// The text.
        text: String,
    },
    /// The port isn't valid.
    #[error("{text:?}: a port is a number from 1 to 65535, or two with `-` between")]
    Port {
        /// The text.
        text: String,
    },
}

impl FromStr for Target {
    type Err = HostError;

    /// `example.com`, `*.example.com:443`, `*`, `10.0.0.0/8:5432`, `[2001:db8::/32]:80-90`, `2001:db8::1`.
    fn from_str(text: &str) -> Result<Self, HostError> {
        let own = || text.to_owned();
        if let Some((_scheme, rest)) = text.split_once("://") {
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit('@').next().unwrap_or_default();
            return Err(HostError::Url { text: own(), host: host.to_owned() });
        }
        if let Some(rest) = text.strip_prefix('[') {
            let Some((inner, rest)) = rest.split_once(']') else {
                return Err(HostError::Range { text: own() });
            };
            let range = inner.parse().map_err(|()| HostError::Range { text: own() })?;
            let ports = match rest.strip_prefix(':') {
                Some(ports) => parse_ports(ports).ok_or_else(|| HostError::Port { text: own() })?,
                None if rest.is_empty() => Ports::ALL,
                None => return Err(HostError::Port { text: own() }),
            };
            return Ok(Self { host: HostPattern::Addresses(range), ports });
        }
        // An IPv6 address without a port needs no brackets.
        if let Ok(range) = text.parse() {
            return Ok(Self { host: HostPattern::Addresses(range), ports: Ports::ALL });
        }
        let (host, ports) = match text.split_once(':') {
            Some((host, ports)) => (host, parse_ports(ports).ok_or_else(|| HostError::Port { text: own() })?),
            None => (text, Ports::ALL),
        };
        Ok(Self { host: parse_host(host, text)?, ports })
    }
}

fn parse_host(host: &str, text: &str) -> Result<HostPattern, HostError> {
    let own = || text.to_owned();
    if let Ok(range) = host.parse() {
        return Ok(HostPattern::Addresses(range));
    }
    if host == "*" {
        return Ok(HostPattern::Any);
    }
    let named = |name: &str| name.parse().map_err(|error| HostError::Name { text: own(), error });
    if let Some(name) = host.strip_prefix("*.") {
        if name.contains('*') {
            return Err(HostError::Star { text: own() });
        }
        return Ok(HostPattern::Below(named(name)?));
    }
    if host.contains('*') {
        return Err(HostError::Star { text: own() });
    }
    if host.contains('/') {
        let (before, _path) = host.split_once('/').unwrap_or((host, ""));
        return Err(match before.parse::<Name>() {
            Ok(name) => HostError::Url { text: own(), host: name.to_string() },
            Err(_no_name) => HostError::Range { text: own() },
        });
    }
    Ok(HostPattern::Name(named(host)?))
}

fn parse_ports(text: &str) -> Option<Ports> {
    let number = |text: &str| -> Option<u16> {
        let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits.then(|| text.parse().ok()).flatten()?;
        (port != 0).then_some(port)
    };
    if text == "*" {
        return Some(Ports::ALL);
    }
    let ports = match text.split_once('-') {
        Some((first, last)) => Ports { first: number(first)?, last: number(last)? },
        None => {
            let port = number(text)?;
            Ports { first: port, last: port }
        }
    };
    (ports.first <= ports.last).then_some(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_printed_as_they_are_read() {
        for (text, printed) in [
            ("Example.COM.", "example.com"),
            ("*.example.com:443", "*.example.com:443"),
            ("*", "*"),
            ("*:22", "*:22"),
            ("10.1.2.3/8:5432", "10.0.0.0/8:5432"),
            ("[2001:db8::1]:80-90", "[2001:db8::1]:80-90"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("example.com:*", "example.com"),
            ("_srv.example.com", "_srv.example.com"),
            ("localhost", "localhost"),
        ] {
            let target: Target = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(target.to_string(), printed);
            assert_eq!(printed.parse::<Target>().unwrap(), target);
        }
    }

    #[test]
    fn what_names_no_host_is_told_why() {
        for (text, why) in [
            ("https://user@example.com:443/x", "a rule names a host: `example.com:443`"),
            ("example.com/path", "a rule names a host: `example.com`"),
            ("a*.example.com", "must stand alone or at the start"),
            ("*.*.com", "must stand alone or at the start"),
            ("", "need at least one character"),
            ("a..b", "need at least one character"),
            (".example.com", "need at least one character"),
            ("exa mple.com", "letters, digits"),
            ("bücher.example", "letters, digits"),
            ("127.1", "can't end in a number"),
            ("2130706433", "can't end in a number"),
            ("0x7f.0x1", "can't end in a number"),
            ("10.0.0.0/33", "no range of addresses"),
            ("[::1", "no range of addresses"),
            ("[::1]x", "a port is a number"),
            ("example.com:0", "a port is a number"),
            ("example.com:70000", "a port is a number"),
            ("example.com:9-8", "a port is a number"),
            ("example.com:+1", "a port is a number"),
            ("example.com:", "a port is a number"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
