// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests patching with any bytes around a site: either nothing is written, or a jump that leads to its target, ends
//! in the bytes that stay, and changes no other byte.

use super::*;
use crate::layout::{SITES, TABLE, VARYING};

/// How many bytes there are around a site, which can be anywhere in a page.
const AROUND: usize = 96;
const SITE: usize = 48;
const BASE: u64 = 0x7f12_3456_7000;

/// A processor's view of a jump: the address that it jumps to, or the address from which it reads its target.
#[derive(Debug, PartialEq, Eq)]
enum Jump {
    To(u64),
    By(u64),
}

/// Decodes a jump. It was written for the test from the instruction set's reference, independently of the code under
/// test.
fn decode(code: &[u8], at: u64) -> Option<(Jump, usize)> {
    let prefixes = code.iter().take_while(|byte| **byte == 0x3e).count();
    let number = |place: usize| {
        let text = code.get(prefixes + place..prefixes + place + 4)?;
        Some(i32::from_le_bytes(text.try_into().ok()?))
    };
    match code.get(prefixes..)? {
        // jmp rel32
        [0xe9, ..] => {
            let length = prefixes + 5;
            let next = at + length as u64;
            Some((Jump::To(next.wrapping_add_signed(i64::from(number(1)?))), length))
        }
        // ff /4 with mod 00, rm 100: a SIB byte; 25: neither base nor index, a signed displacement
        [0xff, 0x24, 0x25, ..] => Some((Jump::By(i64::from(number(3)?).cast_unsigned()), prefixes + 7)),
        _ => None,
    }
}

/// The input of a case, in few bytes: known bytes first, then random ones.
#[derive(Debug, bolero::TypeGenerator)]
struct Around {
    /// Which known bytes are put before the `syscall`, and how far they are cut or changed.
    known: u8,
    change: Option<(u8, u8)>,
    before: [u8; 24],
    after: [u8; 8],
    site: u16,
    call: u16,
    entry: u16,
    table: bool,
}

const KNOWN: [&[u8]; 6] = [
    &[0xb8, 0, 0, 0, 0],
    &[0x48, 0xc7, 0xc0, 0, 0, 0, 0],
    &LOAD,
    &MOVES,
    &[0x80, 0x3d, 1, 2, 3, 4, 0, 0x74, 0x13, 0x31, 0xc0],
    &[0x41, 0xb8, 0, 0, 0, 0],
];

/// The index of `read`'s bytes.
const READS: usize = 4;

impl Around {
    /// The bytes, with the `syscall` among them, and its number.
    fn bytes(&self) -> ([u8; AROUND], u64) {
        // Different bytes everywhere, so that a change anywhere shows.
        let mut pages: [u8; AROUND] = std::array::from_fn(|at| u8::try_from(at).unwrap());
        let site = SITE;
        let which = usize::from(self.known) % (KNOWN.len() + 1);
        let call = if which == READS && self.entry & 3 > 0 { 0 } else { u64::from(self.call % 512) };
        pages[site - self.before.len()..site].copy_from_slice(&self.before);
        if let Some(known) = KNOWN.get(which) {
            let mut known = known.to_vec();
            if known.ends_with(&[0, 0, 0, 0]) {
                let end = known.len() - 4;
                known[end..].copy_from_slice(&u32::try_from(call).unwrap().to_le_bytes());
            }
            pages[site - known.len()..site].copy_from_slice(&known);
        }
        // One byte differs: often the byte before the known ones, where a prefix would be.
        if let Some((at, to)) = self.change {
            pages[site - 1 - usize::from(at) % self.before.len()] = to;
        }
        pages[site..site + 2].copy_from_slice(&CALL);
        pages[site + 2..site + 2 + self.after.len()].copy_from_slice(&self.after);
        (pages, call)
    }
}

#[test]
fn what_is_written_is_nothing_or_a_sound_jump() {
    let (mut tried, mut patched) = (0_u32, [0_u32; 5]);
    bolero::check!().with_iterations(100_000).with_type::<Around>().for_each(|around| {
        let (pages, call) = around.bytes();
        let (offset, site) = (SITE, BASE + u64::from(around.site));
        let before: [u8; BEFORE] = pages[offset - BEFORE..offset].try_into().unwrap();
        tried += 1;
        let Some(form) = form(&before, call) else { return };
        let Some(at) = place(site, form) else { return };
        let start = offset - usize::try_from(site - at).unwrap();
        assert_eq!(at + form.length() as u64, site, "up to the syscall");
        assert_eq!(at / 4096, (site - 1) / 4096, "in one page");
        assert_eq!(at / 8, (at + 1) / 8, "its first two bytes are in one word");

        // The overwritten bytes have the recognised form.
        let old = &pages[start..offset];
        let loads = |text: &[u8]| text == u32::try_from(call).unwrap().to_le_bytes();
        match form {
            Form::Number => {
                assert!(old[0] == 0xb8 && loads(&old[1..]));
                assert!(!matches!(pages[start - 1], 0x40..=0x4f | 0x64 | 0x65), "no prefix of the jump's");
            }
            Form::Wide => {
                assert_eq!((pages[start - 1], &old[..2]), (0x48, &[0xc7, 0xc0][..]));
                assert!(loads(&old[2..]) && call <= 0x7fff_ffff);
                assert!(!matches!(pages[start - 2], 0x64 | 0x65), "no prefix of the jump's");
            }
            Form::Load => assert_eq!(old, [0x4c, 0x8b, 0x4c, 0x24, 0x08]),
            Form::Move => assert_eq!(old, [0x48, 0x89, 0xdf]),
            Form::Zero => assert_eq!((old, call), (&[0x31, 0xc0][..], 0)),
        }

        let entry = TABLE + 8 * (usize::from(around.entry) % (SITES + VARYING));
        let jump = jump_at(at, form);
        let length = form.length().min(5);
        let (bytes, wanted) = if form.length() >= 5 && around.table {
            (through_table(u32::try_from(entry).unwrap()), Jump::By(entry as u64))
        } else if length == 5 {
            let to = BASE.wrapping_add_signed(i64::from(around.call) * 4096 - (1 << 27));
            (near(distance(jump, to).unwrap()), Jump::To(to))
        } else {
            let kept = std::array::from_fn(|number| pages[start + length + number]);
            let Some((distance, to)) = punned(jump, length, kept) else { return };
            assert!(to % 4096 + LANDING <= 4096, "what it leads to is in one page");
            (near(distance), Jump::To(to))
        };
        let mut after = pages;
        after[start..offset].copy_from_slice(&written(form, bytes)[..form.length()]);

        assert_eq!(after[..start], pages[..start]);
        assert_eq!(after[offset..], pages[offset..], "the syscall stays");
        let (found, size) = decode(&after[start..], at).expect("a jump");
        assert_eq!(found, wanted);
        match found {
            // Its last two bytes are the syscall, so a branch to it still finds it.
            Jump::By(_) => assert_eq!(start + size, offset + 2),
            // It ends at the syscall, or uses bytes that stay.
            Jump::To(_) => assert!((offset..=offset + 3).contains(&(start + size))),
        }
        patched[form as usize] += 1;
    });
    if tried >= 50_000 {
        assert!(patched.iter().all(|times| *times > 100), "each form was met: {patched:?}");
    }
}

#[test]
fn a_distance_that_is_too_far_is_none() {
    assert_eq!(distance(0x1000, 0x1005), Some([0; 4]));
    assert_eq!(distance(0x1000, 0x1000), Some((-5_i32).to_le_bytes()));
    assert_eq!(distance(0x1000, 0x1_0000_0000), None);
    assert_eq!(punned(u64::MAX - 2, 2, [0; 4]), None);
    assert_eq!(landing(0x7a01_0000)[..6], [0xff, 0x25, 0, 0, 0, 0]);
    assert_eq!(landing(0x7a01_0000)[6..], 0x7a01_0000_u64.to_le_bytes());
}
