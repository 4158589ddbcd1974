// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The listener as an explicit proxy, for programs that are configured to use one: HTTP's `CONNECT` and absolute
//! requests, and SOCKS.

use std::cell::RefCell;
use std::convert::Infallible;
use std::rc::Rc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use palisade_event::Outcome;
use palisade_protocol::network::Asker;
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::accept::{Unopened, open};
use crate::carry::{Link, carry};
use crate::connect::Way;
use crate::control;
use crate::engine::Engine;
use crate::host::Host;
use crate::http::{Origin, Payload, Upgrade, check, forward, regained, server, upgraded, words};
use crate::socks;
use crate::stream::Stream;

/// Handles a connection that was made to the listener itself.
pub(crate) async fn serve(engine: Rc<Engine>, client: TcpStream) {
    if !matches!(timeout(engine.limits.silence, client.readable()).await, Ok(Ok(()))) {
        return;
    }
    let mut begin = [0];
    match timeout(engine.limits.silence, client.peek(&mut begin)).await {
        Ok(Ok(1)) if begin == [5] => Box::pin(speak_socks(engine, client)).await,
        Ok(Ok(1)) => Box::pin(speak_http(engine, client)).await,
        _ => {}
    }
}

async fn speak_socks(engine: Rc<Engine>, client: TcpStream) {
    let asker = control::asker(&client);
    let mut stream = Stream::new(client, Vec::new());
    let Ok(Ok(Some((wanted, port)))) = timeout(engine.limits.head, socks::request(&mut stream)).await else {
        return;
    };
    let code = match open(&engine, &wanted, port).await {
        Ok((way, link)) => {
            if socks::answer(&mut stream, socks::Code::Success).await.is_err() {
                return;
            }
            let (client, early) = stream.into_parts();
            return carry(engine, client, early, way, link).await;
        }
        Err(Unopened { host, fault }) => {
            engine.fault(asker, &host, port, &fault).await;
            socks::Code::from(&fault)
        }
    };
    let _anyway = timeout(engine.limits.head, socks::answer(&mut stream, code)).await;
}

/// The server of a client's last absolute request, kept for the next one.
struct Last {
    wanted: Host,
    port: u16,
    link: Box<Link>,
    origin: Origin,
}

/// The state of a client's requests.
#[derive(Default)]
struct Front {
    /// The address that identifies the client.
    asker: Option<Asker>,
    /// A tunnel that starts when the answer is written.
    tunnel: RefCell<Option<(OnUpgrade, Way, Box<Link>)>>,
    last: Mutex<Option<Last>>,
    upgrade: Upgrade,
}

async fn speak_http(engine: Rc<Engine>, client: TcpStream) {
    let front = Rc::new(Front { asker: control::asker(&client), ..Front::default() });
    let service = service_fn(|request: Request<Incoming>| {
        let (engine, front) = (Rc::clone(&engine), Rc::clone(&front));
        async move {
            Ok::<_, Infallible>(match *request.method() {
                Method::CONNECT => front.connect(&engine, request).await,
                _ => front.absolute(&engine, request).await,
            })
        }
    });
    let stream = TokioIo::new(Stream::new(client, Vec::new()));
    let _either_way_over = server(&engine).serve_connection(stream, service).with_upgrades().await;
    let tunnel = front.tunnel.take();
    if let Some((client, way, link)) = tunnel {
        if let Ok(client) = client.await
            && let Some((client, early)) = regained(client)
        {
            carry(Rc::clone(&engine), client, early, way, link).await;
        }
        return;
    }
    let upgrade = front.upgrade.take();
    let last = front.last.lock().await.take();
    if let Some(last) = last {
        if let Some((client, server)) = upgrade {
            upgraded(&engine, client, server, &last.origin.meter).await;
        }
        last.link.metered(&engine, &last.origin.meter);
    }
}

/// The answer to a client whose connection couldn't be opened. Also reports it.
async fn unopened(
    engine: &Engine,
    asker: Option<Asker>,
    Unopened { host, fault }: Unopened,
    port: u16,
) -> Response<Payload> {
    engine.fault(asker, &host, port, &fault).await;
    let status =
        if fault.outcome == Outcome::Refused { StatusCode::FORBIDDEN } else { StatusCode::BAD_GATEWAY };
    words(status, fault.text(&host, port))
}

fn unclear(why: &str) -> Response<Payload> {
    words(StatusCode::BAD_REQUEST, format!("palisade: {why}\n"))
}

impl Front {
    async fn connect(&self, engine: &Rc<Engine>, mut request: Request<Incoming>) -> Response<Payload> {
        let place = request.uri().authority().and_then(|authority| Host::with_port(authority.as_str()));
        let Some((wanted, Some(port))) = place else {
            return unclear("CONNECT takes a host and a port");
        };
        match Box::pin(open(engine, &wanted, port)).await {
            Ok((way, link)) => {
                let client = hyper::upgrade::on(&mut request);
                *self.tunnel.borrow_mut() = Some((client, way, link));
                Response::new(Payload::Own(None))
            }
            Err(error) => unopened(engine, self.asker, error, port).await,
        }
    }

    async fn absolute(&self, engine: &Rc<Engine>, request: Request<Incoming>) -> Response<Payload> {
        let Some(authority) =
            request.uri().authority().filter(|_| request.uri().scheme_str() == Some("http"))
        else {
            return unclear("this is a proxy: it takes CONNECT, and requests for http://...");
        };
        let Some((wanted, port)) = Host::with_port(authority.as_str()) else {
            return unclear("the URL's host is invalid");
        };
        let port = port.unwrap_or(80);
        if let Err((status, why)) = check(&request, &wanted, port) {
            let fault = crate::decide::Fault::refused(why);
            engine.fault(self.asker, &wanted, port, &fault).await;
            return words(status, fault.text(&wanted, port));
        }
        let mut last = self.last.lock().await;
        let same = last.as_ref().is_some_and(|last| {
            last.wanted == wanted && last.port == port && !last.origin.sender.is_closed()
        });
        if !same {
            if let Some(former) = last.take() {
                former.link.metered(engine, &former.origin.meter);
            }
            let (way, link) = match Box::pin(open(engine, &wanted, port)).await {
                Ok(opened) => opened,
                Err(error) => return unopened(engine, self.asker, error, port).await,
            };
            link.opened(engine);
            match Origin::new(way.server, way.early).await {
                Ok(origin) => *last = Some(Last { wanted, port, link, origin }),
                Err(error) => return unclear(&error.to_string()),
            }
        }
        match last.as_mut() {
            Some(last) => forward(&mut last.origin.sender, request, &self.upgrade).await,
            None => unclear("no server"),
        }
    }
}
