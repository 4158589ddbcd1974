// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whom a command talked to, out of the events of the process that serves its network.

use crate::network;
use palisade_event::{Detail, Object, Outcome};
use palisade_protocol::network::Told;
use palisade_sandbox::learned::hosts::Hosts;

/// Somebody was talked to, or was not.
pub(super) fn note(hosts: &mut Hosts, told: &Told) {
    let Told::Event { event, .. } = told else { return };
    let (Detail::Network(network), Object::Host { port, .. }) = (&event.detail, &event.object) else {
        return;
    };
    let host = event.object.to_string();
    match (network.outcome, network.leads_to) {
        (Outcome::Opened | Outcome::Closed, _) => hosts.reach(host, network.address),
        (Outcome::Refused, Some(address)) => {
            let address = network::object(&address.to_string(), port.unwrap_or_default());
            hosts.refuse(address, event.why.text.clone(), Some(host));
        }
        (Outcome::Refused, None) => hosts.refuse(host, event.why.text.clone(), None),
        (Outcome::Failed | Outcome::Strained, _) => {}
    }
}
