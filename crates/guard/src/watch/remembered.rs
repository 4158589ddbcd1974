// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bounded cache with two generations: the older one is dropped when the younger one is full.

use std::collections::HashMap;
use std::hash::Hash;

/// A map that forgets entries that weren't asked for in a long time.
#[derive(Debug)]
pub struct Remembered<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    most: usize,
}

impl<K: Hash + Eq, V> Remembered<K, V> {
    /// Remembers `most` values at least and twice as many at most.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), most }
    }

    /// The value of a key.
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        if self.young.contains_key(key) {
            return self.young.get_mut(key);
        }
        let (key, value) = self.old.remove_entry(key)?;
        Some(self.place(key, value))
    }

    /// Gives a key its value.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        self.old.remove(&key);
        self.place(key, value)
    }

    fn place(&mut self, key: K, value: V) -> &mut V {
        if self.young.len() >= self.most {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.entry(key).insert_entry(value).into_mut()
    }

    /// Forgets one.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.young.remove(key).or_else(|| self.old.remove(key))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut remembered = Remembered::new(10);
        for number in 0..1000 {
            remembered.insert(number, number);
            assert_eq!(remembered.get(&0), Some(&mut 0), "at {number}");
            assert!(remembered.len() <= 20);
        }
        assert_eq!(remembered.get(&1), None);
        assert_eq!(remembered.remove(&999), Some(999));
        assert_eq!(remembered.get(&999), None);
    }
}
