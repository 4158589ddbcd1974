// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A tree that finds the best of any range. The number of steps grows with the logarithm of the range's length.
//!
//! A tree over `n` ranks is an array of `2 * n` numbers: the ranks from `n` on, and before them, at each `i`, the
//! greater of `2 * i` and `2 * i + 1`. Ranks begin with 1. 0 means that there is no line.

/// Computes the nodes above the ranks.
pub(super) fn grow(tree: &mut [u32]) {
    for at in (1..tree.len() / 2).rev() {
        tree[at] = tree[2 * at].max(tree[2 * at + 1]);
    }
}

/// The greatest rank in `from..to`; 0 if there is no line.
pub(super) fn greatest(tree: &[u32], from: usize, to: usize) -> u32 {
    let n = tree.len() / 2;
    let (mut from, mut to, mut greatest) = (from + n, to + n, 0);
    while from < to {
        if from & 1 == 1 {
            greatest = greatest.max(tree[from]);
            from += 1;
        }
        if to & 1 == 1 {
            to -= 1;
            greatest = greatest.max(tree[to]);
        }
        from /= 2;
        to /= 2;
    }
    greatest
}

/// Removes a rank.
pub(super) fn clear(tree: &mut [u32], at: usize) {
    let mut at = at + tree.len() / 2;
    tree[at] = 0;
    while at > 1 {
        at /= 2;
        tree[at] = tree[2 * at].max(tree[2 * at + 1]);
    }
}

/// The up to `N` greatest ranks in a range, the greatest first. Allocates nothing: each rank that is found splits its
/// range in two.
#[derive(Debug)]
pub(super) struct Descending<'a, const N: usize> {
    tree: &'a [u32],
    /// From, to, and the greatest rank in between.
    ranges: [(usize, usize, u32); N],
    used: usize,
}

impl<'a, const N: usize> Descending<'a, N> {
    pub(super) fn new(tree: &'a [u32], from: usize, to: usize) -> Self {
        let mut new = Self { tree, ranges: [(0, 0, 0); N], used: 0 };
        new.put(from, to);
        new
    }

    fn put(&mut self, from: usize, to: usize) {
        let best = greatest(self.tree, from, to);
        if best == 0 {
            return;
        }
        if self.used < N {
            self.ranges[self.used] = (from, to, best);
            self.used += 1;
        }
    }

    /// The next rank. `position` gives a rank's position.
    pub(super) fn next(&mut self, position: impl Fn(u32) -> usize) -> Option<u32> {
        let at = (0..self.used).max_by_key(|at| self.ranges[*at].2)?;
        let (from, to, best) = self.ranges[at];
        self.used -= 1;
        self.ranges[at] = self.ranges[self.used];
        let position = position(best);
        self.put(from, position);
        self.put(position + 1, to);
        Some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_every_length_knows_its_greatest() {
        for n in 0..40usize {
            // A permutation, like real ranks.
            let ranks: Vec<u32> = (0..n).map(|at| u32::try_from((at * 7 + 3) % n + 1).unwrap()).collect();
            if ranks.iter().collect::<std::collections::BTreeSet<_>>().len() != n {
                continue;
            }
            let mut tree = vec![0; 2 * n];
            tree[n..].copy_from_slice(&ranks);
            grow(&mut tree);
            for from in 0..=n {
                for to in from..=n {
                    let mut expected: Vec<u32> = ranks[from..to].to_vec();
                    expected.sort_unstable_by(|one, other| other.cmp(one));
                    assert_eq!(greatest(&tree, from, to), expected.first().copied().unwrap_or(0));
                    let mut descending = Descending::<10>::new(&tree, from, to);
                    let place = |rank| ranks.iter().position(|other| *other == rank).unwrap();
                    for expected in expected.into_iter().take(9) {
                        assert_eq!(descending.next(place), Some(expected));
                    }
                }
            }
            for at in 0..n {
                clear(&mut tree, at);
                assert_eq!(greatest(&tree, 0, n), ranks[at + 1..].iter().copied().max().unwrap_or(0));
            }
        }
    }
}
