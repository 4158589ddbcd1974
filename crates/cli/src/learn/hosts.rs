// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, out of the reports of whoever serves its network.

use crate::network;
use palisade_network::{Remedy, Told, What};
use palisade_sandbox::learned::hosts::Hosts;

/// Somebody was talked to, or was not.
pub(super) fn note(hosts: &mut Hosts, report: &[u8]) {
    let Some(Told::Report(report)) = network::told(report) else { return };
    if report.host.is_empty() {
        return;
    }
    let host = network::object(&report.host, report.port);
    match (report.what, report.remedy) {
        (What::Opened | What::Closed, _) => hosts.reach(host, report.address),
        (What::Refused, Remedy::Address(address)) => {
            hosts.refuse(network::object(&address.to_string(), report.port), report.why, Some(host));
        }
        (What::Refused, Remedy::Nothing | Remedy::Host) => hosts.refuse(host, report.why, None),
        (What::Failed | What::Strained, _) => {}
    }
}
