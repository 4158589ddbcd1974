// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all connections share.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use palisade_event::Event;
use palisade_policy::network::{Judge, NetworkRules};
use palisade_protocol::network::{Held, Resolving, Told};
use tokio::net::TcpStream;

use crate::admission::Admission;
use crate::control::Outbox;
use tokio::sync::Notify;

use crate::decide::Decisions;
use crate::names::{Names, SIZE};
use crate::pipe::Pool;
use crate::resolver::Resolver;
use crate::upstream::Upstream;

/// Timeouts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Until a client's first message is complete, once it has begun.
    pub(crate) head: Duration,
    /// Until a client begins, where the server waits for it.
    pub(crate) silence: Duration,
    /// Until the server gets a client's first bytes that could still become a request.
    pub(crate) undecided: Duration,
    /// For a connection to the outside.
    pub(crate) connect: Duration,
    /// For the user's answer.
    pub(crate) answer: Duration,
    /// For an answer of the DNS.
    pub(crate) resolve: Duration,
    /// Until a refused client gets its refusal, so that the launcher can look up which process has the socket.
    pub(crate) noted: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            undecided: Duration::from_millis(150),
            connect: Duration::from_secs(10),
            // A question may wait for all others, each of which has a minute.
            answer: Duration::from_secs(64 * 60),
            resolve: Duration::from_secs(2),
            noted: Duration::from_millis(300),
        }
    }
}

/// Looks up where a connection was to go before it was redirected.
pub(crate) type Destination = Box<dyn Fn(&TcpStream) -> io::Result<SocketAddr>>;

/// The state that all connections share.
pub(crate) struct Engine {
    pub(crate) judge: Judge<'static>,
    /// For hosts that the user must be asked about: the rules for those that the user has allowed before.
    pub(crate) answered: Judge<'static>,
    pub(crate) decisions: Decisions,
    pub(crate) names: Rc<RefCell<Names>>,
    pub(crate) resolver: Resolver,
    pub(crate) upstream: Upstream,
    /// The host's ports that the command may reach at a loopback address.
    pub(crate) reach: Vec<u16>,
    pub(crate) pool: Pool,
    pub(crate) outbox: Outbox,
    pub(crate) admission: Admission,
    pub(crate) limits: Limits,
    /// Tells connections that the gateway ends.
    pub(crate) over: Notify,
    pub(crate) destination: Destination,
    /// Maps an address outside to the one that is used; unchanged, except in tests, which have no address with port
    /// 443.
    pub(crate) place: Box<dyn Fn(SocketAddr) -> SocketAddr>,
}

impl Engine {
    /// An engine for rules. The rules are leaked, because tasks outlive any borrow, and a process has one engine.
    pub(crate) fn new(
        rules: &NetworkRules,
        answered: &NetworkRules,
        upstream: &Upstream,
        resolving: &Resolving,
        connections: usize,
    ) -> Self {
        let [rules, answered] =
            [rules, answered].map(|rules| -> &'static NetworkRules { Box::leak(Box::new(rules.clone())) });
        let limits = Limits::default();
        Self {
            judge: Judge::new(rules),
            answered: Judge::new(answered),
            decisions: Decisions::default(),
            names: Rc::new(RefCell::new(Names::new(SIZE, None))),
            resolver: Resolver::new(resolving, &upstream.dns, limits.resolve),
            upstream: upstream.clone(),
            reach: Vec::new(),
            pool: Pool::default(),
            outbox: Outbox::default(),
            admission: Admission::new(connections),
            limits,
            over: Notify::new(),
            destination: Box::new(crate::accept::original_destination),
            place: Box::new(|address| address),
        }
    }

    /// Reports what happened.
    pub(crate) fn report(&self, event: Event, held: Option<Held>) {
        self.outbox.tell(Told::Event { event: event.into(), held });
    }
}
