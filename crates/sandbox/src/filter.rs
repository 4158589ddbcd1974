// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rules of a launch's seccomp filter, both for the launch and for `palisade syscalls explain`.

pub mod calls;
pub(crate) mod denials;
pub mod replies;

use crate::error::PlanError;
use crate::facts::Facts;
use crate::filter::replies::Answered;
use crate::guarantee::Demands;
use crate::network;
use crate::plan::NameEnforcement;
use crate::plan::planner::Isolation;
use crate::view::protection;
use palisade_policy::word::Switch;
use palisade_policy::{NetworkMode, Policy};
use palisade_syscall::walls::Wall;
use palisade_syscall::{Passed, Rules, Syscall};

/// The facts of a launch that its rules depend on, in addition to the policy.
#[derive(Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) isolation: Isolation,
    pub(crate) passed: Passed,
    /// The user and the group inside.
    pub(crate) ids: (u32, u32),
}

/// The calls that the filter passes on for the broker's own purposes.
pub(crate) fn passed(
    policy: &Policy,
    isolation: Isolation,
    network: NetworkMode,
    enforcement: NameEnforcement,
    learn: bool,
) -> Passed {
    let datagrams = policy.switch(Switch::Datagrams).value;
    let internet = isolation == Isolation::InPlace && network == NetworkMode::Filtered;
    match enforcement {
        NameEnforcement::Broker if internet => Passed::NamesAndInternet,
        _ if internet => Passed::Internet,
        // A container may refuse the call by which the broker would get a socket (`pidfd_getfd`). Without a network the
        // command has no socket that could be bound or connected. With the host's, the broker doesn't judge sockets.
        NameEnforcement::Broker if isolation == Isolation::InPlace => Passed::NamesOnly,
        // While a command is being learned the broker judges names, whichever mechanism protects them.
        _ if learn && datagrams => Passed::UsedAndDatagrams,
        _ if learn => Passed::Used,
        NameEnforcement::Broker if datagrams => Passed::Datagrams,
        NameEnforcement::Broker => Passed::Names,
        NameEnforcement::Mounts | NameEnforcement::Nobody if policy.switch(Switch::Namespaces).value => {
            Passed::Connections
        }
        NameEnforcement::Mounts | NameEnforcement::Nobody => Passed::Nothing,
    }
}

/// The rules, and the calls that the policy allows by name. Calls that the broker answers come behind them
/// ([`Answered::last`]), and so do the learned calls.
pub(crate) fn rules(
    policy: &Policy,
    answered: &Answered,
    launch: Launch,
) -> Result<(Rules, Vec<String>), PlanError> {
    let Launch { isolation, passed, ids: (user, group) } = launch;
    // Without a network namespace no other wall keeps the command off the network and the host's sockets. Socket pairs
    // still work.
    let shut =
        isolation == Isolation::InPlace && policy.network().value != NetworkMode::Host && !passed.internet();
    let (rules, stated) = listed(policy, shut)?;
    let mut rules = answered.first(rules);
    if isolation == Isolation::Full {
        rules = rules.alone(user, group)?;
    }
    rules = match passed {
        Passed::Used => rules.learned()?,
        Passed::UsedAndDatagrams => rules.learned()?.with_datagrams(),
        Passed::Names => rules.brokered()?,
        Passed::NamesOnly => rules.brokered_names()?,
        Passed::NamesAndInternet => rules.brokered_names()?.with_internet()?,
        Passed::Internet => rules.with_internet()?,
        Passed::Datagrams => rules.brokered()?.with_datagrams(),
        Passed::Connections => rules.connecting(),
        Passed::Nothing => rules,
    };
    Ok((rules.keeping_modes(passed.names()), stated))
}

/// The deny list with the policy's changes, and the calls that the policy allows by name. `shut`: no socket can be made.
pub(crate) fn listed(policy: &Policy, shut: bool) -> Result<(Rules, Vec<String>), PlanError> {
    let changes = policy.syscalls();
    let mut allow: Vec<&str> = changes.allow.iter().map(|call| call.value.as_str()).collect();
    if policy.switch(Switch::Namespaces).value {
        // Calls by which a browser isolates its own processes. Landlock refuses mounts anyway.
        allow.extend(["clone", "unshare", "chroot"]);
    }
    let mut deny: Vec<&str> = changes.deny.iter().map(|call| call.value.as_str()).collect();
    if shut {
        deny.push("socket");
    }
    let rules = Rules::deny_list().with(&allow, &deny).map_err(|error| {
        // The entry's file and line say where to correct it.
        replies::misnamed(policy).next().map_or(PlanError::Syscalls(error), PlanError::Answer)
    })?;
    Ok((rules, allow.into_iter().map(str::to_owned).collect()))
}

/// The rules of a launch with this policy: all rules of its filter, except those for learned calls.
///
/// # Errors
/// When no launch with this policy is possible.
pub fn explained(facts: &Facts, policy: &Policy, isolation: Isolation) -> Result<Rules, PlanError> {
    let mut notes = Vec::new();
    let demands = Demands::of(policy);
    let enforcement = protection::enforcement(facts, policy, isolation, &demands, &mut notes)?;
    let network = network::reached(facts, policy, isolation, &demands, &mut notes)?;
    let passed = passed(policy, isolation, network, enforcement, policy.switch(Switch::Trace).value);
    let account = &facts.account;
    let ids = (
        policy.uid().map_or(account.uid, |user| user.value),
        policy.gid().map_or(account.gid, |group| group.value),
    );
    let answered = Answered::of(policy, isolation, &demands, &mut notes)?;
    let (rules, _stated) = rules(policy, &answered, Launch { isolation, passed, ids })?;
    Ok(answered.last(rules, passed)?.0)
}

/// What walls other than the filter do with a call that the filter allows.
#[must_use]
pub fn walls(facts: &Facts, policy: &Policy, isolation: Isolation, call: Syscall) -> Vec<&'static Wall> {
    use palisade_syscall::walls::By;
    let own_namespaces = policy.switch(Switch::Namespaces).value;
    let enforcement = protection::enforcement(facts, policy, isolation, &Demands::none(), &mut Vec::new())
        .unwrap_or(NameEnforcement::Nobody);
    let network = network::reached(facts, policy, isolation, &Demands::none(), &mut Vec::new());
    let network = network.unwrap_or(NetworkMode::None);
    let passed = passed(policy, isolation, network, enforcement, policy.switch(Switch::Trace).value);
    let stands = |wall: &&Wall| match wall.by {
        By::Broker => passed.has_some(call),
        By::Landlock => facts.landlock.is_some_and(|abi| abi > 0),
        // In namespaces of its own a program has every capability.
        By::Kernel => isolation == Isolation::Full && !own_namespaces,
        By::Namespace => isolation == Isolation::Full,
    };
    palisade_syscall::walls::of(call).filter(stands).collect()
}

#[cfg(test)]
mod oracle;
