// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots of the registry's file, and the meaning of their bytes for locks.
//!
//! There are two locks, because a launch must be visible only when its record is complete. A process that may write the slot
//! holds *change*: a launcher from before it writes until it dies, and a process that empties a slot for a moment. A launcher
//! that has written its record holds *life*. So a slot whose *life* is held has a complete record. A slot whose *life* isn't
//! held is free, is left by an ended launcher, or belongs to a launcher that is writing and holds *change*.

use std::ops::Range;

/// Bytes of a slot: a record, with room for later versions.
pub(super) const SIZE: usize = 2048;
/// The most slots: a file of 128 MiB, whose unused parts take no disk space.
pub(super) const MOST: u64 = 1 << 16;
/// Slots that a launch tries first: most users have fewer sandboxes, and the file stays small.
const FIRST: u64 = 8;
/// The slots that a launch tries before it gives up. The last tries are among all slots.
const TRIES: u32 = 64;
/// The position of name locks: behind all slots, where no file has bytes.
const NAMES: u64 = 1 << 62;

/// The position of a slot.
pub(super) const fn offset(slot: u64) -> u64 {
    slot * SIZE as u64
}

/// The byte that a launcher holds while its record is valid.
pub(super) const fn life(slot: u64) -> Range<u64> {
    offset(slot)..offset(slot) + 1
}

/// The byte that the writer of the slot holds.
pub(super) const fn change(slot: u64) -> Range<u64> {
    offset(slot) + 1..offset(slot) + 2
}

/// The byte for a name with this hash of 64 bits. Two names with the same byte exclude each other, which happens by
/// chance once in 2^61.
pub(super) const fn name(hash: u64) -> Range<u64> {
    let byte = NAMES + (hash >> 3);
    byte..byte + 1
}

/// The slots that a launch tries, in this order: among the first eight, then among twice as many after every four
/// tries. If half of the slots of one size are taken, the second try finds a free one on average.
pub(super) fn candidates(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    (0..TRIES).map(move |tries| {
        // splitmix64: launches that begin at the same time try different slots.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % (FIRST << (tries / 4)).min(MOST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_tries_are_near_the_beginning_and_the_last_anywhere() {
        let (mut near, mut far) = (BTreeSet::new(), 0);
        for seed in 0..1000 {
            let slots: Vec<u64> = candidates(seed).collect();
            assert_eq!(slots.len(), 64);
            near.extend(slots.iter().take(4));
            far = far.max(*slots.iter().max().unwrap());
        }
        assert_eq!(near, (0..FIRST).collect());
        assert!(far > MOST / 2 && far < MOST, "{far}");
    }

    #[test]
    fn no_two_bytes_are_the_same() {
        assert_eq!(life(3).end, change(3).start);
        assert!(change(MOST - 1).end < name(0).start);
        assert!(i64::try_from(name(u64::MAX).end).is_ok());
    }
}
