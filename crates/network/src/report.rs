// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes events of what happened to a connection or a name. The launcher adds the process that asked, which is unknown
//! here.

use std::net::IpAddr;
use std::time::SystemTime;

use palisade_event::{Detail, Event, Mechanism, Network, Object, Operation, Outcome, Subject, Why};
use palisade_policy::layer::Strength;
use palisade_policy::network::NetworkRule;

use crate::decide::{Fault, Remedy};
use crate::host::Host;

/// An event with the current time.
pub(crate) fn event(network: Network, object: Object, why: Why) -> Event {
    let verdict = network.outcome.verdict();
    Event::new(
        SystemTime::now(),
        Detail::Network(network),
        Subject::default(),
        (Operation::Connect, object),
        (verdict, Mechanism::Gateway),
        why,
    )
}

/// A connection that wasn't made, or was stopped.
pub(crate) fn fault(host: &Host, port: u16, address: Option<IpAddr>, fault: &Fault) -> Event {
    let leads_to = match fault.remedy {
        Remedy::Address(address) => Some(address),
        Remedy::Nothing | Remedy::Host => None,
    };
    let failed = if fault.outcome == Outcome::Failed { "it failed: " } else { "" };
    let why = Why {
        origin: fault.rule.as_ref().map(|rule| rule.origin.clone()),
        text: format!("{failed}{}", fault.why),
    };
    let network = Network { address, leads_to, ..Network::new(fault.outcome) };
    event(network, Object::host(host.to_string(), port), why).with_hint(permit(host, port, fault))
}

/// The command that permits what was refused; `None` if a lock denies it.
fn permit(host: &Host, port: u16, fault: &Fault) -> Option<String> {
    let locked = |rule: &NetworkRule| rule.strength == Strength::Locked;
    if fault.outcome != Outcome::Refused || fault.rule.as_deref().is_some_and(locked) {
        return None;
    }
    let target = match fault.remedy {
        Remedy::Nothing => return None,
        Remedy::Host => Object::host(host.to_string(), port),
        Remedy::Address(address) => Object::host(address.to_string(), port),
    };
    Some(format!("palisade run --allow {target} …"))
}

/// What happened to a connection.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    match &event.detail {
        Detail::Network(network) => Some(network.outcome),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::layer::Layer;

    /// The hint for a refusal by a rule of this strength.
    fn hint(strength: Option<&str>, remedy: Remedy) -> Option<String> {
        let rule = strength.map(|section| {
            let text = format!("schema = 1\n{section}\ndeny = [\"evil.example\"]\n");
            let policy = palisade_policy::parse(&text, None, Layer::Administrator).unwrap();
            let policy = palisade_policy::Policy::from(policy);
            policy.network_rules().rules[0].clone()
        });
        let refused = Fault { outcome: Outcome::Refused, why: "so".into(), rule: rule.map(Box::new), remedy };
        fault(&Host::Name("evil.example".parse().unwrap()), 443, None, &refused).hint
    }

    #[test]
    fn a_hint_proposes_what_would_permit_it_and_never_what_a_lock_forbids() {
        let host = Some("palisade run --allow evil.example:443 …".to_owned());
        assert_eq!(hint(None, Remedy::Host), host);
        assert_eq!(hint(Some("[network]"), Remedy::Host), host);
        assert_eq!(hint(Some("[locked.network]"), Remedy::Host), None);
        assert_eq!(hint(None, Remedy::Nothing), None);
        let address = Remedy::Address("fd00::1".parse().unwrap());
        assert_eq!(hint(None, address).unwrap(), "palisade run --allow [fd00::1]:443 …");
    }
}
