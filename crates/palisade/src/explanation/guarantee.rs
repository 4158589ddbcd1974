// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains the guarantees of a launch: the mechanism of each, why others are missing, and what adds them.

use crate::Situation;
use palisade_policy::word::List;
use palisade_policy::{Amount, Guarantee, LayerPolicy, Limit, NetworkMode, Protect};
use palisade_sandbox::error::PlanError;
use palisade_sandbox::error::user_namespaces::{self, Cause};
use palisade_sandbox::guarantee::{self, Evidence, Held, held};
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::planner::Isolation;
use serde::Serialize;
use std::cell::OnceCell;

/// All guarantees of a launch.
#[derive(Debug, Serialize)]
pub struct GuaranteesExplanation {
    /// Always `guarantees`.
    pub kind: &'static str,
    /// Whether the launch starts and has everything that the policy asks for.
    pub allowed: bool,
    /// Why the launch doesn't start. The guarantees are then those of a launch with `--best-effort`; there are none if
    /// that doesn't start either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stops: Option<Stop>,
    /// The guarantees, in the order of [`Guarantee::ALL`].
    pub guarantees: Vec<GuaranteeExplanation>,
}

/// Why a launch doesn't start.
#[derive(Debug, Clone, Serialize)]
pub struct Stop {
    /// The error.
    pub why: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
}

/// One guarantee.
#[derive(Debug, Serialize)]
pub struct GuaranteeExplanation {
    /// Always `guarantee`.
    pub kind: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The guarantee in words.
    pub words: &'static str,
    /// Whether the launch has it.
    pub allowed: bool,
    /// Whether the policy asks for it.
    pub asked: bool,
    /// Whether the launch stops where the host can't give it.
    pub required: bool,
    /// The mechanism that gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    /// Why it is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What adds it, or adds a mechanism that gives more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<String>,
}

impl GuaranteesExplanation {
    /// The guarantees of the situation's launch.
    ///
    /// # Errors
    /// When no plan can be made, for another reason than a missing guarantee.
    pub fn of(situation: &Situation) -> Result<Self, PlanError> {
        let asked = Asked::about(situation)?;
        let guarantees: Vec<GuaranteeExplanation> = match asked.plan {
            Some(_) => Guarantee::ALL.into_iter().map(|guarantee| asked.answer(guarantee)).collect(),
            None => Vec::new(),
        };
        let allowed = asked.stops.is_none() && guarantees.iter().all(|one| one.allowed || !one.asked);
        Ok(Self { kind: "guarantees", allowed, stops: asked.stops, guarantees })
    }
}

impl GuaranteeExplanation {
    /// One guarantee of the situation's launch.
    ///
    /// # Errors
    /// As [`GuaranteesExplanation::of`].
    pub fn of(situation: &Situation, guarantee: Guarantee) -> Result<Self, PlanError> {
        let asked = Asked::about(situation)?;
        let answer = asked.answer(guarantee);
        // A launch that doesn't start gives nothing.
        Ok(match asked.stops.filter(|_| answer.allowed) {
            None => answer,
            Some(stop) => Self {
                allowed: false,
                by: None,
                why: Some(format!("the launch doesn't start: {}", stop.why)),
                add: stop.add,
                ..answer
            },
        })
    }
}

/// A launch that is asked about.
struct Asked<'s> {
    situation: &'s Situation,
    /// Its plan, or the one with `--best-effort`.
    plan: Option<Plan<'static>>,
    held: Vec<Held>,
    stops: Option<Stop>,
    /// Why the host refuses user namespaces.
    refusal: Option<Cause>,
    /// What the host has. It is tried out when the first mechanism is missing.
    evidence: OnceCell<Evidence>,
}

impl<'s> Asked<'s> {
    fn about(situation: &'s Situation) -> Result<Self, PlanError> {
        let planned = situation.plan();
        let refusal = match &planned {
            Ok(plan) if plan.namespaces.is_empty() && situation.isolation == Isolation::InPlace => None,
            _ => user_namespaces::examine(),
        };
        let (plan, stops) = match (planned, &refusal) {
            (Ok(plan), Some(cause)) if !plan.namespaces.is_empty() => {
                // A plan says nothing about whether the host lets it have namespaces.
                let why = format!("can't make user namespaces: {}", user_namespaces::words(cause));
                (best_effort(situation), Some(Stop { why, add: Some(user_namespaces::hint(cause)) }))
            }
            (Ok(plan), _) => (Some(plan), None),
            (Err(error @ (PlanError::Guarantee { .. } | PlanError::Limit { .. })), _) => {
                let stop = Stop { why: error.to_string(), add: error.hint() };
                (best_effort(situation), Some(stop))
            }
            (Err(other), _) => return Err(other),
        };
        let held = plan.as_ref().map_or_else(Vec::new, held);
        Ok(Self { situation, plan, held, stops, refusal, evidence: OnceCell::new() })
    }

    fn answer(&self, guarantee: Guarantee) -> GuaranteeExplanation {
        let found = self.held.iter().find(|held| held.guarantee == guarantee);
        let by = found.and_then(|held| held.by);
        let (why, add) = match found {
            Some(held) if held.by.is_some() => {
                (None, held.is_weak().then(|| self.remedy(guarantee)).flatten())
            }
            Some(_lacking) => (Some(self.reason(guarantee)), self.remedy(guarantee)),
            None if self.plan.is_none() => {
                (self.stops.as_ref().map(|stop| stop.why.clone()), self.remedy(guarantee))
            }
            None => self.unasked(guarantee),
        };
        GuaranteeExplanation {
            kind: "guarantee",
            name: guarantee.name(),
            words: guarantee.words(),
            allowed: by.is_some(),
            asked: found.is_some() || self.plan.is_none(),
            required: self.situation.policy().required().has(guarantee),
            by,
            why,
            add,
        }
    }

    /// Why the launch lacks what its policy asks for. The planner says it of a policy that requires it.
    fn reason(&self, guarantee: Guarantee) -> String {
        let mut layer = LayerPolicy::command_line();
        layer.set_best_effort(true, 0);
        let required = layer.add_to(List::Guarantees, guarantee.name(), 0).is_ok();
        match self.situation.plan_with(layer) {
            Err(PlanError::Guarantee { reason, .. }) if required && self.refusal.is_none() => reason,
            Err(error) if self.refusal.is_none() => error.to_string(),
            _ => {
                let cause = self.refusal.as_ref().map_or_else(String::new, user_namespaces::words);
                format!("that needs user namespaces: {cause}")
            }
        }
    }

    /// What gives the guarantee, or gives more of it.
    fn remedy(&self, guarantee: Guarantee) -> Option<String> {
        let before = self.held.iter().find(|held| held.guarantee == guarantee).and_then(|held| held.by);
        if self.situation.isolation == Isolation::InPlace {
            let full = self.situation.plan_by_only(self.situation.policy());
            let gives = full.is_ok_and(|plan| gives(&plan, guarantee, before));
            if gives && user_namespaces::examine().is_none() {
                return Some("palisade run -- COMMAND…   # without --namespaces none".to_owned());
            }
        }
        if let Some(add) = self.option(guarantee, before) {
            return Some(add);
        }
        let evidence = self.evidence.get_or_init(|| Evidence::gather(&self.situation.facts));
        let rows = guarantee::evaluate(self.situation.policy(), evidence);
        let row = rows.into_iter().find(|row| row.guarantee == guarantee)?;
        let lacking = row.mechanisms.into_iter().take_while(|mechanism| !mechanism.have.is_yes());
        // A launch with fewer guarantees adds none.
        let fewer = |cause: &&Cause| matches!(cause, Cause::Filter | Cause::Missing | Cause::Unknown);
        let useless = self.refusal.as_ref().filter(fewer).map(user_namespaces::hint);
        lacking.filter_map(|mechanism| mechanism.remedy).find(|remedy| Some(remedy) != useless.as_ref())
    }

    /// Why the policy doesn't ask for it, and the option that does.
    fn unasked(&self, guarantee: Guarantee) -> (Option<String>, Option<String>) {
        let policy = self.situation.policy();
        let why = match guarantee {
            Guarantee::NamesProtected => {
                let protect = policy.protect();
                format!("protect = {:?} ({})", protect.value.key(), protect.origin)
            }
            Guarantee::NoNetwork | Guarantee::HostsFiltered => {
                let network = policy.network();
                format!("network.mode = {:?} ({})", network.value.key(), network.origin)
            }
            Guarantee::BusesFiltered => "the policy filters no message bus".to_owned(),
            Guarantee::CallsAnswered => "the policy states no reply to a system call".to_owned(),
            Guarantee::RootIsNobody => "you aren't root".to_owned(),
            Guarantee::MemoryBounded => "the policy has no limit of memory".to_owned(),
            Guarantee::ProcessesBounded => "the policy has no limit of processes".to_owned(),
            _ => "the policy doesn't ask for it".to_owned(),
        };
        let limit = matches!(guarantee, Guarantee::MemoryBounded | Guarantee::ProcessesBounded);
        let add = if limit { self.remedy(guarantee) } else { self.option(guarantee, None) };
        (Some(why), add)
    }

    /// The option of `palisade run` that asks for the guarantee. `None` if there is none, or if the launch would still lack it.
    fn option(&self, guarantee: Guarantee, before: Option<&str>) -> Option<String> {
        let mut layer = LayerPolicy::command_line();
        let asks = match guarantee {
            Guarantee::NamesProtected => {
                layer.set_protect(Protect::Broker, 0);
                "--protect broker"
            }
            Guarantee::NoNetwork => {
                layer.set_network(NetworkMode::None, 0);
                "--net none"
            }
            // Nothing at all is reached without a network.
            Guarantee::HostsFiltered if self.situation.policy().network().value == NetworkMode::Host => {
                layer.set_network(NetworkMode::Filtered, 0);
                "--net filtered"
            }
            Guarantee::MemoryBounded => {
                layer.set_limit(Limit::Memory, Amount::AtMost(4 << 30), 0);
                "--limit memory=4G"
            }
            Guarantee::ProcessesBounded => {
                layer.set_limit(Limit::Processes, Amount::AtMost(500), 0);
                "--limit processes=500"
            }
            _ => return None,
        };
        let plan = self.situation.plan_with(layer).ok()?;
        gives(&plan, guarantee, before).then(|| format!("palisade run {asks} -- COMMAND…"))
    }
}

/// The plan with `--best-effort`, if the situation's own doesn't start.
fn best_effort(situation: &Situation) -> Option<Plan<'static>> {
    let mut layer = LayerPolicy::command_line();
    layer.set_best_effort(true, 0);
    let plan = situation.plan_with(layer).ok()?;
    let starts = plan.namespaces.is_empty() || user_namespaces::examine().is_none();
    starts.then_some(plan)
}

/// Whether a plan gives the guarantee by another mechanism than `before`.
fn gives(plan: &Plan<'_>, guarantee: Guarantee, before: Option<&str>) -> bool {
    held(plan).iter().any(|held| held.guarantee == guarantee && held.by.is_some() && held.by != before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    #[test]
    fn what_the_policy_leaves_out_is_added_by_an_option() {
        let situation = of_administrator("[network]\nmode = \"host\"\n");
        let left_out = GuaranteeExplanation::of(&situation, Guarantee::NoNetwork).unwrap();
        assert!(!left_out.allowed && !left_out.asked);
        assert_eq!(left_out.why.as_deref(), Some("network.mode = \"host\" (administrator)"));
        assert_eq!(left_out.add.as_deref(), Some("palisade run --net none -- COMMAND…"));
    }

    #[test]
    fn each_is_listed_once() {
        let explanation = GuaranteesExplanation::of(&of_administrator("")).unwrap();
        let names: Vec<&str> = explanation.guarantees.iter().map(|one| one.name).collect();
        assert_eq!(names, Guarantee::ALL.map(Guarantee::name));
        for one in &explanation.guarantees {
            assert!(one.allowed == one.by.is_some() && one.allowed == one.why.is_none(), "{one:?}");
        }
    }
}
