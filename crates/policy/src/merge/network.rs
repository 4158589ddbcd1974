// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Merges what the layers state about the network.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use super::{Policy, or_built_in};
use crate::layer::{Layer, Origin, Sourced, Strength, prevailing};
use crate::network::{
    Cidr, Fallback, HostPattern, Judge, NameServer, NetworkList, NetworkRule, NetworkRules, NetworkVerdict,
    Ports, Publish, Target, Upstream,
};
use crate::value::NetworkMode;

/// A statement about the network that is overridden or has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Idle {
    /// A lock overrides the last stated mode.
    Locked {
        /// The last stated mode.
        mode: Sourced<NetworkMode>,
        /// The lock.
        lock: Origin,
        /// The mode in force.
        holds: NetworkMode,
    },
    /// In this mode, rules about hosts and ports have no effect.
    Unasked {
        /// The key of the first statement without effect.
        key: &'static str,
        /// Its place.
        origin: Origin,
        /// The mode.
        mode: Sourced<NetworkMode>,
    },
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked { mode, lock, holds } => write!(
                f,
                "network.mode = \"{}\" ({}) has no effect: a lock keeps it at \"{holds}\" ({lock})",
                mode.value, mode.origin
            ),
            Self::Unasked { key, origin, mode } => write!(
                f,
                "network.{key} ({origin}) has no effect: network.mode is \"{}\" ({}), and rules count only if it is \
                 \"filtered\"",
                mode.value, mode.origin
            ),
        }
    }
}

impl Policy {
    /// The network mode. `none` if no layer states one.
    ///
    /// If no layer states a mode, a statement that grants something implies `filtered`. If a refusing rule or default
    /// is locked, `host` becomes `filtered`: on the host's network the lock would have no effect.
    #[must_use]
    pub fn network(&self) -> Sourced<NetworkMode> {
        let stated = &self.settings.network;
        // The built-in mode counts as unstated.
        let says = |mode: &Sourced<NetworkMode>| {
            mode.origin.layer > Layer::BuiltIn || mode.strength > Strength::Default
        };
        if !stated.iter().any(says)
            && let Some((_key, origin)) =
                self.network_grants().min_by_key(|(_key, origin)| std::cmp::Reverse(origin.layer))
        {
            let origin = origin.clone();
            return Sourced { value: NetworkMode::Filtered, origin, strength: Strength::Default };
        }
        let mut holds = or_built_in(stated, NetworkMode::None);
        if holds.value == NetworkMode::Host
            && let Some(lock) = self.network_lock()
        {
            holds =
                Sourced { value: NetworkMode::Filtered, origin: lock.clone(), strength: Strength::Locked };
        }
        holds
    }

    /// A locked refusal, which couldn't be enforced on the host's network.
    fn network_lock(&self) -> Option<&Origin> {
        let rules = self.settings.hosts.iter().filter(|rule| !rule.allow);
        let rules = rules.map(|rule| (&rule.origin, rule.strength));
        let fallback = self.settings.fallback.iter().filter(|stated| stated.value != Fallback::Allow);
        let fallback = fallback.map(|stated| (&stated.origin, stated.strength));
        let mut locks = rules.chain(fallback).filter(|(_origin, strength)| *strength == Strength::Locked);
        locks.next().map(|(origin, _strength)| origin)
    }

    /// The statements that allow something in a filtered network.
    fn network_grants(&self) -> impl Iterator<Item = (&'static str, &Origin)> {
        let settings = &self.settings;
        let rules = settings.hosts.iter().filter(|rule| rule.allow).map(|rule| ("allow", &rule.origin));
        let fallback = settings.fallback.iter().filter(|stated| stated.value != Fallback::Deny);
        let fallback = fallback.map(|stated| ("default", &stated.origin));
        let publish = settings.publish.iter().map(|stated| ("publish", &stated.origin));
        let reach = settings.reach.iter().map(|stated| ("reach", &stated.origin));
        rules.chain(fallback).chain(publish).chain(reach)
    }

    /// A statement about the network that has no effect, for a user who expects an effect. Shipped statements aren't
    /// reported: they are meant for any launch.
    #[must_use]
    pub fn idle(&self) -> Option<Idle> {
        let mode = self.network();
        if let Some(last) = self.settings.network.last()
            && last.value > mode.value
        {
            let mut locks = self.settings.network.iter();
            let lock = locks.find(|stated| stated.strength == Strength::Locked && last.value > stated.value);
            let lock = lock.map(|stated| &stated.origin).or_else(|| self.network_lock());
            if let Some(lock) = lock {
                return Some(Idle::Locked { mode: last.clone(), lock: lock.clone(), holds: mode.value });
            }
        }
        let settings = &self.settings;
        let denies = settings.hosts.iter().filter(|rule| !rule.allow).map(|rule| ("deny", &rule.origin));
        let mut said = denies.chain(self.network_grants());
        let (key, origin) = said.find(|(_key, origin)| match mode.value {
            NetworkMode::Filtered => false,
            NetworkMode::Host => origin.layer > Layer::Distribution,
            // A layer that removes the network means to remove all earlier grants. A refusal is still fulfilled.
            NetworkMode::None => {
                *_key != "deny" && origin.layer > Layer::Distribution && origin.layer >= mode.origin.layer
            }
        })?;
        Some(Idle::Unasked { key, origin: origin.clone(), mode })
    }

    /// The verdict for hosts that match no rule. `deny` if no layer states it.
    #[must_use]
    pub fn network_fallback(&self) -> Sourced<Fallback> {
        or_built_in(&self.settings.fallback, Fallback::Deny)
    }

    /// The rules for hosts in a filtered network.
    #[must_use]
    pub fn network_rules(&self) -> NetworkRules {
        NetworkRules { rules: self.settings.hosts.clone(), fallback: self.network_fallback().value }
    }

    /// Whether a rule wins among the rules for the same hosts and ports.
    #[must_use]
    pub fn network_rule_holds(&self, rule: &NetworkRule) -> bool {
        let same = self.settings.hosts.iter().filter(|other| other.target == rule.target);
        let mut same: Vec<Sourced<bool>> = same
            .map(|rule| Sourced { value: rule.allow, origin: rule.origin.clone(), strength: rule.strength })
            .collect();
        same.sort_by_key(|rule| (rule.rank(), !rule.value));
        prevailing(&same).is_some_and(|holds| {
            (holds.value, &holds.origin, holds.strength) == (rule.allow, &rule.origin, rule.strength)
        })
    }

    /// The ports that the host publishes, lowest layer first. Of two for the same address and port on the host, the
    /// later one wins. A locked entry closes the list: later layers add nothing.
    #[must_use]
    pub fn publish(&self) -> Vec<Sourced<Publish>> {
        let mut out: Vec<Sourced<Publish>> = Vec::new();
        for stated in self.unclosed(NetworkList::Publish, &self.settings.publish) {
            let place = |publish: &Publish| (publish.address, publish.host_port);
            out.retain(|known| place(&known.value) != place(&stated.value));
            out.push(stated.clone());
        }
        out
    }

    /// The ports of the host's loopback that are reachable inside, each once. A locked entry closes the list. A rule
    /// that denies the address overrides a port as it would override an entry of `allow`.
    #[must_use]
    pub fn reach(&self) -> Vec<Sourced<u16>> {
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let stated: Vec<&Sourced<u16>> = self.unclosed(NetworkList::Reach, &self.settings.reach).collect();
        let mut rules: Vec<NetworkRule> = self.settings.hosts.clone();
        rules.extend(stated.iter().map(|stated| NetworkRule {
            target: Target {
                host: HostPattern::Addresses(Cidr::one(loopback)),
                ports: Ports { first: stated.value, last: stated.value },
            },
            allow: true,
            reason: None,
            origin: stated.origin.clone(),
            strength: stated.strength,
        }));
        rules.sort_by_key(NetworkRule::rank);
        let rules = NetworkRules { rules, fallback: Fallback::Deny };
        let judge = Judge::new(&rules);
        let mut out: Vec<Sourced<u16>> = Vec::new();
        for stated in stated {
            let allowed = judge.leads_to(loopback, stated.value).verdict == NetworkVerdict::Allow;
            if allowed && !out.iter().any(|known| known.value == stated.value) {
                out.push(stated.clone());
            }
        }
        out
    }

    /// The proxy for outgoing connections, if a layer states one.
    #[must_use]
    pub fn upstream_proxy(&self) -> Option<Sourced<Upstream>> {
        prevailing(&self.settings.upstream_proxy).cloned()
    }

    /// The name servers that are used instead of the host's. All entries of the last place that states some are used.
    /// After a locked entry, later layers add nothing.
    #[must_use]
    pub fn upstream_dns(&self) -> Vec<Sourced<NameServer>> {
        let open: Vec<&Sourced<NameServer>> =
            self.unclosed(NetworkList::Dns, &self.settings.upstream_dns).collect();
        let Some(last) = open.last() else { return Vec::new() };
        let together = |stated: &&&Sourced<NameServer>| {
            stated.rank() == last.rank() && stated.origin.file == last.origin.file
        };
        let mut out: Vec<Sourced<NameServer>> = Vec::new();
        for stated in open.iter().filter(together) {
            if !out.iter().any(|known| known.value == stated.value) {
                out.push((*stated).clone());
            }
        }
        out
    }

    /// The statements of a list up to the layer of the first locked one. An empty locked list counts as one.
    fn unclosed<'s, T>(
        &'s self,
        list: NetworkList,
        stated: &'s [Sourced<T>],
    ) -> impl Iterator<Item = &'s Sourced<T>> {
        let closed = self.settings.closed.iter().filter(|closed| closed.value == list).map(Sourced::rank);
        let locks = stated.iter().map(Sourced::rank).chain(closed);
        let closed = locks.filter(|rank| rank.strength == Strength::Locked).map(|rank| rank.layer).min();
        stated.iter().filter(move |stated| closed.is_none_or(|layer| stated.origin.layer <= layer))
    }
}
