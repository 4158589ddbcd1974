// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What of a call site may be overwritten, and by which bytes. Decided on bytes and addresses alone, and shared with
//! the code that is mapped into programs, so it knows of `core` alone.
//!
//! What is overwritten is the instruction *before* the `syscall`, never the `syscall`: the jump that is written ends
//! in the same two bytes (see [`TABLE`](crate::layout::TABLE)).
//!
//! Only known instructions are overwritten, and only if the bytes can't be the tail of another one. At the trap the
//! number of the call is in `rax`, which is what excludes most others: an instruction right before the `syscall`
//! that used memory near `rax` would have faulted.

/// `syscall`
pub const CALL: [u8; 2] = [0x0f, 0x05];
/// Bytes before a `syscall` that are looked at.
pub const BEFORE: usize = 18;
/// `read`'s number.
const READ: u64 = 0;
/// A page.
const PAGE: u64 = 4096;
/// `jmp *[address]`, without the address.
const JUMP: [u8; 3] = [0xff, 0x24, 0x25];
/// A prefix that means nothing before a jump.
const PREFIX: u8 = 0x3e;
/// `jmp` by a distance.
const NEAR: u8 = 0xe9;
/// Bytes of a jump by a distance.
const NEAR_LENGTH: u64 = 5;
/// Bytes of what stands at the end of such a jump: `jmp *0(%rip)`, and the address.
pub const LANDING: u64 = 14;

/// The GNU C library's `syscall`: arguments move up, and the last one comes from the stack.
const LOAD: [u8; 17] =
    [0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08];
/// Go's `Syscall6`: arguments move over, the last by `mov %rbx, %rdi`.
const MOVES: [u8; 12] = [0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf];
/// The GNU C library's `read`: whether there is one thread, a branch if not, and `xor %eax, %eax`. Bytes that vary
/// are 0 here.
const ZERO: [u8; 11] = [0x80, 0x3d, 0, 0, 0, 0, 0, 0x74, 0, 0x31, 0xc0];

/// What a site's bytes are.
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
    /// Bytes that are overwritten.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Number | Self::Load => 5,
            Self::Wide => 6,
            Self::Move => 3,
            Self::Zero => 2,
        }
    }

    /// Whether the site makes different calls.
    #[must_use]
    pub const fn varies(self) -> bool {
        matches!(self, Self::Load | Self::Move)
    }
}

/// The number that the bytes before a `syscall` would load, if they are a `mov` of one.
#[must_use]
pub const fn number(before: &[u8; BEFORE]) -> u32 {
    let [.., a, b, c, d] = *before;
    u32::from_le_bytes([a, b, c, d])
}

/// What the bytes before a `syscall` are, if the call with this number was made there.
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
    // A prefix that meant nothing to the `mov` would mean something to the jump: another segment's table.
    let segment = |byte: u8| matches!(byte, 0x64 | 0x65);
    if before[END - 7..END - 4] == [0x48, 0xc7, 0xc0] {
        return (!segment(before[END - 8])).then_some(Form::Wide);
    }
    if before[END - 5] != 0xb8 {
        return None;
    }
    // `mov` to r8d has the same opcode, behind a prefix, and others of that kind would add r12 to the jump's address;
    // `lea` and `nop` may have b8 for an operand, and don't fault.
    if matches!(before[END - 6], 0x40..=0x4f | 0x8d | 0x1f) || segment(before[END - 6]) {
        return None;
    }
    // An instruction with a displacement of b8 (one byte) and an immediate number: with a SIB byte or without.
    let immediate = |opcode: u8| matches!(opcode, 0x69 | 0x81 | 0xc7 | 0xf7);
    let near = |operand: u8| operand & 0xc0 == 0x40;
    let without = immediate(before[END - 7]) && near(before[END - 6]) && before[END - 6] & 7 != 4;
    let with = immediate(before[END - 8]) && near(before[END - 7]) && before[END - 7] & 7 == 4;
    (!without && !with).then_some(Form::Number)
}

/// Where a site is overwritten; none if it can't be without another thread seeing half of it: its first two bytes
/// must be in one aligned word, and all of it in one page.
#[must_use]
pub const fn place(site: u64, form: Form) -> Option<u64> {
    let Some(at) = site.checked_sub(form.length() as u64) else { return None };
    let in_one_page = at / PAGE == (site - 1) / PAGE;
    if at % 8 == 7 || !in_one_page { None } else { Some(at) }
}

/// A jump, without its last bytes, which stay: by a place in the table, whose address ends in a `syscall`.
#[must_use]
pub const fn through_table(entry: u32) -> [u8; 5] {
    let [first, second, ..] = entry.to_le_bytes();
    [JUMP[0], JUMP[1], JUMP[2], first, second]
}

/// A jump by a distance.
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

/// What is written at [`place`]: the first [`Form::length`] bytes of the answer.
#[must_use]
pub const fn written(form: Form, jump: [u8; 5]) -> [u8; 6] {
    let [a, b, c, d, e] = jump;
    if form.length() == 6 { [PREFIX, a, b, c, d, e] } else { [a, b, c, d, e, PREFIX] }
}

/// The distance of a jump of which only so many bytes are written, and where it leads; `kept` are the bytes that
/// follow these. What is written there doesn't cross into another page. None if there is no such address.
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

/// The distance from a jump to an address; none if it is too far.
#[must_use]
pub fn distance(at: u64, to: u64) -> Option<[u8; 4]> {
    let distance = to.wrapping_sub(at.wrapping_add(NEAR_LENGTH)).cast_signed();
    i32::try_from(distance).ok().map(i32::to_le_bytes)
}

/// What stands at the end of a jump by a distance.
#[must_use]
pub fn landing(address: u64) -> [u8; 14] {
    let mut jump = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    jump[6..].copy_from_slice(&address.to_le_bytes());
    jump
}

#[cfg(test)]
#[path = "site_tests.rs"]
mod tests;
