// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The option `--filter`.

use regex_lite::Regex;

/// Selects rows by `WORKLOAD/NAME`.
#[derive(Clone, Debug)]
pub(crate) enum Filter {
    All,
    /// The text, and the regular expression if it is a valid one: `100 × true (` is only a text.
    Matching(String, Option<Regex>),
}

impl Filter {
    pub(crate) fn new(pattern: Option<&str>) -> Self {
        pattern.map_or(Self::All, |pattern| Self::Matching(pattern.to_owned(), Regex::new(pattern).ok()))
    }

    pub(crate) fn accepts(&self, workload: &str, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Matching(text, regex) => {
                let row = format!("{workload}/{name}");
                row.contains(text.as_str()) || regex.as_ref().is_some_and(|regex| regex.is_match(&row))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_text_and_expressions() {
        let accepts = |pattern: &str, row: (&str, &str)| Filter::new(Some(pattern)).accepts(row.0, row.1);
        assert!(accepts("git", ("git status", "bubblewrap")));
        assert!(accepts("^true/(bub|uns)", ("true", "unshare")));
        assert!(!accepts("^true/(bub|uns)", ("100 × true", "unshare")));
        assert!(accepts("a (", ("a (b", "c")));
        assert!(Filter::new(None).accepts("x", "y"));
    }
}
