// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which environment variables the command inherits, and why.
//!
//! This runs at every launch, on some fifty variables. So it matches bytes with a hand-written `*` and compiles
//! nothing. [`Filter`] is plain data and can be stored in a plan.

use serde::{Deserialize, Serialize};

use crate::layer::{Layer, Origin, Sourced, Strength};
use crate::value::ValueError;

mod builtin;
mod secret;

pub(crate) use secret::has_token;

/// One statement of `[environment]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvironmentRule {
    /// The command inherits variables whose names match.
    Keep(String),
    /// The command doesn't inherit variables whose names match.
    Remove(String),
    /// The variable has this value, whatever value the caller has.
    Set {
        /// Its name. Not a pattern.
        name: String,
        /// Its value.
        value: String,
    },
}

impl EnvironmentRule {
    /// Keeps variables whose names match. `*` stands for any characters.
    ///
    /// # Errors
    /// When no variable can have this name.
    pub fn keep(glob: &str) -> Result<Self, ValueError> {
        Ok(Self::Keep(checked_name(glob)?))
    }

    /// Removes variables whose names match. `*` stands for any characters.
    ///
    /// # Errors
    /// When no variable can have this name.
    pub fn remove(glob: &str) -> Result<Self, ValueError> {
        Ok(Self::Remove(checked_name(glob)?))
    }

    /// Gives a variable a value.
    ///
    /// # Errors
    /// When no variable can have this name or value.
    pub fn set(name: &str, value: &str) -> Result<Self, ValueError> {
        let name = checked_name(name)?;
        if value.contains('\0') {
            return Err(ValueError::VariableValue { name });
        }
        Ok(Self::Set { name, value: value.to_owned() })
    }

    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Keep(glob) | Self::Remove(glob) => matches(glob.as_bytes(), name),
            Self::Set { name: exact, .. } => exact.as_bytes() == name,
        }
    }

    /// A greater value is more specific. Between equally specific rules, removing beats setting beats keeping.
    fn specificity(&self) -> (bool, usize, usize, u8) {
        let (text, glob, strictness) = match self {
            Self::Keep(text) => (text, true, 0),
            Self::Set { name, .. } => (name, false, 1),
            Self::Remove(text) => (text, true, 2),
        };
        let star = text.find('*').filter(|_| glob);
        (
            star.is_none(),
            star.unwrap_or(text.len()),
            text.bytes().filter(|byte| *byte != b'*').count(),
            strictness,
        )
    }

    /// Whether it lets a variable in that `lock` keeps out. A locked value can't be changed by any other rule.
    fn loosens(&self, lock: &Self) -> bool {
        match (lock, self) {
            (Self::Keep(_), _) | (Self::Remove(_), Self::Remove(_)) => false,
            (Self::Remove(_), _) => true,
            (Self::Set { .. }, _) => self != lock,
        }
    }
}

fn checked_name(name: &str) -> Result<String, ValueError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ValueError::Variable { name: name.into() });
    }
    Ok(name.to_owned())
}

/// Whether `name` matches `glob`. `*` stands for any bytes, or none.
///
/// The plain beginning and end are compared first. They decide nearly every variable at once, and every glob with one
/// star. Only the last star in the middle is ever retried.
#[must_use]
pub fn matches(glob: &[u8], name: &[u8]) -> bool {
    let Some(first) = glob.iter().position(|byte| *byte == b'*') else {
        return glob == name;
    };
    let last = glob.iter().rposition(|byte| *byte == b'*').unwrap_or(first);
    let (front, back) = (&glob[..first], &glob[last + 1..]);
    let Some(rest) = name.strip_prefix(front) else {
        return false;
    };
    match rest.strip_suffix(back) {
        Some(middle) => first == last || matches_middle(&glob[first..=last], middle),
        None => false,
    }
}

fn matches_middle(glob: &[u8], name: &[u8]) -> bool {
    let (mut g, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        if glob.get(g) == Some(&b'*') {
            retry = Some((g, n));
            g += 1;
        } else if glob.get(g) == Some(&name[n]) {
            g += 1;
            n += 1;
        } else if let Some((star, from)) = retry {
            retry = Some((star, from + 1));
            g = star + 1;
            n = from + 1;
        } else {
            return false;
        }
    }
    glob[g..].iter().all(|byte| *byte == b'*')
}

/// What happens to one variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate<'a> {
    /// It is inherited.
    Kept,
    /// It is not inherited.
    Removed,
    /// It has this value.
    Set(&'a str),
}

/// The reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason<'a> {
    /// No rule matches it, so it is inherited.
    Unmentioned,
    /// This entry of the built-in list removes it.
    BuiltIn(&'static str),
    /// Its value holds this secret.
    Secret(&'static str),
    /// A rule of the policy.
    Rule(&'a Sourced<EnvironmentRule>),
}

/// The rules of a policy, in the order in which they are evaluated.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Filter {
    /// Sorted by rank; inside a rank the most specific first.
    rules: Vec<Sourced<EnvironmentRule>>,
}

impl Filter {
    /// Sorts rules for evaluation. The given `rules` are sorted by rank.
    pub(crate) fn new(mut rules: Vec<Sourced<EnvironmentRule>>) -> Self {
        // The sort is stable. Reversed first, so that the later one of two equal statements wins.
        rules.reverse();
        rules.sort_by_key(|rule| (rule.rank(), std::cmp::Reverse(rule.value.specificity())));
        Self { rules }
    }

    /// Gives a variable a value that only the launch knows. Locks and the command line override it.
    ///
    /// # Errors
    /// When no variable can have this name or value.
    pub fn give(&mut self, name: &str, value: &str) -> Result<(), ValueError> {
        let value = EnvironmentRule::set(name, value)?;
        let origin = Origin { layer: Layer::CommandLine, ..Origin::built_in() };
        self.rules.push(Sourced { value, origin, strength: Strength::Default });
        self.rules.sort_by_key(|rule| (rule.rank(), std::cmp::Reverse(rule.value.specificity())));
        Ok(())
    }

    /// What happens to the variable `name`, and why.
    #[must_use]
    pub fn judge(&self, name: &[u8]) -> (Fate<'_>, Reason<'_>) {
        let mut holds: Option<&Sourced<EnvironmentRule>> = None;
        let mut lock: Option<&Sourced<EnvironmentRule>> = None;
        for rule in &self.rules {
            // The first match of a rank is its most specific one; the other matches are ignored.
            let answered = [holds, lock].into_iter().flatten();
            if !rule.value.matches(name) || answered.into_iter().any(|r| r.rank() == rule.rank()) {
                continue;
            }
            if let Some(lock) = lock
                && rule.origin.layer > lock.origin.layer
                && rule.value.loosens(&lock.value)
            {
                continue;
            }
            if rule.strength == Strength::Locked {
                lock = Some(rule);
            }
            holds = Some(rule);
        }
        match holds {
            Some(rule) => {
                let fate = match &rule.value {
                    EnvironmentRule::Keep(_) => Fate::Kept,
                    EnvironmentRule::Remove(_) => Fate::Removed,
                    EnvironmentRule::Set { value, .. } => Fate::Set(value),
                };
                (fate, Reason::Rule(rule))
            }
            None => match builtin::removes(name) {
                Some(entry) => (Fate::Removed, Reason::BuiltIn(entry)),
                None => (Fate::Kept, Reason::Unmentioned),
            },
        }
    }

    /// Like [`judge`](Self::judge), for a variable with its value. A variable that no rule is about isn't inherited if its
    /// value holds a secret.
    #[must_use]
    pub fn judge_value(&self, name: &[u8], value: &[u8]) -> (Fate<'_>, Reason<'_>) {
        let judged = self.judge(name);
        match judged.1 {
            // Paths are the most of what is inherited, and neither URLs nor tokens.
            Reason::Unmentioned if value.first() != Some(&b'/') => match secret::shape(value) {
                Some(what) => (Fate::Removed, Reason::Secret(what)),
                None => judged,
            },
            _ => judged,
        }
    }

    /// The variables that the policy gives a value: name, value, and the rule's origin.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str, &Origin)> {
        self.rules.iter().filter_map(|rule| match (&rule.value, self.judged(rule)) {
            (EnvironmentRule::Set { name, value }, true) => {
                Some((name.as_str(), value.as_str(), &rule.origin))
            }
            _ => None,
        })
    }

    /// Whether this very rule decides about its variable.
    fn judged(&self, rule: &Sourced<EnvironmentRule>) -> bool {
        let EnvironmentRule::Set { name, .. } = &rule.value else {
            return false;
        };
        matches!(self.judge(name.as_bytes()).1, Reason::Rule(by) if std::ptr::eq(by, rule))
    }

    /// The environment inside: the variables kept from `inherited`, then those that the policy sets.
    pub fn apply<'a, 'v: 'a>(
        &'a self,
        inherited: impl IntoIterator<Item = (&'v [u8], &'v [u8])>,
    ) -> Vec<(&'a [u8], &'a [u8])> {
        let mut inside: Vec<(&[u8], &[u8])> = inherited
            .into_iter()
            .filter(|(name, value)| self.judge_value(name, value).0 == Fate::Kept)
            .collect();
        inside.extend(self.values().map(|(name, value, _)| (name.as_bytes(), value.as_bytes())));
        inside
    }

    /// The variables of `inherited` that are removed or changed, and why.
    pub fn changed<'a, 'v: 'a>(
        &'a self,
        inherited: impl IntoIterator<Item = (&'v [u8], &'v [u8])>,
    ) -> Vec<(&'v [u8], Fate<'a>, Reason<'a>)> {
        inherited
            .into_iter()
            .filter_map(|(name, value)| match self.judge_value(name, value) {
                (Fate::Kept, _) => None,
                (fate, reason) => Some((name, fate, reason)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
