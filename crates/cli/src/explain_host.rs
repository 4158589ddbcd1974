// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens when a host is to be talked to. Nobody is asked for names here: rules are about them as they are.

use crate::answer::{self, Failure, NO, YES};
use crate::situation::Place;
use palisade::Situation;
use palisade_policy::network::{
    Fallback, Judge, Name, NetworkRule, NetworkRules, NetworkVerdict, Ruling, host_port, is_public,
};
use palisade_policy::{LayerPolicy, NetworkMode, Policy, Strength};
use palisade_sandbox::error::quoted;
use palisade_text::harmless;
use serde::Serialize;
use std::net::IpAddr;

/// A host, and a port if one is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// A name or an address.
    whom: Result<Name, IpAddr>,
    port: Option<u16>,
}

/// The answer about a host.
#[derive(Debug, Serialize)]
struct Answer {
    /// Always `host`.
    kind: &'static str,
    host: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    /// Whether it may be talked to, without the port at some port at least.
    allowed: bool,
    /// `allow`, `ask` or `deny`.
    verdict: &'static str,
    why: String,
    mode: Mode,
    /// The rule that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Rule>,
    /// What holds for hosts that no rule speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Default>,
    /// Of an address: whether it is of the public internet. Others take a rule of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    public: Option<bool>,
    /// The command that permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    permit: Option<String>,
    #[serde(skip)]
    lines: Vec<(&'static str, String)>,
}

#[derive(Debug, Serialize)]
struct Mode {
    value: &'static str,
    #[serde(flatten)]
    place: Place,
}

#[derive(Debug, Serialize)]
struct Default {
    value: &'static str,
    #[serde(flatten)]
    place: Place,
}

/// A rule on hosts, for programs.
#[derive(Debug, Serialize)]
struct Rule {
    list: &'static str,
    target: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(flatten)]
    place: Place,
}

impl From<&NetworkRule> for Rule {
    fn from(rule: &NetworkRule) -> Self {
        Self {
            list: if rule.allow { "allow" } else { "deny" },
            target: rule.target.to_string(),
            reason: rule.reason.clone(),
            place: Place::new(&rule.origin, rule.strength),
        }
    }
}

/// A port to try with where none is given.
const ANY_PORT: u16 = 49_151;

/// What is said of a host.
struct Said {
    verdict: NetworkVerdict,
    why: String,
    rule: Option<NetworkRule>,
}

impl Host {
    /// What is written like a host.
    pub(crate) fn new(text: &str) -> Option<Self> {
        host_port(text).map(|(whom, port)| Self { whom, port })
    }

    /// Whether nobody would write a file or a program like this: an address, something with a port, a URL, or a name
    /// that ends like those of the DNS do.
    pub(crate) fn is_plain(text: &str) -> bool {
        let Some(host) = Self::new(text) else { return false };
        let last = |name: &Name| {
            let (_first, last) = name.as_str().rsplit_once('.')?;
            Some(
                last.len() >= 2
                    && (last.starts_with("xn--") || last.bytes().all(|byte| byte.is_ascii_alphabetic())),
            )
        };
        text.contains("://")
            || host.port.is_some()
            || host.whom.as_ref().map_or(true, |name| last(name).unwrap_or(false))
    }

    fn words(&self) -> String {
        match &self.whom {
            Ok(name) => name.to_string(),
            Err(address) => address.to_string(),
        }
    }

    /// As in a rule.
    fn target(&self) -> String {
        match (&self.whom, self.port) {
            (_, None) => self.words(),
            (Err(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
            (_, Some(port)) => format!("{}:{port}", self.words()),
        }
    }

    /// Whether it is this machine, be it the sandbox's or the host's.
    fn is_loopback(&self) -> bool {
        match &self.whom {
            Ok(name) => name.as_str() == "localhost" || name.as_str().ends_with(".localhost"),
            Err(address) => address.to_canonical().is_loopback(),
        }
    }

    fn ruling<'r>(&self, judge: &Judge<'r>) -> Ruling<'r> {
        match (&self.whom, self.port) {
            (Ok(name), Some(port)) => judge.name(name, port),
            (Ok(name), None) => judge.lookup(name),
            (Err(address), Some(port)) => judge.address(*address, port),
            (Err(address), None) => judge.any_port(*address),
        }
    }

    fn judge(&self, policy: &Policy) -> Said {
        let mode = policy.network();
        let stated = |verdict, why| Said { verdict, why, rule: None };
        match mode.value {
            NetworkMode::Host => {
                return stated(
                    NetworkVerdict::Allow,
                    format!("the network is the host's ({}), and no rule is asked", mode.origin),
                );
            }
            NetworkMode::None | NetworkMode::Filtered if self.is_loopback() => return self.at_home(policy),
            NetworkMode::None => {
                return stated(
                    NetworkVerdict::Deny,
                    format!("the network is nothing but a loopback of its own ({})", mode.origin),
                );
            }
            NetworkMode::Filtered => {}
        }
        let rules = policy.network_rules();
        let judge = Judge::new(&rules);
        let ruling = self.ruling(&judge);
        let fallback = policy.network_fallback();
        let why = match (ruling.rule, fallback.value) {
            (Some(rule), _) => rule.to_string(),
            (None, _) if ruling.private => {
                "it isn't of the public internet, and no rule is about its address".to_owned()
            }
            (None, Fallback::Deny) => format!("no rule allows it; default = \"deny\" ({})", fallback.origin),
            (None, Fallback::Ask) => {
                format!("no rule speaks of it, and you are asked; default = \"ask\" ({})", fallback.origin)
            }
            (None, Fallback::Allow) => {
                format!("no rule speaks of it; default = \"allow\" ({})", fallback.origin)
            }
        };
        Said { verdict: ruling.verdict, why, rule: ruling.rule.cloned() }
    }

    /// The sandbox's own loopback.
    fn at_home(&self, policy: &Policy) -> Said {
        let reach = policy.reach();
        let reached = reach.iter().find(|stated| self.port == Some(stated.value));
        let filtered = policy.network().value == NetworkMode::Filtered;
        match reached.filter(|_stated| filtered) {
            Some(stated) => Said {
                verdict: NetworkVerdict::Allow,
                why: format!("the host's port is there inside; reach = {} ({})", stated.value, stated.origin),
                rule: None,
            },
            None => Said {
                verdict: NetworkVerdict::Deny,
                why:
                    "inside, this is a loopback of the sandbox's own; what listens on the host's isn't there"
                        .to_owned(),
                rule: None,
            },
        }
    }

    /// The words that permit it, tried before they are proposed; or what stands against them.
    fn permit(&self, policy: &Policy) -> (Option<String>, Option<String>) {
        let mut layer = LayerPolicy::command_line();
        layer.set_network(NetworkMode::Filtered, 0);
        // Without a port any shows whether one could be had.
        let (option, value, shown) = match self.port {
            _ if !self.is_loopback() => ("--allow", self.target(), quoted(&self.target())),
            Some(port) => ("--reach", port.to_string(), port.to_string()),
            None => ("--reach", ANY_PORT.to_string(), "PORT".to_owned()),
        };
        let added = match option {
            "--reach" => layer.add_reach(&value, 0).map(|_layer| ()),
            _ => layer.add_host(&value, true, 0).map(|_layer| ()),
        };
        if added.is_err() {
            return (None, None);
        }
        let tried = policy.clone().combine(layer.into());
        let meant = match self.port {
            None if self.is_loopback() => Self { port: Some(ANY_PORT), ..self.clone() },
            _ => self.clone(),
        };
        let said = meant.judge(&tried);
        if said.verdict == NetworkVerdict::Allow {
            return (Some(format!("palisade run {option} {shown} -- COMMAND…")), None);
        }
        let mode = tried.network();
        let lock = match said.rule {
            Some(rule) if rule.strength == Strength::Locked => Some(rule.to_string()),
            _ if mode.strength == Strength::Locked => {
                Some(format!("mode = \"{}\" ({})", mode.value, mode.origin))
            }
            _ => None,
        };
        (None, lock.map(|lock| format!("a lock forbids it: {lock}")))
    }
}

/// Explains a host.
pub(crate) fn explain(situation: &Situation, host: &Host, json: bool) -> Result<u8, Failure> {
    let answer = answer_about(host, situation.policy());
    if json {
        answer::print_json(&answer)?;
    } else {
        answer::print(&answer.words())?;
    }
    Ok(if answer.allowed { YES } else { NO })
}

fn answer_about(host: &Host, policy: &Policy) -> Answer {
    let said = host.judge(policy);
    let allowed = said.verdict == NetworkVerdict::Allow;
    let (permit, against) = if allowed { (None, None) } else { host.permit(policy) };
    let mode = policy.network();
    let filtered = mode.value == NetworkMode::Filtered;
    let mut lines = Vec::new();
    if let Some(reason) = said.rule.as_ref().and_then(|rule| rule.reason.as_ref()) {
        lines.push(("reason", reason.clone()));
    }
    if filtered {
        lines.push(("mode", format!("\"filtered\" ({})", mode.origin)));
    }
    let address = match &host.whom {
        Ok(_name) if allowed && filtered && !host.is_loopback() => {
            Some(address_of_name(&policy.network_rules()))
        }
        Err(address) if !is_public(*address) && !host.is_loopback() => {
            Some("not of the public internet: it takes a rule of its own, `*` doesn't mean it".to_owned())
        }
        _ => None,
    };
    lines.extend(address.map(|address| ("address", address)));
    lines.extend(permit.as_ref().map(|permit| ("to permit", permit.clone())));
    let why = against.map_or_else(|| said.why.clone(), |lock| format!("{}; {lock}", said.why));
    let fallback = policy.network_fallback();
    Answer {
        kind: "host",
        host: host.words(),
        port: host.port,
        allowed,
        verdict: match said.verdict {
            NetworkVerdict::Allow => "allow",
            NetworkVerdict::Ask => "ask",
            NetworkVerdict::Deny => "deny",
        },
        why,
        rule: said.rule.as_ref().map(Rule::from),
        default: filtered.then(|| Default { value: fallback.value.key(), place: Place::of(&fallback) }),
        public: host.whom.as_ref().err().map(|address| is_public(*address)),
        mode: Mode { value: mode.value.key(), place: Place::of(&mode) },
        permit,
        lines,
    }
}

/// What is asked of the address that a name leads to.
fn address_of_name(rules: &NetworkRules) -> String {
    use palisade_policy::network::HostPattern;
    let own = rules.rules.iter().any(|rule| matches!(rule.target.host, HostPattern::Addresses(_)));
    let besides = if own { "; rules about addresses hold for it, too" } else { "" };
    format!("where the name leads must be of the public internet, or have a rule of its own{besides}")
}

impl Answer {
    fn words(&self) -> String {
        let port = self.port.map_or_else(String::new, |port| format!(" at port {port}"));
        let verdict = match self.verdict {
            "allow" => "yes",
            "ask" => "ask",
            _ => "no",
        };
        let mut text = format!("{}{port}: {verdict}: {}\n", harmless(&self.host), harmless(&self.why));
        for (name, words) in &self.lines {
            text.push_str(&format!("  {name:<10} {}\n", harmless(words)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation;

    fn about(administrator: &str, host: &str) -> Answer {
        let situation = situation::of_administrator(administrator);
        answer_about(&Host::new(host).unwrap(), situation.policy())
    }

    #[test]
    fn what_a_lock_forbids_is_not_proposed() {
        for (administrator, proposed) in [
            ("", true),
            ("[network]\ndeny = [\"example.com\"]\n", true),
            ("[locked.network]\nallow = [\"example.org\"]\n", true),
            ("[locked.network]\ndefault = \"deny\"\n", true),
            ("[locked.network]\nmode = \"none\"\n", false),
            ("[locked.network]\ndeny = [\"*.com\", \"*\"]\n", false),
        ] {
            let answer = about(administrator, "example.com:443");
            assert!(!answer.allowed, "{administrator}");
            assert_eq!(answer.permit.is_some(), proposed, "{administrator} {answer:?}");
            assert_eq!(answer.why.contains("a lock forbids it: "), !proposed, "{administrator} {answer:?}");
        }
        for lock in ["reach = []", "mode = \"none\"", "deny = [\"127.0.0.0/8\"]"] {
            for host in ["127.0.0.1:5432", "localhost"] {
                let reach = about(&format!("[locked.network]\n{lock}\n"), host);
                assert_eq!(reach.permit, None, "{lock} {reach:?}");
            }
        }
        assert_eq!(about("", "localhost").permit.unwrap(), "palisade run --reach PORT -- COMMAND…");
    }

    #[test]
    fn the_host_is_told_from_files_and_programs() {
        for host in [
            "example.com",
            "example.com:443",
            "10.0.0.1",
            "https://example.com/x",
            "localhost:80",
            "::1",
            "a.xn--p1ai",
        ] {
            assert!(Host::is_plain(host), "{host}");
        }
        for other in [
            "ls",
            "./x",
            "/etc/passwd",
            "a/b.com",
            "x.c",
            "python3.11",
            "~/x.com",
            "*.com",
            ".env",
            "localhost",
        ] {
            assert!(!Host::is_plain(other), "{other}");
        }
    }

    #[test]
    fn addresses_and_loopback_have_words_of_their_own() {
        let open = "[network]\nallow = [\"*\"]\nreach = [5432]\n";
        let private = about(open, "10.0.0.1");
        assert!(!private.allowed && private.public == Some(false), "{private:?}");
        assert_eq!(private.permit.as_deref(), Some("palisade run --allow 10.0.0.1 -- COMMAND…"));
        assert!(about(open, "1.1.1.1:53").allowed);
        assert!(about(open, "localhost:5432").allowed);
        assert_eq!(about(open, "[::1]:80").permit.as_deref(), Some("palisade run --reach 80 -- COMMAND…"));
        assert!(about("[network]\nmode = \"host\"\n", "10.0.0.1").allowed);
        let asked = about("[network]\ndefault = \"ask\"\n", "example.com");
        assert_eq!((asked.verdict, asked.allowed), ("ask", false));
    }
}
