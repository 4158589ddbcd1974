// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade guard metrics --serve`.

use super::world::{Guarded, NOT_BAD};
use crate::support::{self, Place};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of an ordinary user's that ends with the test.
struct Server {
    child: Child,
    address: SocketAddr,
    _place: Place,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl Server {
    fn start(guarded: &Guarded) -> Self {
        let place = support::ordinary();
        Self::of(guarded.user_command(&place, &["metrics", "--serve", "127.0.0.1:0"]), place)
    }

    fn of(mut command: Command, place: Place) -> Self {
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut note = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut note).unwrap();
        let address = note.split_once("http://").and_then(|(_, rest)| rest.trim().strip_suffix("/metrics"));
        let address = address.unwrap_or_else(|| panic!("{note}")).parse().unwrap();
        Self { child, address, _place: place }
    }

    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

#[test]
fn prometheus_is_answered_on_this_machine() {
    let Some(mut guarded) = Guarded::new(NOT_BAD) else { return };
    guarded.guard(&["enforce"]).ok();
    assert!(!guarded.runs("bad"));
    let server = Server::start(&guarded);
    let asks =
        |method: &str, path: &str, host: &str| format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let here = server.address.to_string();
    let scrape = &asks("GET", "/metrics", &here);
    let denied = |answer: &str| {
        let line = answer.lines().find_map(|line| line.strip_prefix("palisade_guard_denied_total "));
        line.unwrap_or_else(|| panic!("{answer}")).parse::<u64>().unwrap()
    };
    let answer = server.ask(scrape);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{answer}");
    let before = denied(&answer);
    assert!(before >= 1 && !guarded.runs("bad"));
    assert!(denied(&server.ask(scrape)) > before);
    assert!(server.ask(&asks("GET", "/else", &here)).starts_with("HTTP/1.1 404 "));
    assert!(server.ask(&asks("DELETE", "/metrics", &here)).starts_with("HTTP/1.1 405 "));
    // A browser sends this for a page of another site whose name was made to lead to this machine (DNS rebinding).
    assert!(server.ask(&asks("GET", "/metrics", "site.example:9750")).starts_with("HTTP/1.1 421 "));
    // Silent connections don't delay other clients, and neither does one that sends too much.
    let mut silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(denied(&server.ask(scrape)) > before);
    let _it_may_hang_up = silent[39].write_all(&[b'x'; 20 << 10]);
    assert!(denied(&server.ask(scrape)) > before);
    drop(silent);
    guarded.guard(&["stop"]).ok();
    assert!(guarded.ends());
    let answer = server.ask(scrape);
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("palisaded"), "{answer}");
}

/// Like a daemon that is stopped: the kernel accepts the connection, and no process reads from it.
#[test]
fn a_daemon_that_says_nothing_is_told_of() {
    let place = support::ordinary();
    let socket = place.home.join("socket");
    let _nobody_reads = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let mut command = place.command(place.binary());
    command.args(["guard", "metrics", "--serve", "127.0.0.1:0", "--socket"]).arg(socket);
    let server = Server::of(command, place);
    let answer = server.ask(&format!("GET /metrics HTTP/1.1\r\nHost: {}\r\n\r\n", server.address));
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("palisaded"), "{answer}");
}

#[test]
fn nobody_else_is_answered() {
    let Some(guarded) = Guarded::new(NOT_BAD) else { return };
    for address in ["0.0.0.0:9750", "192.0.2.1:9750"] {
        let run = guarded.guard_as_user(&["metrics", "--serve", address]);
        assert!(run.code == 2 && run.err.contains("loopback"), "{run:?}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    guarded
        .guard_as_user(&["metrics", "--serve", &address])
        .refused(2, &["can't answer at", &address])
        .with_hint();
}
