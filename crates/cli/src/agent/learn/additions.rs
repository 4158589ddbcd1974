// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a profile lacks of what a session was allowed: hosts that were reached, and grants of the command line.
//!
//! What was refused is never added: the agent chooses what it tries.

use super::Session;
use palisade_policy::names::NameChange;
use palisade_policy::network::Target;
use palisade_policy::render::string;
use palisade_policy::{
    Access, Layer, LayerPolicy, NetworkRule, NetworkRules, Origin, PathPattern, PathRule, Sourced, Strength,
};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::learned::hosts;

/// The most hosts that are proposed at once. Users don't read a longer list.
const MOST: usize = 64;

/// Statements that a profile lacks.
#[derive(Debug, Default)]
pub(super) struct Additions {
    pub(super) hosts: Vec<NetworkRule>,
    pub(super) paths: Vec<PathRule>,
    /// Names that the command line takes off protection.
    pub(super) names: Vec<Sourced<NameChange>>,
    /// Hosts that were reached, and that the profile can't allow: a rule of a higher layer or a denial outranks it.
    pub(super) outranked: Vec<String>,
    /// Paths of the command line that can't be written in a profile.
    pub(super) unwritten: Vec<String>,
    /// How many hosts that were reached aren't proposed.
    pub(super) more: usize,
}

/// The entries of one list of a policy file, in TOML.
pub(super) struct Entries {
    pub(super) section: &'static str,
    pub(super) key: &'static str,
    pub(super) entries: Vec<String>,
}

impl Additions {
    /// Compares a session with the profile. `rules`: the rules for hosts without the command line. `words`: the statements of
    /// the command line. `own`: the statements of the profile itself.
    pub(super) fn of(
        session: &Session,
        rules: &NetworkRules,
        words: &LayerPolicy,
        own: &LayerPolicy,
        facts: &Facts,
    ) -> Self {
        let mut additions = Self::default();
        additions.add_hosts(session, rules);
        for rule in words.settings.paths.iter().filter(|rule| is_grant(rule.access)) {
            let Some(rule) = anchored(rule, facts) else {
                additions.unwritten.push(rule.to_string());
                continue;
            };
            let same = |other: &PathRule| {
                (other.access, &other.pattern, &other.destination)
                    == (rule.access, &rule.pattern, &rule.destination)
            };
            if !own.settings.paths.iter().chain(&additions.paths).any(same) {
                additions.paths.push(rule);
            }
        }
        for change in words.settings.names.iter().filter(|change| !change.value.protect) {
            let same = |other: &Sourced<NameChange>| other.value == change.value;
            if !own.settings.names.iter().chain(&additions.names).any(same) {
                additions.names.push(Sourced { origin: users(), ..change.clone() });
            }
        }
        additions
    }

    fn add_hosts(&mut self, session: &Session, rules: &NetworkRules) {
        let mut rules = rules.clone();
        let missing = hosts::missing(&session.hosts, &session.rules, &rules);
        self.more = missing.len().saturating_sub(MOST);
        for target in missing.into_iter().take(MOST) {
            let rule = allowing(target);
            let mut with = rules.clone();
            with.rules.push(rule.clone());
            with.rules.sort_by_key(NetworkRule::rank);
            if hosts::missing(&session.hosts, &session.rules, &with).contains(&rule.target) {
                self.outranked.push(rule.target.to_string());
            } else {
                rules = with;
                self.hosts.push(rule);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.paths.is_empty() && self.names.is_empty()
    }

    /// The lists that get entries.
    pub(super) fn lists(&self) -> Vec<Entries> {
        let hosts = self.hosts.iter().map(|rule| string(&rule.target.to_string())).collect();
        let names = self.names.iter().map(|change| string(change.value.name.as_str())).collect();
        let mut lists = vec![Entries { section: "network", key: "allow", entries: hosts }];
        for access in [Access::Read, Access::Write, Access::Execute] {
            let paths = self.paths.iter().filter(|rule| rule.access == access).filter_map(written);
            let entries = paths.map(|text| string(&text)).collect();
            lists.push(Entries { section: "filesystem", key: access.key(), entries });
        }
        lists.push(Entries { section: "filesystem", key: "allow_names", entries: names });
        lists.retain(|list| !list.entries.is_empty());
        lists
    }

    /// The statements as a part of a policy file.
    pub(super) fn toml(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for list in self.lists() {
            if section != list.section {
                section = list.section;
                text.push_str(&format!("[{section}]\n"));
            }
            text.push_str(&format!("{} = [{}]\n", list.key, list.entries.join(", ")));
        }
        text
    }

    /// A profile with these statements after its own.
    pub(super) fn added_to(&self, mut profile: LayerPolicy) -> LayerPolicy {
        profile.settings.hosts.extend(self.hosts.iter().cloned());
        profile.settings.paths.extend(self.paths.iter().cloned());
        profile.settings.names.extend(self.names.iter().cloned());
        profile
    }
}

const fn is_grant(access: Access) -> bool {
    matches!(access, Access::Read | Access::Write | Access::Execute)
}

/// The place of a statement that stands in no file yet.
const fn users() -> Origin {
    Origin { layer: Layer::User, file: None, line: 0, column: 0 }
}

pub(super) const fn allowing(target: Target) -> NetworkRule {
    NetworkRule { target, allow: true, reason: None, origin: users(), strength: Strength::Set }
}

/// `HOST` or `HOST=DEST`. `None` if it isn't UTF-8.
pub(super) fn written(rule: &PathRule) -> Option<String> {
    let host = rule.pattern.as_str()?;
    match &rule.destination {
        None => Some(host.to_owned()),
        Some(destination) => Some(format!("{host}={}", destination.as_str()?)),
    }
}

/// The rule with paths that mean the same in every working directory: the profile applies in other projects, too.
fn anchored(rule: &PathRule, facts: &Facts) -> Option<PathRule> {
    let destination = match &rule.destination {
        Some(destination) => Some(anchor(destination, facts)?),
        None => None,
    };
    let pattern = anchor(&rule.pattern, facts)?;
    Some(PathRule { pattern, destination, access: rule.access, origin: users(), strength: Strength::Set })
}

fn anchor(pattern: &PathPattern, facts: &Facts) -> Option<PathPattern> {
    let exactly = |path| PathPattern::exactly(path).ok()?.as_str().map(str::to_owned);
    let text = pattern.as_str()?;
    let mut text = if text.starts_with(['/', '~', '$']) {
        text.to_owned()
    } else {
        let (mut base, mut rest) = (facts.cwd.as_path(), text);
        loop {
            rest = if let Some(rest) = rest.strip_prefix("./") {
                rest
            } else if let Some(rest) = rest.strip_prefix("../") {
                base = base.parent()?;
                rest
            } else {
                break;
            };
        }
        let base = if rest == ".." { base.parent()? } else { base };
        let base = exactly(base)?;
        if matches!(rest, "" | "." | "..") { base } else { format!("{base}/{rest}") }
    };
    let home = exactly(&facts.account.home)?;
    if let Some(rest) = text.strip_prefix(&home)
        && rest.starts_with('/')
    {
        text = format!("~{rest}");
    }
    PathPattern::new(text).ok()
}

#[cfg(test)]
mod tests {
    use super::{Additions, MOST, allowing, users};
    use crate::agent::learn::Session;
    use palisade_policy::network::Fallback;
    use palisade_policy::{Layer, NetworkRules, Origin, Strength};
    use palisade_sandbox::learned::AccessTrace;
    use palisade_sandbox::learned::hosts::Hosts;

    fn session(hosts: impl Iterator<Item = String>) -> Session {
        let mut reached = Hosts { filtered: true, ..Hosts::default() };
        hosts.for_each(|host| reached.reach(host, None));
        let rules = NetworkRules { rules: Vec::new(), fallback: Fallback::Allow };
        Session { started: true, code: 0, trace: AccessTrace::default(), hosts: reached, rules }
    }

    fn hosts(session: &Session, rules: &NetworkRules) -> (Vec<String>, Additions) {
        let mut additions = Additions::default();
        additions.add_hosts(session, rules);
        (additions.hosts.iter().map(|rule| rule.target.to_string()).collect(), additions)
    }

    #[test]
    fn only_a_readable_number_of_hosts_is_proposed() {
        let session = session((0..MOST + 6).map(|number| format!("h{number}.example:443")));
        let (hosts, additions) = hosts(&session, &NetworkRules::default());
        assert_eq!((hosts.len(), additions.more), (MOST, 6));
    }

    #[test]
    fn hosts_that_are_allowed_already_or_never_can_be_are_not_proposed() {
        let reached =
            ["a.example:443", "b.example:443", "c.example:443", "[2606:2800:220:1::34]:80", "d.example"];
        let session = session(reached.into_iter().map(str::to_owned));
        let mut locked = allowing("b.example".parse().unwrap());
        locked.allow = false;
        locked.strength = Strength::Locked;
        locked.origin = Origin { layer: Layer::Administrator, ..users() };
        let rules = vec![locked, allowing("a.example".parse().unwrap())];
        let (hosts, additions) = hosts(&session, &NetworkRules { rules, fallback: Fallback::Deny });
        assert_eq!(hosts, ["[2606:2800:220:1::34]:80", "c.example:443"]);
        assert_eq!(additions.outranked, ["b.example:443"]);
    }
}
