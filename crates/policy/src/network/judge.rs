// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges a name or an address by the rules.
//!
//! Precedence is that of paths: layers in their order, strengths inside a layer. Inside a rank the closest rule
//! decides (a name before `*.name` before a shorter `*.name` before `*`; fewer addresses before more; fewer ports
//! before more), and deny beats allow. After a lock, later layers may tighten it and never loosen it.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::address::is_public;
use super::host::{HostPattern, Name, Target};
use crate::layer::{Origin, Rank, Strength, Tighten};

/// An entry of `network.allow` or `network.deny`.
///
/// Every member is always serialised, so that formats without member names (a plan's) can read it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkRule {
    /// The hosts and ports.
    pub target: Target,
    /// Whether the command may connect to them.
    pub allow: bool,
    /// The reason, in the words of the policy's author.
    pub reason: Option<String>,
    /// Where it was stated.
    pub origin: Origin,
    /// How firm the statement is.
    pub strength: Strength,
}

impl NetworkRule {
    /// The place in the order of precedence.
    #[must_use]
    pub const fn rank(&self) -> Rank {
        Rank { layer: self.origin.layer, strength: self.strength }
    }

    /// How wide the rule is: a smaller value is closer.
    fn looseness(&self) -> (u8, u16, u16) {
        let (kind, open) = match &self.target.host {
            HostPattern::Name(_) => (0, 0),
            HostPattern::Addresses(range) => (0, u16::from(range.open())),
            HostPattern::Below(name) => (1, 1024 - u16::try_from(name.as_str().len()).unwrap_or(1024)),
            HostPattern::Any => (2, 0),
        };
        (kind, open, self.target.ports.last - self.target.ports.first)
    }
}

/// `deny = "*.example.com" (/etc/palisade/config.toml:12)`.
impl fmt::Display for NetworkRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = if self.allow { "allow" } else { "deny" };
        write!(f, "{key} = {:?}", self.target.to_string())?;
        if self.strength == Strength::Locked {
            f.write_str(", locked")?;
        }
        write!(f, " ({})", self.origin)
    }
}

/// The verdict for hosts that match no rule.
///
/// Ordered, tightest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// Refused.
    #[default]
    Deny,
    /// The user is asked.
    Ask,
    /// Allowed, unless it isn't of the public internet.
    Allow,
}

impl Fallback {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Deny, Self::Ask, Self::Allow];

    /// The word in a policy file.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Ask => "ask",
            Self::Allow => "allow",
        }
    }
}

impl Tighten for Fallback {
    fn loosens(&self, lock: &Self) -> bool {
        self > lock
    }
}

impl fmt::Display for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// All rules for the hosts that a command may connect to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkRules {
    /// The rules, by ascending rank, then in the order stated.
    pub rules: Vec<NetworkRule>,
    /// The verdict for hosts that match no rule.
    pub fallback: Fallback,
}

/// A verdict on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkVerdict {
    /// The connection is allowed.
    Allow,
    /// The user is to be asked.
    Ask,
    /// The connection is refused.
    Deny,
}

/// A verdict and its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<'r> {
    /// The verdict.
    pub verdict: NetworkVerdict,
    /// The rule that decided. `None` if no rule matches.
    pub rule: Option<&'r NetworkRule>,
    /// No rule matches the address, and it isn't of the public internet.
    pub private: bool,
}

/// The rules, prepared for lookups: the time of a lookup doesn't depend on the number of rules about other names.
#[derive(Debug)]
pub struct Judge<'r> {
    rules: &'r NetworkRules,
    names: HashMap<&'r str, Vec<u32>>,
    below: HashMap<&'r str, Vec<u32>>,
    any: Vec<u32>,
    addresses: Vec<u32>,
}

impl<'r> Judge<'r> {
    /// Prepares rules.
    #[must_use]
    pub fn new(rules: &'r NetworkRules) -> Self {
        let mut judge = Self {
            rules,
            names: HashMap::new(),
            below: HashMap::new(),
            any: Vec::new(),
            addresses: Vec::new(),
        };
        for (index, rule) in (0u32..).zip(&rules.rules) {
            match &rule.target.host {
                HostPattern::Any => judge.any.push(index),
                HostPattern::Name(name) => judge.names.entry(name.as_str()).or_default().push(index),
                HostPattern::Below(name) => judge.below.entry(name.as_str()).or_default().push(index),
                HostPattern::Addresses(_) => judge.addresses.push(index),
            }
        }
        judge
    }

    /// Whether the command may connect to a name at a port.
    #[must_use]
    pub fn name(&self, name: &Name, port: u16) -> Ruling<'r> {
        self.rule_on(self.about(name).filter(|rule| rule.target.ports.contains(port)))
    }

    /// Whether the command may connect to a name at any port. If so, it may resolve the name.
    #[must_use]
    pub fn lookup(&self, name: &Name) -> Ruling<'r> {
        best(self.about(name), |port| self.name(name, port))
    }

    /// Whether the command may connect directly to an address at a port.
    #[must_use]
    pub fn address(&self, address: IpAddr, port: u16) -> Ruling<'r> {
        let public = is_public(address);
        let any = self.any.iter().filter(|_rule| public);
        let fits = |rule: &&NetworkRule| rule.target.ports.contains(port) && Self::holds(rule, address);
        let fitting = merged(self.addresses.iter().chain(any)).map(|index| self.at(index)).filter(fits);
        let ruling = self.rule_on(fitting);
        if ruling.rule.is_none() && !public {
            return Ruling { verdict: NetworkVerdict::Deny, rule: None, private: true };
        }
        ruling
    }

    /// Whether the command may connect directly to an address at any port.
    #[must_use]
    pub fn any_port(&self, address: IpAddr) -> Ruling<'r> {
        let about = merged(self.addresses.iter().chain(&self.any)).map(|index| self.at(index));
        best(about.filter(|rule| Self::holds(rule, address)), |port| self.address(address, port))
    }

    /// Whether the command may connect to an address that an allowed name leads to. A rule against the address also
    /// applies to names, and an address outside the public internet needs a rule of its own.
    #[must_use]
    pub fn leads_to(&self, address: IpAddr, port: u16) -> Ruling<'r> {
        let fits = |rule: &&NetworkRule| rule.target.ports.contains(port) && Self::holds(rule, address);
        let ruling = self.rule_on(self.addresses.iter().map(|index| self.at(*index)).filter(fits));
        match ruling.rule {
            Some(_) => ruling,
            None if is_public(address) => {
                Ruling { verdict: NetworkVerdict::Allow, rule: None, private: false }
            }
            None => Ruling { verdict: NetworkVerdict::Deny, rule: None, private: true },
        }
    }

    fn holds(rule: &NetworkRule, address: IpAddr) -> bool {
        match &rule.target.host {
            HostPattern::Addresses(range) => range.contains(address),
            HostPattern::Any => true,
            HostPattern::Name(_) | HostPattern::Below(_) => false,
        }
    }

    fn at(&self, index: u32) -> &'r NetworkRule {
        &self.rules.rules[index as usize]
    }

    /// The rules about a name, at any port, in order.
    fn about(&self, name: &Name) -> impl Iterator<Item = &'r NetworkRule> {
        let exact = self.names.get(name.as_str()).into_iter().flatten();
        let below = name.and_above().skip(1).filter_map(|above| self.below.get(above)).flatten();
        merged(exact.chain(below).chain(&self.any)).map(|index| self.at(index))
    }

    /// The verdict of the matching rules, which are in order.
    fn rule_on(&self, fitting: impl Iterator<Item = &'r NetworkRule>) -> Ruling<'r> {
        let mut holds: Option<&NetworkRule> = None;
        let mut lock: Option<&NetworkRule> = None;
        let mut fitting = fitting.peekable();
        while let Some(mut speaks) = fitting.next() {
            let rank = speaks.rank();
            while let Some(other) = fitting.next_if(|other| other.rank() == rank) {
                let closer = other.looseness().cmp(&speaks.looseness());
                if closer.is_lt() || (closer.is_eq() && !other.allow) {
                    speaks = other;
                }
            }
            if let Some(lock) = lock
                && rank.layer > lock.origin.layer
                && speaks.allow
                && !lock.allow
            {
                continue;
            }
            if rank.strength == Strength::Locked {
                lock = Some(speaks);
            }
            holds = Some(speaks);
        }
        let verdict = match (holds, self.rules.fallback) {
            (Some(rule), _) if rule.allow => NetworkVerdict::Allow,
            (Some(_), _) | (None, Fallback::Deny) => NetworkVerdict::Deny,
            (None, Fallback::Ask) => NetworkVerdict::Ask,
            (None, Fallback::Allow) => NetworkVerdict::Allow,
        };
        Ruling { verdict, rule: holds, private: false }
    }
}

/// The most permissive verdict over all ports.
fn best<'r>(rules: impl Iterator<Item = &'r NetworkRule>, ruling: impl Fn(u16) -> Ruling<'r>) -> Ruling<'r> {
    // The ports at which the verdict may change: the first port of each rule, and the one after its last.
    let mut ports: Vec<u16> = rules
        .flat_map(|rule| [Some(rule.target.ports.first), rule.target.ports.last.checked_add(1)])
        .flatten()
        .filter(|port| *port > 1)
        .collect();
    ports.sort_unstable();
    ports.dedup();
    // Of equal verdicts the first one is returned.
    let others = ports.into_iter().map(&ruling);
    others
        .fold(ruling(1), |best, other| if (other.verdict as u8) < best.verdict as u8 { other } else { best })
}

/// Merges indices in ascending order, which is the order of rank.
fn merged<'i>(indices: impl Iterator<Item = &'i u32>) -> impl Iterator<Item = u32> {
    let mut indices: Vec<u32> = indices.copied().collect();
    indices.sort_unstable();
    indices.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layer::Layer;

    fn rules(fallback: Fallback, stated: &[(Layer, Strength, &str)]) -> NetworkRules {
        let mut rules: Vec<NetworkRule> = stated
            .iter()
            .map(|(layer, strength, text)| {
                let (key, target) = text.split_once(' ').unwrap();
                NetworkRule {
                    target: target.parse().unwrap(),
                    allow: key == "allow",
                    reason: None,
                    origin: Origin { layer: *layer, file: None, line: 0, column: 0 },
                    strength: *strength,
                }
            })
            .collect();
        rules.sort_by_key(NetworkRule::rank);
        NetworkRules { rules, fallback }
    }

    fn name(rules: &NetworkRules, name: &str, port: u16) -> NetworkVerdict {
        Judge::new(rules).name(&name.parse().unwrap(), port).verdict
    }

    use Layer::{Administrator, CommandLine, User};
    use NetworkVerdict::{Allow, Ask, Deny};
    use Strength::{Locked, Set};

    #[test]
    fn the_closest_rule_of_a_layer_speaks_and_deny_beats_allow() {
        let rules = rules(
            Fallback::Deny,
            &[
                (User, Set, "allow *.example.com"),
                (User, Set, "deny *.internal.example.com"),
                (User, Set, "allow ok.internal.example.com:443"),
                (User, Set, "deny ok.internal.example.com"),
                (User, Set, "allow same.org"),
                (User, Set, "deny same.org"),
            ],
        );
        assert_eq!(name(&rules, "a.example.com", 80), Allow);
        assert_eq!(name(&rules, "a.b.example.com", 80), Allow);
        assert_eq!(name(&rules, "example.com", 80), Deny, "the star stands for a part");
        assert_eq!(name(&rules, "notexample.com", 80), Deny);
        assert_eq!(name(&rules, "x.internal.example.com", 443), Deny);
        assert_eq!(name(&rules, "ok.internal.example.com", 443), Allow, "one port is closer than all");
        assert_eq!(name(&rules, "ok.internal.example.com", 80), Deny);
        assert_eq!(name(&rules, "same.org", 1), Deny);
    }

    #[test]
    fn later_layers_win_but_not_over_a_lock() {
        let rules = rules(
            Fallback::Allow,
            &[
                (Administrator, Locked, "deny *"),
                (Administrator, Locked, "allow *.corp.example"),
                (User, Set, "deny evil.org"),
                (CommandLine, Set, "allow evil.org"),
                (CommandLine, Set, "deny a.corp.example"),
            ],
        );
        assert_eq!(name(&rules, "evil.org", 443), Deny);
        assert_eq!(name(&rules, "b.corp.example", 443), Allow);
        assert_eq!(name(&rules, "a.corp.example", 443), Deny, "a lock can be tightened");
        let rules =
            self::rules(Fallback::Deny, &[(User, Set, "deny evil.org"), (CommandLine, Set, "allow *")]);
        assert_eq!(name(&rules, "evil.org", 443), Allow);
    }

    #[test]
    fn addresses_that_are_not_public_take_a_rule_of_their_own() {
        let rules = rules(
            Fallback::Allow,
            &[(User, Set, "allow *"), (User, Set, "allow 10.0.0.0/8:5432"), (User, Set, "deny 8.8.8.8")],
        );
        let judge = Judge::new(&rules);
        let address = |text: &str, port| judge.address(text.parse().unwrap(), port);
        assert_eq!(address("1.1.1.1", 53).verdict, Allow);
        assert_eq!(address("8.8.8.8", 53).verdict, Deny);
        assert_eq!(address("10.1.2.3", 5432).verdict, Allow);
        assert_eq!(address("10.1.2.3", 22).verdict, Deny);
        assert!(address("169.254.169.254", 80).private);
        let leads = |text: &str, port| judge.leads_to(text.parse().unwrap(), port).verdict;
        assert_eq!(leads("10.1.2.3", 5432), Allow);
        assert_eq!(leads("10.1.2.3", 443), Deny);
        assert_eq!(leads("127.0.0.1", 443), Deny);
        assert_eq!(leads("8.8.8.8", 443), Deny, "also for who has a name");
        assert_eq!(leads("::ffff:8.8.8.8", 443), Deny, "in whatever clothes");
        assert_eq!(leads("9.9.9.9", 443), Allow);
    }

    #[test]
    fn a_name_is_looked_up_if_some_port_of_it_may_be_talked_to() {
        let judge = |stated: &[(Layer, Strength, &str)], fallback| {
            let rules = rules(fallback, stated);
            Judge::new(&rules).lookup(&"example.com".parse().unwrap()).verdict
        };
        assert_eq!(judge(&[], Fallback::Deny), Deny);
        assert_eq!(judge(&[], Fallback::Ask), Ask);
        assert_eq!(judge(&[(User, Set, "allow example.com:8443")], Fallback::Deny), Allow);
        assert_eq!(judge(&[(User, Set, "deny example.com:1-65534")], Fallback::Allow), Allow);
        assert_eq!(judge(&[(User, Set, "deny example.com")], Fallback::Allow), Deny);
        assert_eq!(
            judge(
                &[(Administrator, Locked, "deny *"), (User, Set, "allow example.com:443")],
                Fallback::Allow
            ),
            Deny
        );
    }
}
