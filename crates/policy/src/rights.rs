// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rights that a policy gives, as text that can be compared: two policies with the same text give the same rights.

use crate::layer::{Layer, Rank, Sourced, Strength};
use crate::merge::Policy;
use crate::network::NetworkRule;
use crate::pattern::PathPattern;
use crate::render::render;
use crate::rule::{Access, PathRule};
use crate::settings::{LayerPolicy, Settings};
use crate::value::NetworkMode;
use crate::word::{List, Switch};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

/// The rank of statements in shipped features.
const SHIPPED: Rank = Rank { layer: Layer::BuiltIn, strength: Strength::Set };

/// A policy's rights. The reverse of "the same text, the same rights" isn't promised: policies that state one right in
/// two ways have different texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RightsText {
    /// The statements about the network; `None` without a network.
    pub network: Option<String>,
    /// What the features shipped with Palisade show of the system in addition, read-only, a line each. Such a statement
    /// takes no right away.
    pub shown: BTreeSet<String>,
    /// All other statements, except for limits and for what is only reported.
    pub others: String,
}

impl Policy {
    /// The rights as text.
    #[must_use]
    pub fn rights_text(&self) -> RightsText {
        let (mut network, mut others, mut shown) = (Text::default(), Text::default(), Text::default());
        for layer in Layer::ALL {
            let of_layer = self.settings().clone().of_layer(layer);
            let Settings {
                network: mode,
                fallback,
                publish,
                reach,
                upstream_proxy,
                upstream_dns,
                closed,
                ..
            } = of_layer.clone();
            // Reasons give no right.
            let hosts: Vec<NetworkRule> =
                of_layer.hosts.iter().map(|rule| NetworkRule { reason: None, ..rule.clone() }).collect();
            network.rendered(
                layer,
                Settings {
                    network: mode,
                    fallback,
                    hosts,
                    publish,
                    reach,
                    upstream_proxy,
                    upstream_dns,
                    closed,
                    ..Settings::default()
                },
            );
            // Printed here, because a path needn't be UTF-8.
            for rule in &of_layer.paths {
                let text = if is_of_system(rule) { &mut shown } else { &mut others };
                text.path(rule);
            }
            let is_shown = |stated: &Sourced<(List, String)>| {
                matches!(stated.value.0, List::Libraries | List::Programs) && stated.rank() == SHIPPED
            };
            for stated in of_layer.lists.iter().filter(|stated| is_shown(stated)) {
                shown.0.push_str(&format!("{:?}\n", stated.value.1));
            }
            let mut rest = Settings {
                network: Vec::new(),
                fallback: Vec::new(),
                hosts: Vec::new(),
                publish: Vec::new(),
                reach: Vec::new(),
                upstream_proxy: Vec::new(),
                upstream_dns: Vec::new(),
                closed: Vec::new(),
                paths: Vec::new(),
                // A limit gives no access.
                limits: Vec::new(),
                ..of_layer
            };
            rest.lists.retain(|stated| !is_shown(stated));
            rest.switches.retain(|stated| {
                !matches!(stated.value.0, Switch::Trace | Switch::Stats | Switch::Log | Switch::Refusals)
            });
            others.rendered(layer, rest);
        }
        let has_network = self.network().value != NetworkMode::None;
        RightsText {
            network: has_network.then_some(network.0),
            shown: shown.0.lines().map(str::to_owned).collect(),
            others: others.0,
        }
    }
}

/// Whether a shipped feature shows something of the system, read-only.
fn is_of_system(rule: &PathRule) -> bool {
    rule.pattern.as_os_str().as_bytes().starts_with(b"/")
        && matches!(rule.access, Access::Read | Access::Execute)
        && rule.rank() == SHIPPED
}

#[derive(Default)]
struct Text(String);

impl Text {
    /// As a policy file, without the places of statements: the position of an option gives no right.
    fn rendered(&mut self, layer: Layer, settings: Settings) {
        let policy = LayerPolicy { settings, ..LayerPolicy::empty(layer, None) };
        self.0.push_str(layer.name());
        self.0.push_str(&render(&policy));
    }

    /// One line. Paths are quoted, and bytes that aren't UTF-8 are escaped.
    fn path(&mut self, rule: &PathRule) {
        let destination = rule.destination.as_ref().map(PathPattern::as_os_str);
        let strength = match rule.strength {
            Strength::Default => "default",
            Strength::Set => "set",
            Strength::Locked => "locked",
        };
        let (layer, access, path) = (rule.origin.layer.name(), rule.access, rule.pattern.as_os_str());
        self.0.push_str(&format!("{layer} {strength} {access} {path:?} {destination:?}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{merge, parse, parse_feature};

    fn rights(text: &str) -> RightsText {
        let layer = parse(text, None, Layer::User).unwrap();
        merge(vec![crate::built_in(), layer]).rights_text()
    }

    #[test]
    fn what_gives_a_right_is_in_the_text_and_nothing_else() {
        let plain = rights("schema = 1\n");
        assert_eq!(plain.network, None);
        for same in [
            "schema = 1\n\n\n[limits]\nmemory = \"1G\"\n",
            "schema = 1\n[behaviour]\ntrace = true\n",
            "schema = 1\nname = \"other\"\n",
        ] {
            assert_eq!(rights(same), plain, "{same}");
        }
        for more in [
            "[filesystem]\nread = [\"/srv\"]",
            "[filesystem]\nallow_names = [\".vscode\"]",
            "[environment]\nkeep = [\"TOKEN\"]",
            "[process]\nnamespaces = true",
            "[syscalls]\nallow = [\"ptrace\"]",
            "[devices]\nallow = [\"/dev/kvm\"]",
        ] {
            let more = rights(&format!("schema = 1\n{more}\n"));
            assert_ne!(more.others, plain.others, "{more:?}");
            assert_eq!(more.network, None);
        }
        let one = rights("schema = 1\n[network]\nmode = \"filtered\"\nallow = [\"a.example\"]\n");
        assert_eq!(one.others, plain.others);
        let two =
            rights("schema = 1\n[network]\nmode = \"filtered\"\nallow = [\"a.example\", \"b.example\"]\n");
        assert!(one.network.is_some() && one.network != two.network);

        let feature = |text: &str| {
            let text = format!("schema = 1\nname = \"f\"\n{text}\n");
            let layer = parse_feature(&text, None, Layer::BuiltIn).unwrap();
            merge(vec![crate::built_in(), layer]).rights_text()
        };
        let shipped = feature("[filesystem]\nread = [\"/etc/ssl/certs\"]\n[closure]\nlibraries = [\"l.so\"]");
        assert_eq!((shipped.shown.len(), &shipped.others), (2, &plain.others));
        for other in ["write = [\"/srv\"]", "read = [\"~/x\"]", "hide = [\"/etc/ssl\"]"] {
            assert_ne!(feature(&format!("[filesystem]\n{other}")).others, plain.others, "{other}");
        }
    }
}
