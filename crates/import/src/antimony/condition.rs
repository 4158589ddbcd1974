// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports a feature's condition: a line of shell, if it asks only what Palisade's conditions can ask.

/// The conditions for a line of shell. `None` for a line that asks or does anything else.
pub(super) fn conditions(line: &str) -> Option<Vec<String>> {
    // Text that can't be split at `&&` without a parser of shell.
    let opens = line.replace("${", "").contains('{');
    if opens || line.contains([';', '`', '(', ')', '\n', '\\', '*', '?', '<']) || line.contains("||") {
        return None;
    }
    let parts: Vec<&str> = line.split("&&").collect();
    parts.into_iter().map(condition).collect()
}

fn condition(part: &str) -> Option<String> {
    let words = words(part)?;
    let mut words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !is_silence(word)).collect();
    let mut negated = false;
    while words.first() == Some(&"!") {
        negated = !negated;
        words.remove(0);
    }
    let asked = match words.as_slice() {
        ["command", "-v" | "-V", name]
        | ["which", name]
        | ["type" | "hash", name]
        | ["type", "-p" | "-P", name] => program(name)?,
        ["test", rest @ ..] | ["[", rest @ .., "]"] | ["[[", rest @ .., "]]"] => test(rest)?,
        _ => return None,
    };
    let asked = if negated { format!("not {asked}") } else { asked };
    Some(asked.strip_prefix("not not ").map_or(asked.clone(), str::to_owned))
}

/// Whether the word discards output.
fn is_silence(word: &str) -> bool {
    matches!(word, ">/dev/null" | "&>/dev/null" | "2>/dev/null" | "2>&1" | "1>/dev/null" | ">&2")
}

fn program(name: &str) -> Option<String> {
    if name.starts_with('/') {
        return path(name).map(|path| format!("exists {path}"));
    }
    is_word(name).then(|| format!("program {name}"))
}

fn test(words: &[&str]) -> Option<String> {
    Some(match words {
        ["!", rest @ ..] => format!("not {}", test(rest)?),
        ["-e" | "-f" | "-d" | "-x" | "-r" | "-S" | "-L" | "-h" | "-s" | "-b" | "-c" | "-p", place] => {
            format!("exists {}", path(place)?)
        }
        ["-n", value] => format!("variable {}", variable(value)?),
        ["-z", value] => format!("not variable {}", variable(value)?),
        [left, "=" | "==", right] if is_word(right) => format!("variable {}={right}", variable(left)?),
        [left, "!=", right] if is_word(right) => format!("not variable {}={right}", variable(left)?),
        _ => return None,
    })
}

fn path(written: &str) -> Option<String> {
    let bare = written.replace("${", "$").replace('}', "");
    let mut names = bare.split('$').skip(1);
    let shouted = names.all(|name| name.starts_with(|c: char| c.is_ascii_uppercase()));
    if !shouted || written.contains(char::is_whitespace) {
        return None;
    }
    super::variables::path(&bare, false).ok()
}

/// `$NAME` or `${NAME}`.
fn variable(written: &str) -> Option<&str> {
    let name = written.strip_prefix('$')?;
    let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
    let fits = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    fits.then_some(name)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._+-:/".contains(&b))
}

/// The words of a command. `None` if a shell would change them.
fn words(part: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in part.chars() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            // In single quotes, a dollar sign begins no variable.
            ('$', Some('\'')) => return None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('|', None) => return None,
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.take());
    quote.is_none().then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_asks_is_understood() {
        for (line, said) in [
            ("command -v /usr/bin/sh", vec!["exists /usr/bin/sh"]),
            (
                "command -v kdialog >/dev/null 2>&1 && which gocryptfs",
                vec!["program kdialog", "program gocryptfs"],
            ),
            ("test -e /dev/dri", vec!["exists /dev/dri"]),
            ("[ -f \"$HOME/.x\" ] && test -e ${HOME}/y", vec!["exists ~/.x", "exists ~/y"]),
            ("[[ -d $XDG_RUNTIME_DIR/pulse ]]", vec!["exists ${runtime}/pulse"]),
            ("! test -e /x", vec!["not exists /x"]),
            ("! test ! -e /x", vec!["exists /x"]),
            ("[ -n \"$WAYLAND_DISPLAY\" ]", vec!["variable WAYLAND_DISPLAY"]),
            (
                "[ -z $DISPLAY ] && [ \"$XDG_SESSION_TYPE\" = wayland ]",
                vec!["not variable DISPLAY", "variable XDG_SESSION_TYPE=wayland"],
            ),
        ] {
            assert_eq!(
                conditions(line).as_deref(),
                Some(said.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>().as_slice()),
                "{line}"
            );
        }
    }

    #[test]
    fn what_does_or_asks_more_is_not() {
        for line in [
            "",
            "pidof pipewire",
            "rm -rf /",
            "command -v a || command -v b",
            "test -e /a; rm b",
            "test -e $(cat /etc/x)",
            "command -v a | grep b",
            "test -e /a*",
            "test -e '$HOME'",
            "test -e \"/a b\"",
            "test -e /a &&",
            "test -e /a/$name",
            "test -e /a/{b,c}",
            "test \"unclosed",
        ] {
            assert_eq!(conditions(line), None, "{line}");
        }
    }
}
