// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the registry of running sandboxes says of every launch by a plan.

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
    /// The profile, or what the application is called; `None`: what holds for every command.
    #[serde(borrow)]
    pub profile: Option<Text<'a>>,
    /// The files that have a say, besides what is in this program.
    #[serde(borrow)]
    pub policies: Vec<Text<'a>>,
    /// Whom the command can talk to.
    pub network: NetworkMode,
}

impl Listing<'static> {
    /// That of a launch.
    pub(crate) fn of(facts: &Facts, network: NetworkMode, isolation: Isolation) -> Result<Self, PlanError> {
        let application = facts.application.as_ref().map(|application| application.name.as_str());
        let profile = application.or(facts.profile.as_deref());
        Ok(Self {
            directory: Text::path(&facts.places.runtime)?,
            profile: profile.map(Text::new).transpose()?,
            network: match isolation {
                // The filter refuses every socket: it knows no names.
                Isolation::InPlace if network == NetworkMode::Filtered => NetworkMode::None,
                _ => network,
            },
            policies: facts.policies().iter().map(|file| Text::path(file)).collect::<Result<_, _>>()?,
        })
    }
}
