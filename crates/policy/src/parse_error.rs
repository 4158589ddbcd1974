// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is wrong with a policy file, where, and what to write instead.

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
    /// The file is larger than any policy.
    #[error("the file has {size} bytes; a policy has at most {LARGEST_FILE}")]
    TooLarge {
        /// Its size.
        size: usize,
    },
    /// The file states more than any policy.
    #[error("the file has more than {MOST_ENTRIES} entries")]
    TooManyEntries,
    /// It is no TOML.
    #[error("this is no TOML: {message}")]
    Syntax {
        /// What the TOML parser says.
        message: String,
    },
    /// `schema` isn't there.
    #[error("the file does not say `schema = {SCHEMA}`")]
    MissingSchema,
    /// `schema` is another number.
    #[error("schema {found} is not known; this version reads schema {SCHEMA}")]
    UnsupportedSchema {
        /// The number.
        found: i64,
    },
    /// A key that isn't known there.
    #[error("unknown key `{key}`{}", in_section(within))]
    UnknownKey {
        /// The key.
        key: String,
        /// The section, or nothing at the top.
        within: &'static str,
        /// The nearest known key.
        suggestion: Option<&'static str>,
        /// All known keys.
        known: Vec<&'static str>,
    },
    /// A value of another type.
    #[error("`{key}` takes {expected}, not {found}")]
    WrongType {
        /// The key.
        key: String,
        /// What it takes.
        expected: &'static str,
        /// What is there.
        found: &'static str,
    },
    /// A word that isn't one of the possible ones.
    #[error("`{key}` can't be {value:?}")]
    UnknownValue {
        /// The key.
        key: String,
        /// The word.
        value: String,
        /// The possible ones.
        possible: Vec<&'static str>,
        /// The nearest of them.
        suggestion: Option<&'static str>,
    },
    /// A list that has another name now.
    #[error("`{key}` takes a word; the list of paths is `{now}`")]
    Renamed {
        /// The key.
        key: String,
        /// The list's name.
        now: &'static str,
    },
    /// A lock in a layer that may not lock.
    #[error("a {layer} policy can't lock anything")]
    LockNotAllowed {
        /// The layer.
        layer: Layer,
    },
    /// A number that doesn't fit.
    #[error("`{key}` is a number from 0 to {largest}")]
    OutOfRange {
        /// The key.
        key: String,
        /// The largest possible one.
        largest: u64,
    },
    /// No pattern.
    #[error("{0}")]
    Pattern(#[source] PatternError),
    /// No name that can be protected.
    #[error("{0}")]
    Name(#[source] NameError),
    /// Nothing that can be said of the network.
    #[error("{0}")]
    Network(#[source] NetworkError),
    /// No condition.
    #[error("{0}")]
    Condition(#[source] ConditionError),
    /// A hook in a project's file.
    #[error("a project can't have programs run outside")]
    HookNotAllowed,
    /// A hook that runs nothing, or two things.
    #[error("a hook runs either a `command` or a `profile`")]
    HookRuns,
    /// No answer to a call.
    #[error("{0}")]
    Answer(#[source] ReplyError),
    /// No amount.
    #[error("{0}")]
    Amount(#[source] AmountError),
    /// No value.
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
            Self::LockNotAllowed { .. } => "only files of the distribution and the administrator lock; \
                 leave `locked.` out"
                .to_owned(),
            Self::Renamed { now, .. } => format!("write `{now} = […]`"),
            Self::Pattern(error) => return error.hint(),
            Self::Name(error) => return error.hint(),
            Self::Network(error) => return error.hint(),
            Self::Condition(error) => return error.hint(),
            Self::HookNotAllowed => "put it into your own profile".to_owned(),
            Self::HookRuns => "command = [\"/usr/bin/PROGRAM\", \"ARGUMENT\"]".to_owned(),
            Self::Amount(error) => return error.hint().map(str::to_owned),
            Self::Answer(error) => return error.hint(),
            Self::Value(error) => return error.hint(),
            _ => return None,
        })
    }

    /// The few words at the caret.
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

/// One thing wrong with one file.
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
        // A file that isn't trusted yet must not be able to drive the reader's terminal.
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

    /// Several lines for people: what, the lines of the file with a caret, and a hint.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        // Some lines are enough, and a caret under a line of a megabyte helps nobody.
        let (start, line_start) = self.excerpt_start();
        let end = self.text[self.span.start..].find('\n').map_or(self.text.len(), |at| self.span.start + at);
        // A proxy's password may stand there, and messages are shown around.
        let excerpt = masked(&self.text[start..end]);
        // A file that isn't trusted yet must not be able to drive the reader's terminal. Escapes are longer than what
        // they stand for.
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

    /// The start of the line that holds the error, and its number.
    fn excerpt_start(&self) -> (usize, usize) {
        let start = self.text[..self.span.start].rfind('\n').map_or(0, |at| at + 1);
        (start, self.line as usize)
    }
}
