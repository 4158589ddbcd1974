// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one command that overrides start, `palisade open NAME` or a package, quoted for each kind of file.
//!
//! Each kind of file has its own quoting, and a second layer beneath it that removes backslashes. No word of the
//! application stands before `--`, so none of its arguments can be an option of Palisade.

use crate::exec::{Piece, Word};
use std::borrow::Cow;
use std::path::Path;

/// By which program an application is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means<'a> {
    /// Palisade opens the profile.
    Profile,
    /// A package: the application and Palisade in one file.
    Package,
    /// The application's own program, in the entry that a package contains. The entry has this icon.
    Program {
        /// A name in icon themes.
        icon: Option<&'a str>,
    },
}

/// What an override starts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command<'a> {
    /// Whose path `binary` is.
    pub(crate) means: Means<'a>,
    /// The path of the program.
    pub(crate) binary: &'a Binary,
    /// The profile.
    pub(crate) name: &'a str,
    /// One of the profile's configurations.
    pub(crate) configuration: Option<&'a str>,
}

/// The path of the program that is started, if each kind of file can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary(String);

/// The program's path can't be named.
#[derive(Debug, thiserror::Error)]
#[error("can't write a desktop entry that starts {path:?}: the path contains {what}")]
pub struct BinaryError {
    pub(crate) path: String,
    what: &'static str,
}

impl Binary {
    /// `path` is absolute. The specification forbids `=` in a program's path. GLib looks for a program with `%` in its
    /// path before it undoes `%%`. systemd doesn't support `$` there.
    pub(crate) fn new(path: &Path) -> Result<Self, BinaryError> {
        let refused = |what| BinaryError { path: path.to_string_lossy().into_owned(), what };
        let text = path.to_str().ok_or_else(|| refused("bytes that aren't UTF-8"))?;
        for (character, what) in [
            ('=', "="),
            ('%', "%"),
            ('$', "$"),
            ('\\', "\\"),
            ('"', "a quote"),
            ('\'', "a quote"),
            ('`', "`"),
        ] {
            if text.contains(character) {
                return Err(refused(what));
            }
        }
        if text.contains(char::is_control) {
            return Err(refused("a control character"));
        }
        Ok(Self(text.to_owned()))
    }

    /// The path.
    pub(crate) fn path(&self) -> &str {
        &self.0
    }
}

impl Command<'_> {
    /// The words before the application's own arguments. The configuration stands before the profile: words after the
    /// profile may be read as the application's arguments.
    fn start(&self) -> impl Iterator<Item = Cow<'_, str>> {
        let program = Cow::from(self.binary.path());
        if self.means != Means::Profile {
            return vec![program].into_iter();
        }
        let configuration: Vec<Cow<'_, str>> = match self.configuration {
            // As a word of its own it would be read as an option.
            Some(name) if name.starts_with('-') => vec![format!("--config={name}").into()],
            Some(name) => vec!["--config".into(), name.into()],
            None => Vec::new(),
        };
        let begin = [program, "open".into()].into_iter();
        begin.chain(configuration).chain([self.name.into()]).collect::<Vec<_>>().into_iter()
    }

    /// The word after which everything is the application's.
    const fn end(&self) -> Option<&'static str> {
        match self.means {
            Means::Profile => Some("--"),
            Means::Package => Some("--palisade-end"),
            Means::Program { .. } => None,
        }
    }

    /// The value of a desktop entry's `Exec`.
    pub(crate) fn desktop(&self, arguments: &[Word]) -> String {
        let literal = |text: &str| desktop_word(&Word(vec![Piece::Text(text.to_owned())]));
        let mut words: Vec<String> = self.start().map(|word| literal(&word)).collect();
        words.extend(self.end().map(str::to_owned));
        words.extend(arguments.iter().map(desktop_word));
        words.join(" ")
    }

    /// The value of a D-Bus service's `Exec`: quoted as for a shell, without field codes.
    pub(crate) fn bus(&self, arguments: &[String]) -> String {
        let words = self.start().chain([Cow::from("--")]).chain(arguments.iter().map(Cow::from));
        words.map(|word| bus_word(&word)).collect::<Vec<String>>().join(" ")
    }

    /// The value of a unit's `ExecStart` (systemd.syntax(7), systemd.service(5)).
    pub(crate) fn unit(&self) -> String {
        self.start().map(|word| unit_word(&word)).collect::<Vec<String>>().join(" ")
    }
}

fn desktop_word(word: &Word) -> String {
    // The characters that the specification reserves.
    let reserved = |text: &str| text.contains(|c: char| " \t\n\r\"'\\><~|&;$*?#()`".contains(c));
    let quoted = word.0.is_empty()
        || word.0.iter().any(|piece| matches!(piece, Piece::Text(text) if text.is_empty() || reserved(text)));
    let mut out = String::new();
    for piece in &word.0 {
        match piece {
            Piece::Code(code) => out.extend(['%', *code]),
            Piece::Text(text) => {
                for c in text.chars() {
                    match c {
                        // The backslash of the quoting, doubled for the layer of strings.
                        '"' | '`' | '$' => out.extend(['\\', '\\', c]),
                        '\\' => out.push_str(r"\\\\"),
                        '%' => out.push_str("%%"),
                        '\n' => out.push_str("\\n"),
                        '\t' => out.push_str("\\t"),
                        '\r' => out.push_str("\\r"),
                        c => out.push(c),
                    }
                }
            }
        }
    }
    if quoted { format!("\"{out}\"") } else { out }
}

/// Quotes a word without a backslash, unless the text has one: beneath the quotes, `dbus-broker` doesn't undo
/// backslashes, as `dbus-daemon` does. There such a name gets two backslashes in place of one, and no such profile is
/// found.
fn bus_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' => out.push_str("'\"'\"'"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn unit_word(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' | '$' => out.extend([c, c]),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::unescape;
    use crate::exec::split;

    fn binary() -> Binary {
        Binary::new(Path::new("/opt/a b/palisade")).unwrap()
    }

    /// Follows the rules of the specification, and no others. `None` for a line that breaks one.
    pub(crate) fn strictly(value: &str) -> Option<Vec<String>> {
        let line = unescape(value);
        let mut words = Vec::new();
        let mut rest = line.chars().peekable();
        loop {
            while rest.next_if_eq(&' ').is_some() {}
            let mut word = String::new();
            match rest.peek() {
                None => return Some(words),
                Some('"') => {
                    rest.next();
                    loop {
                        match rest.next()? {
                            '"' => break,
                            '\\' => word.push(rest.next().filter(|c| "\"`$\\".contains(*c))?),
                            '`' | '$' => return None,
                            c => word.push(c),
                        }
                    }
                    if rest.peek().is_some_and(|c| *c != ' ') {
                        return None;
                    }
                }
                Some(_) => {
                    while let Some(c) = rest.next_if(|c| *c != ' ') {
                        if "\t\n\r\"'\\><~|&;$*?#()`".contains(c) {
                            return None;
                        }
                        word.push(c);
                    }
                }
            }
            words.push(word);
        }
    }

    #[test]
    fn words_are_quoted_where_they_must_be() {
        let binary = binary();
        let command =
            Command { means: Means::Profile, binary: &binary, name: "a$b", configuration: Some("50%") };
        let arguments: Vec<Word> =
            ["%U", "x y=%f", "", "--a"].iter().filter_map(|word| Word::parse(word)).collect();
        assert_eq!(
            command.desktop(&arguments),
            r#""/opt/a b/palisade" open --config 50%% "a\\$b" -- %U "x y=%f" "" --a"#
        );
        assert_eq!(
            command.bus(&["it's".to_owned(), "%U".to_owned()]),
            r#"'/opt/a b/palisade' open --config 50% 'a$b' -- 'it'"'"'s' %U"#
        );
        assert_eq!(command.unit(), r#""/opt/a b/palisade" "open" "--config" "50%%" "a$$b""#);
    }

    #[test]
    fn paths_that_cannot_be_named_are_refused() {
        for path in ["/a=b/palisade", "/a%/palisade", "/a\n/palisade", "/$a/palisade", "/a\\b/palisade"] {
            assert!(Binary::new(Path::new(path)).is_err(), "{path}");
        }
    }

    /// Whatever the line was, the new one starts Palisade.
    #[test]
    fn every_line_becomes_palisades() {
        const CHARACTERS: &[u8] = b" \"'\\\\%%$`UufFicknm=;#~-a/\tx\n\x01<>|&*?()";
        let names = ["app", "my app", "a\"b", "a\\b", "a$(b)`c`", "50%U", "a;b", "--", "é'", "a\\\"b"];
        let binary = binary();
        bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
            let choice = bytes.first().copied().map_or(0, usize::from);
            let name = names[choice % names.len()];
            let value: String = match choice % 3 {
                0 => String::from_utf8_lossy(bytes).into_owned(),
                _ => bytes
                    .iter()
                    .map(|byte| char::from(CHARACTERS[usize::from(*byte) % CHARACTERS.len()]))
                    .collect(),
            };
            let Ok(words) = split(&value) else { return };
            let Some(found) = crate::exec::Invocation::of(&words, |word| word == "a") else {
                return;
            };
            let configuration = [None, Some("o'clock %f"), Some("-x y")][choice % 3];
            let command = Command { means: Means::Profile, binary: &binary, name, configuration };
            let line = command.desktop(&found.words());
            assert!(!line.contains(['\n', '\r']), "{line:?}");
            let read = strictly(&line).unwrap_or_else(|| panic!("{value:?} became {line:?}"));
            let percent = |text: &str| text.replace('%', "%%");
            let mut expected = vec![binary.path().to_owned(), "open".to_owned()];
            let configuration = configuration.map(percent);
            match configuration {
                Some(option) if option.starts_with('-') => expected.push(format!("--config={option}")),
                Some(name) => expected.extend(["--config".to_owned(), name]),
                None => {}
            }
            expected.push(percent(name));
            let (start, arguments) = read.split_at(expected.len());
            assert_eq!(start, expected, "{value:?}: {line}");
            assert_eq!(arguments[0], "--", "{line}");
            // After that follows what was there before, except codes that are dropped.
            let again: Vec<Word> = arguments[1..].iter().filter_map(|word| Word::parse(word)).collect();
            assert_eq!(again, found.words(), "{line}");
            // GLib's reading gives the same result.
            assert_eq!(split(&line).unwrap(), read, "{line}");
        });
    }
}
