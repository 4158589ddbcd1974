// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads files of groups and keys: desktop entries, and the service files of D-Bus, which have the same form (Desktop
//! Entry Specification 1.5, "Basic format of the file" and "Possible value types").
//!
//! A key is kept only if every reader understands it in the same way. KDE's reader knows more than the specification:
//! it reads `Exec[de]` and `Exec[$e]` as `Exec`, and expands the latter as a shell does. Python's reader takes a
//! carriage return for the end of a line. So keys with such endings, and values with control characters, are dropped.

use std::collections::HashMap;

/// A larger file isn't read. The largest one of a Debian 12 with seven desktop programs is LibreOffice's, with 22 KB.
pub(crate) const LARGEST: usize = 1 << 20;
/// The group that a desktop entry must have.
pub(crate) const MAIN: &str = "Desktop Entry";

/// Why a file isn't understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EntryError {
    /// It isn't text.
    #[error("it is no UTF-8 (after {valid} bytes)")]
    NotText {
        /// How many bytes are text.
        valid: usize,
    },
    /// A group is missing.
    #[error("it has no group [{name}]")]
    NoGroup {
        /// Its name.
        name: &'static str,
    },
    /// It describes something else.
    #[error("its Type is {kind:?}, not \"Application\"")]
    NotApplication {
        /// Its `Type`.
        kind: String,
    },
    /// It starts nothing.
    #[error("it has no Exec")]
    NoExec,
    /// What it starts isn't understood.
    #[error("its Exec isn't understood: {0}")]
    Exec(#[from] crate::exec::ExecError),
    /// The file that would be made from it would be too large.
    #[error("with Palisade in every Exec it would be larger than {LARGEST} bytes")]
    Large,
}

/// A file's groups, in its order.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    groups: Vec<Group>,
}

/// A group's keys, in its order.
#[derive(Debug)]
pub(crate) struct Group {
    name: String,
    keys: Vec<Key>,
}

/// A key as it is written.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name, without its locale.
    pub(crate) name: String,
    /// Its locale.
    pub(crate) locale: Option<String>,
    /// Its value, escapes and all.
    pub(crate) value: String,
}

impl Entry {
    /// Reads a file. If a key occurs twice, the last one counts, as in GLib. Groups of one name are one group. Lines of
    /// no known form are left out.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, EntryError> {
        let text =
            std::str::from_utf8(bytes).map_err(|error| EntryError::NotText { valid: error.valid_up_to() })?;
        let mut entry = Self::default();
        let mut known: HashMap<&str, usize> = HashMap::new();
        let mut current = None;
        for line in text.split('\n') {
            let line = line.trim_matches([' ', '\t', '\r']);
            if let Some(header) = line.strip_prefix('[') {
                current = header.strip_suffix(']').filter(|name| is_group(name)).map(|name| {
                    *known.entry(name).or_insert_with(|| {
                        entry.groups.push(Group { name: name.to_owned(), keys: Vec::new() });
                        entry.groups.len() - 1
                    })
                });
            } else if let (Some(group), Some(key)) = (current, Key::parse(line)) {
                entry.groups[group].keys.push(key);
            }
        }
        for group in &mut entry.groups {
            group.keep_the_last();
        }
        Ok(entry)
    }

    /// The group of that name.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.iter().find(|group| group.name == name)
    }

    /// The group that a desktop entry must have. It must say that this is an application.
    pub(crate) fn application(&self) -> Result<&Group, EntryError> {
        let main = self.group(MAIN).ok_or(EntryError::NoGroup { name: MAIN })?;
        match main.text("Type").unwrap_or_default() {
            kind if kind == "Application" => Ok(main),
            kind => Err(EntryError::NotApplication { kind }),
        }
    }
}

impl Group {
    fn keep_the_last(&mut self) {
        let mut last: HashMap<(&str, Option<&str>), usize> = HashMap::new();
        for (number, key) in self.keys.iter().enumerate() {
            last.insert((&key.name, key.locale.as_deref()), number);
        }
        let mut kept: Vec<usize> = last.into_values().collect();
        kept.sort_unstable();
        let mut kept = kept.into_iter().peekable();
        let mut number = 0;
        self.keys.retain(|_key| {
            let keep = kept.next_if_eq(&number).is_some();
            number += 1;
            keep
        });
    }

    /// All keys.
    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// A value as it stands in the file.
    pub(crate) fn raw(&self, name: &str) -> Option<&str> {
        let key = self.keys.iter().find(|key| key.name == name && key.locale.is_none())?;
        Some(&key.value)
    }

    /// A value of type string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.raw(name).map(unescape)
    }

    /// A value of type boolean. Any other text is false.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.raw(name) == Some("true")
    }

    /// A value of type strings, without its empty parts.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let parts = self.raw(name).map(|value| value.split(';')).into_iter().flatten();
        parts.map(|part| unescape(part.trim())).filter(|part| !part.is_empty()).collect()
    }
}

impl Key {
    fn parse(line: &str) -> Option<Self> {
        let (key, value) = line.split_once('=')?;
        // Of all white space, only these two characters aren't part of the value.
        let blank = [' ', '\t'];
        let (key, value) = (key.trim_end_matches(blank), value.trim_start_matches(blank));
        let (name, locale) = match key.split_once('[') {
            None => (key, None),
            Some((name, locale)) => (name, Some(locale.strip_suffix(']')?)),
        };
        let plain = |text: &str, more: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        let understood = plain(name, "-")
            && locale.is_none_or(|locale| plain(locale, "@._-"))
            && !value.contains(is_line_end_to_somebody);
        understood.then(|| Self {
            name: name.to_owned(),
            locale: locale.map(str::to_owned),
            value: value.to_owned(),
        })
    }
}

/// Whether a group may have this name: in `[a][$i]` KDE's reader sees more than a name, and in `\x45` it sees an `E`.
fn is_group(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || " ._-".contains(c))
}

fn is_line_end_to_somebody(c: char) -> bool {
    (c.is_control() && c != '\t') || matches!(c, '\u{2028}' | '\u{2029}')
}

/// The text that a value of type string stands for. A backslash before any other character stands for itself, as in GLib.
pub(crate) fn unescape(value: &str) -> String {
    let mut text = String::with_capacity(value.len());
    let mut rest = value.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match rest.next() {
            Some('s') => text.push(' '),
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('\\') | None => text.push('\\'),
            Some(other) => text.extend(['\\', other]),
        }
    }
    text
}

/// A value of type string that stands for `text`.
pub(crate) fn escape(text: &str) -> String {
    let mut value = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // A space at the beginning would be ignored.
            ' ' if value.is_empty() => value.push_str("\\s"),
            '\n' => value.push_str("\\n"),
            '\t' => value.push_str("\\t"),
            '\r' => value.push_str("\\r"),
            '\\' => value.push_str("\\\\"),
            c => value.push(c),
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Entry {
        Entry::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn groups_and_keys_are_found() {
        let entry = parse(
            "# words\n[Desktop Entry]\nType=Application\nName = A\\sB\r\nName[de_DE.UTF-8@euro]=C\nActions=a;b;;\n\n[Desktop Action a]\nName=x\n",
        );
        let main = entry.application().unwrap();
        assert_eq!(main.text("Name").as_deref(), Some("A B"));
        assert_eq!(main.list("Actions"), ["a", "b"]);
        assert_eq!(main.keys().len(), 4);
        assert!(!main.flag("Terminal"));
        assert_eq!(entry.group("Desktop Action a").unwrap().raw("Name"), Some("x"));
    }

    #[test]
    fn of_what_is_there_twice_the_last_counts() {
        let entry =
            parse("[Desktop Entry]\nExec=a\nName=n\n[x]\nExec=b\n[Desktop Entry]\nExec=c\nExec[de]=d\n");
        let main = entry.group(MAIN).unwrap();
        let keys: Vec<&str> = main.keys().iter().map(|key| key.value.as_str()).collect();
        assert_eq!(keys, ["n", "c", "d"]);
    }

    #[test]
    fn what_readers_understand_differently_is_left_out() {
        let entry = parse(
            "Exec=before\n[Desktop Entry]\nExec[$e]=a\nE\\x78ec=b\nName=a\rExec=c\nIcon=a\u{2028}Exec=d\nComment=\u{85}\n[Desktop Entry][$i]\nExec=e\n[Desktop\\x20Entry]\nExec=f\n",
        );
        assert_eq!(entry.group(MAIN).unwrap().keys().len(), 0);
        assert_eq!(entry.groups.len(), 1);
    }

    #[test]
    fn what_is_no_application_is_refused() {
        let error = |text: &str| parse(text).application().map(|_group| ()).unwrap_err();
        assert_eq!(error(""), EntryError::NoGroup { name: MAIN });
        assert_eq!(error("[Desktop Entry]\nType=Link\n"), EntryError::NotApplication { kind: "Link".into() });
        assert_eq!(Entry::parse(b"[a]\n\xff").map(|_entry| ()), Err(EntryError::NotText { valid: 4 }));
    }

    #[test]
    fn escapes_are_undone() {
        for text in [" a\tb\nc\\d\r", "\\s", "", "  x"] {
            assert_eq!(unescape(&escape(text)), text);
        }
        assert_eq!(unescape("\\$ \\"), "\\$ \\");
    }

    #[test]
    fn many_keys_and_groups_take_no_longer_than_they_must() {
        let text = format!("{}{}", "[Desktop Entry]\nA=\n".repeat(20_000), "A=b\n".repeat(100_000));
        let begun = std::time::Instant::now();
        assert_eq!(parse(&text).group(MAIN).unwrap().raw("A"), Some("b"));
        assert!(begun.elapsed().as_secs() < 5);
    }
}
