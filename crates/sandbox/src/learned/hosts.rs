// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts that a command connected to, as the gateway reports them.

use crate::plan::Plan;
use palisade_event::{Detail, Object, Outcome};
use palisade_policy::network::{
    Fallback, HostPattern, Judge, NetworkRule, NetworkRules, NetworkVerdict, Target,
};
use palisade_protocol::network::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The most hosts that are noted: users don't read a longer list.
const MOST: usize = 512;
/// The most addresses of one host that are remembered: a name server returns at most this many at a time.
const ADDRESSES: usize = 64;

/// The hosts of a run with their ports, in the form of rules.
#[derive(Debug, Default)]
pub struct Hosts {
    /// A gateway reports connections.
    pub filtered: bool,
    /// Hosts that were reached, and the addresses at which they were reached.
    pub reached: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Hosts that were refused. If a name was refused because of its address, the address is listed here.
    pub refused: BTreeMap<String, Refused>,
}

/// A host that was refused.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub why: String,
    /// The name with its port that led to the address.
    led: Option<String>,
}

impl Hosts {
    /// No hosts yet, under a plan.
    #[must_use]
    pub fn of(plan: &Plan<'_>) -> Self {
        Self { filtered: plan.network.is_some(), ..Self::default() }
    }

    /// Notes a connection that was opened or refused.
    pub fn note(&mut self, told: &Told) {
        let Told::Event { event, .. } = told else { return };
        let (Detail::Network(network), Object::Host { port, .. }) = (&event.detail, &event.object) else {
            return;
        };
        let host = event.object.to_string();
        match (network.outcome, network.leads_to) {
            (Outcome::Opened | Outcome::Closed, _) => self.reach(host, network.address),
            (Outcome::Refused, Some(address)) => {
                let address = Object::host(address.to_string(), port.unwrap_or_default()).to_string();
                self.refuse(address, event.why.text.clone(), Some(host));
            }
            (Outcome::Refused, None) => self.refuse(host, event.why.text.clone(), None),
            (Outcome::Failed | Outcome::Strained, _) => {}
        }
    }

    /// A host was reached, at an address if it is known.
    pub fn reach(&mut self, host: String, address: Option<IpAddr>) {
        if self.has_room() {
            let addresses = self.reached.entry(host).or_default();
            addresses.extend(address.filter(|_| addresses.len() < ADDRESSES));
        }
    }

    /// A host was refused. `led`: the host is an address, and this name with its port led to it.
    pub fn refuse(&mut self, host: String, why: String, led: Option<String>) {
        if self.has_room() {
            self.refused.insert(host, Refused { why, led });
        }
    }

    fn has_room(&self) -> bool {
        self.reached.len() + self.refused.len() < MOST
    }
}

/// A host that was reached and that a plan refuses.
#[derive(Debug)]
pub struct Lost {
    /// The host with its port.
    pub host: String,
    /// The rule by which the plan before allowed the address that the host leads to.
    pub rule: Option<Target>,
}

/// The differences of two plans about the hosts of a run under the first.
#[derive(Debug, Default)]
pub struct Compared {
    /// Hosts that were reached, and that the second plan refuses.
    pub lost: Vec<Lost>,
    /// Hosts that were refused, and that the second plan allows.
    pub gained: Vec<String>,
}

/// Decides the hosts of a run under `before` by the plan `after`: names, and the addresses that they led to.
#[must_use]
pub fn compare(hosts: &Hosts, before: &Plan<'_>, after: &Plan<'_>) -> Compared {
    if !hosts.filtered {
        return Compared::default();
    }
    let [old, new] = [before, after]
        .map(|plan| plan.network.as_ref().and_then(|network| network.rules.get().ok()).unwrap_or_default());
    let (old, new) = (Judge::new(&old), Judge::new(&new));
    let lost = |(host, addresses): (&String, &BTreeSet<IpAddr>)| {
        if !allows(&new, host) {
            return Some(Lost { host: host.clone(), rule: None });
        }
        let port = name_of(host)?.ports.first;
        let refused = addresses.iter().find(|address| !leads(&new, **address, port))?;
        let rule = old.leads_to(*refused, port).rule.map(|rule| rule.target.clone());
        Some(Lost { host: host.clone(), rule })
    };
    let gained = |(host, refused): (&String, &Refused)| {
        let by_name = refused.led.as_ref().is_some_and(|name| {
            let address = host.parse::<SocketAddr>();
            allows(&new, name) && address.is_ok_and(|address| leads(&new, address.ip(), address.port()))
        });
        // A host that was refused once and reached at another time isn't a host that the first plan refuses.
        by_name || (!hosts.reached.contains_key(host) && allows(&new, host))
    };
    Compared {
        lost: hosts.reached.iter().filter_map(lost).collect(),
        gained: hosts
            .refused
            .iter()
            .filter(|refused| gained(*refused))
            .map(|(host, _)| host.clone())
            .collect(),
    }
}

/// The rules that `stored` lacks for the hosts of a run under `before`: a rule for each host and port that was reached, and
/// the rule of `before` for an address outside the public internet that a name led to.
#[must_use]
pub fn missing(hosts: &Hosts, before: &NetworkRules, stored: &NetworkRules) -> Vec<Target> {
    let (old, new) = (Judge::new(before), Judge::new(stored));
    let mut targets: Vec<Target> = Vec::new();
    let mut add = |target: Target| {
        if !targets.contains(&target) {
            targets.push(target);
        }
    };
    for (host, addresses) in &hosts.reached {
        // A question about a name has no port. A rule without one would allow all ports.
        let exact = host.parse::<Target>().ok().filter(|target| target.ports.first == target.ports.last);
        let Some(target) = exact else { continue };
        let (port, is_name) = (target.ports.first, matches!(target.host, HostPattern::Name(_)));
        if !allows(&new, host) {
            add(target);
        }
        for address in addresses.iter().filter(|address| is_name && !leads(&new, **address, port)) {
            if let Some(rule) = old.leads_to(*address, port).rule {
                add(rule.target.clone());
            }
        }
    }
    targets
}

/// Whether a rule applies to a host that was reached, or to the address that its name led to.
#[must_use]
pub fn is_used(hosts: &Hosts, rule: &NetworkRule) -> bool {
    let alone = NetworkRules { rules: vec![rule.clone()], fallback: Fallback::Deny };
    let judge = Judge::new(&alone);
    hosts.reached.iter().any(|(host, addresses)| {
        let port = name_of(host).map(|target| target.ports.first);
        let led = |port| addresses.iter().any(|address| judge.leads_to(*address, port).rule.is_some());
        allows(&judge, host) || port.is_some_and(led)
    })
}

/// Whether connections to a host with its port are allowed; for a name, whatever address it leads to.
fn allows(judge: &Judge<'_>, host: &str) -> bool {
    let ruling = match (host.parse::<SocketAddr>(), host.parse::<Target>()) {
        (Ok(address), _) => judge.address(address.ip(), address.port()),
        (_, Ok(Target { host: HostPattern::Name(name), ports })) => judge.name(&name, ports.first),
        _ => return false,
    };
    ruling.verdict == NetworkVerdict::Allow
}

fn leads(judge: &Judge<'_>, address: IpAddr, port: u16) -> bool {
    judge.leads_to(address, port).verdict == NetworkVerdict::Allow
}

/// The name in a host with its port, if it is a name.
fn name_of(host: &str) -> Option<Target> {
    host.parse::<Target>().ok().filter(|target| matches!(target.host, HostPattern::Name(_)))
}

/// Whether a host with its port is a name, which leads to addresses.
pub(super) fn is_name(host: &str) -> bool {
    name_of(host).is_some()
}
