// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls of a run: what the profile makes of them, and how what was learned becomes the profile's.

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

/// The calls of a run that somebody was told of.
///
/// Which they are depends on the mode that the command ran in: with `learn` those that were made, with `enforce` and
/// `ask` those that were refused. With `off` nobody is told of any, so there is nothing to decide.
#[derive(Debug, Default)]
pub struct Calls {
    made: BTreeSet<Syscall>,
    /// Those that were refused.
    pub refused: BTreeSet<Syscall>,
}

impl Calls {
    /// Something happened; what isn't about a call counts for nothing.
    pub fn note(&mut self, launch_event: &LaunchEvent<'_>) {
        match launch_event {
            LaunchEvent::Called { call, .. } => drop(self.made.insert(*call)),
            LaunchEvent::Unlearned { call, .. } => drop(self.refused.insert(*call)),
            _ => {}
        }
    }

    /// What is known of a profile by its name or file before it is learned: nothing that counts where there are no
    /// calls to decide.
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

/// What calls are kept for under a profile.
fn key(name: &str, file: Option<&Path>) -> String {
    let key = match file {
        Some(file) => Key::of_profile_file(&file.canonicalize().unwrap_or_else(|_gone| file.to_owned())),
        None => Key::Profile(name.to_owned()),
    };
    key.text()
}

/// How a profile differs from a run about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallDifference {
    /// It was made, and the profile refuses it.
    Refused(Syscall),
    /// It was refused, and the profile has it made.
    Made(Syscall),
    /// It was refused, and was learned for the profile before.
    Known(Syscall),
}

/// Calls that were made and are refused with the profile, and that were refused and are made with it.
/// `known`: calls that were learned for a profile of this name before.
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

/// Gives a profile that is kept what was learned for what the command ran as under `plan`: without it the profile would
/// refuse every call that has to be learned.
///
/// # Errors
/// When the store can't be used.
pub fn give(plan: &Plan<'_>, facts: &Facts, name: &str, file: Option<&Path>) -> Result<(), StoreError> {
    let Some(calls) = plan.broker.as_ref().and_then(|broker| broker.calls.as_ref()) else { return Ok(()) };
    let (from, into) = (calls.profile.to_string(), key(name, file));
    let store = facts.places.syscalls();
    // A profile of which nothing was learned is another thing than one that needs nothing.
    let known = Store::read(&store)?.map(|store| store.allowed(&from)).transpose()?.flatten();
    if known.is_some() && from != into {
        Store::open(&store)?.merge(&[&from], &into)?;
    }
    Ok(())
}
