// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options that say which hosts a command may reach.

use crate::run_options::OptionError;
use clap::{Args, ValueHint};
use palisade_policy::network::{Fallback, NetworkError, masked};
use palisade_policy::{LayerPolicy, NetworkMode};

/// Whom a command may talk to.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct NetworkOptions {
    /// What of the network is there: none but a loopback of its own; filtered, what --allow and the
    /// policy's rules allow; or the host's. The other options here mean filtered
    #[arg(long, value_name = "MODE", value_parser = NetworkMode::ALL.map(NetworkMode::key), display_order = 4)]
    pub(crate) net: Option<String>,
    /// Let it talk to a host: 'example.com', '*.example.com:443', '10.0.0.0/8:5432', '*'. Addresses
    /// that aren't of the public internet take a rule of their own
    #[arg(long, value_name = "HOST[:PORTS]", value_hint = ValueHint::Hostname, display_order = 0)]
    pub(crate) allow: Vec<String>,
    /// Don't let it talk to a host, written as for --allow
    #[arg(long, value_name = "HOST[:PORTS]", value_hint = ValueHint::Hostname, help_heading = "Network")]
    pub(crate) deny_host: Vec<String>,
    /// What happens with hosts that match no rule: deny, ask or allow
    #[arg(long, value_name = "VERDICT", value_parser = Fallback::ALL.map(Fallback::key), help_heading = "Network")]
    pub(crate) net_default: Option<String>,
    /// Have the host listen for a port of the command's: '8080', '8080:80' (the host's port first),
    /// '0.0.0.0:8080:80'; on 127.0.0.1 if no address is given
    #[arg(long, value_name = "[ADDRESS:][HOSTPORT:]PORT", help_heading = "Network")]
    pub(crate) publish: Vec<String>,
    /// Let it reach a port of the host's loopback, at the same port of its own
    #[arg(long, value_name = "PORT", help_heading = "Network")]
    pub(crate) reach: Vec<String>,
    /// Go out through a proxy: http://, socks5:// or socks5h://HOST:PORT; environment: as your
    /// HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY say; or direct. A password is better kept in
    /// a policy file or a variable: other users can see a command line
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url, help_heading = "Network")]
    pub(crate) proxy: Option<String>,
    /// Ask this name server instead of the host's
    #[arg(long, value_name = "ADDRESS[:PORT]", help_heading = "Network")]
    pub(crate) dns: Vec<String>,
}

impl NetworkOptions {
    /// Adds the options' statements to `layer`. `at` gives the position of an option.
    pub(crate) fn state(
        &self,
        layer: &mut LayerPolicy,
        at: &dyn Fn(&str, usize) -> u32,
    ) -> Result<(), OptionError> {
        let wrong = |option: &'static str, value: &str| {
            let value = masked(value);
            move |source: NetworkError| OptionError::Network { option, value, source }
        };
        // The position of the first option that implies a filtered network.
        let mut filtered: Option<u32> = None;
        let mut means_filtered =
            |index: u32| filtered = Some(filtered.map_or(index, |first| first.min(index)));
        for (option, id, hosts, allow) in
            [("allow", "allow", &self.allow, true), ("deny-host", "deny_host", &self.deny_host, false)]
        {
            for (nth, host) in hosts.iter().enumerate() {
                layer.add_host(host, allow, at(id, nth)).map_err(wrong(option, host))?;
                means_filtered(at(id, nth));
            }
        }
        let given = self.net_default.as_deref();
        if let Some(fallback) = Fallback::ALL.into_iter().find(|fallback| given == Some(fallback.key())) {
            layer.set_fallback(fallback, at("net_default", 0));
            means_filtered(at("net_default", 0));
        }
        for (nth, text) in self.publish.iter().enumerate() {
            layer.add_publish(text, at("publish", nth)).map_err(wrong("publish", text))?;
            means_filtered(at("publish", nth));
        }
        for (nth, text) in self.reach.iter().enumerate() {
            layer.add_reach(text, at("reach", nth)).map_err(wrong("reach", text))?;
            means_filtered(at("reach", nth));
        }
        // `--proxy` says how connections go out, not whether they may: it implies no filtered network.
        if let Some(text) = &self.proxy {
            layer.set_proxy(text, at("proxy", 0)).map_err(wrong("proxy", text))?;
        }
        for (nth, text) in self.dns.iter().enumerate() {
            layer.add_dns(text, at("dns", nth)).map_err(wrong("dns", text))?;
        }
        let given = self.net.as_deref();
        match (NetworkMode::ALL.into_iter().find(|mode| given == Some(mode.key())), filtered) {
            (Some(mode), _) => {
                layer.set_network(mode, at("net", 0));
            }
            (None, Some(index)) => {
                layer.set_network(NetworkMode::Filtered, index);
            }
            (None, None) => {}
        }
        Ok(())
    }
}
