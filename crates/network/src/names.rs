// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manages synthetic addresses: addresses that stand for names.
//!
//! `198.18.0.0/15` is reserved for benchmarks (RFC 2544), so no network uses it. For IPv6 the gateway uses
//! `fd70:616c:6973::/64`, a unique local prefix (RFC 4193) whose "random" part spells `palis`: packets to it never
//! leave the sandbox's network, and it is easy to recognize in a log.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use palisade_policy::network::Name;

/// How many names can have an address at once: all of `198.18.0.0/15`.
pub(crate) const SIZE: u32 = 1 << 17;
const FIRST_4: u32 = Ipv4Addr::new(198, 18, 0, 0).to_bits();
const FIRST_6: u128 = Ipv6Addr::new(0xfd70, 0x616c, 0x6973, 0, 0, 0, 0, 0).to_bits();

/// The TTL of an answer.
pub(crate) const TTL: Duration = Duration::from_secs(60);
/// How long after its last answer an address isn't given to another name. Programs keep addresses longer than they are
/// told to (a JVM: 30 s from when it got the answer; browsers: a minute), but not for ever.
const KEPT: Duration = Duration::from_secs(10 * 60);

/// Marks the absence of a slot.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
struct Slot {
    name: Name,
    /// The number of open connections to its name.
    open: u32,
    /// When its address was last given out.
    answered: Instant,
    /// The slot that was answered before this one, and the one that was answered after it.
    older: u32,
    newer: u32,
}

/// The names that have an address. Slots are in a list, ordered by when they were answered.
#[derive(Debug)]
pub(crate) struct Names {
    size: u32,
    kept: Duration,
    slots: Vec<Slot>,
    by_name: HashMap<Name, u32>,
    oldest: u32,
    newest: u32,
}

impl Names {
    /// Creates an empty table with at most `size` names (at most [`SIZE`]).
    pub(crate) fn new(size: u32, kept: Option<Duration>) -> Self {
        Self {
            size: size.min(SIZE),
            kept: kept.unwrap_or(KEPT),
            slots: Vec::new(),
            by_name: HashMap::new(),
            oldest: NONE,
            newest: NONE,
        }
    }

    /// The number of a name's address, which the caller gives out now. `None`: all addresses are in use.
    pub(crate) fn give(&mut self, name: &Name, now: Instant) -> Option<u32> {
        let index = match self.by_name.get(name) {
            Some(index) => {
                let index = *index;
                self.unlink(index);
                index
            }
            None => self.take(name, now)?,
        };
        self.slot_mut(index)?.answered = now;
        self.link(index);
        Some(index)
    }

    /// A slot for a new name, in no list.
    fn take(&mut self, name: &Name, now: Instant) -> Option<u32> {
        let fresh = u32::try_from(self.slots.len()).ok()?;
        let index = if fresh < self.size {
            let slot = Slot { name: name.clone(), open: 0, answered: now, older: NONE, newer: NONE };
            self.slots.push(slot);
            fresh
        } else {
            let index = self.reusable(now)?;
            self.unlink(index);
            let slot = self.slot_mut(index)?;
            let former = std::mem::replace(&mut slot.name, name.clone());
            self.by_name.remove(&former);
            index
        };
        self.by_name.insert(name.clone(), index);
        Some(index)
    }

    /// The least recently answered slot that is free. The list is in the order of answers, so the search ends at the
    /// first slot that is too young. It skips only slots with connections, and the number of connections is limited.
    fn reusable(&self, now: Instant) -> Option<u32> {
        let mut index = self.oldest;
        loop {
            let slot = self.slots.get(index as usize)?;
            if now.saturating_duration_since(slot.answered) < self.kept {
                return None;
            }
            if slot.open == 0 {
                return Some(index);
            }
            index = slot.newer;
        }
    }

    /// The slot of a synthetic address.
    fn index_of(&self, address: IpAddr) -> Option<u32> {
        let offset = match address.to_canonical() {
            IpAddr::V4(address) => address.to_bits().checked_sub(FIRST_4)?,
            IpAddr::V6(address) => u32::try_from(address.to_bits().checked_sub(FIRST_6)?).ok()?,
        };
        // The very first address looks like a network's address, so it is given out last.
        let index = (offset < SIZE).then(|| offset.checked_sub(1).unwrap_or(SIZE - 1))?;
        self.slots.get(index as usize).map(|_slot| index)
    }

    /// The name that an address stands for.
    pub(crate) fn name_of(&self, address: IpAddr) -> Option<&Name> {
        self.slots.get(self.index_of(address)? as usize).map(|slot| &slot.name)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot> {
        self.slots.get_mut(index as usize)
    }

    fn unlink(&mut self, index: u32) {
        let Some(slot) = self.slots.get(index as usize) else { return };
        let (older, newer) = (slot.older, slot.newer);
        match self.slot_mut(older) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slot_mut(newer) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    /// Appends a slot, which is in no list, at the young end.
    fn link(&mut self, index: u32) {
        let newest = self.newest;
        match self.slot_mut(newest) {
            Some(slot) => slot.newer = index,
            None => self.oldest = index,
        }
        if let Some(slot) = self.slot_mut(index) {
            slot.older = newest;
            slot.newer = NONE;
        }
        self.newest = index;
    }
}

/// The IPv4 address with a number.
pub(crate) const fn address_4(index: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST_4 + (index + 1) % SIZE)
}

/// The IPv6 address with a number.
pub(crate) const fn address_6(index: u32) -> Ipv6Addr {
    Ipv6Addr::from_bits(FIRST_6 + ((index + 1) % SIZE) as u128)
}

/// Whether an address is in the synthetic ranges, with or without a name.
pub(crate) fn is_synthetic(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().wrapping_sub(FIRST_4) < SIZE,
        IpAddr::V6(address) => address.to_bits() >> 64 == FIRST_6 >> 64,
    }
}

/// Keeps a name's address from being given to another name while a connection uses it.
#[derive(Debug)]
pub(crate) struct Lease {
    names: Rc<RefCell<Names>>,
    index: u32,
}

impl Lease {
    /// The name that an address stands for, and its lease.
    pub(crate) fn of(names: &Rc<RefCell<Names>>, address: IpAddr) -> Option<(Name, Self)> {
        let mut table = names.borrow_mut();
        let index = table.index_of(address)?;
        let slot = table.slot_mut(index)?;
        slot.open += 1;
        Some((slot.name.clone(), Self { names: Rc::clone(names), index }))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(slot) = self.names.borrow_mut().slot_mut(self.index) {
            slot.open -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: u32) -> Name {
        format!("n{number}.example").parse().unwrap()
    }

    #[test]
    fn a_name_keeps_its_address_in_both_families() {
        let mut names = Names::new(SIZE, None);
        let now = Instant::now();
        let first = names.give(&name(1), now).unwrap();
        let second = names.give(&name(2), now).unwrap();
        assert_eq!(names.give(&name(1), now), Some(first));
        assert_eq!(address_4(first).to_string(), "198.18.0.1");
        assert_eq!(address_6(second).to_string(), "fd70:616c:6973::2");
        assert_eq!(names.name_of(address_4(second).into()), Some(&name(2)));
        assert_eq!(names.name_of(address_6(first).into()), Some(&name(1)));
        assert_eq!(names.name_of(IpAddr::V6(address_4(first).to_ipv6_mapped())), Some(&name(1)));
        for other in ["198.18.0.3", "198.20.0.0", "198.17.255.255", "10.0.0.1", "fd70:616c:6973::", "::1"] {
            assert_eq!(names.name_of(other.parse().unwrap()), None, "{other}");
        }
        assert_eq!(address_4(SIZE - 1).to_string(), "198.18.0.0");
        assert_eq!(address_4(SIZE - 2).to_string(), "198.19.255.255");
    }

    #[test]
    fn the_least_recently_answered_free_name_makes_place() {
        let kept = Duration::from_secs(100);
        let names = Rc::new(RefCell::new(Names::new(3, Some(kept))));
        let begin = Instant::now();
        let give =
            |number, seconds| names.borrow_mut().give(&name(number), begin + Duration::from_secs(seconds));
        assert_eq!([give(1, 0), give(2, 1), give(3, 2)], [Some(0), Some(1), Some(2)]);
        assert_eq!(give(4, 99), None, "all are young");
        assert_eq!(give(1, 50), Some(0), "asked for again");
        let lease = Lease::of(&names, address_4(1).into());
        assert_eq!(lease.as_ref().map(|(name, _lease)| name.clone()), Some(name(2)));
        assert_eq!(give(4, 120), Some(2), "the oldest is in use, the next isn't");
        assert_eq!(names.borrow().name_of(address_4(2).into()), Some(&name(4)));
        assert_eq!(give(3, 120), None, "it lost its address, and there is no other");
        drop(lease);
        assert_eq!(give(3, 121), Some(1));
        assert_eq!(give(2, 122), None);
    }

    #[test]
    fn a_million_names_through_a_full_range() {
        let mut names = Names::new(SIZE, Some(Duration::ZERO));
        let now = Instant::now();
        for number in 0..400_000 {
            let index = names.give(&name(number), now).unwrap();
            assert_eq!(names.name_of(address_6(index).into()), Some(&name(number)));
        }
        assert_eq!(names.by_name.len(), SIZE as usize);
    }
}
