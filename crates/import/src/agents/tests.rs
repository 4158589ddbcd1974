// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that each import of an agent's settings results in a valid policy file that allows no more than they do.

use super::{Agent, import};
use crate::ImportError;
use crate::draft::Draft;
use crate::profile::Host;
use crate::report::Outcome;
use palisade_policy::{Context, Grant, Layer, Policy, Resolved, View, merge, parse};
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::Write;
use std::path::Path;

const HOME: &str = "/home/ann";

fn imported(agent: Agent, text: &str) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    draft.table("").text("name", "x");
    let host = Host { home: Path::new(HOME), config: Path::new("/home/ann/.config"), uid: 1000 };
    import(agent, Path::new("/nonexistent/x.json"), text, &host, &mut draft)?;
    Ok(draft)
}

fn fine(agent: Agent, text: &str) -> Draft {
    imported(agent, text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn policy(draft: &Draft) -> Policy {
    let text = draft.document.render();
    let parsed = parse(&text, None, Layer::User);
    merge(vec![parsed.unwrap_or_else(|mistakes| panic!("{}\n{text}", mistakes[0].render(false)))])
}

fn resolved(policy: &Policy, cwd: &str) -> Resolved {
    let context = Context {
        home: HOME.into(),
        cwd: cwd.into(),
        user: "ann".to_owned(),
        uid: 1000,
        ..Context::default()
    };
    policy.resolve(&context).unwrap()
}

/// What a profile allows at a path: reading, and changing.
fn allowed(policy: &Policy, resolved: &Resolved, path: &str) -> (bool, bool) {
    let decision = resolved.decide(Path::new(path));
    match decision.grant {
        Grant::Allowed { write, .. } => (true, write && decision.protected.is_none()),
        Grant::Absent => (policy.view().value == View::Host, false),
        Grant::Hidden | Grant::Denied | Grant::Tmpfs => (false, false),
    }
}

/// The reasons of one outcome, by statement.
fn findings(draft: &Draft, outcome: Outcome) -> Vec<String> {
    draft.report.of(&[outcome]).iter().map(|finding| finding.statement.clone()).collect()
}

fn toml_of(draft: &Draft) -> toml::Table {
    toml::from_str(&draft.document.render()).unwrap()
}

fn list(table: &toml::Table, path: &str) -> Vec<String> {
    let mut parts = path.split('/');
    let mut value = table.get(parts.next().unwrap());
    for part in parts {
        value = value.and_then(|value| value.get(part));
    }
    let Some(value) = value else { return Vec::new() };
    value.as_array().unwrap().iter().map(|value| value.to_string().trim_matches('"').to_owned()).collect()
}

#[test]
fn greywall_refuses_reading_by_default_and_refusals_count() {
    let draft = fine(
        Agent::Greywall,
        r#"{
            // My own rules.
            "network": { "proxyUrl": "socks5h://localhost:1080", "dnsAddr": "localhost:5353" },
            "filesystem": {
                "allowRead": ["~/notes", "~/.ssh/config"],
                "denyRead": ["~/.ssh", "~/.{aws,kube}/c*"],
                "allowWrite": [".", "/tmp", "~/.ssh/known_hosts"],
                "denyWrite": ["./dist"],
            },
            "command": { "deny": ["git push"], "allow": ["git push origin docs"], "useDefaults": true },
            "ssh": { "allowedHosts": ["*.example.com"], "deniedHosts": ["bad.example.com"] },
            "wings": 3,
        }"#,
    );
    let table = toml_of(&draft);
    assert_eq!(list(&table, "filesystem/hide"), ["~/.ssh", "~/.aws/c*", "~/.kube/c*"]);
    assert_eq!(list(&table, "filesystem/protect_paths"), ["./dist"]);
    assert_eq!(list(&table, "default/filesystem/write"), ["."]);
    assert_eq!(list(&table, "default/network/allow"), ["*"]);
    assert_eq!(list(&table, "network/deny"), ["bad.example.com:22"]);
    assert_eq!(table["network"]["proxy"].as_str(), Some("socks5h://localhost:1080"));
    assert_eq!(table["filesystem"]["view"].as_str(), Some("closure"));
    for (outcome, part) in [
        (Outcome::Approximated, "allowRead: \"~/.ssh/config\""),
        (Outcome::Approximated, "allowWrite: \"~/.ssh/known_hosts\""),
        (Outcome::Approximated, "allowWrite: \"/tmp\""),
        (Outcome::NotKept, "command.deny: \"git push\""),
        (Outcome::LeftOut, "ssh.allowedHosts"),
        (Outcome::NotKept, "wings: 3"),
    ] {
        let found = findings(&draft, outcome);
        assert!(found.iter().any(|statement| statement.contains(part)), "{part}: {found:?}");
    }
    let (policy, cwd) = (policy(&draft), "/srv/w");
    let resolved = resolved(&policy, cwd);
    for (path, expected) in [
        ("/srv/w/x", (true, true)),
        ("/srv/w/dist/x", (true, false)),
        ("/home/ann/notes/x", (true, false)),
        ("/home/ann/other", (false, false)),
        ("/home/ann/.ssh/config", (false, false)),
        ("/home/ann/.aws/credentials", (false, false)),
        ("/usr/bin/env", (true, false)),
    ] {
        assert_eq!(allowed(&policy, &resolved, path), expected, "{path}");
    }
}

#[test]
fn fence_reads_everything_unless_it_is_told_otherwise() {
    let draft = fine(
        Agent::Fence,
        r#"{
            "network": {
                "allowedDomains": ["*.npmjs.org", "example.com", "localhost", "prod-*"],
                "deniedDomains": ["example.com"],
                "allowUnixSockets": ["~/.agent/socket"],
                "allowLocalBinding": true, "allowLocalOutbound": true, "allowLocalOutboundPorts": [5432],
                "upstreamProxy": "http://127.0.0.1:8080", "defaultAction": "proxy"
            },
            "filesystem": { "denyRead": ["**/*.key"], "allowWrite": ["./out"], "allowGitConfig": true },
            "devices": { "mode": "minimal", "allow": ["/dev/dri"] },
            "forceNewSession": true
        }"#,
    );
    let table = toml_of(&draft);
    assert_eq!(table["filesystem"]["view"].as_str(), Some("host"));
    assert_eq!(list(&table, "default/filesystem/write"), ["./out", "~/.agent/socket"]);
    assert_eq!(list(&table, "default/network/allow"), ["*.npmjs.org"]);
    assert_eq!(list(&table, "network/deny"), ["example.com"]);
    assert_eq!(list(&table, "network/reach"), ["5432"]);
    assert_eq!(list(&table, "devices/allow"), ["/dev/dri"]);
    assert_eq!(table["terminal"]["inherit"].as_bool(), Some(false));
    let left = findings(&draft, Outcome::LeftOut);
    for part in ["\"localhost\"", "\"prod-*\"", "upstreamProxy", "defaultAction"] {
        assert!(left.iter().any(|statement| statement.contains(part)), "{part}: {left:?}");
    }
    let strict = fine(
        Agent::Fence,
        r#"{"filesystem": {"strictDenyRead": true, "allowRead": ["/opt/x"], "allowExecute": ["/opt/y"]}}"#,
    );
    let table = toml_of(&strict);
    assert_eq!(list(&table, "default/filesystem/execute"), ["/opt/x", "/opt/y"]);
    assert_eq!(table["network"]["mode"].as_str(), Some("none"));
}

#[test]
fn sandbox_runtime_lets_the_more_specific_rule_decide() {
    let draft = fine(
        Agent::Srt,
        r#"{
            "network": { "allowedDomains": ["api.example.com:443"], "deniedDomains": ["*:22"] },
            "filesystem": {
                "denyRead": ["~", "~/w/.env"], "allowRead": ["~/w"],
                "allowWrite": ["~/w/out", "~/.cache/x"], "denyWrite": ["~/w/out/kept"]
            },
            "credentials": {
                "files": [{"path": "~/w/token", "mode": "deny"}],
                "envVars": [{"name": "TOKEN", "mode": "mask", "injectHosts": ["api.example.com"]}]
            },
            "ripgrep": {"command": "rg"}
        }"#,
    );
    let (policy, cwd) = (policy(&draft), "/home/ann/w");
    let resolved = resolved(&policy, cwd);
    for (path, expected) in [
        ("/etc/passwd", (true, false)),
        ("/home/ann/x", (false, false)),
        ("/home/ann/w/x", (true, false)),
        ("/home/ann/w/.env", (false, false)),
        ("/home/ann/w/token", (false, false)),
        ("/home/ann/w/out/x", (true, true)),
        ("/home/ann/w/out/kept", (true, false)),
        ("/home/ann/.cache/x/y", (true, true)),
    ] {
        assert_eq!(allowed(&policy, &resolved, path), expected, "{path}\n{}", draft.document.render());
    }
    let table = toml_of(&draft);
    assert_eq!(list(&table, "default/network/allow"), ["api.example.com:443"]);
    assert_eq!(list(&table, "environment/remove"), ["TOKEN"]);
}

#[test]
fn permissions_of_claude_count_at_every_depth() {
    let draft = fine(
        Agent::Claude,
        r#"{
            "permissions": {
                "allow": ["Bash(npm run test:*)", "Edit(//srv/shared/**)", "Read", "WebFetch(domain:docs.example.com)"],
                "ask": ["Bash(git push:*)", "WebFetch(domain:*.example.org)", "Edit(./release/**)"],
                "deny": ["Read(./secrets/**)", "Read(.env)", "Edit(/vendor)", "mcp__mail__send", "WebSearch"],
                "additionalDirectories": ["../shared"],
                "defaultMode": "acceptEdits"
            },
            "env": { "CI": "1", "COST": "$5 ${X}" },
            "model": "x",
            "sandbox": {
                "enabled": true, "excludedCommands": ["docker"], "allowUnsandboxedCommands": false,
                "filesystem": { "denyRead": ["~/.ssh"], "allowWrite": ["~/.npm"] },
                "network": { "allowedDomains": ["registry.example.com"], "allowLocalBinding": true }
            }
        }"#,
    );
    let table = toml_of(&draft);
    assert_eq!(list(&table, "filesystem/hide"), ["./secrets", "./**/.env"]);
    assert_eq!(list(&table, "default/filesystem/hide"), ["~/.ssh"]);
    assert_eq!(list(&table, "filesystem/protect_paths"), ["./release", "./vendor"]);
    assert_eq!(list(&table, "default/filesystem/write"), ["/srv/shared", "../shared", "~/.npm", "."]);
    assert_eq!(list(&table, "default/network/allow"), ["docs.example.com", "registry.example.com"]);
    assert_eq!(list(&table, "network/deny"), ["*.example.org"]);
    assert_eq!(table["environment"]["set"]["COST"].as_str(), Some("$5 $${X}"));
    for (outcome, part) in [
        (Outcome::Approximated, "Bash(npm run test:*)"),
        (Outcome::NotKept, "Bash(git push:*)"),
        (Outcome::Approximated, "WebFetch(domain:*.example.org)"),
        (Outcome::Approximated, "./release/**"),
        (Outcome::NotKept, "mcp__mail__send"),
        (Outcome::NotKept, "WebSearch"),
        (Outcome::LeftOut, "model"),
        (Outcome::LeftOut, "docker"),
    ] {
        let found: Vec<String> =
            draft.report.of(&[outcome]).iter().map(|finding| finding.statement.clone()).collect();
        let part = part.trim_start_matches("WebFetch(domain:").trim_end_matches(')');
        assert!(found.iter().any(|statement| statement.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn the_older_settings_of_codex_are_three_modes() {
    let mode = |text: &str| {
        let draft = fine(Agent::Codex, text);
        let policy = policy(&draft);
        let resolved = resolved(&policy, "/srv/w");
        let at = |path: &str| allowed(&policy, &resolved, path);
        let network = toml_of(&draft)["network"]["mode"].as_str().unwrap().to_owned();
        (at("/srv/w/x"), at("/srv/w/.git/config"), at("/srv/cache/x"), at("/home/ann/.ssh/id"), network)
    };
    let (read, write) = ((true, false), (true, true));
    assert_eq!(mode("sandbox_mode = \"read-only\"\n"), (read, read, read, read, "none".to_owned()));
    assert_eq!(mode("model = \"x\"\n"), (read, read, read, read, "none".to_owned()));
    let more = "sandbox_mode = \"workspace-write\"\ndefault_permissions = \"x\"\n[sandbox_workspace_write]\n\
                writable_roots = [\"/srv/cache\"]\nnetwork_access = true\nexclude_slash_tmp = true\n";
    assert_eq!(mode(more), (write, read, write, read, "filtered".to_owned()));
    let full = mode("sandbox_mode = \"danger-full-access\"\n");
    assert_eq!(full, (write, write, read, write, "filtered".to_owned()));
}

#[test]
fn permission_profiles_of_codex_extend_others() {
    let draft = fine(
        Agent::Codex,
        r#"
            default_permissions = "mine"
            [features]
            network_proxy = true
            [permissions.ground]
            extends = ":workspace"
            [permissions.ground.filesystem.":workspace_roots"]
            "**/*.env" = "deny"
            "docs" = "read"
            [permissions.ground.filesystem]
            "~/.ssh" = "deny"
            "~/.cargo" = "write"
            [permissions.mine]
            extends = "ground"
            [permissions.mine.filesystem]
            "~/.cargo" = "read"
            "~/.ssh/known_hosts" = "read"
            [permissions.mine.network]
            enabled = true
            mode = "limited"
            [permissions.mine.network.domains]
            "**.example.com" = "allow"
            "bad.example.com" = "deny"
            [permissions.mine.network.unix_sockets]
            "/run/x.sock" = "allow"
            [permissions.other.filesystem]
            ":root" = "write"
            [shell_environment_policy]
            inherit = "core"
            exclude = ["Secret_*"]
            set = { CI = "1" }
        "#,
    );
    let policy = policy(&draft);
    let resolved = resolved(&policy, "/srv/w");
    for (path, expected) in [
        ("/srv/w/x", (true, true)),
        ("/srv/w/docs/x", (true, false)),
        ("/srv/w/a/b.env", (false, false)),
        ("/srv/w/.git/hooks/x", (true, false)),
        ("/home/ann/.ssh/id", (false, false)),
        ("/home/ann/.ssh/known_hosts", (true, false)),
        ("/home/ann/.cargo/x", (true, false)),
    ] {
        assert_eq!(allowed(&policy, &resolved, path), expected, "{path}\n{}", draft.document.render());
    }
    let table = toml_of(&draft);
    assert_eq!(list(&table, "default/network/allow"), ["example.com", "*.example.com"]);
    assert_eq!(list(&table, "network/deny"), ["bad.example.com"]);
    assert_eq!(list(&table, "environment/remove"), ["Secret_*", "SECRET_*", "secret_*"]);
    assert!(findings(&draft, Outcome::NotKept).iter().any(|statement| statement.contains("network.mode")));
    assert!(
        findings(&draft, Outcome::LeftOut).iter().any(|statement| statement.contains("permissions.other"))
    );
    let closed = fine(
        Agent::Codex,
        "default_permissions = \"x\"\n[permissions.x.filesystem]\n\":minimal\" = \"read\"\n\
         \":workspace_roots\" = { \".\" = \"write\", \".git\" = \"write\" }\n",
    );
    let policy = self::policy(&closed);
    let resolved = self::resolved(&policy, "/srv/w");
    assert_eq!(allowed(&policy, &resolved, "/srv/w/.git/index"), (true, true));
    assert_eq!(allowed(&policy, &resolved, "/srv/other"), (false, false));
}

#[test]
fn what_the_program_would_refuse_is_an_error_with_its_place() {
    for (agent, text, words) in [
        (
            Agent::Fence,
            "{\n \"filesystem\": {\n  \"denyRead\": \"~/.ssh\"\n }\n}",
            "line 3, column 15: filesystem.denyRead takes a list",
        ),
        (Agent::Fence, "{\"filesystem\": {\"allowWrite\": [\"\"]}}", "texts that aren't empty"),
        (Agent::Fence, "{\"extends\": \"code\"}", "extends \"code\", a template"),
        (Agent::Greywall, "{\"extends\": \"./none.json\"}", "No such file"),
        (Agent::Greywall, "[]", "the file takes an object"),
        (Agent::Srt, "{\"network\": {}}", "a member `filesystem`"),
        (Agent::Srt, "{ // no\n}", "column 3"),
        (Agent::Srt, "{\"network\": {\"httpProxyPort\": 70000}, \"filesystem\": {}}", "a port"),
        (Agent::Claude, "{\"permissions\": {\"allow\": [3]}}", "takes texts"),
        (Agent::Claude, "{}", "no statements"),
        (Agent::Codex, "sandbox_mode = \"none\"", "\"read-only\", \"workspace-write\""),
        (Agent::Codex, "a = 1\nb =", "line 2"),
        (Agent::Codex, "default_permissions = \"x\"", "one of [permissions]"),
        (
            Agent::Codex,
            "default_permissions = \"a\"\n[permissions.a]\nextends = \"a\"",
            "doesn't extend this one",
        ),
    ] {
        let error = imported(agent, text).map(|_draft| ()).unwrap_err();
        assert!(error.to_string().contains(words), "{words} in {error}");
    }
}

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
