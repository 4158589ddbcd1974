// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's own rules: `[[guard.rules]]` in the settings.

use serde::{Deserialize, Serialize};

use super::command::Reading;
use super::verdict::{Level, Origin, Reason};

/// Longer patterns are refused, in bytes.
const LONGEST: usize = 4096;

/// One rule. The first that matches a line counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// The name that appears in reasons.
    pub name: String,
    /// What to do: `allow`, `warn`, `confirm-once`, `confirm`, `block`.
    pub action: Level,
    /// Matches lines that contain this text.
    pub substring: Option<String>,
    /// Matches lines that begin with this text.
    pub prefix: Option<String>,
    /// Matches whole lines: `*` and `?` stand for any characters, `[…]` for one of some characters.
    pub glob: Option<String>,
    /// Matches commands of this name, at any place in the line.
    pub command: Option<String>,
    /// Patterns for that command's arguments: each pattern must match one argument.
    pub args: Vec<String>,
    /// Matches only lines of these origins; empty: of any origin.
    pub origins: Vec<Origin>,
    /// What to tell the user.
    pub words: Option<String>,
}

/// A rule that is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("guard rule {name}: {problem}")]
pub struct RuleError {
    /// The rule's name, or its number.
    pub name: String,
    /// What is wrong with the rule.
    pub problem: &'static str,
}

impl Rule {
    /// Checks that a rule is valid; `number` is counted from 1.
    ///
    /// # Errors
    /// [`RuleError`].
    pub fn check(&self, number: usize) -> Result<(), RuleError> {
        let texts = [&self.substring, &self.prefix, &self.glob, &self.command];
        let given: Vec<&String> = texts.into_iter().flatten().collect();
        let problem = match given.as_slice() {
            [] => "it needs one of substring, prefix, glob, command",
            [text] if text.is_empty() => "an empty pattern would match every line",
            [text] if text.len() > LONGEST => "its pattern is longer than 4096 bytes",
            [_] if self.command.is_none() && !self.args.is_empty() => "args needs command",
            [_] => return Ok(()),
            _ => "it has more than one of substring, prefix, glob, command",
        };
        let name = if self.name.is_empty() { number.to_string() } else { self.name.clone() };
        Err(RuleError { name, problem })
    }

    /// Where in the line the rule matches. A rule that allows must match everything that the line runs, because the
    /// user didn't allow anything else in it.
    pub(super) fn matches(
        &self,
        line: &str,
        origin: Origin,
        reading: &Reading,
    ) -> Option<std::ops::Range<usize>> {
        if !self.origins.is_empty() && !self.origins.contains(&origin) {
            return None;
        }
        let allows = self.action == Level::Allow;
        if let Some(name) = &self.command {
            let mut found = None;
            for command in &reading.commands {
                let same = command.name() == name
                    && self
                        .args
                        .iter()
                        .all(|pattern| command.arguments().iter().any(|word| glob(pattern, &word.value)));
                if same {
                    found.get_or_insert(command.span.clone());
                } else if allows {
                    return None;
                }
            }
            return found.filter(|_| !allows || reading.doubt.is_none());
        }
        if allows && (reading.commands.len() > 1 || reading.doubt.is_some()) && self.glob.is_none() {
            return None;
        }
        if let Some(text) = &self.substring {
            return line.find(text.as_str()).map(|at| at..at + text.len());
        }
        if let Some(text) = &self.prefix {
            let trimmed = line.trim_start();
            let at = line.len() - trimmed.len();
            return trimmed.starts_with(text.as_str()).then(|| at..at + text.len());
        }
        let pattern = self.glob.as_ref()?;
        // The stars of an allowed pattern must not match further commands.
        let single = !allows || reading.commands.len() <= 1 && reading.doubt.is_none();
        (single && glob(pattern, line.trim())).then_some(0..line.len())
    }

    pub(super) fn reason(&self, span: std::ops::Range<usize>) -> Reason {
        let words = match (&self.words, self.action) {
            (Some(words), _) => words.clone(),
            (None, Level::Block) => "A rule of yours forbids it".to_owned(),
            (None, _) => "A rule of yours matches".to_owned(),
        };
        Reason {
            rule: format!("rules/{}", self.name),
            level: self.action,
            span,
            words,
            reference: String::new(),
        }
    }
}

/// Whether a pattern matches all of `text`. A star here also matches slashes.
fn glob(pattern: &str, text: &str) -> bool {
    super::wrapping::matches(pattern, text, false)
}
