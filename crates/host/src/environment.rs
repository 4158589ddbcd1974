// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A snapshot of environment variables, which callers pass to this crate.
//!
//! No code in this crate reads the process's own environment. So a test needs no real home, and two questions in one
//! launch can't get different answers.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A snapshot of environment variables. The last of two equal names wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

impl Environment {
    /// An environment without variables.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// The value of `name`. A variable that is set but empty counts as unset, as in the XDG specification and most
    /// tools.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// All variables that are set, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The value of `name` where it is an absolute path. Relative values are ignored. The XDG specification requires
    /// that for its own variables. For other variables a project could influence a toolchain's root that depends on
    /// the working directory.
    #[must_use]
    pub fn absolute(&self, name: &str) -> Option<&Path> {
        self.get(name).map(Path::new).filter(|path| path.is_absolute())
    }

    /// The absolute directories of a `:`-separated list such as `PATH` or `GOPATH`.
    #[must_use]
    pub fn absolute_list(&self, name: &str) -> Vec<PathBuf> {
        self.get(name).map_or_else(Vec::new, |value| {
            std::env::split_paths(value).filter(|path| path.is_absolute()).collect()
        })
    }
}

impl<K: Into<OsString>, V: Into<OsString>> FromIterator<(K, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Self { variables: pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_values_and_relative_paths_do_not_count() {
        let environment = Environment::from_iter([("A", ""), ("B", "x/y"), ("C", "/x")]);
        assert_eq!(environment.get("A"), None);
        assert_eq!(environment.absolute("B"), None);
        assert_eq!(environment.absolute("C"), Some(Path::new("/x")));
        assert_eq!(environment.get("D"), None);
    }

    #[test]
    fn lists_keep_only_absolute_entries() {
        let environment = Environment::from_iter([("PATH", "/a::b:/c")]);
        assert_eq!(environment.absolute_list("PATH"), [PathBuf::from("/a"), PathBuf::from("/c")]);
    }
}
