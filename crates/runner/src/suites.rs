// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `tests/suites.toml`: the special requirements of tests.

use std::path::Path;

use serde::Deserialize;

use crate::base::Base;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Suites {
    /// In the order of the file.
    #[serde(default, rename = "suite")]
    suites: Vec<Suite>,
    /// Variables that belong to the long run, too.
    #[serde(default, rename = "variable")]
    variables: Vec<Variable>,
}

/// A variable that makes tests more thorough. It is set for the long run, and if its files differ from the base.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    /// The value that is set.
    value: String,
    /// What the tests leave out if it isn't set.
    why: String,
    /// The files and directories on which the additional tests depend.
    files: Vec<String>,
}

/// The requirements of tests with a given prefix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    /// The prefix of their names: `CRATE/PROGRAM/TEST`.
    tests: String,
    /// The reason, for the reader of the file and of the list of what was left out.
    why: String,
    /// Not at the same time as another test of this group.
    #[serde(default)]
    serial: Option<String>,
    /// Not at the same time as any other test.
    #[serde(default)]
    exclusive: bool,
    /// Nothing else may run as the same user. Only root can give each test a user, so it is exclusive without root.
    #[serde(default)]
    needs_own_user: bool,
    /// How many tests it counts as.
    #[serde(default)]
    slots: Option<usize>,
    /// Seconds that one of them may take on an idle machine.
    #[serde(default)]
    limit: Option<u64>,
    /// For the long run; in an ordinary run only if one of these files or directories differs from the base.
    #[serde(default)]
    long: Vec<String>,
}

/// The requirements of one test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Special {
    /// The groups in which no other test may run at the same time.
    pub(crate) serial: Vec<String>,
    /// Whether no other test may run at the same time.
    pub(crate) exclusive: bool,
    /// How many tests it counts as, if not as one.
    pub(crate) slots: Option<usize>,
    /// Its limit in seconds, if not the usual one.
    pub(crate) limit: Option<u64>,
    /// If it belongs to the long run: the files on which it depends, and why it is left out otherwise.
    pub(crate) long: Option<(Vec<String>, String)>,
}

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SuitesError {
    #[error("can't read {}: {source}", path.display())]
    Read { path: std::path::PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Parse { path: std::path::PathBuf, source: Box<toml::de::Error> },
    #[error("{}: no test begins with {tests:?}", path.display())]
    Stale { path: std::path::PathBuf, tests: String },
}

impl Suites {
    /// Reads `path`.
    ///
    /// # Errors
    /// [`SuitesError`].
    pub(crate) fn read(path: &Path) -> Result<Suites, SuitesError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SuitesError::Read { path: path.to_owned(), source })?;
        toml::from_str(&text)
            .map_err(|source| SuitesError::Parse { path: path.to_owned(), source: Box::new(source) })
    }

    /// The requirements of a test, from all suites together.
    pub(crate) fn of(&self, name: &str) -> Special {
        let mut special = Special::default();
        for suite in self.suites.iter().filter(|suite| name.starts_with(&suite.tests)) {
            special.serial.extend(suite.serial.clone());
            special.exclusive |=
                suite.exclusive || suite.needs_own_user && !rustix::process::geteuid().is_root();
            special.slots = suite.slots.or(special.slots);
            special.limit = suite.limit.or(special.limit);
            if !suite.long.is_empty() {
                special.long = Some((suite.long.clone(), suite.why.clone()));
            }
        }
        special
    }

    /// The variables to set when everything is to run (`all`) or when the files of one differ from `base`, and what is
    /// left out because the others aren't set. A variable that is set already keeps its value.
    pub(crate) fn variables(&self, all: bool, base: &Base) -> (Vec<(String, String)>, Vec<String>) {
        let (mut set, mut left_out) = (Vec::new(), Vec::new());
        for variable in self.variables.iter().filter(|one| std::env::var_os(&one.name).is_none()) {
            if all || base.touches(&variable.files) {
                set.push((variable.name.clone(), variable.value.clone()));
            } else {
                left_out.push(variable.why.clone());
            }
        }
        (set, left_out)
    }

    /// Checks that every entry applies to a test of the complete list. One that doesn't is a mistake: a test was renamed.
    ///
    /// # Errors
    /// [`SuitesError::Stale`].
    pub(crate) fn check(&self, path: &Path, names: &[String]) -> Result<(), SuitesError> {
        for suite in &self.suites {
            if !names.iter().any(|name| name.starts_with(&suite.tests)) {
                return Err(SuitesError::Stale { path: path.to_owned(), tests: suite.tests.clone() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_set_for_all_or_where_their_files_differ() {
        let suites: Suites = toml::from_str(
            "[[variable]]\nname = 'PALISADE_TEST_OF_SUITES'\nvalue = 'v'\nwhy = 'w'\nfiles = ['crates/a']\n",
        )
        .unwrap();
        let set = (vec![("PALISADE_TEST_OF_SUITES".to_owned(), "v".to_owned())], Vec::new());
        let changed = |path: &str| Base::Changed(vec![path.into()]);
        assert_eq!(suites.variables(false, &changed("crates/a/x")), set);
        assert_eq!(suites.variables(true, &changed("docs")), set);
        assert_eq!(suites.variables(false, &changed("docs")), (Vec::new(), vec!["w".to_owned()]));
    }

    #[test]
    fn every_suite_that_fits_adds_what_it_says() {
        let suites: Suites = toml::from_str(
            "[[suite]]\ntests = 'a/'\nwhy = 'w'\nserial = 'one'\nlimit = 5\n\
             [[suite]]\ntests = 'a/b/'\nwhy = 'slow'\nlimit = 9\nlong = ['crates/a']\n",
        )
        .unwrap();
        let special = suites.of("a/b/c");
        assert_eq!(special.serial, ["one"]);
        assert_eq!(special.limit, Some(9));
        assert_eq!(special.long, Some((vec!["crates/a".into()], "slow".into())));
        assert_eq!(suites.of("b/a/c"), Special::default());
        assert!(suites.check(Path::new("f"), &["a/b/c".into()]).is_ok());
        assert!(suites.check(Path::new("f"), &["a/c".into()]).is_err());
    }
}
