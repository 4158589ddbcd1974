// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Patches sites, so that they lead to their bodies without a trap.
//!
//! [`site`](crate::site) decides which bytes are overwritten and by what. A thread that is about to execute the
//! `syscall`, a branch to it and a return address after it all find the bytes that they expect.

use crate::bodies::Body;
use crate::call::{self, number};
use crate::layout::{
    ENTRANCE, ENTRANCE_TRAPS, ENTRANCES, SITES, TABLE, TRAP, VARIANT, VARIANTS, VARYING, Varying,
};
use crate::maps::{self, Pages};
use crate::site::{self, BEFORE, Form, LANDING};
use crate::trap::is_handlers;
use crate::{shared, state};
use core::sync::atomic::{AtomicU64, Ordering};

unsafe extern "C" {
    fn displaced_load();
    fn displaced_move();
}

const PAGE: u64 = 4096;
/// A jump to itself.
const STAY: u16 = u16::from_le_bytes([0xeb, 0xfe]);

/// The result of an attempt to patch a site.
enum Tried {
    Done,
    Impossible,
    /// Another thread was patching.
    Busy,
}

/// Patches a site, if that is possible. The program doesn't notice it except by speed. Returns true if there was no
/// attempt because another thread was patching.
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
    // The lock comes first: while another thread patches in a page, the page doesn't look like a library's.
    let Some(_lock) = Lock::take() else { return Tried::Busy };
    // The bytes to read are in the page of the `syscall`, which was just executed, or in a library's page, too.
    if site % PAGE < BEFORE as u64 && maps::library(site - BEFORE as u64).is_none() {
        return Tried::Impossible;
    }
    // SAFETY: needed: the bytes are the program's, at an address that is only a number. Sound: they lie in the page of the
    // `syscall` that was just executed, or `library` has found the page before it; code pages are readable.
    let before = unsafe { core::ptr::read_volatile((site as usize - BEFORE) as *const [u8; BEFORE]) };
    let Some(form) = site::form(&before, call) else { return Tried::Impossible };
    let Some(at) = site::place(site, form) else { return Tried::Impossible };
    let Some(pages) = maps::library(at) else { return Tried::Impossible };
    let done = target(site, call, body, form).is_some_and(|target| write(at, form, target, pages));
    if done { Tried::Done } else { Tried::Impossible }
}

/// Where a site's jump leads.
#[derive(Clone, Copy)]
struct Target {
    /// The address of the pointer in the table.
    entry: usize,
    address: usize,
}

/// Makes the target of a site's jump.
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
            // SAFETY: needed: the memory is at a fixed address. Sound: `fetch_update` gave this entrance to this thread alone,
            // no jump leads to it yet, and the process keeps the memory.
            unsafe {
                (*varying).displaced = displaced as usize as u64;
                (*varying).trap = (ENTRANCE_TRAPS + TRAP * entrance) as u64;
                (*varying).site = site;
                (*varying).back = site + 2;
                (*varying).bodies[call as usize].store(body.entry() as u32, Ordering::Relaxed);
            }
            (SITES + entrance, ENTRANCES + ENTRANCE * entrance)
        }
    };
    let entry = TABLE + 8 * place;
    if state().table != 0 {
        // SAFETY: needed: the table is at a fixed address. Sound: the entry is aligned, within the table, which `state.table`
        // says is mapped, and every access to it is atomic.
        unsafe { AtomicU64::from_ptr(entry as *mut u64) }.store(address as u64, Ordering::Release);
    }
    Some(Target { entry, address })
}

/// Writes the jump. Other threads may be executing the site: they see the old instruction or the new one.
///
/// If the bytes lie in one aligned word of eight, one store writes them. Processors promise to fetch such a word as a
/// whole (AMD64 Architecture Programmer's Manual, volume 2, 7.6.1). Otherwise there are five steps. The first two
/// bytes become a jump to itself. All processors are made to fetch instructions anew (`membarrier`, SYNC_CORE). The
/// rest is written. All processors fetch anew again. The first two bytes become those of the jump. A thread that
/// reaches the site meanwhile waits there for a few microseconds.
fn write(at: u64, form: Form, target: Target, pages: Pages) -> bool {
    let length = form.length();
    let jump = if length >= 5 && state().table != 0 {
        site::through_table(target.entry as u32)
    } else {
        // Where other memory is at the table's address (in a large program that isn't relocated), a page near the
        // site is used instead.
        match landing(site::jump_at(at, form), length.min(5), target) {
            Some(distance) => site::near(distance),
            None => return false,
        }
    };
    let new = site::written(form, jump);
    let (page, extent) = (pages.start, pages.end - pages.start);
    const READ_WRITE_EXECUTE: u64 = 7;
    const READ_EXECUTE: u64 = 5;
    // SAFETY: needed: only the kernel changes rights of pages. Sound: they are pages of a library's code, to which only this
    // code writes, under the lock; they stay executable, which threads that run there need.
    if unsafe { call::call(number::MPROTECT, page, extent, READ_WRITE_EXECUTE) } != 0 {
        return false;
    }
    let offset = (at % 8) as usize;
    if offset + length <= 8 {
        // SAFETY: needed: the word is the program's code. Sound: it is aligned to eight bytes and lies within pages that
        // `mprotect` has just made writable; other threads only fetch it as instructions.
        let word = unsafe { AtomicU64::from_ptr((at & !7) as *mut u64) };
        let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
        bytes[offset..offset + length].copy_from_slice(&new[..length]);
        word.store(u64::from_le_bytes(bytes), Ordering::SeqCst);
    } else {
        let first = at as *mut u16;
        // SAFETY: needed: the bytes are the program's code. Sound: they lie within pages that are writable now. A thread that
        // fetches them meanwhile sees the old instruction or a jump to itself: `store` is one instruction of two bytes within
        // one aligned word of eight.
        unsafe { store(first, STAY) };
        synchronise();
        for (number, byte) in new[..length].iter().enumerate().skip(2) {
            // SAFETY: needed: the bytes are the program's code. Sound: they lie within pages that are writable now, and no
            // thread executes them: each one stays at the jump to itself in front of them.
            unsafe { core::ptr::write_volatile((at as usize + number) as *mut u8, *byte) };
        }
        synchronise();
        // SAFETY: needed and sound as the first store; now the rest of the jump is in place, and all processors have fetched it
        // anew.
        unsafe { store(first, u16::from_le_bytes([new[0], new[1]])) };
    }
    // SAFETY: needed: only the kernel changes rights of pages. Sound: these are the rights that the pages had before, and
    // nothing writes to them any more.
    unsafe { call::call(number::MPROTECT, page, extent, READ_EXECUTE) };
    true
}

/// Makes a page with a jump to the target. The page can be reached from the instruction at `at`. Returns the distance
/// to it.
///
/// Only the first `length - 1` of the distance's four bytes are written. If the instruction is shorter than five
/// bytes, the other bytes of the distance are the `syscall` and the bytes behind it, which all stay. So those bytes
/// determine where the page must be.
fn landing(at: u64, length: usize, target: Target) -> Option<[u8; 4]> {
    const READ_WRITE: u64 = 3;
    const READ_EXECUTE: u64 = 5;
    const PRIVATE: u64 = 0x2 | 0x20;
    const FIXED_NOREPLACE: u64 = 0x10_0000;
    const LOW: u64 = 0x40;
    let (distance, to) = if length == 5 {
        // Any free address will do: libraries lie close together, and any address below 2 GiB is near code that is
        // below 2 GiB.
        let low = if at >> 31 == 0 { LOW } else { 0 };
        let to = map(0, PRIVATE | low)?;
        (site::distance(at, to), to)
    } else {
        // SAFETY: needed: the bytes are the program's code. Sound: they are those of the `syscall` and the first one of the
        // instruction behind it, which the program executes next, so they are readable.
        let kept = core::array::from_fn(|number| match number {
            _ if length + number < 5 => unsafe { ((at as usize + length + number) as *const u8).read() },
            _ => 0,
        });
        let (distance, to) = site::punned(at, length, kept)?;
        map(to & !(PAGE - 1), PRIVATE | FIXED_NOREPLACE)?;
        (Some(distance), to)
    };
    let page = to & !(PAGE - 1);
    const { assert!(LANDING == 14) };
    // SAFETY: needed: the page is only known by its address. Sound: `map` has just made it, `to` is at least 14 bytes before
    // its end, and no other code knows of it.
    unsafe {
        (to as *mut [u8; 14]).write_unaligned(site::landing(target.address as u64));
        call::call(number::MPROTECT, page, PAGE, READ_EXECUTE);
    }
    if distance.is_none() {
        // SAFETY: needed: only the kernel unmaps. Sound: the page was made above, and no jump leads to it.
        unsafe { call::call(number::MUNMAP, page, PAGE, 0) };
    }
    return distance;

    fn map(page: u64, flags: u64) -> Option<u64> {
        // SAFETY: needed: memory comes from the kernel. Sound: the flags lack MAP_FIXED, so the kernel never replaces a
        // mapping.
        let mapped = unsafe { call::raw(number::MMAP, [page, PAGE, READ_WRITE, flags, u64::MAX, 0]) };
        if call::is_error(mapped) {
            return None;
        }
        if page != 0 && mapped as u64 != page {
            // SAFETY: needed: only the kernel unmaps. Sound: the page was made above, and no other code has its
            // address.
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
    // Inline assembly makes it one instruction: the compiler may split an unaligned write into two.
    // SAFETY: needed: one instruction must write both bytes, and the language doesn't promise that of an assignment. Sound: the
    // caller promises that they are writable; the instruction changes no flag and no register.
    unsafe {
        core::arch::asm!("mov word ptr [{to}], {value:x}", to = in(reg) to, value = in(reg) value, options(nostack, preserves_flags))
    };
}

/// Makes every processor that runs a thread of this process fetch instructions anew.
fn synchronise() {
    // MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE
    // SAFETY: needed: only the kernel makes other processors fetch anew. Sound: the call touches no memory and no register but
    // its result.
    unsafe { call::call(number::MEMBARRIER, 1 << 5, 0, 0) };
}

/// Lets one thread patch at a time, with signals blocked: a handler that reached a jump to itself would wait for
/// ever.
struct Lock {
    mask: u64,
}

impl Lock {
    fn take() -> Option<Self> {
        let process = call::process();
        let all = u64::MAX;
        let mut mask = 0_u64;
        // SIG_SETMASK
        // SAFETY: needed: only the kernel changes a thread's mask. Sound: it reads `all` and writes `mask`, eight bytes each,
        // which live until the call returns.
        unsafe {
            call::raw(number::RT_SIGPROCMASK, [2, &raw const all as u64, &raw mut mask as u64, 8, 0, 0]);
        }
        let lock = Self { mask };
        // If another thread holds the lock, this attempt ends. If a thread of the parent held it at the moment of a
        // fork, this process never patches again: the code can't distinguish it from the child of a vfork, which has
        // the parent's memory.
        if state().patching.compare_exchange(0, process, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return Some(lock);
        }
        lock.restore();
        // The lock was never taken. Dropping it would release the other holder's lock, while that holder's page is
        // writable.
        core::mem::forget(lock);
        None
    }

    fn restore(&self) {
        // SAFETY: needed: only the kernel changes a thread's mask. Sound: it reads the eight bytes of `self.mask`, which live
        // until the call returns; the mask is the one that `take` replaced.
        unsafe { call::raw(number::RT_SIGPROCMASK, [2, &raw const self.mask as u64, 0, 8, 0, 0]) };
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        state().patching.store(0, Ordering::Release);
        self.restore();
    }
}
