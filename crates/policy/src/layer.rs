// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a statement comes from, how strong it is, and what that means when statements meet.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The version of the policy language; files say `schema = 1`.
pub const SCHEMA: u32 = 1;

/// Who speaks. Ordered: a later layer wins over an earlier one, unless that one is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// What is compiled into the binary.
    BuiltIn,
    /// `/usr/share/palisade`.
    Distribution,
    /// `/etc/palisade`.
    Administrator,
    /// `$XDG_CONFIG_HOME/palisade`.
    User,
    /// `.palisade.toml`, once the user has allowed it.
    Project,
    /// The arguments of this launch.
    CommandLine,
}

impl Layer {
    /// All layers, lowest first.
    pub const ALL: [Self; 6] = [
        Self::BuiltIn,
        Self::Distribution,
        Self::Administrator,
        Self::User,
        Self::Project,
        Self::CommandLine,
    ];

    /// Whether a file of this layer may hold `[locked.…]` sections.
    ///
    /// Only root writes those two places, so only root can lock what a user may do.
    #[must_use]
    pub const fn may_lock(self) -> bool {
        matches!(self, Self::Distribution | Self::Administrator)
    }

    /// The layer's name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Distribution => "distribution",
            Self::Administrator => "administrator",
            Self::User => "user",
            Self::Project => "project",
            Self::CommandLine => "command line",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
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

/// The place a statement was read from.
///
/// Every member is always written, so that formats without names (a plan's) can read it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// Which layer it belongs to.
    pub layer: Layer,
    /// The file, if it was read from one.
    #[serde(default, serialize_with = "lossy_file")]
    pub file: Option<Arc<Path>>,
    /// Line, from 1; for the command line the index of the argument.
    pub line: u32,
    /// Column in characters, from 1; 0 where there is none.
    pub column: u32,
}

/// Serde refuses paths that are not UTF-8; an origin is for people to read, so it is shown lossily.
#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn lossy_file<S: serde::Serializer>(file: &Option<Arc<Path>>, to: S) -> Result<S::Ok, S::Error> {
    match file {
        Some(path) => to.serialize_some(&*path.to_string_lossy()),
        None => to.serialize_none(),
    }
}

impl Origin {
    /// The origin of an argument of the command line.
    #[must_use]
    pub const fn argument(index: u32) -> Self {
        Self { layer: Layer::CommandLine, file: None, line: index, column: 0 }
    }

    /// The origin of what no file says: the value that holds when nobody speaks.
    #[must_use]
    pub const fn built_in() -> Self {
        Self { layer: Layer::BuiltIn, file: None, line: 0, column: 0 }
    }
}

/// `/etc/palisade/config.toml:12`, `built in`, `command line`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", palisade_text::shown(&**file), self.line),
            None => f.write_str(self.layer.name()),
        }
    }
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
