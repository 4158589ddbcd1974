// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans a filtered network: its rules, and the variables that name the proxy. For a sandbox without a network: the
//! variables that keep tools from trying again.

pub mod approvals;
pub mod askers;
pub mod gateway;
pub mod reports;
pub(crate) mod sockets;

use crate::error::PlanError;
use crate::facts::Facts;
use crate::facts::broker::unreadable;
use crate::guarantee::Demands;
use crate::plan::planner::{Isolation, without_namespaces};
use crate::plan::text::Text;
use crate::plan::{Filter, Network, Offline, Stored};
use palisade_host::resolver;
use palisade_policy::environment::{Filter as Environment, Reason};
use palisade_policy::{Guarantee, NetworkMode, Policy};
use std::borrow::Cow;
use std::path::Path;

/// Variables that name the proxy inside: the listener to which other connections are led. It is an HTTP proxy for all
/// variables, because not every program that reads `ALL_PROXY` supports SOCKS.
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
/// Variables by which tools are told to try no times again, for a sandbox without a network. Without them `npm install`
/// tries for 70 s to reach a registry that it can't reach.
const NO_RETRIES: [&str; 8] = [
    "BUNDLE_RETRY",
    "CARGO_NET_RETRY",
    "CONDA_REMOTE_MAX_RETRIES",
    "PIP_RETRIES",
    "POETRY_REQUESTS_MAX_RETRIES",
    "UV_HTTP_RETRIES",
    "YARN_HTTP_RETRY",
    "npm_config_fetch_retries",
];
/// Variables for a launch without namespaces. No datagram can be judged there, so names are looked up in streams.
pub(crate) const IN_PLACE: [(&str, &str); 1] = [("RES_OPTIONS", "use-vc")];
/// The port is [`palisade_sys::network::PORT`].
const PROXY: &str = "http://127.0.0.1:1023";
/// The most name servers that C libraries ask (resolv.conf(5)).
const SERVERS: usize = 3;
const DIRECT: &str = "localhost,127.0.0.1,::1";

/// The network that a launch has: what the policy states, or none where no process can make the connections.
///
/// # Errors
/// When the policy requires a filtered network, or ports of the host that lead inside, and the host can't give it.
pub(crate) fn reached(
    facts: &Facts,
    policy: &Policy,
    isolation: Isolation,
    demands: &Demands,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<NetworkMode, PlanError> {
    let network = policy.network().value;
    if network != NetworkMode::Filtered || isolation == Isolation::Full {
        return Ok(network);
    }
    if !policy.publish().is_empty() {
        let guarantee = "ports of the host lead inside";
        return Err(without_namespaces(guarantee, "without a network namespace every port is the host's"));
    }
    let Some(reason) = facts.lacks_broker().or_else(|| unreadable(true)) else { return Ok(network) };
    demands
        .give_up(Guarantee::HostsFiltered, reason, notes, || format!("no host can be reached: {reason}"))?;
    Ok(NetworkMode::None)
}

/// The network's part of a plan, if the network is filtered.
pub(crate) fn plan(policy: &Policy, network: NetworkMode) -> Result<Option<Network<'static>>, PlanError> {
    if network != NetworkMode::Filtered {
        return Ok(None);
    }
    let proxy = policy.upstream_proxy().map(|proxy| Text::new(proxy.value.with_credentials())).transpose()?;
    Ok(Some(Network {
        rules: Stored::new(&policy.network_rules())?,
        proxy,
        dns: policy.upstream_dns().into_iter().map(|server| server.value.0).collect(),
        reach: policy.reach().into_iter().map(|port| port.value).collect(),
        publish: policy.publish().into_iter().map(|publish| publish.value).collect(),
        // Filled in later, where the profile of the launch is known.
        answers: None,
        filter: Filter::from(&gateway::filter()?),
    }))
}

/// The part of a plan for a sandbox without a network.
pub(crate) fn offline(facts: &Facts, environment: &Environment) -> Result<Offline<'static>, PlanError> {
    let file = Path::new("/etc/resolv.conf");
    facts.depends_on(file, true);
    // Without the file the C libraries ask 127.0.0.1.
    let (servers, search) = match resolver::read(file) {
        Ok(Some(resolver)) => (resolver.nameservers, resolver.search),
        Ok(None) | Err(_) => (Vec::new(), Vec::new()),
    };
    // Decided here once: a rule for each would take a launch 3 µs.
    let unstated =
        NO_RETRIES.iter().filter(|name| !matches!(environment.judge(name.as_bytes()).1, Reason::Rule(_)));
    Ok(Offline {
        servers: servers.iter().filter_map(|server| server.parse().ok()).take(SERVERS).collect(),
        search: search.into_iter().map(Cow::Owned).collect(),
        variables: unstated.map(|name| Text::new(format!("{name}=0"))).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_is_where_the_listener_is() {
        assert!(PROXY.ends_with(&format!(":{}", palisade_sys::network::PORT)));
    }
}
