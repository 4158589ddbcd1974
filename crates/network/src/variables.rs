// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the caller's proxy variables.
//!
//! There is no standard for them; this is what curl, Go and Python's requests agree upon. What they don't agree upon,
//! or what isn't supported here, is an error and no guess: a user who set a proxy doesn't want a direct connection.

use std::net::IpAddr;

use palisade_policy::network::{Cidr, Name, Proxy, ProxyError};

use crate::host::Host;

/// The proxies, by purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxyVariables {
    /// For port 80.
    http: Option<Stated>,
    /// For all other ports.
    https: Option<Stated>,
    /// For ports without a variable of their own.
    all: Option<Stated>,
    none: Vec<Exception>,
}

/// A variable's proxy; or the variable that doesn't name one, and why. Never its text, which may hold a password.
type Stated = Result<Proxy, String>;

/// Hosts that are connected to directly.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    Everybody,
    /// A name and those below it.
    Name(Name, Option<u16>),
    Addresses(Cidr, Option<u16>),
}

impl ProxyVariables {
    /// Reads the variables. A lower-case name counts before an upper-case one, as in curl; empty values are ignored.
    #[must_use]
    pub fn read<N: AsRef<str>, V: AsRef<str>>(variables: &[(N, V)]) -> Self {
        let value = |name: &str| {
            let of = |name: &str| {
                let mut all = variables.iter().map(|(name, value)| (name.as_ref(), value.as_ref().trim()));
                all.find(|(found, value)| *found == name && !value.is_empty()).map(|(_name, value)| value)
            };
            let capital = name.to_ascii_uppercase();
            of(name)
                .map(|value| (name.to_owned(), value))
                .or_else(|| of(&capital).map(|value| (capital, value)))
        };
        let proxy =
            |name| value(name).map(|(name, value)| proxy(value).map_err(|why| format!("{name}: {why}")));
        let none = value("no_proxy").map_or("", |(_name, value)| value);
        Self {
            http: proxy("http_proxy"),
            https: proxy("https_proxy"),
            all: proxy("all_proxy"),
            none: none.split([',', ' ', '\t']).filter_map(Exception::read).collect(),
        }
    }

    /// The proxy for a host; `None`: connect directly.
    pub(crate) fn proxy(&self, host: &Host, port: u16) -> Result<Option<&Proxy>, &str> {
        if self.none.iter().any(|exception| exception.holds(host, port)) {
            return Ok(None);
        }
        let own = if port == 80 { &self.http } else { &self.https };
        match own.as_ref().or(self.all.as_ref()) {
            Some(Err(why)) => Err(why),
            Some(Ok(proxy)) => Ok(Some(proxy)),
            None => Ok(None),
        }
    }
}

/// Parses a proxy's URL. Without a scheme it is an HTTP proxy, as in other programs.
fn proxy(value: &str) -> Result<Proxy, String> {
    let whole = if value.contains("://") { value.to_owned() } else { format!("http://{value}") };
    whole.parse().map_err(|error: ProxyError| error.to_string())
}

impl Exception {
    fn read(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Everybody);
        }
        if let Ok(range) = text.parse::<Cidr>() {
            return Some(Self::Addresses(range, None));
        }
        let text = text.strip_prefix('*').unwrap_or(text);
        let text = text.strip_prefix('.').unwrap_or(text);
        match Host::with_port(text)? {
            (Host::Name(name), port) => Some(Self::Name(name, port)),
            (Host::Address(address), port) => Some(Self::Addresses(Cidr::one(address), port)),
        }
    }

    fn holds(&self, host: &Host, port: u16) -> bool {
        let at = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        match (self, host) {
            (Self::Everybody, _) => true,
            (Self::Name(above, wanted), Host::Name(name)) => at(wanted) && is_or_below(name, above),
            (Self::Addresses(range, wanted), Host::Address(address)) => {
                at(wanted) && (range.contains(*address) || is_loopback(range, *address))
            }
            _ => false,
        }
    }
}

fn is_or_below(name: &Name, above: &Name) -> bool {
    name.as_str().strip_suffix(above.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// `127.0.0.1` among the exceptions means this machine, in every notation.
fn is_loopback(range: &Cidr, address: IpAddr) -> bool {
    range.first().is_loopback() && address.is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)], host: &str, port: u16) -> Result<Option<String>, String> {
        let variables = ProxyVariables::read(variables);
        let proxy = variables.proxy(&Host::bare(host).unwrap(), port);
        proxy.map(|proxy| proxy.map(Proxy::with_credentials)).map_err(str::to_owned)
    }

    #[test]
    fn the_port_chooses_the_variable() {
        let all = [
            ("HTTP_PROXY", "http://plain:1"),
            ("HTTPS_PROXY", "tls:2"),
            ("https_proxy", ""),
            ("ALL_PROXY", "socks5://all:3"),
        ];
        for (count, port, proxy) in [
            (4, 80, Some("http://plain:1")),
            (4, 443, Some("http://tls:2")),
            (4, 22, Some("http://tls:2")),
            (1, 443, None),
            (0, 80, None),
        ] {
            assert_eq!(of(&all[..count], "a.example", port), Ok(proxy.map(str::to_owned)), "{count} {port}");
        }
        assert_eq!(of(&all[3..], "a.example", 80).unwrap().unwrap(), "socks5://all:3");
        let both = [("HTTP_PROXY", "http://capital:1"), ("http_proxy", "http://small:1")];
        assert_eq!(of(&both, "a.example", 80).unwrap().unwrap(), "http://small:1");
    }

    #[test]
    fn whom_one_goes_to_directly() {
        let through = |none: &str, host: &str, port| {
            of(&[("ALL_PROXY", "http://p:1"), ("NO_PROXY", none)], host, port).unwrap().is_some()
        };
        for (none, host, port) in [
            ("*", "a.example", 80),
            ("b.org, example", "a.example", 80),
            (".example", "a.example", 80),
            ("*.example", "deep.a.example", 80),
            ("A.Example:443", "a.example", 443),
            ("10.0.0.0/8 x", "10.1.2.3", 80),
            ("10.1.2.3", "10.1.2.3", 80),
            ("[2001:db8::1]:80", "2001:db8::1", 80),
            ("2001:db8::/32", "2001:db8::1", 80),
            ("127.0.0.1", "127.0.0.2", 80),
        ] {
            assert!(!through(none, host, port), "{none} {host}:{port}");
        }
        for (none, host, port) in [
            ("", "a.example", 80),
            ("xample", "a.example", 80),
            ("a.example", "example", 80),
            ("a.example:443", "a.example", 80),
            ("10.0.0.0/8", "11.0.0.1", 80),
            ("not a host!,/", "a.example", 80),
        ] {
            assert!(through(none, host, port), "{none} {host}:{port}");
        }
    }

    #[test]
    fn what_names_no_proxy_is_told_without_its_password() {
        for value in ["https://me:s3cret@p:1", "http://me:s3cret@p", "me:s3cret@p:1/x"] {
            let why = of(&[("https_proxy", value)], "a.example", 443).unwrap_err();
            assert!(why.starts_with("https_proxy: ") && !why.contains("s3cret"), "{why}");
        }
    }
}
