// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the world outside is reached.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the world outside is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upstream {
    /// A proxy through which everything goes. It is given names, so it is the one that resolves them: whether a name
    /// leads to a private address is then its affair.
    pub proxy: Option<Proxy>,
    /// The servers that are asked for addresses; none: those of `resolv.conf`.
    pub dns: Vec<SocketAddr>,
}

/// A user's name and password.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

/// Without the password, which would else come into logs.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A proxy outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Proxy {
    /// One that is asked with `CONNECT`.
    Http {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
        /// Who asks.
        credentials: Option<Credentials>,
    },
    /// One of SOCKS, version 5. Names are sent to it as names, whether it is written `socks5` or `socks5h`.
    Socks5 {
        /// Its name or address.
        host: String,
        /// Its port.
        port: u16,
        /// Who asks.
        credentials: Option<Credentials>,
    },
}

/// Why a text is no proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// No scheme, or one that isn't spoken.
    #[error("a proxy is `http://HOST:PORT` or `socks5://HOST:PORT`")]
    Scheme,
    /// The host.
    #[error("{0:?} is no host")]
    Host(String),
    /// The port.
    #[error("{0:?} is no port")]
    Port(String),
    /// The credentials.
    #[error(
        "the user's name and password before `@` are written with `%` and two digits for special characters"
    )]
    Credentials,
}

impl FromStr for Proxy {
    type Err = ProxyError;

    /// `http://user:password@host:port`, `socks5://…`, `socks5h://…`; the ports are 80 and 1080 if there are none.
    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").ok_or(ProxyError::Scheme)?;
        let socks = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "socks5" | "socks5h" => true,
            _ => return Err(ProxyError::Scheme),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (credentials, place) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((credentials, place)) => {
                let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
                let decoded =
                    |text| decode(text).filter(|text| text.len() <= 255).ok_or(ProxyError::Credentials);
                (Some(Credentials { user: decoded(user)?, password: decoded(password)? }), place)
            }
        };
        let bad_host = || ProxyError::Host(place.to_owned());
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(bad_host)?;
                let port =
                    if rest.is_empty() { None } else { Some(rest.strip_prefix(':').ok_or_else(bad_host)?) };
                (host, port)
            }
            None => match place.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (place, None),
            },
        };
        if crate::host::Host::bare(host).is_none() {
            return Err(bad_host());
        }
        let port = match port {
            None => {
                if socks {
                    1080
                } else {
                    80
                }
            }
            Some(port) => match port.parse() {
                Ok(number) if number != 0 && !port.starts_with('+') => number,
                _ => return Err(ProxyError::Port(port.to_owned())),
            },
        };
        let host = host.to_owned();
        Ok(if socks {
            Self::Socks5 { host, port, credentials }
        } else {
            Self::Http { host, port, credentials }
        })
    }
}

/// Undoes `%40`.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(u8::try_from(digit()? << 4 | digit()?).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read() {
        let credentials = |user: &str, password: &str| {
            Some(Credentials { user: user.to_owned(), password: password.to_owned() })
        };
        let http =
            |host: &str, port, credentials| Ok(Proxy::Http { host: host.to_owned(), port, credentials });
        let socks =
            |host: &str, port, credentials| Ok(Proxy::Socks5 { host: host.to_owned(), port, credentials });
        assert_eq!("http://proxy.example:3128".parse(), http("proxy.example", 3128, None));
        assert_eq!("HTTP://proxy.example/".parse(), http("proxy.example", 80, None));
        assert_eq!("http://a:b%40c@[::1]:8".parse(), http("::1", 8, credentials("a", "b@c")));
        assert_eq!("socks5h://me@10.0.0.1".parse(), socks("10.0.0.1", 1080, credentials("me", "")));
        for wrong in [
            "proxy:80",
            "https://a",
            "http://",
            "http://a:0",
            "http://a:x",
            "http://[::1",
            "http://a%:b@c",
            "http://a b",
        ] {
            assert!(wrong.parse::<Proxy>().is_err(), "{wrong}");
        }
        assert!(!format!("{:?}", credentials("a", "secret")).contains("secret"));
    }
}
