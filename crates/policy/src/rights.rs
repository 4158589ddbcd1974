// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rights that a policy gives, as text that can be compared: two policies with the same text give the same rights.

use crate::layer::{Layer, Rank, Sourced, Strength};
use crate::merge::Policy;
use crate::rule::Access;
use crate::settings::Settings;
use crate::value::NetworkMode;
use crate::word::{List, Switch};
use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};

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
        // Each field is named, so that a new one can't be forgotten.
        let Settings {
            view,
            paths,
            protect,
            names,
            network,
            fallback,
            hosts,
            publish,
            reach,
            upstream_proxy,
            upstream_dns,
            closed,
            syscalls,
            answers,
            processors,
            time,
            hostname,
            uid,
            gid,
            cwd,
            best_effort,
            inherit_terminal,
            environment,
            // A limit gives no access.
            limits: _,
            chosen,
            words,
            switches,
            lists,
            files,
            hooks,
        } = self.settings();
        let mut others = Text::default();
        others.add("view", view);
        let mut shown = Text::default();
        for rule in paths {
            let is_of_system = rule.pattern.to_string().starts_with('/')
                && matches!(rule.access, Access::Read | Access::Execute)
                && rule.rank() == SHIPPED;
            let text = if is_of_system { &mut shown } else { &mut others };
            text.line("path", rule.rank(), &(&rule.access, &rule.pattern, &rule.destination));
        }
        others.add("protect", protect);
        others.add("name", names);
        others.add("syscall", syscalls);
        others.add("answer", answers);
        others.add("processors", processors);
        others.add("time", time);
        others.add("hostname", hostname);
        others.add("uid", uid);
        others.add("gid", gid);
        others.add("cwd", cwd);
        others.add("best effort", best_effort);
        others.add("terminal", inherit_terminal);
        others.add("variable", environment);
        others.add("choice", chosen);
        others.add("word", words);
        for stated in switches {
            if !matches!(stated.value.0, Switch::Trace | Switch::Stats | Switch::Log) {
                others.line("switch", stated.rank(), &stated.value);
            }
        }
        for stated in lists {
            let is_of_system =
                matches!(stated.value.0, List::Libraries | List::Programs) && stated.rank() == SHIPPED;
            let text = if is_of_system { &mut shown } else { &mut others };
            text.line("list", stated.rank(), &stated.value);
        }
        others.add("file", files);
        others.add("hook", hooks);
        let mut of_network = Text::default();
        of_network.add("mode", network);
        of_network.add("default", fallback);
        for rule in hosts {
            of_network.line("host", rule.rank(), &(&rule.target, rule.allow));
        }
        of_network.add("publish", publish);
        of_network.add("reach", reach);
        of_network.add("proxy", upstream_proxy);
        of_network.add("dns", upstream_dns);
        of_network.add("closed", closed);
        let has_network = self.network().value != NetworkMode::None;
        RightsText {
            network: has_network.then_some(of_network.0),
            shown: shown.0.lines().map(str::to_owned).collect(),
            others: others.0,
        }
    }
}

/// One line for each statement, without its place: the position of an option gives no right.
#[derive(Default)]
struct Text(String);

impl Text {
    fn add<T: Debug>(&mut self, key: &str, statements: &[Sourced<T>]) {
        for stated in statements {
            self.line(key, stated.rank(), &stated.value);
        }
    }

    fn line(&mut self, key: &str, rank: Rank, value: &dyn Debug) {
        // Values are quoted: a line break in one makes no line.
        let _infallible = writeln!(self.0, "{key} {:?} {:?} {value:?}", rank.layer, rank.strength);
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
