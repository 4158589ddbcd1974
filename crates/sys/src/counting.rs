// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An allocator that counts what each thread asks of it: for programs that measure.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use std::alloc::System;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The allocator; to be made the program's by `#[global_allocator]`.
#[derive(Debug)]
pub struct Counting;

/// How many blocks the calling thread has asked for.
#[must_use]
pub fn allocations() -> u64 {
    COUNT.try_with(Cell::get).unwrap_or(0)
}

fn count() {
    // A thread that ends has no count any more.
    let _thread_ends = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: needed to stand in for the system's allocator. Sound: each call goes to it as it came; the count has no
// destructor and asks for no memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
