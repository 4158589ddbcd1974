// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that allowed data gets through.

use std::time::Duration;

use palisade_policy::network::Fallback;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use super::Happened;
use super::{Here, Serve, World, contains, exactly, rest, rules, run, say};
use crate::hello::tests::{hello, hello_with, names};
use crate::report::outcome;
use crate::serve::run as serve;
use crate::upstream::{Route, Upstream};
use crate::{Control, Inside};
use palisade_event::Outcome;
use palisade_protocol::network::{Answer, Instruction, Resolving, Told};

#[test]
fn tls_for_the_name_goes_through_byte_for_byte() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let in_fragments = hello_with(&[(0, names(&["Good.Example"]))], 3);
        for (port, bytes) in
            [(443, hello("good.example")), (8443, in_fragments), (443, hello("GOOD.example."))]
        {
            for in_pieces in [false, true] {
                let mut client = world.named("good.example", port).await;
                let bytes = [bytes.clone(), b"what follows".to_vec()].concat();
                say(&mut client, &bytes, in_pieces).await.unwrap();
                assert_eq!(exactly(&mut client, bytes.len()).await, bytes);
            }
        }
    });
}

#[test]
fn other_protocols_go_through_and_servers_may_begin() {
    run(async {
        let world = World::new(Serve::Greet).await;
        for said in ["SSH-2.0-x\r\n", "EHLO me\r\n", "NICK x\r\n", "\0\0\0\x08", "get key\r\n"] {
            let mut client = world.named("good.example", 2222).await;
            assert_eq!(exactly(&mut client, 7).await, b"hello\r\n");
            say(&mut client, said.as_bytes(), true).await.unwrap();
            assert_eq!(exactly(&mut client, said.len()).await, said.as_bytes());
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut client).await, b"");
        }
        // A client that only reads, and a client that sends less than a line.
        let mut client = world.named("good.example", 2222).await;
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, b"hello\r\n");
        let mut client = world.named("good.example", 2222).await;
        say(&mut client, b"user", false).await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, b"hello\r\nuser");
        // HTTP is refused if the server has sent first.
        let mut client = world.named("good.example", 2222).await;
        assert_eq!(exactly(&mut client, 7).await, b"hello\r\n");
        say(&mut client, b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n", false).await.unwrap();
        assert_eq!(rest(&mut client).await, b"");
    });
}

#[test]
fn who_says_a_few_letters_and_waits_is_heard() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let mut client = world.named("good.example", 2222).await;
        // Each could still become a request. None has to wait as long as a client that has begun one.
        for word in ["G", "E", "x", "AUTH", " no line"] {
            let begun = std::time::Instant::now();
            say(&mut client, word.as_bytes(), false).await.unwrap();
            assert_eq!(exactly(&mut client, word.len()).await, word.as_bytes());
            assert!(begun.elapsed() < world.engine.limits.head / 2, "{word}");
        }
        client.shutdown().await.unwrap();
        assert_eq!(rest(&mut client).await, b"");
        assert_eq!(*world.heard.borrow(), b"GExAUTH no line");
        let closed = world.told(&[Outcome::Opened]).await.detail;
        assert_eq!((closed.outcome, closed.sent, closed.received), (Outcome::Closed, 15, 15));
    });
}

#[test]
fn a_request_that_takes_its_time_is_looked_at_and_answered() {
    run(async {
        let world = World::new(Serve::Http).await;
        for (host, answered) in [("good.example:8080", true), ("evil.example", false)] {
            world.heard.borrow_mut().clear();
            let mut client = world.named("good.example", 8080).await;
            say(&mut client, b"GE", false).await.unwrap();
            let begun = std::time::Instant::now();
            while world.heard.borrow().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(begun.elapsed() < world.engine.limits.head, "it isn't handed on");
            }
            let request = format!("T / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            say(&mut client, request.as_bytes(), false).await.unwrap();
            let answer = rest(&mut client).await;
            assert_eq!(answer.ends_with(b"ok"), answered, "{}", String::from_utf8_lossy(&answer));
            let heard = world.heard.borrow();
            // The new connection gets all of it; the first one has only got the beginning.
            assert_eq!(contains(&heard, "GEGET / HTTP/1.1\r\n"), answered);
            assert!(answered || *heard == b"GE", "{}", String::from_utf8_lossy(&heard));
        }
    });
}

#[test]
fn an_allowed_address_is_not_looked_into() {
    run(async {
        let world = World::new(Serve::Echo).await;
        for said in [hello("whoever.example"), b"GET / HTTP/1.1\r\nHost: whoever\r\n\r\n".to_vec()] {
            let mut client = world.to("127.9.9.9".parse().unwrap(), 443).await;
            say(&mut client, &said, false).await.unwrap();
            assert_eq!(exactly(&mut client, said.len()).await, said);
        }
    });
}

#[test]
fn requests_for_the_name_are_answered_one_after_the_other() {
    run(async {
        let world = World::new(Serve::Http).await;
        let mut client = world.named("good.example", 80).await;
        for head in [
            "GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "GET /a?b=c HTTP/1.1\r\nhost: Good.Example:80\r\nProxy-Authorization: Basic secret\r\n\r\n",
            "GET http://good.example/absolute HTTP/1.1\r\nHost: good.example\r\n\r\n",
            "GET /x HTTP/1.1\r\nHost: good.example\r\nConnection: X-Mine, keep-alive\r\nX-Mine: secret\r\n\r\n",
        ] {
            say(&mut client, head.as_bytes(), true).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nok") {
                answer.push(client.read_u8().await.unwrap());
            }
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{head}");
        }
        let heard = String::from_utf8(world.heard.borrow().clone()).unwrap();
        assert!(
            heard.contains("GET /absolute HTTP/1.1\r\n") && heard.contains("GET /a?b=c HTTP/1.1\r\n"),
            "{heard}"
        );
        assert!(!heard.contains("secret") && !heard.contains("http://"), "{heard}");
        // On another port, pipelined, and the client shuts down its side at once.
        let mut client = world.named("good.example", 8080).await;
        let two = "GET / HTTP/1.1\r\nHost: good.example:8080\r\n\r\n".repeat(2);
        say(&mut client, two.as_bytes(), false).await.unwrap();
        client.shutdown().await.unwrap();
        let answers = String::from_utf8(rest(&mut client).await).unwrap();
        assert_eq!(answers.matches("\r\n\r\nok").count(), 2, "{answers}");
        // An old version.
        let mut client = world.named("good.example", 80).await;
        say(&mut client, b"GET / HTTP/1.0\r\nHost: good.example\r\n\r\n", false).await.unwrap();
        assert!(rest(&mut client).await.ends_with(b"ok"));
    });
}

#[test]
fn bodies_are_framed_anew() {
    run(async {
        let world = World::new(Serve::Http).await;
        let mut client = world.named("good.example", 80).await;
        let request = "POST / HTTP/1.1\r\nHost: good.example\r\nTransfer-Encoding: chunked\r\n\r\n\
                       3;ext=1\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
        say(&mut client, request.as_bytes(), true).await.unwrap();
        client.shutdown().await.unwrap();
        assert!(contains(&rest(&mut client).await, "200 OK"));
        let heard = String::from_utf8(world.heard.borrow().clone()).unwrap();
        let body = heard.split_once("\r\n\r\n").unwrap().1;
        // The chunks may be split differently: compare sizes and data, without the chunk extensions.
        let mut lines = body.split("\r\n");
        let mut words = String::new();
        while let Some(size) = lines.next().filter(|size| *size != "0") {
            let data = lines.next().unwrap();
            assert_eq!(usize::from_str_radix(size, 16), Ok(data.len()), "{heard}");
            words.push_str(data);
        }
        assert_eq!(words, "abcdefg");
    });
}

#[test]
fn web_sockets() {
    run(async {
        let request = "GET /chat HTTP/1.1\r\nHost: good.example\r\nConnection: keep-alive, Upgrade\r\n\
                       Upgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
        for through_front in [false, true] {
            let world = World::new(Serve::WebSocket).await;
            let mut client =
                if through_front { world.direct().await } else { world.named("good.example", 80).await };
            let request = if through_front {
                request.replace("/chat", "http://good.example/chat")
            } else {
                request.to_owned()
            };
            say(&mut client, request.as_bytes(), false).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(client.read_u8().await.unwrap());
            }
            assert!(contains(&answer, "101 Switching") && contains(&answer, "upgrade: websocket"));
            for word in ["one", "two"] {
                say(&mut client, word.as_bytes(), true).await.unwrap();
                assert_eq!(exactly(&mut client, 3).await, word.as_bytes());
            }
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut client).await, b"");
            assert_eq!(world.told(&[]).await.detail.outcome, Outcome::Opened);
            let closed = world.told(&[]).await.detail;
            assert_eq!(closed.outcome, Outcome::Closed);
            assert!(closed.sent > 100 && closed.received > 60, "{closed:?}");
        }
    });
}

#[test]
fn tunnels_by_name_and_by_the_address_that_stands_for_it() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let said = hello("good.example");
        let address = world.address("good.example");
        for place in ["good.example:443".to_owned(), format!("{address}:443"), "127.0.0.1:443".to_owned()] {
            let mut client = world.direct().await;
            say(&mut client, format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes(), true)
                .await
                .unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\n") {
                answer.push(client.read_u8().await.unwrap());
            }
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{place}");
            say(&mut client, &said, false).await.unwrap();
            assert_eq!(exactly(&mut client, said.len()).await, said, "{place}");
        }
        let mut client = world.direct().await;
        say(&mut client, b"\x05\x02\x00\x01\x05\x01\x00\x03\x0cgood.example\x01\xbb", true).await.unwrap();
        assert_eq!(exactly(&mut client, 12).await, [5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        say(&mut client, &said, true).await.unwrap();
        assert_eq!(exactly(&mut client, said.len()).await, said);
        let opened = world.told(&[Outcome::Closed]).await;
        assert_eq!(
            (opened.detail.outcome, opened.host.as_str(), opened.port),
            (Outcome::Opened, "good.example", 443)
        );
        assert_eq!(opened.detail.address, Some("127.0.0.1".parse().unwrap()));
        assert!(
            opened.event.why.origin.is_some() && opened.event.why.text.contains("good.example"),
            "{opened:?}"
        );
    });
}

#[test]
fn the_user_is_asked_once_and_silence_is_no() {
    run(async {
        let rules = rules(Fallback::Ask, &["allow 127.0.0.0/8", "deny other.example"]);
        let world = World::with(Serve::Echo, &rules, |engine| {
            engine.limits.answer = Duration::from_millis(300);
        })
        .await;
        let asked = |told| match told {
            Told::Question(question) => question,
            other => panic!("{other:?}"),
        };
        let mut clients = [world.named("good.example", 7000).await, world.named("good.example", 7000).await];
        let question = asked(world.engine.outbox.heard().await);
        assert_eq!((question.host.as_str(), question.port), ("good.example", 7000));
        tokio::time::sleep(Duration::from_millis(50)).await;
        world.engine.decisions.answered(question.number, Ok(Answer { allow: true, session: true }));
        for client in &mut clients {
            say(client, b"\0x", false).await.unwrap();
            assert_eq!(exactly(client, 2).await, b"\0x");
        }
        // The answer holds for the session.
        let mut third = world.named("good.example", 7000).await;
        say(&mut third, b"\0x", false).await.unwrap();
        assert_eq!(exactly(&mut third, 2).await, b"\0x");
        let mut other = world.named("good.example", 7001).await;
        assert_eq!(rest(&mut other).await, b"");
        let mut opened = 0;
        loop {
            match world.engine.outbox.heard().await {
                Told::Event { event, .. } if outcome(&event) == Some(Outcome::Opened) => opened += 1,
                Told::Question(question) => assert_eq!(question.port, 7001),
                Told::Event { event, .. } => {
                    let report = Happened::of(*event);
                    assert_eq!((report.detail.outcome, report.port), (Outcome::Refused, 7001));
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(opened, 3);
    });
}

/// A proxy that remembers the requests, and then is an echo.
async fn proxy(
    says: &'static [&'static [u8]],
    hears: &'static [usize],
) -> (u16, tokio::sync::oneshot::Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, heard) = tokio::sync::oneshot::channel();
    spawn_local(async move {
        let (mut stream, _peer) = listener.accept().await.unwrap();
        let mut all = Vec::new();
        for (says, hears) in says.iter().zip(hears) {
            let mut part = vec![0; *hears];
            stream.read_exact(&mut part).await.unwrap();
            all.extend(part);
            stream.write_all(says).await.unwrap();
        }
        sender.send(all).unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
    });
    (port, heard)
}

#[test]
fn proxies_outside_are_given_names() {
    run(async {
        let allowed = rules(Fallback::Deny, &["allow unknown.example"]);
        let request = "CONNECT unknown.example:7000 HTTP/1.1\r\nHost: unknown.example:7000\r\n\
                       Proxy-Authorization: Basic bWU6cEB3\r\n\r\n";
        let http: (&[&[u8]], &[usize]) = (&[b"HTTP/1.1 200 Fine\r\nX: y\r\n\r\nearly"], &[106]);
        assert_eq!(http.1[0], request.len());
        let socks: (&[&[u8]], &[usize]) =
            (&[&[5, 2], &[1, 0], &[5, 0, 0, 3, 1, b'x', 0, 0, b'e', b'a', b'r', b'l', b'y']], &[4, 8, 22]);
        for (scheme, (says, hears)) in [("http", http), ("socks5h", socks)] {
            let (port, heard) = proxy(says, hears).await;
            let upstream = Upstream {
                route: Route::Proxy(format!("{scheme}://me:p%40w@127.0.0.1:{port}").parse().unwrap()),
                dns: Vec::new(),
            };
            let world = World::with(Serve::Echo, &allowed, |engine| {
                engine.upstream = upstream;
                engine.place = Box::new(|address| address);
            })
            .await;
            let mut client = world.named("unknown.example", 7000).await;
            assert_eq!(exactly(&mut client, 5).await, b"early", "{scheme}");
            say(&mut client, b"\0word", false).await.unwrap();
            assert_eq!(exactly(&mut client, 5).await, b"\0word", "{scheme}");
            let heard = heard.await.unwrap();
            if scheme == "http" {
                assert_eq!(String::from_utf8(heard).unwrap(), request);
            } else {
                let wanted = [
                    &b"\x05\x02\x00\x02\x01\x02me\x03p@w\x05\x01\x00\x03\x0funknown.example"[..],
                    &7000u16.to_be_bytes(),
                ];
                assert_eq!(heard, wanted.concat());
            }
        }
    });
}

#[test]
fn a_proxy_that_does_not_resolve_is_given_addresses_that_may_be_talked_to() {
    run(async {
        let hosts = "9.9.9.9 public.example\n10.0.0.1 private.example\n".to_owned();
        let allowed = rules(Fallback::Deny, &["allow *.example"]);
        let (port, heard) = proxy(&[&[5, 0], &[5, 0, 0, 1, 1, 1, 1, 1, 0, 1]], &[3, 10]).await;
        let world = World::with(Serve::Echo, &allowed, |engine| {
            engine.upstream.route = Route::Proxy(format!("socks5://127.0.0.1:{port}").parse().unwrap());
            let resolving = Resolving { hosts, ..Resolving::default() };
            engine.resolver = crate::resolver::Resolver::new(&resolving, &[], Duration::from_secs(2));
            engine.place = Box::new(|address| address);
        })
        .await;
        let mut client = world.named("private.example", 7000).await;
        say(&mut client, b"\0word", false).await.ok();
        let refused = world.told(&[]).await;
        assert_eq!(refused.detail.outcome, Outcome::Refused);
        assert!(refused.event.why.text.contains("10.0.0.1"), "{refused:?}");
        assert_eq!(refused.detail.leads_to, Some("10.0.0.1".parse().unwrap()));
        let mut client = world.named("public.example", 7000).await;
        say(&mut client, b"\0word", false).await.unwrap();
        assert_eq!(exactly(&mut client, 5).await, b"\0word");
        let wanted = [&b"\x05\x01\x00\x05\x01\x00\x01\x09\x09\x09\x09"[..], &7000u16.to_be_bytes()];
        assert_eq!(heard.await.unwrap(), wanted.concat(), "only the second got as far");
    });
}

#[test]
fn ports_lead_in_and_out_and_closing_the_control_socket_ends_it() {
    run(async {
        let world = World::new(Serve::Echo).await;
        let bind = || {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            (listener, address)
        };
        let ((reach, reach_at), (publish, publish_at), (dead, dead_at)) = (bind(), bind(), bind());
        let nobody = bind().1.port();
        let inside = Inside {
            reach: vec![(reach.into(), world.server.port()), (dead.into(), nobody)],
            publish: vec![(publish.into(), world.server.port())],
            ..Inside::default()
        };
        let (control, socket) = Control::pair().unwrap();
        let engine = std::rc::Rc::clone(&world.engine);
        let served = spawn_local(async move { serve(engine, inside, &mut Here, socket).await });
        for address in [reach_at, publish_at] {
            let mut client = TcpStream::connect(address).await.unwrap();
            say(&mut client, b"through", false).await.unwrap();
            assert_eq!(exactly(&mut client, 7).await, b"through");
        }
        let mut client = TcpStream::connect(dead_at).await.unwrap();
        assert_eq!(rest(&mut client).await, b"");
        drop(control);
        served.await.unwrap().unwrap();
    });
}

#[test]
fn a_server_that_is_not_there_is_told_at_once() {
    run(async {
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let stated = ["allow good.example", "allow 127.0.0.0/8", "allow nowhere.example"];
        let world = World::with(Serve::Echo, &rules(Fallback::Deny, &stated), |engine| {
            engine.place = Box::new(move |_anywhere| gone);
        })
        .await;
        let mut client = world.named("good.example", 443).await;
        assert_eq!(rest(&mut client).await, b"");
        let report = world.told(&[]).await;
        assert_eq!(report.detail.outcome, Outcome::Failed, "{report:?}");
        let mut client = world.direct().await;
        say(&mut client, b"CONNECT good.example:443 HTTP/1.1\r\n\r\n", false).await.unwrap();
        assert!(rest(&mut client).await.starts_with(b"HTTP/1.1 502 "));
    });
}

#[test]
fn served_in_a_thread_and_heard_over_the_control_socket() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let names = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let names_at = names.local_addr().unwrap();
    let (mut control, socket) = Control::pair().unwrap();
    let server = std::thread::spawn(move || {
        let inside = Inside { tcp: vec![listener.into()], dns: vec![names.into()], ..Inside::default() };
        let rules = rules(Fallback::Ask, &["deny evil.example"]);
        let resolving = Resolving::default();
        crate::serve(inside, &rules, &rules, &Upstream::default(), &resolving, &mut Here, socket)
    });
    let patience = Some(Duration::from_secs(20));
    let question = crate::message::question(7, &"evil.example".parse().unwrap(), false);
    let asks = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    asks.set_read_timeout(patience).unwrap();
    asks.send_to(&question, names_at).unwrap();
    let mut answer = [0; 512];
    let (count, _from) = asks.recv_from(&mut answer).unwrap();
    let answered = crate::message::answered(&answer[..count], 7, &"evil.example".parse().unwrap(), false);
    assert_eq!(answered, crate::message::Answered::NoSuchName);
    let Some(Told::Event { event, .. }) = control.hear().unwrap() else { panic!("a refusal is told") };
    let report = Happened::of(*event);
    assert_eq!((report.detail.outcome, report.host.as_str()), (Outcome::Refused, "evil.example"));
    // The host's files change, the user allows it, and the name still leads to a private address.
    let hosts = "127.0.0.1 good.example\n".to_owned();
    let resolving = Resolving { hosts, resolv_conf: String::new() };
    control.instruct(&Instruction::Resolving(resolving)).unwrap();
    let mut client = std::net::TcpStream::connect(address).unwrap();
    client.set_read_timeout(patience).unwrap();
    client.write_all(b"CONNECT good.example:443 HTTP/1.1\r\n\r\n").unwrap();
    let Some(Told::Question(question)) = control.hear().unwrap() else { panic!("the user is asked") };
    let answer = Answer { allow: true, session: false };
    control.instruct(&Instruction::Answer { number: question.number, answer }).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("good.example leads to 127.0.0.1, which isn't an address of the public internet"),
        "{answer}"
    );
    assert!(answer.contains("hint: palisade run --allow 127.0.0.1 "), "{answer}");
    drop(control);
    server.join().unwrap().unwrap();
}
