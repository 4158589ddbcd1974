// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which bytes of a call site may be overwritten, and by which bytes. It decides on bytes and addresses
//! alone. The code that is mapped into programs includes this file, too, so it uses only `core`.
//!
//! The instruction *before* the `syscall` is overwritten, never the `syscall`: the written jump ends in the same two
//! bytes (see [`TABLE`](crate::layout::TABLE)).
//!
//! Only known instructions are overwritten, and only if the bytes can't be the tail of another instruction. At the
//! trap `rax` holds the number of the call. This excludes most other instructions: an instruction right before the
//! `syscall` that used memory near `rax` would have faulted.

/// `syscall`
pub const CALL: [u8; 2] = [0x0f, 0x05];
/// How many bytes before a `syscall` are examined.
pub const BEFORE: usize = 18;
/// `read`'s number.
const READ: u64 = 0;
/// A page.
const PAGE: u64 = 4096;
/// `jmp *[address]`, without the address.
const JUMP: [u8; 3] = [0xff, 0x24, 0x25];
/// A prefix that has no meaning before a jump.
const PREFIX: u8 = 0x3e;
/// `jmp` with a distance.
const NEAR: u8 = 0xe9;
/// Length of a jump with a distance.
const NEAR_LENGTH: u64 = 5;
/// Length of the code at the target of such a jump: `jmp *0(%rip)`, and the address.
pub const LANDING: u64 = 14;

/// The GNU C library's `syscall`: arguments move up, and the last one comes from the stack.
const LOAD: [u8; 17] =
    [0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08];
/// Go's `Syscall6`: arguments move over, the last by `mov %rbx, %rdi`.
const MOVES: [u8; 12] = [0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf];
/// The GNU C library's `read`: a check for a single thread, a branch if there are more, and `xor %eax, %eax`. Bytes
/// that vary are 0 here.
const ZERO: [u8; 11] = [0x80, 0x3d, 0, 0, 0, 0, 0, 0x74, 0, 0x31, 0xc0];

/// The form of a site's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `mov $number, %eax`, five bytes.
    Number,
    /// `mov $number, %rax` with a signed 32-bit number: the last six bytes.
    Wide,
    /// The GNU C library's `syscall`, whose number varies: the last five bytes.
    Load,
    /// Go's `Syscall6`, whose number varies: the last three bytes.
    Move,
    /// The GNU C library's `read`: the last two bytes.
    Zero,
}

impl Form {
    /// How many bytes are overwritten.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Number | Self::Load => 5,
            Self::Wide => 6,
            Self::Move => 3,
            Self::Zero => 2,
        }
    }

    /// Whether the site makes calls with different numbers.
    #[must_use]
    pub const fn varies(self) -> bool {
        matches!(self, Self::Load | Self::Move)
    }
}

/// The number that the bytes before a `syscall` load, if they are a `mov` of a number.
#[must_use]
pub const fn number(before: &[u8; BEFORE]) -> u32 {
    let [.., a, b, c, d] = *before;
    u32::from_le_bytes([a, b, c, d])
}

/// The form of the bytes before a `syscall`, if the call with this number was made there.
#[must_use]
pub fn form(before: &[u8; BEFORE], call: u64) -> Option<Form> {
    const END: usize = BEFORE;
    if before[END - LOAD.len()..] == LOAD {
        return Some(Form::Load);
    }
    if before[END - MOVES.len()..] == MOVES {
        return Some(Form::Move);
    }
    let zero = &before[END - ZERO.len()..];
    let varies = |place: usize| matches!(place, 2..=5 | 8);
    if call == READ && (0..ZERO.len()).all(|place| varies(place) || zero[place] == ZERO[place]) {
        return Some(Form::Zero);
    }
    if u64::from(number(before)) != call {
        return None;
    }
    // A prefix without effect on the `mov` would affect the jump: it would read another segment's table.
    let segment = |byte: u8| matches!(byte, 0x64 | 0x65);
    if before[END - 7..END - 4] == [0x48, 0xc7, 0xc0] {
        return (!segment(before[END - 8])).then_some(Form::Wide);
    }
    if before[END - 5] != 0xb8 {
        return None;
    }
    // `mov` to r8d has the same opcode after a prefix, and other prefixes of that kind would add r12 to the jump's
    // address. `lea` and `nop` may have b8 as an operand, and don't fault.
    if matches!(before[END - 6], 0x40..=0x4f | 0x8d | 0x1f) || segment(before[END - 6]) {
        return None;
    }
    // An instruction with a displacement of b8 (one byte) and an immediate number, with a SIB byte or without.
    let immediate = |opcode: u8| matches!(opcode, 0x69 | 0x81 | 0xc7 | 0xf7);
    let near = |operand: u8| operand & 0xc0 == 0x40;
    let without = immediate(before[END - 7]) && near(before[END - 6]) && before[END - 6] & 7 != 4;
    let with = immediate(before[END - 8]) && near(before[END - 7]) && before[END - 7] & 7 == 4;
    (!without && !with).then_some(Form::Number)
}

/// The address where a site is overwritten; `None` if another thread could see a half-written jump. The first two
/// bytes must be in one aligned word, and all bytes in one page.
#[must_use]
pub const fn place(site: u64, form: Form) -> Option<u64> {
    let Some(at) = site.checked_sub(form.length() as u64) else { return None };
    let in_one_page = at / PAGE == (site - 1) / PAGE;
    if at % 8 == 7 || !in_one_page { None } else { Some(at) }
}

/// A jump through an entry of the table, without its last bytes, which stay: the entry's address ends in a `syscall`.
#[must_use]
pub const fn through_table(entry: u32) -> [u8; 5] {
    let [first, second, ..] = entry.to_le_bytes();
    [JUMP[0], JUMP[1], JUMP[2], first, second]
}

/// A jump with a distance.
#[must_use]
pub const fn near(distance: [u8; 4]) -> [u8; 5] {
    let [a, b, c, d] = distance;
    [NEAR, a, b, c, d]
}

/// Where the first byte of a jump is: an instruction of six bytes begins with a prefix.
#[must_use]
pub const fn jump_at(at: u64, form: Form) -> u64 {
    if form.length() == 6 { at + 1 } else { at }
}

/// The bytes to write at [`place`]: the first [`Form::length`] bytes of the result.
#[must_use]
pub const fn written(form: Form, jump: [u8; 5]) -> [u8; 6] {
    let [a, b, c, d, e] = jump;
    if form.length() == 6 { [PREFIX, a, b, c, d, e] } else { [a, b, c, d, e, PREFIX] }
}

/// The distance of a jump of which only some bytes are written, and the target of that jump; `kept` are the bytes
/// that follow the written ones. The code at the target doesn't cross a page boundary. `None` if there is no such
/// address.
///
/// (Chamith, Svensson, Dalessandro, Newton: Instruction punning, PLDI 2017.)
#[must_use]
pub fn punned(at: u64, length: usize, kept: [u8; 4]) -> Option<([u8; 4], u64)> {
    let mut distance = [0; 4];
    let own = length.checked_sub(1)?;
    for (to, from) in distance.iter_mut().skip(own).zip(kept) {
        *to = from;
    }
    let to = |distance: [u8; 4]| {
        at.checked_add(NEAR_LENGTH)?.checked_add_signed(i64::from(i32::from_le_bytes(distance)))
    };
    if to(distance)? % PAGE > PAGE - LANDING {
        distance[0] = 16;
    }
    let to = to(distance)?;
    (to % PAGE <= PAGE - LANDING).then_some((distance, to))
}

/// The distance from a jump to an address; `None` if it is too far.
#[must_use]
pub fn distance(at: u64, to: u64) -> Option<[u8; 4]> {
    let distance = to.wrapping_sub(at.wrapping_add(NEAR_LENGTH)).cast_signed();
    i32::try_from(distance).ok().map(i32::to_le_bytes)
}

/// The code at the target of a jump with a distance.
#[must_use]
pub fn landing(address: u64) -> [u8; 14] {
    let mut jump = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    jump[6..].copy_from_slice(&address.to_le_bytes());
    jump
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
