// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the import of coding agents' settings: each kind is imported and launched. What the settings allow works, what
//! they refuse is refused, and all of it works outside.

use crate::support::{Place, Run, everybody, has, is_root, job};
use serde_json::Value;
use std::net::TcpListener;
use std::os::unix::fs::{chown, symlink};
use std::path::PathBuf;

/// Files that each place gets.
const FILES: &str = "mkdir -p ~/notes ~/.ssh ~/cache out/kept dist sub .git/hooks && echo n >~/notes/n && \
     echo k >~/.ssh/id && echo k >~/.ssh/known && echo e >.env && echo e >sub/.env && echo p >sub/x.pem && echo o >~/other";

/// Settings, the lines of shell that succeed under them, and those that don't.
struct Case {
    from: &'static str,
    file: &'static str,
    text: &'static str,
    allowed: &'static [&'static str],
    refused: &'static [&'static str],
}

const CASES: [Case; 6] = [
    Case {
        from: "greywall",
        file: "greywall.json",
        text: r#"{
            // Reading is refused unless it is listed.
            "filesystem": {
                "allowRead": ["~/notes", "~/.ssh"],
                "denyRead": ["~/.ssh/id", "**/.env"],
                "allowWrite": [".", "~/cache"],
                "denyWrite": ["dist"],
            },
            "command": { "deny": ["git push"] },
        }"#,
        allowed: &[
            "grep -q . ~/notes/n",
            "grep -q . ~/.ssh/known",
            "echo x >>out/f",
            "echo x >>~/cache/f",
            "ls dist",
        ],
        refused: &[
            "grep -q . ~/other",
            "grep -q . ~/.ssh/id",
            "grep -q . .env",
            "grep -q . sub/.env",
            "echo x >>dist/f",
            "echo x >>~/notes/n",
        ],
    },
    Case {
        from: "fence",
        file: "fence.jsonc",
        text: r#"{
            "filesystem": {
                "denyRead": ["~/.ssh/{id,known}", "**/*.pem"],
                "allowWrite": ["./out", "~/.ssh/id"],
                "denyWrite": ["out/kept"]
            },
            "command": { "deny": ["dircolors"] }
        }"#,
        allowed: &["grep -q . ~/other", "grep -q . .env", "echo x >>out/f", "grep -q . ~/notes/n"],
        refused: &[
            "grep -q . ~/.ssh/id",
            "grep -q . ~/.ssh/known",
            "grep -q . sub/x.pem",
            "echo x >>out/kept/f",
            "echo x >>sub/f",
            "echo x >>~/.ssh/id",
            "dircolors --version",
        ],
    },
    Case {
        from: "srt",
        file: "srt-settings.json",
        text: r#"{
            "network": { "allowedDomains": [], "deniedDomains": [] },
            "filesystem": {
                "denyRead": ["~/.ssh", "~/notes"],
                "allowRead": ["~/.ssh/known"],
                "allowWrite": ["."],
                "denyWrite": ["./dist"]
            },
            "credentials": { "files": [{ "path": "./sub/x.pem", "mode": "deny" }] }
        }"#,
        allowed: &["grep -q . ~/other", "grep -q . ~/.ssh/known", "echo x >>out/f", "grep -q . .env"],
        refused: &[
            "grep -q . ~/.ssh/id",
            "grep -q . ~/notes/n",
            "grep -q . sub/x.pem",
            "echo x >>dist/f",
            "echo x >>~/cache/f",
            "echo x >>~/other",
        ],
    },
    Case {
        from: "claude",
        file: "settings.json",
        text: r#"{
            "permissions": {
                "allow": ["Bash(npm test:*)", "Edit(~/cache/**)", "Read(~/.ssh/**)"],
                "ask": ["Edit(./dist/**)"],
                "deny": ["Read(.env)", "Read(~/.ssh/id)", "WebFetch"]
            },
            "env": { "IMPORTED": "yes" },
            "sandbox": { "enabled": true, "filesystem": { "denyRead": ["~/notes"] } }
        }"#,
        allowed: &[
            "grep -q . ~/other",
            "grep -q . ~/.ssh/known",
            "echo x >>out/f",
            "echo x >>~/cache/f",
            "test -n \"$HOME\"",
        ],
        refused: &[
            "grep -q . .env",
            "grep -q . sub/.env",
            "grep -q . ~/.ssh/id",
            "grep -q . ~/notes/n",
            "echo x >>dist/f",
            "echo x >>~/other",
        ],
    },
    Case {
        from: "codex",
        file: "config.toml",
        text: "sandbox_mode = \"workspace-write\"\n[sandbox_workspace_write]\nwritable_roots = [\"~/cache\"]\n",
        allowed: &["grep -q . ~/.ssh/id", "echo x >>out/f", "echo x >>~/cache/f", "ls .git/hooks"],
        refused: &[
            "echo x >>.git/f",
            "echo x >>.git/hooks/f",
            "echo x >>~/other",
            "mkdir ~/new && rmdir ~/new",
        ],
    },
    Case {
        from: "codex",
        file: "permissions.toml",
        text: "default_permissions = \"work\"\n[permissions.work.filesystem]\n\":minimal\" = \"read\"\n\
               \"~/.ssh\" = \"read\"\n\"~/.ssh/id\" = \"deny\"\n\
               [permissions.work.filesystem.\":workspace_roots\"]\n\".\" = \"write\"\n\"dist\" = \"read\"\n\"**/.env\" = \"deny\"\n",
        allowed: &["grep -q . ~/.ssh/known", "echo x >>out/f", "ls dist", "cat /etc/passwd"],
        refused: &[
            "grep -q . ~/.ssh/id",
            "grep -q . ~/other",
            "grep -q . sub/.env",
            "echo x >>dist/f",
            "echo x >>~/.ssh/known",
            "echo x >>.git/f",
        ],
    },
];

/// Prints the number of each line that succeeds.
pub(super) fn script(lines: &[&str]) -> String {
    let each = lines.iter().enumerate();
    each.map(|(number, line)| format!("if ( {line} ) >/dev/null 2>&1; then echo {number}; fi\n")).collect()
}

/// The lines that succeeded.
pub(super) fn succeeded<'l>(run: &Run, lines: &[&'l str]) -> Vec<&'l str> {
    run.out.lines().map(|number| lines[number.parse::<usize>().unwrap()]).collect()
}

fn write(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.home.join(name);
    std::fs::write(&path, text).unwrap();
    chown(&path, Some(place.uid), Some(place.gid)).unwrap();
    path
}

fn import(place: &Place, from: &str, file: &PathBuf, more: &[&str]) -> Run {
    job::finish(place.command(place.binary()).args(["import", "--from", from]).arg(file).args(more))
}

fn explains(place: &Place, profile: &str, host: &str) -> i32 {
    job::finish(place.command(place.binary()).args(["explain", "--profile", profile, host])).code
}

#[test]
fn what_the_settings_allow_works_and_what_they_refuse_does_not() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.outside(FILES);
        for Case { from, file, text, allowed, refused } in CASES {
            let path = write(&place, file, text);
            import(&place, from, &path, &["--name", from, "--force"]).ok();
            let lines = [allowed, refused].concat();
            let line = script(&lines);
            let outside = job::finish(place.command("/bin/sh").args(["-c", &line]));
            assert_eq!(succeeded(&outside, &lines), lines, "{file}: outside");
            let inside = place.sh(&["--profile", from], &line);
            assert_eq!(succeeded(&inside, &lines), allowed, "{file}: {inside:?}");
        }
        let inside = place.sh(&["--profile", "claude"], "echo $IMPORTED");
        assert_eq!(inside.out, "yes\n");
    }
}

#[test]
fn hosts_are_allowed_and_refused_as_in_the_settings() {
    for place in everybody() {
        for (from, file, text, allowed, refused) in [
            (
                "fence",
                "fence.json",
                r#"{"network": {"allowedDomains": ["*.example.com", "example.org:443"], "deniedDomains": ["bad.example.com"]}}"#,
                &["a.example.com", "example.org:443"][..],
                &["bad.example.com", "example.com", "example.org:80", "other.example"][..],
            ),
            (
                "greywall",
                "greywall.json",
                r#"{"network": {"proxyUrl": "socks5://localhost:1080"}, "ssh": {"deniedHosts": ["bad.example.com"]}}"#,
                &["example.com", "bad.example.com:443"],
                &["bad.example.com:22", "10.0.0.1"],
            ),
            (
                "srt",
                "srt.json",
                r#"{"network": {"allowedDomains": ["api.example.com:443"], "deniedDomains": ["*:22"]}, "filesystem": {"denyRead": [], "allowWrite": [], "denyWrite": []}}"#,
                &["api.example.com:443"],
                &["api.example.com:80", "example.com"],
            ),
            (
                "claude",
                "settings.json",
                r#"{"permissions": {"allow": ["WebFetch(domain:docs.example.com)"], "deny": ["WebFetch(domain:ads.example.com)"]}, "sandbox": {"network": {"allowedDomains": ["*.example.com"]}}}"#,
                &["docs.example.com", "x.example.com"],
                &["ads.example.com", "example.org"],
            ),
            (
                "codex",
                "config.toml",
                "default_permissions = \"x\"\n[features]\nnetwork_proxy = true\n[permissions.x]\nextends = \":workspace\"\n\
                 [permissions.x.network]\nenabled = true\n[permissions.x.network.domains]\n\"**.example.com\" = \"allow\"\n\"bad.example.com\" = \"deny\"\n",
                &["example.com", "a.b.example.com"],
                &["bad.example.com", "example.org"],
            ),
        ] {
            let path = write(&place, file, text);
            import(&place, from, &path, &["--name", "hosts", "--force"]).ok();
            for host in allowed {
                assert_eq!(explains(&place, "hosts", host), 0, "{from}: {host}");
            }
            for host in refused {
                assert_eq!(explains(&place, "hosts", host), 1, "{from}: {host}");
            }
        }
    }
}

#[test]
fn only_the_listed_port_of_the_loopback_is_reached() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        let (listed, other) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
        let text = format!(
            r#"{{"network": {{"allowLocalOutbound": true, "allowLocalOutboundPorts": [{}]}}, "filesystem": {{"allowWrite": ["."]}}}}"#,
            port(&listed)
        );
        let path = write(&place, "fence.json", &text);
        import(&place, "fence", &path, &["--name", "ports", "--force"]).ok();
        let connect =
            |listener: &TcpListener| format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{}'", port(listener));
        let (listed, other) = (connect(&listed), connect(&other));
        let lines = [listed.as_str(), other.as_str()];
        let outside = job::finish(place.command("/bin/sh").args(["-c", &script(&lines)]));
        assert_eq!(succeeded(&outside, &lines), lines, "outside");
        let inside = place.sh(&["--profile", "ports"], &script(&lines));
        assert_eq!(succeeded(&inside, &lines), [lines[0]], "{inside:?}");
    }
}

#[test]
fn files_of_a_chain_add_up_and_a_chain_without_an_end_is_refused() {
    for place in everybody() {
        write(&place, "base.json", r#"{"filesystem": {"denyRead": ["~/.ssh"], "defaultDenyRead": false}}"#);
        let own = write(
            &place,
            "own.json",
            r#"{"extends": "./base.json", "filesystem": {"allowWrite": ["."], "allowRead": ["~/.ssh/x"]}, "wings": 1}"#,
        );
        let report = import(&place, "greywall", &own, &["--json"]);
        let report: Value = serde_json::from_str(report.ok()).unwrap();
        let text = report["text"].as_str().unwrap();
        assert!(text.contains("hide = [\"~/.ssh\"]") && text.contains("view = \"host\""), "{text}");
        let unknown = &report["left_out"][0];
        assert_eq!((&unknown["line"], &unknown["statement"]), (&1.into(), &"wings: 1".into()), "{report}");
        // A refusal of the file that it builds on counts, too.
        let contradicted = &report["approximated"][0];
        assert!(contradicted["statement"].as_str().unwrap().contains("~/.ssh/x"), "{report}");

        let base = place.home.join(".config/fence");
        place.outside("mkdir -p ~/.config/fence");
        std::fs::write(base.join("fence.json"), r#"{"filesystem": {"denyRead": ["~/mine"]}}"#).unwrap();
        let project =
            write(&place, "fence.json", r#"{"extends": "@base", "filesystem": {"allowWrite": ["."]}}"#);
        let report = import(&place, "fence", &project, &[]);
        assert!(report.ok().contains("~/mine"), "{report:?}");

        write(&place, "a.json", r#"{"extends": "./b.json"}"#);
        write(&place, "b.json", r#"{"extends": "./a.json"}"#);
        for (name, text, words) in [
            ("a.json", None, "it builds on itself"),
            ("template.json", Some(r#"{"extends": "code"}"#), "a template inside the program of Fence"),
            ("missing.json", Some(r#"{"extends": "./none.json"}"#), "No such file"),
        ] {
            let path = match text {
                Some(text) => write(&place, name, text),
                None => place.home.join(name),
            };
            import(&place, "fence", &path, &["--name", "chain"]).refused(2, &[words]);
        }
        assert!(!place.home.join(".config/palisade").exists(), "nothing is written");
    }
}

#[test]
fn settings_that_the_agent_would_refuse_are_refused_with_their_place() {
    for place in everybody() {
        for (from, name, text, words) in [
            (
                "greywall",
                "x.json",
                "{\n  \"filesystem\": {\n    \"denyRead\": [\"~/a\" \"~/b\"]\n",
                "line 3, column 23: ",
            ),
            (
                "fence",
                "x.json",
                "{\"network\": {\"allowedDomains\": \"x\"}}",
                "takes a list of texts, and this is \"x\"",
            ),
            ("srt", "x.json", "{\n// no comments here\n}", "line 2, column 1: "),
            ("claude", "x.json", "{\"env\": {\"A\": 1}, \"env\": {}}", "\"env\" occurs twice"),
            ("claude", "x.json", "\u{feff}{}", "line 1, column 1: "),
            ("codex", "x.toml", "sandbox_mode = \"workspace\"", "line 1, column 16: sandbox_mode takes"),
            ("codex", "x.toml", "a = 1\n[b\n", "line 2"),
            ("srt", "x.json", "", "there is no value"),
            ("claude", "x.json", "{}", "it has no statements"),
        ] {
            let path = write(&place, name, text);
            let run = import(&place, from, &path, &["--name", "bad"]);
            run.refused(2, &[words]);
            assert!(!place.home.join(".config/palisade").exists(), "{from}: nothing is written");
        }
        let path = write(&place, "x.json", "{\"model\": \"x\"}");
        import(&place, "claude", &path, &["--feature"])
            .refused(2, &["as a feature", "hint: palisade import --from claude"]);
        let strict = import(&place, "claude", &path, &["--strict", "--name", "x"]);
        assert!(strict.code == 1 && strict.err.contains("nothing is written"), "{strict:?}");
    }
}

#[test]
fn a_link_is_followed_and_a_file_of_another_user_is_named() {
    for place in everybody() {
        let path = write(&place, "real.json", "{\"permissions\": {\"deny\": [\"Read(./x)\"]}}");
        let link = place.home.join("link.json");
        symlink("real.json", &link).unwrap();
        let run = import(&place, "claude", &link, &[]);
        assert!(run.ok().contains("hide = [\"./x\"]") && !run.err.contains("another user"), "{run:?}");
        let dangling = place.home.join("dangling.json");
        symlink("none.json", &dangling).unwrap();
        import(&place, "claude", &dangling, &[]).refused(2, &["No such file"]);
        if is_root() {
            // Somebody who is neither the caller nor root.
            chown(&path, Some(place.uid + 1), Some(place.gid)).unwrap();
            let run = import(&place, "claude", &link, &[]);
            assert!(run.ok().contains("hide"), "{run:?}");
            assert!(run.err.contains("link.json belongs to another user: read the profile"), "{run:?}");
            let report = import(&place, "claude", &link, &["--json"]);
            let report: Value = serde_json::from_str(report.ok()).unwrap();
            assert_eq!(report["of_others"].as_array().unwrap().len(), 1);
            if !place.is_root() {
                std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
                import(&place, "claude", &link, &[]).refused(2, &["Permission denied"]);
            }
            chown(&path, Some(0), Some(0)).unwrap();
            std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
            let run = import(&place, "claude", &link, &[]);
            assert!(run.ok().contains("hide") && !run.err.contains("another user"), "root's file: {run:?}");
        }
    }
}
