// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a host in words.

use crate::explain::permit;
use crate::verb::{self, Failure};
use palisade::Situation;
use palisade::explanation::{Host, HostExplanation};
use palisade_policy::network::NetworkVerdict;
use palisade_text::harmless;

/// Explains a host.
pub(crate) fn explain(situation: &Situation, host: &Host, json: bool) -> Result<u8, Failure> {
    let mut explanation = HostExplanation::of(situation, host);
    explanation.permit = permit(situation, explanation.permit);
    verb::tell(json, &explanation, words)?;
    Ok(verb::verdict(explanation.allowed))
}

fn words(explanation: &HostExplanation) -> String {
    let HostExplanation { host, why, mode, rule, public, is_loopback, .. } = explanation;
    let port = explanation.port.map_or_else(String::new, |port| format!(" at port {port}"));
    let verdict = match explanation.verdict {
        NetworkVerdict::Allow => "yes",
        NetworkVerdict::Ask => "ask",
        NetworkVerdict::Deny => "no",
    };
    let filtered = explanation.default.is_some();
    let reason = rule.as_ref().and_then(|rule| rule.reason.clone());
    let address = match public {
        None if explanation.allowed && filtered && !is_loopback => Some(of_name(explanation)),
        Some(false) if !is_loopback => Some(
            "not an address of the public internet: it needs its own rule, `*` doesn't match it".to_owned(),
        ),
        _ => None,
    };
    let lines = [
        ("reason", reason),
        ("mode", filtered.then(|| format!("\"filtered\" ({})", mode.stated))),
        ("address", address),
        ("to permit", explanation.permit.clone()),
    ];
    let mut text = format!("{}{port}: {verdict}: {}\n", harmless(host), harmless(why));
    for (name, words) in lines {
        if let Some(words) = words {
            text.push_str(&format!("  {name:<10} {}\n", harmless(&words)));
        }
    }
    text
}

/// The further checks of the address that a name resolves to.
fn of_name(explanation: &HostExplanation) -> String {
    let besides =
        if explanation.addresses_have_rules { "; rules about addresses apply to it, too" } else { "" };
    format!(
        "the name must resolve to an address of the public internet, or to one with its own rule{besides}"
    )
}
