// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The values of single settings. Each type checks its value when it is made.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::layer::Tighten;
use crate::pattern::PathPattern;

/// What a sandbox shows of the host before the policy grants any path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum View {
    /// The program's own files, its libraries, and what the policy names.
    Closure,
    /// System directories read-only, a private home, nothing else.
    System,
    /// The whole host read-only; `/run`, `/tmp` and the runtime directory replaced.
    Host,
}

impl View {
    /// All values, narrowest first.
    pub const ALL: [Self; 3] = [Self::Closure, Self::System, Self::Host];

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Closure => "closure",
            Self::System => "system",
            Self::Host => "host",
        }
    }
}

/// The network mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// A private network with only loopback.
    None,
    /// What the rules of `[network]` allow.
    Filtered,
    /// The host's network.
    Host,
}

impl NetworkMode {
    /// All values, narrowest first.
    pub const ALL: [Self; 3] = [Self::None, Self::Filtered, Self::Host];

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Filtered => "filtered",
            Self::Host => "host",
        }
    }
}

/// How protected names are protected. Ordered, the firmest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protect {
    /// A process outside judges each call that makes or changes a name, and makes the call itself.
    Broker,
    /// Existing names are read-only.
    Mounts,
    /// Names aren't protected.
    Off,
}

impl Protect {
    /// All values, firmest first.
    pub const ALL: [Self; 3] = [Self::Broker, Self::Mounts, Self::Off];

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Mounts => "mounts",
            Self::Off => "off",
        }
    }
}

impl fmt::Display for Protect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

impl fmt::Display for NetworkMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// Why a text is no valid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is no valid host name.
    #[error(
        "`{name}` is no host name: 1 to 64 letters, digits, `-`, `_` and `.`, \
         beginning with a letter or digit"
    )]
    Hostname {
        /// The word.
        name: String,
    },
    /// It is no valid name of a system call.
    #[error("`{name}` is no name of a system call: small letters, digits and `_`")]
    Syscall {
        /// The word.
        name: String,
    },
    /// It is no valid name of an environment variable.
    #[error("{name:?} is no name of an environment variable: it can't be empty or hold `=` or NUL")]
    Variable {
        /// The word.
        name: String,
    },
    /// It isn't what the key takes.
    #[error("{text:?} is not {what}")]
    Word {
        /// The word.
        text: String,
        /// What the key takes.
        what: &'static str,
    },
    /// It is no valid path.
    #[error("{text:?}: {error}")]
    Path {
        /// The text.
        text: String,
        /// What is wrong with it.
        error: crate::pattern::PatternError,
    },
    /// It is no known portal.
    #[error("`{name}` is not a known portal")]
    Portal {
        /// The word.
        name: String,
        /// The most similar known one.
        nearest: Option<&'static str>,
    },
    /// It is no time at which a clock can start.
    #[error("{text:?} is no time of day: a day or a second of the years 1970 to 9999, in UTC")]
    Time {
        /// The text.
        text: String,
    },
    /// A value that can't be passed in the environment.
    #[error("the value of `{name}` contains a NUL byte, which an environment variable can't")]
    VariableValue {
        /// The variable.
        name: String,
    },
}

impl ValueError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Portal { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::Portal { nearest: None, .. } => {
                Some(format!("known portals: {}", crate::portal::PORTALS.join(", ")))
            }
            Self::Time { .. } => Some(
                "time = \"2030-01-01\", time = \"2030-01-01T12:00:00Z\", or seconds since 1970: time = 1893456000"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// The most processors that can be simulated: programs have room for a mask of this many.
pub const MOST_PROCESSORS: u32 = 1024;

/// The host name inside a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct Hostname(String);

impl Hostname {
    /// Checks a host name. `sethostname(2)` accepts 64 bytes.
    ///
    /// # Errors
    /// When it is empty, too long, or contains characters other than letters, digits, `-`, `_`, `.`.
    pub fn new(name: &str) -> Result<Self, ValueError> {
        let fine = (1..=64).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
        if fine { Ok(Self(name.to_owned())) } else { Err(ValueError::Hostname { name: name.into() }) }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One name in `[syscalls]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct SyscallRule {
    /// The call's name. The filter compiler checks whether the call exists.
    pub name: String,
    /// Removed from the list of refused calls, or added to it.
    pub allow: bool,
}

impl SyscallRule {
    /// Checks a call's name.
    ///
    /// # Errors
    /// When no call can have this name.
    pub fn new(name: &str, allow: bool) -> Result<Self, ValueError> {
        let fine = (1..=64).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if fine {
            Ok(Self { name: name.to_owned(), allow })
        } else {
            Err(ValueError::Syscall { name: name.into() })
        }
    }
}

impl Tighten for View {
    fn loosens(&self, lock: &Self) -> bool {
        self > lock
    }
}

impl Tighten for NetworkMode {
    fn loosens(&self, lock: &Self) -> bool {
        self > lock
    }
}

impl Tighten for Protect {
    fn loosens(&self, lock: &Self) -> bool {
        self > lock
    }
}

/// A switch is a permission: on allows more. Every boolean of the language is named accordingly.
impl Tighten for bool {
    fn loosens(&self, lock: &Self) -> bool {
        *self && !*lock
    }
}

/// A number of a user or group.
impl Tighten for u32 {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

impl Tighten for Hostname {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

impl Tighten for PathPattern {
    fn loosens(&self, lock: &Self) -> bool {
        self != lock
    }
}

/// For rules about one call: allowing it allows more.
impl Tighten for SyscallRule {
    fn loosens(&self, lock: &Self) -> bool {
        self.allow.loosens(&lock.allow)
    }
}
