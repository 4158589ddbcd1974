// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire format of DNS messages: header, names, questions, records (RFC 1035, 4.1), and EDNS(0) (RFC 6891, 6.1).
//!
//! The tests write and read the same messages with the crate `domain`. It isn't used here because it brings five more
//! crates, a calendar and a second `syn` among them, for the work of these 200 lines.

use palisade_policy::network::Name;

/// Types of records.
pub(crate) mod kind {
    pub(crate) const A: u16 = 1;
    pub(crate) const CNAME: u16 = 5;
    pub(crate) const PTR: u16 = 12;
    pub(crate) const AAAA: u16 = 28;
    pub(crate) const OPT: u16 = 41;
    pub(crate) const IXFR: u16 = 251;
    pub(crate) const AXFR: u16 = 252;
}

/// Classes of records.
pub(crate) mod class {
    pub(crate) const IN: u16 = 1;
    pub(crate) const ANY: u16 = 255;
}

/// Codes of answers.
pub(crate) mod code {
    pub(crate) const NOERROR: u8 = 0;
    pub(crate) const FORMERR: u8 = 1;
    pub(crate) const SERVFAIL: u8 = 2;
    pub(crate) const NXDOMAIN: u8 = 3;
    pub(crate) const NOTIMP: u8 = 4;
    pub(crate) const REFUSED: u8 = 5;

    /// The DNS's own word for a code (RFC 6895, 2.3).
    pub(crate) fn word(code: u8) -> String {
        const WORDS: [&str; 11] = [
            "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
            "NXRRSET", "NOTAUTH", "NOTZONE",
        ];
        WORDS.get(usize::from(code)).map_or_else(|| code.to_string(), |word| (*word).to_owned())
    }
}

/// Bits of the header's second word.
pub(crate) mod flag {
    /// It is an answer.
    pub(crate) const ANSWER: u16 = 0x8000;
    /// The kind of question.
    pub(crate) const OPCODE: u16 = 0x7800;
    /// The message is truncated.
    pub(crate) const TRUNCATED: u16 = 0x0200;
    /// The client asks the server to ask other servers.
    pub(crate) const RECURSION_DESIRED: u16 = 0x0100;
    /// The server asks other servers.
    pub(crate) const RECURSION_AVAILABLE: u16 = 0x0080;
    /// The response code.
    pub(crate) const CODE: u16 = 0x000f;
}

/// The longest name, with its lengths and the root (RFC 1035, 2.3.4).
const LONGEST_NAME: usize = 255;
const HEADER: usize = 12;

/// A name: labels, each behind its length, without pointers. The last label is empty.
#[derive(Debug, Clone)]
pub(crate) struct WireName(Vec<u8>);

impl From<&Name> for WireName {
    fn from(name: &Name) -> Self {
        let mut wire = Vec::with_capacity(name.as_str().len() + 2);
        for label in name.as_str().split('.') {
            // A name's labels have at most 63 letters.
            wire.push(u8::try_from(label.len()).unwrap_or_default());
            wire.extend(label.as_bytes());
        }
        wire.push(0);
        Self(wire)
    }
}

impl WireName {
    /// Compares letters without their case. Length bytes are below every letter.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }

    /// The name of a host; `None` if no host can have it.
    pub(crate) fn host(&self) -> Option<Name> {
        let mut text = String::new();
        let mut rest = self.0.as_slice();
        while let Some((&length, after)) = rest.split_first()
            && length != 0
        {
            let (label, after) = after.split_at_checked(length.into())?;
            if !label.is_ascii() || label.contains(&b'.') {
                return None;
            }
            if !text.is_empty() {
                text.push('.');
            }
            text.extend(label.iter().copied().map(char::from));
            rest = after;
        }
        text.parse().ok()
    }
}

/// A question.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: WireName,
    pub(crate) kind: u16,
    pub(crate) class: u16,
}

/// A record, with its data in the message.
#[derive(Debug)]
pub(crate) struct Record<'m> {
    pub(crate) owner: WireName,
    pub(crate) kind: u16,
    pub(crate) class: u16,
    /// How many seconds it is valid; for an OPT record, this field has its version and other bits.
    pub(crate) ttl: u32,
    pub(crate) data: &'m [u8],
    /// To read names in the data, whose pointers may lead elsewhere.
    from: Reader<'m>,
}

impl Record<'_> {
    /// The name that is all of the data.
    pub(crate) fn name(&self) -> Option<WireName> {
        let mut reader = self.from;
        let name = reader.name()?;
        (reader.at == self.from.at + self.data.len()).then_some(name)
    }
}

/// A received message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message<'m> {
    bytes: &'m [u8],
    pub(crate) id: u16,
    pub(crate) flags: u16,
    questions: u16,
    pub(crate) answers: u16,
    authorities: u16,
    additional: u16,
}

impl<'m> Message<'m> {
    /// `None` if the header is incomplete.
    pub(crate) fn new(bytes: &'m [u8]) -> Option<Self> {
        let mut header = Reader { bytes, at: 0 };
        Some(Self {
            bytes,
            id: header.u16()?,
            flags: header.u16()?,
            questions: header.u16()?,
            answers: header.u16()?,
            authorities: header.u16()?,
            additional: header.u16()?,
        })
    }

    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn code(&self) -> u8 {
        u8::try_from(self.flags & flag::CODE).unwrap_or_default()
    }

    /// The question, if there is exactly one and it can be read.
    pub(crate) fn question(&self) -> Option<Question> {
        self.after_question().map(|(question, _rest)| question)
    }

    fn after_question(&self) -> Option<(Question, Reader<'m>)> {
        if self.questions != 1 {
            return None;
        }
        let mut reader = Reader { bytes: self.bytes, at: HEADER };
        let question = Question { name: reader.name()?, kind: reader.u16()?, class: reader.u16()? };
        Some((question, reader))
    }

    /// The records of the answer, up to one that can't be read, which is `None`.
    pub(crate) fn answer(&self) -> impl Iterator<Item = Option<Record<'m>>> {
        let mut reader = self.after_question().map(|(_question, reader)| reader);
        (0..self.answers).map_while(move |_count| {
            let record = reader.as_mut()?.record();
            if record.is_none() {
                reader = None;
            }
            Some(record)
        })
    }

    /// The version of EDNS in an OPT record; `None` without one.
    pub(crate) fn edns(&self) -> Option<u8> {
        let (_question, mut reader) = self.after_question()?;
        for _record in 0..u32::from(self.answers) + u32::from(self.authorities) {
            reader.record()?;
        }
        for _record in 0..self.additional {
            let record = reader.record()?;
            if record.kind == kind::OPT {
                let [_code, version, _flags @ ..] = record.ttl.to_be_bytes();
                return Some(version);
            }
        }
        None
    }
}

/// A position in a message.
#[derive(Debug, Clone, Copy)]
struct Reader<'m> {
    bytes: &'m [u8],
    at: usize,
}

impl<'m> Reader<'m> {
    fn take(&mut self, length: usize) -> Option<&'m [u8]> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    /// Reads a name, and follows its pointers. Each pointer must lead to a position before the current piece of the
    /// name, so there can be no loop.
    fn name(&mut self) -> Option<WireName> {
        let mut name = Vec::new();
        let mut reader = *self;
        let mut piece = self.at;
        // Where the message continues: behind the first pointer.
        let mut after = None;
        loop {
            let length = *reader.bytes.get(reader.at)?;
            match length {
                0..64 => {
                    name.extend(reader.take(1 + usize::from(length))?);
                    if name.len() > LONGEST_NAME || length != 0 && name.len() == LONGEST_NAME {
                        return None;
                    }
                    if length == 0 {
                        self.at = after.unwrap_or(reader.at);
                        return Some(WireName(name));
                    }
                }
                0xc0.. => {
                    let to = usize::from(reader.u16()? & 0x3fff);
                    after.get_or_insert(reader.at);
                    if to >= piece {
                        return None;
                    }
                    piece = to;
                    reader.at = to;
                }
                _ => return None,
            }
        }
    }

    fn record(&mut self) -> Option<Record<'m>> {
        let (owner, kind, class, ttl) = (self.name()?, self.u16()?, self.u16()?, self.u32()?);
        let length = self.u16()?.into();
        let from = *self;
        Some(Record { owner, kind, class, ttl, data: self.take(length)?, from })
    }
}

/// A message that is being written, without pointers: it has one record at most.
#[derive(Debug)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    /// A header without any sections.
    pub(crate) fn new(id: u16, flags: u16) -> Self {
        let mut bytes = Vec::with_capacity(512);
        bytes.extend(id.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.resize(HEADER, 0);
        Self(bytes)
    }

    /// The header of an answer to a message, without its question.
    pub(crate) fn answer_to(message: &Message<'_>, code: u8) -> Self {
        let kept = message.flags & (flag::OPCODE | flag::RECURSION_DESIRED);
        Self::new(message.id, kept | flag::ANSWER | flag::RECURSION_AVAILABLE | u16::from(code))
    }

    /// Counts one more record of a section. No section gets more than one.
    fn count(&mut self, section: usize) {
        self.0[4 + 2 * section + 1] += 1;
    }

    fn name(&mut self, name: &WireName) {
        self.0.extend(&name.0);
    }

    pub(crate) fn question(&mut self, question: &Question) {
        self.count(0);
        self.name(&question.name);
        self.0.extend(question.kind.to_be_bytes());
        self.0.extend(question.class.to_be_bytes());
    }

    fn record(&mut self, owner: &WireName, kind: u16, class: u16, ttl: u32, data: &[u8]) {
        self.name(owner);
        self.0.extend(kind.to_be_bytes());
        self.0.extend(class.to_be_bytes());
        self.0.extend(ttl.to_be_bytes());
        self.0.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
        self.0.extend(data);
    }

    pub(crate) fn answer(&mut self, owner: &WireName, kind: u16, ttl: u32, data: &[u8]) {
        self.count(1);
        self.record(owner, kind, class::IN, ttl, data);
    }

    pub(crate) fn answer_name(&mut self, owner: &WireName, kind: u16, ttl: u32, name: &WireName) {
        self.answer(owner, kind, ttl, &name.0);
    }

    /// States how large a UDP message may be.
    pub(crate) fn edns(&mut self, payload: u16) {
        self.count(3);
        self.record(&WireName(vec![0]), kind::OPT, payload, 0, &[]);
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}
