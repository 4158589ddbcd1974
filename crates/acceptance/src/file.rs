// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that cases come from: `tests/acceptance/*.toml`.
//!
//! A file may begin with a table `[every]`. Its keys are those of a case and hold for each case of the
//! file that doesn't have the key itself.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::case::Case;

/// A file of cases that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory or a file in it can't be read.
    #[error("read {path}")]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// A file isn't what it should be.
    #[error("can't parse {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// A case isn't what it should be.
    #[error("can't parse {name} in {path}")]
    Case {
        /// The file.
        path: PathBuf,
        /// The case's name.
        name: String,
        /// Why.
        source: Box<toml::de::Error>,
    },
    /// Two cases have the same name: the result of one would be taken for that of the other.
    #[error("{path} has a second case {name:?}; the first is in {first}")]
    Twice {
        /// The file of the second.
        path: PathBuf,
        /// The file of the first.
        first: PathBuf,
        /// The name of both.
        name: String,
    },
}

/// All cases, in the order of the files' names and of the lines in them.
///
/// # Errors
/// If a file can't be read or says something that this module doesn't know, or if two cases have the same name.
pub fn load(directory: &Path) -> Result<Vec<Case>, LoadError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| LoadError::Read { path, source }
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read(directory))? {
        paths.push(entry.map_err(read(directory))?.path());
    }
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "toml")
            && path.file_name().is_some_and(|name| name != "features.toml")
    });
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).map_err(read(&path))?;
        let cases = parse(&text, &path)?;
        files.push((path, cases));
    }
    together(files)
}

/// The cases of all files, each with a name of its own.
fn together(files: Vec<(PathBuf, Vec<Case>)>) -> Result<Vec<Case>, LoadError> {
    let mut names: HashMap<String, PathBuf> = HashMap::new();
    let mut all = Vec::new();
    for (path, cases) in files {
        for case in &cases {
            if let Some(first) = names.insert(case.name.clone(), path.clone()) {
                return Err(LoadError::Twice { path, first, name: case.name.clone() });
            }
        }
        all.extend(cases);
    }
    Ok(all)
}

/// The cases of one file.
fn parse(text: &str, path: &Path) -> Result<Vec<Case>, LoadError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        every: toml::Table,
        case: Vec<toml::Table>,
    }
    let file: File = toml::from_str(text)
        .map_err(|source| LoadError::Parse { path: path.to_owned(), source: source.into() })?;
    let complete = |own: toml::Table| {
        let name = own.get("name").map_or_else(|| "a case without a name".into(), ToString::to_string);
        let mut case = file.every.clone();
        case.extend(own);
        case.try_into().map_err(|source: toml::de::Error| LoadError::Case {
            path: path.to_owned(),
            name,
            source: source.into(),
        })
    };
    file.case.into_iter().map(complete).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
[every]
source = 'every'
needs = ['git']
inside = 'true'
effect = 'reached'
[[case]]
name = 'one'
title = 'one'
[[case]]
name = 'two'
title = 'two'
needs = []
";

    #[test]
    fn a_case_has_what_every_case_has_unless_it_says_otherwise() {
        let cases = parse(FILE, Path::new("file.toml")).unwrap();
        assert_eq!(cases.iter().map(|case| case.source.as_str()).collect::<Vec<_>>(), ["every", "every"]);
        assert_eq!(cases[0].needs, ["git"]);
        assert!(cases[1].needs.is_empty());
    }

    #[test]
    fn a_wrong_case_is_named() {
        let error = parse(&FILE.replace("needs = []", "neds = []"), Path::new("file.toml")).unwrap_err();
        assert!(matches!(&error, LoadError::Case { name, .. } if name.contains("two")), "{error:?}");
        assert!(matches!(parse("[every]", Path::new("file.toml")), Err(LoadError::Parse { .. })));
        let unknown = FILE.replace("[every]", "[every]\nunknown = 1");
        assert!(matches!(parse(&unknown, Path::new("file.toml")), Err(LoadError::Case { .. })));
    }

    #[test]
    fn a_name_is_given_once_in_all_files() {
        let file = |name: &str, text: &str| (PathBuf::from(name), parse(text, Path::new(name)).unwrap());
        let second = FILE.replace("'one'", "'three'");
        let error = together(vec![file("a.toml", FILE), file("b.toml", &second)]).unwrap_err();
        assert_eq!(error.to_string(), "b.toml has a second case \"two\"; the first is in a.toml");
        let within = FILE.replace("'one'", "'two'");
        assert!(matches!(together(vec![file("a.toml", &within)]), Err(LoadError::Twice { .. })));
        let second = second.replace("'two'", "'four'");
        let cases = together(vec![file("a.toml", FILE), file("b.toml", &second)]).unwrap();
        assert_eq!(
            cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(),
            ["one", "two", "three", "four"]
        );
    }
}
