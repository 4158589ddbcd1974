// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits the cost of a loop of refusals: repeated events are only counted.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use palisade_event::{Event, Likeness, Object, Why};

use crate::store::BURST;

/// How many different events pass in a second. Further ones are counted together. A build that is refused in every
/// directory of its dependencies causes about a hundred.
const MOST: usize = 512;
/// The object of the event that stands for all events counted together.
pub const OTHERS: &str = "(others)";

/// Lets the first event of a kind pass, and counts similar ones for a second. Of many different ones, lets some
/// hundred pass in a second and counts the rest together. Returns the counts when the second is over.
///
/// Each launch has its own damper.
#[derive(Debug)]
pub struct Damper {
    most: usize,
    hasher: RandomState,
    held: HashMap<u64, Held>,
    /// The held events by the end of their second.
    order: VecDeque<(Instant, u64)>,
    /// The events that are counted together: the end of their second, their number, and an example.
    others: Option<Others>,
}

#[derive(Debug)]
struct Held {
    event: Event,
    repeated: u64,
}

#[derive(Debug)]
struct Others {
    until: Instant,
    count: u64,
    example: Event,
}

impl Default for Damper {
    fn default() -> Self {
        Self::new()
    }
}

impl Damper {
    /// A damper that has seen no event.
    #[must_use]
    pub fn new() -> Self {
        Self {
            most: MOST,
            hasher: RandomState::new(),
            held: HashMap::new(),
            order: VecDeque::new(),
            others: None,
        }
    }

    /// Whether a similar event passed within the last second, or too many events did. The event is then counted and
    /// needn't be built. Takes some hundred nanoseconds.
    pub fn absorbs(&mut self, likeness: Likeness<'_>, now: Instant) -> bool {
        self.absorbed(self.hasher.hash_one(likeness), now)
    }

    fn absorbed(&mut self, like: u64, now: Instant) -> bool {
        if let Some(held) = self.held.get_mut(&like) {
            // Its second may be over, but its row isn't taken out yet: still count it there.
            held.repeated += 1;
            return true;
        }
        if self.held.len() < self.most {
            return false;
        }
        match &mut self.others {
            Some(others) => others.count += 1,
            None => {
                let example = self.order.back().and_then(|(_, like)| self.held.get(like));
                let Some(example) = example.map(|held| held.event.clone()) else { return false };
                self.others = Some(Others { until: now + BURST, count: 1, example });
            }
        }
        true
    }

    /// Returns the event, or counts it.
    pub fn pass(&mut self, event: Event, now: Instant) -> Option<Event> {
        let like = self.hasher.hash_one(event.likeness());
        if self.absorbed(like, now) {
            return None;
        }
        self.held.insert(like, Held { event: event.clone(), repeated: 0 });
        self.order.push_back((now + BURST, like));
        Some(event)
    }

    /// Counts of similar events whose second is over: copies of the passed events, with the number of those that
    /// didn't pass.
    pub fn due(&mut self, now: Instant) -> Vec<Event> {
        let mut due = Vec::new();
        while let Some((until, like)) = self.order.front().copied()
            && until <= now
        {
            self.order.pop_front();
            due.extend(self.held.remove(&like).and_then(Held::counted));
        }
        if self.others.as_ref().is_some_and(|others| others.until <= now) {
            due.extend(self.others.take().map(Others::counted));
        }
        due
    }

    /// The next time at which counts are due.
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        let held = self.order.front().map(|(until, _)| *until);
        let others = self.others.as_ref().map(|others| others.until);
        held.into_iter().chain(others).min()
    }

    /// All remaining counts, at the end.
    pub fn rest(&mut self) -> Vec<Event> {
        self.due(Instant::now() + 2 * BURST + Duration::from_secs(1))
    }
}

impl Held {
    fn counted(self) -> Option<Event> {
        (self.repeated > 0).then_some(Event { count: self.repeated, ..self.event })
    }
}

impl Others {
    fn counted(self) -> Event {
        Event {
            object: Object::words(OTHERS),
            why: Why::text("too many at once to list each"),
            hint: None,
            count: self.count,
            ..self.example
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusal;

    fn total(events: &[Event]) -> u64 {
        events.iter().map(|event| event.count).sum()
    }

    #[test]
    fn the_first_passes_and_the_like_are_counted() {
        let (mut damper, now) = (Damper::new(), Instant::now());
        assert!(damper.next().is_none());
        assert!(damper.pass(refusal("/a"), now).is_some());
        assert!(damper.pass(refusal("/b"), now).is_some());
        for _ in 0..99_999 {
            assert!(damper.pass(refusal("/a"), now).is_none());
        }
        assert!(damper.due(now + BURST / 2).is_empty());
        assert_eq!(damper.next(), Some(now + BURST));
        let due = damper.due(now + BURST);
        assert_eq!(due.len(), 1, "/b was not repeated");
        assert_eq!((due[0].object.to_string().as_str(), due[0].count), ("/a", 99_999));
        assert!(damper.next().is_none());
        assert!(damper.pass(refusal("/a"), now + BURST).is_some(), "a second later it is news again");
    }

    #[test]
    fn what_need_not_be_made_is_known_by_its_likeness() {
        let (mut damper, now) = (Damper::new(), Instant::now());
        let one = refusal("/a");
        assert!(!damper.absorbs(one.likeness(), now));
        damper.pass(one.clone(), now);
        assert!(damper.absorbs(one.likeness(), now));
        let mut other = one.clone();
        other.why.origin = None;
        assert!(!damper.absorbs(other.likeness(), now), "another rule");
        assert_eq!(total(&damper.rest()), 1);
    }

    #[test]
    fn too_many_different_ones_are_counted_together_and_none_is_lost() {
        let (mut damper, now) = (Damper::new(), Instant::now());
        let mut passed = Vec::new();
        for number in 0..20_000 {
            passed.extend(damper.pass(refusal(&number.to_string()), now));
        }
        assert_eq!(passed.len(), MOST);
        assert!(damper.held.len() <= MOST && damper.order.len() <= MOST);
        let due = damper.due(now + BURST);
        assert_eq!(due.len(), 1);
        assert_eq!((due[0].object.to_string().as_str(), total(&due)), (OTHERS, 20_000 - 512));
        assert_eq!(due[0].why.origin, None);
        assert!(damper.pass(refusal("x"), now + BURST).is_some());
        assert!(damper.rest().is_empty());
    }
}
