// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that ask to be traced. Each of their traps would stop them, and show the tracer a signal that it doesn't
//! expect. After a vfork the tracer couldn't even handle it, because it waits for the program that its child is about
//! to execute. So from then on such a thread makes its calls without our code, and the programs that it executes
//! aren't interposed.

use crate::call::{self, number};
use crate::{shared, state};
use core::sync::atomic::Ordering;

/// `ptrace(PTRACE_TRACEME)`.
pub(crate) fn ask(a: [u64; 6]) -> i64 {
    // SAFETY: needed: only the kernel has a thread traced. Sound: the program asked for this call; PTRACE_TRACEME touches no
    // memory.
    let answer = unsafe { call::raw(number::PTRACE, a) };
    // The program's own filter may not permit the following call.
    if answer == 0 && state().sealed.load(Ordering::Relaxed) == 0 {
        // SAFETY: needed: only the kernel ends this thread's dispatch (PR_SET_SYSCALL_USER_DISPATCH,
        // PR_SYS_DISPATCH_OFF). Sound: the call touches no memory; patched sites still lead to their bodies, which
        // make calls without dispatch.
        unsafe {
            // After a vfork the memory is the parent's, so the process that the thread belongs to is recorded.
            state().left.store(call::process(), Ordering::Relaxed);
            call::raw(number::PRCTL, [59, 0, 0, 0, 0, 0]);
        }
        shared().lost.fetch_add(1, Ordering::Relaxed);
    }
    answer
}
