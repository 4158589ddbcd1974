// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Defines a statement's strength and rank, and which of several statements wins.

use serde::{Deserialize, Serialize};

/// The version of the policy language; files say `schema = 1`.
pub const SCHEMA: u32 = 1;

pub use palisade_event::{Layer, Origin};

/// Whether a file of this layer may contain `[locked.…]` sections.
///
/// Only root can write these two layers' directories, so only root can lock what a user may do.
#[must_use]
pub const fn may_lock(layer: Layer) -> bool {
    matches!(layer, Layer::Distribution | Layer::Administrator)
}

/// How firm a statement is. Inside one layer the stronger statement wins.
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

/// A value with its origin and strength.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it was stated.
    pub origin: Origin,
    /// How firm the statement is.
    pub strength: Strength,
}

impl<T> Sourced<T> {
    /// Its place in the order of precedence: by layer, then by strength.
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

/// A value that can be compared with another: which one allows more.
///
/// A lock overrides a later layer's value exactly when that value would loosen the lock.
pub trait Tighten {
    /// Whether `self` allows something that `lock` doesn't allow. Values without an order loosen a lock whenever they
    /// differ from it.
    fn loosens(&self, lock: &Self) -> bool;
}

/// The statement that wins among `candidates` (sorted by [`Rank`], then in order of appearance).
///
/// The last one wins, with one exception: after a lock, a statement of a later layer is skipped if it would loosen
/// the lock.
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
