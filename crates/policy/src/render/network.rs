// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the section `[network]`.

use super::{Value, last, of, one, string};
use crate::layer::Strength;
use crate::network::{NetworkKey, NetworkList, NetworkRule};
use crate::settings::Settings;

pub(super) fn value(key: NetworkKey, from: &Settings, strength: Strength) -> Value {
    match key {
        NetworkKey::Mode => one(last(&from.network, strength).map(|mode| string(mode.key()))),
        NetworkKey::Default => one(last(&from.fallback, strength).map(|fallback| string(fallback.key()))),
        NetworkKey::Hosts { allow } => {
            let rules = from.hosts.iter().filter(|rule| rule.allow == allow && rule.strength == strength);
            Value::List(rules.map(entry).collect())
        }
        // The file is for the user alone, so it contains the credentials. Messages mask them.
        NetworkKey::Proxy => {
            one(last(&from.upstream_proxy, strength).map(|proxy| string(&proxy.with_credentials())))
        }
        NetworkKey::List(list) => {
            let texts: Vec<String> = match list {
                NetworkList::Publish => {
                    of(&from.publish, strength).map(|publish| string(&publish.to_string())).collect()
                }
                NetworkList::Reach => of(&from.reach, strength).map(u16::to_string).collect(),
                NetworkList::Dns => {
                    of(&from.upstream_dns, strength).map(|server| string(&server.to_string())).collect()
                }
            };
            if texts.is_empty() && of(&from.closed, strength).any(|closed| *closed == list) {
                return one(Some("[]".to_owned()));
            }
            Value::List(texts)
        }
    }
}

fn entry(rule: &NetworkRule) -> String {
    let host = string(&rule.target.to_string());
    match &rule.reason {
        Some(reason) => format!("{{ host = {host}, reason = {} }}", string(reason)),
        None => host,
    }
}
