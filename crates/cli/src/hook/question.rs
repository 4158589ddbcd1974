// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers an agent's question whether a command may run. Only a command that begins with the agent's own
//! `palisade-line` may, so nothing runs outside of a sandbox if an agent can't replace commands.

use super::{JUDGE, LAUNCH, LINE, directory_of};
use crate::hook_error::HookError;
use crate::kept::Launch;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};

/// No command is longer.
const LONGEST: u64 = 4 << 20;
/// The agents take this exit code for a refusal.
const REFUSED: u8 = 2;

/// Reads the question on standard input and answers it on standard output. Returns the exit code.
pub(super) fn answer(program: &OsStr) -> Result<u8, HookError> {
    let directory = directory_of(program, JUDGE)?;
    let launch = directory.join(LAUNCH);
    // A hook that was removed while the agent runs allows nothing.
    Launch::read(&launch)?.ok_or(HookError::Removed { path: launch })?;
    let line = directory.join(LINE);
    let line = line.to_str().ok_or_else(|| HookError::NotText { path: line.clone() })?;
    let mut text = Vec::new();
    let read = std::io::stdin().take(LONGEST).read_to_end(&mut text);
    let question = read.ok().and_then(|_length| serde_json::from_slice::<Value>(&text).ok());
    let is_copilot = directory.file_name().is_some_and(|name| name == "copilot");
    let answer = question.as_ref().and_then(|question| match is_copilot {
        true => to_copilot(question, line),
        false => to_cursor(question, line),
    });
    let (answer, code) = match answer {
        Some(answer) => (answer, 0),
        None => (refusal(is_copilot, "palisade: the hook can't understand the agent's question"), REFUSED),
    };
    let _nobody_reads = writeln!(std::io::stdout(), "{answer}");
    Ok(code)
}

/// A command that launches `command` in a sandbox.
fn confined(line: &str, command: &str) -> String {
    format!("{} {}", palisade_text::quoted(line), single_quoted(command))
}

fn single_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Whether a command is one word, given to `palisade-line`, and nothing else.
fn is_confined(line: &str, command: &str) -> bool {
    let quoted = palisade_text::quoted(line);
    let word = command.strip_prefix(&quoted).and_then(|rest| rest.strip_prefix(' '));
    let inner = word.and_then(|word| word.strip_prefix('\'')?.strip_suffix('\''));
    // No quote may be left but those by which a quote is written.
    inner.is_some_and(|inner| !inner.replace(r"'\''", "").contains('\''))
}

/// What the agent tells the model.
fn instead(line: &str, command: &str) -> String {
    format!(
        "palisade: refused: commands run in a sandbox only. Run exactly this instead: {}",
        confined(line, command)
    )
}

fn refusal(is_copilot: bool, said: &str) -> Value {
    match is_copilot {
        true => json!({"permissionDecision": "deny", "permissionDecisionReason": said}),
        false => json!({"permission": "deny", "user_message": said, "agent_message": said}),
    }
}

/// `preToolUse` replaces the command; `beforeShellExecution` refuses one that wasn't replaced.
fn to_cursor(question: &Value, line: &str) -> Option<Value> {
    let replaces = question.get("hook_event_name").and_then(Value::as_str) == Some("preToolUse");
    if !replaces {
        let command = question.get("command")?.as_str()?;
        return Some(match is_confined(line, command) {
            true => json!({"permission": "allow"}),
            false => refusal(false, &instead(line, command)),
        });
    }
    if question.get("tool_name")?.as_str()? != "Shell" {
        return Some(json!({}));
    }
    let mut input = question.get("tool_input")?.clone();
    let command = input.get("command")?.as_str()?.to_owned();
    if is_confined(line, &command) {
        return Some(json!({}));
    }
    *input.get_mut("command")? = Value::String(confined(line, &command));
    Some(json!({"permission": "allow", "updated_input": input}))
}

/// Copilot asks once, so a command that isn't confined is refused, with the command to run instead.
fn to_copilot(question: &Value, line: &str) -> Option<Value> {
    let tool = question.get("toolName")?.as_str()?;
    if tool != "bash" && tool != "shell" {
        return Some(json!({}));
    }
    let input = match question.get("toolArgs")? {
        Value::String(text) => serde_json::from_str(text).ok()?,
        other => other.clone(),
    };
    let command = input.get("command")?.as_str()?;
    Some(match is_confined(line, command) {
        true => json!({}),
        false => refusal(true, &instead(line, command)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "/home/a b/palisade-line";

    #[test]
    fn what_is_confined_is_one_quoted_word() {
        for command in ["ls", "it's", "a'; id; 'b", "", "''", "\n", "$(id)"] {
            assert!(is_confined(OURS, &confined(OURS, command)), "{command:?}");
        }
        for command in [
            "ls",
            "'/home/a b/palisade-line' ls",
            "'/home/a b/palisade-line' 'ls' ; id",
            "'/home/a b/palisade-line' 'ls'; id '",
            "'/home/a b/palisade-line' 'ls' 'id'",
            "'/home/a b/palisade-line' 'ls' && echo ''",
            "'/home/a b/palisade-line' '",
            "/home/a b/palisade-line 'ls'",
            "id; '/home/a b/palisade-line' 'ls'",
        ] {
            assert!(!is_confined(OURS, command), "{command:?}");
        }
    }

    #[test]
    fn questions_are_answered_as_the_agents_ask() {
        let shell = json!({"hook_event_name": "preToolUse", "tool_name": "Shell",
            "tool_input": {"command": "ls", "cwd": "/"}});
        let answer = to_cursor(&shell, OURS).unwrap();
        assert_eq!(answer["updated_input"], json!({"command": "'/home/a b/palisade-line' 'ls'", "cwd": "/"}));
        let before = |command: &str| {
            let asked = json!({"hook_event_name": "beforeShellExecution", "command": command});
            to_cursor(&asked, OURS).unwrap()["permission"].clone()
        };
        assert_eq!((before("ls"), before("'/home/a b/palisade-line' 'ls'")), (json!("deny"), json!("allow")));
        let bash = |arguments: Value| to_copilot(&json!({"toolName": "bash", "toolArgs": arguments}), OURS);
        for arguments in [json!({"command": "ls"}), json!("{\"command\": \"ls\"}")] {
            let answer = bash(arguments).unwrap();
            assert_eq!(answer["permissionDecision"], "deny");
            let said = answer["permissionDecisionReason"].as_str().unwrap_or_default();
            assert!(said.ends_with("'/home/a b/palisade-line' 'ls'"), "{said}");
        }
        assert_eq!(bash(json!({"command": confined(OURS, "ls")})), Some(json!({})));
        assert_eq!(bash(json!({})), None);
        assert_eq!(to_cursor(&json!({"command": 1}), OURS), None);
    }
}
