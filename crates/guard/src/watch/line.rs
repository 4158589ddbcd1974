// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats the log line of a decision, in fapolicyd's words (`syslog_format` of fapolicyd.conf(5)).

use crate::facts::{Facts, Start};
use std::fmt::Write;

/// The meaning of one word of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Rule,
    Decision,
    Permission,
    Auid,
    Uid,
    Gid,
    Session,
    Pid,
    Ppid,
    SubjectTrust,
    Comm,
    Exe,
    SubjectKind,
    Pattern,
    Colon,
    Path,
    Device,
    Kind,
    Trust,
    Hash,
}

/// Words before the colon: the decision and the process.
const BEFORE: &[(&str, Item)] = &[
    ("rule", Item::Rule),
    ("dec", Item::Decision),
    ("perm", Item::Permission),
    ("auid", Item::Auid),
    ("uid", Item::Uid),
    ("gid", Item::Gid),
    ("sessionid", Item::Session),
    ("pid", Item::Pid),
    ("ppid", Item::Ppid),
    ("trust", Item::SubjectTrust),
    ("comm", Item::Comm),
    ("exe", Item::Exe),
    ("dir", Item::Exe),
    ("ftype", Item::SubjectKind),
    ("pattern", Item::Pattern),
];

/// Words behind the colon: the file.
const BEHIND: &[(&str, Item)] = &[
    ("path", Item::Path),
    ("dir", Item::Path),
    ("device", Item::Device),
    ("ftype", Item::Kind),
    ("trust", Item::Trust),
    ("sha256hash", Item::Hash),
    ("filehash", Item::Hash),
];

/// Why a format is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// An unknown word.
    #[error("log.format: {} has no field \"{word}\"", if *.behind { "a file" } else { "a decision or process" })]
    Unknown {
        /// The word.
        word: String,
        /// Was it behind the colon?
        behind: bool,
    },
    /// No colon, or more than one.
    #[error("log.format: write one \":\" between the fields of the process and those of the file")]
    Colon,
}

/// A parsed format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format(Vec<(&'static str, Item)>);

impl Format {
    /// Parses a list like `rule,dec,perm,uid,exe,:,path,trust`.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn parse(format: &str) -> Result<Self, FormatError> {
        let mut items = Vec::new();
        let mut behind = false;
        for word in format.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            if word == ":" {
                if behind {
                    return Err(FormatError::Colon);
                }
                behind = true;
                items.push((":", Item::Colon));
                continue;
            }
            let known = if behind { BEHIND } else { BEFORE };
            let found = known.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            items.push(*found.ok_or_else(|| FormatError::Unknown { word: word.into(), behind })?);
        }
        if behind { Ok(Self(items)) } else { Err(FormatError::Colon) }
    }

    /// The line of a decision. Asks only for the facts that the line contains.
    #[must_use]
    pub fn line(&self, rule: Option<u32>, decision: &str, facts: &dyn Facts) -> String {
        let mut line = String::with_capacity(256);
        for (name, item) in &self.0 {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(name);
            if *item != Item::Colon {
                line.push('=');
                value(&mut line, *item, rule, decision, facts);
            }
        }
        line
    }
}

fn value(line: &mut String, item: Item, rule: Option<u32>, decision: &str, facts: &dyn Facts) {
    match item {
        Item::Rule => match rule {
            Some(rule) => number(line, rule),
            None => line.push('-'),
        },
        Item::Decision => line.push_str(decision),
        Item::Permission => {
            line.push_str(if facts.access() == crate::facts::Access::Execute { "execute" } else { "open" })
        }
        Item::Auid => number(line, facts.auid()),
        Item::Uid => number(line, facts.uids().first().copied().unwrap_or(u32::MAX)),
        Item::Gid => numbers(line, facts.gids()),
        Item::Session => number(line, facts.session()),
        Item::Pid => number(line, facts.pid()),
        Item::Ppid => number(line, facts.ppid()),
        Item::SubjectTrust => line.push(if facts.subject_trusted() { '1' } else { '0' }),
        Item::Comm => text(line, facts.comm()),
        Item::Exe => text(line, facts.exe()),
        Item::SubjectKind => text(line, facts.subject_kind().as_bytes()),
        Item::Pattern => line.push_str(match facts.start() {
            Start::Unknown => "?",
            Start::Normal => "normal",
            Start::LinkerItself => "ld_so",
            Start::Static => "static",
        }),
        Item::Colon => {}
        Item::Path => text(line, facts.path()),
        Item::Device => text(line, facts.device()),
        Item::Kind => text(line, facts.kind().as_bytes()),
        Item::Trust => line.push(if facts.trusted() { '1' } else { '0' }),
        Item::Hash => line.push_str(facts.hash().unwrap_or("?")),
    }
}

fn number(line: &mut String, number: u32) {
    // No login user: readers of fapolicyd's log know this as -1.
    let _cannot_fail = if number == u32::MAX { line.write_str("-1") } else { write!(line, "{number}") };
}

fn numbers(line: &mut String, list: &[u32]) {
    for (index, &each) in list.iter().enumerate() {
        if index > 0 {
            line.push(',');
        }
        number(line, each);
    }
}

/// Writes a name unchanged, except for what would end the line, draw on a terminal, be invisible or not be text. Those
/// bytes become `\xNN`. `palisade_text` would name characters instead of bytes, but fapolicyd's format has no other
/// escape.
pub fn text(line: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if palisade_text::is_hidden(character) || character == '\\' {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    let _cannot_fail = write!(line, "\\x{byte:02x}");
                }
            } else {
                line.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _cannot_fail = write!(line, "\\x{byte:02x}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        assert!(Format::parse("rule,dec,perm,auid,pid,exe,:,path,ftype,trust").is_ok());
        assert_eq!(
            Format::parse("rule,path,:"),
            Err(FormatError::Unknown { word: "path".into(), behind: false })
        );
        assert_eq!(Format::parse("rule,dec"), Err(FormatError::Colon));
        assert_eq!(Format::parse("rule,:,:"), Err(FormatError::Colon));
    }

    #[test]
    fn a_name_can_not_end_the_line() {
        let mut line = String::new();
        text(&mut line, b"/a b\n\x1b[2J\xff\\x0a\xe2\x80\xa8 \xc3\xa9");
        assert_eq!(line, "/a b\\x0a\\x1b[2J\\xff\\x5cx0a\\xe2\\x80\\xa8 é");
    }
}
