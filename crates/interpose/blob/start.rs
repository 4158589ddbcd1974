// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares a new program: runs before the program's first instruction, while the program has one thread.

use crate::call::{self, number};
use crate::layout::{Action, CODE, FREE, OWN, OWN_LENGTH, SHARDS, SHARED, STATE, State, TABLE, TABLE_LENGTH};
use crate::signals::{BIT, SIGSYS};
use crate::{bodies, shared};
use core::sync::atomic::Ordering;

unsafe extern "C" {
    fn restorer();
    fn trapped();
}

const PROT_READ_WRITE: u64 = 3;
/// `MAP_PRIVATE`, `MAP_ANONYMOUS`, `MAP_FIXED_NOREPLACE`.
const PRIVATE: u64 = 0x2 | 0x20 | 0x10_0000;
/// `SA_SIGINFO`, `SA_RESTORER`, `SA_ONSTACK` (a goroutine's stack is too small for a frame), `SA_NODEFER` (a handler
/// of the program that interrupts ours makes calls, too).
const FLAGS: u64 = 0x4 | 0x0400_0000 | 0x0800_0000 | 0x4000_0000;

fn map(address: usize, length: usize) -> bool {
    // SAFETY: needed: memory comes from the kernel. Sound: MAP_FIXED_NOREPLACE never replaces a mapping, so no memory that
    // anything refers to changes.
    let answer = unsafe {
        call::raw(number::MMAP, [address as u64, length as u64, PROT_READ_WRITE, PRIVATE, u64::MAX, 0])
    };
    answer == address as i64
}

/// Maps and initialises everything. If a step fails, the program runs without interposition.
///
/// # Safety
///
/// It must be called once, before the program's first instruction.
#[unsafe(no_mangle)]
unsafe extern "C" fn setup(segment: u64, brought_by: u64) {
    if !map(OWN, OWN_LENGTH) {
        return;
    }
    // SAFETY: needed: the segment comes from the kernel. Sound: without SHM_REMAP the kernel refuses an address where something
    // is mapped, so nothing is replaced.
    if unsafe { call::call(number::SHMAT, segment, SHARED as u64, 0) } != SHARED as i64 {
        return;
    }
    let state = STATE as *mut State;
    let handler = trapped as *const () as u64;
    let action = Action { handler, flags: FLAGS, restorer: restorer as *const () as u64, mask: 0 };
    // SAFETY: needed: the state is at a fixed address. Sound: `map` has just made it, the process has one thread and no handler
    // of ours, and the memory is zero, which is valid for every field. The kernel reads and writes only what is passed to it,
    // which lives until each call returns.
    unsafe {
        (*state).table = u32::from(map(TABLE, TABLE_LENGTH));
        (*state).shard = call::process() % SHARDS as u32;
        shared().shards.fetch_or(1 << (*state).shard, Ordering::Relaxed);
        (*state).action = action;
        call::raw(
            number::RT_SIGACTION,
            [SIGSYS, &raw const (*state).action as u64, &raw mut (*state).wanted as u64, 8, 0, 0],
        );
        // SIG_UNBLOCK, because a program inherits its mask.
        let mask = BIT;
        call::raw(number::RT_SIGPROCMASK, [1, &raw const mask as u64, 0, 8, 0, 0]);
        // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE
        call::call(number::MEMBARRIER, 1 << 6, 0, 0);
        // PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON
        call::raw(number::PRCTL, [59, 1, CODE as u64, (FREE - CODE) as u64, 0, 0]);
    }
    bodies::count(brought_by, [0; 6], 0, 0);
    shared().images.fetch_add(1, Ordering::Relaxed);
}
