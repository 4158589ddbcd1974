// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls of a run: compares them with a profile, and stores learned calls for the profile.

use super::Under;
use crate::apply::start::LaunchEvent;
use crate::error::PlanError;
use crate::facts::Facts;
use crate::filter::calls::{Fate, fate};
use crate::plan::Plan;
use palisade_syscall::Syscall;
use palisade_syscall::store::{Key, Store, StoreError};
use std::collections::BTreeSet;
use std::path::Path;

/// The calls of a run that were reported.
///
/// The mode of the run decides which calls are reported: with `learn` those that were made, with `enforce` and `ask`
/// those that were refused. With `off` none is reported, so there is nothing to decide.
#[derive(Debug, Default)]
pub struct Calls {
    made: BTreeSet<Syscall>,
    /// Those that were refused.
    pub refused: BTreeSet<Syscall>,
}

impl Calls {
    /// Notes an event, if it is about a call.
    pub fn note(&mut self, launch_event: &LaunchEvent<'_>) {
        match launch_event {
            LaunchEvent::Called { call, .. } => drop(self.made.insert(*call)),
            LaunchEvent::Unlearned { call, .. } => drop(self.refused.insert(*call)),
            _ => {}
        }
    }

    /// The calls that were learned for a profile, by its name or file, before this run. Empty if this run reported no
    /// calls, because then there is nothing to decide.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn known(
        &self,
        facts: &Facts,
        name: &str,
        file: Option<&Path>,
    ) -> Result<BTreeSet<Syscall>, StoreError> {
        if self.made.is_empty() && self.refused.is_empty() {
            return Ok(BTreeSet::new());
        }
        let store = Store::read(&facts.places.syscalls())?;
        let known = store.map(|store| store.allowed(&key(name, file))).transpose()?.flatten();
        Ok(known.unwrap_or_default())
    }
}

/// The key under which a profile's calls are stored.
fn key(name: &str, file: Option<&Path>) -> String {
    let key = match file {
        Some(file) => Key::of_profile_file(&file.canonicalize().unwrap_or_else(|_gone| file.to_owned())),
        None => Key::Profile(name.to_owned()),
    };
    key.text()
}

/// How a profile and a run differ about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDifference {
    /// It was made, and the profile refuses it.
    Refused(Syscall),
    /// It was refused, and the profile allows it.
    Made(Syscall),
    /// It was refused, and was learned for the profile earlier.
    Known(Syscall),
}

/// Calls that were made and that the profile refuses, and calls that were refused and that it allows. `known`: calls
/// that were learned for a profile of this name earlier.
pub(super) fn differences(
    calls: &Calls,
    known: &BTreeSet<Syscall>,
    after: &Under,
) -> Result<Vec<CallDifference>, PlanError> {
    let mut found = Vec::new();
    for call in &calls.made {
        if fate(&after.plan, &after.policy, *call)? == Fate::Refused && !known.contains(call) {
            found.push(CallDifference::Refused(*call));
        }
    }
    for call in &calls.refused {
        if fate(&after.plan, &after.policy, *call)? == Fate::Made {
            found.push(CallDifference::Made(*call));
        } else if known.contains(call) {
            found.push(CallDifference::Known(*call));
        }
    }
    Ok(found)
}

/// Stores the calls that were learned for the command under `plan` for a kept profile, too. Without them the profile
/// would refuse every call that must be learned.
///
/// # Errors
/// When the store can't be used.
pub fn give(plan: &Plan<'_>, facts: &Facts, name: &str, file: Option<&Path>) -> Result<(), StoreError> {
    let Some(calls) = plan.broker.as_ref().and_then(|broker| broker.calls.as_ref()) else { return Ok(()) };
    let (from, into) = (calls.profile.to_string(), key(name, file));
    let store = facts.places.syscalls();
    // Nothing is stored if nothing was learned: a profile without learned calls differs from one that needs no calls.
    let known = Store::read(&store)?.map(|store| store.allowed(&from)).transpose()?.flatten();
    if known.is_some() && from != into {
        Store::open(&store)?.merge(&[&from], &into)?;
    }
    Ok(())
}
