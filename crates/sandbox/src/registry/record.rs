// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record that a launch writes into its slot: the launcher, the command, and what confines it.
//!
//! A slot has a header of 24 bytes, then the record. The header holds version, length, checksum, and the process by which the
//! launch is judged when no launcher holds the slot, with the [`view`](Record::view). From the header alone another launch sees
//! that this one has ended. It is written in one call, but a reader may see a part of it: the checksum shows this. Untrusted
//! bytes, such as the command's words, are stored unchanged. The code that shows them makes them harmless.

use super::slot::SIZE;
use super::{Number, Tier};
use palisade_policy::NetworkMode;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Version of the format. A reader doesn't change slots of other versions.
pub const SCHEMA: u32 = 1;
/// The first bytes of a slot in use; the version follows.
const MAGIC: u32 = 0x5061_6c00;
/// The bytes before the record.
pub(super) const HEADER: usize = 24;
/// The checksum's data begins with the process.
const SUMMED: usize = 16;
/// The most bytes of a command's words, and of the paths of policy files, that are stored.
const LONGEST: usize = 640;
/// The most bytes of a profile's name that are stored.
const LONGEST_PROFILE: usize = 255;

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record<'a> {
    /// Its number.
    pub number: Number,
    /// When this was written, in nanoseconds since the machine's start (`CLOCK_BOOTTIME`). A process with one of the
    /// numbers below that began later is another process.
    pub written: u64,
    /// When the machine was started, in nanoseconds since 1970, by the clock. If a reader computes another time, the
    /// machine was started again, or the clock was set.
    pub boot: u64,
    /// The launcher has become the command: no launcher holds the slot, and the command's process must live.
    pub replaced: bool,
    /// The command.
    pub command: i32,
    /// Process 1 of the sandbox, if it has one.
    pub init: Option<i32>,
    /// The `/proc` that shows these numbers (its device), which stands for the PID namespace. 0: the lock on the slot
    /// says whether the launcher lives.
    pub view: u32,
    /// Which mechanisms separate it.
    pub tier: Tier,
    /// Its network mode.
    pub network: NetworkMode,
    /// The name that the user gives it.
    pub name: Option<&'a str>,
    /// The profile.
    #[serde(borrow)]
    pub profile: Option<Bytes<'a>>,
    /// Paths of policy files, each followed by a null byte.
    #[serde(borrow)]
    pub policies: Bytes<'a>,
    /// How many more policy files there are.
    pub more_policies: u32,
    /// The command's words, each followed by a null byte.
    #[serde(borrow)]
    pub words: Bytes<'a>,
    /// The last word is cut short, or more follow.
    pub more_words: bool,
}

impl Record<'_> {
    /// The process whose end ends the sandbox.
    #[must_use]
    pub fn last(&self) -> i32 {
        self.init.unwrap_or(self.command)
    }
}

/// Bytes, encoded in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bytes<'a>(pub &'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Bytes<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        <&'de [u8]>::deserialize(from).map(Bytes)
    }
}

impl<'a> Bytes<'a> {
    /// The parts before each null byte.
    pub fn parts(self) -> impl Iterator<Item = &'a [u8]> {
        let whole = self.0.strip_suffix(b"\0");
        whole.into_iter().flat_map(|whole| whole.split(|byte| *byte == 0))
    }
}

/// Consecutive parts, as many as fit into a fixed buffer.
#[derive(Debug)]
pub(super) struct Parts {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Parts {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }

    /// Adds a part with its null byte, if the whole part fits.
    pub(super) fn add(&mut self, part: &[u8]) -> bool {
        let fits = part.len() < LONGEST - self.length;
        if fits {
            self.put(part);
        }
        fits
    }

    /// Adds as much of a part as fits. Returns whether the whole part fits.
    pub(super) fn add_cut(&mut self, part: &[u8]) -> bool {
        let room = (LONGEST - self.length).saturating_sub(1);
        if self.length < LONGEST {
            self.put(&part[..part.len().min(room)]);
        }
        part.len() <= room
    }

    fn put(&mut self, part: &[u8]) {
        self.bytes[self.length..self.length + part.len()].copy_from_slice(part);
        self.length += part.len() + 1;
    }

    pub(super) fn bytes(&self) -> Bytes<'_> {
        Bytes(&self.bytes[..self.length])
    }
}

/// A profile's name, cut to the length that is stored.
pub(super) fn profile(name: &[u8]) -> Bytes<'_> {
    Bytes(&name[..name.len().min(LONGEST_PROFILE)])
}

/// What a slot holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    /// Nothing.
    Empty,
    /// A record.
    Record(Box<Record<'a>>),
    /// A record in a newer format that this program doesn't know.
    Newer,
    /// A part of a record, or other bytes.
    Garbage,
}

/// The slot's bytes for a record; `None` if it doesn't fit, which the limits above prevent.
pub(super) fn encoded<'b>(record: &Record<'_>, slot: &'b mut [u8; SIZE]) -> Option<&'b [u8]> {
    let (header, body) = slot.split_at_mut(HEADER);
    let length = postcard::to_slice(record, body).ok()?.len();
    header[..4].copy_from_slice(&(MAGIC + SCHEMA).to_le_bytes());
    header[4..8].copy_from_slice(&u32::try_from(length).ok()?.to_le_bytes());
    header[16..20].copy_from_slice(&record.last().to_le_bytes());
    header[20..24].copy_from_slice(&record.view.to_le_bytes());
    let sum = xxh3_64(&slot[SUMMED..HEADER + length]);
    slot[8..SUMMED].copy_from_slice(&sum.to_le_bytes());
    Some(&slot[..HEADER + length])
}

/// The process by which the content of a slot is judged when no launcher holds it, and the `/proc` that shows it. Reads
/// only the header, which may be garbage. `None`: the header is empty.
pub(super) fn judged_by(header: &[u8; HEADER]) -> Option<(i32, u32)> {
    let number = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]];
    let used = header.iter().any(|byte| *byte != 0);
    used.then(|| (i32::from_le_bytes(number(16)), u32::from_le_bytes(number(20))))
}

/// Reads a slot. Any content gives a result.
pub(super) fn decoded(slot: &[u8]) -> Content<'_> {
    let Some((header, body)) = slot.split_at_checked(HEADER) else {
        return if slot.iter().all(|byte| *byte == 0) { Content::Empty } else { Content::Garbage };
    };
    let number = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    match number(0).checked_sub(MAGIC) {
        Some(SCHEMA) => {}
        Some(version @ 1..=0xff) if version > SCHEMA => return Content::Newer,
        _ if header.iter().all(|byte| *byte == 0) => return Content::Empty,
        _ => return Content::Garbage,
    }
    let length = usize::try_from(number(4)).unwrap_or(usize::MAX);
    let end = HEADER.saturating_add(length);
    let summed = slot.get(SUMMED..end).filter(|summed| xxh3_64(summed).to_le_bytes() == header[8..SUMMED]);
    let record = summed.and_then(|_whole| postcard::from_bytes::<Record<'_>>(body.get(..length)?).ok());
    record.map_or(Content::Garbage, |record| Content::Record(Box::new(record)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record with a value in every member.
    pub(crate) fn example() -> Record<'static> {
        Record {
            number: Number { launcher: 4711, began: 1_700_000_000_123_456 },
            written: 5_000_000_000,
            replaced: false,
            command: 4714,
            init: Some(4713),
            view: 0,
            boot: 1_699_999_000_000_000_000,
            tier: Tier::Full,
            network: NetworkMode::Filtered,
            name: Some("web"),
            profile: Some(Bytes(b"npm")),
            policies: Bytes(b"/etc/palisade/config.toml\0"),
            more_policies: 2,
            words: Bytes(b"npm\0install\0\xff\0"),
            more_words: true,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut slot = [0; SIZE];
        let record = example();
        let written = encoded(&record, &mut slot).unwrap().len();
        assert_eq!(decoded(&slot), Content::Record(Box::new(record)));
        assert!(written < SIZE);
        // Bytes of an older record behind this one don't matter. A changed byte of its own does.
        slot[written..].fill(7);
        assert!(matches!(decoded(&slot), Content::Record(_)));
        slot[written - 1] ^= 1;
        assert_eq!(decoded(&slot), Content::Garbage);
    }

    #[test]
    fn a_header_alone_says_by_which_process_to_judge() {
        let mut slot = [0; SIZE];
        assert_eq!(judged_by(&[0; HEADER]), None);
        encoded(&Record { view: 77, ..example() }, &mut slot).unwrap();
        assert_eq!(judged_by(slot.first_chunk().unwrap()), Some((4713, 77)));
        encoded(&Record { init: None, ..example() }, &mut slot).unwrap();
        assert_eq!(judged_by(slot.first_chunk().unwrap()), Some((4714, 0)));
    }

    #[test]
    fn the_longest_record_fits() {
        let mut parts = Parts::new();
        while parts.add(b"x") {}
        assert!(!parts.add_cut(b"y"), "{:?}", parts.length);
        let record = Record {
            number: Number { launcher: u32::MAX, began: u64::MAX },
            written: u64::MAX,
            command: i32::MIN,
            init: Some(i32::MIN),
            view: u32::MAX,
            boot: u64::MAX,
            name: Some(std::str::from_utf8(&[b'n'; super::super::entry::LONGEST_NAME]).unwrap()),
            profile: Some(profile(&[b'p'; 1000])),
            policies: parts.bytes(),
            more_policies: u32::MAX,
            words: parts.bytes(),
            ..example()
        };
        let mut slot = [0; SIZE];
        assert!(encoded(&record, &mut slot).is_some());
        assert_eq!(decoded(&slot), Content::Record(Box::new(record)));
    }

    #[test]
    fn empty_newer_and_cut_short() {
        assert_eq!(decoded(&[0; SIZE]), Content::Empty);
        assert_eq!(decoded(&[]), Content::Empty);
        assert_eq!(decoded(&[0; 3]), Content::Empty);
        assert_eq!(decoded(b"abc"), Content::Garbage);
        let mut slot = [0; SIZE];
        let written = encoded(&example(), &mut slot).unwrap().len();
        for cut in 1..written {
            let content = decoded(&slot[..cut]);
            assert_eq!(content, Content::Garbage, "{cut}");
        }
        // The file of a machine that lost its power: the header was written, and the rest wasn't.
        let mut half = slot;
        half[64..].fill(0);
        assert_eq!(decoded(&half), Content::Garbage);
        slot[0] += 1;
        assert_eq!(decoded(&slot), Content::Newer);
    }

    #[test]
    fn parts_are_cut_where_the_room_ends() {
        let mut parts = Parts::new();
        assert!(parts.add(b"/a") && parts.add(b"") && !parts.add(&[b'x'; LONGEST]));
        assert!(parts.add_cut(b"b"));
        assert!(!parts.add_cut(&[b'y'; LONGEST]));
        assert!(!parts.add_cut(b"z"), "nothing more");
        let found: Vec<&[u8]> = parts.bytes().parts().collect();
        assert_eq!((found[0], found[1], found[2]), (&b"/a"[..], &b""[..], &b"b"[..]));
        assert!(found[3].iter().all(|byte| *byte == b'y'));
        assert_eq!(parts.bytes().0.len(), LONGEST);
        assert_eq!(Bytes(b"").parts().count(), 0);
        assert_eq!(Bytes(b"\0").parts().collect::<Vec<_>>(), [b""]);
        assert_eq!(Bytes(b"no end").parts().count(), 0);
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in prop::collection::vec(any::<u8>(), 0..SIZE)) {
            let _whatever_it_is = decoded(&bytes);
        }

        /// The header is valid, so that the record's decoder runs.
        #[test]
        fn no_record_is_too_strange(body in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut slot = (MAGIC + SCHEMA).to_le_bytes().to_vec();
            slot.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
            let summed = [&[0; HEADER - SUMMED][..], &body].concat();
            slot.extend_from_slice(&xxh3_64(&summed).to_le_bytes());
            slot.extend_from_slice(&summed);
            if let Content::Record(record) = decoded(&slot) {
                let _parts = record.words.parts().count() + record.policies.parts().count();
            }
        }

        #[test]
        fn one_wrong_bit_is_noticed(at in 0usize..100, bit in 0u32..8) {
            let mut slot = [0; SIZE];
            let written = encoded(&example(), &mut slot).unwrap().len();
            slot[at % written] ^= 1 << bit;
            let is_example = matches!(decoded(&slot), Content::Record(record) if *record == example());
            prop_assert!(!is_example);
        }
    }
}
