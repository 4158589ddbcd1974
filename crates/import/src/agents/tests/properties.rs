// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random settings of each kind: what a profile allows is compared, path by path, with an oracle that reads the settings as
//! their program does.

use super::{HOME, allowed, fine, imported, policy, resolved};
use crate::agents::Agent;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::Write;

/// Paths as settings write them, and how the oracle reads them.
const PATHS: [&str; 18] = [
    ".", "./a", "a/b", "./a/**", "**/k", "./*.x", "~", "~/a", "~/a/b", "~/a/b/k", "~/*/k", "~/**/k",
    "~/[ab]", "~/w", "/d", "/d/a", "/d/*/k", "/",
];

fn paths() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(select(PATHS.to_vec()), 0..4)
}

/// All paths that are asked about: names below the home, two working directories and another directory.
fn world() -> Vec<String> {
    let mut world = vec![HOME.to_owned(), "/srv/w".to_owned(), "/d".to_owned(), "/home/ann/w".to_owned()];
    for _depth in 0..3 {
        let below: Vec<String> = world
            .iter()
            .flat_map(|path| ["a", "b", "k", "c.x"].map(|name| format!("{path}/{name}")))
            .collect();
        world.extend(below);
        world.sort_unstable();
        world.dedup();
    }
    world
}

/// The absolute names of a pattern.
fn absolute(written: &str, cwd: &str) -> Vec<String> {
    let full = match written.strip_prefix('~') {
        Some(rest) => format!("{HOME}{rest}"),
        None if written.starts_with('/') => written.to_owned(),
        None => format!("{cwd}/{written}"),
    };
    full.split('/').filter(|name| !name.is_empty() && *name != ".").map(str::to_owned).collect()
}

/// The number of names of the path at which a pattern begins to count; the least, if there are several.
fn begins(pattern: &[String], path: &[String]) -> Option<usize> {
    fn all(pattern: &[String], path: &[String]) -> bool {
        match (pattern.split_first(), path.split_first()) {
            (None, None) => true,
            (Some((first, rest)), _) if first == "**" => {
                (0..=path.len()).any(|skip| all(rest, &path[skip..]))
            }
            (Some((first, rest)), Some((name, path))) => {
                crate::pattern::matches(first, name) && all(rest, path)
            }
            _ => false,
        }
    }
    (0..=path.len()).find(|depth| all(pattern, &path[..*depth]))
}

/// One list of the settings.
struct Listed<'l>(&'l [&'static str], &'l str);

impl Listed<'_> {
    /// Where the rules that cover a path begin to count, and whether each is a pattern.
    fn on(&self, path: &str) -> Vec<(usize, bool)> {
        let names: Vec<String> = path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let rules = self.0.iter().filter_map(|rule| {
            let depth = begins(&absolute(rule, self.1), &names)?;
            Some((depth, rule.trim_end_matches("/**").contains(['*', '[', '?'])))
        });
        rules.collect()
    }

    fn covers(&self, path: &str) -> bool {
        !self.on(path).is_empty()
    }
}

fn json(paths: &[&str]) -> String {
    serde_json::to_string(paths).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_more_is_allowed_than_refusals_leave(
        (read, write) in (paths(), paths()), (no_read, no_write) in (paths(), paths()),
        greywall in any::<bool>(), closed in any::<bool>(), home in any::<bool>(),
    ) {
        let mut text = String::from("{\"filesystem\": {");
        let _ = write!(
            text,
            "\"allowRead\": {}, \"allowWrite\": {}, \"denyRead\": {}, \"denyWrite\": {}, \"defaultDenyRead\": {closed}}}}}",
            json(&read), json(&write), json(&no_read), json(&no_write),
        );
        let agent = if greywall { Agent::Greywall } else { Agent::Fence };
        let draft = fine(agent, &text);
        let entries = read.len() + write.len() + no_read.len() + no_write.len();
        prop_assert!(draft.report.taken + draft.report.findings.len() >= entries, "{}", draft.document.render());
        let cwd = if home { "/home/ann/w" } else { "/srv/w" };
        let (policy, list) = (policy(&draft), |paths| Listed(paths, cwd));
        let resolved = resolved(&policy, cwd);
        for path in world() {
            let listed = list(&read).covers(&path) || list(&write).covers(&path) || path.starts_with(cwd);
            let may_read = !list(&no_read).covers(&path) && (!closed || listed);
            let may_write = list(&write).covers(&path) && !list(&no_write).covers(&path) && may_read;
            let (reads, writes) = allowed(&policy, &resolved, &path);
            prop_assert!((!reads || may_read) && (!writes || may_write), "{path} {reads} {writes}\n{text}\n{}", draft.document.render());
        }
    }

    #[test]
    fn no_more_is_allowed_than_the_more_specific_rule_leaves(
        (read, write) in (paths(), paths()), (no_read, no_write) in (paths(), paths()),
        never in paths(), claude in any::<bool>(), home in any::<bool>(),
    ) {
        let files = format!(
            "{{\"allowRead\": {}, \"allowWrite\": {}, \"denyRead\": {}, \"denyWrite\": {}}}",
            json(&read), json(&write), json(&no_read), json(&no_write),
        );
        let (agent, text) = if claude {
            // Permissions write absolute paths with two slashes.
            let rules: Vec<String> = never
                .iter()
                .map(|path| format!("Read({}{path})", if path.starts_with('/') { "/" } else if path.starts_with(['.', '~']) { "" } else { "./" }))
                .collect();
            let rules = serde_json::to_string(&rules).unwrap();
            (Agent::Claude, format!("{{\"permissions\": {{\"deny\": {rules}}}, \"sandbox\": {{\"enabled\": true, \"filesystem\": {files}}}}}"))
        } else {
            (Agent::Srt, format!("{{\"network\": {{}}, \"filesystem\": {files}}}"))
        };
        let draft = fine(agent, &text);
        let cwd = if home { "/home/ann/w" } else { "/srv/w" };
        let (policy, list) = (policy(&draft), |paths| Listed(paths, cwd));
        let resolved = resolved(&policy, cwd);
        let mut written = write.clone();
        if claude {
            written.push(".");
        }
        for path in world() {
            let deepest = |rules: Vec<(usize, bool)>| rules.into_iter().map(|(depth, _)| depth + 1).max().unwrap_or(0);
            let refused = list(&no_read).on(&path);
            let by_pattern = refused.iter().any(|(_, pattern)| *pattern) || (claude && list(&never).covers(&path));
            let given = deepest(list(&read).on(&path)).max(deepest(list(&written).on(&path)));
            let may_read = !by_pattern && (refused.is_empty() || deepest(refused) < given);
            let may_write = may_read && list(&written).covers(&path) && !list(&no_write).covers(&path);
            let (reads, writes) = allowed(&policy, &resolved, &path);
            prop_assert!((!reads || may_read) && (!writes || may_write), "{path} {reads} {writes}\n{text}\n{}", draft.document.render());
        }
    }

    #[test]
    fn no_more_is_allowed_than_a_profile_of_codex_does(
        rules in prop::collection::vec((select(PATHS.to_vec()), select(vec!["read", "write", "deny"])), 0..6),
        home in any::<bool>(),
    ) {
        let mut text = String::from("default_permissions = \"x\"\n[permissions.x.filesystem]\n");
        let mut stated: Vec<(&str, &str)> = Vec::new();
        for (path, access) in rules {
            // Only refusals are patterns in Codex, and a path is stated once.
            let pattern = path.trim_end_matches("/**").contains(['*', '[']);
            if path.starts_with(['~', '/']) && (!pattern || access == "deny") && stated.iter().all(|(known, _)| *known != path) {
                let key = if path == "/" { ":root" } else { path };
                let _ = writeln!(text, "{key:?} = {access:?}");
                stated.push((path, access));
            }
        }
        let draft = fine(Agent::Codex, &text);
        let cwd = if home { "/home/ann/w" } else { "/srv/w" };
        let policy = policy(&draft);
        let resolved = resolved(&policy, cwd);
        for path in world() {
            let of = |wanted: &str| {
                let paths: Vec<&'static str> = stated.iter().filter(|(_, access)| *access == wanted).map(|(path, _)| *PATHS.iter().find(|known| *known == path).unwrap()).collect();
                Listed(&paths, cwd).on(&path)
            };
            let deepest = |rules: &[(usize, bool)]| rules.iter().map(|(depth, _)| depth + 1).max().unwrap_or(0);
            let (read, write, deny) = (of("read"), of("write"), of("deny"));
            let given = deepest(&read).max(deepest(&write));
            let may_read = given > 0 && !deny.iter().any(|(_, pattern)| *pattern) && deepest(&deny) < given;
            let may_write = may_read && deepest(&write) >= deepest(&read);
            let (reads, writes) = allowed(&policy, &resolved, &path);
            prop_assert!((!reads || may_read) && (!writes || may_write), "{path} {reads} {writes}\n{text}\n{}", draft.document.render());
        }
    }

    #[test]
    fn no_file_stops_the_import(
        agent in select(vec![Agent::Greywall, Agent::Fence, Agent::Srt, Agent::Claude, Agent::Codex]),
        members in prop::collection::vec((select(MEMBERS.to_vec()), select(VALUES.to_vec())), 0..8),
    ) {
        let mut text = String::new();
        let mut seen: Vec<&str> = Vec::new();
        for (member, value) in members {
            if !seen.contains(&member) {
                seen.push(member);
                let mut line = value.to_owned();
                for part in member.rsplit('/') {
                    line = if agent == Agent::Codex { format!("{{{part:?} = {line}}}") } else { format!("{{{part:?}: {line}}}") };
                }
                // One member each: the tables of others would be replaced.
                if agent == Agent::Codex {
                    text = format!("{} = {}\n", member.split('/').next().unwrap(), line.split_once(" = ").unwrap().1.strip_suffix('}').unwrap());
                } else {
                    text = line;
                }
            }
        }
        if let Ok(draft) = imported(agent, &text) {
            policy(&draft);
        }
    }
}

const MEMBERS: [&str; 34] = [
    "extends",
    "network/allowedDomains",
    "network/deniedDomains",
    "network/allowUnixSockets",
    "network/proxyUrl",
    "network/allowLocalOutboundPorts",
    "network/parentProxy",
    "filesystem/denyRead",
    "filesystem/allowWrite",
    "filesystem/denyWrite",
    "filesystem/allowExecute",
    "devices/allow",
    "devices/mode",
    "command/deny",
    "ssh/deniedHosts",
    "permissions/allow",
    "permissions/deny",
    "permissions/ask",
    "permissions/defaultMode",
    "permissions/additionalDirectories",
    "env/A B",
    "env/A",
    "sandbox/enabled",
    "sandbox/network/allowedDomains",
    "sandbox/credentials/files",
    "sandbox/credentials/envVars",
    "credentials/envVars",
    "sandbox_mode",
    "default_permissions",
    "sandbox_workspace_write/writable_roots",
    "shell_environment_policy/inherit",
    "shell_environment_policy/include_only",
    "shell_environment_policy/set/A",
    "permissions/x/filesystem/~",
];

const VALUES: [&str; 22] = [
    "true",
    "3",
    "[]",
    "\"\"",
    "\"read-only\"",
    "\"workspace-write\"",
    "\"x\"",
    "[\"~/a\", \"**/x\", \"{a,b}\"]",
    "[\"../..\", \"~x\", \"/..\"]",
    "[\"Read(\", \"Bash()\", \"Edit()x\", \"WebFetch(domain:)\"]",
    "[\"Bash(env)\", \"Bash(no-such-program:*)\", \"Read(!x)\"]",
    "[\"*.example.com\", \"*\", \"[::1]:80\", \"10.0.0.0/8\", \"https://x\"]",
    "[\"\\\"]\\n[locked.network]\\nmode = \\\"host\\\"\"]",
    "[\"\\u202e\\u001b[2J\", \"\\u0000\"]",
    "\"\\\"]\\n[locked.network]\"",
    "[1, 70000, -1]",
    "[5432]",
    "\"/dev/dri\"",
    "[\"/dev\", \"/dev/x*\"]",
    "\"http://user:word@proxy.example.com:3128\"",
    "\"deny\"",
    "[\"[[:alpha:]]*\", \"[!\\\\]x\", \"$HOME/${X}\"]",
];
