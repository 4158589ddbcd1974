// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that ask to be traced. Each of their traps would stop them, and show the tracer a signal that it doesn't expect:
//! after a vfork it could not even take note, as it waits for the program that its child is about to execute. So from then
//! on such a thread makes its calls without us, and what it executes runs as it is.

use crate::call::{self, number};
use crate::{shared, state};
use core::sync::atomic::Ordering;

/// `ptrace(PTRACE_TRACEME)`.
pub(crate) fn ask(a: [u64; 6]) -> i64 {
    // SAFETY: needed: only the kernel has a thread traced. Sound: the program asked for this call; PTRACE_TRACEME touches no
    // memory.
    let answer = unsafe { call::raw(number::PTRACE, a) };
    // A filter of the program's may not allow what follows.
    if answer == 0 && state().sealed.load(Ordering::Relaxed) == 0 {
        // SAFETY: needed: only the kernel ends this thread's dispatch (PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF).
        // Sound: the call touches no memory; patched sites lead on to their bodies, which make calls without it.
        unsafe {
            // The memory may be the parent's, of a vfork: so it is put down whose thread it is.
            state().left.store(call::process(), Ordering::Relaxed);
            call::raw(number::PRCTL, [59, 0, 0, 0, 0, 0]);
        }
        shared().lost.fetch_add(1, Ordering::Relaxed);
    }
    answer
}
