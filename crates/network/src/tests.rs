// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the whole engine on loopback. The test states the destination of connections instead of the kernel. One server
//! has all ports of the outside, and remembers what it receives.

mod attacks;
mod bytes;
mod carried;
mod looked_up;
mod measured;

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use palisade_event::{Detail, Event, Network, Object, Outcome};
use palisade_policy::network::{Fallback, NetworkRule, NetworkRules};
use palisade_policy::{Layer, Origin, Strength};
use palisade_protocol::network::{Resolving, Told};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{LocalSet, spawn_local};

use crate::accept::{listen, redirected};

use crate::engine::Engine;
use crate::names::address_4;

use crate::upstream::Upstream;

/// Longer than any step takes on a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// How the server outside behaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Serve {
    /// Sends back what it receives.
    Echo,
    /// Answers each head of a request.
    Http,
    /// Greets first, then sends back what it receives.
    Greet,
    /// Only receives.
    Silent,
    /// Answers the first request by changing to an echo.
    WebSocket,
}

pub(super) struct World {
    pub(super) engine: Rc<Engine>,
    pub(super) front: SocketAddr,
    pub(super) server: SocketAddr,
    pub(super) heard: Rc<RefCell<Vec<u8>>>,
    destinations: Rc<RefCell<HashMap<u16, SocketAddr>>>,
}

pub(super) fn rules(fallback: Fallback, stated: &[&str]) -> NetworkRules {
    let rule = |text: &&str| {
        let (key, target) = text.split_once(' ').unwrap();
        NetworkRule {
            target: target.parse().unwrap(),
            allow: key == "allow",
            reason: None,
            origin: Origin { layer: Layer::User, file: None, line: 1, column: 1 },
            strength: Strength::Set,
        }
    };
    NetworkRules { rules: stated.iter().map(rule).collect(), fallback }
}

/// Runs a test in one thread, with a timeout.
pub(super) fn run<F: Future<Output = ()>>(test: F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let tasks = LocalSet::new();
    runtime
        .block_on(tasks.run_until(async { tokio::time::timeout(PATIENCE, test).await.expect("it hangs") }));
}

const HOSTS: &str = "127.0.0.1 good.example other.example\n10.0.0.5 private.example\n";

impl World {
    /// `good.example` and `other.example` are allowed, and so is their address.
    pub(super) async fn new(serve: Serve) -> Self {
        let stated =
            ["allow good.example", "allow other.example", "allow private.example", "allow 127.0.0.0/8"];
        Self::with(serve, &rules(Fallback::Deny, &stated), |_engine| {}).await
    }

    pub(super) async fn with(serve: Serve, rules: &NetworkRules, change: impl FnOnce(&mut Engine)) -> Self {
        let outside = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = outside.local_addr().unwrap();
        let heard: Rc<RefCell<Vec<u8>>> = Rc::default();
        let hears = Rc::clone(&heard);
        spawn_local(async move {
            while let Ok((stream, _peer)) = outside.accept().await {
                let hears = Rc::clone(&hears);
                spawn_local(async move {
                    let _ended = answer(stream, serve, &hears).await;
                });
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let front = listener.local_addr().unwrap();
        let destinations: Rc<RefCell<HashMap<u16, SocketAddr>>> = Rc::default();
        let resolving = Resolving { resolv_conf: String::new(), hosts: HOSTS.to_owned() };
        let mut engine = Engine::new(rules, &NetworkRules::default(), &Upstream::default(), &resolving, 5000);
        let known = Rc::clone(&destinations);
        engine.destination = Box::new(move |stream| {
            let peer = stream.peer_addr()?;
            Ok(known.borrow().get(&peer.port()).copied().unwrap_or(front))
        });
        engine.place = Box::new(move |_anywhere| server);
        // No launcher reads the refusals here.
        engine.limits.noted = Duration::ZERO;
        engine.limits.head = Duration::from_secs(2);
        engine.limits.silence = Duration::from_secs(3);
        change(&mut engine);
        let engine = Rc::new(engine);
        spawn_local(listen(Rc::clone(&engine), listener, redirected));
        Self { engine, front, server, heard, destinations }
    }

    /// A connection that goes through the listener to an address.
    pub(super) async fn to(&self, address: IpAddr, port: u16) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap().port();
        self.destinations.borrow_mut().insert(own, SocketAddr::new(address, port));
        let stream = socket.connect(self.front).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// The address that stands for a name.
    pub(super) fn address(&self, name: &str) -> IpAddr {
        let index = self.engine.names.borrow_mut().give(&name.parse().unwrap(), Instant::now());
        address_4(index.unwrap()).into()
    }

    /// A connection to a name.
    pub(super) async fn named(&self, name: &str, port: u16) -> TcpStream {
        self.to(self.address(name), port).await
    }

    /// A connection to the listener itself.
    pub(super) async fn direct(&self) -> TcpStream {
        TcpStream::connect(self.front).await.unwrap()
    }

    /// The next message with an outcome that isn't among `but`.
    pub(super) async fn told(&self, but: &[Outcome]) -> Happened {
        loop {
            match self.engine.outbox.heard().await {
                Told::Event { event, .. } => {
                    let happened = Happened::of(*event);
                    if !but.contains(&happened.detail.outcome) {
                        return happened;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// An event and its fields.
#[derive(Debug)]
pub(super) struct Happened {
    pub(super) host: String,
    /// 0: there is no port.
    pub(super) port: u16,
    pub(super) detail: Network,
    pub(super) event: Event,
}

impl Happened {
    pub(super) fn of(event: Event) -> Self {
        let (host, port) = match &event.object {
            Object::Host { host, port } => (host.clone(), port.unwrap_or(0)),
            object => (object.to_string(), 0),
        };
        let Detail::Network(detail) = event.detail.clone() else { panic!("{event:?}") };
        Self { host, port, detail, event }
    }
}

async fn answer(mut stream: TcpStream, serve: Serve, hears: &RefCell<Vec<u8>>) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut own = Vec::new();
    let mut serve = serve;
    if serve == Serve::Greet {
        stream.write_all(b"hello\r\n").await?;
    }
    loop {
        let count = stream.read(&mut buffer).await?;
        let bytes = &buffer[..count];
        hears.borrow_mut().extend_from_slice(bytes);
        if count == 0 {
            return stream.shutdown().await;
        }
        match serve {
            Serve::Silent => {}
            Serve::Echo | Serve::Greet => stream.write_all(bytes).await?,
            Serve::Http | Serve::WebSocket => {
                own.extend_from_slice(bytes);
                while let Some(end) = own.windows(4).position(|part| part == b"\r\n\r\n") {
                    own.drain(..end + 4);
                    if serve == Serve::WebSocket {
                        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
                        stream.write_all(head.as_bytes()).await?;
                        serve = Serve::Echo;
                        stream.write_all(&own).await?;
                        break;
                    }
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await?;
                }
            }
        }
    }
}

/// Everything that is received until the end, a reset or a timeout.
pub(super) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let _ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut all)).await;
    all
}

/// Exactly this many bytes.
pub(super) async fn exactly(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).await.unwrap();
    bytes
}

/// Sends bytes, at once or byte by byte.
pub(super) async fn say(stream: &mut TcpStream, bytes: &[u8], in_pieces: bool) -> io::Result<()> {
    if !in_pieces {
        return stream.write_all(bytes).await;
    }
    for byte in bytes {
        stream.write_all(&[*byte]).await?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

pub(super) fn contains(all: &[u8], part: &str) -> bool {
    all.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

/// Makes sockets "inside", which is this network namespace.
pub(super) struct Here;

impl crate::Maker for Here {
    fn socket(&mut self, v6: bool) -> io::Result<OwnedFd> {
        use rustix::net::{AddressFamily, SocketType, socket};
        let family = if v6 { AddressFamily::INET6 } else { AddressFamily::INET };
        Ok(socket(family, SocketType::STREAM, None)?)
    }
}
