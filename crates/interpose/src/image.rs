// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes the code that all programs of a run share: the built image, and the bodies and entrances made from its
//! templates.

use crate::layout::{
    BODIES, BODY, CODE, CODE_LENGTH, ENTRANCE, ENTRANCE_TRAPS, ENTRANCES, Header, SLOT, SLOTS, Slot, TRAP,
    TRAPS, VARIANT, VARIANTS, VARYING, Varying,
};
use core::ops::Range;

/// The image as built, for [`CODE`].
static BUILT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/blob.bin"));
/// `syscall`
const CALL: [u8; 2] = [0x0f, 0x05];

/// A word of the header.
fn header(offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&BUILT[offset..offset + 8]);
    u64::from_le_bytes(word)
}

/// The address where a program begins.
pub(crate) fn init() -> u64 {
    header(core::mem::offset_of!(Header, init))
}

/// The offset of an address in the image.
fn place(address: u64) -> usize {
    usize::try_from(address).map_or(0, |address| address.wrapping_sub(CODE))
}

/// Writes all executable code but the bodies; `memory` represents the memory at [`CODE`], and is zero.
pub(crate) fn write(memory: &mut [u8]) {
    assert!(memory.len() >= CODE_LENGTH, "the memory was made for this");
    memory[..BUILT.len()].copy_from_slice(BUILT);
    let entrance = place(header(core::mem::offset_of!(Header, entrance)));
    let fields = place(header(core::mem::offset_of!(Header, entrance_fields)));
    let entrances = &mut memory[ENTRANCES - CODE..][..ENTRANCE * VARYING];
    repeat(entrances, &BUILT[entrance..entrance + ENTRANCE], &BUILT[fields..], 0, VARIANT);
    let back = VARIANTS + core::mem::offset_of!(Varying, back);
    fill_traps(&mut memory[ENTRANCE_TRAPS - CODE..][..TRAP * VARYING], back, VARIANT);
}

/// Where the bodies' traps are in the memory at [`CODE`].
pub(crate) const fn traps(numbers: &Range<usize>) -> Range<usize> {
    TRAPS - CODE + TRAP * numbers.start..TRAPS - CODE + TRAP * numbers.end
}

/// Writes the traps of bodies. The first body has number `first`; `memory` is [theirs](traps).
pub(crate) fn write_traps(memory: &mut [u8], first: usize) {
    fill_traps(memory, SLOTS + SLOT * first + core::mem::offset_of!(Slot, back), SLOT);
}

/// Fills memory with traps. Each has a jump to the address stored at `back`, which grows from one trap to the next.
fn fill_traps(memory: &mut [u8], back: usize, growth: usize) {
    for (trap, back) in memory.chunks_exact_mut(TRAP).zip((back..).step_by(growth)) {
        trap[..2].copy_from_slice(&CALL);
        trap[2..5].copy_from_slice(&[0xff, 0x24, 0x25]); // jmp *back
        trap[5..9].copy_from_slice(&u32::try_from(back).unwrap_or_default().to_le_bytes());
    }
}

/// Where bodies are in the memory at [`CODE`].
pub(crate) const fn bodies(numbers: &Range<usize>) -> Range<usize> {
    BODIES - CODE + BODY * numbers.start..BODIES - CODE + BODY * numbers.end
}

/// Writes bodies. The first one has number `first`; `memory` is [theirs](bodies), and zero.
pub(crate) fn write_bodies(memory: &mut [u8], first: usize) {
    let body = place(header(core::mem::offset_of!(Header, template)));
    let fields = place(header(core::mem::offset_of!(Header, fields)));
    repeat(memory, &BUILT[body..body + BODY], &BUILT[fields..], first, SLOT);
}

/// Fills memory with copies of a template, whose addresses grow from copy to copy. The first copy has number `first`.
fn repeat(memory: &mut [u8], template: &[u8], fields: &[u8], first: usize, growth: usize) {
    for (number, copy) in (first..).zip(memory.chunks_exact_mut(template.len())) {
        copy.copy_from_slice(template);
        for field in fields.iter().take_while(|field| **field != 0).map(|field| usize::from(*field)) {
            let mut address = [0; 4];
            address.copy_from_slice(&copy[field..field + 4]);
            let grown =
                u32::from_le_bytes(address).wrapping_add(u32::try_from(number * growth).unwrap_or_default());
            copy[field..field + 4].copy_from_slice(&grown.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{FIRST, SITES};

    #[test]
    fn each_body_works_with_its_own_slot() {
        let mut memory = vec![0; CODE_LENGTH];
        write(&mut memory);
        for numbers in [0..FIRST, FIRST..SITES] {
            write_bodies(&mut memory[bodies(&numbers)], numbers.start);
            write_traps(&mut memory[traps(&numbers)], numbers.start);
        }
        for number in [0, 1, FIRST - 1, FIRST, SITES - 1] {
            let body = &memory[BODIES - CODE + BODY * number..][..BODY];
            // movl SLOTS, %eax
            assert_eq!(body[..3], [0x8b, 0x04, 0x25]);
            let slot = u32::try_from(SLOTS + SLOT * number).unwrap();
            assert_eq!(body[3..7], slot.to_le_bytes());
            // plain, pass, after
            for call in [32, 96, 112] {
                assert_eq!(body[call..call + 2], CALL, "{number} {call}");
            }
        }
        let last = &memory[ENTRANCES - CODE + ENTRANCE * (VARYING - 1)..][..ENTRANCE];
        let variant = u32::try_from(VARIANTS + VARIANT * (VARYING - 1)).unwrap();
        assert_eq!(last[..2], [0x41, 0xbb]);
        assert_eq!(last[2..6], variant.to_le_bytes());
        // Each trap leads to where its body or its entrance continues.
        for number in [0, 1, FIRST - 1, FIRST, SITES - 1] {
            let trap = &memory[TRAPS - CODE + TRAP * number..][..TRAP];
            let back = u32::try_from(SLOTS + SLOT * number + core::mem::offset_of!(Slot, back)).unwrap();
            assert_eq!((&trap[..2], &trap[2..5]), (&CALL[..], &[0xff, 0x24, 0x25][..]));
            assert_eq!(trap[5..9], back.to_le_bytes());
        }
        let last = &memory[ENTRANCE_TRAPS - CODE + TRAP * (VARYING - 1)..][..TRAP];
        assert_eq!(last[..2], CALL);
        assert_eq!(
            last[5..9],
            (variant + u32::try_from(core::mem::offset_of!(Varying, back)).unwrap()).to_le_bytes()
        );
    }
}
