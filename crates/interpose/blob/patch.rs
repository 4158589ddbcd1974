// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sites that lead to their bodies without a trap.
//!
//! What is overwritten is the instruction *before* the `syscall`, never the `syscall`: the jump that is written ends
//! in the same two bytes (see [`TABLE`]). So a thread that is about to execute the `syscall`, a branch to it and a
//! return address after it all find what they expect.
//!
//! Only known instructions are overwritten, and only if the bytes can't be the tail of another one. At the trap the
//! number of the call is in `rax`, which is what excludes most others: an instruction right before the `syscall`
//! that used memory near `rax` would have faulted.

use crate::bodies::Body;
use crate::call::{self, number};
use crate::layout::{ENTRANCE, ENTRANCE_TRAPS, ENTRANCES, SITES, TABLE, VARIANT, VARIANTS, VARYING, Varying};
use crate::trap::is_handlers;
use crate::{shared, state};
use core::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    fn displaced_load();
    fn displaced_move();
}

const PAGE: u64 = 4096;
/// Bytes before a `syscall` that are looked at.
const BEFORE: usize = 18;
/// `jmp *[address]`, without the address.
const JUMP: [u8; 3] = [0xff, 0x24, 0x25];
/// A prefix that means nothing before a jump.
const PREFIX: u8 = 0x3e;
/// A jump to itself.
const STAY: u16 = u16::from_le_bytes([0xeb, 0xfe]);

/// The GNU C library's `syscall`: arguments move up, and the last one comes from the stack.
const LOAD: [u8; 17] =
    [0x48, 0x89, 0xd6, 0x48, 0x89, 0xca, 0x4d, 0x89, 0xc2, 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 0x08];
/// Go's `Syscall6`: arguments move over, the last by `mov %rbx, %rdi`.
const MOVES: [u8; 12] = [0x49, 0x89, 0xf2, 0x48, 0x89, 0xfa, 0x48, 0x89, 0xce, 0x48, 0x89, 0xdf];
/// The GNU C library's `read`: whether there is one thread, a branch if not, and `xor %eax, %eax`. Bytes that vary
/// are 0 here.
const ZERO: [u8; 11] = [0x80, 0x3d, 0, 0, 0, 0, 0, 0x74, 0, 0x31, 0xc0];
/// `jmp` by a distance.
const NEAR: u8 = 0xe9;

/// What a site's bytes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `mov $number, %eax`, five bytes.
    Number,
    /// `mov $number, %rax` with a signed 32-bit number: the last six bytes.
    Wide,
    /// See [`LOAD`]: the last five bytes.
    Load,
    /// See [`MOVES`]: the last three bytes.
    Move,
    /// See [`ZERO`]: the last two bytes.
    Zero,
}

impl Form {
    /// Bytes that are overwritten.
    fn length(self) -> usize {
        match self {
            Self::Number | Self::Load => 5,
            Self::Wide => 6,
            Self::Move => 3,
            Self::Zero => 2,
        }
    }
}

/// What the bytes before a `syscall` are, if the call with this number was made there.
fn form(before: &[u8; BEFORE], call: u64) -> Option<Form> {
    const END: usize = BEFORE;
    if before[END - LOAD.len()..] == LOAD {
        return Some(Form::Load);
    }
    if before[END - MOVES.len()..] == MOVES {
        return Some(Form::Move);
    }
    let zero = &before[END - ZERO.len()..];
    let varies = |place: usize| matches!(place, 2..=5 | 8);
    if call == number::READ && (0..ZERO.len()).all(|place| varies(place) || zero[place] == ZERO[place]) {
        return Some(Form::Zero);
    }
    let number = u32::from_le_bytes([before[END - 4], before[END - 3], before[END - 2], before[END - 1]]);
    if u64::from(number) != call {
        return None;
    }
    if before[END - 7..END - 4] == [0x48, 0xc7, 0xc0] {
        return Some(Form::Wide);
    }
    if before[END - 5] != 0xb8 {
        return None;
    }
    // `mov` to r8d has the same opcode, behind a prefix; `lea` and `nop` may have b8 for an operand, and don't fault.
    if matches!(before[END - 6], 0x41 | 0x43 | 0x45 | 0x47 | 0x48..=0x4f | 0x8d | 0x1f) {
        return None;
    }
    // An instruction with a displacement of b8 (one byte) and an immediate number: with a SIB byte or without.
    let immediate = |opcode: u8| matches!(opcode, 0x69 | 0x81 | 0xc7 | 0xf7);
    let near = |operand: u8| operand & 0xc0 == 0x40;
    let without = immediate(before[END - 7]) && near(before[END - 6]) && before[END - 6] & 7 != 4;
    let with = immediate(before[END - 8]) && near(before[END - 7]) && before[END - 7] & 7 == 4;
    (!without && !with).then_some(Form::Number)
}

/// What came of trying to patch a site.
enum Tried {
    Done,
    Impossible,
    /// Somebody else was patching.
    Busy,
}

/// Patches a site, if that is possible. It makes no difference to the program but for speed. Answers whether it was
/// not tried, as somebody else was patching.
pub(crate) fn site(site: u64, call: u64, body: Body, first: bool) -> bool {
    if is_handlers(call) || call == number::RT_SIGRETURN {
        return false;
    }
    match attempt(site, call, body) {
        Tried::Done => _ = shared().patched.fetch_add(1, Ordering::Relaxed),
        Tried::Impossible if first => _ = shared().unpatchable.fetch_add(1, Ordering::Relaxed),
        Tried::Impossible => {}
        Tried::Busy => return true,
    }
    false
}

fn attempt(site: u64, call: u64, body: Body) -> Tried {
    // Before anything is looked at: a page is no library's while somebody patches in it.
    let Some(_lock) = Lock::take() else { return Tried::Busy };
    // What is read is in the page of the `syscall`, which was just executed, or is a library's, too.
    if site % PAGE < BEFORE as u64 && !is_library(site - BEFORE as u64) {
        return Tried::Impossible;
    }
    // SAFETY: readable, as said.
    let before = unsafe { core::ptr::read_volatile((site as usize - BEFORE) as *const [u8; BEFORE]) };
    let Some(form) = form(&before, call) else { return Tried::Impossible };
    let at = site - form.length() as u64;
    // Written in one piece, or after a jump to itself that is: its two bytes must be in one aligned word.
    let in_one_page = at & !(PAGE - 1) == (site - 1) & !(PAGE - 1);
    if at % 8 == 7 || !in_one_page || !is_library(at) {
        return Tried::Impossible;
    }
    let done = target(site, call, body, form).is_some_and(|target| write(at, form, target));
    if done { Tried::Done } else { Tried::Impossible }
}

/// Where a site's jump leads.
#[derive(Clone, Copy)]
struct Target {
    /// The place in the table.
    entry: usize,
    address: usize,
}

/// Makes what a site's jump leads to.
fn target(site: u64, call: u64, body: Body, form: Form) -> Option<Target> {
    let (place, address) = match form {
        Form::Number | Form::Wide | Form::Zero => (body.0, body.entry() as usize),
        Form::Load | Form::Move => {
            let free = &state().varying;
            let entrance = free
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| {
                    (free < VARYING as u32).then_some(free + 1)
                })
                .ok()? as usize;
            let displaced: unsafe extern "C" fn() =
                if form == Form::Load { displaced_load } else { displaced_move };
            let varying = (VARIANTS + VARIANT * entrance) as *mut Varying;
            // SAFETY: this entrance's own memory, which nobody knows of yet.
            unsafe {
                (*varying).displaced = displaced as usize as u64;
                (*varying).trap = (ENTRANCE_TRAPS + 2 * entrance) as u64;
                (*varying).site = site;
                (*varying).bodies[call as usize].store(body.entry() as u32, Ordering::Relaxed);
            }
            (SITES + entrance, ENTRANCES + ENTRANCE * entrance)
        }
    };
    let entry = TABLE + 8 * place;
    if state().table != 0 {
        // SAFETY: a place in the table that is this body's or entrance's.
        unsafe { AtomicU64::from_ptr(entry as *mut u64) }.store(address as u64, Ordering::Release);
    }
    Some(Target { entry, address })
}

/// Writes the jump. Other threads may be executing the site: they see the old instruction or the new one.
///
/// Either the bytes lie in one aligned word of eight, and are written by one store, which is what processors promise
/// to fetch whole (AMD64 Architecture Programmer's Manual, volume 2, 7.6.1). Or the first two bytes become a jump to
/// itself, all processors are made to fetch anew (`membarrier`, SYNC_CORE), the rest is written, they are made to
/// again, and the first two bytes become the jump's. Whoever comes by waits there for a few microseconds.
fn write(at: u64, form: Form, target: Target) -> bool {
    let low = (target.entry as u32).to_le_bytes();
    let length = form.length();
    let through_table = [JUMP[0], JUMP[1], JUMP[2], low[0], low[1]];
    let jump = if length >= 5 && state().table != 0 {
        through_table
    } else {
        // Where the table's place is taken (by a large program that isn't moved) a page near by stands for it.
        let first = if length == 6 { at + 1 } else { at };
        match landing(first, length.min(5), target) {
            Some([a, b, c, d]) => [NEAR, a, b, c, d],
            None => return false,
        }
    };
    let mut new = [PREFIX, jump[0], jump[1], jump[2], jump[3], jump[4]];
    if length < 6 {
        new.rotate_left(1);
    }
    let page = at & !(PAGE - 1);
    const READ_WRITE_EXECUTE: u64 = 7;
    const READ_EXECUTE: u64 = 5;
    // SAFETY: a page of a library's code, which nobody else may write; that it can be executed all the while is what
    // other threads need.
    if unsafe { call::call(number::MPROTECT, page, PAGE, READ_WRITE_EXECUTE) } != 0 {
        return false;
    }
    let offset = (at % 8) as usize;
    if offset + length <= 8 {
        // SAFETY: aligned, and within the page, which is writable now.
        let word = unsafe { AtomicU64::from_ptr((at & !7) as *mut u64) };
        let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
        bytes[offset..offset + length].copy_from_slice(&new[..length]);
        word.store(u64::from_le_bytes(bytes), Ordering::SeqCst);
    } else {
        let first = at as *mut u16;
        // SAFETY: two bytes in one word, at any address: x86 stores them whole.
        unsafe { store(first, STAY) };
        synchronise();
        for (number, byte) in new[..length].iter().enumerate().skip(2) {
            // SAFETY: within the page.
            unsafe { core::ptr::write_volatile((at as usize + number) as *mut u8, *byte) };
        }
        synchronise();
        // SAFETY: as above.
        unsafe { store(first, u16::from_le_bytes([new[0], new[1]])) };
    }
    // SAFETY: as it was.
    unsafe { call::call(number::MPROTECT, page, PAGE, READ_EXECUTE) };
    true
}

/// Makes a page with a jump to a target that can be jumped to from an instruction, and answers the distance.
///
/// Of the four bytes of a distance only the first `length - 1` are written; if the instruction is shorter than five
/// bytes, the others are the `syscall` and what is behind it, which all stay. So the page must be where they say.
/// (Chamith, Svensson, Dalessandro, Newton: Instruction punning, PLDI 2017.)
fn landing(at: u64, length: usize, target: Target) -> Option<[u8; 4]> {
    const READ_WRITE: u64 = 3;
    const READ_EXECUTE: u64 = 5;
    const PRIVATE: u64 = 0x2 | 0x20;
    const FIXED_NOREPLACE: u64 = 0x10_0000;
    const LOW: u64 = 0x40;
    let from = at + 5;
    let mut distance = [0; 4];
    let to = if length == 5 {
        // Wherever there is room: libraries lie together, and below 2 GiB is near what lies there.
        let low = if at >> 31 == 0 { LOW } else { 0 };
        map(0, PRIVATE | low)?
    } else {
        for (number, byte) in distance.iter_mut().enumerate().skip(length - 1) {
            // SAFETY: bytes of the `syscall` and one behind it: an instruction follows.
            *byte = unsafe { ((at as usize + number + 1) as *const u8).read() };
        }
        let to = |distance: [u8; 4]| from.wrapping_add_signed(i64::from(i32::from_le_bytes(distance)));
        // What is written there must not cross into another page.
        if to(distance) % PAGE > PAGE - 16 {
            distance[0] = 16;
        }
        let to = to(distance);
        map(to & !(PAGE - 1), PRIVATE | FIXED_NOREPLACE)?;
        to
    };
    let page = to & !(PAGE - 1);
    let distance = i32::try_from(to.wrapping_sub(from) as i64).ok();
    // jmp *0(%rip), and the address.
    let mut jump = [0xff, 0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    jump[6..].copy_from_slice(&(target.address as u64).to_le_bytes());
    // SAFETY: within the new page, which nobody knows of.
    unsafe {
        (to as *mut [u8; 14]).write_unaligned(jump);
        call::call(number::MPROTECT, page, PAGE, READ_EXECUTE);
    }
    if distance.is_none() {
        // SAFETY: what was just made.
        unsafe { call::call(number::MUNMAP, page, PAGE, 0) };
    }
    return distance.map(i32::to_le_bytes);

    fn map(page: u64, flags: u64) -> Option<u64> {
        // SAFETY: takes nothing's place.
        let mapped = unsafe { call::raw(number::MMAP, [page, PAGE, READ_WRITE, flags, u64::MAX, 0]) };
        if call::is_error(mapped) {
            return None;
        }
        if page != 0 && mapped as u64 != page {
            // SAFETY: what was just made.
            unsafe { call::call(number::MUNMAP, mapped as u64, PAGE, 0) };
            return None;
        }
        Some(mapped as u64)
    }
}

/// One store of two bytes.
///
/// # Safety
///
/// They are writable.
unsafe fn store(to: *mut u16, value: u16) {
    // An instruction of its own: what the compiler makes of an unaligned write may be two.
    // SAFETY: the caller's.
    unsafe {
        core::arch::asm!("mov word ptr [{to}], {value:x}", to = in(reg) to, value = in(reg) value, options(nostack, preserves_flags))
    };
}

/// Every processor that runs a thread of this process fetches instructions anew.
fn synchronise() {
    // MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
    // SAFETY: changes nothing.
    unsafe { call::call(number::MEMBARRIER, 1 << 5, 0, 0) };
}

/// One patches at a time, undisturbed by signals: a handler that came by a jump to itself would wait for ever.
struct Lock {
    mask: u64,
}

impl Lock {
    fn take() -> Option<Self> {
        // SAFETY: asks for a number.
        let process = unsafe { call::call(number::GETPID, 0, 0, 0) } as u32;
        let all = u64::MAX;
        let mut mask = 0_u64;
        // SIG_SETMASK
        // SAFETY: masks that are alive.
        unsafe {
            call::raw(number::RT_SIGPROCMASK, [2, &raw const all as u64, &raw mut mask as u64, 8, 0, 0]);
        }
        let lock = Self { mask };
        // If somebody is at it, it's given up. If that was a thread of the parent's at the moment of a fork, this process
        // patches no more: it can't be told from the child of a vfork, which has the parent's memory.
        if state().patching.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(lock);
        }
        lock.restore();
        // It was never taken: dropping it would give the holder's away, and end its page's being writable under it.
        core::mem::forget(lock);
        None
    }

    fn restore(&self) {
        // SAFETY: a mask that is alive.
        unsafe { call::raw(number::RT_SIGPROCMASK, [2, &raw const self.mask as u64, 0, 8, 0, 0]) };
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        state().patching.store(0, Ordering::Release);
        self.restore();
    }
}

/// Whether an address is in a file's code that is mapped for this process alone and can't be written: what a JIT
/// compiler writes isn't, and is left to trap.
fn is_library(address: u64) -> bool {
    let path = c"/proc/self/maps";
    const AT_FDCWD: u64 = -100_i64 as u64;
    const O_CLOEXEC: u64 = 0o2_000_000;
    // SAFETY: a string that ends with zero.
    let file = unsafe { call::raw(number::OPENAT, [AT_FDCWD, path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0]) };
    if file < 0 {
        return false;
    }
    let answer = query(file as u64, address).unwrap_or_else(|| scan(file as u64, address));
    // SAFETY: the descriptor that was just opened.
    unsafe { call::call(number::CLOSE, file as u64, 0, 0) };
    answer
}

/// Asks for the one mapping (`PROCMAP_QUERY`, Linux 6.11); none if the kernel doesn't know the question.
fn query(file: u64, address: u64) -> Option<bool> {
    const PROCMAP_QUERY: u64 = 0xc068_6611;
    // struct procmap_query: size, flags, address asked for; start, end, flags, page size, offset, inode; ...
    let mut query = [0_u64; 13];
    query[0] = 104;
    query[2] = address;
    // SAFETY: writes the structure.
    let answer = unsafe { call::call(number::IOCTL, file, PROCMAP_QUERY, query.as_mut_ptr() as u64) };
    const READ: u64 = 1;
    const EXECUTE: u64 = 4;
    match answer {
        0 => Some(query[5] == READ | EXECUTE && query[8] != 0),
        _ => None,
    }
}

/// Reads all mappings.
fn scan(file: u64, address: u64) -> bool {
    let mut text = [0_u8; 1024];
    let (mut field, mut number, mut start, mut inside) = (0, 0_u64, 0, false);
    let (mut rights, mut place) = (*b"----", 0);
    loop {
        // SAFETY: writes as much as there is room.
        let read = unsafe { call::call(number::READ, file, text.as_mut_ptr() as u64, text.len() as u64) };
        if read <= 0 {
            return false;
        }
        // START-END RIGHTS OFFSET DEVICE INODE PATH
        for byte in &text[..(read as usize).min(text.len())] {
            match (field, *byte) {
                (_, b'\n') => {
                    if inside {
                        return &rights == b"r-xp" && number != 0;
                    }
                    (field, number, place) = (0, 0, 0);
                }
                (0, b'-') => (start, number, field) = (number, 0, 1),
                (1, b' ') => (inside, field) = ((start..number).contains(&address), 2),
                (2, b' ') => (field, number) = (3, 0),
                (2, right) => {
                    if place < 4 {
                        rights[place] = right;
                    }
                    place += 1;
                }
                (3 | 4, b' ') => (field, number) = (field + 1, 0),
                (5, b' ') => field = 6,
                (0 | 1, digit) => number = number << 4 | u64::from((digit as char).to_digit(16).unwrap_or(0)),
                (5, digit) => number = number * 10 + u64::from(digit.wrapping_sub(b'0')),
                _ => {}
            }
        }
    }
}
