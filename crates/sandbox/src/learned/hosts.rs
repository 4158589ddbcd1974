// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, as whoever serves its network tells it.

use crate::plan::Plan;
use palisade_event::{Detail, Object, Outcome};
use palisade_policy::network::{HostPattern, Judge, NetworkVerdict, Target};
use palisade_protocol::network::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// More hosts than this are no list that anybody reads.
const MOST: usize = 512;
/// Addresses of one host that are remembered: a name server gives out as many at a time at most.
const ADDRESSES: usize = 64;

/// The hosts of a run, with their ports, as rules are written.
#[derive(Debug, Default)]
pub struct Hosts {
    /// There is somebody who tells.
    pub filtered: bool,
    /// Those that were talked to, and the addresses that it was done at.
    pub reached: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Those that were refused. A name that was refused for the address it leads to is here by that address.
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
    /// None yet, under a plan.
    #[must_use]
    pub fn of(plan: &Plan<'_>) -> Self {
        Self { filtered: plan.network.is_some(), ..Self::default() }
    }

    /// Somebody was talked to, or was not.
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

    /// A host was talked to, at an address if that is known.
    pub fn reach(&mut self, host: String, address: Option<IpAddr>) {
        if self.has_room() {
            let addresses = self.reached.entry(host).or_default();
            addresses.extend(address.filter(|_| addresses.len() < ADDRESSES));
        }
    }

    /// A host was refused. `led`: it is an address, and this name with its port led to it.
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
    /// The rule for the address that it leads to by which the plan before allowed it.
    pub rule: Option<Target>,
}

/// Where two plans differ about the hosts of a run under the first.
#[derive(Debug, Default)]
pub struct Compared {
    /// Hosts that were reached, and that the second plan refuses.
    pub lost: Vec<Lost>,
    /// Hosts that were refused, and that the second plan allows.
    pub gained: Vec<String>,
}

/// Decides the hosts of a run under `before` by `after`: names, and the addresses that they led to.
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
        // A host that was refused at one moment and reached at another is no host that the first plan refuses.
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

/// Whether a host with its port may be talked to: a name wherever it leads.
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

/// The name in a host with its port, if it is one.
fn name_of(host: &str) -> Option<Target> {
    host.parse::<Target>().ok().filter(|target| matches!(target.host, HostPattern::Name(_)))
}

/// Whether a host with its port is a name, which leads to addresses.
pub(super) fn is_name(host: &str) -> bool {
    name_of(host).is_some()
}
