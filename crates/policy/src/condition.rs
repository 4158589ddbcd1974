// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conditions of features: what must be so on a host. They are looked up; nothing is run for them.

use std::fmt;

use crate::pattern::{PathPattern, PatternError};
use crate::suggest;

/// Something that is so on a host, or isn't.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Fact {
    /// Something is there.
    Exists(PathPattern),
    /// A program of this name is on the path.
    Program(String),
    /// A variable is set; to this, if a value is given.
    Variable(String, Option<String>),
    /// Another feature is there.
    Feature(String),
    /// The processor is of this kind, as `uname -m` prints it.
    Machine(String),
}

/// A fact, or that it isn't so.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Condition {
    /// What.
    pub fact: Fact,
    /// `not` stands in front of it.
    pub negated: bool,
}

/// Why a text is no condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// It begins with a word that is none of a condition.
    #[error("no condition begins with {word:?}")]
    Unknown {
        /// The word.
        word: String,
        /// The nearest there is.
        nearest: Option<&'static str>,
    },
    /// Nothing, or more than one word, follows.
    #[error("`{word}` takes one word")]
    Operand {
        /// The word.
        word: &'static str,
    },
    /// The path is none.
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
            Self::Unknown { .. } => format!("there are {}, and `not` in front", WORDS.join(", ")),
            Self::Operand { word } => format!("write `{word} NAME`"),
            Self::Pattern(error) => return error.hint(),
        })
    }
}

impl Condition {
    /// Reads a condition.
    ///
    /// # Errors
    /// When it is none.
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

/// As it is written.
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
