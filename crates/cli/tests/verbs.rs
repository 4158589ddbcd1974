// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the verbs that read, and those that trust, from a user's view: what they print, where, and their exit codes.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A home with a project in it, and nothing of the tester's own.
struct Home {
    root: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home/project/sub")).unwrap();
        Self { root }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("home").join(below)
    }

    fn write(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
        command
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .env("HOME", self.path(""))
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Answer {
        Answer::from(self.command(arguments).output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        let answer = self.run(arguments);
        let value: Value = serde_json::from_str(&answer.out)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}\n{}\n{}", answer.out, answer.err));
        assert_eq!(value["schema"], 1, "{arguments:?}");
        (answer.code, value)
    }
}

#[derive(Debug)]
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn explain_says_yes_or_no_and_why() {
    let home = Home::new();
    let yes = home.run(&["explain", "."]);
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(
        yes.out.contains(": read: yes: ") && yes.out.contains("because    write = \".\" (built in)"),
        "{yes:?}"
    );
    assert!(yes.out.contains("made by    step ") && yes.err.is_empty(), "{yes:?}");

    let secret = home.write("secret", "x");
    let no = home.run(&["explain", "../secret"]);
    assert_eq!(no.code, 1, "{no:?}");
    assert!(
        no.out.contains(&format!("to permit  palisade run --ro {} -- COMMAND…", shown(&secret))),
        "{no:?}"
    );
    let (code, json) = home.json(&["explain", "../secret", "--json"]);
    assert_eq!((code, &json["allowed"], &json["wanted"]), (1, &Value::Bool(false), &"read".into()));
    assert_eq!(json["path"], shown(&secret));
}

#[test]
fn explain_names_the_file_and_line_of_a_rule_and_what_it_overrides() {
    let home = Home::new();
    let config = home.write(
        ".config/palisade/config.toml",
        "schema = 1\n[filesystem]\nread = [\"~/data\"]\ndeny = [\"./x\"]\n",
    );
    home.write("data/f", "x");
    home.write("project/x", "x");
    let data = home.run(&["explain", "../data/f"]);
    assert_eq!(data.code, 0, "{data:?}");
    assert!(data.out.contains(&format!("because    read = \"~/data\" ({}:3)", shown(&config))), "{data:?}");
    assert_eq!(home.run(&["explain", "../data/f", "--access", "write"]).code, 1);
    let (code, denied) = home.json(&["explain", "./x", "--json"]);
    assert_eq!((code, &denied["inside"]["shows"]), (1, &"denied".into()), "{denied}");
    assert_eq!(denied["policy"]["because"][0]["line"], 4);
    assert_eq!(denied["policy"]["overridden"][0]["list"], "write");
}

/// A note is of the policy's files, and the plan has it, too.
#[test]
fn explain_says_each_note_once() {
    let home = Home::new();
    home.write("project/.palisade.toml", "schema = 1\n");
    home.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nread = [\"/srv/none\"]\n");
    let run = home.run(&["explain", "/srv/none"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert_eq!(
        run.out.matches("has no effect").count() + run.err.matches("has no effect").count(),
        1,
        "{run:?}"
    );
    assert_eq!(
        run.out.matches("not in force").count() + run.err.matches("not in force").count(),
        1,
        "{run:?}"
    );
}

#[test]
fn what_explain_proposes_works() {
    let home = Home::new();
    home.write("secret", "seen\n");
    std::os::unix::fs::symlink("/usr/bin/env", home.path("link")).unwrap();
    for (path, access) in [("../secret", "read"), ("../secret", "write"), ("../link", "execute")] {
        let (_code, json) = home.json(&["explain", path, "--access", access, "--json"]);
        let words = json["permit"].as_str().unwrap_or_else(|| panic!("{json}"));
        let option: Vec<&str> = words.split(' ').skip(2).take(2).collect();
        let inside = shown(&home.path(path.trim_start_matches("../")));
        let command = match access {
            "read" => vec!["cat", &inside],
            "write" => vec!["sh", "-c", "echo more >> ../secret"],
            _ => vec![inside.as_str(), "true"],
        };
        let arguments = [&["run"], option.as_slice(), &["--"], command.as_slice()].concat();
        let ran = home.run(&arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
    }
    assert_eq!(std::fs::read_to_string(home.path("secret")).unwrap(), "seen\nmore\n");
}

#[test]
fn palisades_own_files_are_never_proposed() {
    let home = Home::new();
    let config = home.write(".config/palisade/config.toml", "schema = 1\n");
    let (code, json) = home.json(&["explain", &shown(&config), "--access", "write", "--json"]);
    assert!(json.get("permit").is_none(), "{code} {json}");
}

#[test]
fn explain_finds_commands_as_a_launch_does() {
    let home = Home::new();
    let script = home.write("bin/tool", "#!/usr/bin/env sh\n");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let found = home.run(&["explain", "env"]);
    assert_eq!(found.code, 0, "{found:?}");
    assert!(found.out.contains("runs inside: yes"), "{found:?}");
    let nowhere = home.run(&["explain", "no-such-command"]);
    assert_eq!(nowhere.code, 1);
    assert!(nowhere.out.contains("found      nowhere"), "{nowhere:?}");
    // In no directory that is shown: a home's bin is only if it is on PATH.
    let mut command = home.command(&["explain", "tool", "--json"]);
    command.env("PATH", format!("{}:/usr/bin:/bin", shown(&home.path("elsewhere"))));
    std::fs::rename(home.path("bin"), home.path("elsewhere")).unwrap();
    let answer = Answer::from(command.output().unwrap());
    let json: Value = serde_json::from_str(&answer.out).unwrap();
    assert_eq!(json["searched"].as_array().unwrap().len(), 1, "{json}");
    assert_eq!(json["kind"], "command");
}

#[test]
fn explain_knows_calls_and_variables() {
    let home = Home::new();
    let call = home.run(&["explain", "--syscall", "ptrace"]);
    assert_eq!(call.code, 1);
    assert!(
        call.out.contains("refused with EPERM") && call.out.contains("[syscalls] allow = [\"ptrace\"]"),
        "{call:?}"
    );
    assert_eq!(home.run(&["explain", "--syscall", "read"]).code, 0);
    // Allowed, but for modes that give away rights; of directories only a broker can tell.
    for judged in [true, false] {
        if !judged {
            home.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nprotect = \"mounts\"\n");
        }
        let call = home.run(&["explain", "--syscall", "chmod"]);
        assert_eq!(call.code, 0, "{call:?}");
        assert!(call.out.contains("refused with EPERM when arg1 has S_ISUID=0x800"), "{call:?}");
        assert_eq!(call.out.contains("refused with EPERM when arg1 has S_ISGID=0x400"), !judged, "{call:?}");
        let otherwise = if judged { "asks the broker: changes permissions" } else { "allowed otherwise" };
        assert!(call.out.contains(otherwise), "{call:?}");
    }
    let unknown = home.run(&["explain", "--syscall", "ptrac"]);
    assert_eq!((unknown.code, unknown.out.as_str()), (2, ""));
    assert!(unknown.err.contains("did you mean `ptrace`?"), "{unknown:?}");
    let variable = home.run(&["explain", "--env", "AWS_SECRET_ACCESS_KEY"]);
    assert_eq!(variable.code, 1);
    assert!(
        variable.out.contains("removed") && variable.out.contains("--keep-env AWS_SECRET_ACCESS_KEY"),
        "{variable:?}"
    );
    assert_eq!(home.run(&["explain", "--env", "LANG"]).code, 0);
    assert_eq!(home.run(&["explain", "--env", "A=B"]).code, 2);
}

#[test]
fn check_points_at_what_is_wrong() {
    let home = Home::new();
    let file = shown(&home.write("p.toml", "schema = 1\n[filesystem]\nraed = [\"/x\"]\n"));
    let wrong = home.run(&["check", &file]);
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""), "{wrong:?}");
    assert!(wrong.err.contains("^^^^") && wrong.err.contains("did you mean `read`?"), "{wrong:?}");
    assert!(!wrong.err.contains('\x1b'), "no colour but on a terminal: {wrong:?}");
    let (code, json) = home.json(&["check", &file, "--json"]);
    assert_eq!((code, &json["valid"], &json["errors"][0]["line"]), (1, &Value::Bool(false), &3.into()));

    let locked = shown(&home.write("l.toml", "schema = 1\n[locked.network]\nmode = \"none\"\n"));
    assert_eq!(home.run(&["check", &locked]).code, 1);
    assert_eq!(home.run(&["check", &locked, "--layer", "administrator"]).code, 0);
    let (code, json) = home.json(&["check", "/none/such", "--json"]);
    assert_eq!((code, &json["error"]["class"]), (2, &"read".into()));
}

/// A command that is written as one would type it.
#[test]
fn a_command_without_its_verb_or_dashes_is_shown_with_them() {
    let home = Home::new();
    for (words, hint) in [
        (&["ls", "-l", "a b"][..], "hint: palisade run -- ls -l 'a b'\n"),
        (&["explain", "ls", "-l", "x"], "hint: palisade explain -- ls -l x\n"),
    ] {
        let answer = home.run(words);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.ends_with(hint), "{answer:?}");
    }
    assert!(!home.run(&["no-such-program", "x"]).err.contains("palisade run"));
    let answer = home.run(&["explain", "--", "ls", "-l"]);
    assert!(answer.code == 0 && answer.out.starts_with("ls: runs inside: yes"), "{answer:?}");
}

#[test]
fn doctor_prints_the_table() {
    let home = Home::new();
    let (code, json) = home.json(&["doctor", "--json"]);
    assert_eq!(json["enforceable"], Value::Bool(code == 0), "{json}");
    let rows = json["guarantees"].as_array().unwrap();
    assert_eq!(rows.len(), palisade_policy::Guarantee::ALL.len());
    assert!(rows.iter().all(|row| !row["mechanisms"].as_array().unwrap().is_empty()), "{json}");
    let words = home.run(&["doctor"]);
    assert!(words.out.starts_with("palisade run works here: "), "{words:?}");
    assert!(words.out.contains("nothing leaves by the network: network namespace"), "{words:?}");
}

#[test]
fn doctor_says_no_where_the_configuration_is_wrong() {
    let home = Home::new();
    home.write(".config/palisade/config.toml", "nonsense");
    let answer = home.run(&["doctor"]);
    assert_eq!(answer.code, 1);
    assert!(answer.out.starts_with("palisade run fails here: "), "{answer:?}");
    assert!(answer.out.contains("NO   configuration: "), "{answer:?}");
}

#[test]
fn config_shows_what_holds_and_where_it_comes_from() {
    let home = Home::new();
    let config =
        shown(&home.write(".config/palisade/config.toml", "schema = 1\n[network]\nmode = \"host\"\n"));
    let answer = home.run(&["config", "show", "--origin"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.out.contains(&format!("mode = \"host\"  # {config}:3")), "{answer:?}");
    // What is shown is a policy file.
    let shown = home.run(&["config", "show"]);
    let file = home.write("shown.toml", &shown.out).to_string_lossy().into_owned();
    assert_eq!(home.run(&["check", &file]).code, 0, "{shown:?}");
    let (_code, paths) = home.json(&["config", "paths", "--json"]);
    let user =
        paths["paths"].as_array().unwrap().iter().find(|path| path["path"] == config.as_str()).unwrap();
    assert_eq!((&user["layer"], &user["present"]), (&"user".into(), &Value::Bool(true)));
}

#[test]
fn profiles_are_listed_and_shown_and_a_broken_one_stops_nothing() {
    let home = Home::new();
    home.write(".config/palisade/profiles/strict.toml", "schema = 1\ndescription = \"mine\"\n");
    home.write(".config/palisade/profiles/broken.toml", "nonsense");
    let (code, json) = home.json(&["profile", "list", "--json"]);
    assert_eq!(code, 0);
    let of = |name: &str| -> Vec<Value> {
        json["profiles"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|profile| profile["name"] == name)
            .cloned()
            .collect()
    };
    assert_eq!(
        (&of("strict")[0]["description"], &of("strict")[1]["shadowed"]),
        (&"mine".into(), &Value::Bool(true))
    );
    assert!(of("broken")[0]["error"].is_string());
    for name in ["offline-build", "read-only"] {
        let shown = home.run(&["profile", "show", name]);
        let file = home.write("shown.toml", &shown.out).to_string_lossy().into_owned();
        assert_eq!(home.run(&["check", &file]).code, 0, "{shown:?}");
    }
    let unknown = home.run(&["profile", "show", "offlin-build"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("hint: did you mean offline-build?"), "{unknown:?}");
}

#[test]
fn a_project_file_counts_from_allow_to_the_next_edit() {
    let home = Home::new();
    home.write("data/f", "x");
    assert_eq!(home.run(&["project", "status"]).code, 1);
    assert_eq!(home.run(&["project", "allow", "--yes"]).code, 2, "there is none");
    let file = home.write("project/.palisade.toml", "schema = 1\n[filesystem]\nread = [\"~/data\"]\n");
    let before = home.run(&["explain", "../data/f"]);
    assert_eq!(before.code, 1);
    assert!(before.err.contains("not in force; palisade project allow"), "{before:?}");

    let allowed = home.run(&["project", "allow", "--yes"]);
    assert_eq!((allowed.code, allowed.out.as_str()), (0, ""), "{allowed:?}");
    let after = home.run(&["explain", "../data/f"]);
    assert_eq!(after.code, 0, "{after:?}");
    assert!(after.out.contains(&format!("({}:3)", shown(&file))), "{after:?}");
    // From below too.
    assert_eq!(home.run(&["project", "status", "sub"]).code, 0);

    home.write("project/.palisade.toml", "schema = 1\n[filesystem]\nread = [\"~\"]\n");
    let (code, status) = home.json(&["project", "status", "--json"]);
    assert_eq!((code, &status["status"]), (1, &"changed".into()));
    assert_eq!(home.run(&["explain", "../data/f"]).code, 1);
    assert_eq!(home.run(&["project", "revoke"]).code, 0);
    assert_eq!(home.run(&["project", "revoke"]).code, 1);
    assert_eq!(home.json(&["project", "status", "--json"]).1["status"], "not-allowed");
}

#[test]
fn without_a_terminal_nobody_agrees() {
    let home = Home::new();
    home.write("project/.palisade.toml", "schema = 1\n[network]\nmode = \"host\"\n");
    // A session of its own has no terminal.
    let palisade = env!("CARGO_BIN_EXE_palisade");
    let mut command = Command::new("setsid");
    command
        .args(["-w", palisade, "project", "allow"])
        .current_dir(home.path("project"))
        .env("HOME", home.path(""));
    let answer = Answer::from(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(answer.err.contains("mode = \"host\""), "what it grants is shown first: {answer:?}");
    assert!(answer.err.contains("hint: palisade project allow --yes"), "{answer:?}");
    assert_eq!(home.run(&["project", "status"]).code, 1);
}

#[test]
fn a_project_file_that_makes_no_sense_cannot_be_allowed() {
    let home = Home::new();
    home.write("project/.palisade.toml", "schema = 1\n\"\\u001b[2J\" = 1\n");
    let answer = home.run(&["project", "allow", "--yes"]);
    assert_eq!(answer.code, 2, "{answer:?}");
    assert!(!answer.err.contains('\x1b'), "{answer:?}");
    assert_eq!(home.run(&["explain", "."]).code, 0, "nor does it stop anything");
}

#[test]
fn a_configuration_that_others_may_write_is_refused() {
    let home = Home::new();
    let config = home.write(".config/palisade/config.toml", "schema = 1\n");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (code, json) = home.json(&["explain", ".", "--json"]);
    assert_eq!((code, &json["error"]["class"]), (2, &"distrusted".into()));
    assert!(json["error"]["hint"].as_str().unwrap().contains("chmod go-w"), "{json}");
}

#[test]
fn shells_pages_and_schema_are_printed() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]);
        assert!(script.code == 0 && script.out.contains("palisade"), "{shell}");
    }
    assert!(home.run(&["man"]).out.contains(".TH palisade 1"));
    let pages = home.path("pages");
    assert_eq!(home.run(&["man", &shown(&pages)]).code, 0);
    for page in ["palisade.1", "palisade-run.1", "palisade-explain.1", "palisade-project-allow.1"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    assert!(!pages.join("palisade-project-help.1").exists());
    let schema: Value = serde_json::from_str(&home.run(&["schema"]).out).unwrap();
    assert_eq!(schema["title"], "Palisade policy");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    for arguments in [&["schema"][..], &["config", "show"], &["doctor", "--json"], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let status = home.command(arguments).stdout(writer).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let status = home.command(&["schema"]).stdout(full).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(2), "a full disk is one");
}

#[test]
fn bench_is_the_program_beside() {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("palisade");
    let given = std::env::var_os("PALISADE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_palisade").into());
    std::fs::copy(given, &binary).unwrap();
    let suite = directory.path().join("palisade-bench");
    std::fs::write(&suite, "#!/bin/sh\necho \"suite $*\"\nexit 7\n").unwrap();
    for file in [&binary, &suite] {
        std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let output =
        std::process::Command::new(&binary).args(["bench", "launch", "--quick", "--help"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "suite launch --quick --help\n");
    assert_eq!(output.status.code(), Some(7));
}
