// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user's own rules: `[[guard.rules]]` of the settings.

use serde::{Deserialize, Serialize};

use super::command::Reading;
use super::verdict::{Level, Origin, Reason};

/// Longer patterns aren't taken, in bytes.
const LONGEST: usize = 4096;

/// One rule. The first that matches a line counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rule {
    /// What it is called in reasons.
    pub name: String,
    /// What to do: `allow`, `warn`, `confirm-once`, `confirm`, `block`.
    pub action: Level,
    /// Lines in which this is.
    pub substring: Option<String>,
    /// Lines that begin so.
    pub prefix: Option<String>,
    /// Whole lines: `*` and `?` stand for anything, `[…]` for one of some characters.
    pub glob: Option<String>,
    /// Commands of this name, wherever in the line they are.
    pub command: Option<String>,
    /// Of such a command, patterns of which each must match one of its arguments.
    pub args: Vec<String>,
    /// Only of lines from there; empty: from anywhere.
    pub origins: Vec<Origin>,
    /// What to tell the user.
    pub words: Option<String>,
}

/// A rule that can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("guard rule {name}: {problem}")]
pub struct RuleError {
    /// Its name, or its number.
    pub name: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Rule {
    /// Looks whether a rule can be meant; `number` counted from 1.
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
            [_] if self.command.is_none() && !self.args.is_empty() => "args belong to command",
            [_] => return Ok(()),
            _ => "it has more than one of substring, prefix, glob, command",
        };
        let name = if self.name.is_empty() { number.to_string() } else { self.name.clone() };
        Err(RuleError { name, problem })
    }

    /// Where in the line it matches. A rule that allows must match all that the line runs: what else is in the line
    /// wasn't meant.
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
        // An allowed pattern's stars don't let further commands in.
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

/// Whether all of `text` matches a pattern; here a star also matches slashes.
fn glob(pattern: &str, text: &str) -> bool {
    super::wrapping::matches(pattern, text, false)
}
