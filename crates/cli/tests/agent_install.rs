// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `palisade agent install` and `remove`: settings are changed by one member and afterwards as they were, and
//! what the settings then name runs commands in a sandbox.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, Run, everybody, has, is_root, job, root};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `palisade agent WORDS`.
fn agent(place: &Place, words: &[&str]) -> Run {
    job::finish(place.command(place.binary()).arg("agent").args(words))
}

/// Each agent with a settings file, and the file.
const FILES: [(&str, &str); 4] = [
    ("claude", ".claude/settings.json"),
    ("opencode", ".config/opencode/opencode.json"),
    ("cursor", ".cursor/hooks.json"),
    ("copilot", ".copilot/hooks/palisade.json"),
];

/// Files as people and programs write them.
const ODD: [&str; 15] = [
    "",
    "{}",
    "{ }\n",
    "\n\n",
    "// nothing yet\n",
    "{\n  // why\n  \"model\": \"opus\", // last\n}\n",
    "{\r\n\t\"a\": [1,\r\n\t\t2],\r\n\t\"b\": {}\r\n}",
    "\u{feff}{\"a\": 1}",
    "{\"env\":{\"A\":\"1\"},\"hooks\":{\"preToolUse\":[]},\"shell\":\"/bin/zsh\"}",
    "{\"env\": {/* none */}, \"hooks\": {\"preToolUse\": [{\"command\": \"x\"}]}, \"version\": 2}\n\n",
    "{\n\t\"env\": {\n\t\t\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/nice\",\n\t},\n}",
    "{\n    \"permissions\": {\n        \"allow\": [\"Bash(ls:*)\"]\n    }\n}",
    "/* a */ {\"unknown\": null, \"unknown\": 1} // b",
    "{\"\u{e4}\": \"\\u00e4 \\\" // no comment\"}",
    "{\n}",
];

#[test]
fn settings_are_afterwards_as_they_were() {
    for place in everybody() {
        for (name, file) in FILES {
            for text in ODD {
                let path = place.write(file, text);
                std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
                agent(&place, &["install", name]).ok();
                let changed = place.read(file);
                assert_ne!(changed, text, "{name}");
                let again = agent(&place, &["install", name]);
                assert!(again.ok().contains("nothing is changed"), "{again:?}");
                assert_eq!(place.read(file), changed, "{name}: {text:?}");
                assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o640);
                agent(&place, &["remove", name]).ok();
                assert_eq!(place.read(file), text, "{name}: {changed:?}");
                assert_eq!(agent(&place, &["remove", name]).code, 1);
            }
            // Without a file, one is made, and goes with its directories.
            let directory = place.home.join(Path::new(file).components().next().unwrap());
            std::fs::remove_dir_all(&directory).unwrap();
            agent(&place, &["install", name]).ok();
            assert_eq!(place.home.join(file).metadata().unwrap().mode() & 0o7777, 0o600);
            agent(&place, &["remove", name]).ok();
            assert!(!directory.exists(), "{name}");
        }
        let data = place.home.join(".local/share/palisade/hooks");
        assert!(!data.exists());
        assert!(!place.home.join(".local/state/palisade/settings/changes.json").exists());
    }
}

#[test]
fn what_is_edited_meanwhile_stays() {
    for place in everybody() {
        let file = ".claude/settings.json";
        place.write(file, "{\n  \"model\": \"opus\"\n}\n");
        agent(&place, &["install", "claude"]).ok();
        let edited =
            place.read(file).replace("opus", "sonnet").replace("\n}\n", ",\n  \"b\": [] // mine\n}\n");
        place.write(file, &edited);
        let list = agent(&place, &["install", "--list"]);
        assert!(list.ok().contains("claude    installed"), "{list:?}");
        agent(&place, &["remove", "claude"]).ok();
        assert_eq!(place.read(file), "{\n  \"model\": \"sonnet\",\n  \"b\": [] // mine\n}\n");
        // What is no longer ours is left, and said.
        agent(&place, &["install", "claude"]).ok();
        let edited = place.read(file).replace("/palisade-line\"", "/other\"");
        place.write(file, &edited);
        let list = agent(&place, &["install", "--list"]);
        assert!(list.ok().contains("claude    incomplete"), "{list:?}");
        let removed = agent(&place, &["remove", "claude"]);
        assert!(removed.err.contains("env.CLAUDE_CODE_SHELL_PREFIX was changed meanwhile"), "{removed:?}");
        assert_eq!(place.read(file), edited);
    }
}

#[test]
fn showing_changes_nothing() {
    for place in everybody() {
        let file = ".claude/settings.json";
        place.write(file, "{\"a\": 1}\n");
        let shown = agent(&place, &["install", "--show", "claude"]);
        assert!(shown.ok().contains("+{\"env\": { \"CLAUDE_CODE_SHELL_PREFIX\": "), "{shown:?}");
        assert_eq!(place.read(file), "{\"a\": 1}\n");
        assert!(!place.home.join(".local/share/palisade").exists());
        assert!(!place.home.join(".local/state/palisade/settings").exists());
        let list = agent(&place, &["install", "--list"]);
        assert_eq!(list.ok().matches("not installed").count(), 5, "{list:?}");
    }
}

#[test]
fn bad_settings_are_errors_with_a_place_and_nothing_is_written() {
    for place in everybody() {
        let file = ".claude/settings.json";
        for (text, words) in [
            ("{\n  \"a\": }", "line 2, column 8"),
            ("{a: 1}", "line 1, column 2"),
            ("[1]", "line 1, column 1"),
            ("{\n\"env\": []}", "line 2, column 8"),
        ] {
            place.write(file, text);
            agent(&place, &["install", "claude"]).refused(2, &[words, "settings.json"]).with_hint();
            assert_eq!(place.read(file), text);
        }
        let path = place.write(file, b"{\n\xff}");
        agent(&place, &["install", "claude"]).refused(2, &["line 2, column 1", "UTF-8"]).with_hint();
        // A FIFO doesn't keep the caller waiting.
        std::fs::remove_file(&path).unwrap();
        place.outside("mkfifo ~/.claude/settings.json");
        agent(&place, &["install", "claude"]).refused(2, &["isn't a regular file"]);
        agent(&place, &["install", "--allow", "a b", "cursor"]).refused(2, &["a b"]);
        agent(&place, &["install", "--profile", "no-such", "cursor"]).refused(2, &["no-such"]);
        agent(&place, &["install", "--allow", "example.org", "codex"]).refused(2, &["--profile"]);
        assert!(!place.home.join(".cursor").exists());
    }
}

#[test]
fn links_are_followed_to_own_files_only() {
    for place in everybody() {
        let target = place.write("dotfiles/claude.json", "{}");
        std::fs::create_dir(place.home.join(".claude")).unwrap();
        let link = place.home.join(".claude/settings.json");
        symlink(&target, &link).unwrap();
        crate::support::give(&place, &place.home.join(".claude"));
        rustix::fs::chownat(
            rustix::fs::CWD,
            &link,
            Some(rustix::fs::Uid::from_raw(place.uid)),
            Some(rustix::fs::Gid::from_raw(place.gid)),
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        )
        .unwrap();
        agent(&place, &["install", "claude"]).ok();
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert!(place.read("dotfiles/claude.json").contains("palisade-line"));
        agent(&place, &["remove", "claude"]).ok();
        assert_eq!(place.read("dotfiles/claude.json"), "{}");
        if !is_root() {
            continue;
        }
        // Another user's file isn't changed, though this user may write to it. Root may write to any.
        let other = if place.is_root() { 12345 } else { 0 };
        chown(&target, Some(other), None).unwrap();
        std::fs::set_permissions(&target, PermissionsExt::from_mode(0o666)).unwrap();
        agent(&place, &["install", "claude"]).refused(2, &["refusing to change", "owns it"]).with_hint();
        assert_eq!(place.read("dotfiles/claude.json"), "{}");
    }
}

#[test]
fn what_cannot_be_written_is_as_before() {
    for place in everybody() {
        let path = place.write(".claude/settings.json", "{\"a\": 1}");
        if !place.is_root() {
            let directory = path.parent().unwrap();
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o500)).unwrap();
            agent(&place, &["install", "claude"]).refused(2, &["can't write", "settings.json"]);
            std::fs::set_permissions(directory, PermissionsExt::from_mode(0o700)).unwrap();
            assert_eq!(place.read(".claude/settings.json"), "{\"a\": 1}");
        }
    }
    let Some(place) = root() else { return };
    // A file system without room for a second settings file.
    let old = format!("{{\"a\": \"{}\"}}", "x".repeat(40 << 10));
    std::fs::create_dir(place.home.join(".claude")).unwrap();
    place.write("old", &old);
    let line = format!(
        "mount -t tmpfs -o size=64k none ~/.claude && cp ~/old ~/.claude/settings.json && \
         {} agent install claude; echo code $?; cmp ~/old ~/.claude/settings.json && ls -A ~/.claude",
        place.binary().display()
    );
    let run = job::finish(place.command("unshare").args(["-m", "sh", "-c", &line]));
    assert_eq!(run.ok(), "code 2\nsettings.json", "{run:?}");
    assert!(run.err.contains("can't write"), "{run:?}");
}

/// However far it comes, the file is the old one or the new one, and the next call repairs the rest.
#[test]
fn a_killed_process_leaves_the_old_file_or_the_new_one() {
    if !has("strace") && !Path::new("/usr/bin/strace").exists() {
        return;
    }
    let place = crate::support::ordinary();
    let (file, old) = (".claude/settings.json", "{\n  // mine\n  \"a\": 1\n}\n");
    place.write(file, old);
    agent(&place, &["install", "claude"]).ok();
    let new = place.read(file);
    agent(&place, &["remove", "claude"]).ok();
    let mut seen = [0, 0];
    for call in ["openat", "write", "rename", "renameat2", "fsync", "symlink", "unlink"] {
        for nth in 1..30 {
            let inject = format!("inject={call}:signal=KILL:when={nth}");
            let mut strace = place.command("strace");
            strace.args(["-f", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
            let run = job::finish(strace.arg(place.binary()).args(["agent", "install", "claude"]));
            let now = place.read(file);
            assert!(now == old || now == new, "{call} {nth}: {now}");
            seen[usize::from(now == new)] += 1;
            if run.code == 0 {
                agent(&place, &["remove", "claude"]).ok();
                break;
            }
            // After a kill, all works as if nothing had happened.
            agent(&place, &["install", "claude"]).ok();
            assert_eq!(place.read(file), new, "{call} {nth}");
            agent(&place, &["remove", "claude"]).ok();
            assert_eq!(place.read(file), old, "{call} {nth}");
            let left: Vec<PathBuf> = std::fs::read_dir(place.home.join(".claude"))
                .unwrap()
                .map(|entry| entry.unwrap().path())
                .filter(|path| !path.ends_with("settings.json"))
                .collect();
            assert_eq!(left, Vec::<PathBuf>::new(), "{call} {nth}");
        }
    }
    assert!(seen[0] > 3 && seen[1] > 1, "{seen:?}");
}

/// The member of a settings file.
fn member(place: &Place, file: &str, pointer: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(&place.read(file)).unwrap();
    value.pointer(pointer).and_then(|value| value.as_str()).unwrap_or_else(|| panic!("{value}")).to_owned()
}

#[test]
fn a_line_of_claude_runs_in_a_sandbox() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        agent(&place, &["install", "claude"]).ok();
        let prefix = member(&place, ".claude/settings.json", "/env/CLAUDE_CODE_SHELL_PREFIX");
        // As Claude Code starts it: the prefix, and the line as one word, in a line for the user's shell.
        let line = |line: &str| {
            let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
            let whole = format!("{} {}", quoted(&prefix), quoted(line));
            job::finish(place.command("bash").args(["-c", &whole]))
        };
        assert_eq!(place.outside("cat ~/secret"), "secret");
        let refused = line("cat ~/secret");
        assert!(refused.code != 0 && !refused.out.contains("secret"), "{refused:?}");
        let run = line("echo \"it's\" $((6 * 7)); pwd; echo made >made; exit 7");
        assert_eq!((run.code, run.out), (7, format!("it's 42\n{}\n", place.work.display())), "{}", run.err);
        assert_eq!(place.read("work/made"), "made\n");
        let arguments = job::finish(place.command(&prefix).args(["ls", "-l"]));
        arguments.refused(125, &["one argument"]);
        // The directory in which the next command begins.
        std::fs::create_dir(place.work.join("sub")).unwrap();
        crate::support::give(&place, &place.work);
        for (nth, (command, ends)) in [("cd sub", "work/sub"), ("true", "work")].iter().enumerate() {
            let file = format!("/tmp/claude-{}-{nth}-cwd", place.mark);
            let run = line(&format!("eval '{command}' && pwd -P >| {file}"));
            run.ok();
            let written = std::fs::read_to_string(&file).unwrap();
            std::fs::remove_file(&file).unwrap();
            assert_eq!(written.trim_end(), place.home.join(ends).to_str().unwrap());
        }
        // A file that another user has put there isn't followed.
        let file = format!("/tmp/claude-{}-link-cwd", place.mark);
        symlink(place.home.join("secret"), &file).unwrap();
        line(&format!("eval 'cd sub' && pwd -P >| {file}"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(place.read("secret"), "secret");
        // Options are kept.
        let path = place.home.join("secret");
        agent(&place, &["install", "--ro", path.to_str().unwrap(), "claude"]).ok();
        assert_eq!(line("cat ~/secret").ok(), "secret");
        agent(&place, &["remove", "claude"]).ok();
        assert_eq!(line("true").code, 127);
    }
}

#[test]
fn a_shell_of_opencode_runs_in_a_sandbox() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        agent(&place, &["install", "opencode"]).ok();
        let shell = member(&place, ".config/opencode/opencode.json", "/shell");
        let run = job::finish(place.command(&shell).args(["-c", "pwd; cat ~/secret; exit 3"]));
        assert_eq!((run.code, run.out), (3, format!("{}\n", place.work.display())), "{}", run.err);
        let login = job::finish(place.command(&shell).args(["-l", "-c", "echo \"$1\"", "name", "a b"]));
        assert_eq!(login.ok(), "a b");
        agent(&place, &["remove", "opencode"]).ok();
    }
}

/// Asks a hook as an agent does.
fn ask(place: &Place, hook: &str, question: &serde_json::Value) -> (Option<i32>, serde_json::Value) {
    let mut command = place.command("sh");
    command.args(["-c", hook]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default())
}

#[test]
fn cursor_and_copilot_run_only_what_is_confined() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        agent(&place, &["install", "cursor"]).ok();
        agent(&place, &["install", "copilot"]).ok();
        let cursor = member(&place, ".cursor/hooks.json", "/hooks/beforeShellExecution/0/command");
        let (_code, replaced) = ask(
            &place,
            &member(&place, ".cursor/hooks.json", "/hooks/preToolUse/0/command"),
            &serde_json::json!({"hook_event_name": "preToolUse", "tool_name": "Shell",
                "tool_input": {"command": "cat ~/secret; echo it\\'s"}}),
        );
        let command = replaced["updated_input"]["command"].as_str().unwrap();
        let before = |command: &str| {
            let asked = serde_json::json!({"hook_event_name": "beforeShellExecution", "command": command});
            ask(&place, &cursor, &asked).1["permission"].clone()
        };
        assert_eq!((before(command), before("cat ~/secret")), ("allow".into(), "deny".into()));
        let run = job::finish(place.command("bash").args(["-c", command]));
        assert_eq!(run.ok(), "it's");
        assert_eq!(place.outside("cat ~/secret"), "secret");

        let copilot = member(&place, ".copilot/hooks/palisade.json", "/hooks/preToolUse/0/bash");
        let asked = |command: &str| {
            let arguments = serde_json::json!({"command": command}).to_string();
            ask(&place, &copilot, &serde_json::json!({"toolName": "bash", "toolArgs": arguments})).1
        };
        let refused = asked("cat ~/secret");
        assert_eq!(refused["permissionDecision"], "deny");
        let reason = refused["permissionDecisionReason"].as_str().unwrap();
        let (_words, instead) = reason.split_once("instead: ").unwrap();
        assert_eq!(asked(instead), serde_json::json!({}));
        let run = job::finish(place.command("bash").args(["-c", instead]));
        assert!(run.code != 0 && !run.out.contains("secret"), "{run:?}");
        // What isn't understood is refused.
        for hook in [&cursor, &copilot] {
            let (code, answer) = ask(&place, hook, &serde_json::json!("?"));
            assert_eq!(code, Some(2), "{answer}");
            assert!(answer.to_string().contains("deny"), "{answer}");
        }
        agent(&place, &["remove", "copilot"]).ok();
        let (code, _nothing) = ask(&place, &copilot, &serde_json::json!({"toolName": "bash"}));
        assert_ne!(code, Some(0));
    }
}

#[test]
fn codex_finds_a_bwrap_with_a_policy() {
    for place in everybody() {
        // In Codex's place, which isn't on every machine: it says which `bwrap` is first.
        let codex =
            place.write("bin/codex", "#!/bin/sh\necho \"$0 $1\"; command -v bwrap; bwrap --version\n");
        std::fs::set_permissions(&codex, PermissionsExt::from_mode(0o755)).unwrap();
        agent(&place, &["install", "codex"]).ok();
        let again = agent(&place, &["install", "codex"]);
        assert!(again.ok().contains("nothing is changed"), "{again:?}");
        let data = place.home.join(".local/share/palisade");
        let path = format!("{}/wrapped/bin:{}/bin:/usr/bin:/bin", data.display(), place.home.display());
        let mut command = Command::new("sh");
        command.args(["-c", "codex x"]).env("PATH", path).env("HOME", &place.home).current_dir(&place.work);
        if is_root() {
            command.uid(place.uid).gid(place.gid);
        }
        let run = job::finish(&mut command);
        let expected = format!("{} x\n{}/hooks/codex/bin/bwrap", codex.display(), data.display());
        assert!(run.ok().starts_with(&expected), "{run:?}");
        assert!(run.out.contains("bubblewrap"), "{run:?}");
        let script = place.read(".local/share/palisade/hooks/codex/bin/bwrap");
        assert!(script.contains("bwrap --policy default \"$@\""), "{script}");
        agent(&place, &["remove", "codex"]).ok();
        assert!(!data.join("hooks").exists() && !data.join("wrapped").exists());
    }
}
