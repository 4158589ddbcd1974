// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random numbers from a seed (splitmix64): a sequence can be made again from its seed and its number alone.

pub(crate) struct Random(u64);

const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The numbers of sequence `number` under `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut start = Self(seed);
        let mut mixed = Self(start.next() ^ number);
        Self(mixed.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        // The bias is of no account for limits this small.
        usize::try_from(self.next() % limit as u64).unwrap_or(0)
    }

    /// Whether an event of so many percent happens.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// One of several, each as likely as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, from: &[(T, usize)]) -> T {
        let mut left = self.below(from.iter().map(|(_, weight)| weight).sum());
        for (value, weight) in from {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        from[0].0
    }
}
