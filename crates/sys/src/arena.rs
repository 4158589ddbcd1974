// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory allocator for programs that start, do one task and end.
//!
//! The first 256 KiB come from a static buffer, in which a hot launch fits. This saves about fifteen `mmap` and
//! `munmap` calls. Each of these calls would have to notify the other processor, where init runs in the same memory.
//! Making a plan needs more memory. It comes from one mapping, which is made present part by part. The arena keeps
//! each freed block in a list for its size and hands it out again. musl's allocator would give pages back to the
//! kernel and request them again: for the plan of a shell it made 650 calls and 600 page faults. The C library's
//! allocator provides large blocks, and all blocks after the mapping is used up.
//!
//! There is one lock, and no thread waits for it. A thread that finds the lock held allocates from the C library, and
//! adds each block that it frees to the list `aside`, which the next holder of the lock sorts in. So the arena also
//! works in a child of `fork` if a thread that doesn't exist in the child held the lock.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::alloc::System;

/// Size of the static buffer.
const SIZE: usize = 256 * 1024;
/// The mapping that follows: addresses, not memory.
const RESERVED: usize = 64 << 20;
/// How much of the mapping is made present at once. A page fault for each page would take a tenth longer.
const PART: usize = 128 * 1024;
/// Larger blocks come from the C library: they would use up the arena for few allocations, because the arena keeps
/// every block. A plan has to fit, because every launch reads one: today's plans have 34 KiB.
const LARGEST: usize = PART;
/// The alignment of every block.
const ALIGNED: usize = 16;
/// Sizes of blocks: 16, 32, 48, 64, then each power of two and the middle between.
const CLASSES: usize = 26;

/// The allocator. A program makes it its own by `#[global_allocator]`.
#[derive(Debug)]
pub struct Arena {
    memory: Memory,
    locked: AtomicBool,
    /// Blocks that were freed while the lock was held.
    aside: AtomicPtr<Block>,
    /// Address of the mapping; 0: not mapped yet. It is set once.
    mapping: AtomicUsize,
    state: UnsafeCell<State>,
}

/// A free block. This list node is stored in the block itself.
#[derive(Debug)]
struct Block {
    next: *mut Block,
    /// The list that the block goes to. Only used for blocks in `aside`.
    class: usize,
}

#[derive(Debug)]
struct State {
    /// How much of the static buffer is used.
    used: usize,
    /// How much is used of the mapping, and how much of it is present.
    mapped: usize,
    present: usize,
    /// The mapping was refused.
    refused: bool,
    free: [*mut Block; CLASSES],
}

#[repr(C, align(4096))]
#[derive(Debug)]
struct Memory(UnsafeCell<[u8; SIZE]>);

// SAFETY: needed to have it static. Sound: only the holder of the lock uses `state`, and each byte of the memory
// belongs to one block.
unsafe impl Sync for Arena {}

/// Which list blocks of this layout come from, and how large they are.
fn class(layout: Layout) -> Option<(usize, usize)> {
    let size = layout.size();
    // Larger alignments are rare.
    if size > LARGEST || layout.align() > ALIGNED {
        return None;
    }
    if size <= 64 {
        let units = size.div_ceil(ALIGNED).max(1);
        return Some((units - 1, units * ALIGNED));
    }
    let power = size.next_power_of_two();
    let doublings = power.trailing_zeros() as usize - 7;
    let middle = power / 4 * 3;
    Some(if size <= middle { (4 + 2 * doublings, middle) } else { (5 + 2 * doublings, power) })
}

impl Arena {
    /// An unused arena.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one, made in a static")]
    pub const fn new() -> Self {
        Self {
            memory: Memory(UnsafeCell::new([0; SIZE])),
            locked: AtomicBool::new(false),
            aside: AtomicPtr::new(null_mut()),
            mapping: AtomicUsize::new(0),
            state: UnsafeCell::new(State {
                used: 0,
                mapped: 0,
                present: 0,
                refused: false,
                free: [null_mut(); CLASSES],
            }),
        }
    }

    /// Runs `with` on the state, unless another thread holds the lock.
    fn locked<T>(&self, with: impl FnOnce(&mut State) -> Option<T>) -> Option<T> {
        if self.locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return None;
        }
        // SAFETY: needed to change what a static holds. Sound: only the thread that has set `locked` gets here.
        let done = with(unsafe { &mut *self.state.get() });
        self.locked.store(false, Ordering::Release);
        done
    }

    fn take(&self, layout: Layout) -> Option<*mut u8> {
        let (class, size) = class(layout)?;
        self.locked(|state| {
            if !self.aside.load(Ordering::Relaxed).is_null() {
                self.sort_in(state);
            }
            let first = *state.free.get(class)?;
            if !first.is_null() {
                // SAFETY: needed as the list runs through the blocks. Sound: a block in the list is free, and `give`
                // wrote it.
                state.free[class] = unsafe { (*first).next };
                return Some(first.cast());
            }
            let start = state.used;
            if start + size <= SIZE {
                if start == 0 {
                    make_present(self.memory.0.get().expose_provenance());
                }
                state.used += size;
                // Sizes are multiples of what blocks are aligned to, and the memory is aligned to a page.
                return Some(self.memory.0.get().cast::<u8>().wrapping_add(start));
            }
            self.more(state, size)
        })
    }

    /// Enlarges `block` in its place if it is the last block of the static buffer. Moving a growing block would touch
    /// twice the pages.
    fn extend(&self, block: *mut u8, room: usize, larger: usize) -> bool {
        self.locked(|state| {
            let start = block.addr().checked_sub(self.memory.0.get().addr())?;
            let end = start.checked_add(larger).filter(|end| *end <= SIZE)?;
            (larger > room && start + room == state.used).then(|| state.used = end)
        })
        .is_some()
    }

    /// Returns a block of the mapping.
    fn more(&self, state: &mut State, size: usize) -> Option<*mut u8> {
        if self.mapping.load(Ordering::Relaxed) == 0 {
            if state.refused {
                return None;
            }
            match map() {
                Some(at) => self.mapping.store(at, Ordering::Relaxed),
                None => {
                    state.refused = true;
                    return None;
                }
            }
        }
        let mapping = self.mapping.load(Ordering::Relaxed);
        let start = state.mapped;
        let end = start + size;
        if end > RESERVED {
            return None;
        }
        if end > state.present {
            make_present(mapping + state.present);
            state.present += PART;
        }
        state.mapped = end;
        Some(core::ptr::with_exposed_provenance_mut(mapping + start))
    }

    /// Takes a block back. It must be a free block of the arena, of this class.
    fn give(&self, block: *mut u8, class: usize) {
        let block = block.cast::<Block>();
        let kept = self.locked(|state| {
            // SAFETY: needed to have the list run through the blocks. Sound: the block is free, aligned to 16, and at
            // least that large.
            unsafe { block.write(Block { next: state.free[class], class }) };
            state.free[class] = block;
            Some(())
        });
        if kept.is_some() {
            return;
        }
        let mut first = self.aside.load(Ordering::Relaxed);
        loop {
            // SAFETY: as above; it is in no list yet.
            unsafe { block.write(Block { next: first, class }) };
            match self.aside.compare_exchange_weak(first, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Moves the blocks of `aside` to their lists. It takes all of them at once, so none can come back in between.
    fn sort_in(&self, state: &mut State) {
        let mut block = self.aside.swap(null_mut(), Ordering::Acquire);
        while !block.is_null() {
            // SAFETY: needed as the list runs through the blocks. Sound: `give` wrote them, and they are free.
            let Block { next, class } = unsafe { block.read() };
            // SAFETY: as above.
            unsafe { (*block).next = state.free[class] };
            state.free[class] = block;
            block = next;
        }
    }

    fn holds(&self, block: *mut u8) -> bool {
        let at = block.addr();
        let start = self.memory.0.get().addr();
        if (start..start + SIZE).contains(&at) {
            return true;
        }
        // A thread that has a block of the mapping has seen the mapping's address.
        let mapping = self.mapping.load(Ordering::Relaxed);
        mapping != 0 && (mapping..mapping + RESERVED).contains(&at)
    }
}

/// Reserves the addresses of the mapping.
fn map() -> Option<usize> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: needed for memory. Sound: a new mapping overlaps nothing.
    let at = unsafe { libc::mmap(null_mut(), RESERVED, protection, flags, -1, 0) };
    (at != libc::MAP_FAILED).then(|| at.expose_provenance())
}

/// Makes the pages of the next part present in one call. If this fails, the pages are made present at their first
/// use.
fn make_present(at: usize) {
    // SAFETY: needed to have memory without a fault for each page. Sound: the range lies in the mapping, and its
    // content stays.
    let _made = unsafe { libc::madvise(core::ptr::with_exposed_provenance_mut(at), PART, POPULATE_WRITE) };
}

/// `MADV_POPULATE_WRITE`, since Linux 5.14.
const POPULATE_WRITE: i32 = 23;

// SAFETY: needed to be the program's allocator. Sound: blocks from the arena are aligned, don't overlap, and are
// handed out once until they are freed. The C library handles every call about all other blocks.
unsafe impl GlobalAlloc for Arena {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(block) => block,
            // SAFETY: as promised by the caller.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(block) => {
                // SAFETY: needed as a block may have been used before. Sound: it has that size.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: as promised by the caller.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match class(layout) {
            Some((class, _size)) if self.holds(block) => self.give(block, class),
            // SAFETY: as promised by the caller; not from the arena, so from the C library.
            _ => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Some((own, room)) = class(layout).filter(|_class| self.holds(block)) else {
            // SAFETY: as promised by the caller; not from the arena, so from the C library.
            return unsafe { System.realloc(block, layout, size) };
        };
        let Ok(wanted) = Layout::from_size_align(size, layout.align()) else { return null_mut() };
        // A block goes back to the list of its layout's class, so it stays only if that is the same.
        if size <= room && class(wanted).is_some_and(|(class, _size)| class == own) {
            return block;
        }
        if let Some((_class, larger)) = class(wanted)
            && self.extend(block, room, larger)
        {
            return block;
        }
        // SAFETY: the caller promises that `size` isn't zero.
        let moved = unsafe { self.alloc(wanted) };
        if !moved.is_null() {
            // SAFETY: both blocks have at least the smaller size, and a new block overlaps no other.
            unsafe { core::ptr::copy_nonoverlapping(block, moved, layout.size().min(size)) };
            self.give(block, own);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn layout(size: usize, align: usize) -> Layout {
        match Layout::from_size_align(size, align) {
            Ok(layout) => layout,
            Err(_) => panic!(),
        }
    }

    #[test]
    fn classes_have_room_and_lists() {
        let mut before = (0, 16);
        for size in 1..=LARGEST {
            let (class, room) = class(layout(size, 8)).unwrap();
            assert!(size <= room && room <= (size * 2).max(16), "{size} gets {room}");
            assert!(class < CLASSES);
            assert!((class, room) == before || (class == before.0 + 1 && room > before.1), "{size}");
            before = (class, room);
        }
        assert_eq!(before, (CLASSES - 1, LARGEST));
        assert_eq!(class(layout(LARGEST + 1, 1)), None);
        assert_eq!(class(layout(64, 64)), None);
    }

    #[test]
    fn blocks_are_aligned_and_apart() {
        let arena = Box::new(Arena::new());
        let mut taken: Vec<(usize, usize)> = Vec::new();
        // More than the static buffer holds.
        for _round in 0..40 {
            for (size, align) in [(1, 1), (8, 8), (3, 1), (64, 16), (100, 16), (1, 4), (9000, 8), (48, 2)] {
                let start = arena.take(layout(size, align)).unwrap().addr();
                assert_eq!(start % ALIGNED, 0);
                taken.push((start, start + size));
            }
        }
        assert_ne!(arena.mapping.load(Ordering::Relaxed), 0);
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }

    #[test]
    fn what_is_given_back_is_handed_out_again() {
        let arena = Box::new(Arena::new());
        // SAFETY: a test of the allocator: sizes are not zero, each block is used within its size
        // and given back once, with its layout.
        unsafe {
            let block = arena.alloc(layout(100, 8));
            block.write_bytes(7, 100);
            arena.dealloc(block, layout(100, 8));
            assert_eq!(arena.alloc_zeroed(layout(120, 4)), block);
            assert!((0..120).all(|at| *block.add(at) == 0));
            // While another thread holds the lock, no thread waits.
            arena.locked.store(true, Ordering::Relaxed);
            let other = arena.alloc(layout(100, 8));
            assert!(!arena.holds(other));
            arena.dealloc(block, layout(120, 4));
            arena.locked.store(false, Ordering::Relaxed);
            arena.dealloc(other, layout(100, 8));
            assert_eq!(arena.alloc(layout(128, 16)), block);
        }
    }

    #[test]
    fn what_does_not_fit_comes_from_elsewhere_and_keeps_its_content() {
        let arena = Box::new(Arena::new());
        // SAFETY: as above.
        unsafe {
            let block = arena.alloc(layout(1000, 8));
            block.write_bytes(7, 1000);
            assert_eq!(arena.realloc(block, layout(1000, 8), 1024), block);
            let moved = arena.realloc(block, layout(1024, 8), SIZE);
            assert!(!arena.holds(moved));
            assert!((0..1000).all(|at| *moved.add(at) == 7));
            let back = arena.alloc(layout(10, 1));
            let smaller = arena.realloc(back, layout(10, 1), 5);
            assert_eq!(back, smaller);
            arena.dealloc(moved, layout(SIZE, 8));
        }
    }

    #[test]
    fn the_last_block_grows_in_place() {
        let arena = Box::new(Arena::new());
        // SAFETY: as above.
        unsafe {
            let block = arena.alloc(layout(100, 8));
            assert_eq!(arena.realloc(block, layout(100, 8), 900), block);
            let other = arena.alloc(layout(16, 8));
            assert!(other.addr() >= block.addr() + 900);
            assert_ne!(arena.realloc(block, layout(900, 8), 2000), block);
            // Up to the largest class.
            let last = arena.alloc(layout(16, 8));
            assert_eq!(arena.realloc(last, layout(16, 8), LARGEST), last);
        }
    }

    #[test]
    fn threads_get_blocks_of_their_own() {
        let arena = Box::new(Arena::new());
        std::thread::scope(|scope| {
            for thread in 1_u8..=4 {
                let arena = &arena;
                scope.spawn(move || {
                    let mut held: Vec<(*mut u8, Layout)> = Vec::new();
                    for round in 0..20_000_usize {
                        let layout = layout(1 + round * 7 % 600, 8);
                        // SAFETY: as above.
                        unsafe {
                            let block = arena.alloc(layout);
                            block.write_bytes(thread, layout.size());
                            held.push((block, layout));
                            if round % 3 != 0 {
                                let (block, layout) = held.swap_remove(round % held.len());
                                assert!((0..layout.size()).all(|at| *block.add(at) == thread));
                                arena.dealloc(block, layout);
                            }
                        }
                    }
                });
            }
        });
    }
}
