// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an entry of `protect_names` or `allow_names` is about: a name or a group.

use std::fmt;

use serde::{Serialize, Serializer};

use super::builtin::groups;
use super::{BuiltInName, NameError, NamePattern};
use crate::suggest;

/// The prefix of an entry that is about a group.
pub const GROUP: &str = "group:";

/// A name, or all built-in names of a group.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSubject {
    /// The built-in names of a group. Contains the whole entry, `group:ci`.
    Group(String),
    /// One name.
    Name(NamePattern),
}

impl NameSubject {
    /// Parses an entry.
    ///
    /// # Errors
    /// When the text is invalid: see [`NameError`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        let Some(group) = text.strip_prefix(GROUP) else { return NamePattern::new(text).map(Self::Name) };
        if groups().any(|known| known == group) {
            return Ok(Self::Group(text.to_owned()));
        }
        let suggestion = suggest::nearest(group, groups()).map(str::to_owned);
        Err(NameError::Group { group: group.to_owned(), suggestion })
    }

    /// The text of the entry.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Group(entry) => entry,
            Self::Name(name) => name.as_str(),
        }
    }

    /// Whether the entry is about this built-in name.
    #[must_use]
    pub fn covers(&self, name: &BuiltInName) -> bool {
        match self {
            Self::Group(entry) => entry.strip_prefix(GROUP) == Some(name.group.as_str()),
            Self::Name(own) => own.as_str() == name.rule.path,
        }
    }
}

impl fmt::Debug for NameSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl Serialize for NameSubject {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::built_in;

    #[test]
    fn a_group_is_known_or_refused_with_a_hint() {
        for group in groups() {
            let subject = NameSubject::new(&format!("{GROUP}{group}")).unwrap();
            let covered = built_in().iter().filter(|name| subject.covers(name));
            assert!(
                covered.clone().count() > 0 && covered.clone().all(|name| name.group == group),
                "{group}"
            );
        }
        let error = NameSubject::new("group:run-by-hands").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no group \"run-by-hands\" of protected names; did you mean \"run-by-hand\"?"
        );
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("`palisade explain --names`") && hint.contains("`group:run-by-hand`"),
            "{hint}"
        );
        let hint = NameSubject::new("group:").unwrap_err().hint().unwrap();
        assert!(hint.contains("`group:version-control`"), "{hint}");
    }

    #[test]
    fn what_names_no_group_is_a_name() {
        let group = NameSubject::new("group").unwrap();
        assert!(matches!(&group, NameSubject::Name(name) if name.as_str() == "group"));
        // A file with this very name.
        assert!(matches!(NameSubject::new("[g]roup:ci").unwrap(), NameSubject::Name(_)));
        assert!(NameSubject::new("./group:ci").is_err());
    }
}
