// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all connections share.

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

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A client's first message, once it has begun.
    pub(crate) head: Duration,
    /// Until a client begins where the server waits for it.
    pub(crate) silence: Duration,
    /// What a client has begun to say and could still become a request, before the server hears it.
    pub(crate) undecided: Duration,
    /// A connection to the world outside.
    pub(crate) connect: Duration,
    /// The user's answer.
    pub(crate) answer: Duration,
    /// An answer of the DNS.
    pub(crate) resolve: Duration,
    /// Until who is refused hears of it, for who reads of it to see whose socket it is.
    pub(crate) noted: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            silence: Duration::from_secs(30),
            undecided: Duration::from_millis(150),
            connect: Duration::from_secs(10),
            answer: Duration::from_secs(60),
            resolve: Duration::from_secs(2),
            noted: Duration::from_millis(300),
        }
    }
}

/// Where a connection was to go before it was redirected.
pub(crate) type Destination = Box<dyn Fn(&TcpStream) -> io::Result<SocketAddr>>;

/// What all connections share.
pub(crate) struct Engine {
    pub(crate) judge: Judge<'static>,
    /// Of those whom the rules have the user asked about, the ones that they have allowed before.
    pub(crate) answered: Judge<'static>,
    pub(crate) decisions: Decisions,
    pub(crate) names: Rc<RefCell<Names>>,
    pub(crate) resolver: Resolver,
    pub(crate) upstream: Upstream,
    pub(crate) pool: Pool,
    pub(crate) outbox: Outbox,
    pub(crate) admission: Admission,
    pub(crate) limits: Limits,
    /// Tells connections that it is over.
    pub(crate) over: Notify,
    pub(crate) destination: Destination,
    /// Where an address outside really is; itself, except in tests, which have no address with port 443.
    pub(crate) place: Box<dyn Fn(SocketAddr) -> SocketAddr>,
}

impl Engine {
    /// An engine for rules. They are kept until the process ends: tasks outlive any borrow, and there is one engine a
    /// process.
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
            pool: Pool::default(),
            outbox: Outbox::default(),
            admission: Admission::new(connections),
            limits,
            over: Notify::new(),
            destination: Box::new(crate::accept::original_destination),
            place: Box::new(|address| address),
        }
    }

    /// Tells what happened.
    pub(crate) fn report(&self, event: Event, held: Option<Held>) {
        self.outbox.tell(Told::Event { event: event.into(), held });
    }
}
