// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is mapped into an interposed program.
//!
//! - `entry.S`: what runs in the place of a system call; `until.S`: in that of a wait until a time of day
//! - `trapped.S`: the way into the handler and out of it
//! - [`trap`]: the handler of calls that trapped, the one place where things are decided
//! - [`bodies`]: which body stands for which site
//! - [`patch`]: sites that lead to their bodies without a trap
//! - [`maps`]: what code is where
//! - [`found`]: a list of sites
//! - [`signals`]: SIGSYS stays ours and the program's at once
//! - [`readable`]: pointers that point nowhere
//! - [`fake`]: answers that the kernel wouldn't give
//! - [`until`]: waits until a time of day that is moved
//! - [`execute`]: programs that are executed stay interposed
//! - [`traced`]: threads that ask to be traced run as they are
//! - [`supervisor`]: asking it for something
//! - [`start`]: the beginning
//! - [`call`]: the kernel
//!
//! There is no allocation, no unwinding and no data: what is written is at the addresses of [`layout`].
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
    // From twice a slot's address to its body's last part.
    AFTER = const layout::BODIES as i64 + 112 - 2 * layout::SLOTS as i64,
    options(att_syntax)
);

/// What the process knows of itself.
fn state() -> &'static State {
    // SAFETY: needed: the state is at a fixed address, not in a variable. Sound: `setup` maps it before any other code runs,
    // and the process keeps it; fields that change while other threads read are atomic, the rest is written before there is a
    // second thread.
    unsafe { &*(layout::STATE as *const State) }
}

/// What all processes share.
fn shared() -> &'static Shared {
    // SAFETY: needed: the segment is at a fixed address, not in a variable. Sound: `setup` attaches it before any other code
    // runs, the process keeps it, and all its fields that change are atomic.
    unsafe { &*(layout::SHARED as *const Shared) }
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: needed: without a C library nothing else ends the process for certain. Sound: the instruction raises SIGILL and
    // never returns.
    unsafe { core::arch::asm!("ud2", options(noreturn)) }
}

/// What slices are compared by. Not every compiler's own library has it for a program without a C library.
///
/// # Safety
/// Both are `length` bytes long.
// SAFETY: needed because the compiler calls it by this name. Sound: nobody else defines it in this image.
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
