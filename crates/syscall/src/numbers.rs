// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set of call numbers, small enough to be part of a plan.

/// Call numbers of one architecture, one bit for each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Numbers(Vec<u8>);

impl Numbers {
    /// The set with these bits: number N is bit N % 8 of byte N / 8.
    #[must_use]
    pub fn from_bits(bits: &[u8]) -> Self {
        Self(bits.to_vec())
    }

    /// The bits.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.0
    }

    /// Adds a number.
    pub fn insert(&mut self, number: u32) {
        let (byte, bit) = place(number);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        if let Some(byte) = self.0.get_mut(byte) {
            *byte |= bit;
        }
    }

    /// Whether the number is in the set.
    #[must_use]
    pub fn contains(&self, number: u32) -> bool {
        let (byte, bit) = place(number);
        self.0.get(byte).is_some_and(|byte| byte & bit != 0)
    }
}

const fn place(number: u32) -> (usize, u8) {
    ((number / 8) as usize, 1 << (number % 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_is_in() {
        let mut numbers = Numbers::default();
        for number in [0, 7, 8, 462] {
            assert!(!numbers.contains(number));
            numbers.insert(number);
        }
        let again = Numbers::from_bits(numbers.bits());
        for number in 0..600 {
            assert_eq!(again.contains(number), [0, 7, 8, 462].contains(&number), "{number}");
        }
        assert!(!again.contains(u32::MAX));
    }
}
