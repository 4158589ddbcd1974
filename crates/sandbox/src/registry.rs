// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry of running sandboxes: one file in the user's runtime directory, with a slot for each launch.
//!
//! A launcher takes a free slot once its command runs, and writes a record into it. It holds a lock on a byte of the
//! slot, which the kernel releases when the launcher dies. So readers need not trust a process number: a slot with a
//! locked byte is a running launch. Slots of launchers that were killed, or that became their command, are judged by
//! processes that began before the record was written. Launches reuse the slots of ended launches, and readers empty
//! them. No daemon takes part, and no launch fails because of the registry.
//!
//! - [`directory`]: the runtime directory, its owner, and the file's name
//! - `slot`: the position of slots, and the meaning of a slot's bytes for locks
//! - [`record`]: the content of a slot
//! - [`entry`]: the writer, which is a launch: takes a slot, writes and empties it; takes a name
//! - [`list`]: the readers: which sandboxes run, and which have ended
//! - [`process`]: facts from `/proc`

pub mod directory;
pub mod entry;
pub mod list;
pub mod process;
pub mod record;

mod slot;

use crate::plan::{Namespace, Plan};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A launch's number as in its events ([`palisade_event::Launch`]): short enough to type, and never used twice. It
/// consists of the launcher's process number and a part of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Number {
    /// The launcher's process.
    pub launcher: u32,
    /// When the launch began, in microseconds since 1970.
    pub began: u64,
}

impl Number {
    /// The number of a launch by this process, now.
    #[must_use]
    pub fn now() -> Self {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        Self { launcher: std::process::id(), began: u64::try_from(began).unwrap_or(0) }
    }

    /// When the launch began.
    #[must_use]
    pub fn time(self) -> SystemTime {
        // A record may hold any number, but not every number is a time.
        UNIX_EPOCH + Duration::from_micros(self.began.min(LATEST))
    }
}

/// The year 2106.
const LATEST: u64 = u32::MAX as u64 * 1_000_000;

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Process numbers are reused, but not in the same microsecond of the same 16 seconds.
        write!(f, "{}-{:06x}", self.launcher, self.began & 0xff_ffff)
    }
}

/// The time of the machine's start, in nanoseconds since 1970, by the present clock; `since`: nanoseconds since that start.
fn boot(since: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(now).unwrap_or(u64::MAX).saturating_sub(since)
}

/// Which mechanisms separate a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Namespaces, Landlock where the kernel has it, seccomp.
    Full,
    /// The same without a user namespace.
    NoUserns,
    /// Landlock and seccomp only.
    Landlock,
    /// Seccomp only.
    Seccomp,
}

impl Tier {
    pub(crate) fn of(plan: &Plan<'_>) -> Self {
        match (plan.namespaces.is_empty(), plan.landlock) {
            (false, _) if plan.namespaces.contains(&Namespace::User) => Self::Full,
            (false, _) => Self::NoUserns,
            (true, Some(_)) => Self::Landlock,
            (true, None) => Self::Seccomp,
        }
    }

    /// The word for the tier.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::NoUserns => "no-userns",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
        }
    }
}

/// Why a launch isn't listed, or the registry can't be read.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// The directory can't be made or opened.
    #[error("can't use the runtime directory {directory:?}: {source}")]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: Errno,
    },
    /// Other users can change the directory or the file.
    #[error("the runtime directory {directory:?} isn't trusted: {reason}")]
    Distrusted {
        /// The directory.
        directory: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file can't be used.
    #[error("can't {action} the list of running sandboxes in {directory:?}: {source}")]
    File {
        /// The action that failed.
        action: &'static str,
        /// The directory.
        directory: PathBuf,
        /// Why.
        source: Errno,
    },
    /// All slots are in use.
    #[error("the list of running sandboxes in {directory:?} has no room")]
    Full {
        /// The directory.
        directory: PathBuf,
    },
    /// A sandbox of this name runs.
    #[error("a sandbox named {name:?} is running")]
    NameTaken {
        /// The name.
        name: String,
    },
}

impl RegistryError {
    fn file(action: &'static str, directory: &Path, source: Errno) -> Self {
        Self::File { action, directory: directory.to_owned(), source }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let quoted = |directory: &PathBuf| crate::error::quoted(&directory.to_string_lossy());
        Some(match self {
            Self::Distrusted { directory, .. } => {
                let directory = quoted(directory);
                format!("ls -ld {directory}   # shows the owner; root can remove it: rm -r {directory}")
            }
            Self::Directory { .. } => {
                "export XDG_RUNTIME_DIR=DIRECTORY   # one of yours, mode 0700".to_owned()
            }
            Self::File { directory, source: Errno::NOSPC | Errno::DQUOT, .. } => {
                format!("df -h {0}; df -i {0}   # is it full?", quoted(directory))
            }
            Self::File { directory, .. } => format!("ls -ld {}", quoted(directory)),
            Self::Full { .. } => "palisade ps   # removes ended sandboxes from the list".to_owned(),
            Self::NameTaken { .. } => "palisade ps   # shows it; take another name".to_owned(),
        })
    }

    /// The directory of the error.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory { directory, .. }
            | Self::Distrusted { directory, .. }
            | Self::File { directory, .. }
            | Self::Full { directory } => Some(directory),
            Self::NameTaken { .. } => None,
        }
    }

    /// Whether a launch reports the error. It doesn't where no directory can be written, as in many containers. Readers
    /// of the registry report that.
    #[must_use]
    pub const fn is_told(&self) -> bool {
        !matches!(self, Self::Directory { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_has_one_number() {
        let number = Number::now();
        let event = palisade_event::Launch::new(&["true"], number.launcher, number.time());
        assert_eq!(*event.sandbox, *number.to_string());
        assert!(Number { launcher: 1, began: u64::MAX }.time() > number.time());
    }
}
