// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rules on paths, and the grants that result from them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::layer::{Origin, Rank, Strength};
use crate::pattern::PathPattern;

/// The lists of `[filesystem]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Read files and list directories; never execute.
    Read,
    /// Read, change and create.
    Write,
    /// Read and execute.
    Execute,
    /// Absent where possible, else an empty placeholder.
    Hide,
    /// Present, but every access is refused.
    Deny,
    /// A private, empty, writable directory.
    Tmpfs,
    /// A path that can't be created or changed.
    Protect,
}

impl Access {
    /// All lists, in the order in which they are printed.
    pub const ALL: [Self; 7] =
        [Self::Read, Self::Write, Self::Execute, Self::Hide, Self::Deny, Self::Tmpfs, Self::Protect];

    /// The key of the list in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Execute => "execute",
            Self::Hide => "hide",
            Self::Deny => "deny",
            Self::Tmpfs => "tmpfs",
            Self::Protect => "protect_paths",
        }
    }

    /// Whether entries may have the form `HOST=DEST`.
    #[must_use]
    pub const fn takes_destination(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::Execute)
    }

    /// The grant of a single entry of this list. `None` for paths that are only protected.
    #[must_use]
    pub const fn grant(self) -> Option<Grant> {
        Some(match self {
            Self::Read => Grant::Allowed { write: false, execute: false },
            Self::Write => Grant::Allowed { write: true, execute: false },
            Self::Execute => Grant::Allowed { write: false, execute: true },
            Self::Hide => Grant::Hidden,
            Self::Deny => Grant::Denied,
            Self::Tmpfs => Grant::Tmpfs,
            Self::Protect => return None,
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// One entry of a list of `[filesystem]`, or one path option of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathRule {
    /// The path on the host, as stated: `~`, variables and globs are kept until the rule is resolved.
    pub pattern: PathPattern,
    /// The path inside, if it differs. Contains no glob.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<PathPattern>,
    /// The list that contains the entry.
    pub access: Access,
    /// Where it was stated.
    pub origin: Origin,
    /// How firm the statement is.
    pub strength: Strength,
}

impl PathRule {
    /// The place in the order of precedence.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        Rank { layer: self.origin.layer, strength: self.strength }
    }
}

/// `execute = "~/bin" (/etc/palisade/config.toml:12)`.
impl fmt::Display for PathRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.access, self.pattern.to_string())?;
        if let Some(destination) = &self.destination {
            write!(f, " as {:?}", destination.to_string())?;
        }
        if self.strength == Strength::Locked {
            f.write_str(", locked")?;
        }
        write!(f, " ({})", self.origin)
    }
}

/// The policy's decision about one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grant {
    /// No rule matches the path. The view decides whether it is visible.
    Absent,
    /// It is made absent, or replaced by an empty placeholder.
    Hidden,
    /// It is visible, and every access is refused.
    Denied,
    /// It is replaced by a private, empty, writable directory.
    Tmpfs,
    /// It is visible and readable, and possibly more.
    Allowed {
        /// It can be changed, and names can be created in it.
        write: bool,
        /// It can be executed.
        execute: bool,
    },
}

impl Grant {
    /// How much of the host is visible: nothing, a name, a private directory, the path itself.
    const fn openness(self) -> u8 {
        match self {
            Self::Absent | Self::Hidden => 0,
            Self::Denied => 1,
            Self::Tmpfs => 2,
            Self::Allowed { .. } => 3,
        }
    }

    /// The grant that remains under a lock: never more than either of the two allows.
    #[must_use]
    pub const fn within(self, lock: Self) -> Self {
        match (self, lock) {
            (Self::Allowed { write, execute }, Self::Allowed { write: may_write, execute: may_execute }) => {
                Self::Allowed { write: write && may_write, execute: execute && may_execute }
            }
            _ if self.openness() > lock.openness() => lock,
            _ => self,
        }
    }

    /// Whether `other` also allows every access to the host's file that `self` allows.
    #[must_use]
    pub const fn is_within(self, other: Self) -> bool {
        match (self, other) {
            (Self::Allowed { write, execute }, Self::Allowed { write: may_write, execute: may_execute }) => {
                (!write || may_write) && (!execute || may_execute)
            }
            (Self::Allowed { .. }, _) => false,
            (Self::Tmpfs, _) => other.openness() >= 2,
            // A name without content allows no read, write or execute access.
            (Self::Absent | Self::Hidden | Self::Denied, _) => true,
        }
    }
}

/// `rw-`, `r-x`, `hidden`, `denied`, `private`, `absent`.
impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "absent",
            Self::Hidden => "hidden",
            Self::Denied => "denied",
            Self::Tmpfs => "private",
            Self::Allowed { write: false, execute: false } => "r--",
            Self::Allowed { write: true, execute: false } => "rw-",
            Self::Allowed { write: false, execute: true } => "r-x",
            Self::Allowed { write: true, execute: true } => "rwx",
        })
    }
}
