// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolves names by the host's files, or else by its DNS servers.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use palisade_policy::network::Name;
use palisade_protocol::network::Resolving;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::OnceCell;

use crate::message::{self, Answered};
use crate::resolving::Sources;
use crate::wait::{Attempt, both, staggered};

/// How many names are remembered.
const REMEMBERED: usize = 8192;
/// How long an address is valid at most: the TTL of answers inside.
const LONGEST: Duration = Duration::from_secs(60);
/// How long an address is valid at least, so that two questions of one program cause one question to the server.
const SHORTEST: Duration = Duration::from_secs(2);
/// How long a missing name is valid.
const NEGATIVE: Duration = Duration::from_secs(5);
/// How long a failure is valid: the C library asks again at once, several times.
const FAILED: Duration = Duration::from_secs(2);
/// The longest UDP answer: more than is requested.
const DATAGRAM: usize = 4096;

/// Why a name has no addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// The name doesn't exist.
    NoSuchName,
    /// The look-up failed.
    Failed(String),
}

/// A name's addresses, in the servers' order.
pub(crate) type Addresses = Result<Rc<[IpAddr]>, Trouble>;

/// A result that is known or being looked up, and until when it is valid.
type Entry = Rc<OnceCell<(Addresses, Instant)>>;

/// Resolves names.
#[derive(Debug)]
pub(crate) struct Resolver {
    own: Vec<SocketAddr>,
    sources: RefCell<Rc<Sources>>,
    known: RefCell<HashMap<Name, Entry>>,
    within: Duration,
}

impl Resolver {
    /// Asks `servers`, or the host's servers if there are none. A look-up fails after `within`.
    pub(crate) fn new(resolving: &Resolving, servers: &[SocketAddr], within: Duration) -> Self {
        Self {
            own: servers.to_vec(),
            sources: RefCell::new(Rc::new(Sources::read(resolving, servers))),
            known: RefCell::default(),
            within,
        }
    }

    /// Reads the host's changed files.
    pub(crate) fn renew(&self, resolving: &Resolving) {
        *self.sources.borrow_mut() = Rc::new(Sources::read(resolving, &self.own));
        self.known.borrow_mut().clear();
    }

    /// A name's addresses.
    pub(crate) async fn addresses(&self, name: &Name) -> Addresses {
        if is_localhost(name) {
            return Ok([Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into());
        }
        let sources = Rc::clone(&self.sources.borrow());
        if let Some(addresses) = sources.hosts.get(name) {
            return Ok(addresses.as_slice().into());
        }
        let entry = self.entry(name);
        let resolve = || async {
            let (addresses, holds) = resolve(&sources, name, self.within).await;
            (addresses, Instant::now() + holds)
        };
        entry.get_or_init(resolve).await.0.clone()
    }

    /// The valid entry of a name, or a new one.
    fn entry(&self, name: &Name) -> Entry {
        let now = Instant::now();
        let holds = |entry: &Entry| entry.get().is_none_or(|(_addresses, until)| now < *until);
        let mut known = self.known.borrow_mut();
        if let Some(entry) = known.get(name).filter(|entry| holds(entry)) {
            return Rc::clone(entry);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_name, entry| holds(entry));
            if known.len() >= REMEMBERED {
                known.clear();
            }
        }
        let entry = Entry::default();
        known.insert(name.clone(), Rc::clone(&entry));
        entry
    }
}

/// Whether a name means this machine (RFC 6761, 6.3).
pub(crate) fn is_localhost(name: &Name) -> bool {
    name.as_str() == "localhost" || name.as_str().ends_with(".localhost")
}

/// Asks for both kinds of addresses. Also returns how long the answer is valid.
async fn resolve(sources: &Sources, name: &Name, within: Duration) -> (Addresses, Duration) {
    let (v6, v4) = both(ask(sources, name, true, within), ask(sources, name, false, within)).await;
    match (v4, v6) {
        (Answered::Addresses(mut addresses, lives), Answered::Addresses(other, others)) => {
            let lives = match (addresses.is_empty(), other.is_empty()) {
                (true, true) => return (Ok(Rc::from([])), NEGATIVE),
                (true, false) => others,
                (false, true) => lives,
                (false, false) => lives.min(others),
            };
            addresses.extend(other);
            (Ok(addresses.into()), lives.clamp(SHORTEST, LONGEST))
        }
        // One kind alone is enough to go on with, but not for long.
        (Answered::Addresses(addresses, _), _) | (_, Answered::Addresses(addresses, _))
            if !addresses.is_empty() =>
        {
            (Ok(addresses.into()), SHORTEST)
        }
        (Answered::NoSuchName, _) | (_, Answered::NoSuchName) => (Err(Trouble::NoSuchName), NEGATIVE),
        (Answered::Failure(why), _) | (_, Answered::Failure(why)) => (Err(Trouble::Failed(why)), FAILED),
        _ => (Err(Trouble::Failed("no answer".to_owned())), FAILED),
    }
}

/// Asks the servers in turn, repeatedly, for one kind of addresses.
async fn ask(sources: &Sources, name: &Name, v6: bool, within: Duration) -> Answered {
    let servers = sources.servers.iter().cycle().take(sources.servers.len() * sources.attempts);
    let attempts = servers.map(|server| -> Attempt<'_, Answered, String> {
        Box::pin(async move {
            match ask_one(*server, name, v6).await {
                Ok(Answered::Failure(why)) => Err(format!("{server} answers {why}")),
                Ok(answered) => Ok(answered),
                Err(error) => Err(format!("{server}: {error}")),
            }
        })
    });
    // Each server gets its share of the time before the next is asked, and may still answer after that.
    let share = u32::try_from(sources.servers.len() * sources.attempts).unwrap_or(u32::MAX);
    match staggered(attempts, within / share, within).await {
        Ok(answered) => answered,
        Err(Some(why)) => Answered::Failure(why),
        Err(None) => Answered::Failure(format!("no answer within {} s", within.as_secs_f32())),
    }
}

async fn ask_one(server: SocketAddr, name: &Name, v6: bool) -> io::Result<Answered> {
    let mut id = [0; 2];
    rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty())?;
    let id = u16::from_ne_bytes(id);
    let question = message::question(id, name, v6);
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Each question has its own socket: the kernel chooses a port that can't be guessed, and passes only packets from
    // the server.
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut buffer = vec![0; DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match message::answered(buffer.get(..length).unwrap_or_default(), id, name, v6) {
            Answered::Unrelated => {}
            Answered::Truncated => break,
            answered => return Ok(answered),
        }
    }
    drop(buffer);
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes()[..], &question].concat()).await?;
    let length = stream.read_u16().await?;
    let mut buffer = vec![0; length.into()];
    stream.read_exact(&mut buffer).await?;
    match message::answered(&buffer, id, name, v6) {
        Answered::Unrelated | Answered::Truncated => Err(io::ErrorKind::InvalidData.into()),
        answered => Ok(answered),
    }
}
