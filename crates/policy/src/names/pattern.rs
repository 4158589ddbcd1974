// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses names in `protect_names` and `allow_names`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::builtin::groups;
use super::subject::GROUP;
use crate::pattern::{PathPattern, PatternError, Token};

/// Why a text is no valid protected name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is no valid pattern.
    #[error("{0}")]
    Pattern(#[source] PatternError),
    /// It is bound to one place.
    #[error("a protected name applies at any depth, so it can't begin with `/`, `~` or a variable")]
    Placed,
    /// A component is `.`, `..` or empty.
    #[error("`{part}` can't be a part of a protected name")]
    Component {
        /// The component.
        part: String,
    },
    /// It consists of stars only.
    #[error("{name:?} would protect every name")]
    Everything {
        /// The text.
        name: String,
    },
    /// `group:` is followed by no known group.
    #[error("there is no group {group:?} of protected names{}", suggestion.as_deref().map(|near| format!("; did you mean {near:?}?")).unwrap_or_default())]
    Group {
        /// The text after the colon.
        group: String,
        /// The most similar group.
        suggestion: Option<String>,
    },
}

impl NameError {
    /// What to write instead, if that is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Pattern(error) => error.hint(),
            Self::Placed => Some("for one place use `protect_paths`".to_owned()),
            Self::Component { .. } => Some("write `.git/hooks`, without `./` in front".to_owned()),
            Self::Everything { .. } => {
                Some("to protect everything in a directory, remove the directory from `write`".to_owned())
            }
            Self::Group { .. } => {
                let groups: Vec<String> = groups().map(|group| format!("`{GROUP}{group}`")).collect();
                Some(format!("`palisade explain --names` lists them; write one of {}", groups.join(", ")))
            }
        }
    }
}

/// A valid name: components separated by `/`. Trailing slashes are removed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(String);

impl NamePattern {
    /// Checks a name.
    ///
    /// # Errors
    /// When the text is invalid: see [`NameError`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        let trimmed = text.trim_end_matches('/');
        let text = if trimmed.is_empty() { text } else { trimmed };
        // The syntax and its errors are those of paths.
        let pattern = PathPattern::new(text).map_err(NameError::Pattern)?;
        let tokens = pattern.tokens();
        if matches!(tokens.first(), Some(Token::Separator | Token::Home))
            || tokens.iter().any(|token| matches!(token, Token::Variable(_)))
        {
            return Err(NameError::Placed);
        }
        for part in text.split('/') {
            if matches!(part, "" | "." | "..") {
                return Err(NameError::Component { part: part.to_owned() });
            }
        }
        if tokens.iter().all(|token| matches!(token, Token::Star | Token::DoubleStar | Token::Separator)) {
            return Err(NameError::Everything { name: text.to_owned() });
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Serialize for NamePattern {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_meant_is_refused_with_a_hint() {
        let error = |text: &str| NamePattern::new(text).unwrap_err();
        assert_eq!(error(""), NameError::Pattern(PatternError::Empty));
        for placed in ["/etc/x", "/", "~", "~/.bashrc", "${home}/x", "a/${user}"] {
            assert_eq!(error(placed), NameError::Placed, "{placed}");
        }
        for part in ["./a", "a/./b", "a//b"] {
            assert!(matches!(error(part), NameError::Component { .. }), "{part}");
        }
        assert_eq!(error("a/../b"), NameError::Pattern(PatternError::ParentAfterName));
        assert_eq!(error("../b"), NameError::Component { part: "..".into() });
        for all in ["*", "**", "**/*", "*/**"] {
            assert_eq!(error(all), NameError::Everything { name: all.into() });
        }
        assert_eq!(error("a**"), NameError::Pattern(PatternError::PartialDoubleStar));
        assert!(error("/x").hint().unwrap().contains("protect_paths"));
    }

    #[test]
    fn what_a_shell_completes_is_understood() {
        assert_eq!(NamePattern::new(".vscode/").unwrap().as_str(), ".vscode");
        for name in [".git/hooks", "*.lock/x", ".git/modules/**/hooks", r"a\*b", "a=b", "x/[ab]?"] {
            assert_eq!(NamePattern::new(name).unwrap().as_str(), name);
        }
    }
}
