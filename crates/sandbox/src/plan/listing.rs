// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry's data about each launch of a plan.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use palisade_policy::NetworkMode;
use serde::{Deserialize, Serialize};

/// How launches by a plan are listed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Listing<'a> {
    /// Palisade's runtime directory.
    #[serde(borrow)]
    pub directory: Text<'a>,
    /// The profile, or the application's name; `None`: the policy for every command.
    #[serde(borrow)]
    pub profile: Option<Text<'a>>,
    /// The policy files that apply, in addition to the built-in layer.
    #[serde(borrow)]
    pub policies: Vec<Text<'a>>,
    /// The command's network mode.
    pub network: NetworkMode,
}

impl Listing<'static> {
    /// The data for a launch.
    pub(crate) fn of(facts: &Facts, network: NetworkMode, isolation: Isolation) -> Result<Self, PlanError> {
        let application = facts.application.as_ref().map(|application| application.name.as_str());
        let profile = application.or(facts.profile.as_deref());
        Ok(Self {
            directory: Text::path(&facts.places.runtime)?,
            profile: profile.map(Text::new).transpose()?,
            network: match isolation {
                // The filter refuses every socket, because it can't judge names.
                Isolation::InPlace if network == NetworkMode::Filtered => NetworkMode::None,
                _ => network,
            },
            policies: facts.policies().iter().map(|file| Text::path(file)).collect::<Result<_, _>>()?,
        })
    }
}
