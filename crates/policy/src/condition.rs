// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions of features: what must be true on a host. The facts are only looked up; no program is run for them.

use std::fmt;

use crate::pattern::{PathPattern, PatternError};
use crate::suggest;

/// A fact about a host that can be true or false.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fact {
    /// A file exists at this path.
    Exists(PathPattern),
    /// A program of this name is on `PATH`.
    Program(String),
    /// A variable is set; if a value is given, to this value.
    Variable(String, Option<String>),
    /// Another feature is present.
    Feature(String),
    /// The processor is of this kind, as printed by `uname -m`.
    Machine(String),
}

/// A fact that must be true, or must be false.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The fact.
    pub fact: Fact,
    /// The fact must be false (`not` precedes it).
    pub negated: bool,
}

/// Why a text is no valid condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// The first word starts no condition.
    #[error("no condition begins with {word:?}")]
    Unknown {
        /// The word.
        word: String,
        /// The most similar known word.
        nearest: Option<&'static str>,
    },
    /// No word or more than one word follows.
    #[error("`{word}` takes one word")]
    Operand {
        /// The word.
        word: &'static str,
    },
    /// The path isn't valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

const WORDS: [&str; 5] = ["exists", "program", "variable", "feature", "machine"];

impl ConditionError {
    /// What to write instead.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Unknown { nearest: Some(nearest), .. } => format!("did you mean `{nearest}`?"),
            Self::Unknown { .. } => format!("conditions: {}; `not` in front negates one", WORDS.join(", ")),
            Self::Operand { word } => format!("write `{word} NAME`"),
            Self::Pattern(error) => return error.hint(),
        })
    }
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// When the text is no valid condition.
    pub fn new(text: &str) -> Result<Self, ConditionError> {
        let text = text.trim();
        let (negated, text) = match text.strip_prefix("not ") {
            Some(rest) => (true, rest.trim_start()),
            None => (false, text),
        };
        let (word, operand) = text.split_once(' ').unwrap_or((text, ""));
        let operand = operand.trim();
        let Some(word) = WORDS.into_iter().find(|known| *known == word) else {
            return Err(ConditionError::Unknown {
                word: word.to_owned(),
                nearest: suggest::nearest(word, WORDS),
            });
        };
        if word == "exists" {
            return Ok(Self { fact: Fact::Exists(PathPattern::new(operand)?), negated });
        }
        if operand.is_empty() || operand.contains(char::is_whitespace) {
            return Err(ConditionError::Operand { word });
        }
        let fact = match word {
            "program" if operand.contains('/') => return Err(ConditionError::Operand { word }),
            "program" => Fact::Program(operand.to_owned()),
            "feature" => Fact::Feature(operand.to_owned()),
            "machine" => Fact::Machine(operand.to_owned()),
            _ => match operand.split_once('=') {
                Some((name, value)) => Fact::Variable(name.to_owned(), Some(value.to_owned())),
                None => Fact::Variable(operand.to_owned(), None),
            },
        };
        Ok(Self { fact, negated })
    }
}

/// In the form in which a file states it.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("not ")?;
        }
        match &self.fact {
            Fact::Exists(path) => write!(f, "exists {path}"),
            Fact::Program(name) => write!(f, "program {name}"),
            Fact::Variable(name, None) => write!(f, "variable {name}"),
            Fact::Variable(name, Some(value)) => write!(f, "variable {name}={value}"),
            Fact::Feature(name) => write!(f, "feature {name}"),
            Fact::Machine(name) => write!(f, "machine {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read_and_printed() {
        for text in [
            "exists /usr/lib/x y/*.so",
            "program gocryptfs",
            "not variable WAYLAND_DISPLAY",
            "variable XDG_SESSION_TYPE=wayland",
            "feature gtk3",
            "machine x86_64",
        ] {
            assert_eq!(Condition::new(text).unwrap().to_string(), text);
        }
        for text in ["", "exists", "program", "program a b", "program /bin/sh", "command -v x", "not"] {
            assert!(Condition::new(text).is_err(), "{text:?}");
        }
        assert_eq!(Condition::new("exist /x").unwrap_err().hint().unwrap(), "did you mean `exists`?");
    }
}
