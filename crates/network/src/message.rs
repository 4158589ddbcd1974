// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes DNS messages, as far as the gateway needs them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use palisade_policy::network::Name;

use crate::wire::{Message, Question, WireName, Writer, class, code, flag, kind};

/// The largest UDP answer: this size gets through everywhere (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// How many aliases are followed in a chain.
const ALIASES: usize = 16;

/// The content of a question.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The addresses of a name, of IPv6 if true, else IPv4.
    Address(Name, bool),
    /// Other data of a name.
    Other(Name),
    /// The name of an address.
    Reverse(IpAddr),
    /// A name that no host can have.
    Nonsense,
}

/// What to do with a message.
#[derive(Debug)]
pub(crate) enum Query {
    /// No answer: the message is an answer itself, or malformed.
    Drop,
    /// Send this error.
    Error(Vec<u8>),
    /// Answer this question.
    Asked(Asked),
}

/// The content of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply<'n> {
    /// Addresses of IPv4.
    V4(Ipv4Addr),
    /// Addresses of IPv6.
    V6(Ipv6Addr),
    /// A name.
    Name(&'n Name),
    /// The name exists, but has no data of the requested type.
    Empty,
    /// There is no such name.
    NoSuchName,
    /// The look-up failed.
    Failure,
}

/// Reads a message that came to the server.
pub(crate) fn read(bytes: &[u8]) -> Query {
    let Some(message) = Message::new(bytes) else { return Query::Drop };
    // Answering an answer would make two servers exchange messages for ever.
    if message.has(flag::ANSWER) {
        return Query::Drop;
    }
    if message.has(flag::OPCODE) {
        return error(&message, code::NOTIMP);
    }
    let Some(question) = message.question() else { return error(&message, code::FORMERR) };
    if message.answers != 0 || message.has(flag::TRUNCATED) {
        return error(&message, code::FORMERR);
    }
    if message.edns().is_some_and(|version| version != 0) {
        // BADVERS has its high bits in an OPT record, so FORMERR is sent instead. No client uses version 1.
        return error(&message, code::FORMERR);
    }
    if !matches!(question.class, class::IN | class::ANY) {
        return error(&message, code::REFUSED);
    }
    if matches!(question.kind, kind::AXFR | kind::IXFR) {
        return error(&message, code::REFUSED);
    }
    Query::Asked(match (question.kind, question.name.host()) {
        (_, Some(name)) if name.as_str().ends_with(".arpa") => {
            reverse(name.as_str()).map_or(Asked::Nonsense, Asked::Reverse)
        }
        (kind::A, Some(name)) => Asked::Address(name, false),
        (kind::AAAA, Some(name)) => Asked::Address(name, true),
        (_, Some(name)) => Asked::Other(name),
        (_, None) => Asked::Nonsense,
    })
}

/// The address in a name under `in-addr.arpa` or `ip6.arpa`.
fn reverse(name: &str) -> Option<IpAddr> {
    if let Some(digits) = name.strip_suffix(".in-addr.arpa") {
        let mut parts = digits.split('.').map(|part| part.parse::<u8>());
        let mut next = || parts.next()?.ok();
        let [d, c, b, a] = [next()?, next()?, next()?, next()?];
        return parts.next().is_none().then(|| Ipv4Addr::new(a, b, c, d).into());
    }
    let digits = name.strip_suffix(".ip6.arpa")?;
    let (mut bits, mut count) = (0u128, 0);
    for digit in digits.split('.').rev() {
        count += 1;
        if digit.len() != 1 || count > 32 {
            return None;
        }
        bits = bits << 4 | u128::from(u8::from_str_radix(digit, 16).ok()?);
    }
    (count == 32).then(|| Ipv6Addr::from_bits(bits).into())
}

fn error(query: &Message<'_>, code: u8) -> Query {
    let answer = match query.question() {
        Some(question) => {
            let mut answer = Writer::answer_to(query, code);
            answer.question(&question);
            answer
        }
        // A question that can't be read can't be repeated in the answer.
        None => Writer::new(query.id, flag::ANSWER | flag::RECURSION_AVAILABLE | u16::from(code)),
    };
    Query::Error(answer.finish())
}

/// Writes the answer to a message that was [`read`].
pub(crate) fn answer(query: &[u8], reply: Reply<'_>, ttl: Duration) -> Option<Vec<u8>> {
    let query = Message::new(query)?;
    let question = query.question()?;
    let code = match reply {
        Reply::NoSuchName => code::NXDOMAIN,
        Reply::Failure => code::SERVFAIL,
        Reply::V4(_) | Reply::V6(_) | Reply::Name(_) | Reply::Empty => code::NOERROR,
    };
    let mut answer = Writer::answer_to(&query, code);
    answer.question(&question);
    let ttl = u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX);
    match reply {
        Reply::V4(address) => answer.answer(&question.name, kind::A, ttl, &address.octets()),
        Reply::V6(address) => answer.answer(&question.name, kind::AAAA, ttl, &address.octets()),
        Reply::Name(host) => answer.answer_name(&question.name, kind::PTR, ttl, &host.into()),
        Reply::Empty | Reply::NoSuchName | Reply::Failure => {}
    }
    if query.edns().is_some() {
        answer.edns(PAYLOAD);
    }
    Some(answer.finish())
}

/// Writes a question for a server outside.
pub(crate) fn question(id: u16, name: &Name, v6: bool) -> Vec<u8> {
    let mut message = Writer::new(id, flag::RECURSION_DESIRED);
    let kind = if v6 { kind::AAAA } else { kind::A };
    message.question(&Question { name: name.into(), kind, class: class::IN });
    message.edns(PAYLOAD);
    message.finish()
}

/// The answer of a server outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It doesn't answer the question.
    Unrelated,
    /// It is truncated, and must be asked for over TCP.
    Truncated,
    /// The server failed, with the DNS's word for the error.
    Failure(String),
    /// There is no such name.
    NoSuchName,
    /// The addresses (possibly none), and how long they are valid.
    Addresses(Vec<IpAddr>, Duration),
}

/// Reads the answer to a [`question`].
pub(crate) fn answered(bytes: &[u8], id: u16, name: &Name, v6: bool) -> Answered {
    read_answer(bytes, id, name, v6).unwrap_or(Answered::Unrelated)
}

fn read_answer(bytes: &[u8], id: u16, name: &Name, v6: bool) -> Option<Answered> {
    let message = Message::new(bytes)?;
    let question = message.question()?;
    let kind = if v6 { kind::AAAA } else { kind::A };
    let mut owner: WireName = name.into();
    if !message.has(flag::ANSWER)
        || message.id != id
        || question.kind != kind
        || question.class != class::IN
        || !question.name.same(&owner)
    {
        return None;
    }
    if message.has(flag::TRUNCATED) {
        return Some(Answered::Truncated);
    }
    match message.code() {
        code::NOERROR => {}
        code::NXDOMAIN => return Some(Answered::NoSuchName),
        other => return Some(Answered::Failure(code::word(other))),
    }
    let mut lives = u32::MAX;
    // Aliases come before the records that they lead to; answers in another order are accepted, too.
    for _alias in 0..ALIASES {
        let mut addresses = Vec::new();
        let mut alias = None;
        for record in message.answer() {
            let record = record?;
            if record.class != class::IN || !record.owner.same(&owner) {
                continue;
            }
            if record.kind == kind {
                addresses.push(if v6 {
                    IpAddr::from(<[u8; 16]>::try_from(record.data).ok()?)
                } else {
                    IpAddr::from(<[u8; 4]>::try_from(record.data).ok()?)
                });
                lives = lives.min(record.ttl);
            } else if record.kind == kind::CNAME {
                alias = Some(record.name()?);
                lives = lives.min(record.ttl);
            }
        }
        match alias {
            Some(alias) if addresses.is_empty() => owner = alias,
            _ => {
                let lives = if addresses.is_empty() { 0 } else { lives };
                return Some(Answered::Addresses(addresses, Duration::from_secs(lives.into())));
            }
        }
    }
    Some(Answered::Failure("an endless chain of aliases".to_owned()))
}
