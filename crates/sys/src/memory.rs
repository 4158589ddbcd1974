// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the C library keeps of memory that was given back to it.

/// Gives memory that isn't used back to the kernel. A program that has needed a lot for once keeps it otherwise: each
/// thread's part of the heap is only cut off at its end.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: needed because no safe interface has it. Sound: the call has no conditions, and may come from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}
