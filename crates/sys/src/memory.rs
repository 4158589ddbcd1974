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

/// Has large blocks come from the kernel and go back to it one by one. Otherwise the first large one that is freed raises
/// the bound for all that follow, and they lie in between small ones that stay.
pub fn keep_large_blocks_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: needed because no safe interface has it. Sound: a setting of the allocator, which takes a lock for it.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}
