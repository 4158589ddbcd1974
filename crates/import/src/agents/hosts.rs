// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts that a file allows and refuses, and their form in a profile.
//!
//! Hosts that the file allows are stated under `[default.network]`, and those that it refuses under `[network]`, which
//! overrides the first.

use super::rules::Item;
use crate::document::Value;
use crate::draft::Draft;
use palisade_policy::network::Target;

const GRANTS: &str = "default.network";
const REFUSALS: &str = "network";

/// All statements about the network.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    pub(super) allowed: Vec<Item>,
    pub(super) refused: Vec<Item>,
    /// Ports of the host's loopback that can be reached.
    pub(super) ports: Vec<(Item, u16)>,
    /// The proxy through which all connections go.
    pub(super) proxy: Option<Item>,
    /// A statement that allows all hosts.
    pub(super) all: Option<Item>,
    /// A statement without which nothing is reached.
    pub(super) none: Option<Item>,
}

const PUBLIC: &str = "hosts of the public internet, by TCP: `network.mode = \"host\"` would give the whole network of this host";
const LOOPBACK: &str = "the sandbox's loopback is its own: name single ports with `reach` under [network]";
const UNSAYABLE: &str = "Palisade's rules can't express this host";
const COVERED: &str = "another rule of the file refuses this host, and the refusal counts";
const NO_NETWORK: &str = "another statement of the file refuses the whole network";

/// One host of a file, in the form of a profile.
enum Host {
    All,
    /// The host's own loopback, and a port of it.
    Loopback(Option<u16>),
    Names(Vec<String>),
}

impl Hosts {
    /// Whether the file says nothing about hosts.
    pub(super) fn is_empty(&self) -> bool {
        let one = [&self.proxy, &self.all, &self.none];
        self.allowed.is_empty()
            && self.refused.is_empty()
            && self.ports.is_empty()
            && one.iter().all(|item| item.is_none())
    }

    /// States all of them.
    pub(super) fn state(self, draft: &mut Draft) {
        let reached = self.none.is_none() && self.state_allowed(draft);
        let mode = if reached { "filtered" } else { "none" };
        draft.set(REFUSALS, "mode", Value::Text(mode.to_owned()));
        if self.none.is_some() {
            for item in
                self.allowed.iter().chain(&self.all).chain(self.ports.iter().map(|(item, _port)| item))
            {
                draft.approximated(item.said(GRANTS, "allow"), NO_NETWORK);
            }
        }
        for item in &self.refused {
            state_refused(item, reached, draft);
        }
        match &self.proxy {
            Some(item) if reached => {
                if draft.set(REFUSALS, "proxy", Value::Text(item.text.clone())) {
                    draft.taken();
                } else {
                    draft.left_out(item.said(REFUSALS, "proxy"), "Palisade can't use a proxy of this form");
                }
            }
            Some(_item) => draft.taken(),
            None => {}
        }
    }

    /// States what is allowed. Returns whether anything is.
    fn state_allowed(&self, draft: &mut Draft) -> bool {
        let mut any = false;
        if let Some(item) = &self.all {
            any |= draft.push(GRANTS, "allow", "*");
            draft.approximated(item.said(GRANTS, "allow"), PUBLIC);
        }
        let refused: Vec<String> = self
            .refused
            .iter()
            .filter_map(|item| match host(&item.text)? {
                Host::Names(names) => Some(names),
                Host::All => Some(vec!["*".to_owned()]),
                Host::Loopback(_port) => None,
            })
            .flatten()
            .collect();
        for item in &self.allowed {
            let said = item.said(GRANTS, "allow");
            match host(&item.text) {
                None => draft.left_out(said, UNSAYABLE),
                Some(Host::All) => {
                    any |= draft.push(GRANTS, "allow", "*");
                    draft.approximated(said, PUBLIC);
                }
                Some(Host::Loopback(None)) => draft.left_out(said, LOOPBACK),
                Some(Host::Loopback(Some(port))) => {
                    any |= reach(port, draft);
                    draft.taken();
                }
                Some(Host::Names(names)) => {
                    if names.iter().all(|name| refused.contains(name)) || refused.contains(&"*".to_owned()) {
                        draft.approximated(said, COVERED);
                        continue;
                    }
                    let mut could = true;
                    for name in &names {
                        could &= draft.push(GRANTS, "allow", name);
                    }
                    any |= could;
                    if could { draft.taken() } else { draft.left_out(said, UNSAYABLE) }
                }
            }
        }
        for (item, port) in &self.ports {
            if reach(*port, draft) {
                any = true;
                draft.taken();
            } else {
                draft.left_out(item.said(REFUSALS, "reach"), UNSAYABLE);
            }
        }
        any
    }
}

/// Adds a port of the host's loopback.
fn reach(port: u16, draft: &mut Draft) -> bool {
    let port = i64::from(port);
    let could = Draft::takes(REFUSALS, "reach", Value::Numbers(vec![port]));
    let known =
        matches!(draft.table(REFUSALS).value("reach"), Some(Value::Numbers(ports)) if ports.contains(&port));
    if could && !known {
        draft.table(REFUSALS).number("reach", port);
    }
    could
}

fn state_refused(item: &Item, reached: bool, draft: &mut Draft) {
    let said = item.said(REFUSALS, "deny");
    match host(&item.text) {
        // Nothing is reached anyway.
        _ if !reached => draft.taken(),
        None => draft.not_kept(said, UNSAYABLE),
        Some(Host::Loopback(_port)) => draft.taken(),
        Some(Host::All) => {
            draft.push(REFUSALS, "deny", "*");
            draft.taken();
        }
        Some(Host::Names(names)) => {
            let mut could = true;
            for name in &names {
                could &= draft.push(REFUSALS, "deny", name);
            }
            if could { draft.taken() } else { draft.not_kept(said, UNSAYABLE) }
        }
    }
}

/// The form of a host in a profile. `None` for one that can't be expressed.
fn host(written: &str) -> Option<Host> {
    let (name, port) = match written.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (written, None),
    };
    if matches!(name, "localhost" | "127.0.0.1" | "::1" | "[::1]") {
        return match port {
            None => Some(Host::Loopback(None)),
            Some(port) => port.parse().ok().map(|port| Host::Loopback(Some(port))),
        };
    }
    if written == "*" {
        return Some(Host::All);
    }
    // Codex writes a name and all names below it with two stars.
    let names = match written.strip_prefix("**.") {
        Some(rest) => vec![rest.to_owned(), format!("*.{rest}")],
        None => vec![written.to_owned()],
    };
    names.iter().all(|name| name.parse::<Target>().is_ok()).then_some(Host::Names(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_the_form_of_rules() {
        let names = |written: &str| match host(written) {
            Some(Host::Names(names)) => names,
            _ => Vec::new(),
        };
        assert_eq!(names("**.example.com"), ["example.com", "*.example.com"]);
        assert_eq!(names("*.example.com:443"), ["*.example.com:443"]);
        assert_eq!(names("10.0.0.1:80"), ["10.0.0.1:80"]);
        assert!(matches!(host("localhost"), Some(Host::Loopback(None))));
        assert!(matches!(host("[::1]:5432"), Some(Host::Loopback(Some(5432)))));
        assert!(matches!(host("*"), Some(Host::All)));
        for written in ["prod-*", "https://example.com", "a b", "", "localhost:x"] {
            assert!(host(written).is_none(), "{written}");
        }
    }
}
