// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile for macOS's sandbox-exec, in the language of Seatbelt. Of several rules on an operation, the last one decides.
//!
//! No test runs it: there is no such system here. A test reads it with a parser of its own.

use super::{Exported, Missing, Subject};
use palisade_policy::{Access, EffectiveGlob, Grant, NameRule, NetworkMode, Protected, View};
use std::fmt::Write;
use std::path::Path;

/// Directories of macOS that every program needs.
const SYSTEM: [&str; 10] = [
    "/bin",
    "/sbin",
    "/usr",
    "/opt",
    "/System",
    "/Library",
    "/private/etc",
    "/private/var/db",
    "/private/var/run",
    "/dev",
];

/// The keys that a profile expresses.
const EXPRESSED: &[(&str, &[&str])] = &[
    (
        "filesystem",
        &[
            "view",
            "read",
            "write",
            "execute",
            "hide",
            "deny",
            "tmpfs",
            "protect_paths",
            "protect",
            "protect_names",
            "allow_names",
            "working_directory",
        ],
    ),
    ("network", &["mode", "allow", "deny", "default", "reach", "publish"]),
    ("program", &[]),
    ("process", &["best_effort"]),
    ("terminal", &["inherit"]),
];

struct Text {
    out: String,
    missing: Vec<Missing>,
}

/// The text of a profile.
#[must_use]
pub fn export(subject: &Subject<'_>) -> Exported {
    let mut to = Text { out: String::from("(version 1)\n"), missing: Vec::new() };
    to.comment(&format!("Exported from Palisade's profile {}. This text has not been run.", subject.name));
    to.line("(deny default)");
    to.line("(allow process-fork)");
    to.line("(allow process-info* (target same-sandbox))");
    to.line("(allow signal (target same-sandbox))");
    to.line("(allow sysctl-read)");
    to.line("(allow pseudo-tty)");
    to.line("(allow file-read-metadata)");
    to.line("(allow file-ioctl (subpath \"/dev\"))");
    to.line("(allow file-write-data (literal \"/dev/null\") (literal \"/dev/tty\"))");
    to.view(subject);
    to.paths(subject);
    to.patterns(subject);
    to.names(subject);
    to.network(subject);
    to.missing.push(Missing::new("system calls", "Seatbelt judges operations, not system calls"));
    to.missing.extend(subject.others(EXPRESSED));
    Exported { text: to.out, missing: to.missing }
}

impl Text {
    fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    fn comment(&mut self, text: &str) {
        let text: String = text.chars().map(|c| if palisade_text::is_hidden(c) { '?' } else { c }).collect();
        let _ = writeln!(self.out, "; {text}");
    }

    fn rule(&mut self, allow: bool, operations: &str, filter: &str) {
        let verb = if allow { "allow" } else { "deny" };
        let _ = writeln!(self.out, "({verb} {operations} {filter})");
    }

    fn view(&mut self, subject: &Subject<'_>) {
        let view = subject.policy.view();
        if view.value == View::Host {
            return self.rule(true, "file-read* process-exec", "(subpath \"/\")");
        }
        for path in SYSTEM {
            self.rule(true, "file-read* process-exec", &subpath(Path::new(path)));
        }
        self.missing.push(Missing::new(
            format!("filesystem.view = {:?}", view.value.key()),
            "these are directories of macOS, and the system's are shown as a whole",
        ));
    }

    fn paths(&mut self, subject: &Subject<'_>) {
        for path in subject.resolved.effective() {
            if path.source != path.destination {
                self.missing
                    .push(Missing::new(path.rule.to_string(), "Seatbelt shows a path only where it lies"));
                continue;
            }
            let filter = subpath(&path.destination);
            match path.grant {
                Grant::Allowed { write, execute } => {
                    self.rule(true, "file-read*", &filter);
                    self.rule(write, "file-write*", &filter);
                    self.rule(execute, "process-exec", &filter);
                }
                Grant::Hidden | Grant::Denied | Grant::Tmpfs | Grant::Absent => {
                    self.rule(false, "file-read* file-write* process-exec", &filter);
                    if path.grant == Grant::Tmpfs {
                        self.missing.push(Missing::new(
                            path.rule.to_string(),
                            "Seatbelt has no private directories: this one can't be used",
                        ));
                    }
                }
            }
        }
    }

    /// Patterns that refuse something. They stand behind all paths, so they decide.
    fn patterns(&mut self, subject: &Subject<'_>) {
        for glob in subject.resolved.globs() {
            let refused = match glob.rule.access {
                Access::Hide | Access::Deny | Access::Tmpfs => "file-read* file-write* process-exec",
                Access::Read => "file-write* process-exec",
                Access::Execute => "file-write*",
                Access::Write | Access::Protect => {
                    self.missing.push(Missing::new(
                        glob.rule.to_string(),
                        "the pattern is left out: it could show what another rule hides",
                    ));
                    continue;
                }
            };
            if matches!(glob.rule.access, Access::Read | Access::Execute) {
                self.missing.push(Missing::new(
                    glob.rule.to_string(),
                    "the pattern only takes away: what it would show isn't shown",
                ));
            }
            match of_glob(&glob) {
                Some(regex) => self.rule(false, refused, &regex),
                None => self
                    .missing
                    .push(Missing::new(glob.rule.to_string(), "Seatbelt can't express the pattern")),
            }
        }
        for protected in subject.resolved.protected() {
            let (filter, rule) = match protected {
                Protected::Path(path, rule) => (Some(subpath(&path)), rule),
                Protected::Glob(glob) => (of_glob(&glob), glob.rule),
            };
            match filter {
                Some(filter) => self.rule(false, "file-write*", &filter),
                None => {
                    self.missing.push(Missing::new(rule.to_string(), "Seatbelt can't express the pattern"))
                }
            }
        }
    }

    /// Names that programs outside obey.
    fn names(&mut self, subject: &Subject<'_>) {
        if subject.policy.protect().value == palisade_policy::Protect::Off {
            return;
        }
        for rule in subject.policy.names().rules().iter().filter(|rule| !rule.anchored) {
            self.rule(false, "file-write*", &of_name(rule));
        }
        self.missing.push(Missing::new(
            "protected names",
            "upper and lower case differ here, exceptions don't count, and a grant of the name itself doesn't lift it",
        ));
    }

    fn network(&mut self, subject: &Subject<'_>) {
        let policy = subject.policy;
        match policy.network().value {
            NetworkMode::Host => return self.line("(allow network*)"),
            NetworkMode::None => return,
            NetworkMode::Filtered => {}
        }
        for rule in policy.network_rules().rules.iter().filter(|rule| policy.network_rule_holds(rule)) {
            let key = if rule.allow { "allow" } else { "deny" };
            self.missing.push(Missing::new(
                format!("network.{key} = {:?}", rule.target.to_string()),
                "Seatbelt knows no host names: no host is reached",
            ));
        }
        for port in policy.reach() {
            self.rule(true, "network-outbound", &format!("(remote tcp \"localhost:{}\")", port.value));
        }
        for publish in policy.publish() {
            self.rule(
                true,
                "network-bind network-inbound",
                &format!("(local tcp \"localhost:{}\")", publish.value.port),
            );
        }
    }
}

/// The filter for a path and all below it.
fn subpath(path: &Path) -> String {
    format!("(subpath {})", string(&path.to_string_lossy()))
}

/// A string of the language.
fn string(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The filter for a pattern and all below its matches.
fn of_glob(glob: &EffectiveGlob) -> Option<String> {
    if glob.is_moved() {
        return None;
    }
    let base = glob.base.to_string_lossy();
    let mut regex = String::from("^");
    base.trim_end_matches('/').chars().for_each(|c| literal(c, &mut regex));
    regex.push('/');
    pattern(glob.pattern.written(), &mut regex);
    regex.push_str("(/.*)?$");
    Some(format!("(regex #\"{regex}\")"))
}

/// The filter for a protected name at any depth.
fn of_name(rule: &NameRule) -> String {
    let mut regex = String::from("/");
    pattern(&rule.path, &mut regex);
    regex.push_str("(/.*)?$");
    format!("(regex #\"{regex}\")")
}

/// Adds what a pattern of a policy matches, as a regular expression.
fn pattern(written: &str, regex: &mut String) {
    let mut rest = written;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '*' if rest.starts_with("*/") => {
                rest = &rest[2..];
                regex.push_str("([^/]+/)*");
            }
            '*' if rest == "*" => {
                rest = "";
                regex.push_str(".*");
            }
            '*' => regex.push_str("[^/]*"),
            '?' => regex.push_str("[^/]"),
            '[' => match rest.find(']').filter(|end| *end > 0) {
                Some(end) => {
                    let members = rest[..end].replacen('!', "^", usize::from(rest.starts_with('!')));
                    regex.push('[');
                    regex.extend(members.chars().filter(|c| *c != '"' && *c != '\\'));
                    regex.push(']');
                    rest = &rest[end + 1..];
                }
                None => regex.push_str("\\["),
            },
            '\\' => {
                if let Some(escaped) = rest.chars().next() {
                    rest = &rest[escaped.len_utf8()..];
                    literal(escaped, regex);
                }
            }
            c => literal(c, regex),
        }
    }
}

/// A character that stands for itself. A quotation mark would end the expression: any character stands for it.
fn literal(c: char, regex: &mut String) {
    match c {
        '"' => regex.push('.'),
        '.' | '+' | '*' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' | '|' | '\\' => {
            regex.push('\\');
            regex.push(c);
        }
        c => regex.push(c),
    }
}
