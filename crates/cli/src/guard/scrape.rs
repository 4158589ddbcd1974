// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard metrics --serve`: serves the counters over HTTP to a Prometheus on this machine.
//!
//! This is a separate process of any user: palisaded has no network, and serving the counters needs no rights.

use super::GuardError;
use crate::output;
use crate::verb::Failure;
use palisade_http::{Response, Served, Server, Site};
use std::net::SocketAddr;

/// Accepts only a loopback address: the answers say what happens on the host.
pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_not_one| "not an address with a port".to_owned())?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err("only addresses of the loopback interface, such as 127.0.0.1:9750".to_owned())
    }
}

/// Serves until the process is ended. `text` is the content of `/metrics`, or the reason why there is none.
pub(super) fn serve(
    address: SocketAddr,
    text: impl Fn() -> Result<String, Failure> + Send + Sync + 'static,
) -> Result<u8, Failure> {
    let server = Server::open(address).map_err(|source| GuardError::Serve { address, source })?;
    output::note(&format_args!("answers at http://{}/metrics", server.address()));
    server.serve(Counters(text))
}

/// Serves one page, `/metrics`.
struct Counters<T>(T);

impl<T: Fn() -> Result<String, Failure> + Send + Sync + 'static> Site for Counters<T> {
    type Thing = ();

    fn find(&self, path: &str) -> Option<()> {
        (path == "/metrics").then_some(())
    }

    fn answer(&self, (): (), _served: &Served) -> Response {
        let (status, text) = match (self.0)() {
            Ok(text) => ("200 OK", text),
            Err(failure) => ("503 Service Unavailable", format!("{failure}\n")),
        };
        Response { status, kind: "text/plain; version=0.0.4; charset=utf-8", text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_is_answered() {
        assert_eq!(address("127.0.0.1:9750"), Ok(([127, 0, 0, 1], 9750).into()));
        assert!(address("[::1]:0").is_ok());
        for other in ["0.0.0.0:9750", "[::]:9750", "192.0.2.1:9750", "127.0.0.1", "localhost:9750", ""] {
            assert!(address(other).is_err(), "{other}");
        }
    }

    #[test]
    fn one_page_is_there() {
        let counters = Counters(|| Ok(String::new()));
        assert_eq!(
            ["/metrics", "/", "/metrics/x", ""].map(|path| counters.find(path).is_some()),
            [true, false, false, false]
        );
    }
}
