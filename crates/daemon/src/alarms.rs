// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The alarms: what is wrong with the guard now. An alarm lasts as long as its cause.

use crate::saying::say;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What can be wrong. Each kind has at most one alarm, the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// The kernel's questions can't be read.
    Questions,
    /// The trust database isn't there, or can't be opened.
    NoTrust,
    /// The trust database differs from what packages and trust files say.
    OldTrust,
    /// Changes of packages and trust files aren't reported.
    DeafToPackages,
    /// What the rules deny is only reported, although it should be refused.
    OnlySaid,
    /// Settings, rules or trust files were read again and couldn't be put in force.
    Reload,
    /// What was tried can't be reverted.
    Trial,
    /// BPF LSM is in another state than the guard.
    Lsm,
    /// Changes of files aren't reported.
    DeafToFiles,
    /// A file is refused because it can't be examined.
    Unread,
    /// The mounts can't be read.
    Mounts,
    /// No other process answers while palisaded is stopped.
    NoStandby,
    /// libmagic isn't available.
    NoKinds,
    /// Capabilities that aren't needed are kept.
    Rights,
    /// System calls that aren't needed are still allowed.
    Calls,
}

/// The alarms that are active now.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Mutex<BTreeMap<Trouble, String>>);

impl Alarms {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Trouble, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Raises an alarm: logs it, and shows it until its cause is gone.
    pub(crate) fn raise(&self, trouble: Trouble, what: String) {
        say(&format!("palisaded: alarm: {what}"));
        self.all().insert(trouble, what);
    }

    /// Raises an alarm, and logs it only if it isn't active already.
    pub(crate) fn raise_once(&self, trouble: Trouble, what: String) {
        if !self.all().contains_key(&trouble) {
            self.raise(trouble, what);
        }
    }

    /// Ends an alarm. Returns whether it was active.
    pub(crate) fn clear(&self, trouble: Trouble) -> bool {
        let ended = self.all().remove(&trouble);
        if let Some(what) = &ended {
            say(&format!("palisaded: alarm ended: {what}"));
        }
        ended.is_some()
    }

    /// The texts of all alarms.
    pub(crate) fn list(&self) -> Vec<String> {
        self.all().values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_is_shown_as_long_as_something_is_wrong() {
        let alarms = Alarms::default();
        alarms.raise(Trouble::Reload, "one".into());
        alarms.raise(Trouble::Reload, "another".into());
        alarms.raise(Trouble::Questions, "first".into());
        assert_eq!(alarms.list(), ["first", "another"]);
        assert!(alarms.clear(Trouble::Reload) && !alarms.clear(Trouble::Reload));
        assert_eq!(alarms.list(), ["first"]);
    }
}
