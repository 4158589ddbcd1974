// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Launches with a locked home: a launch may get an overlay of a home that another sandbox has.

use crate::run::RunError;
use palisade::Request;
use palisade_policy::word::{Chosen, HomeLock, HomePolicy};
use palisade_sandbox::error::StartError;
use palisade_sandbox::plan::Plan;
use std::borrow::Cow;

/// Which home a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Home {
    /// The one that the policy states.
    Stated,
    /// An overlay of it, because another sandbox has locked it.
    Overlay,
}

impl Home {
    /// States this home in a request.
    pub(crate) fn state(self, request: &mut Request) {
        if self == Self::Overlay {
            let words = &mut request.words;
            words.choose(Chosen::HomePolicy(HomePolicy::Overlay), 0);
            words.choose(Chosen::HomeLock(HomeLock::None), 0);
        }
    }

    /// Notes it in the plan.
    pub(crate) fn note(self, plan: &mut Plan<'_>) {
        if self == Self::Overlay {
            let note = "another sandbox uses the home: this one's changes of it are deleted at its end";
            plan.notes.push(Cow::Borrowed(note));
        }
    }
}

/// Makes a plan and applies it. If another sandbox has the home, and the policy says so, the plan is for an overlay.
pub(crate) fn launch<T>(
    prepare: impl Fn(Home) -> Result<Plan<'static>, RunError>,
    apply: impl Fn(&Plan<'_>) -> Result<T, StartError>,
) -> Result<T, RunError> {
    match apply(&prepare(Home::Stated)?) {
        Err(error) if error.wants_overlay() => Ok(apply(&prepare(Home::Overlay)?)?),
        started => Ok(started?),
    }
}
