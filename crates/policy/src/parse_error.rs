// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors in a policy file: what is wrong, where, and what to write instead.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use palisade_text::{harmless, harmless_lines, shown};

use crate::condition::ConditionError;
use crate::layer::{Layer, SCHEMA};
use crate::limits::AmountError;
use crate::names::NameError;
use crate::network::{NetworkError, masked};
use crate::parse::{LARGEST_FILE, MOST_ENTRIES};
use crate::pattern::PatternError;
use crate::reply::ReplyError;
use crate::value::ValueError;

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The file is too large.
    #[error("the file has {size} bytes; a policy has at most {LARGEST_FILE}")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// The file has too many entries.
    #[error("the file has more than {MOST_ENTRIES} entries")]
    TooManyEntries,
    /// The text isn't valid TOML.
    #[error("the file is not valid TOML: {message}")]
    Syntax {
        /// The TOML parser's message.
        message: String,
    },
    /// `schema` is missing.
    #[error("the file does not say `schema = {SCHEMA}`")]
    MissingSchema,
    /// `schema` has an unknown value.
    #[error("schema {found} is not known; this version reads schema {SCHEMA}")]
    UnsupportedSchema {
        /// The number.
        found: i64,
    },
    /// A key isn't known in this section.
    #[error("unknown key `{key}`{}", in_section(within))]
    UnknownKey {
        /// The key.
        key: String,
        /// The section; empty at the top level.
        within: &'static str,
        /// The most similar known key.
        suggestion: Option<&'static str>,
        /// All known keys.
        known: Vec<&'static str>,
    },
    /// A value has the wrong type.
    #[error("`{key}` takes {expected}, not {found}")]
    WrongType {
        /// The key.
        key: String,
        /// The expected type.
        expected: &'static str,
        /// The type found.
        found: &'static str,
    },
    /// A word is not one of the accepted ones.
    #[error("`{key}` can't be {value:?}")]
    UnknownValue {
        /// The key.
        key: String,
        /// The word.
        value: String,
        /// The accepted words.
        possible: Vec<&'static str>,
        /// The most similar of them.
        suggestion: Option<&'static str>,
    },
    /// A list has a new name.
    #[error("`{key}` takes a word; the list of paths is `{now}`")]
    Renamed {
        /// The old key.
        key: String,
        /// The list's new name.
        now: &'static str,
    },
    /// A layer that may not lock contains a lock.
    #[error("a {layer} policy can't lock anything")]
    LockNotAllowed {
        /// The layer.
        layer: Layer,
    },
    /// A number is out of range.
    #[error("`{key}` is a number from 0 to {largest}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The largest accepted one.
        largest: u64,
    },
    /// The pattern isn't valid.
    #[error("{0}")]
    Pattern(#[source] PatternError),
    /// The name can't be protected.
    #[error("{0}")]
    Name(#[source] NameError),
    /// A statement about the network isn't valid.
    #[error("{0}")]
    Network(#[source] NetworkError),
    /// The condition isn't valid.
    #[error("{0}")]
    Condition(#[source] ConditionError),
    /// A project's file contains a hook.
    #[error("a project file can't run programs outside the sandbox")]
    HookNotAllowed,
    /// A hook states no program, or two.
    #[error("a hook runs either a `command` or a `profile`")]
    HookRuns,
    /// A reply to a call isn't valid.
    #[error("{0}")]
    Answer(#[source] ReplyError),
    /// The amount isn't valid.
    #[error("{0}")]
    Amount(#[source] AmountError),
    /// The value isn't valid.
    #[error("{0}")]
    Value(#[source] ValueError),
}

fn in_section(section: &str) -> String {
    if section.is_empty() { String::new() } else { format!(" in `[{section}]`") }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

impl Problem {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::MissingSchema | Self::UnsupportedSchema { .. } => {
                format!("begin the file with `schema = {SCHEMA}`")
            }
            Self::UnknownKey { suggestion: Some(word), .. }
            | Self::UnknownValue { suggestion: Some(word), .. } => format!("did you mean `{word}`?"),
            Self::UnknownKey { known, .. } => format!("known keys: {}", listed(known)),
            Self::UnknownValue { possible, .. } => {
                format!("possible values: {}", listed(possible))
            }
            Self::LockNotAllowed { .. } => "only files of the distribution and the administrator can lock; \
                 remove `locked.`"
                .to_owned(),
            Self::Renamed { now, .. } => format!("write `{now} = […]`"),
            Self::Pattern(error) => return error.hint(),
            Self::Name(error) => return error.hint(),
            Self::Network(error) => return error.hint(),
            Self::Condition(error) => return error.hint(),
            Self::HookNotAllowed => "put the hook into a profile of your own".to_owned(),
            Self::HookRuns => "command = [\"/usr/bin/PROGRAM\", \"ARGUMENT\"]".to_owned(),
            Self::Amount(error) => return error.hint().map(str::to_owned),
            Self::Answer(error) => return error.hint(),
            Self::Value(error) => return error.hint(),
            _ => return None,
        })
    }

    /// The short text at the caret.
    const fn label(&self) -> &'static str {
        match self {
            Self::UnknownKey { .. } => "not a key here",
            Self::WrongType { .. } | Self::Renamed { .. } => "wrong type",
            Self::UnknownValue { .. } => "not a possible value",
            Self::LockNotAllowed { .. } => "locked here",
            Self::HookNotAllowed | Self::HookRuns => "this hook",
            Self::Condition(_) => "this condition",
            Self::Answer(_) => "this answer",
            Self::OutOfRange { .. } | Self::Amount(_) => "this amount",
            Self::Pattern(_) => "this path",
            Self::Network(NetworkError::Host(_)) => "this host",
            Self::Network(_) => "this value",
            Self::Value(ValueError::Time { .. }) => "this time",
            Self::Value(_) | Self::Name(_) => "this name",
            Self::UnsupportedSchema { .. } => "this number",
            Self::TooLarge { .. } | Self::TooManyEntries | Self::MissingSchema => "",
            Self::Syntax { .. } => "here",
        }
    }
}

/// One error in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// What is wrong.
    pub problem: Problem,
    /// The file, if the text came from one.
    pub file: Option<Arc<Path>>,
    /// The line, from 1.
    pub line: u32,
    /// The column in characters, from 1.
    pub column: u32,
    pub(crate) span: Range<usize>,
    pub(crate) text: Arc<str>,
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.problem)
    }
}

/// One line: `/etc/palisade/config.toml:3:1: unknown key …`.
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file_name(), self.line, self.column)?;
        // The file may be untrusted: its text must not control the reader's terminal.
        write!(f, "{}", shown(&self.problem.to_string()))
    }
}

impl ParseError {
    fn file_name(&self) -> String {
        match &self.file {
            Some(file) => shown(&**file).to_string(),
            None => "policy".to_owned(),
        }
    }

    /// Several lines for users: the error, the lines of the file with a caret, and a hint.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        // Show only a few lines: a caret under a line of a megabyte would help no reader.
        let (start, line_start) = self.excerpt_start();
        let end = self.text[self.span.start..].find('\n').map_or(self.text.len(), |at| self.span.start + at);
        // The lines may contain a proxy's password, and users copy error messages.
        let excerpt = masked(&self.text[start..end]);
        // The file may be untrusted: its text must not control the reader's terminal. Escapes are longer than the
        // characters that they replace, so offsets change.
        let place = |at: usize| harmless_lines(excerpt.get(..at).unwrap_or(&excerpt)).len();
        let span = place(self.span.start - start)..place(self.span.end.min(end).max(self.span.start) - start);
        let excerpt = harmless_lines(&excerpt);
        let mut annotation = AnnotationKind::Primary.span(span);
        if !self.problem.label().is_empty() {
            annotation = annotation.label(self.problem.label());
        }
        let snippet =
            Snippet::source(&excerpt).line_start(line_start).path(self.file_name()).annotation(annotation);
        let mut report = Level::ERROR.primary_title(harmless(&self.problem.to_string())).element(snippet);
        if let Some(hint) = self.problem.hint() {
            report = report.element(Level::HELP.with_name("hint").message(harmless(&hint)));
        }
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[report])
    }

    /// The offset of the line with the error, and the line's number.
    fn excerpt_start(&self) -> (usize, usize) {
        let start = self.text[..self.span.start].rfind('\n').map_or(0, |at| at + 1);
        (start, self.line as usize)
    }
}
