// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Executing a program: the thread asks the supervisor to watch it, so that the supervisor meets the new program at
//! its first instruction. The supervisor watches the thread from this request to that instruction, and at no other
//! time.

use crate::call::{self, number};
use crate::layout::{FAILED, FILLING, GRANTED, Request, VACANT, WANTED};
use crate::supervisor::{ALWAYS, changed, is_gone, ring};
use crate::{shared, state};
use core::sync::atomic::Ordering;

/// Makes the call; returns only if it failed.
pub(crate) fn execute(call: u64, a: [u64; 6]) -> i64 {
    let request = ask();
    let granted = request.is_some_and(|request| changed(&request.state, WANTED, ALWAYS) == Some(GRANTED));
    if !granted {
        shared().lost.fetch_add(1, Ordering::Relaxed);
        if let Some(request) = request {
            request.state.store(VACANT, Ordering::Release);
        }
    }
    // SAFETY: needed: only the kernel executes programs. Sound: the program asked for this call with these arguments, so it
    // does what it would do without Palisade.
    let answer = unsafe { call::raw(call, a) };
    match request {
        Some(request) if granted => {
            // The supervisor makes the place vacant when it has detached from this thread.
            request.state.store(FAILED, Ordering::Release);
            ring();
            changed(&request.state, FAILED, ALWAYS);
        }
        _ => {
            shared().lost.fetch_sub(1, Ordering::Relaxed);
        }
    }
    answer
}

fn ask() -> Option<&'static Request> {
    loop {
        if is_gone() {
            return None;
        }
        let free = shared().requests.iter().find(|request| {
            request.state.compare_exchange(VACANT, FILLING, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        });
        let Some(request) = free else {
            let doorbell = shared().doorbell.load(Ordering::Acquire);
            call::wait(&shared().doorbell, doorbell, 1);
            continue;
        };
        let thread = call::thread();
        request.thread.store(thread, Ordering::Relaxed);
        // No other request of this run has the same proof.
        let proof = shared().proofs.fetch_add(1, Ordering::Relaxed) + 1;
        state().nonce.store(proof, Ordering::Relaxed);
        request.nonce.store(proof, Ordering::Relaxed);
        request.state.store(WANTED, Ordering::Release);
        ring();
        return Some(request);
    }
}
