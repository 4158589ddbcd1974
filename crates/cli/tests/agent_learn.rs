// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade agent learn`: a session by the agent's own profile, what the profile lacks as a proposal that is used only
//! if it is accepted, and a report of what the profile allows and the session didn't use.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::terminal::{Terminal, words};
use crate::support::{Place, Run, everybody, has, job, root};
use serde_json::Value;
use std::process::Command;

const PROFILE: &str = ".config/palisade/profiles/claude.toml";

/// Installs a stand-in for the agent `claude`, which executes its arguments.
fn install(place: &Place) {
    place.write(".local/bin/claude", "#!/bin/sh\nexec \"$@\"\n");
    place.outside("chmod 755 ~/.local/bin/claude");
}

/// `palisade agent learn OPTIONS claude sh -c LINE`, where there is no terminal.
fn learn(place: &Place, options: &[&str], line: &str) -> Run {
    let mut palisade = place.command("setsid");
    palisade.arg("--wait").arg(place.binary()).args(["agent", "learn"]).args(options);
    job::finish(palisade.args(["claude", "sh", "-c", line]))
}

/// `palisade agent claude sh -c LINE`.
fn agent(place: &Place, line: &str) -> Run {
    let mut palisade = place.command(place.binary());
    job::finish(palisade.args(["agent", "claude", "sh", "-c", line]))
}

fn learn_there(bed: &Bed, options: &[&str], line: &str) -> Command {
    let mut palisade = bed.command("setsid");
    palisade.arg("--wait").arg(bed.place.binary()).args(["agent", "learn"]).args(options);
    palisade.args(["claude", "sh", "-c", line]);
    palisade
}

/// The report, behind what the agent has printed.
fn report(run: &Run) -> Value {
    let at = run.out.find("{\n").unwrap_or_else(|| panic!("{run:?}"));
    serde_json::from_str(&run.out[at..]).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

fn rules(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|rule| rule["rule"].as_str().unwrap()).collect()
}

#[test]
fn a_grant_is_proposed_and_used_only_if_it_is_accepted() {
    for place in everybody() {
        install(&place);
        place.write("notes/a", "note\n");
        place.write("data/a", "data\n");
        let notes = place.home.join("notes");
        let grants = ["--rw", notes.to_str().unwrap(), "--ro", "../data"];
        let line = "cat ~/notes/a ~/data/a; echo new >~/notes/b; exit 3";
        // The exit code is the agent's, and nobody could be asked.
        let run = learn(&place, &grants, line);
        assert_eq!((run.code, run.out.as_str()), (3, "note\ndata\n"), "{run:?}");
        assert!(run.err.contains("--- built-in:claude.toml\n"), "{run:?}");
        assert!(run.err.contains("+write = [\"~/notes\"]\n"), "{run:?}");
        assert!(run.err.contains("no terminal to ask on: palisade agent learn --yes"), "{run:?}");
        let run = learn(&place, &[&["--dry-run", "--yes"], &grants[..]].concat(), line);
        assert!(run.err.contains("+write = [\"~/notes\"]\n"), "{run:?}");
        assert!(!place.home.join(PROFILE).exists());
        assert_ne!(agent(&place, "cat ~/notes/a").code, 0);
        // Accepted: the next session has it, in every project, and the comments of the shipped text are there.
        learn(&place, &[&["--yes"], &grants[..]].concat(), line);
        let text = place.read(PROFILE);
        assert!(text.starts_with("# SPDX-License-Identifier"), "{text}");
        assert!(text.contains("execute = [\"~/data\", \"~/notes\"]"), "{text}");
        for _cold_and_hot in 0..2 {
            let run = agent(&place, "cd ~/notes; cat a ~/data/a; echo more >c; echo no >~/data/b; ls ~/data");
            assert_eq!(run.out, "note\ndata\na\n", "{run:?}");
        }
        // Now the profile lacks nothing.
        let run = learn(&place, &[&["--yes"], &grants[..]].concat(), "cat ~/notes/a");
        assert!(run.err.contains("lacks nothing that was allowed"), "{run:?}");
        assert_eq!(place.read(PROFILE), text);
        // What it allows and this session didn't use is told.
        let run = learn(&place, &["--json"], "cat ~/notes/a");
        let report = report(&run);
        let paths = rules(&report["unused"]["paths"]);
        assert!(paths.iter().any(|path| path.ends_with("/data")), "{report}");
        assert!(!paths.iter().any(|path| path.ends_with("/notes")), "{report}");
    }
}

/// The agent chooses what it tries: nothing that was refused is proposed, not even with `--yes`.
#[test]
fn what_was_refused_stays_refused() {
    for place in everybody() {
        install(&place);
        let line = "echo x >.bashrc; mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; cat ~/secret; true";
        place.write("secret", "secret\n");
        place.outside(&format!("cd ~/work; {line}; rm -r .bashrc .git"));
        for _again in 0..2 {
            let run = learn(&place, &["--yes", "--allow-missing", "--json"], line);
            assert_eq!(run.code, 0, "{run:?}");
            let report = report(&run);
            let refused = report["refused"]["names"].as_array().unwrap();
            assert!(refused.iter().any(|name| name == ".bashrc"), "{report}");
            assert!(report["added"]["names"].as_array().unwrap().is_empty(), "{report}");
            assert!(!place.home.join(PROFILE).exists() && !place.work.join(".bashrc").exists());
        }
        // The user allows it: then it is proposed, and told when a session doesn't use it.
        let run = learn(&place, &["--yes", "--allow-name", ".bashrc"], "echo x >.bashrc");
        assert!(run.err.contains("+allow_names = [\".bashrc\"]\n"), "{run:?}");
        agent(&place, "echo y >.bashrc").ok();
        assert_eq!(place.read("work/.bashrc"), "y\n");
        for (line, unused) in [("true", true), ("echo z >.bashrc", false)] {
            let report = report(&learn(&place, &["--json"], line));
            assert_eq!(rules(&report["unused"]["names"]).contains(&".bashrc"), unused, "{report}");
        }
    }
}

/// What the administrator has locked holds in the session and behind it.
#[test]
fn locked_rules_hold() {
    let Some(place) = root().filter(|_| has("bwrap")) else { return };
    install(&place);
    let vault = place.write("vault/a", "secret\n").parent().unwrap().to_str().unwrap().to_owned();
    let line = format!("cat {vault}/a; true");
    for (lock, seen) in
        [(String::new(), "secret\n"), (format!("[locked.filesystem]\ndeny = [{vault:?}]\n"), "")]
    {
        for arguments in [&["agent", "learn", "--yes", "--rw", &vault][..], &["agent"]] {
            let mut palisade = place.administered(&lock);
            let run = job::finish(palisade.args(arguments).args(["claude", "sh", "-c", &line]));
            assert_eq!((run.code, run.out.as_str()), (0, seen), "{arguments:?} {lock}: {run:?}");
        }
    }
}

#[test]
fn a_profile_that_cannot_be_amended_stays_as_it_is() {
    for place in everybody() {
        install(&place);
        place.write("notes/a", "note\n");
        let text = "schema = 1\nname = \"claude\"\ninherits = [\"agent\"]\nfilesystem = { write = [] }\n[program]\n\
                    path = \"~/.local/bin/claude\"\n[agent]\n";
        place.write(PROFILE, text);
        let notes = place.home.join("notes");
        let run = learn(&place, &["--yes", "--rw", notes.to_str().unwrap()], "true");
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("[filesystem]\nwrite = [\"~/notes\"]\n"), "{run:?}");
        assert!(run.err.contains("nothing is written: these statements can't be added"), "{run:?}");
        assert_eq!(place.read(PROFILE), text);
    }
}

#[test]
fn wrong_words_are_errors() {
    for place in everybody() {
        install(&place);
        let palisade = |arguments: &[&str]| {
            job::finish(place.command(place.binary()).args(["agent", "learn"]).args(arguments))
        };
        palisade(&["firefox"]).refused(125, &["isn't an agent"]).with_hint();
        palisade(&["--namespaces", "none", "claude", "true"]).refused(125, &["can't be learned"]).with_hint();
        palisade(&["codex"]).refused(125, &["isn't on this host"]).with_hint();
        palisade(&["--allow-missing", "--net-default", "deny", "claude"])
            .refused(125, &["cannot be used with"]);
    }
}

const FETCH: &str = "curl -fsS -m 20 --noproxy '*' http://www.allowed.example/";

#[test]
fn hosts_are_allowed_only_when_told_to_and_then_proposed() {
    for place in people() {
        install(&place);
        let bed = Bed::new(place);
        assert_eq!(bed.outside(FETCH).out, "http www.allowed.example GET / 0\n");
        bed.reached();
        // Nobody can be asked: nothing is reached, and nothing is proposed.
        let run = job::finish(&mut learn_there(&bed, &["--yes", "--json"], FETCH));
        assert_ne!(run.code, 0, "{run:?}");
        assert!(bed.reached().is_empty(), "{run:?}");
        let found = report(&run);
        assert_eq!(found["refused"]["hosts"][0]["host"], "www.allowed.example:80", "{found}");
        assert!(found["added"]["hosts"].as_array().unwrap().is_empty(), "{found}");
        assert!(!bed.place.home.join(PROFILE).exists());
        // Allowed: what was reached is proposed with its port. A rule of the command line holds, and private addresses
        // aren't reached.
        let line = format!(
            "{FETCH}; for host in denied private; do curl -sS -m 20 --noproxy '*' http://$host.example/; done; true"
        );
        let options = ["--yes", "--json", "--allow-missing", "--deny-host", "denied.example"];
        let run = job::finish(&mut learn_there(&bed, &options, &line));
        assert!(run.out.starts_with("http www.allowed.example GET / 0\n{"), "{run:?}");
        let found = report(&run);
        assert_eq!(found["added"]["hosts"], serde_json::json!(["www.allowed.example:80"]), "{found}");
        assert!(found["saved"].as_str().unwrap().ends_with(PROFILE), "{found}");
        let unused = rules(&found["unused"]["hosts"]);
        assert!(unused.contains(&"api.anthropic.com:443"), "{found}");
        let text = bed.place.read(PROFILE);
        assert!(text.contains("\n[network]\nallow = [\"www.allowed.example:80\"]\n"), "{text}");
        // In a user namespace of one user the directories above belong to no mapped user, so policy below them isn't trusted.
        if !bed.place.is_root() {
            continue;
        }
        let mut again = bed.command(bed.place.binary());
        let run = job::finish(again.args(["agent", "claude", "sh", "-c", FETCH]));
        assert_eq!(run.out, "http www.allowed.example GET / 0\n", "{run:?}");
        let run = job::finish(&mut learn_there(&bed, &["--json"], FETCH));
        assert!(!rules(&report(&run)["unused"]["hosts"]).contains(&"www.allowed.example:80"), "{run:?}");
    }
}

#[test]
fn the_user_is_asked_about_hosts_and_about_the_profile() {
    if !has("tmux") {
        return;
    }
    for place in people() {
        install(&place);
        let bed = Bed::new(place);
        let terminal = Terminal::open(&bed.place);
        // The agent's long path must not break the lines that are waited for.
        terminal.resize(200, 50);
        let mut command = bed.command(bed.place.binary());
        let line = format!("{FETCH}; curl -fsS -m 20 --noproxy '*' http://denied.example/; true");
        command.args(["agent", "learn", "claude", "sh", "-c", &line]);
        terminal.line(&words(&command));
        terminal.answer("wants to reach www.allowed.example:80", "session");
        terminal.answer("wants to reach denied.example:80", "n");
        terminal.wait_for("[y/N]");
        assert!(!bed.place.home.join(PROFILE).exists());
        terminal.line("y");
        terminal.wait_for("allowed, and not used in this session:");
        let text = bed.place.read(PROFILE);
        assert!(text.contains("allow = [\"www.allowed.example:80\"]"), "{text}");
        assert!(!text.contains("denied.example"), "{text}");
    }
}
