// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of sandbox-runtime: JSON.
//!
//! sandbox-runtime reads everything that isn't refused. A profile that shows only a part of the host refuses the root
//! directory there, and allows what the profile shows.

use super::{Exported, Missing, Subject};
use palisade_policy::{Access, Grant, NetworkMode, Protected, View};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Directories of the system that a profile without the whole host shows.
const SYSTEM: [&str; 9] =
    ["/bin", "/sbin", "/usr", "/lib", "/lib64", "/etc", "/opt", "/nix/store", "/run/current-system"];

/// The keys that settings express.
const EXPRESSED: &[(&str, &[&str])] = &[
    (
        "filesystem",
        &["view", "read", "write", "execute", "hide", "deny", "tmpfs", "protect_paths", "working_directory"],
    ),
    ("network", &["mode", "allow", "deny", "reach", "publish", "default"]),
    ("program", &[]),
    ("process", &["best_effort"]),
    ("terminal", &["inherit"]),
];

/// The lists of the settings.
#[derive(Default)]
struct Lists {
    deny_read: Vec<String>,
    allow_read: Vec<String>,
    allow_write: Vec<String>,
    deny_write: Vec<String>,
    allowed: Vec<String>,
    refused: Vec<String>,
    missing: Vec<Missing>,
}

/// The settings.
#[must_use]
pub fn export(subject: &Subject<'_>) -> Exported {
    let mut lists = Lists::default();
    lists.files(subject);
    lists.hosts(subject);
    lists.missing.push(Missing::new("system calls", "sandbox-runtime refuses fewer calls"));
    lists.missing.push(Missing::new(
        "protected names",
        "sandbox-runtime protects a shorter list of names, to a limited depth",
    ));
    lists.missing.extend(subject.others(EXPRESSED));
    let settings = json!({
        "network": { "allowedDomains": lists.allowed, "deniedDomains": lists.refused, "strictAllowlist": true },
        "filesystem": {
            "denyRead": lists.deny_read,
            "allowRead": lists.allow_read,
            "allowWrite": lists.allow_write,
            "denyWrite": lists.deny_write,
        },
    });
    let text = serde_json::to_string_pretty(&settings).unwrap_or_default();
    Exported { text: palisade_text::json(text) + "\n", missing: lists.missing }
}

impl Lists {
    fn files(&mut self, subject: &Subject<'_>) {
        let whole = subject.policy.view().value == View::Host;
        if !whole {
            self.deny_read.push("/".to_owned());
            let there = SYSTEM.iter().filter(|path| Path::new(path).is_dir());
            self.allow_read.extend(there.map(|path| (*path).to_owned()));
            if subject.policy.view().value == View::Closure {
                self.missing.push(Missing::new(
                    "filesystem.view = \"closure\"",
                    "the whole system can be read, not only what the program needs",
                ));
            }
        }
        let mut writable: Vec<PathBuf> = Vec::new();
        let mut executed = true;
        for path in subject.resolved.effective() {
            let Some(text) = self.said(&path.destination) else { continue };
            if path.source != path.destination {
                self.missing.push(Missing::new(path.rule.to_string(), "a path is shown only where it lies"));
                continue;
            }
            let within = |list: &[PathBuf]| list.iter().any(|above| path.destination.starts_with(above));
            match path.grant {
                Grant::Allowed { write, execute } => {
                    executed &= execute || path.source.is_file();
                    self.allow_read.push(text.clone());
                    if write {
                        self.allow_write.push(text);
                        writable.push(path.destination);
                    } else if within(&writable) {
                        self.deny_write.push(text);
                    }
                }
                Grant::Hidden | Grant::Denied | Grant::Tmpfs | Grant::Absent => {
                    if path.grant == Grant::Tmpfs {
                        self.missing.push(Missing::new(
                            path.rule.to_string(),
                            "sandbox-runtime has no private directories: this one can't be read",
                        ));
                    }
                    if within(&writable) {
                        self.deny_write.push(text.clone());
                    }
                    self.deny_read.push(text);
                }
            }
        }
        if !executed {
            self.missing.push(Missing::new("files without execution", "what can be read can be executed"));
        }
        // Without a refusal there is nothing to allow again.
        if self.deny_read.is_empty() {
            self.allow_read.clear();
        }
        for glob in subject.resolved.globs() {
            let pattern = format!("{}/{}", glob.base.display(), glob.pattern.written()).replace("//", "/");
            match glob.rule.access {
                _ if glob.is_moved() || pattern.contains('\\') => {
                    self.missing.push(Missing::new(
                        glob.rule.to_string(),
                        "sandbox-runtime can't express the pattern",
                    ));
                }
                Access::Hide | Access::Deny => {
                    self.deny_write.push(pattern.clone());
                    self.deny_read.push(pattern);
                }
                Access::Read | Access::Execute => self.deny_write.push(pattern),
                Access::Write | Access::Tmpfs | Access::Protect => {
                    self.missing.push(Missing::new(
                        glob.rule.to_string(),
                        "the pattern is left out: sandbox-runtime expands patterns of refusals only",
                    ));
                }
            }
        }
        for protected in subject.resolved.protected() {
            match protected {
                Protected::Path(path, _rule) => {
                    let text = self.said(&path);
                    self.deny_write.extend(text);
                }
                Protected::Glob(glob) => self
                    .deny_write
                    .push(format!("{}/{}", glob.base.display(), glob.pattern.written()).replace("//", "/")),
            }
        }
    }

    /// A path as the settings write it. One with characters of patterns can't be written.
    fn said(&mut self, path: &Path) -> Option<String> {
        match path.to_str() {
            Some(text) if !text.contains(['*', '?', '[', ']', '{', '}', '\\']) => Some(text.to_owned()),
            _ => {
                self.missing.push(Missing::new(
                    path.to_string_lossy().into_owned(),
                    "sandbox-runtime would read this path as a pattern",
                ));
                None
            }
        }
    }

    fn hosts(&mut self, subject: &Subject<'_>) {
        let policy = subject.policy;
        match policy.network().value {
            NetworkMode::None => return,
            NetworkMode::Host => {
                self.missing.push(Missing::new(
                    "network.mode = \"host\"",
                    "sandbox-runtime allows single hosts only: none is",
                ));
                return;
            }
            NetworkMode::Filtered => {}
        }
        let rules = policy.network_rules();
        if rules.fallback != palisade_policy::network::Fallback::Deny {
            self.missing.push(Missing::new(
                format!("network.default = \"{}\"", rules.fallback),
                "hosts without a rule are refused",
            ));
        }
        for rule in rules.rules.iter().filter(|rule| policy.network_rule_holds(rule)) {
            let text = rule.target.to_string();
            let (name, _port) = split(&text);
            match (rule.allow, is_domain(name) || (!rule.allow && name == "*")) {
                (true, true) => self.allowed.push(text),
                (false, true) => self.refused.push(text),
                (true, false) => self.missing.push(Missing::new(
                    format!("network.allow = {text:?}"),
                    "sandbox-runtime allows names with a dot, and wildcards below two names",
                )),
                (false, false) => self.missing.push(Missing::new(
                    format!("network.deny = {text:?}"),
                    "sandbox-runtime can't refuse this host: it is reached if another rule allows it",
                )),
            }
        }
        for port in policy.reach() {
            self.missing.push(Missing::new(
                format!("network.reach = {}", port.value),
                "no port of the host's loopback is reached",
            ));
        }
        for publish in policy.publish() {
            self.missing.push(Missing::new(
                format!("network.publish = {}", publish.value.port),
                "a port of the sandbox isn't shown outside on Linux",
            ));
        }
    }
}

/// A host and its port.
pub(super) fn split(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((name, port)) if (!name.contains(':') || name.ends_with(']')) && port.parse::<u16>().is_ok() => {
            (name, Some(port))
        }
        _ => (text, None),
    }
}

/// Whether sandbox-runtime takes a host in its lists.
pub(super) fn is_domain(name: &str) -> bool {
    if name == "localhost" {
        return true;
    }
    if let Some(address) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let plain = |name: &str| {
        name.contains('.')
            && !name.starts_with('.')
            && !name.ends_with('.')
            && !name.contains(['*', '/', ':'])
    };
    match name.strip_prefix("*.") {
        Some(rest) => plain(rest) && rest.split('.').all(|part| !part.is_empty()),
        None => plain(name),
    }
}
