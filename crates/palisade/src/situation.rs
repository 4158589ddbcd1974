// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host and the policy as one request finds them, and the plans made from them.

use palisade_policy::decide::EffectivePath;
use palisade_policy::{LayerPolicy, Policy, Resolved};
use palisade_sandbox::error::PlanError;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::guarantee;
use palisade_sandbox::layers::Loaded;
use palisade_sandbox::layers::packed::Definitions;
use palisade_sandbox::network::approvals;
use palisade_sandbox::package::PlanMode;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::planner::{self, Isolation};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Everything that a launch is planned from.
#[derive(Debug)]
pub struct Situation {
    /// The facts of the host.
    pub facts: Facts,
    /// The statements of the policy files and of the caller.
    pub loaded: Loaded,
    /// How the launch is isolated.
    pub isolation: Isolation,
    /// The program of an application.
    pub program: Option<PathBuf>,
    /// The definitions for a package of the application, if one is to be made.
    pub definitions: Option<Definitions>,
}

impl Situation {
    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.loaded.policy
    }

    /// The policy's rules with the places that they name.
    ///
    /// # Errors
    /// When a place can't be found.
    pub fn resolved(&self) -> Result<Resolved, PlanError> {
        Ok(self.policy().resolve(&self.context())?)
    }

    /// The values of the policy's variables.
    #[must_use]
    pub fn context(&self) -> palisade_policy::Context {
        planner::context(&self.facts, self.project())
    }

    /// The path of the rule that decides about a path without links. A policy that can't be planned decides nothing.
    #[must_use]
    pub fn decisive(&self, path: &Path) -> Option<EffectivePath> {
        planner::decisive(&self.facts, self.policy(), self.project(), path).ok().flatten()
    }

    /// The plan of the request.
    ///
    /// # Errors
    /// When this host can't give what the policy asks for.
    pub fn plan(&self) -> Result<Plan<'static>, PlanError> {
        self.plan_by(self.policy(), false)
    }

    /// The plan with further statements of the caller.
    ///
    /// # Errors
    /// As [`Situation::plan`].
    pub fn plan_with(&self, more: LayerPolicy) -> Result<Plan<'static>, PlanError> {
        self.plan_by(&self.policy().clone().combine(more.into()), false)
    }

    /// The plan of a launch that records what is used.
    ///
    /// # Errors
    /// As [`Situation::plan`].
    pub fn plan_to_learn(&self) -> Result<Plan<'static>, PlanError> {
        self.plan_by(self.policy(), true)
    }

    /// The plan of a launch that records what is used, by other policy files.
    ///
    /// # Errors
    /// As [`Situation::plan`].
    pub fn plan_to_learn_by(&self, loaded: &Loaded) -> Result<Plan<'static>, PlanError> {
        self.make(loaded, &loaded.policy, true)
    }

    /// The plan by this policy alone.
    ///
    /// # Errors
    /// As [`Situation::plan`].
    pub fn plan_by_only(&self, policy: &Policy) -> Result<Plan<'static>, PlanError> {
        planner::make(&self.facts, policy, None, Isolation::Full)
    }

    /// How a launch by a policy is isolated: without user namespaces, if this host has none and the policy accepts
    /// fewer guarantees.
    #[must_use]
    pub fn isolation(&self, policy: &Policy) -> Isolation {
        let gives_in = self.facts.purpose == PlanMode::Launch
            && self.isolation == Isolation::Full
            && guarantee::accepts_in_place(&policy.required(), self.facts.account.uid == 0)
            && !palisade_sys::probe::user_namespaces_work();
        if gives_in { Isolation::InPlace } else { self.isolation }
    }

    fn project(&self) -> Option<&Path> {
        self.loaded.project.as_deref()
    }

    fn plan_by(&self, policy: &Policy, learn: bool) -> Result<Plan<'static>, PlanError> {
        self.make(&self.loaded, policy, learn)
    }

    /// The one place where a request becomes a plan.
    fn make(&self, loaded: &Loaded, policy: &Policy, learn: bool) -> Result<Plan<'static>, PlanError> {
        let project = loaded.project.as_deref();
        let isolation = self.isolation(policy);
        let mut plan = if learn {
            planner::learn(&self.facts, policy, project)?
        } else {
            planner::make(&self.facts, policy, project, isolation)?
        };
        approvals::plan(&self.facts, loaded, &mut plan)?;
        plan.notes.extend(loaded.notes.iter().cloned().map(Cow::Owned));
        if isolation != self.isolation {
            plan.notes.push(Cow::Borrowed(
                "no user namespaces on this host: Landlock and seccomp only; other processes, and names outside the allowed paths, can be seen",
            ));
        }
        Ok(plan)
    }
}
