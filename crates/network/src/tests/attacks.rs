// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Attacks: attempts to reach another host than the name that a connection is to. Each has a name, and the same
//! assertion: the server outside receives nothing of `evil`.

use super::{Serve, World, contains, rest, run, say};
use crate::hello::tests::{hello, hello_with, names, records};
use crate::tests::Here;
use palisade_event::Outcome;

/// The bytes that are sent on a connection to `good.example`, at a port.
struct Attack {
    name: &'static str,
    port: u16,
    bytes: Vec<u8>,
    /// Whether the server may not receive a single byte.
    nothing: bool,
}

fn attack(name: &'static str, port: u16, bytes: impl AsRef<[u8]>) -> Attack {
    Attack { name, port, bytes: bytes.as_ref().to_vec(), nothing: true }
}

/// An attack that begins with harmless bytes.
fn later(name: &'static str, port: u16, bytes: impl AsRef<[u8]>) -> Attack {
    Attack { nothing: false, ..attack(name, port, bytes) }
}

const GOOD: &str = "GET /1 HTTP/1.1\r\nHost: good.example\r\n\r\n";
const EVIL: &str = "GET /evil HTTP/1.1\r\nHost: evil.example\r\n\r\n";

fn tls() -> Vec<Attack> {
    let evil = hello("evil.example");
    let late = hello_with(&[(0xff01, vec![0]), (16, vec![0; 400]), (0, names(&["evil.example"]))], 90);
    vec![
        attack("tls-other-name", 443, &evil),
        attack("tls-other-name-on-another-port", 8443, &evil),
        attack("tls-other-name-in-fragments", 443, late),
        attack("tls-without-name", 443, hello_with(&[(43, b"evil".to_vec())], 16_000)),
        attack("tls-without-extensions", 8443, hello_with(&[], 16_000)),
        attack("tls-two-names", 443, hello_with(&[(0, names(&["good.example", "evil.example"]))], 16_000)),
        attack(
            "tls-two-names-other-first",
            443,
            hello_with(&[(0, names(&["evil.example", "good.example"]))], 16_000),
        ),
        attack(
            "tls-two-extensions",
            443,
            hello_with(&[(0, names(&["good.example"])), (0, names(&["evil.example"]))], 16_000),
        ),
        attack("tls-name-with-nul", 443, hello("good.example\0.evil.example")),
        attack("tls-name-below", 443, hello("evil.good.example")),
        attack("tls-name-above", 443, hello("example")),
        attack("tls-name-as-suffix", 443, hello("evilgood.example")),
        attack("tls-two-dots", 443, hello("good.example..")),
        attack("tls-address", 443, hello("127.0.0.1")),
        attack("tls-empty-name", 443, hello("")),
        attack("tls-name-is-no-text", 443, hello_with(&[(0, vec![0, 5, 0, 0, 2, 0xff, 0xfe])], 16_000)),
        attack("tls-other-kind-of-name", 443, hello_with(&[(0, vec![0, 5, 1, 0, 2, b'a', b'b'])], 16_000)),
        attack(
            "tls-list-longer-than-itself",
            443,
            hello_with(&[(0, vec![0, 99, 0, 0, 2, b'a', b'b'])], 16_000),
        ),
        attack("tls-server-hello", 443, records(&[2, 0, 0, 4, 3, 3, 0, 0], 100)),
        attack("tls-huge-hello", 443, records(&[&[1, 0xff, 0xff, 0xff][..], &[0; 1000]].concat(), 500)),
        attack("tls-empty-record", 443, [&[0x16, 3, 1, 0, 0][..], &evil].concat()),
        attack("tls-huge-record", 443, [&[0x16, 3, 1, 0xff, 0xff][..], &[0; 1000]].concat()),
        attack("tls-data-between-fragments", 443, [&evil[..5], &[0x17, 3, 3, 0, 1, 0], &evil[5..]].concat()),
        attack("tls-alert-inside", 8443, [records(&[1], 1), vec![0x15, 3, 3, 0, 2, 1, 0]].concat()),
        attack("tls-on-80", 80, hello("good.example")),
        attack("ssl2-on-443", 443, [0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10]),
        attack("http-on-443", 443, GOOD),
        attack("ssh-on-443", 443, "SSH-2.0-evil\r\n"),
        attack("tls-breaks-off", 8443, &evil[..evil.len() - 1]),
        attack("tls-breaks-off-at-once", 443, [0x16]),
    ]
}

fn http() -> Vec<Attack> {
    let with = |name, head: &str| attack(name, 80, format!("{head}\r\n\r\n"));
    vec![
        attack("http-other-host", 80, EVIL),
        attack("http-other-host-on-another-port", 8080, EVIL),
        with("http-no-host", "GET /evil HTTP/1.1"),
        with("http-1.0-no-host", "GET /evil HTTP/1.0"),
        with("http-empty-host", "GET /evil HTTP/1.1\r\nHost:"),
        with("http-two-hosts", "GET /evil HTTP/1.1\r\nHost: good.example\r\nHost: evil.example"),
        with("http-two-hosts-other-first", "GET /evil HTTP/1.1\r\nHost: evil.example\r\nHost: good.example"),
        with("http-same-host-twice", "GET /evil HTTP/1.1\r\nHost: good.example\r\nHost: good.example"),
        with("http-host-with-other-port", "GET /evil HTTP/1.1\r\nHost: good.example:81"),
        with("http-host-with-user", "GET /evil HTTP/1.1\r\nHost: good.example@evil.example"),
        with("http-host-list", "GET /evil HTTP/1.1\r\nHost: good.example, evil.example"),
        with("http-host-with-space", "GET /evil HTTP/1.1\r\nHost: good.example evil.example"),
        with("http-host-with-tab", "GET /evil HTTP/1.1\r\nHost: good.example\tevil.example"),
        with("http-host-with-path", "GET /evil HTTP/1.1\r\nHost: good.example/evil"),
        with("http-host-suffix", "GET /evil HTTP/1.1\r\nHost: evilgood.example"),
        with("http-host-address", "GET /evil HTTP/1.1\r\nHost: 127.0.0.1"),
        with("http-host-not-ascii", "GET /evil HTTP/1.1\r\nHost: good.example\u{e9}"),
        with("http-obs-fold", "GET /evil HTTP/1.1\r\nHost: good.example\r\n evil.example"),
        with("http-obs-fold-in-front", "GET /evil HTTP/1.1\r\n Host: evil.example\r\nHost: good.example"),
        with("http-space-before-colon", "GET /evil HTTP/1.1\r\nHost : evil.example\r\nHost: good.example"),
        with("http-nul-in-header", "GET /evil HTTP/1.1\r\nHost: good.example\r\nX: a\0b"),
        with("http-bare-cr", "GET /evil HTTP/1.1\r\nHost: good.example\r\nX: a\rHost: evil.example"),
        with("http-absolute-other", "GET http://evil.example/ HTTP/1.1\r\nHost: good.example"),
        with("http-absolute-agrees-host-not", "GET http://good.example/evil HTTP/1.1\r\nHost: evil.example"),
        with("http-absolute-https", "GET https://good.example/evil HTTP/1.1\r\nHost: good.example"),
        with(
            "http-absolute-with-user",
            "GET http://good.example@evil.example/ HTTP/1.1\r\nHost: good.example",
        ),
        with("http-absolute-other-port", "GET http://good.example:81/evil HTTP/1.1\r\nHost: good.example"),
        with("http-connect", "CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example"),
        with("http-connect-same", "CONNECT good.example:80 HTTP/1.1\r\nHost: good.example"),
        with("http-version-2-in-line", "GET /evil HTTP/2.0\r\nHost: good.example"),
        with("http-version-nonsense", "GET /evil HTTP/9.9\r\nHost: evil.example"),
        attack("http-0.9", 80, "GET /evil\r\n\r\n"),
        attack("http-0.9-then-headers", 80, "GET /evil\r\nHost: evil.example\r\n\r\n"),
        attack("http-lines-end-in-lf", 8080, "GET /evil HTTP/1.1\nHost: evil.example\n\n"),
        attack("http-empty-lines-first", 8080, format!("\r\n\r\n\n{EVIL}")),
        attack("http-unknown-method", 8080, EVIL.replace("GET", "EVIL")),
        attack("http-long-method", 8080, EVIL.replace("GET", &"E".repeat(300))),
        attack("http-small-method", 8080, EVIL.replace("GET", "get")),
        attack("http-space-in-front", 8080, format!(" {EVIL}")),
        attack("http-tab-in-front", 8080, format!("\t{EVIL}")),
        attack("http-blanks-and-empty-lines-in-front", 8080, format!("\x0b \r\n\t\x0c\r\n \x1c{EVIL}")),
        attack("http-space-in-front-on-80", 80, format!(" {EVIL}")),
        attack("http-space-in-front-and-right-host", 8080, format!(" {}", GOOD.replace("/1", "/evil"))),
        attack("http-space-in-front-unknown-method", 8080, EVIL.replace("GET", " \tEVIL")),
        attack("http-latin-1-space-in-front", 8080, [b"\xa0\x85", EVIL.as_bytes()].concat()),
        attack("http-separator-after-method", 8080, EVIL.replace("GET ", "GET\x1c")),
        attack("http-cr-after-method", 8080, EVIL.replace("GET ", "GET\r")),
        attack("http-method-with-quote", 8080, EVIL.replace("GET", "\"GET\"")),
        attack("http-method-not-ascii", 8080, EVIL.replace("GET", "G\u{c9}T")),
        attack("http-slash-in-method", 8080, EVIL.replace("GET ", "GET/ ")),
        attack("http-0.9-space-in-front", 8080, " GET /evil\r\n\r\n"),
        attack("http-lines-end-in-lf-space-in-front", 8080, " GET /evil HTTP/1.1\nHost: evil.example\n\n"),
        attack("http-first-header-folded", 8080, "GET /evil HTTP/1.1\r\n Host: good.example\r\n\r\n"),
        attack(
            "http-obs-fold-with-tab",
            8080,
            "GET /evil HTTP/1.1\r\nX: a\r\n\tHost: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        attack(
            "http-tab-before-colon",
            8080,
            "GET /evil HTTP/1.1\r\nHost\t: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        attack(
            "http-other-space-before-colon",
            8080,
            "GET /evil HTTP/1.1\r\nHost\x0b: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        attack("http-nul-in-name", 8080, "GET /evil HTTP/1.1\r\nHo\0st: a\r\nHost: good.example\r\n\r\n"),
        attack("http-nul-in-host", 8080, "GET /evil HTTP/1.1\r\nHost: good.example\0\r\n\r\n"),
        attack("http-nul-in-line", 8080, "GET /evil\0 HTTP/1.1\r\nHost: good.example\r\n\r\n"),
        attack(
            "http-bare-cr-before-host",
            8080,
            "GET /evil HTTP/1.1\r\nX: a\r\rHost: evil.example\r\nHost: good.example\r\n\r\n",
        ),
        attack("http-bare-cr-ends-line", 8080, "GET /evil HTTP/1.1\rHost: evil.example\r\r"),
        attack("http-header-without-colon", 8080, "GET /evil HTTP/1.1\r\nHost good.example\r\n\r\n"),
        attack(
            "http-header-without-name",
            8080,
            "GET /evil HTTP/1.1\r\n: evil\r\nHost: good.example\r\n\r\n",
        ),
        attack(
            "http-absolute-other-on-another-port",
            8080,
            EVIL.replace("/evil", "http://evil.example:8080/"),
        ),
        attack(
            "http-absolute-other-right-host",
            8080,
            "GET http://evil.example:8080/ HTTP/1.1\r\nHost: good.example:8080\r\n\r\n",
        ),
        attack(
            "http-endless-header",
            8080,
            format!("GET /evil HTTP/1.1\r\nHost: good.example\r\nX: {}", "x".repeat(100_000)),
        ),
        attack(
            "http-endless-headers",
            8080,
            format!("GET /evil HTTP/1.1\r\nHost: good.example\r\n{}", "X: y\r\n".repeat(20_000)),
        ),
        attack("http-endless-blanks", 8080, " ".repeat(100_000)),
        later("http-second-with-space-in-front", 8080, format!("{GOOD} {EVIL}")),
        later("http-second-folded", 8080, format!("{GOOD}GET /evil HTTP/1.1\r\n Host: good.example\r\n\r\n")),
        attack("http-tab-after-method", 8080, EVIL.replace("GET ", "GET\t")),
        attack("h2-preface", 8080, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0evil"),
        attack("h2-preface-on-80", 80, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil"),
        attack("proxy-protocol", 8080, format!("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n{EVIL}")),
        attack("proxy-protocol-2", 8080, [b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", EVIL.as_bytes()].concat()),
        attack("not-http-on-80", 80, "\0\x01evil"),
        attack("http-endless-line", 8080, format!("GET /evil{}", "x".repeat(100_000))),
        attack(
            "http-conflicting-lengths",
            80,
            "POST /evil HTTP/1.1\r\nHost: good.example\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        ),
        attack(
            "http-length-with-sign",
            80,
            "POST /evil HTTP/1.1\r\nHost: good.example\r\nContent-Length: +1\r\n\r\na",
        ),
        attack(
            "http-coding-not-last",
            80,
            "POST /evil HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        ),
        later("http-second-request-elsewhere", 80, format!("{GOOD}{EVIL}")),
        later("http-tenth-request-elsewhere", 8080, format!("{}{EVIL}", GOOD.repeat(9))),
        later("http-second-request-without-host", 80, format!("{GOOD}GET /evil HTTP/1.1\r\n\r\n")),
        later("http-second-is-preface", 80, format!("{GOOD}PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil")),
        later(
            "http-second-is-connect",
            80,
            format!("{GOOD}CONNECT evil.example:443 HTTP/1.1\r\nHost: good.example\r\n\r\n"),
        ),
        later(
            "http-length-and-chunks",
            80,
            format!(
                "POST /1 HTTP/1.1\r\nHost: good.example\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{EVIL}"
            ),
        ),
        later(
            "http-chunks-and-length",
            80,
            format!(
                "POST /1 HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n{EVIL}"
            ),
        ),
        later(
            "http-chunk-size-overflows",
            80,
            format!(
                "POST /1 HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n{EVIL}"
            ),
        ),
        later(
            "http-chunk-without-crlf",
            80,
            format!(
                "POST /1 HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab0\r\n\r\n{EVIL}"
            ),
        ),
        later(
            "http-trailer-host",
            80,
            "POST /1 HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: evil.example\r\n\r\n",
        ),
        later(
            "http-upgrade-to-h2c",
            80,
            "GET /1 HTTP/1.1\r\nHost: good.example\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\nevil",
        ),
        later(
            "http-connection-lists-host",
            80,
            format!("GET /1 HTTP/1.1\r\nHost: good.example\r\nConnection: Host\r\n\r\n{EVIL}"),
        ),
    ]
}

async fn tried(attack: &Attack, in_pieces: bool) {
    let world = World::new(Serve::Http).await;
    let mut client = world.named("good.example", attack.port).await;
    // A refusal in the middle is a reset.
    let _refused = say(&mut client, &attack.bytes, in_pieces).await;
    let _half = tokio::io::AsyncWriteExt::shutdown(&mut client).await;
    let _answer = rest(&mut client).await;
    // The outside connection's end comes after all bytes that were sent on it.
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let heard = world.heard.borrow();
    let text = String::from_utf8_lossy(&heard);
    assert!(!contains(&heard, "evil") && !contains(&heard, "PRI *"), "{}: {text}", attack.name);
    assert!(!attack.nothing || heard.is_empty(), "{}: {text}", attack.name);
    assert!(!contains(&heard, "h2c"), "{}: {text}", attack.name);
}

/// The same byte by byte, from a client so slow that undecided bytes are passed on: a server may receive the beginning
/// of a line, but never a whole line.
async fn tried_slowly(attack: &Attack) {
    let change = |engine: &mut crate::engine::Engine| engine.limits.undecided = std::time::Duration::ZERO;
    let rules =
        super::rules(palisade_policy::network::Fallback::Deny, &["allow good.example", "allow 127.0.0.0/8"]);
    let world = World::with(Serve::Http, &rules, change).await;
    let mut client = world.named("good.example", attack.port).await;
    let _refused = say(&mut client, &attack.bytes, true).await;
    let _half = tokio::io::AsyncWriteExt::shutdown(&mut client).await;
    let _answer = rest(&mut client).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    let heard = world.heard.borrow();
    let text = String::from_utf8_lossy(&heard);
    let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    assert!(!lines.any(|line| line.contains("evil")), "{}: {text}", attack.name);
    assert!(!contains(&heard, "PRI * HTTP/2") && !contains(&heard, "h2c"), "{}: {text}", attack.name);
}

#[test]
fn patience_gets_nothing_out_either() {
    run(async {
        for attack in tls().into_iter().chain(http()).filter(|attack| attack.bytes.len() < 10_000) {
            tried_slowly(&attack).await;
        }
    });
}

#[test]
fn there_are_enough() {
    let all: Vec<_> = tls().into_iter().chain(http()).map(|attack| attack.name).collect();
    assert!(all.len() >= 50, "{}", all.len());
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
}

#[test]
fn nothing_of_tls_for_others_gets_out() {
    run(async {
        for attack in tls() {
            tried(&attack, false).await;
            tried(&attack, true).await;
        }
    });
}

#[test]
fn nothing_of_http_for_others_gets_out() {
    run(async {
        for attack in http() {
            tried(&attack, false).await;
            if attack.bytes.len() < 10_000 {
                tried(&attack, true).await;
            }
        }
    });
}

#[test]
fn the_same_inside_of_tunnels_by_name() {
    run(async {
        for attack in tls().into_iter().chain(http()) {
            for socks in [false, true] {
                let world = World::new(Serve::Http).await;
                let mut client = world.direct().await;
                let port = attack.port;
                let ask = if socks {
                    [b"\x05\x01\x00\x05\x01\x00\x03\x0cgood.example", &port.to_be_bytes()[..]].concat()
                } else {
                    format!("CONNECT good.example:{port} HTTP/1.1\r\nHost: good.example:{port}\r\n\r\n")
                        .into_bytes()
                };
                // In one piece, so that the tunnel's data arrives together with the request for the tunnel.
                let _refused = say(&mut client, &[ask, attack.bytes.clone()].concat(), false).await;
                let _half = tokio::io::AsyncWriteExt::shutdown(&mut client).await;
                let _answer = rest(&mut client).await;
                let heard = world.heard.borrow();
                let text = String::from_utf8_lossy(&heard);
                assert!(!contains(&heard, "evil") && !contains(&heard, "PRI *"), "{}: {text}", attack.name);
                assert!(!attack.nothing || heard.is_empty(), "{}: {text}", attack.name);
            }
        }
    });
}

#[test]
fn whom_the_policy_refuses_is_not_even_connected_to() {
    run(async {
        let world = World::new(Serve::Greet).await;
        // Plain addresses, the address of a refused name, addresses that were never given out, and private ones.
        let refused = world.address("evil.example");
        for (address, port) in [
            (refused, 443),
            ("198.18.77.77".parse().unwrap(), 443),
            ("fd70:616c:6973::9999".parse().unwrap(), 443),
            ("1.1.1.1".parse().unwrap(), 443),
            ("10.0.0.1".parse().unwrap(), 5432),
            ("169.254.169.254".parse().unwrap(), 80),
            ("::ffff:169.254.169.254".parse().unwrap(), 81),
            (world.address("private.example"), 443),
        ] {
            let mut client = world.to(address, port).await;
            assert_eq!(rest(&mut client).await, b"", "{address}");
            let report = world.told(&[]).await;
            assert_eq!(report.detail.outcome, Outcome::Refused, "{address}: {report:?}");
        }
        for request in [
            &b"\x05\x01\x00\x05\x01\x00\x01\x01\x01\x01\x01\x01\xbb"[..],
            b"\x05\x01\x00\x05\x01\x00\x03\x0cevil.example\x01\xbb",
            b"\x05\x01\x00\x05\x01\x00\x03\x0810.0.0.1\x01\xbb",
            b"\x05\x01\x00\x05\x01\x00\x03\x0fprivate.example\x01\xbb",
        ] {
            let mut client = world.direct().await;
            say(&mut client, request, true).await.unwrap();
            let answer = rest(&mut client).await;
            assert!(answer.starts_with(&[5, 0, 5, 2]), "{answer:?}");
        }
        for request in [
            "CONNECT 1.1.1.1:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "CONNECT [::1]:443 HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "CONNECT private.example:443 HTTP/1.1\r\n\r\n",
            "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "GET http://good.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n",
            "GET http://good.example/ HTTP/1.1\r\n\r\n",
        ] {
            let mut client = world.direct().await;
            say(&mut client, request.as_bytes(), false).await.unwrap();
            let answer = String::from_utf8(rest(&mut client).await).unwrap();
            assert!(answer.starts_with("HTTP/1.1 403 "), "{request}: {answer}");
            assert!(answer.contains("palisade refuses"), "{request}: {answer}");
        }
        for request in [
            "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "CONNECT good.example HTTP/1.1\r\n\r\n",
            "GET https://good.example/ HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            let mut client = world.direct().await;
            say(&mut client, request.as_bytes(), false).await.unwrap();
            let answer = String::from_utf8(rest(&mut client).await).unwrap();
            assert!(answer.starts_with("HTTP/1.1 400 "), "{request}: {answer}");
        }
        assert!(world.heard.borrow().is_empty());
    });
}

#[test]
fn slow_clients_are_cut_off() {
    run(async {
        let world = World::new(Serve::Http).await;
        let good = hello("good.example");
        let begun = [
            (443, &good[..20], true),
            (80, b"GET / HT", true),
            (80, b"GET / HTTP/1.1\r\nHost: good.example\r\nX: ", true),
            (8080, &good[..20], true),
            (443, b"", true),
        ];
        let mut clients = Vec::new();
        for (port, bytes, _ends) in begun {
            let mut client = world.named("good.example", port).await;
            say(&mut client, bytes, false).await.unwrap();
            clients.push(client);
        }
        let mut socks = world.direct().await;
        say(&mut socks, &[5, 1], false).await.unwrap();
        clients.push(socks);
        let mut front = world.direct().await;
        say(&mut front, b"CONNECT good", false).await.unwrap();
        clients.push(front);
        clients.push(world.direct().await);
        for (index, client) in clients.iter_mut().enumerate() {
            let begun = std::time::Instant::now();
            let _nothing = rest(client).await;
            assert!(begun.elapsed().as_secs() < 9, "{index} is kept");
        }
        assert!(world.heard.borrow().is_empty());
        let _unused = Here;
    });
}
