// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a statement comes from, how strong it is, and what that means when statements meet.

use serde::{Deserialize, Serialize};

/// The version of the policy language; files say `schema = 1`.
pub const SCHEMA: u32 = 1;

pub use palisade_event::{Layer, Origin};

/// Whether a file of this layer may hold `[locked.…]` sections.
///
/// Only root writes those two places, so only root can lock what a user may do.
#[must_use]
pub const fn may_lock(layer: Layer) -> bool {
    matches!(layer, Layer::Distribution | Layer::Administrator)
}

/// How firmly a statement is made. Inside one layer the stronger statement wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Strength {
    /// Yields to every other statement of its own layer and to every later layer.
    Default,
    /// The usual strength.
    #[default]
    Set,
    /// No later layer loosens it; a later layer may still tighten it.
    Locked,
}

impl Strength {
    /// All strengths, weakest first.
    pub const ALL: [Self; 3] = [Self::Default, Self::Set, Self::Locked];
}

/// A value, with the place and the strength it was stated with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// What was stated.
    pub value: T,
    /// Where.
    pub origin: Origin,
    /// How firmly.
    pub strength: Strength,
}

impl<T> Sourced<T> {
    /// The place in the order of precedence: layers first, strengths inside a layer.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        Rank { layer: self.origin.layer, strength: self.strength }
    }
}

/// A step in the order of precedence; later (greater) steps win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
    /// The layer.
    pub layer: Layer,
    /// The strength inside the layer.
    pub strength: Strength,
}

/// A value of which it can be said whether another one allows more.
///
/// A lock stands against a later layer exactly when the later value would loosen it.
pub trait Tighten {
    /// Whether `self` allows something that `lock` does not. Values without an order loosen
    /// whenever they differ.
    fn loosens(&self, lock: &Self) -> bool;
}

/// The statement that holds among `candidates` (sorted by [`Rank`], then in order of appearance).
///
/// The last one holds, except that after a lock a statement of a later layer is passed over if it
/// would loosen the lock.
pub fn prevailing<T: Tighten>(candidates: &[Sourced<T>]) -> Option<&Sourced<T>> {
    let mut holds: Option<&Sourced<T>> = None;
    let mut lock: Option<&Sourced<T>> = None;
    for candidate in candidates {
        if let Some(lock) = lock
            && candidate.origin.layer > lock.origin.layer
            && candidate.value.loosens(&lock.value)
        {
            continue;
        }
        if candidate.strength == Strength::Locked {
            lock = Some(candidate);
        }
        holds = Some(candidate);
    }
    holds
}
