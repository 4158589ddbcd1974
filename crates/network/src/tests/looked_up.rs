// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests names: the answers inside, and the look-ups outside.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name as Wire, Rtype, ToName};
use domain::rdata::{A, Aaaa, Cname};
use palisade_policy::network::Fallback;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::spawn_local;

use super::{Serve, World, exactly, rest, rules, run, say};
use crate::datagram::Datagrams;
use crate::message::{Answered, Query, answered, read};
use crate::names::Names;
use crate::resolver::{Resolver, Trouble};

use crate::dns;
use crate::upstream::{Route, Upstream};
use palisade_event::Outcome;
use palisade_protocol::network::Resolving;

fn ask(name: &str, kind: Rtype) -> Vec<u8> {
    let name: Wire<Vec<u8>> = name.parse().unwrap();
    let mut question = MessageBuilder::new_vec().question();
    question.push((&name, kind)).unwrap();
    question.finish()
}

/// The code, and the data of the answers.
fn heard(answer: &[u8]) -> (Rcode, Vec<String>) {
    let message = Message::from_slice(answer).unwrap();
    let text = |record: domain::base::ParsedRecord<'_, [u8]>| match record.rtype() {
        Rtype::A => record.to_record::<A>().unwrap().unwrap().data().to_string(),
        Rtype::AAAA => record.to_record::<Aaaa>().unwrap().unwrap().data().to_string(),
        Rtype::PTR => {
            record.to_record::<domain::rdata::Ptr<_>>().unwrap().unwrap().data().ptrdname().to_string()
        }
        other => other.to_string(),
    };
    (message.header().rcode(), message.answer().unwrap().map(|record| text(record.unwrap())).collect())
}

/// A DNS server outside. The queried name selects its behaviour.
async fn outside() -> (SocketAddr, Rc<Cell<u32>>) {
    // A port that is free for UDP may be in use for TCP.
    let (udp, tcp, at) = loop {
        let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let at = udp.local_addr().unwrap();
        if let Ok(tcp) = TcpListener::bind(at).await {
            break (udp, tcp, at);
        }
    };
    let asked: Rc<Cell<u32>> = Rc::default();
    let counts = Rc::clone(&asked);
    spawn_local(async move {
        let mut buffer = [0; 2048];
        loop {
            let (count, from) = udp.recv_from(&mut buffer).await.unwrap();
            counts.set(counts.get() + 1);
            for answer in replies(&buffer[..count], false) {
                udp.send_to(&answer, from).await.unwrap();
            }
        }
    });
    spawn_local(async move {
        while let Ok((mut stream, _from)) = tcp.accept().await {
            let mut question = vec![0; stream.read_u16().await.unwrap().into()];
            stream.read_exact(&mut question).await.unwrap();
            for answer in replies(&question, true) {
                stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        }
    });
    (at, asked)
}

fn replies(question: &[u8], tcp: bool) -> Vec<Vec<u8>> {
    let query = Message::from_slice(question).unwrap();
    let asked = query.sole_question().unwrap();
    let name = asked.qname().to_string();
    let v6 = asked.qtype() == Rtype::AAAA;
    let coded = |rcode| MessageBuilder::new_vec().start_answer(query, rcode).unwrap();
    let mut answer = coded(Rcode::NOERROR);
    let own = asked.qname().to_vec();
    match name.split('.').next().unwrap() {
        "silent" => return Vec::new(),
        "missing" => return vec![coded(Rcode::NXDOMAIN).finish()],
        "broken" => return vec![coded(Rcode::SERVFAIL).finish()],
        "empty" => {}
        "only4" if v6 => {}
        "only6" if !v6 => {}
        "large" if !tcp => answer.header_mut().set_tc(true),
        "alias" => {
            let other: Wire<Vec<u8>> = "real.example".parse().unwrap();
            // The address before the alias, and an address of another name.
            if v6 {
                answer.push((&other, 5, Aaaa::new("2606:4700::1".parse().unwrap()))).unwrap();
            } else {
                answer.push((&other, 5, A::new("9.9.9.9".parse().unwrap()))).unwrap();
                let else_: Wire<Vec<u8>> = "else.example".parse().unwrap();
                answer.push((&else_, 5, A::new("6.6.6.6".parse().unwrap()))).unwrap();
            }
            answer.push((&own, 5, Cname::new(other))).unwrap();
        }
        "loop" => answer.push((&own, 5, Cname::new(own.clone()))).unwrap(),
        "forged" => {
            // First another number, then another question, then garbage, then the right answer.
            let mut forged = coded(Rcode::NOERROR);
            forged.push((&own, 5, A::new("6.6.6.6".parse().unwrap()))).unwrap();
            let mut other_number = forged.finish();
            other_number[0] ^= 1;
            let other_name = {
                let asked = ask("else.example", Rtype::A);
                let mut answer = MessageBuilder::new_vec()
                    .start_answer(Message::from_slice(&asked).unwrap(), Rcode::NOERROR)
                    .unwrap();
                answer.header_mut().set_id(query.header().id());
                answer.push((&own, 5, A::new("6.6.6.6".parse().unwrap()))).unwrap();
                answer.finish()
            };
            if !v6 {
                answer.push((&own, 5, A::new("9.9.9.9".parse().unwrap()))).unwrap();
            }
            return vec![other_number, other_name, vec![0xff; 11], vec![0; 600], answer.finish()];
        }
        _ if v6 => answer.push((&own, 5, Aaaa::new("2606:4700::1".parse().unwrap()))).unwrap(),
        _ => answer.push((&own, 5, A::new("9.9.9.9".parse().unwrap()))).unwrap(),
    }
    vec![answer.finish()]
}

#[test]
fn names_are_resolved_outside() {
    run(async {
        let (at, asked) = outside().await;
        let resolver = Resolver::new(&Resolving::default(), &[at], Duration::from_secs(2));
        let addresses = async |name: &str| {
            let addresses = resolver.addresses(&name.parse().unwrap()).await;
            addresses.map(|all| all.iter().map(IpAddr::to_string).collect::<Vec<_>>())
        };
        for name in ["plain.example", "alias.example", "large.example"] {
            assert_eq!(addresses(name).await.unwrap(), ["9.9.9.9", "2606:4700::1"], "{name}");
        }
        assert_eq!(addresses("only4.example").await.unwrap(), ["9.9.9.9"]);
        assert_eq!(addresses("only6.example").await.unwrap(), ["2606:4700::1"]);
        assert_eq!(addresses("forged.example").await.unwrap(), ["9.9.9.9"]);
        assert!(addresses("empty.example").await.unwrap().is_empty());
        assert_eq!(addresses("missing.example").await, Err(Trouble::NoSuchName));
        assert!(matches!(addresses("broken.example").await, Err(Trouble::Failed(_))));
        assert!(matches!(addresses("loop.example").await, Err(Trouble::Failed(_))));
        assert_eq!(addresses("localhost").await.unwrap(), ["127.0.0.1", "::1"]);
        // Known names aren't asked for again. Many requests at once cause one question of each kind.
        let before = asked.get();
        addresses("plain.example").await.unwrap();
        assert_eq!(asked.get(), before);
        let name = "once.example".parse().unwrap();
        let (one, other) = crate::wait::both(resolver.addresses(&name), resolver.addresses(&name)).await;
        assert_eq!(one, other);
        assert_eq!(asked.get(), before + 2);
    });
}

#[test]
fn a_silent_server_is_a_failure_in_time_and_another_is_asked() {
    run(async {
        let (at, _asked) = outside().await;
        let resolver = Resolver::new(&Resolving::default(), &[at], Duration::from_secs(2));
        let begun = Instant::now();
        assert!(matches!(
            resolver.addresses(&"silent.example".parse().unwrap()).await,
            Err(Trouble::Failed(_))
        ));
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
        let mute = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let gone = { UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap() };
        for first in [mute.local_addr().unwrap(), gone] {
            let resolver = Resolver::new(&Resolving::default(), &[first, at], Duration::from_secs(2));
            assert!(resolver.addresses(&"plain.example".parse().unwrap()).await.is_ok(), "{first}");
        }
    });
}

async fn world() -> World {
    let (at, _asked) = outside().await;
    let stated = ["allow *.example", "deny evil.example", "allow 127.0.0.0/8"];
    World::with(Serve::Echo, &rules(Fallback::Deny, &stated), |engine| {
        engine.resolver = Resolver::new(&Resolving::default(), &[at], Duration::from_millis(600));
    })
    .await
}

#[test]
fn questions_inside_are_answered() {
    run(async {
        let world = world().await;
        let answer =
            async |name: &str, kind| heard(&world.engine.answer(None, &ask(name, kind)).await.unwrap());
        let is = |data: &str| (Rcode::NOERROR, vec![data.to_owned()]);
        let empty = (Rcode::NOERROR, Vec::new());
        let missing = (Rcode::NXDOMAIN, Vec::new());
        assert_eq!(answer("plain.example", Rtype::A).await, is("198.18.0.1"));
        assert_eq!(answer("PLAIN.Example.", Rtype::AAAA).await, is("fd70:616c:6973::1"));
        assert_eq!(answer("only4.example", Rtype::A).await, is("198.18.0.2"));
        assert_eq!(answer("only4.example", Rtype::AAAA).await, empty);
        assert_eq!(answer("empty.example", Rtype::A).await, empty);
        assert_eq!(answer("missing.example", Rtype::A).await, missing);
        for name in ["evil.example", "elsewhere.org", "a b.example", "1.2.3.4", ".", "127.1"] {
            assert_eq!(answer(name, Rtype::A).await, missing, "{name}");
            assert_eq!(answer(name, Rtype::HTTPS).await, missing, "{name}");
        }
        for kind in [
            Rtype::HTTPS,
            Rtype::SVCB,
            Rtype::TXT,
            Rtype::MX,
            Rtype::SRV,
            Rtype::ANY,
            Rtype::from_int(65_280),
        ] {
            assert_eq!(answer("plain.example", kind).await, empty, "{kind}");
        }
        assert_eq!(answer("localhost", Rtype::A).await, is("127.0.0.1"));
        assert_eq!(answer("a.localhost", Rtype::AAAA).await, is("::1"));
        assert_eq!(answer("1.0.18.198.in-addr.arpa", Rtype::PTR).await, is("plain.example"));
        let six = format!("2.{}3.7.9.6.c.6.1.6.0.7.d.f.ip6.arpa", "0.".repeat(19));
        assert_eq!(answer(&six, Rtype::PTR).await, is("only4.example"));
        assert_eq!(answer("1.0.0.127.in-addr.arpa", Rtype::PTR).await, is("localhost"));
        for name in ["9.0.18.198.in-addr.arpa", "8.8.8.8.in-addr.arpa", "x.ip6.arpa", "in-addr.arpa"] {
            assert_eq!(answer(name, Rtype::PTR).await, missing, "{name}");
        }
        assert_eq!(answer("silent.example", Rtype::A).await.0, Rcode::SERVFAIL);
        // Refused names are reported, each once a second.
        let report = world.told(&[Outcome::Failed]).await;
        assert_eq!(
            (report.detail.outcome, report.host.as_str(), report.port),
            (Outcome::Refused, "evil.example", 0)
        );
        assert!(report.event.why.origin.is_some(), "{report:?}");
        assert!(report.event.why.text.contains("evil.example"), "{report:?}");
        assert_eq!(world.told(&[Outcome::Failed]).await.host, "elsewhere.org");
    });
}

#[test]
fn where_the_user_is_asked_nothing_goes_out_before() {
    run(async {
        let (at, asked) = outside().await;
        let world = World::with(Serve::Echo, &rules(Fallback::Ask, &[]), |engine| {
            engine.resolver = Resolver::new(&Resolving::default(), &[at], Duration::from_secs(2));
        })
        .await;
        let answer = world.engine.answer(None, &ask("secret-data.evil.example", Rtype::A)).await.unwrap();
        assert_eq!(heard(&answer).1.len(), 1);
        let world = World::with(Serve::Echo, &rules(Fallback::Deny, &["allow *.example"]), |engine| {
            engine.resolver = Resolver::new(&Resolving::default(), &[at], Duration::from_secs(2));
            engine.upstream =
                Upstream { route: Route::Proxy("http://127.0.0.1:1".parse().unwrap()), dns: Vec::new() };
        })
        .await;
        let answer = world.engine.answer(None, &ask("missing.example", Rtype::AAAA)).await.unwrap();
        assert_eq!(heard(&answer).1.len(), 1, "the proxy knows");
        assert_eq!(asked.get(), 0);
    });
}

#[test]
fn when_all_addresses_are_in_use_it_is_said() {
    run(async {
        let stated = ["allow *.example"];
        let hosts = "9.9.9.9 a.example b.example c.example\n".to_owned();
        let world = World::with(Serve::Echo, &rules(Fallback::Deny, &stated), |engine| {
            engine.names = Rc::new(std::cell::RefCell::new(Names::new(2, None)));
            let resolving = Resolving { hosts, ..Resolving::default() };
            engine.resolver = Resolver::new(&resolving, &[], Duration::from_secs(2));
        })
        .await;
        for (name, code) in [
            ("a.example", Rcode::NOERROR),
            ("b.example", Rcode::NOERROR),
            ("c.example", Rcode::SERVFAIL),
            ("a.example", Rcode::NOERROR),
        ] {
            assert_eq!(
                heard(&world.engine.answer(None, &ask(name, Rtype::A)).await.unwrap()).0,
                code,
                "{name}"
            );
        }
        assert_eq!(world.told(&[]).await.detail.outcome, Outcome::Strained);
    });
}

#[test]
fn answers_come_from_the_address_that_was_asked() {
    run(async {
        let world = world().await;
        let mut servers = vec![("0.0.0.0:0", "127.0.0.1:0", "127.7.7.7")];
        if std::net::UdpSocket::bind("[::1]:0").is_ok() {
            servers.push(("[::]:0", "[::1]:0", "::1"));
        }
        for (all, own, asked) in servers {
            let socket = std::net::UdpSocket::bind(all).unwrap();
            let port = socket.local_addr().unwrap().port();
            spawn_local(dns::serve(Rc::clone(&world.engine), Datagrams::new(socket.into()).unwrap()));
            let client = UdpSocket::bind(own).await.unwrap();
            let asked = SocketAddr::new(asked.parse().unwrap(), port);
            let mut buffer = [0; 2048];
            for rubbish in [&b""[..], b"x", &[0xff; 4000], &[0; 12], &[0x80; 40], &[0; 9000]] {
                client.send_to(rubbish, asked).await.unwrap();
            }
            client.send_to(&ask("plain.example", Rtype::A), asked).await.unwrap();
            loop {
                let (count, from) = client.recv_from(&mut buffer).await.unwrap();
                assert_eq!(from, asked);
                if heard(&buffer[..count]).1.len() == 1 {
                    break;
                }
            }
        }
    });
}

#[test]
fn questions_over_tcp_to_whatever_address() {
    run(async {
        let world = world().await;
        let mut client = world.to("8.8.8.8".parse().unwrap(), 53).await;
        for name in ["plain.example", "missing.example"] {
            let question = ask(name, Rtype::A);
            let framed = [&u16::try_from(question.len()).unwrap().to_be_bytes()[..], &question].concat();
            say(&mut client, &framed, true).await.unwrap();
            let length = client.read_u16().await.unwrap();
            let _answer = heard(&exactly(&mut client, length.into()).await);
        }
        // A wrong length, and other data.
        for rubbish in [&[0xff; 2][..], b"GET / HTTP/1.1\r\n\r\n", &[0, 1, 0]] {
            let mut client = world.to("8.8.8.8".parse().unwrap(), 53).await;
            say(&mut client, rubbish, false).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(rest(&mut client).await, b"");
        }
    });
}

#[test]
fn malformed_questions_are_dropped_or_told_so() {
    let header = |flags: [u8; 2], counts: [u8; 8]| [&[1, 2][..], &flags, &counts].concat();
    let one = header([1, 0], [0, 1, 0, 0, 0, 0, 0, 0]);
    let coded = |bytes: &[u8]| match read(bytes) {
        Query::Drop => None,
        Query::Error(answer) => {
            let message = Message::from_slice(&answer).unwrap();
            assert_eq!(message.header().id(), 0x102);
            assert!(message.header().qr());
            Some(message.header().rcode())
        }
        Query::Asked(asked) => panic!("{asked:?}"),
    };
    assert_eq!(coded(&[]), None);
    assert_eq!(coded(&[0; 11]), None);
    assert_eq!(coded(&header([0x81, 0], [0, 1, 0, 0, 0, 0, 0, 0])), None, "an answer");
    let wrong = Some(Rcode::FORMERR);
    assert_eq!(coded(&header([1, 0], [0; 8])), wrong, "no question");
    assert_eq!(coded(&one), wrong, "a question is missing");
    assert_eq!(coded(&[&one[..], &[0xc0, 12, 0, 1, 0, 1]].concat()), wrong, "a name that is itself");
    assert_eq!(
        coded(&[&one[..], &[0xc0, 14, 0xc0, 12, 0, 1, 0, 1]].concat()),
        wrong,
        "names that are each other"
    );
    assert_eq!(
        coded(&[&one[..], &[1, b'a', 0xc0, 12, 0, 1, 0, 1]].concat()),
        wrong,
        "a name that contains itself"
    );
    assert_eq!(coded(&[&one[..], &[0x40, 1, 0, 0, 1, 0, 1]].concat()), wrong, "a label of no kind");
    let long = [&[63][..], &[b'a'; 63]].concat().repeat(5);
    assert_eq!(coded(&[&one[..], &long, &[0, 0, 1, 0, 1]].concat()), wrong, "a name of 320 letters");
    let two = header([1, 0], [0, 2, 0, 0, 0, 0, 0, 0]);
    assert_eq!(
        coded(&[&two[..], &[1, b'a', 0, 0, 1, 0, 1, 1, b'b', 0, 0, 1, 0, 1]].concat()),
        wrong,
        "two questions"
    );
    let update = header([0x29, 0], [0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(coded(&[&update[..], &[1, b'a', 0, 0, 6, 0, 1]].concat()), Some(Rcode::NOTIMP));
    assert_eq!(coded(&[&one[..], &[1, b'a', 0, 0, 1, 0, 3]].concat()), Some(Rcode::REFUSED), "CHAOS");
    assert_eq!(coded(&[&one[..], &[1, b'a', 0, 0, 252, 0, 1]].concat()), Some(Rcode::REFUSED), "AXFR");
}

#[test]
fn any_bytes_as_question_and_as_answer() {
    let name = "a.example".parse().unwrap();
    bolero::check!().with_type::<(Vec<u8>, bool)>().for_each(|(bytes, v6)| {
        let check = |bytes: &[u8]| {
            if let Query::Asked(_) = read(bytes) {
                assert!(
                    crate::message::answer(bytes, crate::message::Reply::Empty, Duration::ZERO).is_some()
                );
            }
            let id = bytes.get(..2).map_or(0, |id| u16::from_be_bytes([id[0], id[1]]));
            assert_ne!(answered(bytes, id ^ 1, &name, *v6), Answered::NoSuchName);
            let _any = answered(bytes, id, &name, *v6);
        };
        check(bytes);
        // Random bytes behind valid ones.
        let mut question = crate::message::question(7, &name, *v6);
        question[2] |= 0x80;
        question[7] = 3;
        question.truncate(question.len() - 11);
        check(&[&question, &bytes[..]].concat());
        question[2] &= 0x7f;
        check(&[&question, &bytes[..]].concat());
    });
}
