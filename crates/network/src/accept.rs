// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accepts connections at the sandbox's listeners, and opens the connection outside for each.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};

use crate::carry::{Link, carry};
use crate::connect::Way;
use crate::control;
use crate::decide::Fault;
use crate::engine::Engine;
use crate::host::Host;
use crate::names::{Lease, is_synthetic};
use crate::stream::{Stream, abort};
use crate::wait::{Either, first};
use crate::{dns, front};

/// How long a listener pauses when there are no descriptors or no memory.
const REST: Duration = Duration::from_millis(100);
/// How long a client waits at a limit while no other client gets in either. As long as some clients get in, waiting is
/// a queue; otherwise it could last for ever.
const STUCK: Duration = Duration::from_secs(1);

/// The destination of a connection before the sandbox's own network redirected it; the socket's own address if it
/// wasn't redirected.
pub(crate) fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let local = stream.local_addr()?;
    let original = match local {
        SocketAddr::V4(_) => ip_original_dst(stream).map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(stream).map(SocketAddr::V6),
    };
    // Without connection tracking nothing is redirected.
    Ok(original.unwrap_or(local))
}

/// Calls `handle` for each connection to a listener. Ends when the listener can't be used any more.
pub(crate) async fn listen<H, F>(engine: Rc<Engine>, listener: TcpListener, handle: H)
where
    H: Fn(Rc<Engine>, TcpStream) -> F,
    F: Future<Output = ()> + 'static,
{
    let mut stuck: Option<Instant> = None;
    loop {
        let place = match engine.admission.try_enter() {
            Some(place) => place,
            None => {
                engine.strained("there are too many connections at once");
                match tokio::time::timeout(STUCK, engine.admission.enter()).await {
                    Ok(Some(place)) => place,
                    Ok(None) => return,
                    Err(_elapsed) => {
                        turn_away(&listener).await;
                        continue;
                    }
                }
            }
        };
        match listener.accept().await {
            Ok((stream, _peer)) => {
                stuck = None;
                let handled = handle(Rc::clone(&engine), stream);
                tokio::task::spawn_local(async move {
                    handled.await;
                    drop(place);
                });
            }
            Err(error) => match rustix::io::Errno::from_io_error(&error) {
                Some(
                    rustix::io::Errno::MFILE
                    | rustix::io::Errno::NFILE
                    | rustix::io::Errno::NOBUFS
                    | rustix::io::Errno::NOMEM,
                ) => {
                    engine.strained(&format!("can't accept connections for now: {error}"));
                    if stuck.get_or_insert_with(Instant::now).elapsed() >= STUCK {
                        // Uses the spare descriptor that is kept for this.
                        engine.admission.lend_spare();
                        turn_away(&listener).await;
                        engine.admission.keep_spare();
                    }
                    tokio::time::sleep(REST).await;
                }
                Some(rustix::io::Errno::INVAL | rustix::io::Errno::BADF | rustix::io::Errno::NOTSOCK) => {
                    return;
                }
                // The client is gone already (accept(2) passes on a connection's own errors).
                _ => tokio::task::yield_now().await,
            },
        }
    }
}

/// Resets all connections that wait at a listener now.
async fn turn_away(listener: &TcpListener) {
    while let Either::First(Ok((stream, _peer))) = first(listener.accept(), std::future::ready(())).await {
        abort(&stream);
    }
}

/// Handles a connection that was redirected, or made to the listener itself.
pub(crate) async fn redirected(engine: Rc<Engine>, client: TcpStream) {
    let _slower = client.set_nodelay(true);
    let (Ok(wanted), Ok(own)) = ((engine.destination)(&client), client.local_addr()) else {
        return abort(&client);
    };
    if wanted == own {
        return Box::pin(front::serve(engine, client)).await;
    }
    led(engine, client, wanted).await;
}

/// Handles a connection that was made to `wanted`, which isn't the proxy.
pub(crate) async fn led(engine: Rc<Engine>, client: TcpStream, wanted: SocketAddr) {
    if wanted.port() == 53 {
        let asker = control::asker(&client);
        return Box::pin(dns::serve_stream(&engine, asker, Stream::new(client, Vec::new()))).await;
    }
    // The task keeps only what carrying needs. Opening a connection needs much more memory, so it is boxed.
    let opened = Box::pin(open(&engine, &Host::Address(wanted.ip().to_canonical()), wanted.port())).await;
    match opened {
        Ok((way, link)) => carry(engine, client, Vec::new(), way, link).await,
        Err(Unopened { host, fault }) => {
            Box::pin(engine.fault(control::asker(&client), &host, wanted.port(), &fault)).await;
            abort(&client);
        }
    }
}

/// A connection that couldn't be opened.
pub(crate) struct Unopened {
    /// The host that it was really to.
    pub(crate) host: Host,
    pub(crate) fault: Fault,
}

/// Opens a connection to the host that a client wants, if the policy allows it. A synthetic address means its name.
///
/// A loopback address means the host's own port where the command may reach that port: programs that ignore `NO_PROXY`
/// ask the proxy for it, and others connect to the listener inside.
pub(crate) async fn open(engine: &Engine, wanted: &Host, port: u16) -> Result<(Way, Box<Link>), Unopened> {
    if engine.reach.contains(&port) && wanted.is_loopback() {
        let (server, address) = host_port(port)
            .await
            .map_err(|error| Unopened { host: wanted.clone(), fault: Fault::failed(error.to_string()) })?;
        return Ok(granted(server, address, port));
    }
    let (host, lease) = match wanted {
        Host::Address(address) => match Lease::of(&engine.names, *address) {
            Some((name, lease)) => (Host::Name(name), Some(lease)),
            None if is_synthetic(*address) => {
                let fault = Fault::refused(format!("no looked-up name has the address {address}"));
                return Err(Unopened { host: wanted.clone(), fault });
            }
            None => (wanted.clone(), None),
        },
        Host::Name(_) => (wanted.clone(), None),
    };
    let made = async {
        let rule = engine.permit(&host, port).await?;
        Ok((rule, engine.connect(&host, port).await?))
    };
    match made.await {
        Ok((rule, way)) => {
            let link =
                Link { host, port, address: way.address, rule, lease, began: Instant::now(), named: true };
            Ok((way, Box::new(link)))
        }
        Err(fault) => Err(Unopened { host, fault }),
    }
}

/// Handles a connection that was made inside to a port that leads to the host's own port.
pub(crate) async fn reached(engine: Rc<Engine>, client: TcpStream, port: u16) {
    let connected = host_port(port);
    between(engine, client, Box::pin(connected).await, port).await;
}

/// Connects to the host's own port.
async fn host_port(port: u16) -> io::Result<(TcpStream, IpAddr)> {
    own(port, || Ok((TcpSocket::new_v4()?, TcpSocket::new_v6()?))).await
}

/// A request for a socket of the sandbox's network: whether for IPv6, and where to send it.
pub(crate) type Wish = (bool, oneshot::Sender<io::Result<OwnedFd>>);

/// Handles a connection to a port of the host that leads into the sandbox.
pub(crate) async fn published(
    engine: Rc<Engine>,
    client: TcpStream,
    port: u16,
    maker: mpsc::UnboundedSender<Wish>,
) {
    let connected = async {
        let v4 = made(&maker, false).await?;
        match tcp(v4, (Ipv4Addr::LOCALHOST, port).into()).await {
            Ok(stream) => Ok((stream, Ipv4Addr::LOCALHOST.into())),
            Err(_error) => {
                let stream = tcp(made(&maker, true).await?, (Ipv6Addr::LOCALHOST, port).into()).await?;
                Ok((stream, Ipv6Addr::LOCALHOST.into()))
            }
        }
    };
    between(engine, client, Box::pin(connected).await, port).await;
}

async fn made(maker: &mpsc::UnboundedSender<Wish>, v6: bool) -> io::Result<TcpSocket> {
    let (sender, socket) = oneshot::channel();
    maker.send((v6, sender)).map_err(io::Error::other)?;
    let socket = socket.await.map_err(io::Error::other)??;
    rustix::io::ioctl_fionbio(&socket, true)?;
    Ok(TcpSocket::from_std_stream(std::net::TcpStream::from(socket)))
}

async fn tcp(socket: TcpSocket, to: SocketAddr) -> io::Result<TcpStream> {
    socket.connect(to).await
}

/// Connects to a port of this machine.
async fn own(
    port: u16,
    sockets: impl FnOnce() -> io::Result<(TcpSocket, TcpSocket)>,
) -> io::Result<(TcpStream, IpAddr)> {
    let (v4, v6) = sockets()?;
    match tcp(v4, (Ipv4Addr::LOCALHOST, port).into()).await {
        Ok(stream) => Ok((stream, Ipv4Addr::LOCALHOST.into())),
        Err(_error) => Ok((tcp(v6, (Ipv6Addr::LOCALHOST, port).into()).await?, Ipv6Addr::LOCALHOST.into())),
    }
}

/// A connection between loopback ports that an option grants: no rule is about it, and its data need not name a host.
fn granted(server: TcpStream, address: IpAddr, port: u16) -> (Way, Box<Link>) {
    let _slower = server.set_nodelay(true);
    let link = Link {
        host: Host::Address(Ipv4Addr::LOCALHOST.into()),
        port,
        address: Some(address),
        rule: None,
        lease: None,
        began: Instant::now(),
        named: false,
    };
    (Way { server, early: Vec::new(), address: Some(address) }, Box::new(link))
}

async fn between(engine: Rc<Engine>, client: TcpStream, server: io::Result<(TcpStream, IpAddr)>, port: u16) {
    match server {
        Ok((server, address)) => {
            let _slower = client.set_nodelay(true);
            let (way, link) = granted(server, address, port);
            carry(engine, client, Vec::new(), way, link).await;
        }
        Err(error) => {
            let host = Host::Address(Ipv4Addr::LOCALHOST.into());
            engine.fault(None, &host, port, &Fault::failed(error.to_string())).await;
            abort(&client);
        }
    }
}
