// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Carries HTTP/1 without TLS, request by request: each request must be for the name that the connection is to.
//!
//! hyper parses each request and writes it again, with its own framing, so that client and server can't disagree about
//! where one request ends and the next begins.

use std::cell::RefCell;
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder as Client, SendRequest};
use hyper::header::{
    ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE,
    TRANSFER_ENCODING, UPGRADE,
};
use hyper::http::uri::PathAndQuery;
use hyper::server::conn::http1::Builder as Server;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, oneshot};

use crate::carry::Link;
use crate::control;
use crate::decide::Fault;
use crate::engine::Engine;
use crate::host::Host;
use crate::relay::{Pump, relay};
use crate::stream::{Meter, Stream};
use crate::wait::{Either, first};

/// The longest head of a request.
const HEAD: usize = 64 * 1024;

/// A body: the other side's, or a line from the gateway.
pub(crate) enum Payload {
    Theirs(Incoming),
    Own(Option<Bytes>),
}

impl Body for Payload {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Theirs(body) => Pin::new(body).poll_frame(context),
            Self::Own(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Theirs(body) => body.is_end_stream(),
            Self::Own(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Theirs(body) => body.size_hint(),
            Self::Own(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// An answer from the gateway, the last one of its connection.
pub(crate) fn words(status: StatusCode, text: String) -> Response<Payload> {
    let mut response = Response::new(Payload::Own(Some(text.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH"));
    }
    response
}

/// hyper's settings for a client's connection.
pub(crate) fn server(engine: &Engine) -> Server {
    let mut server = Server::new();
    server.timer(TokioTimer::new()).header_read_timeout(engine.limits.head);
    server.half_close(true).max_buf_size(HEAD).preserve_header_case(true);
    server
}

/// A connection to a server, over which one request after another is sent.
pub(crate) struct Origin {
    pub(crate) sender: SendRequest<Incoming>,
    /// Ends when the connection does.
    pub(crate) gone: oneshot::Receiver<()>,
    pub(crate) meter: Arc<Meter>,
}

impl Origin {
    /// Starts HTTP on a connection.
    pub(crate) async fn new(stream: TcpStream, early: Vec<u8>) -> hyper::Result<Self> {
        let meter = Arc::new(Meter::default());
        let stream = TokioIo::new(Stream::metered(stream, early, Arc::clone(&meter)));
        let (sender, connection) =
            Client::new().preserve_header_case(true).max_buf_size(HEAD).handshake(stream).await?;
        let (ended, gone) = oneshot::channel();
        tokio::task::spawn_local(async move {
            let _who_asked_knows = connection.with_upgrades().await;
            let _nobody_waits = ended.send(());
        });
        Ok(Self { sender, gone, meter })
    }
}

/// Both sides of a connection that changes to another protocol.
pub(crate) type Upgrade = Rc<RefCell<Option<(OnUpgrade, OnUpgrade)>>>;

/// Carries a client's requests to a server.
pub(crate) async fn carry(
    engine: Rc<Engine>,
    client: TcpStream,
    early: Vec<u8>,
    upstream: TcpStream,
    link: Box<Link>,
) {
    let Ok(Origin { sender, gone, meter }) = Origin::new(upstream, Vec::new()).await else {
        return link.closed(&engine, 0, 0);
    };
    let asker = control::asker(&client);
    let sender = Rc::new(Mutex::new(sender));
    let upgrade = Upgrade::default();
    let link = Rc::new(link);
    let service = service_fn(|request: Request<Incoming>| {
        let (engine, sender, upgrade, link) =
            (Rc::clone(&engine), Rc::clone(&sender), Rc::clone(&upgrade), Rc::clone(&link));
        async move {
            Ok::<_, Infallible>(match check(&request, &link.host, link.port) {
                Ok(()) => forward(&mut *sender.lock().await, request, &upgrade).await,
                Err((status, why)) => {
                    let fault = Fault::refused(why);
                    engine.fault_at(asker, &link.host, link.port, link.address, &fault).await;
                    words(status, fault.text(&link.host, link.port))
                }
            })
        }
    });
    {
        let stream = TokioIo::new(Stream::new(client, early));
        let mut connection = pin!(server(&engine).serve_connection(stream, service).with_upgrades());
        let carried = async {
            if let Either::Second(_gone) = first(connection.as_mut(), gone).await {
                // The server has closed, as servers do with idle connections. This side closes, too, when it is done.
                if upgrade.borrow().is_none() {
                    connection.as_mut().graceful_shutdown();
                }
                let _either_way_over = connection.await;
            }
        };
        first(carried, engine.over.notified()).await;
    }
    drop(sender);
    let upgrade = upgrade.take();
    if let Some((client, server)) = upgrade {
        upgraded(&engine, client, server, &meter).await;
    }
    link.metered(&engine, &meter);
}

/// Carries the data of two sides that have changed to another protocol.
pub(crate) async fn upgraded(engine: &Engine, client: OnUpgrade, server: OnUpgrade, meter: &Meter) {
    let (Ok(client), Ok(server)) = (client.await, server.await) else { return };
    let (Some((client, up)), Some((server, down))) = (regained(client), regained(server)) else { return };
    let (mut up, mut down) = (Pump::new(up), Pump::new(down));
    let relayed = relay(&client, &server, &mut up, &mut down, &engine.pool);
    let _both_know = first(relayed, engine.over.notified()).await;
    meter.written.fetch_add(up.bytes, std::sync::atomic::Ordering::Relaxed);
    meter.read.fetch_add(down.bytes, std::sync::atomic::Ordering::Relaxed);
}

/// The connection below HTTP, and the bytes that were read from it already.
pub(crate) fn regained(upgraded: Upgraded) -> Option<(TcpStream, Vec<u8>)> {
    let parts = upgraded.downcast::<TokioIo<Stream>>().ok()?;
    let (stream, rest) = parts.io.into_inner().into_parts();
    let mut early = Vec::from(parts.read_buf);
    early.extend(rest);
    Some((stream, early))
}

/// Whether a request is for a host, in all places where the request names a host.
pub(crate) fn check(request: &Request<Incoming>, host: &Host, port: u16) -> Result<(), (StatusCode, String)> {
    let refused = |why: String| Err((StatusCode::FORBIDDEN, why));
    if request.method() == Method::CONNECT {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "CONNECT is for proxies".to_owned()));
    }
    let agrees = |text: &str| match Host::with_port(text) {
        Some((named, at)) => named == *host && at.is_none_or(|at| at == port),
        None => false,
    };
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(named), None) => match named.to_str() {
            Ok(text) if agrees(text) => {}
            Ok(text) => {
                return refused(format!("the connection is to {host}, but a request is for {text:?}"));
            }
            Err(_no_text) => {
                return refused(format!("the connection is to {host}, but a request is for another host"));
            }
        },
        (None, _) => return refused(format!("a request to {host} has no Host header")),
        (Some(_), Some(_)) => return refused("a request has two Host headers".to_owned()),
    }
    match request.uri().authority() {
        Some(authority) if request.uri().scheme_str() != Some("http") || !agrees(authority.as_str()) => {
            refused(format!(
                "the connection is to {host}, but a request is for {:?}",
                request.uri().to_string()
            ))
        }
        _ => Ok(()),
    }
}

/// Sends a checked request, and returns the answer.
pub(crate) async fn forward(
    sender: &mut SendRequest<Incoming>,
    mut request: Request<Incoming>,
    upgrade: &Upgrade,
) -> Response<Payload> {
    let protocol = websocket(request.headers());
    let client = protocol.then(|| hyper::upgrade::on(&mut request));
    let old = request.version() == Version::HTTP_10;
    let path = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    *request.version_mut() = Version::HTTP_11;
    cleanse(request.headers_mut());
    if protocol {
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    let failed = |error: hyper::Error| {
        words(StatusCode::BAD_GATEWAY, format!("palisade: the request to the server failed: {error}\n"))
    };
    if let Err(error) = sender.ready().await {
        return failed(error);
    }
    let mut response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return failed(error),
    };
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let Some(client) = client else {
            return words(
                StatusCode::BAD_GATEWAY,
                "palisade: the server changes the protocol without a request\n".to_owned(),
            );
        };
        *upgrade.borrow_mut() = Some((client, hyper::upgrade::on(&mut response)));
        cleanse(response.headers_mut());
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
        let (parts, _none) = response.into_parts();
        return Response::from_parts(parts, Payload::Own(None));
    }
    cleanse(response.headers_mut());
    if old {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    *response.version_mut() = Version::HTTP_11;
    response.map(Payload::Theirs)
}

/// Whether a request asks for the one allowed upgrade. Other protocols (`h2c`) could name other hosts later.
fn websocket(headers: &HeaderMap) -> bool {
    let mut upgrades = headers.get_all(UPGRADE).iter();
    matches!((upgrades.next(), upgrades.next()),
        (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"websocket"))
        && listed(headers).any(|name| name.eq_ignore_ascii_case("upgrade"))
}

/// The header names in `Connection`.
fn listed(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let values = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

/// Removes the headers that are for the next hop only, which is the gateway (RFC 9110, 7.6.1). hyper sets the framing.
fn cleanse(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = listed(headers).filter_map(|name| name.parse().ok()).collect();
    for name in listed {
        // A request must not have these removed.
        if ![HOST, CONTENT_LENGTH].contains(&name) {
            headers.remove(name);
        }
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in [CONNECTION, UPGRADE, TE, TRANSFER_ENCODING, HeaderName::from_static("keep-alive")] {
        headers.remove(name);
    }
    let proxy: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with("proxy-")).cloned().collect();
    for name in proxy {
        headers.remove(name);
    }
}
