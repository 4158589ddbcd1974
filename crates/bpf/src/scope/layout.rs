// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes and decodes the bytes in the scopes' maps and events, as `programs/scope.h` and `programs/scope_event.h` declare
//! them, in the machine's byte order.

use std::time::Duration;

use super::event::{Event, Kind, Why};
use super::{Depth, Lacks, Scope, Settings, Totals, Verdict};

/// Must change with every layout below, because pinned maps outlive the program that made them.
pub(crate) const LAYOUT: u32 = 0x5c0_0002;

/// The most scopes at once.
pub(crate) const SCOPES: u32 = 4096;
/// Bytes of a scope's label.
pub(crate) const LABEL: usize = 48;
/// Bytes of a denied name, including the zero at its end.
pub(crate) const NAME: usize = 64;

const INHERIT: u32 = 1;
const CGROUP: u32 = 2;
const OFF: u32 = 4;
const LSM: u32 = 8;
const REPORT: u32 = 16;
const STRICT: u32 = 32;
const MEMORY: u32 = 64;
/// What the kernel lacks is stored above these bits, because a process that finds the pins has to know it.
const LACKS: u32 = 16;

/// `struct settings`.
pub(crate) fn encode_settings(settings: &Settings, lacks: Lacks) -> Vec<u8> {
    let (depth, hops, level) = match settings.depth {
        Depth::Off => (OFF, 0, 0),
        Depth::OneLevel => (0, 1, 0),
        Depth::Ancestry(hops) => (0, u32::from(hops), 0),
        Depth::Inherit => (INHERIT, 0, 0),
        Depth::Cgroup { level } => (CGROUP, 0, level),
    };
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    let flags = depth
        | bit(settings.lsm, LSM)
        | bit(settings.report, REPORT)
        | bit(settings.strict, STRICT)
        | bit(settings.memory, MEMORY)
        | lacks.bits() << LACKS;
    [flags, hops, level, LAYOUT].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// The keys of two cells: the programs' own knowledge, and the count of open scopes.
pub(crate) const KNOWN: [u8; 4] = 1_u32.to_ne_bytes();
pub(crate) const OPEN: [u8; 4] = 2_u32.to_ne_bytes();

/// One of these two cells: its first two words.
pub(crate) fn encode_cell(words: [u32; 2]) -> Vec<u8> {
    words.into_iter().chain([0, 0]).flat_map(u32::to_ne_bytes).collect()
}

/// Decodes the cell of [`OPEN`].
pub(crate) fn decode_open(bytes: &[u8]) -> u32 {
    word(bytes, 0).unwrap_or(0)
}

/// `Err` holds the other layout's number.
pub(crate) fn decode_settings(bytes: &[u8]) -> Result<Settings, u32> {
    let layout = word(bytes, 12).unwrap_or(0);
    if layout != LAYOUT {
        return Err(layout);
    }
    let (flags, hops) = (word(bytes, 0).unwrap_or(OFF), word(bytes, 4).unwrap_or(0));
    let depth = match (flags & (OFF | CGROUP | INHERIT), hops) {
        (OFF, _) => Depth::Off,
        (CGROUP, _) => Depth::Cgroup { level: word(bytes, 8).unwrap_or(0) },
        (INHERIT, _) => Depth::Inherit,
        (_, 1) => Depth::OneLevel,
        (_, hops) => Depth::Ancestry(u8::try_from(hops).unwrap_or(u8::MAX)),
    };
    Ok(Settings {
        depth,
        lsm: flags & LSM != 0,
        report: flags & REPORT != 0,
        strict: flags & STRICT != 0,
        memory: flags & MEMORY != 0,
    })
}

/// What the kernel lacked when the programs were loaded.
pub(crate) fn decode_lacks(settings: &[u8]) -> Lacks {
    Lacks::of_bits(word(settings, 0).unwrap_or(0) >> LACKS)
}

/// `struct scope`, with no marked processes.
pub(crate) fn encode_scope(scope: &Scope) -> Vec<u8> {
    let words = [scope.id, scope.verdict as u32, scope.owner, u32::from(scope.calls)];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    bytes.extend([0; 16]);
    bytes.extend(u64::try_from(scope.began.as_nanos()).unwrap_or(u64::MAX).to_ne_bytes());
    bytes.extend(scope.root.to_ne_bytes());
    bytes.extend((scope.profile & 3 | u32::from(scope.line) << 2).to_ne_bytes());
    let mut label = [0; LABEL];
    let mut length = scope.label.len().min(LABEL - 1);
    while !scope.label.is_char_boundary(length) {
        length -= 1;
    }
    label[..length].copy_from_slice(&scope.label.as_bytes()[..length]);
    bytes.extend(label);
    bytes
}

/// `None` for a free slot.
pub(crate) fn decode_scope(bytes: &[u8]) -> Option<Scope> {
    let id = word(bytes, 0).filter(|id| *id != 0)?;
    let label = bytes.get(48..48 + LABEL)?;
    let label = label.split(|byte| *byte == 0).next().unwrap_or_default();
    Some(Scope {
        id,
        verdict: verdict(word(bytes, 4)?)?,
        owner: word(bytes, 8)?,
        calls: word(bytes, 12)? != 0,
        beyond: long(bytes, 16)?,
        ever: long(bytes, 24)?,
        began: Duration::from_nanos(long(bytes, 32)?),
        root: word(bytes, 40)?,
        profile: word(bytes, 44)? & 3,
        line: word(bytes, 44)? & 4 != 0,
        label: String::from_utf8_lossy(label).into_owned(),
    })
}

/// `struct order`.
pub(crate) fn encode_order(born: u64, words: [u32; 4]) -> Vec<u8> {
    born.to_ne_bytes().into_iter().chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
}

/// `struct request`: an order's words, and the answer that stays if there is no such process.
pub(crate) fn encode_request(words: [u32; 4]) -> Vec<u8> {
    const MARK: u32 = 0;
    const UNMARK: u32 = 1;
    let nobody = match words[0] {
        MARK => NO_PROCESS,
        UNMARK => 1,
        _ => 0,
    };
    words.into_iter().chain([nobody]).flat_map(u32::to_ne_bytes).collect()
}

/// The answer to a request.
pub(crate) fn decode_answer(request: &[u8]) -> Option<u32> {
    word(request, 16)
}

/// The answer if no process was found.
pub(crate) const NO_PROCESS: u32 = 5;
/// The answer if the process has to be searched for.
pub(crate) const BY_SEARCH: u32 = u32::MAX;

/// `struct totals` of one processor.
pub(crate) fn decode_totals(bytes: &[u8]) -> Totals {
    let field = |number: usize| long(bytes, number * 8).unwrap_or(0);
    Totals {
        execs: field(0),
        killed: field(1),
        refused: field(2),
        lost: field(3),
        unmarked: field(4),
        overflowed: field(5),
    }
}

/// `struct place`: a file system's numbers and an inode number.
pub(crate) fn encode_place(device: (u32, u32), inode: u64) -> Vec<u8> {
    [inode, u64::from(device.0 << 20 | device.1 & 0xf_ffff)].into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// `struct name`; `None` for a name that is too long or empty.
pub(crate) fn encode_name(name: &[u8]) -> Option<[u8; NAME]> {
    let mut bytes = [0; NAME];
    let fits = !name.is_empty() && name.len() < NAME && !name.contains(&0) && !name.contains(&b'/');
    fits.then(|| {
        bytes[..name.len()].copy_from_slice(name);
        bytes
    })
}

/// `struct event`.
pub(crate) fn decode_event(bytes: &[u8]) -> Option<Event> {
    let kind = match word(bytes, 28)? {
        0 => Kind::Began,
        1 => Kind::Exec,
        3 => {
            let call = long(bytes, 16)?;
            let (number, argument) =
                (u32::try_from(call >> 32).ok()?, u32::try_from(call & 0xffff_ffff).ok()?);
            Kind::Call { number, argument }
        }
        4 => Kind::Unmarked,
        _ => return None,
    };
    let why = match word(bytes, 44)? {
        0 => Why::Watched,
        1 => Why::Mark,
        2 => Why::File,
        3 => Why::Name,
        4 => Why::Memory,
        _ => return None,
    };
    let length = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let path_length = length(68)?;
    let arguments_length = length(72)?;
    // The kernel's length includes the zero at the end.
    let path = usize::try_from(path_length - 1).ok().and_then(|length| bytes.get(128..128 + length.min(256)));
    let read =
        usize::try_from(arguments_length).ok().and_then(|length| bytes.get(384..384 + length.min(1024)));
    let whole = u32::try_from(arguments_length) == Ok(word(bytes, 76)?);
    let device = word(bytes, 24)?;
    let parents = (0..8).map_while(|number| word(bytes, 80 + number * 4)).take_while(|parent| *parent != 0);
    Some(Event {
        time: Duration::from_nanos(long(bytes, 0)?),
        kind,
        scope: word(bytes, 32)?,
        owner: word(bytes, 36)?,
        verdict: verdict(word(bytes, 40)?)?,
        why,
        distance: word(bytes, 48)?,
        memory: word(bytes, 52)? != 0,
        thread: word(bytes, 56)?,
        process: word(bytes, 60)?,
        uid: word(bytes, 64)?,
        parents: parents.collect(),
        comm: bytes.get(112..128)?.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
        device: (device >> 20, device & 0xf_ffff),
        inode: long(bytes, 8)?,
        path: path.unwrap_or_default().to_vec(),
        arguments: read.map(arguments),
        arguments_whole: whole,
    })
}

fn arguments(bytes: &[u8]) -> Vec<Vec<u8>> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

fn verdict(number: u32) -> Option<Verdict> {
    Some(match number {
        0 => Verdict::Watch,
        1 => Verdict::Warn,
        2 => Verdict::Kill,
        3 => Verdict::Refuse,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn settings_survive(depth in 0u8..5, hops in 2u8..17, level in 1u32..9, bits in 0u8..16, lacks in 0u32..8) {
            let depth = match depth {
                0 => Depth::Off,
                1 => Depth::OneLevel,
                2 => Depth::Ancestry(hops),
                3 => Depth::Inherit,
                _ => Depth::Cgroup { level },
            };
            let bit = |number: u8| bits & (1 << number) != 0;
            let settings = Settings { depth, lsm: bit(0), report: bit(1), strict: bit(2), memory: bit(3) };
            let lacks = Lacks::of_bits(lacks);
            let bytes = encode_settings(&settings, lacks);
            prop_assert_eq!((decode_settings(&bytes), decode_lacks(&bytes)), (Ok(settings), lacks));
        }

        #[test]
        fn labels_survive_as_far_as_there_is_room(label in "\\PC{0,60}", id in 1u32.., owner: u32) {
            let scope = Scope { id, owner, profile: id % 4, line: id % 8 > 3, label: label.clone(), ..Scope::default() };
            let bytes = encode_scope(&scope);
            prop_assert_eq!(bytes.len(), 96);
            let found = decode_scope(&bytes);
            prop_assert!(found.is_some_and(|found| label.starts_with(&found.label)
                && (found.label == label || found.label.len() + 4 >= LABEL)
                && (found.id, found.owner) == (id, owner)));
        }

        #[test]
        fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..1500)) {
            let _ = decode_event(&bytes);
            let _ = decode_settings(&bytes);
            let _ = decode_scope(&bytes);
            let _ = decode_totals(&bytes);
        }

        #[test]
        fn an_event_of_any_lengths_is_read(path: i32, arguments: i32, fill: u8) {
            let mut bytes = vec![fill; 1408];
            bytes[28..48].fill(0);
            bytes[68..72].copy_from_slice(&path.to_ne_bytes());
            bytes[72..76].copy_from_slice(&arguments.to_ne_bytes());
            let event = decode_event(&bytes);
            prop_assert!(event.is_some_and(|event| event.path.len() <= 256));
        }
    }

    #[test]
    fn arguments_are_apart() {
        assert_eq!(arguments(b"sh\0-c\0\0"), [b"sh".to_vec(), b"-c".to_vec(), Vec::new()]);
        assert_eq!(arguments(b"cut of"), [b"cut of".to_vec()]);
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn names_that_fit() {
        assert!(encode_name(&[b'a'; 63]).is_some());
        for bad in [&[b'a'; 64][..], b"", b"a/b", b"a\0b"] {
            assert!(encode_name(bad).is_none());
        }
    }

    #[test]
    fn other_layouts_are_told() {
        let mut bytes = encode_settings(&Settings::default(), Lacks::default());
        bytes[12..].copy_from_slice(&77_u32.to_ne_bytes());
        assert_eq!(decode_settings(&bytes), Err(77));
    }
}
