// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots of the registry's file, and what their bytes mean to locks.
//!
//! Two locks, because a launch is to be seen only when its record is whole. *Change* is held by who may write the slot:
//! a launcher from before it writes until it dies, and for a moment who empties a slot. *Life* is held by a launcher
//! that has written. So a slot whose life is held has a whole record; one whose life isn't held is nobody's, what an
//! ended launcher left, or that of a launcher that is writing, who holds its change.

use std::ops::Range;

/// Bytes of a slot: a record and room for it to grow.
pub(super) const SIZE: usize = 2048;
/// Slots that there may be: a file of 128 MiB, of which what isn't used isn't there.
pub(super) const MOST: u64 = 1 << 16;
/// Slots that a launch tries first: most users have fewer sandboxes, and the file stays small.
const FIRST: u64 = 8;
/// Slots that a launch tries before it gives up. The last ones are among all that there may be.
const TRIES: u32 = 64;
/// Where names are locked: behind all slots, where no file has bytes.
const NAMES: u64 = 1 << 62;

/// Where a slot begins.
pub(super) const fn offset(slot: u64) -> u64 {
    slot * SIZE as u64
}

/// The byte that a launcher holds while its record is valid.
pub(super) const fn life(slot: u64) -> Range<u64> {
    offset(slot)..offset(slot) + 1
}

/// The byte that whoever writes the slot holds.
pub(super) const fn change(slot: u64) -> Range<u64> {
    offset(slot) + 1..offset(slot) + 2
}

/// The byte that stands for a name of 64 bits' hash. Two names that share one exclude each other, which chance does
/// once in 2^61.
pub(super) const fn name(hash: u64) -> Range<u64> {
    let byte = NAMES + (hash >> 3);
    byte..byte + 1
}

/// The slots that a launch tries, in this order: eight first, then among twice as many after every four. With half of
/// all slots of a size taken, the next one is found at the second try.
pub(super) fn candidates(seed: u64) -> impl Iterator<Item = u64> {
    let mut state = seed;
    (0..TRIES).map(move |tries| {
        // splitmix64: launches that begin at the same time try others.
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
