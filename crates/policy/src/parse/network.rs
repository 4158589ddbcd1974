// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the section `[network]`.

use std::ops::Range;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};

use super::{Node, Problem, Reader, find};
use crate::network::{Fallback, NetworkError, NetworkKey, NetworkList, NetworkRule, Target, port};
use crate::value::NetworkMode;

/// The keys of an entry of `network.allow` and `network.deny` that is a table.
pub(crate) const ENTRY: [&str; 2] = ["host", "reason"];

impl Reader<'_> {
    pub(super) fn network(&mut self, name: &str, key: NetworkKey, node: &Node<'_>) {
        let span = node.span();
        match key {
            NetworkKey::Mode => {
                let modes = NetworkMode::ALL.map(|mode| (mode.key(), mode));
                if let Some(mode) = self.one_of(name, node, &modes) {
                    let mode = self.sourced(mode, span);
                    self.policy.settings.network.push(mode);
                }
            }
            NetworkKey::Default => {
                let possible = Fallback::ALL.map(|fallback| (fallback.key(), fallback));
                if let Some(fallback) = self.one_of(name, node, &possible) {
                    let fallback = self.sourced(fallback, span);
                    self.policy.settings.fallback.push(fallback);
                }
            }
            NetworkKey::Hosts { allow } => self.hosts(name, allow, node),
            NetworkKey::Proxy => {
                if let Some(text) = self.string(name, node)
                    && let Some(proxy) = self.stated(text.parse(), &span)
                {
                    let proxy = self.sourced(proxy, span);
                    self.policy.settings.upstream_proxy.push(proxy);
                }
            }
            NetworkKey::List(list) => {
                if matches!(node.get_ref(), DeValue::Array(entries) if entries.is_empty()) {
                    let closed = self.sourced(list, span);
                    return self.policy.settings.closed.push(closed);
                }
                match list {
                    NetworkList::Publish => {
                        for (text, span) in self.strings(name, node) {
                            if let Some(publish) = self.read(&text, &span) {
                                let publish = self.sourced(publish, span);
                                self.policy.settings.publish.push(publish);
                            }
                        }
                    }
                    NetworkList::Reach => self.reach(name, node),
                    NetworkList::Dns => {
                        for (text, span) in self.strings(name, node) {
                            if let Some(server) = self.read(&text, &span) {
                                let server = self.sourced(server, span);
                                self.policy.settings.upstream_dns.push(server);
                            }
                        }
                    }
                }
            }
        }
    }

    fn stated<T, E: Into<NetworkError>>(&mut self, value: Result<T, E>, span: &Range<usize>) -> Option<T> {
        value.map_err(|error| self.error(Problem::Network(error.into()), span.clone())).ok()
    }

    fn read<T: FromStr<Err = NetworkError>>(&mut self, text: &str, span: &Range<usize>) -> Option<T> {
        self.stated(text.parse(), span)
    }

    fn hosts(&mut self, name: &str, allow: bool, node: &Node<'_>) {
        for item in self.list(name, node) {
            let (host, reason) = match item.get_ref() {
                DeValue::String(text) => (Some((text.as_ref().to_owned(), item.span())), None),
                DeValue::Table(table) => self.entry(table, item),
                other => {
                    self.wrong_type(name, "strings, or tables with a `host`", other, item.span());
                    continue;
                }
            };
            let Some((text, span)) = host else { continue };
            let Some(target) = self.stated(text.parse::<Target>(), &span) else { continue };
            let stated = self.sourced((), span);
            self.policy.settings.hosts.push(NetworkRule {
                target,
                allow,
                reason,
                origin: stated.origin,
                strength: stated.strength,
            });
        }
    }

    /// Parses the host of an entry, with its place, and the reason.
    fn entry(
        &mut self,
        table: &DeTable<'_>,
        node: &Node<'_>,
    ) -> (Option<(String, Range<usize>)>, Option<String>) {
        self.refuse_unknown(table, "network", &ENTRY);
        let reason = find(table, "reason").and_then(|node| self.string("reason", node));
        let Some(host) = find(table, "host") else {
            self.error(Problem::Network(NetworkError::NoHost), node.span());
            return (None, reason);
        };
        (self.string("host", host).map(|text| (text, host.span())), reason)
    }

    fn reach(&mut self, name: &str, node: &Node<'_>) {
        for item in self.list(name, node) {
            let text = match item.get_ref() {
                DeValue::String(text) => text.as_ref().to_owned(),
                DeValue::Integer(_) => match self.integer(name, "a port", item) {
                    Some(number) => number.to_string(),
                    None => continue,
                },
                other => {
                    self.wrong_type(name, "a list of ports", other, item.span());
                    continue;
                }
            };
            let found = port(&text).ok_or(NetworkError::Port { text });
            if let Some(found) = self.stated(found, &item.span()) {
                let found = self.sourced(found, item.span());
                self.policy.settings.reach.push(found);
            }
        }
    }
}
