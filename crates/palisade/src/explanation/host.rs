// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains what happens when a command connects to a host. It resolves no names: rules match names as they are written.

use super::Place;
use crate::Situation;
use palisade_policy::network::{
    Fallback, HostPattern, Judge, Name, NetworkRule, NetworkVerdict, Ruling, host_port, is_public,
};
use palisade_policy::{LayerPolicy, NetworkMode, Origin, Policy, Strength};
use palisade_sandbox::error::quoted;
use serde::Serialize;
use std::net::IpAddr;

/// A host, and a port if the caller means one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address.
    whom: Result<Name, IpAddr>,
    port: Option<u16>,
}

/// The answer about a host.
#[derive(Debug, Serialize)]
pub struct HostExplanation {
    /// Always `host`.
    pub kind: &'static str,
    /// A name or an address.
    pub host: String,
    /// The port, if the caller means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Whether it may be reached. Without a port: whether it may be reached at some port.
    pub allowed: bool,
    /// What the policy says.
    pub verdict: NetworkVerdict,
    /// Why, in a sentence.
    pub why: String,
    /// The mode of the network.
    pub mode: Setting,
    /// The rule that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<HostRule>,
    /// The verdict for hosts that match no rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Setting>,
    /// For an address: whether it belongs to the public internet. Other addresses need a rule of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// The command that permits it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permit: Option<String>,
    /// Whether it is this machine, either the sandbox's loopback or the host's.
    #[serde(skip)]
    pub is_loopback: bool,
    /// Whether rules about addresses also apply to the addresses of a name.
    #[serde(skip)]
    pub addresses_have_rules: bool,
}

/// A setting of the policy.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// The value.
    pub value: &'static str,
    /// The place of the statement.
    #[serde(flatten)]
    pub place: Place,
    /// The place of the statement, in one line.
    #[serde(skip)]
    pub stated: String,
}

/// A rule on hosts.
#[derive(Debug, Serialize)]
pub struct HostRule {
    /// `allow` or `deny`.
    pub list: &'static str,
    /// The hosts that it is about.
    pub target: String,
    /// Why it was stated, if the rule says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The place of the statement.
    #[serde(flatten)]
    pub place: Place,
}

impl From<&NetworkRule> for HostRule {
    fn from(rule: &NetworkRule) -> Self {
        Self {
            list: if rule.allow { "allow" } else { "deny" },
            target: rule.target.to_string(),
            reason: rule.reason.clone(),
            place: Place::new(&rule.origin, rule.strength),
        }
    }
}

/// The port to try if none is given.
const ANY_PORT: u16 = 49_151;

/// The verdict on a host.
struct Said {
    verdict: NetworkVerdict,
    why: String,
    rule: Option<NetworkRule>,
}

impl Host {
    /// Reads a text that is written like a host.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        host_port(text).map(|(whom, port)| Self { whom, port })
    }

    /// Whether the text can hardly mean a file or a program: it is an address, has a port, is a URL, or is a name with
    /// an ending as names of the DNS have.
    #[must_use]
    pub fn is_plain(text: &str) -> bool {
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

    /// The host as a rule writes it.
    fn target(&self) -> String {
        match (&self.whom, self.port) {
            (_, None) => self.words(),
            (Err(IpAddr::V6(address)), Some(port)) => format!("[{address}]:{port}"),
            (_, Some(port)) => format!("{}:{port}", self.words()),
        }
    }

    /// Whether it is this machine, either the sandbox's loopback or the host's.
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
                    format!("the command uses the host's network ({}), so no rule applies", mode.origin),
                );
            }
            NetworkMode::None | NetworkMode::Filtered if self.is_loopback() => return self.at_home(policy),
            NetworkMode::None => {
                return stated(
                    NetworkVerdict::Deny,
                    format!("the sandbox's network has only its own loopback interface ({})", mode.origin),
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
                "it isn't an address of the public internet, and no rule matches it".to_owned()
            }
            (None, Fallback::Deny) => format!("no rule allows it; default = \"deny\" ({})", fallback.origin),
            (None, Fallback::Ask) => {
                format!("no rule matches, and you are asked; default = \"ask\" ({})", fallback.origin)
            }
            (None, Fallback::Allow) => {
                format!("no rule matches; default = \"allow\" ({})", fallback.origin)
            }
        };
        Said { verdict: ruling.verdict, why, rule: ruling.rule.cloned() }
    }

    /// The verdict on the sandbox's own loopback.
    fn at_home(&self, policy: &Policy) -> Said {
        let reach = policy.reach();
        let reached = reach.iter().find(|stated| self.port == Some(stated.value));
        let filtered = policy.network().value == NetworkMode::Filtered;
        match reached.filter(|_stated| filtered) {
            Some(stated) => Said {
                verdict: NetworkVerdict::Allow,
                why: format!("the host's port can be reached; reach = {} ({})", stated.value, stated.origin),
                rule: None,
            },
            None => Said {
                verdict: NetworkVerdict::Deny,
                why: "inside, this is the sandbox's own loopback; the host's loopback can't be reached"
                    .to_owned(),
                rule: None,
            },
        }
    }

    /// The command that permits it, tried before it is proposed; or what prevents that.
    fn permit(&self, policy: &Policy) -> (Option<String>, Option<String>) {
        let mut layer = LayerPolicy::command_line();
        layer.set_network(NetworkMode::Filtered, 0);
        // Without a port, this port shows whether any port could be permitted.
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

impl HostExplanation {
    /// The answer about a host.
    #[must_use]
    pub fn of(situation: &Situation, host: &Host) -> Self {
        let policy = situation.policy();
        let said = host.judge(policy);
        let allowed = said.verdict == NetworkVerdict::Allow;
        let (permit, against) = if allowed { (None, None) } else { host.permit(policy) };
        let why = against.map_or_else(|| said.why.clone(), |lock| format!("{}; {lock}", said.why));
        let (mode, fallback) = (policy.network(), policy.network_fallback());
        let filtered = mode.value == NetworkMode::Filtered;
        let setting = |value, place, origin: &Origin| Setting { value, place, stated: origin.to_string() };
        Self {
            kind: "host",
            host: host.words(),
            port: host.port,
            allowed,
            verdict: said.verdict,
            why,
            mode: setting(mode.value.key(), Place::of(&mode), &mode.origin),
            rule: said.rule.as_ref().map(HostRule::from),
            default: filtered.then(|| setting(fallback.value.key(), Place::of(&fallback), &fallback.origin)),
            public: host.whom.as_ref().err().map(|address| is_public(*address)),
            permit,
            is_loopback: host.is_loopback(),
            addresses_have_rules: {
                let rules = policy.network_rules().rules;
                rules.iter().any(|rule| matches!(rule.target.host, HostPattern::Addresses(_)))
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explanation::of_administrator;

    fn about(administrator: &str, host: &str) -> HostExplanation {
        HostExplanation::of(&of_administrator(administrator), &Host::new(host).unwrap())
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
        assert_eq!((asked.verdict, asked.allowed), (NetworkVerdict::Ask, false));
    }
}
