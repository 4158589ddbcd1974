// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The guarantees of a planned launch, and the mechanism of each.

use super::Guarantee;
use crate::plan::{GroupLimit, IdentityKind, NameEnforcement, Namespace, Plan};
use palisade_policy::NetworkMode;
use palisade_sys::landlock::{SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS};
use serde::Serialize;

/// Landlock alone doesn't know mappings, which a loader makes of the file that it is told to run.
const EXECUTION_BY_LANDLOCK: &str = "Landlock, except a file that is named to a loader (ld.so FILE)";
const NAMES_BY_MOUNTS: &str = "mounts over names that exist";
const ROOT_MASKED: &str = "masked kernel settings and secrets";

/// A guarantee of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Held {
    /// The guarantee.
    pub guarantee: Guarantee,
    /// The guarantee in words.
    pub words: &'static str,
    /// The mechanism that gives it; `None`: the launch lacks it.
    pub by: Option<&'static str>,
}

impl Held {
    /// Whether another mechanism gives more.
    #[must_use]
    pub fn is_weak(&self) -> bool {
        self.by.is_some_and(|by| [EXECUTION_BY_LANDLOCK, NAMES_BY_MOUNTS, ROOT_MASKED].contains(&by))
    }
}

/// The guarantees of a launch by this plan, and those that it lacks. A guarantee that the policy doesn't ask for is left out.
#[must_use]
pub fn held(plan: &Plan<'_>) -> Vec<Held> {
    let each = |guarantee: Guarantee| {
        let by = if plan.lacks.contains(&guarantee) { None } else { Some(by(guarantee, plan)?) };
        Some(Held { guarantee, words: guarantee.words(), by })
    };
    Guarantee::ALL.into_iter().filter_map(each).collect()
}

/// The mechanism that gives the guarantee; `None`: the policy doesn't ask for it.
fn by(guarantee: Guarantee, plan: &Plan<'_>) -> Option<&'static str> {
    let has = |namespace| plan.namespaces.contains(&namespace);
    let scopes = plan.landlock.as_ref().map_or(0, |landlock| landlock.scoped);
    let network = plan.listing.as_ref().map(|listing| listing.network);
    let broker = "broker behind the filter";
    match guarantee {
        Guarantee::NotExecuted if !has(Namespace::Mount) => Some(EXECUTION_BY_LANDLOCK),
        Guarantee::Hidden | Guarantee::Unchanged | Guarantee::NotExecuted | Guarantee::RulesHold => {
            Some(if has(Namespace::Mount) { "own file tree" } else { "Landlock" })
        }
        Guarantee::NamesProtected => match plan.names {
            NameEnforcement::Broker => Some(broker),
            NameEnforcement::Mounts => Some(NAMES_BY_MOUNTS),
            NameEnforcement::Nobody => None,
        },
        Guarantee::ProcessesUnseen | Guarantee::EndsTogether => {
            has(Namespace::Pid).then_some("PID namespace")
        }
        Guarantee::SignalsInside if has(Namespace::Pid) => Some("PID namespace"),
        Guarantee::SignalsInside => (scopes & SCOPE_SIGNALS != 0).then_some("Landlock's signal scope"),
        Guarantee::NoNetwork if plan.network.is_some() || network == Some(NetworkMode::Host) => None,
        Guarantee::NoNetwork if has(Namespace::Network) => Some("network namespace"),
        Guarantee::NoNetwork => Some("no sockets"),
        Guarantee::HostsFiltered => plan.network.as_ref().map(|_| {
            if has(Namespace::Network) { "transparent proxy" } else { "connections made by the gateway" }
        }),
        Guarantee::NoAbstractSockets if has(Namespace::Network) => Some("network namespace"),
        Guarantee::NoAbstractSockets => {
            (scopes & SCOPE_ABSTRACT_SOCKETS != 0).then_some("Landlock's socket scope")
        }
        Guarantee::BusesFiltered => (!plan.buses.is_empty()).then_some("filter of the bus"),
        Guarantee::CallsRefused | Guarantee::TerminalSafe => Some("system call filter"),
        Guarantee::CallsAnswered => plan.broker.as_ref()?.answers.as_ref().map(|_| broker),
        Guarantee::RootIsNobody => match plan.identity.kind {
            IdentityKind::Mapped => Some("mapping to an unused user"),
            IdentityKind::Own | IdentityKind::Unchanged => {
                (plan.identity.host_uid == 0).then_some(ROOT_MASKED)
            }
        },
        Guarantee::MemoryBounded => {
            let group = |limit: &GroupLimit| matches!(limit, GroupLimit::Memory(_));
            plan.group_limits.iter().any(group).then_some("control group")
        }
        Guarantee::ProcessesBounded => {
            let group = |limit: &GroupLimit| matches!(limit, GroupLimit::Processes(_));
            let limit = || plan.limits.iter().any(|limit| limit.resource == crate::plan::limits::NPROC);
            let by_group = plan.group_limits.iter().any(group).then_some("control group");
            by_group.or_else(|| limit().then_some("RLIMIT_NPROC"))
        }
    }
}
