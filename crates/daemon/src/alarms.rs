// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with the guard, for as long as it is.

use crate::saying::say;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What can be wrong. Of each there is one alarm, the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trouble {
    /// The kernel's questions can't be read.
    Questions,
    /// The trust database isn't there, or can't be opened.
    NoTrust,
    /// It isn't what packages and trust files say.
    OldTrust,
    /// What packages and trust files change isn't heard of.
    DeafToPackages,
    /// What the rules deny is only said, although it is to be refused.
    OnlySaid,
    /// What was read again isn't in force.
    Reload,
    /// What was tried can't be taken back.
    Trial,
    /// BPF LSM does something else than the guard.
    Lsm,
    /// Changes of files aren't heard of.
    DeafToFiles,
    /// Something is refused because it can't be looked at.
    Unread,
    /// The mounts can't be looked at.
    Mounts,
    /// Nobody answers when palisaded is stopped.
    NoStandby,
    /// libmagic isn't asked.
    NoKinds,
    /// Rights that aren't needed are kept.
    Rights,
    /// System calls that aren't needed can be made.
    Calls,
}

/// What is wrong now.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Mutex<BTreeMap<Trouble, String>>);

impl Alarms {
    fn all(&self) -> MutexGuard<'_, BTreeMap<Trouble, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something is wrong: said, and shown until it is over.
    pub(crate) fn raise(&self, trouble: Trouble, what: String) {
        say(&format!("palisaded: alarm: {what}"));
        self.all().insert(trouble, what);
    }

    /// Something is wrong: said if it wasn't before.
    pub(crate) fn raise_once(&self, trouble: Trouble, what: String) {
        if !self.all().contains_key(&trouble) {
            self.raise(trouble, what);
        }
    }

    /// It isn't wrong any more; whether it was.
    pub(crate) fn clear(&self, trouble: Trouble) -> bool {
        let ended = self.all().remove(&trouble);
        if let Some(what) = &ended {
            say(&format!("palisaded: no longer so: {what}"));
        }
        ended.is_some()
    }

    /// In words.
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
