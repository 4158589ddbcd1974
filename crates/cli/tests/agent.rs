// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade agent` with a stand-in for an agent: a program of its name that executes its arguments.

use crate::support::{Place, Run, everybody, has, job};
use std::process::Command;

/// Installs the stand-in.
fn install(place: &Place, name: &str) {
    place.write(&format!(".local/bin/{name}"), "#!/bin/sh\nexec \"$@\"\n");
    place.outside(&format!("chmod 755 ~/.local/bin/{name}"));
}

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(place.binary());
    command.arg("agent").args(arguments);
    command
}

fn agent(place: &Place, arguments: &[&str]) -> Run {
    job::finish(&mut command(place, arguments))
}

/// Runs a line of shell as the agent `claude` would.
fn inside(place: &Place, line: &str) -> Run {
    agent(place, &["claude", "sh", "-c", line])
}

#[test]
fn it_works_in_the_project_and_reaches_nothing_else() {
    for place in everybody().iter().filter(|_| has("git")) {
        install(place, "claude");
        place.write("secret", "secret\n");
        place.write("work/.env", "PASSWORD=one\n");
        place.write("work/sub/file", "old\n");
        place.write(".gitconfig", "[user]\n\tname = Me\n\temail = me@example.org\n");
        place.write(".cargo/bin/tool", "#!/bin/sh\necho tool\n");
        place.outside(
            "chmod 755 ~/.cargo/bin/tool; cd ~/work; git init -q .; git add sub; git commit -qm first",
        );
        let line = "cat ~/secret; cat ../.env; echo new >file; ~/.cargo/bin/tool; git log --format=%an; pwd";
        let outside = place.outside(&format!("cd ~/work/sub; {line}"));
        assert!(outside.starts_with("secret\nPASSWORD=one\ntool\nMe\n"), "{outside}");
        place.write("work/sub/file", "old\n");
        for _cold_and_hot in 0..2 {
            let run = job::finish(
                command(place, &["claude", "sh", "-c", line]).current_dir(place.work.join("sub")),
            );
            let here = place.work.join("sub").canonicalize().unwrap();
            assert_eq!(run.out, format!("tool\nMe\n{}\n", here.display()), "{run:?}");
            assert_eq!(place.read("work/sub/file"), "new\n");
            assert!(
                run.err.contains("claude has no login in its own home: log in inside, or copy yours"),
                "{run:?}"
            );
        }
        // Its own hosts only, and the refusal names the command that allows more.
        let run = inside(place, "curl -sS -m 5 https://example.org");
        assert_ne!(run.code, 0);
        assert!(
            run.err.contains(
                "Do not retry. Only the user can permit it: palisade agent --allow example.org:443 claude …"
            ),
            "{run:?}"
        );
    }
}

#[test]
fn a_home_lasts_and_the_agents_own_settings_are_out_of_its_reach() {
    for place in everybody() {
        install(&place, "claude");
        inside(&place, "echo kept >~/.claude/history").ok();
        assert_eq!(inside(&place, "cat ~/.claude/history").ok(), "kept");
        let home = ".local/share/palisade/homes/claude";
        assert_eq!(place.read(&format!("{home}/.claude/history")), "kept\n");
        // A stand-in without such rules can do all of this: what refuses is the rules.
        install(&place, "plain");
        place.write(
            ".config/palisade/profiles/plain.toml",
            "schema = 1\nname = \"plain\"\ninherits = [\"agent\"]\n[program]\npath = \"~/.local/bin/plain\"\n[agent]\n",
        );
        let attack = "mkdir -p ~/.claude; echo 1 >~/.claude/settings.json && echo changed; \
            rm -f ~/.claude/settings.json && echo removed; mkdir -p ~/.claude/hooks; echo 1 >~/.claude/hooks/h && echo made; \
            mv ~/.claude ~/c && echo moved; ln -sT /tmp ~/.claude && echo linked";
        let attack = format!("{{ {attack}; }} 2>/dev/null; true");
        let run = agent(&place, &["plain", "sh", "-c", &attack]);
        assert_eq!(run.out, "changed\nremoved\nmade\nmoved\nlinked\n", "{run:?}");
        for _again in 0..2 {
            let run = inside(&place, &attack);
            assert_eq!(run.out, "", "{run:?}");
            assert_eq!(place.read(&format!("{home}/.claude/settings.json")), "{}\n");
        }
        // The user changes them outside.
        place.write(&format!("{home}/.claude/settings.json"), "{\"model\": \"x\"}\n");
        assert_eq!(inside(&place, "cat ~/.claude/settings.json").ok(), "{\"model\": \"x\"}");
        // What a program has left in their place is an error, not followed.
        place.outside(&format!("cd ~/{home} && rm -r .claude && ln -s ~/work .claude"));
        let run = inside(&place, "true");
        assert_eq!(run.code, 125, "{run:?}");
        assert!(!place.work.join("settings.json").exists());
    }
}

#[test]
fn a_login_is_copied_after_it_was_shown() {
    for place in everybody() {
        install(&place, "claude");
        let run = agent(&place, &["setup", "claude", "--yes"]);
        assert!(run.code == 1 && run.out.contains("has no login in your home"), "{run:?}");
        place.write(".claude/.credentials.json", "{\"token\": \"mine\"}\n");
        let run = agent(&place, &["setup", "claude", "--dry-run"]);
        assert!(run.ok().contains(".claude/.credentials.json (18 bytes)"), "{run:?}");
        agent(&place, &["setup", "claude"]).refused(2, &["there is no terminal to ask on"]).with_hint();
        let there = place.home.join(".local/share/palisade/homes/claude/.claude/.credentials.json");
        assert!(!there.exists());
        agent(&place, &["setup", "claude", "--yes"]).ok();
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "{\"token\": \"mine\"}\n");
        assert_eq!(std::os::unix::fs::MetadataExt::mode(&there.metadata().unwrap()) & 0o777, 0o600);
        let run = inside(&place, "cat ~/.claude/.credentials.json");
        assert_eq!(run.ok(), "{\"token\": \"mine\"}");
        assert!(!run.err.contains("no login"), "{run:?}");
        // A new login replaces an old one.
        place.write(".claude/.credentials.json", "{\"token\": \"new\"}\n");
        let run = agent(&place, &["setup", "claude", "--yes"]);
        assert!(run.ok().contains("replaces the one there"), "{run:?}");
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "{\"token\": \"new\"}\n");
        let run = agent(&place, &["doctor", "claude"]);
        assert!(run.ok().contains("login    .claude/.credentials.json"), "{run:?}");
    }
}

/// The home belongs to the agent: links in it lead `setup` nowhere.
#[test]
fn setup_follows_no_link_of_the_agents() {
    for place in everybody() {
        install(&place, "claude");
        place.write(".claude/.credentials.json", "{\"token\": \"mine\"}\n");
        place.write("victim/.credentials.json", "old\n");
        let home = ".local/share/palisade/homes/claude";
        place.outside(&format!("mkdir -p ~/{home} && ln -s ~/victim ~/{home}/.claude"));
        agent(&place, &["setup", "claude", "--yes"]).refused(2, &["can't write"]);
        assert_eq!(place.read("victim/.credentials.json"), "old\n");
        // A link in the place of the file is replaced, and not written through.
        place.outside(&format!(
            "rm ~/{home}/.claude; mkdir ~/{home}/.claude; ln -s ~/victim/.credentials.json ~/{home}/.claude/.credentials.json"
        ));
        agent(&place, &["setup", "claude", "--yes"]).ok();
        assert_eq!(place.read("victim/.credentials.json"), "old\n");
        assert_eq!(place.read(&format!("{home}/.claude/.credentials.json")), "{\"token\": \"mine\"}\n");
    }
}

#[test]
fn keys_are_passed_and_told_and_others_are_not() {
    for place in everybody() {
        install(&place, "claude");
        let run = job::finish(
            command(&place, &["claude", "sh", "-c", "echo $ANTHROPIC_API_KEY $GITHUB_TOKEN."])
                .env("ANTHROPIC_API_KEY", "key")
                .env("GITHUB_TOKEN", "token"),
        );
        assert_eq!(run.ok(), "key .", "{run:?}");
        assert!(
            run.err.contains("passed on: ANTHROPIC_API_KEY; every program inside can read it"),
            "{run:?}"
        );
        assert!(!run.err.contains("no login"), "{run:?}");
    }
}

#[test]
fn wrong_words_are_errors_with_a_hint_that_works() {
    for place in everybody() {
        agent(&place, &["firefox"])
            .refused(125, &["\"firefox\" isn't an agent that has a profile"])
            .with_hint();
        agent(&place, &["nosuch-agent"]).refused(125, &["isn't an agent"]).with_hint();
        agent(&place, &["claud"]).refused(125, &["did you mean claude?"]);
        agent(&place, &["codex"]).refused(125, &["the program of profile \"codex\" isn't on this host"]);
        let run = agent(&place, &["doctor", "codex"]);
        assert_eq!(run.code, 1);
        assert!(run.out.contains("not installed; to do: npm install -g @openai/codex"), "{run:?}");
        agent(&place, &["setup", "firefox"]).refused(2, &["isn't an agent"]).with_hint();
        let listed = agent(&place, &["list", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(listed.ok()).unwrap();
        assert_eq!(listed["agents"].as_array().unwrap().len(), 11, "{listed}");
    }
}

/// Two sessions of one agent in one project.
#[test]
fn two_sessions_share_project_and_home() {
    for place in everybody() {
        install(&place, "claude");
        let line = "echo $$ >>~/sessions; echo x >>log; while test $(wc -l <~/sessions) -lt 2; do sleep 0.05; done; echo both";
        let mut other = command(&place, &["claude", "sh", "-c", line]);
        let other = std::thread::spawn(move || job::finish(&mut other));
        let run = inside(&place, line);
        assert_eq!(run.ok(), "both", "{run:?}");
        assert_eq!(other.join().unwrap().ok(), "both");
        assert_eq!(place.read("work/log"), "x\nx\n");
    }
}

/// An upgrade between two launches: the kept plan is for the old program.
#[test]
fn an_upgraded_agent_starts() {
    for place in everybody() {
        install(&place, "claude");
        for _cold_and_hot in 0..2 {
            assert_eq!(inside(&place, "echo one").ok(), "one");
        }
        place.write(".local/share/claude/versions/2", "#!/bin/sh\necho two\n");
        place.outside(
            "chmod 755 ~/.local/share/claude/versions/2; ln -sf ~/.local/share/claude/versions/2 ~/.local/bin/claude",
        );
        assert_eq!(inside(&place, "echo one").ok(), "two");
        // The plan is thrown away, and an agent that is gone is told.
        place.outside("rm ~/.local/bin/claude");
        inside(&place, "true").refused(125, &["isn't on this host"]).with_hint();
    }
}
