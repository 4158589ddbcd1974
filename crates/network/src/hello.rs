// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the name in a TLS client's first message (RFC 8446, 4.1.2; RFC 6066, 3).
//!
//! A malformed message is refused: if filter and server read one message in two ways, a client can bypass the filter.

use std::fmt;

/// The longest first message that is read. Those of browsers have 2 KiB; post-quantum keys make it 4.
pub(crate) const LONGEST: usize = 64 * 1024;

const HANDSHAKE: u8 = 0x16;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// The largest fragment of a record that isn't encrypted.
const FRAGMENT: usize = 1 << 14;

/// What the client's bytes so far mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Hello {
    /// The message is incomplete: nothing new is known before there are this many bytes.
    More(usize),
    /// The message is complete, with its name if it has one.
    Complete(Option<String>),
    /// It is no valid first message.
    Bad(&'static str),
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::More(_) => f.write_str("it isn't complete"),
            Self::Complete(Some(name)) => write!(f, "it is for {name:?}"),
            Self::Complete(None) => f.write_str("it names no server"),
            Self::Bad(why) => f.write_str(why),
        }
    }
}

/// Takes bytes from the front.
struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// The bytes after a length that has this many bytes.
    fn block(&mut self, bytes: usize) -> Option<Reader<'b>> {
        let length = self.number(bytes)?;
        self.take(length).map(Reader)
    }
}

/// Reads a TLS client's first bytes.
pub(crate) fn read(bytes: &[u8]) -> Hello {
    let mut message: Vec<u8> = Vec::new();
    let mut at = 0;
    loop {
        // The message's own header has its length.
        if let [kind, length @ ..] = &message[..] {
            if *kind != CLIENT_HELLO {
                return Hello::Bad("the TLS client's first message isn't a ClientHello");
            }
            if let [high, middle, low, body @ ..] = length {
                let length = usize::from(*high) << 16 | usize::from(*middle) << 8 | usize::from(*low);
                if length > LONGEST {
                    return Hello::Bad("the ClientHello is larger than 64 KiB");
                }
                if let Some(body) = body.get(..length) {
                    return match server_name(body) {
                        Some(name) => name,
                        None => Hello::Bad("the ClientHello is malformed"),
                    };
                }
            }
        }
        let Some(record) = bytes.get(at..) else { return Hello::More(at) };
        if record.first().is_some_and(|kind| *kind != HANDSHAKE)
            || record.get(1).is_some_and(|major| *major != 3)
        {
            return Hello::Bad("the client began with TLS and then sent something else");
        }
        let [_, _, _, high, low, rest @ ..] = record else { return bounded(at + 5) };
        let length = usize::from(*high) << 8 | usize::from(*low);
        if length == 0 || length > FRAGMENT {
            return Hello::Bad("a TLS record has an invalid length");
        }
        let Some(fragment) = rest.get(..length) else { return bounded(at + 5 + length) };
        message.extend_from_slice(fragment);
        at += 5 + length;
    }
}

const fn bounded(wanted: usize) -> Hello {
    if wanted > LONGEST { Hello::Bad("the ClientHello is larger than 64 KiB") } else { Hello::More(wanted) }
}

/// The name in a message's body. `None`: the body is malformed.
fn server_name(body: &[u8]) -> Option<Hello> {
    let mut body = Reader(body);
    let _version = body.take(2)?;
    let _random = body.take(32)?;
    let _session = body.block(1)?;
    let _suites = body.block(2)?;
    let _compression = body.block(1)?;
    if body.0.is_empty() {
        return Some(Hello::Complete(None));
    }
    let mut extensions = body.block(2)?;
    if !body.0.is_empty() {
        return None;
    }
    let mut name = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number(2)?;
        let mut data = extensions.block(2)?;
        if kind != usize::from(SERVER_NAME) {
            continue;
        }
        if name.is_some() {
            return Some(Hello::Bad("the ClientHello has two server names"));
        }
        let mut list = data.block(2)?;
        if !data.0.is_empty() || list.number(1)? != usize::from(HOST_NAME) {
            return None;
        }
        let host = list.block(2)?;
        if !list.0.is_empty() {
            return Some(Hello::Bad("the ClientHello has two server names"));
        }
        name = Some(std::str::from_utf8(host.0).ok()?.to_owned());
    }
    Some(Hello::Complete(name))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A first message with these extensions, in records of at most `fragment` bytes.
    pub(crate) fn hello_with(extensions: &[(u16, Vec<u8>)], fragment: usize) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 1]);
        body.extend([1, 0]);
        let extensions: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, data)| {
                let length = u16::try_from(data.len()).unwrap();
                [&kind.to_be_bytes()[..], &length.to_be_bytes(), data].concat()
            })
            .collect();
        body.extend(u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend(extensions);
        let mut message = vec![CLIENT_HELLO];
        message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
        message.extend(body);
        records(&message, fragment)
    }

    pub(crate) fn records(message: &[u8], fragment: usize) -> Vec<u8> {
        let record = |part: &[u8]| {
            [&[HANDSHAKE, 3, 1][..], &u16::try_from(part.len()).unwrap().to_be_bytes(), part].concat()
        };
        message.chunks(fragment).flat_map(record).collect()
    }

    /// The data of an extension with these names.
    pub(crate) fn names(names: &[&str]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|name| {
                [&[HOST_NAME][..], &u16::try_from(name.len()).unwrap().to_be_bytes(), name.as_bytes()]
                    .concat()
            })
            .collect();
        [&u16::try_from(list.len()).unwrap().to_be_bytes()[..], &list].concat()
    }

    pub(crate) fn hello(name: &str) -> Vec<u8> {
        hello_with(&[(43, vec![2, 3, 4]), (SERVER_NAME, names(&[name])), (21, vec![0; 300])], FRAGMENT)
    }

    fn named(name: &str) -> Hello {
        Hello::Complete(Some(name.to_owned()))
    }

    #[test]
    fn the_name_is_found_however_it_comes_in_pieces() {
        assert_eq!(read(&hello("example.com")), named("example.com"));
        for fragment in [1, 2, 3, 7, 64] {
            let bytes = hello_with(&[(SERVER_NAME, names(&["a.b"]))], fragment);
            assert_eq!(read(&bytes), named("a.b"), "{fragment}");
        }
        let whole = hello("example.com");
        for count in 0..whole.len() {
            let Hello::More(wanted) = read(&whole[..count]) else { panic!("{count}") };
            assert!(count < wanted && wanted <= whole.len(), "{count} {wanted}");
        }
        assert_eq!(read(&[whole, vec![1, 2, 3]].concat()), named("example.com"));
    }

    #[test]
    fn what_names_no_server_or_is_malformed() {
        assert_eq!(read(&hello_with(&[], 100)), Hello::Complete(None));
        assert_eq!(read(&hello_with(&[(43, vec![2, 3, 4])], 100)), Hello::Complete(None));
        let bad = |bytes: &[u8]| assert!(matches!(read(bytes), Hello::Bad(_)), "{bytes:?}");
        bad(&hello_with(&[(SERVER_NAME, names(&["a", "b"]))], 100));
        bad(&hello_with(&[(SERVER_NAME, names(&["a"])), (SERVER_NAME, names(&["b"]))], 100));
        bad(&hello_with(&[(SERVER_NAME, vec![0, 4, 1, 0, 1, b'a'])], 100));
        bad(&hello_with(&[(SERVER_NAME, vec![0, 40, 0, 0, 1, b'a'])], 100));
        bad(&hello_with(&[(SERVER_NAME, vec![0, 4, 0, 0, 1, 0xff])], 100));
        bad(&hello_with(&[(SERVER_NAME, vec![])], 100));
        bad(&records(&[2, 0, 0, 0], 100));
        bad(&records(&[1, 2, 0, 0], 100));
        bad(&[0x16, 3, 1, 0, 0]);
        bad(&[0x16, 3, 1, 0xff, 0xff]);
        bad(&[0x16, 2]);
        bad(b"GET / HTTP/1.1\r\n");
        let two = [records(&[1], 1), vec![0x17, 3, 3, 0, 1, 0]].concat();
        bad(&two);
    }

    #[test]
    fn one_that_never_ends_does_end() {
        let mut bytes = Vec::new();
        loop {
            match read(&bytes) {
                Hello::More(wanted) => {
                    assert!(wanted <= LONGEST);
                    let message = [&[1, 0, 0xff, 0xff][..], &[0; 70_000]].concat();
                    bytes = records(&message, 100)[..wanted].to_vec();
                }
                Hello::Bad(_) => break,
                Hello::Complete(_) => panic!("there is no end"),
            }
        }
    }

    #[test]
    fn any_bytes() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let _read = read(bytes);
            let _in_records = read(&records(bytes, 50));
            let _body = server_name(bytes);
        });
    }
}
