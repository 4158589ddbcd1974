// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries a connection between a client and a server, once the client's first bytes prove that it means this server.

use std::future::Future as _;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Instant;

use palisade_event::{Event, Network, Object, Outcome, Why};
use palisade_policy::network::{Name, NetworkRule};
use tokio::net::TcpStream;
use tokio::time::{Instant as Time, sleep_until};

use crate::connect::Way;
use crate::control::asker;
use crate::decide::Fault;
use crate::engine::Engine;
use crate::hello::LONGEST;
use crate::host::Host;
use crate::http;
use crate::names::Lease;
use crate::opening::{self, Opening};
use crate::relay::{Pump, relay};
use crate::report;
use crate::stream::{Meter, abort};
use crate::wait::first;

/// What is known of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// The host that the client wants.
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// The address that the connection really goes to.
    pub(crate) address: Option<IpAddr>,
    /// The rule that allows it.
    pub(crate) rule: Option<Box<NetworkRule>>,
    /// Holds the synthetic address while the connection lasts.
    #[expect(dead_code, reason = "it is held, not read")]
    pub(crate) lease: Option<Lease>,
    pub(crate) began: Instant,
    /// Whether the client's data must name the host, if it has a name.
    pub(crate) named: bool,
}

impl Link {
    fn event(&self, network: Network, text: String) -> Event {
        let why = Why { origin: self.rule.as_ref().map(|rule| rule.origin.clone()), text };
        let network = Network { address: self.address, ..network };
        report::event(network, Object::host(self.host.to_string(), self.port), why)
    }

    /// Reports that the connection can't go on.
    async fn fault(&self, engine: &Engine, client: &TcpStream, fault: &Fault) {
        engine.fault_at(asker(client), &self.host, self.port, self.address, fault).await;
    }

    /// Reports that the connection is open.
    pub(crate) fn opened(&self, engine: &Engine) {
        let text = self.rule.as_ref().map(ToString::to_string).unwrap_or_default();
        engine.report(self.event(Network::new(Outcome::Opened), text), None);
    }

    /// Reports that the connection has ended.
    pub(crate) fn closed(&self, engine: &Engine, sent: u64, received: u64) {
        let duration = self.began.elapsed();
        let network = Network { sent, received, duration, ..Network::new(Outcome::Closed) };
        let address = self.address.map(|address| format!("{address}, ")).unwrap_or_default();
        let seconds = duration.as_secs_f64();
        let text = format!("{address}{sent} bytes out, {received} in, {seconds:.3} s");
        engine.report(self.event(network, text), None);
    }

    /// The same for a connection whose bytes were counted on the server's side.
    pub(crate) fn metered(&self, engine: &Engine, meter: &Meter) {
        self.closed(engine, meter.written.load(Ordering::Relaxed), meter.read.load(Ordering::Relaxed));
    }
}

/// Carries a connection until it ends. `early` was read from the client already.
pub(crate) async fn carry(
    engine: Rc<Engine>,
    client: TcpStream,
    early: Vec<u8>,
    way: Way,
    mut link: Box<Link>,
) {
    link.opened(&engine);
    let mut server = way.server;
    let mut down = Pump::new(way.early);
    let mut up = match &link.host {
        Host::Name(name) if link.named => {
            let inspected = inspect(&engine, name, link.port, &client, &server, early, &mut down);
            match Box::pin(inspected).await {
                Ok(Inspected::Pass(pump)) => pump,
                Ok(Inspected::Http { heard, said }) => {
                    if said > 0 {
                        match Box::pin(anew(&engine, &mut link)).await {
                            // The previous server connection has received a part of the request, and is closed.
                            Ok(other) => abort(&std::mem::replace(&mut server, other)),
                            Err(fault) => {
                                Box::pin(link.fault(&engine, &client, &fault)).await;
                                abort(&client);
                                return link.closed(&engine, 0, 0);
                            }
                        }
                    }
                    return Box::pin(http::carry(engine, client, heard, server, link)).await;
                }
                Err(stop) => {
                    if let Stop::Refused(why) = stop {
                        Box::pin(link.fault(&engine, &client, &Fault::refused(why))).await;
                    }
                    abort(&client);
                    abort(&server);
                    return link.closed(&engine, 0, down.bytes);
                }
            }
        }
        _ => Pump::new(early),
    };
    let relayed = relay(&client, &server, &mut up, &mut down, &engine.pool);
    let _both_know = first(relayed, engine.over.notified()).await;
    link.closed(&engine, up.bytes, down.bytes);
}

/// Another connection to the same server, because the first one received bytes that must be sent differently.
async fn anew(engine: &Engine, link: &mut Link) -> Result<TcpStream, Fault> {
    let way = engine.connect(&link.host, link.port).await?;
    if !way.early.is_empty() {
        return Err(Fault::refused(BEGUN));
    }
    link.address = way.address;
    Ok(way.server)
}

enum Inspected {
    /// The client's data goes to the server unchanged.
    Pass(Pump),
    /// It is HTTP/1. `heard` was read from the client, and the first `said` bytes of it were sent to the server.
    Http { heard: Vec<u8>, said: usize },
}

const BEGUN: &str = "the client sends HTTP after the server has sent data";

enum Stop {
    Refused(String),
    /// One side is gone, or nothing came in time.
    Over,
}

impl From<io::Error> for Stop {
    fn from(_error: io::Error) -> Self {
        Self::Over
    }
}

/// Reads the client's first bytes without sending them on, until the protocol is known. Meanwhile the server's data is
/// passed on, because in many protocols the server sends first.
///
/// A client that sends a part of a possible request, and then waits, would block. So after [`Limits::undecided`] the
/// part is sent to the server. Later bytes are still judged together with it before they are sent. So a server never
/// gets a whole request here that it would not also have got in one piece.
///
/// [`Limits::undecided`]: crate::engine::Limits::undecided
async fn inspect(
    engine: &Engine,
    name: &Name,
    port: u16,
    client: &TcpStream,
    server: &TcpStream,
    mut heard: Vec<u8>,
    down: &mut Pump,
) -> Result<Inspected, Stop> {
    // On these two ports the client sends first, and with a known protocol.
    let client_first = matches!(port, 80 | 443);
    let mut begun = Time::now();
    let mut deadline = (!heard.is_empty()).then(|| begun + engine.limits.head);
    if client_first && deadline.is_none() {
        deadline = Some(Time::now() + engine.limits.silence);
    }
    let mut wanted = 1;
    // How many of these bytes were sent to the server, and whether it may get all of them though nothing is decided.
    let (mut said, mut loose) = (0, false);
    loop {
        if heard.len() >= wanted {
            match opening::judge(&heard, name, port) {
                Opening::More(more) => wanted = more,
                Opening::Pass => return Ok(Inspected::Pass(Pump::resumed(heard, said))),
                Opening::Http if down.bytes > 0 => return Err(Stop::Refused(BEGUN.to_owned())),
                Opening::Http => return Ok(Inspected::Http { heard, said }),
                Opening::Refused(why) => return Err(Stop::Refused(why)),
            }
        }
        // A client that has begun a handshake continues without the server.
        let may_loosen = !client_first && heard.first().is_some_and(|first| *first != opening::HANDSHAKE);
        let until = match (may_loosen, loose) {
            (true, true) => None,
            (true, false) => Some(begun + engine.limits.undecided),
            (false, _) => deadline,
        };
        let mut timer = None;
        let come = std::future::poll_fn(|context| {
            if !client_first && let Poll::Ready(Err(error)) = down.poll(context, server, client, &engine.pool)
            {
                return Poll::Ready(Err(error));
            }
            while loose && said < heard.len() {
                std::task::ready!(server.poll_write_ready(context))?;
                match server.try_write(heard.get(said..).unwrap_or_default()) {
                    Ok(written) => said += written,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            if let Poll::Ready(result) = client.poll_read_ready(context) {
                return Poll::Ready(result.map(|()| true));
            }
            // A timer is needed only if there is nothing to read.
            let Some(until) = until else { return Poll::Pending };
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
            timer.as_mut().poll(context).map(|()| Ok(false))
        });
        if !come.await? {
            if may_loosen {
                loose = true;
                continue;
            }
            let why = if heard.is_empty() {
                return Err(Stop::Over);
            } else {
                "the client's first message took too long"
            };
            return Err(Stop::Refused(why.to_owned()));
        }
        let before = heard.len();
        if before > LONGEST {
            return Err(Stop::Refused("the client's first message is too long".to_owned()));
        }
        heard.reserve(if before == 0 { 2048 } else { 1 });
        match client.try_read_buf(&mut heard) {
            Ok(0) if before == 0 || !client_first => {
                // The client sends nothing more, and what it sent doesn't begin a protocol that carries a name.
                let unfinished_tls = heard.first() == Some(&opening::HANDSHAKE);
                if unfinished_tls {
                    return Err(Stop::Refused("the client's TLS handshake is incomplete".to_owned()));
                }
                let mut pump = Pump::resumed(heard, said);
                pump.end();
                return Ok(Inspected::Pass(pump));
            }
            Ok(0) => return Err(Stop::Refused("the client's first message is incomplete".to_owned())),
            Ok(_) if before == 0 => {
                begun = Time::now();
                deadline = Some(begun + engine.limits.head);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}
