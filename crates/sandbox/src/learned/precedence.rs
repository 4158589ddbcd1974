// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps the meaning of rules for hosts that came from several layers and are put into one file.
//!
//! Between two layers the later one decides; inside a file the closest rule does. So a host that the command line
//! refuses would be allowed again by a closer rule of the profile that it refines, or of the user's configuration.

use crate::plan::Plan;
use palisade_policy::network::{HostPattern, NetworkRule, NetworkRules, Ports, Target, is_public};
use palisade_policy::{LayerPolicy, Strength};

/// Changes the rules of a future profile's layer so that they decide as the rules of their original layers did, under `plan`.
pub(super) fn keep(layer: &mut LayerPolicy, plan: &Plan<'_>) {
    let rules = plan.network.as_ref().and_then(|network| network.rules.get().ok()).unwrap_or_default();
    let stated = &mut layer.settings.hosts;
    // A denial that a later layer has taken back is removed.
    stated.retain(|rule| rule.allow || !is_taken_back(rule, &rules));
    let denials: Vec<NetworkRule> = stated.iter().filter(|rule| !rule.allow).cloned().collect();
    for denial in &denials {
        for closer in rules.rules.iter().filter(|rule| rule.allow && rule.rank() < denial.rank()) {
            let Some(ports) = common(denial.target.ports, closer.target.ports) else { continue };
            let target = Target { host: closer.target.host.clone(), ports };
            let known = |rule: &NetworkRule| !rule.allow && rule.target == target;
            if covers(&denial.target.host, &target.host) && !stated.iter().any(known) {
                stated.push(NetworkRule { target, ..denial.clone() });
            }
        }
    }
}

fn is_taken_back(denial: &NetworkRule, rules: &NetworkRules) -> bool {
    let whole = Some(denial.target.ports);
    let of_address = matches!(denial.target.host, HostPattern::Addresses(_));
    denial.strength != Strength::Locked
        && rules.rules.iter().any(|rule| {
            rule.allow
                && rule.rank() > denial.rank()
                // `*` doesn't apply to the addresses that names lead to.
                && !(of_address && rule.target.host == HostPattern::Any)
                && covers(&rule.target.host, &denial.target.host)
                && common(rule.target.ports, denial.target.ports) == whole
        })
}

fn common(one: Ports, other: Ports) -> Option<Ports> {
    let ports = Ports { first: one.first.max(other.first), last: one.last.min(other.last) };
    (ports.first <= ports.last).then_some(ports)
}

/// Whether a rule for `wide` applies to every host that a rule for `narrow` applies to.
fn covers(wide: &HostPattern, narrow: &HostPattern) -> bool {
    match (wide, narrow) {
        (HostPattern::Any, HostPattern::Addresses(range)) => is_public(range.first()),
        (HostPattern::Any, _) => true,
        (HostPattern::Below(above), HostPattern::Name(name)) => {
            name.and_above().skip(1).any(|part| part == above.as_str())
        }
        (HostPattern::Below(above), HostPattern::Below(name)) => {
            name.and_above().any(|part| part == above.as_str())
        }
        (HostPattern::Name(one), HostPattern::Name(other)) => one == other,
        (HostPattern::Addresses(wide), HostPattern::Addresses(narrow)) => {
            wide.bits() <= narrow.bits() && wide.contains(narrow.first())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse::<Target>().unwrap().host
    }

    #[test]
    fn a_wider_rule_covers_a_narrower_one() {
        for (wide, narrow, covered) in [
            ("10.0.0.0/8", "10.9.8.7", true),
            ("10.9.8.7", "10.9.8.7", true),
            ("10.9.8.7", "10.0.0.0/8", false),
            ("10.0.0.0/8", "fd00::1", false),
            ("*.example", "a.example", true),
            ("*.example", "*.example", true),
            ("*.example", "example", false),
            ("a.example", "*.example", false),
            ("*", "a.example", true),
            ("*", "93.184.216.34", true),
            // A private address needs a rule of its own.
            ("*", "10.9.8.7", false),
            ("10.9.8.7", "*", false),
        ] {
            assert_eq!(covers(&pattern(wide), &pattern(narrow)), covered, "{wide} {narrow}");
        }
    }

    #[test]
    fn ports_that_two_rules_have_in_common() {
        let ports = |text: &str| format!("a.example:{text}").parse::<Target>().unwrap().ports;
        assert_eq!(common(ports("80-90"), Ports::ALL), Some(ports("80-90")));
        assert_eq!(common(ports("80-90"), ports("85-99")), Some(ports("85-90")));
        assert_eq!(common(ports("80"), ports("81")), None);
    }
}
