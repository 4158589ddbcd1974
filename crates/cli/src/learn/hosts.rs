// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, as whoever serves its network tells it.

use crate::network;
use palisade_network::{Remedy, Told, What};
use palisade_policy::network::{HostPattern, Judge, NetworkVerdict, Target};
use palisade_sandbox::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// More hosts than this are no list that anybody reads.
const MOST: usize = 512;
/// Addresses of one host that are remembered: a name server gives out as many at a time at most.
const ADDRESSES: usize = 64;

/// The hosts of a run, with their ports, as rules are written.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// There is somebody who tells.
    pub(super) filtered: bool,
    /// Those that were talked to, and the addresses that it was done at.
    pub(super) reached: BTreeMap<String, BTreeSet<IpAddr>>,
    /// Those that were refused. A name that was refused for the address it leads to is here by that address.
    pub(super) refused: BTreeMap<String, Refused>,
}

/// A host that was refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) why: String,
    /// The name with its port that led to the address.
    led: Option<String>,
}

impl Hosts {
    pub(super) fn of(plan: &Plan<'_>) -> Self {
        Self { filtered: plan.network.is_some(), ..Self::default() }
    }

    /// Somebody was talked to, or was not.
    pub(super) fn note(&mut self, report: &[u8]) {
        let Some(Told::Report(report)) = network::told(report) else { return };
        let host = network::object(&report.host, report.port);
        if self.reached.len() + self.refused.len() >= MOST || report.host.is_empty() {
            return;
        }
        match report.what {
            What::Opened | What::Closed => {
                let addresses = self.reached.entry(host).or_default();
                addresses.extend(report.address.filter(|_| addresses.len() < ADDRESSES));
            }
            What::Refused => {
                let (host, led) = match report.remedy {
                    Remedy::Address(address) => {
                        (network::object(&address.to_string(), report.port), Some(host))
                    }
                    Remedy::Nothing | Remedy::Host => (host, None),
                };
                self.refused.insert(host, Refused { why: report.why, led });
            }
            What::Failed | What::Strained => {}
        }
    }
}

/// A host that was reached and that a plan refuses.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) host: String,
    /// The rule for the address that it leads to by which the plan before allowed it.
    pub(super) rule: Option<Target>,
}

/// Where two plans differ about the hosts of a run under the first.
#[derive(Debug, Default)]
pub(super) struct Compared {
    pub(super) lost: Vec<Lost>,
    /// Hosts that were refused, and that the second plan allows.
    pub(super) gained: Vec<String>,
}

/// Decides the hosts of a run under `before` by `after`: names, and the addresses that they led to.
pub(super) fn compare(hosts: &Hosts, before: &Plan<'_>, after: &Plan<'_>) -> Compared {
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
