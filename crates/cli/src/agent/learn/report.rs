// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a session did with its rules: what it reached, what it was refused, and what it was allowed and didn't use.

use super::Session;
use super::additions::{Additions, written};
use palisade::Situation;
use palisade_policy::names::built_in;
use palisade_policy::{Grant, Layer, NetworkRules, Origin};
use palisade_sandbox::learned::hosts;
use palisade_text::wildcard;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The most entries of one list. The agent decides how many hosts it tries.
const MOST: usize = 64;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// The agent's exit code.
    code: u8,
    /// The file that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved: Option<PathBuf>,
    added: Added,
    reached: Vec<String>,
    refused: Refused,
    /// How many entries the lists above lack.
    more: usize,
    unused: Unused,
}

/// What the profile lacked.
#[derive(Debug, Serialize)]
struct Added {
    hosts: Vec<String>,
    paths: Vec<String>,
    names: Vec<String>,
    /// Hosts that another rule refuses whatever the profile says.
    outranked: Vec<String>,
    /// Paths that can't be written in a profile.
    unwritten: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Refused {
    hosts: Vec<Host>,
    /// Protected names.
    names: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Host {
    host: String,
    why: String,
}

/// What is allowed and wasn't used.
#[derive(Debug, Serialize)]
struct Unused {
    /// Whether the connections were seen.
    filtered: bool,
    hosts: Vec<Rule>,
    paths: Vec<Rule>,
    names: Vec<Rule>,
}

#[derive(Debug, Serialize)]
struct Rule {
    rule: String,
    from: String,
}

impl Report {
    pub(super) fn of(
        session: &Session,
        rules: &NetworkRules,
        stored: &Situation,
        additions: &Additions,
        saved: Option<PathBuf>,
    ) -> Self {
        let mut more = additions.more;
        let mut few = |all: Vec<String>| {
            more += all.len().saturating_sub(MOST);
            all.into_iter().take(MOST).collect::<Vec<_>>()
        };
        let reached = few(session.hosts.reached.keys().cloned().collect());
        let names = few(session.trace.names().map(str::to_owned).collect());
        let refused: Vec<_> = session.hosts.refused.iter().collect();
        more += refused.len().saturating_sub(MOST);
        let refused = refused.into_iter().take(MOST);
        let hosts = refused.map(|(host, refused)| Host { host: host.clone(), why: refused.why.clone() });
        let added = Added {
            hosts: additions.hosts.iter().map(|rule| rule.target.to_string()).collect(),
            paths: additions
                .paths
                .iter()
                .filter_map(|rule| Some(format!("{} {}", rule.access, written(rule)?)))
                .collect(),
            names: additions.names.iter().map(|change| change.value.name.as_str().to_owned()).collect(),
            outranked: additions.outranked.clone(),
            unwritten: additions.unwritten.clone(),
        };
        Self {
            code: session.code,
            saved,
            added,
            reached,
            refused: Refused { hosts: hosts.collect(), names },
            more,
            unused: Unused::of(session, rules, stored),
        }
    }

    /// The report for people.
    pub(super) fn words(&self) -> String {
        let mut text = String::from("palisade: this session\n");
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(text, "  {name:<9} {}", palisade_text::harmless(value));
        };
        row("reached", &if self.reached.is_empty() { "no host".to_owned() } else { self.reached.join(", ") });
        for host in &self.refused.hosts {
            row("refused", &format!("{} ({})", host.host, host.why));
        }
        for name in &self.refused.names {
            row("refused", &format!("{name} (protected name; stays refused, --allow-name allows it)"));
        }
        for host in &self.added.outranked {
            row("not kept", &format!("{host}: another rule refuses it whatever the profile says"));
        }
        for path in &self.added.unwritten {
            row("not kept", &format!("{path}: it can't be written in a profile"));
        }
        if self.more > 0 {
            row("", &format!("and {} more", self.more));
        }
        let unused = &self.unused;
        let lists = [("host", &unused.hosts), ("path", &unused.paths), ("name", &unused.names)];
        if lists.iter().all(|(_what, list)| list.is_empty()) {
            text.push_str("all that the profile allows was used\n");
            return text;
        }
        text.push_str("allowed, and not used in this session:\n");
        for (what, list) in lists {
            for rule in list {
                let line = format!("{what:<4} {}   ({})", rule.rule, rule.from);
                let _ = writeln!(text, "  {}", palisade_text::harmless(&line));
            }
        }
        text
    }
}

impl Unused {
    fn of(session: &Session, rules: &NetworkRules, stored: &Situation) -> Self {
        let filtered = session.hosts.filtered;
        let mut hosts = BTreeMap::new();
        for rule in rules.rules.iter().filter(|rule| filtered && rule.allow) {
            if !hosts::is_used(&session.hosts, rule) {
                hosts.insert(rule.target.to_string(), from(&rule.origin));
            }
        }
        let mut paths = BTreeMap::new();
        let effective = stored.resolved().map(|resolved| resolved.effective()).unwrap_or_default();
        for path in effective.iter().filter(|path| path.rule.origin.layer != Layer::BuiltIn) {
            let granted = matches!(path.grant, Grant::Allowed { .. });
            // The host may lack it.
            let there = path.source.symlink_metadata().is_ok();
            if granted && there && !session.trace.used_below(&path.destination) {
                paths.insert(path.destination.to_string_lossy().into_owned(), from(&path.rule.origin));
            }
        }
        let mut names = BTreeMap::new();
        let changes = stored.policy().settings().names.iter().filter(|change| !change.value.protect);
        for change in changes {
            let name = change.value.name.as_str();
            if !session.trace.changed().any(|path| is_named(path, name)) {
                names.insert(name.to_owned(), from(&change.origin));
            }
        }
        Self { filtered, hosts: listed(hosts), paths: listed(paths), names: listed(names) }
    }
}

fn from(origin: &Origin) -> String {
    origin.to_string()
}

fn listed(rules: BTreeMap<String, String>) -> Vec<Rule> {
    rules.into_iter().map(|(rule, from)| Rule { rule, from }).collect()
}

/// Whether a path has a protected name in it: an entry of `allow_names`, which may be a group.
fn is_named(path: &Path, name: &str) -> bool {
    if let Some(group) = name.strip_prefix("group:") {
        return built_in().iter().any(|known| known.group == group && has(path, &known.rule.path));
    }
    has(path, name)
}

/// Whether the parts of a name follow each other in a path. `*` stands for any part of one, `**` for any parts.
fn has(path: &Path, name: &str) -> bool {
    let matches = |pattern: &str, text: &[u8]| {
        let step = |rest: &[u8], byte: u8| (rest.first() == Some(&byte)).then_some(1);
        wildcard(pattern.as_bytes(), text, step, |byte| byte != b'/' || pattern.contains("**"))
    };
    // Each run of parts, from one directory above to the path itself or another directory above it.
    path.ancestors().any(|end| {
        end.ancestors().any(|start| {
            let parts = end.strip_prefix(start).map(|parts| parts.as_os_str().as_bytes());
            parts.is_ok_and(|parts| matches(name.trim_matches('/'), parts))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::is_named;
    use std::path::Path;

    #[test]
    fn a_name_is_found_at_any_depth() {
        for (path, name, found) in [
            ("/w/.git/hooks/pre-commit", ".git/hooks", true),
            ("/w/a/.git/hooks", ".git/hooks", true),
            ("/w/.git/config", ".git/hooks", false),
            ("/w/x.git/hooks", ".git/hooks", false),
            ("/w/my.key", "*.key", true),
            ("/w/.key/file", "my*", false),
            ("/w/a/x/y/b", "a/**/b", true),
            ("/w/.bashrc", "group:shell", true),
            ("/w/file", "group:shell", false),
        ] {
            assert_eq!(is_named(Path::new(path), name), found, "{path} {name}");
        }
    }
}
