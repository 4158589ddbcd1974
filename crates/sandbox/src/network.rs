// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a plan says of a filtered network.

pub mod approvals;
pub mod askers;
pub mod gateway;
pub mod reports;
pub(crate) mod sockets;

use crate::error::PlanError;
use crate::plan::planner::Isolation;
use crate::plan::text::Text;
use crate::plan::{Filter, Network, Stored};
use palisade_policy::{NetworkMode, Policy};
use std::borrow::Cow;

/// Where those who use a proxy find one: the listener to which the others are led. One of HTTP for all: not every
/// program that understands `ALL_PROXY` has what SOCKS takes.
pub(crate) const VARIABLES: [(&str, &str); 8] = [
    ("HTTP_PROXY", PROXY),
    ("HTTPS_PROXY", PROXY),
    ("ALL_PROXY", PROXY),
    ("NO_PROXY", DIRECT),
    ("http_proxy", PROXY),
    ("https_proxy", PROXY),
    ("all_proxy", PROXY),
    ("no_proxy", DIRECT),
];
/// At [`palisade_sys::network::PORT`].
const PROXY: &str = "http://127.0.0.1:1023";
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// The network, if it is to be filtered.
pub(crate) fn plan(
    policy: &Policy,
    isolation: Isolation,
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Option<Network<'static>>, PlanError> {
    if policy.network().value != NetworkMode::Filtered {
        return Ok(None);
    }
    if isolation == Isolation::InPlace {
        let guarantee = "only allowed hosts are reached";
        let reason = "that takes a network namespace".to_owned();
        if !best_effort {
            return Err(PlanError::Guarantee { guarantee, reason });
        }
        notes.push(Cow::Owned(format!("no host can be reached: {reason}")));
        return Ok(None);
    }
    let proxy = policy.upstream_proxy().map(|proxy| Text::new(proxy.value.with_credentials())).transpose()?;
    Ok(Some(Network {
        rules: Stored::new(&policy.network_rules())?,
        proxy,
        dns: policy.upstream_dns().into_iter().map(|server| server.value.0).collect(),
        reach: policy.reach().into_iter().map(|port| port.value).collect(),
        publish: policy.publish().into_iter().map(|publish| publish.value).collect(),
        // Known where it is known what is launched.
        answers: None,
        filter: Filter::from(&gateway::filter()?),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_is_where_the_listener_is() {
        assert!(PROXY.ends_with(&format!(":{}", palisade_sys::network::PORT)));
    }
}
