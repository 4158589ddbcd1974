// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, as whoever serves its network tells it.

use crate::network;
use palisade_network::{Told, What};
use palisade_policy::network::{HostPattern, Judge, NetworkVerdict, Target};
use palisade_sandbox::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// More hosts than this are no list that anybody reads.
const MOST: usize = 512;

/// The hosts of a run, with their ports, as rules are written.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// There is somebody who tells.
    pub(super) filtered: bool,
    /// Those that were talked to.
    pub(super) reached: BTreeSet<String>,
    /// Those that were refused, and why.
    pub(super) refused: BTreeMap<String, String>,
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
                self.reached.insert(host);
            }
            What::Refused => {
                self.refused.insert(host, report.why);
            }
            What::Failed | What::Strained => {}
        }
    }
}

/// Hosts that were reached and that a plan refuses, and hosts that were refused and that it allows.
pub(super) fn compare(hosts: &Hosts, plan: &Plan<'_>) -> [Vec<String>; 2] {
    if !hosts.filtered {
        return [Vec::new(), Vec::new()];
    }
    let rules = plan.network.as_ref().and_then(|network| network.rules.get().ok()).unwrap_or_default();
    let judge = Judge::new(&rules);
    let allowed = |host: &str| {
        let ruling = match (host.parse::<SocketAddr>(), host.parse::<Target>()) {
            (Ok(address), _) => judge.address(address.ip(), address.port()),
            (_, Ok(Target { host: HostPattern::Name(name), ports })) => judge.name(&name, ports.first),
            _ => return false,
        };
        ruling.verdict == NetworkVerdict::Allow
    };
    let lost = hosts.reached.iter().filter(|host| !allowed(host)).cloned().collect();
    // A name that is allowed may have led to an address that isn't.
    let refused = hosts.refused.keys().filter(|host| !hosts.reached.contains(*host));
    [lost, refused.filter(|host| allowed(host)).cloned().collect()]
}
