// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that each import of an agent's settings results in a valid policy file that allows no more than they do.

mod properties;

use super::{Agent, import};
use crate::ImportError;
use crate::draft::Draft;
use crate::profile::Host;
use crate::report::Outcome;
use palisade_policy::{Context, Grant, Layer, Policy, Resolved, View, merge, parse};
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
