// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrapped MCP server that Claude Code starts as a line: its words, if they are what `palisade mcp wrap` has written.

use palisade_host::environment::Environment;
use palisade_host::places::Places;
use palisade_settings::record::Owned;
use palisade_settings::{Change, Records};
use serde_json::Value;
use std::ffi::OsString;
use std::path::Path;

/// The arguments of this program with which a line starts a recorded server.
pub(super) fn wrapped(line: &str) -> Option<Vec<OsString>> {
    let myself = std::env::current_exe().ok()?.canonicalize().ok()?;
    let words = words(line)?;
    let (program, arguments) = words.split_first()?;
    if Path::new(program) != myself {
        return None;
    }
    let environment = Environment::from_iter(std::env::vars_os());
    let home = environment.absolute("HOME")?.to_owned();
    let places = Places::new(&home, rustix::process::geteuid().as_raw(), &environment);
    let records = Records::look(&places.state).ok()?;
    let servers = records.all().iter().filter(|entry| matches!(entry.owner, Owned::Server(_)));
    let begins = |change: &Change| is_beginning(&change.value, arguments);
    servers
        .flat_map(|entry| entry.changes())
        .any(begins)
        .then(|| arguments.iter().map(OsString::from).collect())
}

/// Whether recorded words are those with which the arguments begin: the whole launch, and the server's own program. What
/// follows them are that program's arguments.
fn is_beginning(recorded: &Value, arguments: &[String]) -> bool {
    let Some(recorded) = recorded.as_array() else { return false };
    let ends = recorded.iter().position(|word| word == "--");
    let whole = recorded.first().is_some_and(|word| word == "run")
        && ends.is_some_and(|end| end + 2 == recorded.len());
    whole
        && recorded.len() <= arguments.len()
        && recorded.iter().zip(arguments).all(|(one, other)| one == other)
}

/// The words of a line that has nothing but words: no expansion, no redirection, no second command.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '\'' => break,
                        other => word.push(other),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match characters.next()? {
                        '"' => break,
                        '\\' => match characters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        '$' | '`' | '!' => return None,
                        other => word.push(other),
                    }
                }
            }
            '\\' => match characters.next()? {
                '\n' => return None,
                escaped => word.get_or_insert_default().push(escaped),
            },
            plain if plain.is_alphanumeric() || "/._-+:@%,=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_plain_words_are_words() {
        let owned = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(words(r#"a 'b c' "d\"e" f\ g --x=1"#), owned(&["a", "b c", "d\"e", "f g", "--x=1"]));
        for line in [
            "a; b",
            "a && b",
            "a > b",
            "a $HOME",
            "a \"$(id)\"",
            "a `id`",
            "a\nb",
            "a *",
            "a 'b",
            "a ~",
            "a # b",
        ] {
            assert_eq!(words(line), None, "{line}");
        }
    }

    #[test]
    fn only_a_whole_recorded_launch_begins_a_line() {
        let arguments: Vec<String> =
            ["run", "--net=none", "--", "npx", "-y", "x"].iter().map(|word| (*word).to_owned()).collect();
        assert!(is_beginning(&json!(["run", "--net=none", "--", "npx"]), &arguments));
        for recorded in [
            json!(["run", "--", "npx"]),
            json!(["run", "--net=none", "--"]),
            json!(["run", "--net=none"]),
            json!(["run"]),
            json!([]),
            json!("run"),
            json!(["run", "--net=none", "--", "npx", "-y"]),
        ] {
            assert!(!is_beginning(&recorded, &arguments), "{recorded}");
        }
    }
}
