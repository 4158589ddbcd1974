// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts the refusals of a launch, and passes each on to where programs read it: a file, a status descriptor.
//!
//! A program that is refused something tries again and again. So a refusal is passed on once, and later only its count.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use palisade_event::{Event, Object, Refusal, Why};

use crate::OTHERS;

/// How many different refusals are passed on. Further ones are counted together, so that a program that makes names up
/// fills neither the memory nor the disk.
const MOST: usize = 1000;
/// How many bytes of lines are passed on.
const LARGEST: usize = 1 << 20;

/// A place where programs read refusals. It never blocks for long, and never fails a launch.
pub trait RefusalOutlet: Send {
    /// Takes a refusal, or a new count of an earlier one. `number` is the same for the same refusal.
    fn take(&mut self, number: usize, refusal: &Refusal<'_>);

    /// Why it takes no more; each reason once.
    fn complaint(&mut self) -> Option<String> {
        None
    }
}

/// The refusals of one launch.
#[derive(Default)]
pub struct Refusals {
    outlets: Vec<Box<dyn RefusalOutlet>>,
    hasher: RandomState,
    known: HashMap<u64, usize>,
    rows: Vec<Row>,
    others: Option<usize>,
    bytes: usize,
}

struct Row {
    event: Event,
    count: u64,
}

impl std::fmt::Debug for Refusals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refusals").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}

impl Refusals {
    /// Passes refusals on to `outlets`.
    #[must_use]
    pub fn new(outlets: Vec<Box<dyn RefusalOutlet>>) -> Self {
        Self { outlets, ..Self::default() }
    }

    /// Takes an event, if it is a refusal: the first of its kind, or the count of further ones.
    pub(crate) fn take(&mut self, event: &Event) {
        if self.outlets.is_empty() || !Refusal::is_one(event) {
            return;
        }
        let like = self.hasher.hash_one(event.likeness());
        let number = match self.known.get(&like) {
            Some(number) => *number,
            None => self.add(event, like),
        };
        let Some(row) = self.rows.get_mut(number) else { return };
        row.count = row.count.saturating_add(event.count);
        let refusal = Refusal::new(&row.event, row.count);
        for outlet in &mut self.outlets {
            outlet.take(number, &refusal);
        }
    }

    /// The number of a refusal that wasn't seen before.
    fn add(&mut self, event: &Event, like: u64) -> usize {
        let row = |event| Row { event, count: 0 };
        let length = Refusal::new(event, 1).line().map_or(0, |line| line.len());
        if self.rows.len() < MOST && self.bytes + length <= LARGEST {
            self.bytes += length;
            self.known.insert(like, self.rows.len());
            self.rows.push(row(event.clone()));
            return self.rows.len() - 1;
        }
        *self.others.get_or_insert_with(|| {
            let others = Event {
                object: Object::words(OTHERS),
                why: Why::text("too many to list each"),
                hint: None,
                ..event.clone()
            };
            self.rows.push(row(others));
            self.rows.len() - 1
        })
    }

    /// Why refusals aren't passed on somewhere; each reason once.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        self.outlets.iter_mut().filter_map(|outlet| outlet.complaint()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusal;
    use std::sync::{Arc, Mutex};

    /// The last count and line of each number.
    type Lines = Arc<Mutex<HashMap<usize, (u64, String)>>>;

    struct Kept(Lines);

    impl RefusalOutlet for Kept {
        fn take(&mut self, number: usize, refusal: &Refusal<'_>) {
            self.0.lock().unwrap().insert(number, (refusal.count, refusal.line().unwrap()));
        }
    }

    fn counted() -> (Refusals, Lines) {
        let kept = Arc::new(Mutex::new(HashMap::new()));
        (Refusals::new(vec![Box::new(Kept(Arc::clone(&kept)))]), kept)
    }

    #[test]
    fn the_same_refusal_keeps_its_number_and_its_counts_are_added() {
        let (mut refusals, kept) = counted();
        refusals.take(&refusal("/a"));
        refusals.take(&refusal("/b"));
        refusals.take(&Event { count: 99, ..refusal("/a") });
        let kept = kept.lock().unwrap();
        assert_eq!((kept[&0].0, kept[&1].0, kept.len()), (100, 1, 2));
        assert!(kept[&0].1.contains("\"object\":\"/a\""));
    }

    #[test]
    fn too_many_are_counted_together_and_none_is_lost() {
        for length in [1, 10_000] {
            let (mut refusals, kept) = counted();
            for number in 0..3000 {
                refusals.take(&refusal(&format!("/{}{number}", "x".repeat(length))));
            }
            let kept = kept.lock().unwrap();
            assert_eq!(kept.values().map(|(count, _line)| count).sum::<u64>(), 3000);
            assert!(kept.len() <= MOST + 1 && kept[&(kept.len() - 1)].1.contains(OTHERS));
            let bytes: usize = kept.values().map(|(_count, line)| line.len()).sum();
            assert!(bytes <= LARGEST + 1000, "{bytes}");
        }
    }
}
