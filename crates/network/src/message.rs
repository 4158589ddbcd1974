// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages of the DNS, as far as they are read and written here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use domain::base::iana::{Class, Opcode, Rcode};
use domain::base::message_builder::AdditionalBuilder;
use domain::base::{Message, MessageBuilder, Name as Wire, ParsedName, Rtype, ToName, Ttl};
use domain::rdata::{A, Aaaa, Cname, Ptr};
use palisade_policy::network::Name;

/// How much a UDP answer may be: what gets through everywhere (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// How long a chain of aliases is followed.
const ALIASES: usize = 16;

/// What is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// For the addresses of a name, of IPv4 or IPv6.
    Address(Name, bool),
    /// For other data of a name.
    Other(Name),
    /// For the name of an address.
    Reverse(IpAddr),
    /// For a name that no host can have.
    Nonsense,
}

/// What becomes of a message.
#[derive(Debug)]
pub(crate) enum Query {
    /// No answer: it is an answer itself, or no message at all.
    Drop,
    /// An answer without more ado.
    Error(Vec<u8>),
    /// A question.
    Asked(Asked),
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply<'n> {
    /// Addresses of IPv4.
    V4(Ipv4Addr),
    /// Addresses of IPv6.
    V6(Ipv6Addr),
    /// A name.
    Name(&'n Name),
    /// There is the name, and nothing of what was asked for.
    Empty,
    /// There is no such name.
    NoSuchName,
    /// It couldn't be found out.
    Failure,
}

/// Reads a message that came to the server.
pub(crate) fn read(bytes: &[u8]) -> Query {
    let Ok(message) = Message::from_slice(bytes) else { return Query::Drop };
    let header = message.header();
    // Answering an answer makes two servers talk for ever.
    if header.qr() {
        return Query::Drop;
    }
    if header.opcode() != Opcode::QUERY {
        return error(message, Rcode::NOTIMP);
    }
    let Ok(question) = message.sole_question() else { return error(message, Rcode::FORMERR) };
    if message.header_counts().ancount() != 0 || header.tc() {
        return error(message, Rcode::FORMERR);
    }
    if message.opt().is_some_and(|opt| opt.version() != 0) {
        // BADVERS has its high bits in an OPT record; nobody has ever sent version 1.
        return error(message, Rcode::FORMERR);
    }
    if !matches!(question.qclass(), Class::IN | Class::ANY) {
        return error(message, Rcode::REFUSED);
    }
    if matches!(question.qtype(), Rtype::AXFR | Rtype::IXFR) {
        return error(message, Rcode::REFUSED);
    }
    let text = question.qname().to_string();
    Query::Asked(match (question.qtype(), text.parse::<Name>()) {
        (_, Ok(name)) if name.as_str().ends_with(".arpa") => {
            reverse(name.as_str()).map_or(Asked::Nonsense, Asked::Reverse)
        }
        (Rtype::A, Ok(name)) => Asked::Address(name, false),
        (Rtype::AAAA, Ok(name)) => Asked::Address(name, true),
        (_, Ok(name)) => Asked::Other(name),
        (_, Err(_error)) => Asked::Nonsense,
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

fn error(query: &Message<[u8]>, rcode: Rcode) -> Query {
    // A question that can't be read can't be repeated.
    let mut answer = match MessageBuilder::new_vec().start_error(query, rcode) {
        answer if query.sole_question().is_ok() => answer,
        _ => {
            let mut bare = MessageBuilder::new_vec();
            let header = bare.header_mut();
            header.set_id(query.header().id());
            header.set_qr(true);
            header.set_rcode(rcode);
            bare.answer()
        }
    };
    answer.header_mut().set_ra(true);
    Query::Error(answer.finish())
}

/// Writes the answer to a message that was [`read`].
pub(crate) fn answer(query: &[u8], reply: Reply<'_>, ttl: Duration) -> Option<Vec<u8>> {
    let query = Message::from_slice(query).ok()?;
    let rcode = match reply {
        Reply::NoSuchName => Rcode::NXDOMAIN,
        Reply::Failure => Rcode::SERVFAIL,
        Reply::V4(_) | Reply::V6(_) | Reply::Name(_) | Reply::Empty => Rcode::NOERROR,
    };
    let mut answer = MessageBuilder::new_vec().start_answer(query, rcode).ok()?;
    answer.header_mut().set_ra(true);
    let question = query.sole_question().ok()?;
    let name = question.qname();
    let ttl = Ttl::from_secs(u32::try_from(ttl.as_secs()).unwrap_or(u32::MAX));
    match reply {
        Reply::V4(address) => answer.push((name, ttl, A::new(address))).ok()?,
        Reply::V6(address) => answer.push((name, ttl, Aaaa::new(address))).ok()?,
        Reply::Name(host) => {
            let host: Wire<Vec<u8>> = host.as_str().parse().ok()?;
            answer.push((name, ttl, Ptr::new(host))).ok()?;
        }
        Reply::Empty | Reply::NoSuchName | Reply::Failure => {}
    }
    let mut additional = answer.additional();
    if query.opt().is_some() {
        extend(&mut additional)?;
    }
    Some(additional.finish())
}

fn extend(additional: &mut AdditionalBuilder<Vec<u8>>) -> Option<()> {
    additional
        .opt(|opt| {
            opt.set_udp_payload_size(PAYLOAD);
            Ok(())
        })
        .ok()
}

/// Writes a question to a server outside.
pub(crate) fn question(id: u16, name: &Name, v6: bool) -> Option<Vec<u8>> {
    let name: Wire<Vec<u8>> = name.as_str().parse().ok()?;
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id(id);
    message.header_mut().set_rd(true);
    let mut question = message.question();
    question.push((&name, if v6 { Rtype::AAAA } else { Rtype::A })).ok()?;
    let mut additional = question.additional();
    extend(&mut additional)?;
    Some(additional.finish())
}

/// What a server outside answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answered {
    /// It isn't the answer to the question.
    Unrelated,
    /// It doesn't fit, and is to be asked for over TCP.
    Truncated,
    /// The server couldn't, in the words of the DNS.
    Failure(String),
    /// There is no such name.
    NoSuchName,
    /// The addresses, none maybe, and how long they hold.
    Addresses(Vec<IpAddr>, Duration),
}

/// Reads the answer to a [`question`].
pub(crate) fn answered(bytes: &[u8], id: u16, name: &Name, v6: bool) -> Answered {
    read_answer(bytes, id, name, v6).unwrap_or(Answered::Unrelated)
}

fn read_answer(bytes: &[u8], id: u16, name: &Name, v6: bool) -> Option<Answered> {
    let message = Message::from_slice(bytes).ok()?;
    let header = message.header();
    let question = message.sole_question().ok()?;
    let kind = if v6 { Rtype::AAAA } else { Rtype::A };
    let wanted: Wire<Vec<u8>> = name.as_str().parse().ok()?;
    if !header.qr()
        || header.id() != id
        || question.qtype() != kind
        || question.qclass() != Class::IN
        || !question.qname().name_eq(&wanted)
    {
        return None;
    }
    if header.tc() {
        return Some(Answered::Truncated);
    }
    match header.rcode() {
        Rcode::NOERROR => {}
        Rcode::NXDOMAIN => return Some(Answered::NoSuchName),
        other => return Some(Answered::Failure(other.to_string())),
    }
    let mut owner: Wire<Vec<u8>> = wanted;
    let mut lives = u32::MAX;
    // Aliases come before what they lead to; servers that mix them up are followed all the same.
    for _alias in 0..ALIASES {
        let mut addresses = Vec::new();
        let mut alias = None;
        for record in message.answer().ok()? {
            let record = record.ok()?;
            if record.class() != Class::IN || !record.owner().name_eq(&owner) {
                continue;
            }
            let ttl = record.ttl().as_secs();
            if record.rtype() == kind {
                let address = if v6 {
                    record.to_record::<Aaaa>().ok()?.map(|record| IpAddr::V6(record.data().addr()))
                } else {
                    record.to_record::<A>().ok()?.map(|record| IpAddr::V4(record.data().addr()))
                };
                addresses.extend(address);
                lives = lives.min(ttl);
            } else if record.rtype() == Rtype::CNAME {
                let record = record.to_record::<Cname<ParsedName<_>>>().ok()??;
                alias = Some(record.data().cname().to_vec());
                lives = lives.min(ttl);
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
    Some(Answered::Failure("a chain of aliases without an end".to_owned()))
}
