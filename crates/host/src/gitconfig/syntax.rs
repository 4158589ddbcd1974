// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses and writes the syntax of git's configuration files.
//!
//! It follows git's `config.c` (and "Syntax" in git-config(1)). Section and key names are case-insensitive;
//! subsections in quotes aren't. A value may be quoted in parts, may continue on the next line after a backslash, and
//! ends at an unquoted `#` or `;`. Values are bytes.

/// One `key = value` with its section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Section, in lower case.
    pub section: String,
    /// Subsection, unchanged.
    pub subsection: Option<Vec<u8>>,
    /// Key, in lower case.
    pub key: String,
    /// The value; `None` for a key without `=`, which means true.
    pub value: Option<Vec<u8>>,
    /// The line it starts on, from 1.
    pub line: u32,
}

impl Entry {
    /// `section.subsection.key`, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.subsection {
            Some(subsection) => {
                format!("{}.{}.{}", self.section, String::from_utf8_lossy(subsection), self.key)
            }
            None => format!("{}.{}", self.section, self.key),
        }
    }
}

/// Where and why a file can't be read as git configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// `[…` isn't a section header.
    #[error("line {line}: bad section header")]
    Section {
        /// The line, from 1.
        line: u32,
    },
    /// A key has a character that isn't permitted in keys.
    #[error("line {line}: bad key")]
    Key {
        /// The line, from 1.
        line: u32,
    },
    /// A value has an unknown escape, or a quote that isn't closed on its line.
    #[error("line {line}: bad value")]
    Value {
        /// The line, from 1.
        line: u32,
    },
}

impl SyntaxError {
    /// The line, from 1.
    #[must_use]
    pub fn line(&self) -> u32 {
        match self {
            Self::Section { line } | Self::Key { line } | Self::Value { line } => *line,
        }
    }
}

/// Parses a configuration file's text.
///
/// # Errors
/// [`SyntaxError`] where git would refuse the file, too.
pub fn parse(text: &[u8]) -> Result<Vec<Entry>, SyntaxError> {
    let mut reader = Reader { rest: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text), line: 1 };
    let mut section: Option<(String, Option<Vec<u8>>)> = None;
    let mut entries = Vec::new();
    while let Some(byte) = reader.next() {
        match byte {
            b'#' | b';' => reader.skip_line(),
            b'[' => section = Some(reader.section()?),
            byte if is_space(byte) => {}
            byte => {
                let line = reader.line;
                let (key, value) = reader.assignment(byte)?;
                // A key before any section has no name by which a program could read it; git ignores it, too.
                let Some((section, subsection)) = &section else {
                    continue;
                };
                entries.push(Entry {
                    section: section.clone(),
                    subsection: subsection.clone(),
                    key,
                    value,
                    line,
                });
            }
        }
    }
    Ok(entries)
}

/// Writes entries so that [`parse`] (and git) read the same values back. `None` where an entry
/// can't be expressed: NUL anywhere, or a line break in a subsection.
#[must_use]
pub fn render(entries: &[Entry]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut previous: Option<(&str, Option<&[u8]>)> = None;
    for entry in entries {
        let header = (entry.section.as_str(), entry.subsection.as_deref());
        if previous != Some(header) {
            render_header(&mut out, header)?;
            previous = Some(header);
        }
        out.push(b'\t');
        out.extend_from_slice(entry.key.as_bytes());
        if let Some(value) = &entry.value {
            out.extend_from_slice(b" = \"");
            for &byte in value {
                match byte {
                    0 => return None,
                    b'"' => out.extend_from_slice(b"\\\""),
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\t' => out.extend_from_slice(b"\\t"),
                    0x08 => out.extend_from_slice(b"\\b"),
                    other => out.push(other),
                }
            }
            out.push(b'"');
        }
        out.push(b'\n');
    }
    Some(out)
}

fn render_header(out: &mut Vec<u8>, (section, subsection): (&str, Option<&[u8]>)) -> Option<()> {
    out.push(b'[');
    out.extend_from_slice(section.as_bytes());
    if let Some(subsection) = subsection {
        out.extend_from_slice(b" \"");
        for &byte in subsection {
            match byte {
                0 | b'\n' => return None,
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                other => out.push(other),
            }
        }
        out.push(b'"');
    }
    out.extend_from_slice(b"]\n");
    Some(())
}

struct Reader<'a> {
    rest: &'a [u8],
    line: u32,
}

impl Reader<'_> {
    /// The next byte. CRLF is read as one line break.
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        if first == b'\r' && self.rest.first() == Some(&b'\n') {
            return self.next();
        }
        if first == b'\n' {
            self.line = self.line.saturating_add(1);
        }
        Some(first)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|byte| byte != b'\n') {}
    }

    /// After `[`: `section]`, `section "sub"]`, or the old `section.sub]`.
    fn section(&mut self) -> Result<(String, Option<Vec<u8>>), SyntaxError> {
        let line = self.line;
        let bad = SyntaxError::Section { line };
        let mut name = String::new();
        loop {
            match self.next().ok_or_else(|| bad.clone())? {
                b']' => break,
                byte if byte == b' ' || byte == b'\t' => {
                    let subsection = self.subsection().ok_or(bad)?;
                    return Ok((name, Some(subsection)));
                }
                byte if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.') => {
                    name.push(char::from(byte.to_ascii_lowercase()));
                }
                _ => return Err(bad),
            }
        }
        if name.is_empty() {
            return Err(bad);
        }
        // The old form; git converts it to lower case.
        Ok(match name.split_once('.') {
            Some((section, sub)) => (section.to_owned(), Some(sub.as_bytes().to_vec())),
            None => (name, None),
        })
    }

    fn subsection(&mut self) -> Option<Vec<u8>> {
        loop {
            match self.next()? {
                b' ' | b'\t' => {}
                b'"' => break,
                _ => return None,
            }
        }
        let mut name = Vec::new();
        loop {
            match self.next()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.next()? {
                    b'\n' => return None,
                    escaped => name.push(escaped),
                },
                byte => name.push(byte),
            }
        }
        (self.next()? == b']').then_some(name)
    }

    /// A key that begins with `first`, and its value.
    fn assignment(&mut self, first: u8) -> Result<(String, Option<Vec<u8>>), SyntaxError> {
        let bad = SyntaxError::Key { line: self.line };
        if !first.is_ascii_alphabetic() {
            return Err(bad);
        }
        let mut key = String::from(char::from(first.to_ascii_lowercase()));
        let mut next = self.next();
        while let Some(byte) = next.filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(char::from(byte.to_ascii_lowercase()));
            next = self.next();
        }
        while let Some(b' ' | b'\t') = next {
            next = self.next();
        }
        match next {
            None | Some(b'\n') => Ok((key, None)),
            Some(b'=') => Ok((key, Some(self.value()?))),
            Some(_) => Err(bad),
        }
    }

    fn value(&mut self) -> Result<Vec<u8>, SyntaxError> {
        let bad = SyntaxError::Value { line: self.line };
        let mut value = Vec::new();
        // Length up to the last byte that isn't unquoted trailing blank.
        let mut keep = 0;
        let mut quoted = false;
        let mut comment = false;
        loop {
            let byte = match self.next() {
                None | Some(b'\n') if quoted => return Err(bad),
                None | Some(b'\n') => break,
                Some(byte) => byte,
            };
            if comment {
                continue;
            }
            match byte {
                byte if is_space(byte) && !quoted => {
                    if !value.is_empty() {
                        value.push(byte);
                    }
                }
                b'#' | b';' if !quoted => comment = true,
                b'\\' => match self.next() {
                    // Blanks before the backslash are part of the value, even if nothing follows.
                    Some(b'\n') => keep = value.len(),
                    Some(escape) => {
                        value.push(match escape {
                            b't' => b'\t',
                            b'b' => 0x08,
                            b'n' => b'\n',
                            b'\\' | b'"' => escape,
                            _ => return Err(bad),
                        });
                        keep = value.len();
                    }
                    None => return Err(bad),
                },
                b'"' => {
                    quoted = !quoted;
                    // Blanks before a quote are part of the value, even if the quotes are empty.
                    keep = value.len();
                }
                byte => {
                    value.push(byte);
                    keep = value.len();
                }
            }
        }
        value.truncate(keep);
        Ok(value)
    }
}

/// Whether git's own table has the byte as a space. Unlike C's `isspace`, vertical tab and form feed aren't in it.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(text: &str) -> Vec<(String, Option<String>)> {
        parse(text.as_bytes())
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name(), entry.value.map(|value| String::from_utf8(value).unwrap())))
            .collect()
    }

    fn value(text: &str) -> String {
        values(&format!("[a]\nb = {text}"))[0].1.clone().unwrap()
    }

    #[test]
    fn sections_subsections_and_case() {
        let text = "[User]\n\tName = Ann\n[branch \"Feat\\\"ure\\\\x\"] merge = m\n[Old.Sub]\nK=v\n";
        assert_eq!(
            values(text),
            [
                ("user.name".to_owned(), Some("Ann".to_owned())),
                ("branch.Feat\"ure\\x.merge".to_owned(), Some("m".to_owned())),
                ("old.sub.k".to_owned(), Some("v".to_owned())),
            ]
        );
    }

    #[test]
    fn quotes_escapes_comments_and_continuations() {
        assert_eq!(value("plain words  here  ; comment"), "plain words  here");
        assert_eq!(value("\"a # b\" c # d"), "a # b c");
        assert_eq!(value(r#""\t\n\b\\\"""#), "\t\n\u{8}\\\"");
        assert_eq!(value("one \\\n  two"), "one   two");
        assert_eq!(value("one \\\r\n  two\r\n"), "one   two");
        assert_eq!(value("one \\\n  # comment"), "one ");
        assert_eq!(value("\"  kept  \"  "), "  kept  ");
        assert_eq!(value("a\"\"b"), "ab");
        assert_eq!(value(""), "");
        assert_eq!(value("x # comment \\"), "x");
    }

    #[test]
    fn a_key_alone_is_true_and_crlf_is_a_line_break() {
        assert_eq!(
            values("\u{feff}[core]\r\nbare\r\nx = y\r\n"),
            [("core.bare".to_owned(), None), ("core.x".to_owned(), Some("y".to_owned()))]
        );
    }

    #[test]
    fn a_key_before_any_section_is_nothing() {
        assert_eq!(values("stray = 1\n[a]\nb = c\n").len(), 1);
    }

    #[test]
    fn refuses_what_git_refuses() {
        for (text, error) in [
            ("key.x = 1", SyntaxError::Key { line: 1 }),
            ("[a]\n1 = 2", SyntaxError::Key { line: 2 }),
            ("[a]\nb c", SyntaxError::Key { line: 2 }),
            ("[a\nb", SyntaxError::Section { line: 1 }),
            ("[]", SyntaxError::Section { line: 1 }),
            ("[a \"b\nc\"]", SyntaxError::Section { line: 1 }),
            ("[a \"b\" ]", SyntaxError::Section { line: 1 }),
            ("[a]\nb = \"open\n", SyntaxError::Value { line: 2 }),
            ("[a]\nb = \\q", SyntaxError::Value { line: 2 }),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(error), "{text:?}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_not_written() {
        let mut entry = parse(b"[a \"b\"]\nc = d").unwrap().remove(0);
        entry.subsection = Some(b"x\ny".to_vec());
        assert_eq!(render(&[entry]), None);
    }

    proptest! {
        #[test]
        fn render_then_parse_is_the_identity(
            raw in proptest::collection::vec(
                ("[a-z][a-z0-9-]{0,5}",
                 proptest::option::of(proptest::collection::vec(any::<u8>()
                    .prop_filter("expressible", |b| !matches!(b, 0 | b'\n')), 0..8)),
                 "[a-z][a-z0-9-]{0,5}",
                 proptest::option::of(proptest::collection::vec(1_u8.., 0..20))),
                0..6)
        ) {
            let entries: Vec<Entry> = raw
                .into_iter()
                .map(|(section, subsection, key, value)| Entry { section, subsection, key, value, line: 0 })
                .collect();
            let text = render(&entries).unwrap();
            let mut again = parse(&text).unwrap();
            for entry in &mut again {
                entry.line = 0;
            }
            prop_assert_eq!(again, entries);
        }

        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
