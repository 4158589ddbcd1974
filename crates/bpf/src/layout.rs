// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Encodes and decodes the bytes in the guard's maps and events, as `programs/matrix.h` and `programs/guard.bpf.c` declare
//! them, in the machine's byte order.

use std::time::Duration;

use crate::class::{Access, Matrix, Mode, ObjectClass, SubjectClass};
use crate::event::{Event, Reason, Verdict};

/// Must change with every layout below, because pinned maps outlive the program that made them.
pub(crate) const LAYOUT: u32 = 2;

/// `struct settings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) active: u8,
    pub(crate) report_allowed: bool,
    pub(crate) generation: u32,
    /// Generations from `grace_from` on are valid until this second of `CLOCK_BOOTTIME`.
    pub(crate) grace_until: u32,
    pub(crate) grace_from: u32,
}

impl Settings {
    pub(crate) const FIRST: Self = Self {
        mode: Mode::Off,
        active: 0,
        report_allowed: false,
        generation: 1,
        grace_until: 0,
        grace_from: 0,
    };

    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![self.mode as u8, self.active];
        bytes.extend(u16::from(self.report_allowed).to_ne_bytes());
        bytes.extend(self.generation.to_ne_bytes());
        for word in [LAYOUT, self.grace_until, self.grace_from, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }

    /// `Err` holds the other layout's number.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, u32> {
        let layout = word(bytes, 8).unwrap_or(0);
        if layout != LAYOUT {
            return Err(layout);
        }
        let mode = match bytes.first() {
            Some(0) => Mode::Off,
            Some(1) => Mode::Permissive,
            _ => Mode::Enforce,
        };
        Ok(Self {
            mode,
            active: bytes.get(1).copied().unwrap_or(0) & 1,
            report_allowed: bytes.get(2).is_some_and(|byte| byte & 1 == 1),
            generation: word(bytes, 4).unwrap_or(0),
            grace_until: word(bytes, 12).unwrap_or(0),
            grace_from: word(bytes, 16).unwrap_or(0),
        })
    }
}

/// `struct table`.
pub(crate) fn encode_matrix(matrix: &Matrix) -> Vec<u8> {
    let mut bytes: Vec<u8> = matrix.rows().flat_map(u64::to_ne_bytes).collect();
    for subject in matrix.transitions() {
        bytes.extend(subject.map_or(u32::MAX, |subject| u32::from(subject.number())).to_ne_bytes());
    }
    bytes
}

/// `struct record`.
pub(crate) fn encode_record(class: u8, generation: u32, confirmed: bool) -> Vec<u8> {
    [u32::from(class), generation, u32::from(confirmed), 0].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// `struct record` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) class: u32,
    pub(crate) generation: u32,
    pub(crate) confirmed: bool,
    /// Whether the class is about to end, because the file's owner or mode was changed.
    pub(crate) ending: bool,
}

pub(crate) fn decode_record(bytes: &[u8]) -> Option<Record> {
    Some(Record {
        class: word(bytes, 0)?,
        generation: word(bytes, 4)?,
        confirmed: word(bytes, 8)? != 0,
        ending: word(bytes, 12)? != 0,
    })
}

/// `struct counts`: allowed, refused.
pub(crate) fn decode_counts(bytes: &[u8]) -> (u64, u64) {
    (long(bytes, 0).unwrap_or(0), long(bytes, 8).unwrap_or(0))
}

/// A single counter.
pub(crate) fn decode_count(bytes: &[u8]) -> u64 {
    long(bytes, 0).unwrap_or(0)
}

/// `struct event`.
pub(crate) fn decode_event(bytes: &[u8]) -> Option<Event> {
    let access = match word(bytes, 32)? {
        0 => Access::Execute,
        1 => Access::Map,
        _ => return None,
    };
    let verdict = match word(bytes, 36)? {
        0 => Verdict::Allowed,
        1 => Verdict::Refused,
        2 => Verdict::WouldBeRefused,
        _ => return None,
    };
    let reason = match word(bytes, 48)? {
        0 => Reason::Classified,
        1 => Reason::Never,
        2 => Reason::Stale,
        3 => Reason::Writer,
        4 => Reason::Unconfirmed,
        5 => Reason::Foreign,
        6 => Reason::Memory,
        7 => Reason::Spared,
        _ => return None,
    };
    let length = i32::from_ne_bytes(bytes.get(52..56)?.try_into().ok()?);
    // The kernel's length includes the zero at the end.
    let path =
        usize::try_from(length - 1).ok().and_then(|length| bytes.get(72..72 + length)).map(<[u8]>::to_vec);
    let comm = bytes.get(56..72)?;
    let device = word(bytes, 16)?;
    Some(Event {
        time: Duration::from_nanos(long(bytes, 0)?),
        inode: long(bytes, 8)?,
        device: (device >> 20, device & 0xf_ffff),
        thread: word(bytes, 20)?,
        process: word(bytes, 24)?,
        uid: word(bytes, 28)?,
        access,
        verdict,
        subject: SubjectClass::from_kernel(word(bytes, 40)?),
        object: ObjectClass::from_kernel(word(bytes, 44)?),
        reason,
        comm: comm.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
        path: path.filter(|path| !path.is_empty()),
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
        fn settings_survive(
            mode in 0u8..3,
            active in 0u8..2,
            report_allowed: bool,
            generation: u32,
            grace_until: u32,
            grace_from: u32,
        ) {
            let mode = [Mode::Off, Mode::Permissive, Mode::Enforce][usize::from(mode)];
            let settings = Settings { mode, active, report_allowed, generation, grace_until, grace_from };
            prop_assert_eq!(Settings::decode(&settings.encode()), Ok(settings));
        }

        #[test]
        fn no_bytes_stop_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..1200)) {
            let _ = decode_event(&bytes);
            let _ = Settings::decode(&bytes);
            let _ = decode_record(&bytes);
        }
    }

    #[test]
    fn sizes_are_those_of_the_programs() {
        assert_eq!(Settings::FIRST.encode().len(), 24);
        assert_eq!(encode_matrix(&Matrix::default()).len(), 1280);
        assert_eq!(encode_record(1, 2, true).len(), 16);
    }

    #[test]
    fn other_layouts_are_told() {
        let mut bytes = Settings::FIRST.encode();
        bytes[8] = 77;
        assert_eq!(Settings::decode(&bytes), Err(77));
    }
}
