// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An allocator for programs that start, do one thing and end.
//!
//! The first 256 KiB come from memory that is there already, one after the other, and are never
//! given back; what is larger or comes later goes to the C library. A hot launch fits in. It saves
//! about fifteen `mmap` and `munmap` calls, each of which has to tell the other processor, on
//! which init runs in the same memory.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::System;

const SIZE: usize = 256 * 1024;

/// The allocator; to be made the program's by `#[global_allocator]`.
#[derive(Debug)]
pub struct Arena {
    memory: Memory,
    used: AtomicUsize,
}

#[repr(C, align(4096))]
#[derive(Debug)]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: needed to have it static. Sound: `used` hands each byte out once.
unsafe impl Sync for Memory {}

impl Arena {
    /// An arena of which nothing is used.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one, made in a static")]
    pub const fn new() -> Self {
        Self { memory: Memory(UnsafeCell::new([0; SIZE])), used: AtomicUsize::new(0) }
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        // Large blocks would use it up for little: they are mapped once and kept.
        if layout.size() > SIZE / 8 {
            return None;
        }
        let mut used = self.used.load(Ordering::Relaxed);
        loop {
            // The memory is aligned to a page, so an offset is as aligned as an address.
            let start = used.checked_next_multiple_of(layout.align())?;
            let end = start.checked_add(layout.size())?;
            if end > SIZE || layout.align() > 4096 {
                return None;
            }
            match self.used.compare_exchange_weak(used, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.memory.0.get().cast::<u8>().wrapping_add(start)),
                Err(now) => used = now,
            }
        }
    }

    fn holds(&self, block: *mut u8) -> bool {
        let start = self.memory.0.get() as usize;
        (start..start + SIZE).contains(&(block as usize))
    }

    /// Makes the last block larger in its place, if it is the last and there is room.
    fn extend(&self, block: *mut u8, old: usize, new: usize) -> bool {
        let start = block as usize - self.memory.0.get() as usize;
        let (Some(end), Some(wanted)) = (start.checked_add(old), start.checked_add(new)) else {
            return false;
        };
        wanted <= SIZE
            && self.used.compare_exchange(end, wanted, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: needed to be the program's allocator. Sound: blocks from the arena are aligned, don't
// overlap and stay valid for ever; all others are the C library's in every call about them.
unsafe impl GlobalAlloc for Arena {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(block) => block,
            // SAFETY: as promised by the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !self.holds(block) {
            // SAFETY: as promised by the caller; not from the arena, so from the C library.
            unsafe { System.dealloc(block, layout) };
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !self.holds(block) {
            // SAFETY: as promised by the caller; not from the arena, so from the C library.
            return unsafe { System.realloc(block, layout, size) };
        }
        if size <= layout.size() || self.extend(block, layout.size(), size) {
            return block;
        }
        let Ok(larger) = Layout::from_size_align(size, layout.align()) else { return core::ptr::null_mut() };
        // SAFETY: the caller promises that `size` isn't zero.
        let moved = unsafe { self.alloc(larger) };
        if !moved.is_null() {
            // SAFETY: both blocks have at least the old size, and a new block overlaps no other.
            unsafe { core::ptr::copy_nonoverlapping(block, moved, layout.size()) };
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_apart() {
        let arena = Arena::new();
        let mut end = 0;
        for (size, align) in [(1, 1), (8, 8), (3, 1), (64, 64), (100, 16), (1, 4096)] {
            let layout = Layout::from_size_align(size, align).unwrap();
            let start = arena.take(layout).unwrap() as usize;
            assert_eq!(start % align, 0);
            assert!(start >= end);
            end = start + size;
        }
    }

    #[test]
    fn what_does_not_fit_comes_from_elsewhere_and_keeps_its_content() {
        let arena = Arena::new();
        let layout = Layout::from_size_align(1000, 8).unwrap();
        // SAFETY: a test of the allocator: sizes are not zero, each block is used within its size
        // and given back once, with its layout.
        unsafe {
            let block = arena.alloc(layout);
            block.write_bytes(7, 1000);
            let other = arena.alloc(layout);
            let moved = arena.realloc(block, layout, SIZE);
            assert!(!arena.holds(moved));
            assert!((0..1000).all(|at| *moved.add(at) == 7));
            assert!(arena.holds(other));
            arena.dealloc(moved, Layout::from_size_align(SIZE, 8).unwrap());
            arena.dealloc(other, layout);
        }
    }

    #[test]
    fn the_last_block_grows_in_place() {
        let arena = Arena::new();
        let layout = Layout::from_size_align(16, 8).unwrap();
        // SAFETY: as above.
        unsafe {
            let block = arena.alloc(layout);
            assert_eq!(arena.realloc(block, layout, 64), block);
            let other = arena.alloc(layout);
            assert!(other as usize >= block as usize + 64);
        }
    }
}
