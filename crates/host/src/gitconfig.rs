// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prepares the user's git configuration for a sandbox: it keeps only the settings that may be seen inside.
//!
//! Without any configuration, git inside has no user name and commits fail. The real file would bring tokens in
//! `http.extraheader` or `url.….insteadOf` and the credential helper inside. So the files are read here, the settings
//! on the list in `keep` are written to a new text, and the sandbox gets that text. Includes aren't followed: they
//! name further files, and conditional ones depend on the working directory.

pub mod edit;
mod keep;
pub mod syntax;

use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::file::{self, FileError, Links};
use syntax::{Entry, SyntaxError};

/// No configuration that a person writes is larger.
const CAP: usize = 1024 * 1024;

/// Configuration for use inside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sanitised {
    /// The text, in git's syntax; empty if no setting is kept.
    pub text: Vec<u8>,
    /// The files that were looked for, existing or not, in git's order. A cached plan fingerprints them.
    pub sources: Vec<PathBuf>,
    /// Names of the settings that were left out (`http.*.extraheader`), for `explain`. Never values or subsections:
    /// `url "https://TOKEN@host/"` has a secret in its subsection.
    pub dropped: Vec<String>,
}

/// Why the configuration couldn't be prepared.
#[derive(Debug, thiserror::Error)]
pub enum GitConfigError {
    /// A file is there but can't be read.
    #[error("can't read git's configuration: {0}")]
    File(#[from] FileError),
    /// A file isn't git configuration; git itself would stop, too.
    #[error("{path}: {error}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        error: SyntaxError,
    },
}

/// The user's own configuration files in the order in which git reads them.
#[must_use]
pub fn sources(home: &Path, environment: &Environment) -> Vec<PathBuf> {
    if let Some(only) = environment.absolute("GIT_CONFIG_GLOBAL") {
        return vec![only.to_owned()];
    }
    let xdg = environment.absolute("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), Path::to_path_buf);
    vec![xdg.join("git/config"), home.join(".gitconfig")]
}

/// Reads the user's configuration and keeps the settings that may be seen inside.
///
/// # Errors
/// [`GitConfigError`] when a file that exists can't be read or isn't git configuration.
pub fn sanitised(home: &Path, environment: &Environment) -> Result<Sanitised, GitConfigError> {
    let sources = sources(home, environment);
    let mut result = Sanitised::default();
    let mut kept: Vec<Entry> = Vec::new();
    for path in &sources {
        let text = match file::read(path, CAP, Links::Follow) {
            Ok(text) => text,
            Err(error) if error.is_absent() => continue,
            // `GIT_CONFIG_GLOBAL=/dev/null` is the usual way to say "none".
            Err(FileError::NotRegular { .. }) if path == Path::new("/dev/null") => continue,
            Err(error) => return Err(error.into()),
        };
        let entries =
            syntax::parse(&text).map_err(|error| GitConfigError::Syntax { path: path.clone(), error })?;
        for entry in entries {
            // Each entry must be expressible by itself, so that one unusual value doesn't invalidate the others.
            if keep::keeps(&entry) && syntax::render(std::slice::from_ref(&entry)).is_some() {
                kept.push(entry);
            } else {
                result.dropped.push(name_without_subsection(&entry));
            }
        }
    }
    result.text = syntax::render(&kept).unwrap_or_default();
    result.sources = sources;
    Ok(result)
}

fn name_without_subsection(entry: &Entry) -> String {
    let middle = if entry.subsection.is_some() { ".*." } else { "." };
    format!("{}{middle}{}", entry.section, entry.key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SECRETIVE: &str = r#"
[user]
    name = Ann "the" O'Neil
    email = ann@example.org
    signingkey = ABCD
[commit]
    gpgsign = true
    verbose
[credential]
    helper = store
[credential "https://example.org"]
    username = ann
[http "https://example.org"]
    extraheader = AUTHORIZATION: bearer SECRET
[url "https://token:SECRET@example.org/"]
    insteadOf = https://example.org/
[include]
    path = ~/.gitconfig-work
[includeIf "gitdir:~/work/"]
    path = x
[sendemail]
    smtppass = SECRET
[github]
    token = SECRET
[core]
    sshCommand = ssh -i ~/.ssh/id
    hooksPath = ~/hooks
    editor = vim
    AutoCRLF = input
[diff]
    algorithm = histogram
    external = SECRET
[diff "lockb"]
    textconv = bun
    binary = true
[filter "lfs"]
    clean = git-lfs clean -- %f
    required = true
[filter "crypt"]
    clean = SECRET
[alias]
    st = status -sb ; comment
    lg = "log --pretty=format:\"%h %s\""
[pull]
    rebase = true
[gpg]
    format = ssh
"#;

    fn home_with(config: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(".gitconfig"), config).unwrap();
        dir
    }

    #[test]
    fn keeps_what_is_harmless_and_drops_the_rest() {
        let home = home_with(SECRETIVE);
        let result = sanitised(home.path(), &Environment::empty()).unwrap();
        let text = String::from_utf8(result.text).unwrap();
        assert!(!text.contains("SECRET"), "{text}");
        for absent in ["signingkey", "gpg", "credential", "include", "ssh", "hooks", "textconv"] {
            assert!(!text.contains(absent), "{absent} in {text}");
        }
        let expected = [
            ("user.name", "Ann the O'Neil"),
            ("user.email", "ann@example.org"),
            ("core.editor", "vim"),
            ("core.autocrlf", "input"),
            ("diff.algorithm", "histogram"),
            ("diff.lockb.binary", "true"),
            ("filter.lfs.required", "true"),
            ("alias.st", "status -sb"),
            ("alias.lg", "log --pretty=format:\"%h %s\""),
            ("pull.rebase", "true"),
        ];
        let entries = syntax::parse(text.as_bytes()).unwrap();
        for (name, value) in expected {
            let entry = entries.iter().find(|entry| entry.name() == name).unwrap();
            assert_eq!(entry.value.as_deref(), Some(value.as_bytes()), "{name}");
        }
        assert!(entries.iter().any(|e| e.name() == "commit.verbose" && e.value.is_none()));
        assert!(result.dropped.contains(&"github.token".to_owned()));
        assert!(result.dropped.contains(&"url.*.insteadof".to_owned()));
        assert!(!result.dropped.concat().contains("SECRET"));
    }

    #[test]
    fn both_files_count_in_gits_order() {
        let home = home_with("[user]\nname = two\n");
        fs::create_dir_all(home.path().join(".config/git")).unwrap();
        fs::write(home.path().join(".config/git/config"), "[user]\nname = one\n").unwrap();
        let result = sanitised(home.path(), &Environment::empty()).unwrap();
        assert_eq!(result.text, b"[user]\n\tname = \"one\"\n\tname = \"two\"\n");
        assert_eq!(result.sources.len(), 2);
    }

    #[test]
    fn nothing_there_is_nothing_kept() {
        let home = tempfile::tempdir().unwrap();
        let result = sanitised(home.path(), &Environment::empty()).unwrap();
        assert!(result.text.is_empty() && result.dropped.is_empty());
        let none = Environment::from_iter([("GIT_CONFIG_GLOBAL", "/dev/null")]);
        assert!(sanitised(home.path(), &none).unwrap().text.is_empty());
    }

    #[test]
    fn too_large_or_broken_is_an_error() {
        let home = home_with(&"#".repeat(CAP + 1));
        assert!(matches!(
            sanitised(home.path(), &Environment::empty()),
            Err(GitConfigError::File(FileError::TooLarge { .. }))
        ));
        let home = home_with("[user\n");
        let error = sanitised(home.path(), &Environment::empty()).unwrap_err();
        assert!(error.to_string().ends_with(".gitconfig: line 1: bad section header"));
    }
}
