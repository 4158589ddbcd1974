// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The code that is mapped into an interposed program.
//!
//! - `entry.S`: runs in place of a system call; `until.S`: in place of a wait until a time of day
//! - `trapped.S`: entry and exit of the handler
//! - [`trap`]: the handler of calls that trapped, the one place where decisions are made
//! - [`bodies`]: which body serves which site
//! - [`patch`]: sites that lead to their bodies without a trap
//! - [`maps`]: which code is mapped where
//! - [`found`]: a list of sites
//! - [`signals`]: lets our handler and the program share SIGSYS
//! - [`readable`]: checks that pointers point to readable memory
//! - [`fake`]: answers that the kernel wouldn't give
//! - [`until`]: waits until a changed time of day
//! - [`execute`]: programs that are executed stay interposed
//! - [`traced`]: threads that ask to be traced run without interposition
//! - [`supervisor`]: requests to the supervisor
//! - [`start`]: runs first in a new program
//! - [`call`]: system calls
//!
//! There is no allocation, no unwinding and no static data: all writable memory is at the addresses of [`layout`].
#![no_std]
#![no_main]
#![deny(unsafe_op_in_unsafe_fn)]

#[allow(dead_code)]
#[path = "../src/layout.rs"]
mod layout;
#[allow(dead_code)]
#[path = "../src/site.rs"]
mod site;

mod bodies;
mod call;
mod execute;
mod fake;
mod found;
mod maps;
mod patch;
mod readable;
mod signals;
mod start;
mod supervisor;
mod traced;
mod trap;
mod until;

use layout::{Shared, State};

core::arch::global_asm!(
    include_str!("entry.S"),
    include_str!("until.S"),
    include_str!("trapped.S"),
    SLOTS = const layout::SLOTS,
    VARIANTS = const layout::VARIANTS,
    CALLS = const layout::CALLS,
    CODE = const layout::CODE,
    FREE_LENGTH = const layout::FREE - layout::CODE,
    ACTION = const layout::STATE + core::mem::offset_of!(State, action),
    LEFT = const layout::STATE + core::mem::offset_of!(State, left),
    WORD = const layout::STATE + core::mem::offset_of!(State, table),
    HEAD = const layout::SHARED + core::mem::offset_of!(layout::Shared, head),
    TAIL = const layout::SHARED + core::mem::offset_of!(layout::Shared, tail),
    DROPPED = const layout::SHARED + core::mem::offset_of!(layout::Shared, dropped),
    RING = const layout::SHARED + core::mem::offset_of!(layout::Shared, ring),
    ROOM = const layout::RECORDS - layout::SPARE,
    LAST = const layout::RECORDS - 1,
    AHEAD = const layout::SHARED + core::mem::offset_of!(layout::Shared, fakes) + core::mem::offset_of!(layout::Fakes, ahead),
    // From twice a slot's address to the last part of its body.
    AFTER = const layout::BODIES as i64 + 112 - 2 * layout::SLOTS as i64,
    options(att_syntax)
);

/// This process's own state.
fn state() -> &'static State {
    // SAFETY: needed: the state is at a fixed address, not in a variable. Sound: `setup` maps it before any other code runs,
    // and the process keeps it; fields that change while other threads read are atomic, the rest is written before there is a
    // second thread.
    unsafe { &*(layout::STATE as *const State) }
}

/// The state that all processes share.
fn shared() -> &'static Shared {
    // SAFETY: needed: the segment is at a fixed address, not in a variable. Sound: `setup` attaches it before any other code
    // runs, the process keeps it, and all its fields that change are atomic.
    unsafe { &*(layout::SHARED as *const Shared) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: needed: without a C library no other way ends the process for certain. Sound: the instruction raises
    // SIGILL and never returns.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// Compares slices. The compiler's own library doesn't have it on every target for a program without a C library.
///
/// # Safety
/// Both are `length` bytes long.
// SAFETY: needed because the compiler calls it by this name. Sound: no other code defines it in this image.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(one: *const u8, other: *const u8, length: usize) -> i32 {
    let mut differs = 0;
    let mut at = 0;
    while at < length {
        // SAFETY: needed because there are only pointers. Sound: by the caller's promise.
        differs |= unsafe { one.add(at).read() ^ other.add(at).read() };
        at += 1;
    }
    i32::from(differs)
}
