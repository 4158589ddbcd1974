// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controls how much freed memory the C library keeps.

/// Gives unused memory back to the kernel. Otherwise the C library keeps the memory of a program that needed a lot
/// once: it only shortens each thread's part of the heap at its end.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: needed because no safe interface has it. Sound: the call has no conditions, and may come from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the C library map and unmap each large block separately. Otherwise the first large block that is freed
/// raises the size limit for all later ones. They then lie among small blocks that stay.
pub fn keep_large_blocks_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: needed because no safe interface has it. Sound: a setting of the allocator, which takes a lock for it.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}
