// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists a merged policy as statements, and prints them as a policy file with origins as comments.

use crate::environment::{EnvironmentRule, Reason};
use crate::names::{NameSubject, built_in as built_in_names};
use crate::render::{key, string};
use crate::reply::SyscallReply;
use crate::word::Word;
use crate::{
    Access, Amount, EffectiveGlob, Origin, PathRule, Policy, Protected, Resolved, SCHEMA, Sourced, Strength,
};
use palisade_text::harmless;
use serde::Serialize;
use std::fmt::Write as _;

/// The value of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A text, a path or a host.
    Text(String),
    /// A number.
    Number(u64),
    /// A truth value.
    Truth(bool),
    /// A host, and the reason for its rule.
    Host {
        /// The host, in the form that rules use.
        host: String,
        /// The reason.
        reason: String,
    },
    /// A reply to a system call.
    Answer(SyscallReply),
}

/// One statement of a policy.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The section of a policy file.
    pub section: &'static str,
    /// The key.
    pub key: String,
    /// The stated value.
    pub value: Value,
    /// The key holds a list, and the value is one entry.
    pub list: bool,
    /// Whether it is in force, or overridden.
    pub in_force: bool,
    /// Where it was stated.
    pub origin: Origin,
    /// How firm the statement is.
    pub strength: Strength,
}

fn statement(
    section: &'static str,
    key: &str,
    value: Value,
    origin: &Origin,
    strength: Strength,
) -> Statement {
    Statement {
        section,
        key: key.to_owned(),
        value,
        list: false,
        in_force: true,
        origin: origin.clone(),
        strength,
    }
}

/// Every statement of a policy, section by section.
#[must_use]
pub fn statements(policy: &Policy, resolved: &Resolved) -> Vec<Statement> {
    let mut all = Vec::new();
    let settings = policy.settings();
    let mut one = |section, key: &str, value: Value, holds: (&Origin, Strength)| {
        all.push(statement(section, key, value, holds.0, holds.1));
    };
    fn place<T>(stated: &Sourced<T>) -> (&Origin, Strength) {
        (&stated.origin, stated.strength)
    }
    let (view, network) = (policy.view(), policy.network());
    one("filesystem", "view", Value::Text(view.value.key().to_owned()), place(&view));
    let protect = policy.protect();
    one("filesystem", "protect", Value::Text(protect.value.key().to_owned()), place(&protect));
    one("network", "mode", Value::Text(network.value.key().to_owned()), place(&network));
    if let Some(name) = policy.hostname() {
        one("process", "hostname", Value::Text(name.value.as_str().to_owned()), place(&name));
    }
    if let Some(release) = policy.word(Word::Release) {
        one("process", "release", Value::Text(release.value.clone()), place(&release));
    }
    if let Some(count) = policy.processors() {
        one("process", "processors", Value::Number(count.value.into()), place(&count));
    }
    if let Some(time) = policy.time() {
        one("process", "time", Value::Text(time.value.to_string()), place(&time));
    }
    for (key, id) in [("uid", policy.uid()), ("gid", policy.gid())] {
        if let Some(id) = id {
            one("process", key, Value::Number(id.value.into()), place(&id));
        }
    }
    if let Some(cwd) = policy.cwd() {
        one("process", "cwd", Value::Text(cwd.value.to_string()), place(&cwd));
    }
    let best_effort = policy.best_effort();
    one("process", "best_effort", Value::Truth(best_effort.value), place(&best_effort));
    let terminal = policy.inherit_terminal();
    one("terminal", "inherit", Value::Truth(terminal.value), place(&terminal));
    for (limit, amount) in policy.limits() {
        let value = match amount.value {
            Amount::AtMost(number) => Value::Number(number),
            Amount::Unlimited => Value::Text("unlimited".to_owned()),
        };
        one("limits", limit.key(), value, place(&amount));
    }
    let changes = policy.syscalls();
    network_of(&mut all, policy);
    for stated in &settings.syscalls {
        let (key, list) =
            if stated.value.allow { ("allow", &changes.allow) } else { ("deny", &changes.deny) };
        let holds =
            list.iter().any(|holding| holding.value == stated.value.name && holding.origin == stated.origin);
        let value = Value::Text(stated.value.name.clone());
        all.push(entry("syscalls", key, value, stated, holds));
    }
    let answers = policy.answers();
    for (index, stated) in answers.iter().enumerate() {
        let holds = !answers.iter().take(index).any(|other| other.value.question == stated.value.question);
        all.push(entry("syscalls", "answers", Value::Answer(stated.value.clone()), stated, holds));
    }
    let filter = policy.environment();
    for stated in &settings.environment {
        let holds =
            |name: &str| matches!(filter.judge(name.as_bytes()).1, Reason::Rule(rule) if rule == stated);
        all.push(match &stated.value {
            EnvironmentRule::Keep(glob) => entry(
                "environment",
                "keep",
                Value::Text(glob.clone()),
                stated,
                glob.contains('*') || holds(glob),
            ),
            EnvironmentRule::Remove(glob) => entry(
                "environment",
                "remove",
                Value::Text(glob.clone()),
                stated,
                glob.contains('*') || holds(glob),
            ),
            EnvironmentRule::Set { name, value } => {
                let mut set = statement(
                    "environment.set",
                    name,
                    Value::Text(value.clone()),
                    &stated.origin,
                    stated.strength,
                );
                set.in_force = holds(name);
                set
            }
        });
    }
    names(&mut all, policy);
    let holding = holding(resolved);
    for access in Access::ALL {
        for rule in settings.paths.iter().filter(|rule| rule.access == access) {
            let mut text = rule.pattern.to_string();
            if let Some(destination) = &rule.destination {
                let _infallible = write!(text, "={destination}");
            }
            let mut stated =
                statement("filesystem", access.key(), Value::Text(text), &rule.origin, rule.strength);
            stated.list = true;
            stated.in_force = holding.contains(rule);
            all.push(stated);
        }
    }
    all
}

/// The network statements of a policy.
fn network_of(all: &mut Vec<Statement>, policy: &Policy) {
    let settings = policy.settings();
    if !settings.fallback.is_empty() {
        let fallback = policy.network_fallback();
        let value = Value::Text(fallback.value.key().to_owned());
        all.push(statement("network", "default", value, &fallback.origin, fallback.strength));
    }
    for allow in [true, false] {
        let key = if allow { "allow" } else { "deny" };
        for rule in settings.hosts.iter().filter(|rule| rule.allow == allow) {
            let host = rule.target.to_string();
            let value = match rule.reason.clone() {
                Some(reason) => Value::Host { host, reason },
                None => Value::Text(host),
            };
            let mut stated = statement("network", key, value, &rule.origin, rule.strength);
            (stated.list, stated.in_force) = (true, policy.network_rule_holds(rule));
            all.push(stated);
        }
    }
    let publish = policy.publish();
    for stated in &settings.publish {
        let value = Value::Text(stated.value.to_string());
        all.push(entry("network", "publish", value, stated, publish.contains(stated)));
    }
    let reach = policy.reach();
    for stated in &settings.reach {
        let value = Value::Number(stated.value.into());
        all.push(entry("network", "reach", value, stated, reach.contains(stated)));
    }
    if let Some(proxy) = policy.upstream_proxy() {
        // Printed without its password.
        let value = Value::Text(proxy.value.to_string());
        all.push(statement("network", "proxy", value, &proxy.origin, proxy.strength));
    }
    let servers = policy.upstream_dns();
    for stated in &settings.upstream_dns {
        let value = Value::Text(stated.value.to_string());
        all.push(entry("network", "dns", value, stated, servers.contains(stated)));
    }
}

/// The policy's changes to the protected names. `palisade explain --names` lists the built-in ones.
fn names(all: &mut Vec<Statement>, policy: &Policy) {
    let rules = policy.names();
    for protect in [true, false] {
        let key = if protect { "protect_names" } else { "allow_names" };
        for stated in policy.settings().names.iter().filter(|stated| stated.value.protect == protect) {
            let name = stated.value.name.as_str();
            let holds = |path: &str| match rules.rules().iter().find(|rule| rule.path == path) {
                Some(rule) => protect && rule.origin == stated.origin,
                None => !protect,
            };
            let holds = match &stated.value.name {
                NameSubject::Name(_) => holds(name),
                // The statement decides about at least one name of the group.
                NameSubject::Group(_) => {
                    let of_group = built_in_names().iter().filter(|known| stated.value.name.covers(known));
                    of_group.into_iter().any(|known| holds(&known.rule.path))
                }
            };
            all.push(entry("filesystem", key, Value::Text(name.to_owned()), stated, holds));
        }
    }
}

fn entry<T>(
    section: &'static str,
    key: &str,
    value: Value,
    stated: &Sourced<T>,
    in_force: bool,
) -> Statement {
    Statement { list: true, in_force, ..statement(section, key, value, &stated.origin, stated.strength) }
}

/// The rules on paths that influence a decision anywhere.
fn holding(resolved: &Resolved) -> Vec<PathRule> {
    let mut holding = Vec::new();
    for path in resolved.effective() {
        let decision = resolved.decide(&path.destination);
        holding.extend(decision.because);
        holding.extend(decision.lock);
    }
    holding.extend(resolved.globs().into_iter().map(|glob: EffectiveGlob| glob.rule));
    holding.extend(resolved.protected().into_iter().map(|protected| match protected {
        Protected::Path(_path, rule) => rule,
        Protected::Glob(glob) => glob.rule,
    }));
    holding
}

/// Prints statements as a policy file.
#[must_use]
pub fn toml(statements: &[Statement], origins: bool) -> String {
    let mut text = format!("schema = {SCHEMA}\n");
    for (strength, prefix) in
        [(Strength::Default, "default."), (Strength::Set, ""), (Strength::Locked, "locked.")]
    {
        for section in [
            "filesystem",
            "network",
            "syscalls",
            "process",
            "terminal",
            "environment",
            "environment.set",
            "limits",
        ] {
            let of: Vec<&Statement> = statements
                .iter()
                .filter(|statement| statement.strength == strength && statement.section == section)
                .filter(|statement| origins || statement.in_force)
                .collect();
            if of.is_empty() {
                continue;
            }
            let _infallible = writeln!(text, "\n[{prefix}{section}]");
            for keyed in of.chunk_by(|a, b| a.key == b.key && a.list && b.list) {
                put(&mut text, keyed, origins);
            }
        }
    }
    text
}

/// Prints one key with its value or its list of values.
fn put(text: &mut String, keyed: &[&Statement], origins: bool) {
    let Some(first) = keyed.first() else { return };
    let comment = |statement: &Statement| {
        let what = if statement.in_force { "" } else { "overridden, " };
        if origins { format!("  # {what}{}", harmless(&statement.origin.to_string())) } else { String::new() }
    };
    // An overridden statement is printed as a comment, so the text is a policy that states what is in force.
    let out = |statement: &Statement| if statement.in_force { "" } else { "# " };
    let key = key(&first.key);
    if !first.list {
        let _infallible = writeln!(text, "{}{key} = {}{}", out(first), first.value.toml(), comment(first));
        return;
    }
    let _infallible = writeln!(text, "{key} = [");
    for statement in keyed {
        let _infallible =
            writeln!(text, "    {}{},{}", out(statement), statement.value.toml(), comment(statement));
    }
    text.push_str("]\n");
}

impl Value {
    fn toml(&self) -> String {
        match self {
            Self::Text(text) => string(text),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::Host { host, reason } => {
                format!("{{ host = {}, reason = {} }}", string(host), string(reason))
            }
            Self::Answer(answer) => crate::render::answer(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Layer, built_in, merge, parse};
    use std::path::Path;

    fn shown(origins: bool) -> String {
        let administrator = "schema = 1\n[locked.network]\nmode = \"none\"\n[filesystem]\nread = [\"/srv\"]\nhide = [\"/srv/a\\u0007\"]\n";
        let user = "schema = 1\n[filesystem]\ndeny = [\"/srv\"]\n[environment]\nkeep = [\"X_*\"]\nset = { \"A.B\" = \"c\" }\n[limits]\ncpu_time = \"1m\"\n";
        let policy = merge(vec![
            built_in(),
            parse(administrator, Some(Path::new("/etc/palisade/config.toml")), Layer::Administrator).unwrap(),
            parse(user, Some(Path::new("/u.toml")), Layer::User).unwrap(),
        ]);
        let context = Context {
            home: "/home/ann".into(),
            cwd: "/home/ann/app".into(),
            project: None,
            user: "ann".into(),
            uid: 1000,
            runtime_dir: None,
            ..Context::default()
        };
        let resolved = policy.resolve(&context).unwrap();
        toml(&statements(&policy, &resolved), origins)
    }

    #[test]
    fn what_is_printed_is_a_policy() {
        for origins in [false, true] {
            let text = shown(origins);
            let parsed = parse(&text, None, Layer::Administrator).map_err(|errors| errors[0].to_string());
            assert!(parsed.is_ok(), "{parsed:?}\n{text}");
        }
    }

    #[test]
    fn origins_are_beside_what_they_state() {
        let text = shown(true);
        assert!(text.contains("    \"/srv\",  # /u.toml:3\n"), "{text}");
        assert!(text.contains("    # \"/srv\",  # overridden, /etc/palisade/config.toml:5\n"), "{text}");
        assert!(
            text.contains("[locked.network]\nmode = \"none\"  # /etc/palisade/config.toml:3\n"),
            "{text}"
        );
        let plain = shown(false);
        assert!(!plain.contains('#') && plain.contains("deny = [\n    \"/srv\",\n]"), "{plain}");
    }

    #[test]
    fn whom_a_command_may_talk_to_is_shown_without_passwords() {
        let administrator = "schema = 1\n[locked.network]\ndeny = [\"evil.org\"]\nreach = [1]\n";
        let user = "schema = 1\n[network]\nallow = [{ host = \"a.org\", reason = \"why\" }, \"evil.org\"]\npublish = [\"80\"]\nreach = [2]\nproxy = \"http://ann:s3cret@p:1\"\ndns = [\"9.9.9.9:53\"]\n";
        let policy = merge(vec![
            built_in(),
            parse(administrator, Some(Path::new("/a.toml")), Layer::Administrator).unwrap(),
            parse(user, Some(Path::new("/u.toml")), Layer::User).unwrap(),
        ]);
        let statements = statements(&policy, &Resolved::default());
        let text = toml(&statements, true);
        for line in [
            "mode = \"filtered\"  # /u.toml:3\n",
            "    { host = \"a.org\", reason = \"why\" },  # /u.toml:3\n",
            "    # \"evil.org\",  # overridden, /u.toml:3\n",
            "    # 2,  # overridden, /u.toml:5\n",
            "proxy = \"http://***@p:1\"  # /u.toml:6\n",
            "    \"9.9.9.9\",  # /u.toml:7\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert!(!text.contains("s3cret"));
        for text in [text, toml(&statements, false)] {
            assert!(parse(&text, None, Layer::Administrator).is_ok(), "{text}");
        }
    }

    #[test]
    fn changes_of_the_protected_names_are_shown() {
        let administrator = "schema = 1\n[filesystem]\nprotect_names = [\"own\", \"x\"]\n";
        let user = "schema = 1\n[filesystem]\nprotect = \"mounts\"\nallow_names = [\".envrc\", \"own\"]\n";
        let policy = merge(vec![
            built_in(),
            parse(administrator, Some(Path::new("/a.toml")), Layer::Administrator).unwrap(),
            parse(user, Some(Path::new("/u.toml")), Layer::User).unwrap(),
        ]);
        let text = toml(&statements(&policy, &Resolved::default()), true);
        for line in [
            "protect = \"mounts\"  # /u.toml:3\n",
            "    # \"own\",  # overridden, /a.toml:3\n    \"x\",  # /a.toml:3\n",
            "    \".envrc\",  # /u.toml:4\n    \"own\",  # /u.toml:4\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }

    #[test]
    fn changes_of_groups_are_shown() {
        let administrator =
            "schema = 1\n[filesystem]\nprotect_names = [\"group:ci\", \"group:run-by-hand\"]\n";
        let user = "schema = 1\n[filesystem]\nallow_names = [\"group:ci\", \".bazelrc\", \"group:agent\"]\n";
        let policy = merge(vec![
            built_in(),
            parse(administrator, Some(Path::new("/a.toml")), Layer::Administrator).unwrap(),
            parse(user, Some(Path::new("/u.toml")), Layer::User).unwrap(),
        ]);
        let text = toml(&statements(&policy, &Resolved::default()), true);
        for line in [
            "    # \"group:ci\",  # overridden, /a.toml:3\n    \"group:run-by-hand\",  # /a.toml:3\n",
            "    \"group:ci\",  # /u.toml:3\n    \".bazelrc\",  # /u.toml:3\n    \"group:agent\",  # /u.toml:3\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        let again = toml(&statements(&policy, &Resolved::default()), false);
        assert!(parse(&again, None, Layer::Administrator).is_ok(), "{again}");
    }
}
