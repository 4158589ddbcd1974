// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connects to the outside: to one of a name's addresses, or through a proxy.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use palisade_event::Outcome;
use palisade_policy::network::{Credentials, Name, NetworkVerdict, Proxy, ProxyHost, ProxyScheme};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::decide::{Fault, Remedy};
use crate::engine::Engine;
use crate::host::Host;
use crate::resolver::Trouble;
use crate::wait::{Attempt, soon, staggered};

/// How long to wait for an address before the next is tried in parallel (RFC 8305, 5).
const APART: Duration = Duration::from_millis(250);
/// How many addresses are tried.
const ADDRESSES: usize = 8;
/// The longest answer of a proxy, in bytes.
const ANSWER: usize = 16 * 1024;

/// A connection to the outside.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) server: TcpStream,
    /// The bytes that were received from there already.
    pub(crate) early: Vec<u8>,
    /// The address that it really goes to; `None`: only the proxy knows it.
    pub(crate) address: Option<IpAddr>,
}

impl Engine {
    /// Connects to a host that the policy has allowed.
    pub(crate) async fn connect(&self, host: &Host, port: u16) -> Result<Way, Fault> {
        let way = async {
            match self.upstream.proxy(host, port) {
                Ok(Some(proxy)) if proxy.resolves() => self.through(proxy, host, port).await,
                Ok(Some(proxy)) => self.through_resolved(proxy, host, port).await,
                Ok(None) => self.directly(host, port).await,
                Err(why) => Err(Fault::refused(why)),
            }
        };
        let failed =
            || Fault::failed(format!("no connection within {} s", self.limits.connect.as_secs_f32()));
        let mut way = Box::pin(way);
        let way = match soon(way.as_mut()).await {
            Some(way) => way?,
            None => tokio::time::timeout(self.limits.connect, way).await.unwrap_or_else(|_| Err(failed()))?,
        };
        // Small messages of interactive programs must not be delayed.
        let _slower = way.server.set_nodelay(true);
        let _unnoticed = rustix::net::sockopt::set_socket_keepalive(&way.server, true);
        Ok(way)
    }

    async fn directly(&self, host: &Host, port: u16) -> Result<Way, Fault> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.allowed(name, port).await?,
        };
        let (server, address) = self.reach(&addresses, port).await?;
        Ok(Way { server, early: Vec::new(), address: Some(address) })
    }

    /// A name's addresses that the policy allows.
    async fn allowed(&self, name: &Name, port: u16) -> Result<Vec<IpAddr>, Fault> {
        let all = self.resolve(name).await?;
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in all.iter().map(IpAddr::to_canonical) {
            let ruling = self.judge.leads_to(address, port);
            if ruling.verdict == NetworkVerdict::Allow {
                allowed.push(address);
            } else {
                let why = match ruling.rule {
                    Some(rule) => format!("{name} leads to {address}: {rule}"),
                    None => {
                        format!("{name} leads to {address}, which isn't an address of the public internet")
                    }
                };
                refused = Some(Fault {
                    outcome: Outcome::Refused,
                    why,
                    rule: ruling.rule.map(|rule| Box::new(rule.clone())),
                    remedy: Remedy::Address(address),
                });
            }
        }
        match refused {
            Some(refused) if allowed.is_empty() => Err(refused),
            _ => Ok(in_turn(&allowed)),
        }
    }

    async fn resolve(&self, name: &Name) -> Result<std::rc::Rc<[IpAddr]>, Fault> {
        match self.resolver.addresses(name).await {
            Ok(addresses) if addresses.is_empty() => Err(Fault::failed(format!("{name} has no address"))),
            Ok(addresses) => Ok(addresses),
            Err(Trouble::NoSuchName) => Err(Fault::failed(format!("the name {name} doesn't exist"))),
            Err(Trouble::Failed(why)) => Err(Fault::failed(format!("{name} couldn't be resolved: {why}"))),
        }
    }

    /// Connects to one of several addresses.
    async fn reach(&self, addresses: &[IpAddr], port: u16) -> Result<(TcpStream, IpAddr), Fault> {
        let attempts =
            addresses.iter().take(ADDRESSES).map(|address| -> Attempt<'_, _, (IpAddr, io::Error)> {
                let place = (self.place)(SocketAddr::new(*address, port));
                Box::pin(async move {
                    match TcpStream::connect(place).await {
                        Ok(stream) => Ok((stream, *address)),
                        Err(error) => Err((*address, error)),
                    }
                })
            });
        staggered(attempts, APART, self.limits.connect).await.map_err(|error| match error {
            Some((address, error)) => Fault::failed(format!("{address}: {error}")),
            None => Fault::failed("no answer"),
        })
    }

    /// Connects through a proxy that gets the first allowed address of a name.
    async fn through_resolved(&self, proxy: &Proxy, host: &Host, port: u16) -> Result<Way, Fault> {
        let address = match host {
            Host::Address(address) => Some(*address),
            Host::Name(name) => self.allowed(name, port).await?.first().copied(),
        };
        let address = address.ok_or_else(|| Fault::failed(format!("{host} has no address")))?;
        let way = self.through(proxy, &Host::Address(address), port).await?;
        Ok(Way { address: Some(address), ..way })
    }

    async fn through(&self, proxy: &Proxy, host: &Host, port: u16) -> Result<Way, Fault> {
        let addresses = match &proxy.host {
            ProxyHost::Address(address) => vec![*address],
            ProxyHost::Name(name) => in_turn(&self.resolve(name).await?),
        };
        let (mut server, _address) = self.reach(&addresses, proxy.port).await?;
        let credentials = proxy.credentials.as_ref();
        let spoken = match proxy.scheme {
            ProxyScheme::Http => http_connect(&mut server, host, port, credentials).await,
            ProxyScheme::Socks5 | ProxyScheme::Socks5h => {
                socks_connect(&mut server, host, port, credentials).await.map(|()| Vec::new())
            }
        };
        match spoken {
            Ok(early) => Ok(Way { server, early, address: None }),
            Err(error) => Err(Fault::failed(format!("the proxy {}: {error}", proxy.host))),
        }
    }
}

/// Addresses of both families alternately, beginning with IPv6 (RFC 8305, 4).
fn in_turn(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
    let mut ordered = Vec::with_capacity(addresses.len());
    let (mut v6, mut v4) = (v6.into_iter(), v4.into_iter());
    loop {
        let before = ordered.len();
        ordered.extend(v6.next());
        ordered.extend(v4.next());
        if ordered.len() == before {
            return ordered;
        }
    }
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Asks an HTTP proxy for a tunnel. Bytes after its answer are the server's.
async fn http_connect(
    stream: &mut TcpStream,
    host: &Host,
    port: u16,
    credentials: Option<&Credentials>,
) -> io::Result<Vec<u8>> {
    let place = match host {
        Host::Address(IpAddr::V6(address)) => format!("[{address}]:{port}"),
        _ => format!("{host}:{port}"),
    };
    let mut request = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    if let Some(Credentials { user, password }) = credentials {
        let word = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
        request.push_str(&format!("Proxy-Authorization: Basic {word}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(end) = answer.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(answer.get(..end).unwrap_or_default()).into_owned();
            let line = head.lines().next().unwrap_or_default();
            let status = line.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
            return match status {
                Some(status) if status.starts_with('2') => Ok(answer.split_off(end + 4)),
                _ => Err(invalid(format!("it answers {line:?}"))),
            };
        }
        if answer.len() > ANSWER {
            return Err(invalid("its answer is too long"));
        }
    }
}

/// Asks a SOCKS proxy for a connection (RFC 1928, RFC 1929).
async fn socks_connect(
    stream: &mut TcpStream,
    host: &Host,
    port: u16,
    credentials: Option<&Credentials>,
) -> io::Result<()> {
    let short = |text: &str| {
        u8::try_from(text.len()).map_err(|_long| invalid("the host or credentials are too long for SOCKS"))
    };
    stream.write_all(if credentials.is_some() { &[5, 2, 0, 2] } else { &[5, 1, 0] }).await?;
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await?;
    match (chosen, credentials) {
        ([5, 0], _) => {}
        ([5, 2], Some(Credentials { user, password })) => {
            let mut message = vec![1, short(user)?];
            message.extend(user.as_bytes());
            message.push(short(password)?);
            message.extend(password.as_bytes());
            stream.write_all(&message).await?;
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).await?;
            if answer != [1, 0] {
                return Err(invalid("it refuses the user name and password"));
            }
        }
        _ => return Err(invalid("it offers no authentication method that palisade can use")),
    }
    let mut request = vec![5, 1, 0];
    match host {
        Host::Name(name) => {
            request.extend([3, short(name.as_str())?]);
            request.extend(name.as_str().as_bytes());
        }
        Host::Address(IpAddr::V4(address)) => {
            request.push(1);
            request.extend(address.octets());
        }
        Host::Address(IpAddr::V6(address)) => {
            request.push(4);
            request.extend(address.octets());
        }
    }
    request.extend(port.to_be_bytes());
    stream.write_all(&request).await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    let [version, code, _reserved, kind] = answer;
    if version != 5 || code != 0 {
        return Err(invalid(format!("it answers with code {code}")));
    }
    let rest = match kind {
        1 => 4,
        4 => 16,
        3 => stream.read_u8().await?.into(),
        _ => return Err(invalid("it answers with an unknown type of address")),
    };
    let mut bound = vec![0; rest + 2];
    stream.read_exact(&mut bound).await?;
    Ok(())
}
