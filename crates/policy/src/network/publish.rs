// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses published ports: ports inside that are reachable through the host.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::statement::{NetworkError, port};

/// A port inside that the host publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Publish {
    /// The host's address.
    pub address: IpAddr,
    /// The host's port.
    pub host_port: u16,
    /// The port inside.
    pub port: u16,
}

/// Only programs of this host can reach this address.
const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl FromStr for Publish {
    type Err = NetworkError;

    /// `[ADDRESS:][HOSTPORT:]PORT`: `8080`, `8080:80`, `0.0.0.0:8080:80`, `[::1]:8080`.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError::Publish { text: text.to_owned() };
        let (address, ports) = match text.strip_prefix('[').and_then(|rest| rest.split_once("]:")) {
            Some((inside, ports)) => (IpAddr::V6(inside.parse().map_err(|_no_address| wrong())?), ports),
            None => match text.split_once(':') {
                Some((address, ports)) if address.contains('.') => {
                    (IpAddr::V4(address.parse().map_err(|_no_address| wrong())?), ports)
                }
                _ => (LOOPBACK, text),
            },
        };
        let (host_port, port_inside) = ports.split_once(':').unwrap_or((ports, ports));
        Ok(Self {
            address,
            host_port: port(host_port).ok_or_else(wrong)?,
            port: port(port_inside).ok_or_else(wrong)?,
        })
    }
}

/// In the form that is parsed, without default parts.
impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            LOOPBACK => {}
            IpAddr::V4(address) => write!(f, "{address}:")?,
            IpAddr::V6(address) => write!(f, "[{address}]:")?,
        }
        if self.host_port != self.port {
            write!(f, "{}:", self.host_port)?;
        }
        write!(f, "{}", self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_printed_as_it_is_read() {
        for (text, printed) in [
            ("8080", "8080"),
            ("8080:80", "8080:80"),
            ("127.0.0.1:8080:80", "8080:80"),
            ("127.0.0.1:80", "80"),
            ("0.0.0.0:8080:80", "0.0.0.0:8080:80"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[::1]:8080:80", "[::1]:8080:80"),
            ("[::]:80", "[::]:80"),
        ] {
            let publish: Publish = text.parse().unwrap();
            assert_eq!(publish.to_string(), printed);
            assert_eq!(printed.parse::<Publish>().unwrap(), publish);
        }
        let wide: Publish = "0.0.0.0:8080:80".parse().unwrap();
        assert_eq!((wide.address.to_string(), wide.host_port, wide.port), ("0.0.0.0".into(), 8080, 80));
    }

    #[test]
    fn what_names_no_port_is_refused() {
        for wrong in [
            "",
            "0",
            ":80",
            "80:",
            "80:0",
            "65536",
            "+80",
            "1:2:3",
            "localhost:80:80",
            "::1:80",
            "[::1]80",
            "[::1",
            "1.2.3:80",
            "a.b:80",
            "1.2.3.4",
            "8080:80:tcp",
            "80/tcp",
            "80-81",
        ] {
            let error = wrong.parse::<Publish>().unwrap_err();
            assert!(error.to_string().contains("[ADDRESS:][HOSTPORT:]PORT"), "{wrong}: {error}");
        }
    }
}
