// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in statements about the network, in a file or on a command line.

use std::net::IpAddr;

use super::host::{HostError, Name, Target};
use super::upstream::ProxyError;

/// A key of `[network]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum NetworkKey {
    /// `mode`.
    Mode,
    /// `default`.
    Default,
    /// `allow` or `deny`.
    Hosts { allow: bool },
    /// A list that can be closed.
    List(NetworkList),
    /// `proxy`.
    Proxy,
}

/// A list of `[network]` that can be closed: if an empty list is locked, later layers add nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NetworkList {
    /// `network.publish`.
    Publish,
    /// `network.reach`.
    Reach,
    /// `network.dns`.
    Dns,
}

/// Why a text isn't valid in `[network]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The host isn't valid.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The table has no `host`.
    #[error("an entry that is a table needs a `host`")]
    NoHost,
    /// The text isn't a valid published port.
    #[error("{text:?} is not a port to publish: write `[ADDRESS:][HOSTPORT:]PORT`")]
    Publish {
        /// The text.
        text: String,
    },
    /// The port isn't valid.
    #[error("{text:?} is no port: a number from 1 to 65535")]
    Port {
        /// The text.
        text: String,
    },
    /// The proxy isn't valid.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// The name server's address isn't valid.
    #[error("{text:?} is no address of a name server")]
    NameServer {
        /// The text.
        text: String,
    },
}

impl NetworkError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Host(HostError::Url { host, .. }) if host.parse::<Target>().is_ok() => {
                format!("write \"{host}\"")
            }
            Self::Host(HostError::Name { .. } | HostError::Star { .. } | HostError::Url { .. }) => {
                "\"example.com\", \"*.example.com:443\", \"10.0.0.0/8:5432\"".to_owned()
            }
            Self::Host(HostError::Range { .. }) => "\"10.0.0.0/8\", \"[2001:db8::/32]:443\"".to_owned(),
            Self::Host(HostError::Port { .. }) => "\"example.com:443\", \"example.com:8000-8999\"".to_owned(),
            Self::NoHost => "{ host = \"example.com\", reason = \"…\" }".to_owned(),
            Self::Publish { .. } => {
                "\"8080\", \"8080:80\", \"127.0.0.1:8080:80\", \"[::1]:8080:80\"".to_owned()
            }
            Self::Port { .. } => "5432".to_owned(),
            Self::Proxy(error) => error.hint().to_owned(),
            Self::NameServer { .. } => "\"9.9.9.9\", \"9.9.9.9:53\", \"[2620:fe::fe]:53\"".to_owned(),
        })
    }
}

/// Parses a port in digits.
pub(crate) fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.then(|| text.parse().ok()).flatten()?;
    (port != 0).then_some(port)
}

/// Parses a host that a user asks about: a name or an address, possibly with a port; or a URL, of which the host is
/// used. `None` if it is none of these.
#[must_use]
pub fn host_port(text: &str) -> Option<(Result<Name, IpAddr>, Option<u16>)> {
    let (text, usual) = match text.split_once("://") {
        Some((scheme, rest)) => {
            let usual = match scheme {
                "http" | "ws" => Some(80),
                "https" | "wss" => Some(443),
                "ssh" | "git+ssh" => Some(22),
                "git" => Some(9418),
                "ftp" => Some(21),
                _ => None,
            };
            let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
            (host.rsplit('@').next().unwrap_or_default(), usual)
        }
        None => (text, None),
    };
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((Err(address), usual));
    }
    let (host, given) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((inside, "")) => return Some((Err(IpAddr::V6(inside.parse().ok()?)), usual)),
        Some((inside, after)) => {
            let given = port(after.strip_prefix(':')?)?;
            return Some((Err(IpAddr::V6(inside.parse().ok()?)), Some(given)));
        }
        None => match text.split_once(':') {
            Some((host, given)) => (host, Some(port(given)?)),
            None => (text, None),
        },
    };
    let host = match host.parse::<IpAddr>() {
        Ok(address) => Err(address),
        Err(_no_address) => Ok(host.parse().ok()?),
    };
    Some((host, given.or(usual)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_what_people_write() {
        for (text, host, port) in [
            ("example.com", "example.com", None),
            ("Example.com:8080", "example.com", Some(8080)),
            ("https://user:pw@example.com/x?y#z", "example.com", Some(443)),
            ("http://example.com:81", "example.com", Some(81)),
            ("10.0.0.1", "10.0.0.1", None),
            ("10.0.0.1:22", "10.0.0.1", Some(22)),
            ("2001:db8::1", "2001:db8::1", None),
            ("[2001:db8::1]:443", "2001:db8::1", Some(443)),
            ("https://[::1]/", "::1", Some(443)),
            ("x://y", "y", None),
        ] {
            let (found, at) = host_port(text).unwrap_or_else(|| panic!("{text}"));
            let found = found.map_or_else(|address| address.to_string(), |name| name.to_string());
            assert_eq!((found.as_str(), at), (host, port), "{text}");
        }
        for text in ["", "a/b", "https://", "a:b", "[::1", "*.example.com", "10.0.0.0/8", "127.1", "[::1]80"]
        {
            assert_eq!(host_port(text), None, "{text}");
        }
    }

    #[test]
    fn a_url_is_told_as_the_host_in_it() {
        let error = NetworkError::from("https://example.com:443/x".parse::<Target>().unwrap_err());
        assert_eq!(error.hint().unwrap(), "write \"example.com:443\"");
    }
}
