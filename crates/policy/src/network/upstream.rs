// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the proxy for outgoing connections and the name servers.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::host::Name;
use super::statement::{NetworkError, port};
use crate::layer::Tighten;

/// The protocol of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyScheme {
    /// HTTP's CONNECT.
    Http,
    /// SOCKS 5; Palisade resolves names.
    Socks5,
    /// SOCKS 5; the proxy resolves names.
    Socks5h,
}

impl ProxyScheme {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Http, Self::Socks5, Self::Socks5h];

    /// The word in front of `://`.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Socks5 => "socks5",
            Self::Socks5h => "socks5h",
        }
    }
}

/// The host of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProxyHost {
    /// A name.
    Name(Name),
    /// An address.
    Address(IpAddr),
}

impl fmt::Display for ProxyHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

/// The user name and password for a proxy. Never printed, not even for debugging.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Credentials {
    /// The user, at most 255 bytes, no `:`.
    pub user: String,
    /// The password, at most 255 bytes.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A proxy for outgoing connections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Proxy {
    /// Its protocol.
    pub scheme: ProxyScheme,
    /// Its host.
    pub host: ProxyHost,
    /// Its port.
    pub port: u16,
    /// The user name and password for it, if any.
    pub credentials: Option<Credentials>,
}

impl Proxy {
    /// Whether the proxy resolves names. If not, the resolved addresses are judged first.
    #[must_use]
    pub const fn resolves(&self) -> bool {
        !matches!(self.scheme, ProxyScheme::Socks5)
    }

    /// In the form that is parsed, with credentials. For files of the user's own, never for messages.
    #[must_use]
    pub fn with_credentials(&self) -> String {
        let credentials = self.credentials.as_ref().map_or_else(String::new, |who| {
            let password =
                if who.password.is_empty() { String::new() } else { format!(":{}", encoded(&who.password)) };
            format!("{}{password}@", encoded(&who.user))
        });
        format!("{}://{credentials}{}:{}", self.scheme.key(), self.host, self.port)
    }
}

/// Without credentials: `http://***@proxy.example.com:3128`.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = if self.credentials.is_some() { "***@" } else { "" };
        write!(f, "{}://{who}{}:{}", self.scheme.key(), self.host, self.port)
    }
}

/// Why a text is no valid proxy. No variant contains the text, which may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// It is no URL, or has another scheme.
    #[error("a proxy is a URL that begins with `http://`, `socks5://` or `socks5h://`")]
    Scheme,
    /// It has a path or more.
    #[error("a proxy's URL has no path")]
    Path,
    /// The host isn't valid.
    #[error("the proxy's host is neither a name nor an address")]
    Host,
    /// The port is missing or isn't valid.
    #[error("a proxy's URL has a port, from 1 to 65535")]
    Port,
    /// The credentials can't be sent.
    #[error(
        "a proxy's user and password have at most 255 bytes of UTF-8 each, without control characters; write each \
         character that isn't a letter or digit as `%XX`"
    )]
    Credentials,
}

impl ProxyError {
    /// What to write instead.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::Credentials => "http://USER:PASSWORD@proxy.example.com:3128",
            _ => "http://proxy.example.com:3128, socks5h://127.0.0.1:1080, environment, or direct",
        }
    }
}

impl FromStr for Proxy {
    type Err = ProxyError;

    /// `SCHEME://[USER[:PASSWORD]@]HOST:PORT`, optionally with a trailing slash.
    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let (scheme, rest) = text.split_once("://").ok_or(ProxyError::Scheme)?;
        let known = ProxyScheme::ALL.into_iter().find(|known| known.key().eq_ignore_ascii_case(scheme));
        let scheme = known.ok_or(ProxyError::Scheme)?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(read_credentials(credentials)?), rest),
            None => (None, rest),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '?', '#']) {
            return Err(ProxyError::Path);
        }
        let (host, digits) = rest.rsplit_once(':').ok_or(ProxyError::Port)?;
        let port = port(digits).ok_or(ProxyError::Port)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(inside) => {
                ProxyHost::Address(IpAddr::V6(inside.parse().map_err(|_no_address| ProxyError::Host)?))
            }
            None => match host.parse() {
                Ok(address) => ProxyHost::Address(IpAddr::V4(address)),
                Err(_no_address) => ProxyHost::Name(host.parse().map_err(|_no_name| ProxyError::Host)?),
            },
        };
        Ok(Self { scheme, host, port, credentials })
    }
}

fn read_credentials(text: &str) -> Result<Credentials, ProxyError> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    let read = |text: &str| {
        decoded(text)
            .filter(|text| text.len() <= 255 && !text.contains(char::is_control))
            .ok_or(ProxyError::Credentials)
    };
    let (user, password) = (read(user)?, read(password)?);
    // Basic authentication can't represent these (RFC 7617).
    if user.is_empty() || user.contains(':') {
        return Err(ProxyError::Credentials);
    }
    Ok(Credentials { user, password })
}

/// Decodes `%XX`.
fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
            out.push(high << 4 | low);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// The value of `network.proxy`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Upstream {
    /// `direct`: no proxy, whatever earlier layers state.
    Direct,
    /// `environment`: the proxy in the caller's variables (`HTTPS_PROXY` and similar ones).
    Environment,
    /// This one.
    Proxy(Proxy),
}

impl Upstream {
    /// In the form that is parsed, with credentials.
    #[must_use]
    pub fn with_credentials(&self) -> String {
        match self {
            Self::Direct => "direct".to_owned(),
            Self::Environment => "environment".to_owned(),
            Self::Proxy(proxy) => proxy.with_credentials(),
        }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct => f.write_str("direct"),
            Self::Environment => f.write_str("environment"),
            Self::Proxy(proxy) => proxy.fmt(f),
        }
    }
}

impl FromStr for Upstream {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        match text {
            "direct" => Ok(Self::Direct),
            "environment" => Ok(Self::Environment),
            _ => text.parse().map(Self::Proxy),
        }
    }
}

impl Tighten for Upstream {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// A name server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NameServer(pub SocketAddr);

impl FromStr for NameServer {
    type Err = NetworkError;

    /// An address, optionally with a port. The default port is 53.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError::NameServer { text: text.to_owned() };
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(SocketAddr::new(address, 53)));
        }
        let address: SocketAddr = text.parse().map_err(|_no_address| wrong())?;
        if address.port() == 0 { Err(wrong()) } else { Ok(Self(address)) }
    }
}

impl fmt::Display for NameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.port() == 53 { self.0.ip().fmt(f) } else { self.0.fmt(f) }
    }
}

/// Masks the text between `://` and `@`: each byte becomes a star, so that offsets in the text stay valid.
#[must_use]
pub fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        out.push_str(before);
        // In a malformed URL the password may contain anything except the end of the line or of the string.
        let end = after.find(['"', '\'', '\n']).unwrap_or(after.len());
        let secret = after[..end].rfind('@').unwrap_or(0);
        out.extend(std::iter::repeat_n('*', secret));
        rest = &after[secret..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_printed_as_they_are_read_and_shown_without_credentials() {
        for (text, shown) in [
            ("http://proxy.example.com:3128", "http://proxy.example.com:3128"),
            ("socks5h://127.0.0.1:1080", "socks5h://127.0.0.1:1080"),
            ("socks5://ann@[::1]:1080", "socks5://***@[::1]:1080"),
            ("http://ann:p%40ss%3A%2F@proxy:80", "http://***@proxy:80"),
        ] {
            let proxy: Proxy = text.parse().unwrap();
            assert_eq!(proxy.with_credentials(), text);
            assert_eq!(proxy.to_string(), shown);
            assert!(!format!("{proxy:?}").contains("ann"), "{proxy:?}");
        }
        let proxy: Proxy = "HTTP://ann:p%40ss@Proxy:80/".parse().unwrap();
        assert_eq!(proxy.credentials.as_ref().unwrap().password, "p@ss");
        assert_eq!(proxy.with_credentials(), "http://ann:p%40ss@proxy:80");
        for (text, upstream) in [("direct", Upstream::Direct), ("environment", Upstream::Environment)] {
            assert_eq!(text.parse(), Ok(upstream.clone()));
            assert_eq!(
                (upstream.to_string(), upstream.with_credentials()),
                (text.to_owned(), text.to_owned())
            );
        }
    }

    #[test]
    fn what_is_no_proxy_is_told_why_and_not_repeated() {
        for (text, error) in [
            ("proxy:3128", ProxyError::Scheme),
            ("https://proxy:3128", ProxyError::Scheme),
            ("http://proxy", ProxyError::Port),
            ("http://proxy:0", ProxyError::Port),
            ("http://proxy:80/x", ProxyError::Path),
            ("http://pro xy:80", ProxyError::Host),
            ("http://[::1:80", ProxyError::Host),
            ("http://@proxy:80", ProxyError::Credentials),
            ("http://a%zz@proxy:80", ProxyError::Credentials),
            ("http://a%00@proxy:80", ProxyError::Credentials),
            ("http://a%3Ab:c@proxy:80", ProxyError::Credentials),
            ("http://secret:secret@proxy:bad", ProxyError::Port),
        ] {
            assert_eq!(text.parse::<Proxy>(), Err(error), "{text}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn name_servers_have_a_usual_port() {
        for (text, printed) in [
            ("9.9.9.9", "9.9.9.9"),
            ("9.9.9.9:53", "9.9.9.9"),
            ("9.9.9.9:5353", "9.9.9.9:5353"),
            ("2620:fe::fe", "2620:fe::fe"),
            ("[2620:fe::fe]:53", "2620:fe::fe"),
            ("[2620:fe::fe]:54", "[2620:fe::fe]:54"),
        ] {
            let server: NameServer = text.parse().unwrap();
            assert_eq!(server.to_string(), printed);
            assert_eq!(printed.parse::<NameServer>().unwrap(), server);
        }
        for wrong in ["", "dns.example.com", "9.9.9.9:0", "9.9.9.9:", "[::1]"] {
            assert!(wrong.parse::<NameServer>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn passwords_are_masked_wherever_they_stand() {
        assert_eq!(masked("p = \"http://a:b/@c@d:1\" # x@y"), "p = \"http://******@d:1\" # x@y");
        assert_eq!(masked("http://h:1, http://ü@i"), "http://**************@i");
        assert_eq!(masked("http://h:1/"), "http://h:1/");
    }
}
