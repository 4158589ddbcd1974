// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The DNS server for the sandbox.
//!
//! A refused name gets NXDOMAIN. On SERVFAIL and REFUSED the C libraries, c-ares, Go and Java ask the next server and
//! try again, for seconds; they accept that a name doesn't exist. The record types HTTPS and SVCB get an empty answer,
//! because they carry the keys by which a TLS client hides the name that it connects to. TXT, MX, SRV and the others
//! get one, too, because connections don't need them and they can carry data out and in.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use palisade_event::{Network, Object, Outcome, Why};
use palisade_policy::network::{Name, NetworkVerdict};
use palisade_protocol::network::Asker;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::datagram::Datagrams;
use crate::decide::{Fault, refusal};
use crate::engine::Engine;
use crate::host::Host;
use crate::message::{self, Asked, Query, Reply};
use crate::names::{TTL, address_4, address_6};
use crate::report;
use crate::resolver::{Trouble, is_localhost};
use crate::stream::Stream;

/// The longest accepted question. One name and an OPT record fit into 300 bytes.
const LONGEST: usize = 4096;

/// Serves a UDP socket.
pub(crate) async fn serve(engine: Rc<Engine>, socket: Datagrams) {
    let socket = Rc::new(socket);
    loop {
        match socket.receive(LONGEST).await {
            Ok(received) => {
                // Beyond the limit there is no answer: the client asks again.
                let Some(place) = engine.admission.try_ask() else {
                    engine.strained("there are too many DNS queries at once");
                    continue;
                };
                let (engine, socket) = (Rc::clone(&engine), Rc::clone(&socket));
                tokio::task::spawn_local(async move {
                    let asker = Asker { address: received.from, datagrams: true };
                    if let Some(answer) = engine.answer(Some(asker), &received.bytes).await {
                        let _asks_again = socket.send(&answer, received.from, received.to);
                    }
                    drop(place);
                });
            }
            // An ICMP error of an earlier answer, or no memory. Wait, so that the loop doesn't spin.
            Err(_error) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Serves a connection on which each question has its length in front.
pub(crate) async fn serve_stream(engine: &Engine, asker: Option<Asker>, mut stream: Stream) {
    loop {
        let question = async {
            let length = stream.read_u16().await.ok()?;
            if usize::from(length) > LONGEST {
                return None;
            }
            let mut question = vec![0; length.into()];
            stream.read_exact(&mut question).await.ok()?;
            Some(question)
        };
        let Ok(Some(question)) = tokio::time::timeout(engine.limits.silence, question).await else { return };
        let Some(answer) = engine.answer(asker, &question).await else { return };
        let Ok(length) = u16::try_from(answer.len()) else { return };
        let framed = [&length.to_be_bytes()[..], &answer].concat();
        let written = tokio::time::timeout(engine.limits.head, stream.write_all(&framed)).await;
        if !matches!(written, Ok(Ok(()))) {
            return;
        }
    }
}

impl Engine {
    /// Reports that a limit is reached.
    pub(crate) fn strained(&self, why: &str) {
        if self.admission.says() {
            let network = Network::new(Outcome::Strained);
            self.report(report::event(network, Object::words("the network"), Why::text(why)), None);
        }
    }

    /// The answer to a message. `None`: it gets no answer.
    pub(crate) async fn answer(&self, asker: Option<Asker>, query: &[u8]) -> Option<Vec<u8>> {
        let asked = match message::read(query) {
            Query::Drop => return None,
            Query::Error(answer) => return Some(answer),
            Query::Asked(asked) => asked,
        };
        match asked {
            Asked::Nonsense => message::answer(query, Reply::NoSuchName, TTL),
            Asked::Reverse(address) => {
                let name = self.reverse(address);
                message::answer(query, name.as_ref().map_or(Reply::NoSuchName, Reply::Name), TTL)
            }
            Asked::Address(name, v6) => message::answer(query, self.address_of(asker, &name, v6).await, TTL),
            Asked::Other(name) => {
                let reply = if is_localhost(&name) || self.may_look_up(asker, &name).await.is_some() {
                    Reply::Empty
                } else {
                    Reply::NoSuchName
                };
                message::answer(query, reply, TTL)
            }
        }
    }

    fn reverse(&self, address: IpAddr) -> Option<Name> {
        if address.is_loopback() {
            return "localhost".parse().ok();
        }
        self.names.borrow().name_of(address).cloned()
    }

    /// Whether a name may be looked up, and whether the user will be asked when a client connects to it. `None`: it may
    /// not, and the refusal was reported.
    async fn may_look_up(&self, asker: Option<Asker>, name: &Name) -> Option<NetworkVerdict> {
        let ruling = self.judge.lookup(name);
        match ruling.verdict {
            NetworkVerdict::Deny => {}
            NetworkVerdict::Ask => {
                let answered = self.answered.lookup(name).verdict == NetworkVerdict::Allow;
                return Some(if answered { NetworkVerdict::Allow } else { NetworkVerdict::Ask });
            }
            NetworkVerdict::Allow => return Some(NetworkVerdict::Allow),
        }
        let host = Host::Name(name.clone());
        self.fault(asker, &host, 0, &refusal(&ruling, &host)).await;
        None
    }

    async fn address_of(&self, asker: Option<Asker>, name: &Name, v6: bool) -> Reply<'static> {
        if is_localhost(name) {
            return if v6 {
                Reply::V6(std::net::Ipv6Addr::LOCALHOST)
            } else {
                Reply::V4(std::net::Ipv4Addr::LOCALHOST)
            };
        }
        match self.may_look_up(asker, name).await {
            None => return Reply::NoSuchName,
            // A proxy that resolves names does so itself. And until the user has allowed the host, nothing is sent
            // outside, not even a question with the name.
            Some(_) if self.upstream.resolves(name) => {}
            Some(NetworkVerdict::Ask) => {}
            Some(_) => match self.resolver.addresses(name).await {
                Ok(addresses) if addresses.iter().any(|address| address.is_ipv6() == v6) => {}
                Ok(_) => return Reply::Empty,
                Err(Trouble::NoSuchName) => return Reply::NoSuchName,
                Err(Trouble::Failed(why)) => {
                    self.fault(None, &Host::Name(name.clone()), 0, &Fault::failed(why)).await;
                    return Reply::Failure;
                }
            },
        }
        match self.names.borrow_mut().give(name, Instant::now()) {
            Some(index) if v6 => Reply::V6(address_6(index)),
            Some(index) => Reply::V4(address_4(index)),
            None => {
                self.strained("all synthetic addresses for names are in use");
                Reply::Failure
            }
        }
    }
}
