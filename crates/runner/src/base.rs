// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which files differ from an earlier state of the project.

use std::path::Path;
use std::process::Command;

/// What differs from the earlier state, if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// No commit was named, or it isn't in the repository: everything may have changed.
    None(String),
    /// The files that differ from the commit at which this branch left the base.
    Changed(Vec<String>),
}

impl Base {
    /// Compares the tree with the commit at which it left `commit`.
    pub(crate) fn find(root: &Path, commit: Option<&str>) -> Base {
        let Some(commit) = commit.filter(|commit| !commit.is_empty()) else {
            return Base::None("PALISADE_BASE names no commit".to_owned());
        };
        let git = |words: &[&str]| -> Option<String> {
            let output = Command::new("git").arg("-C").arg(root).args(words).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let changed = || {
            let fork = git(&["merge-base", "HEAD", commit])?;
            let differ = git(&["diff", "--name-only", "--no-renames", &fork])?;
            let new = git(&["ls-files", "--others", "--exclude-standard"])?;
            Some(differ.lines().chain(new.lines()).map(str::to_owned).collect())
        };
        changed()
            .map_or_else(|| Base::None(format!("git knows no common commit with {commit}")), Base::Changed)
    }

    /// Whether one of `files`, or something below one of them, may have changed.
    pub(crate) fn touches(&self, files: &[String]) -> bool {
        match self {
            Base::None(_) => true,
            Base::Changed(changed) => changed.iter().any(|path| {
                // These files affect every build, so they count for everything.
                matches!(path.as_str(), "Cargo.lock" | "Cargo.toml" | "tests/suites.toml")
                    || files.iter().any(|file| {
                        path.strip_prefix(file.trim_end_matches('/'))
                            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    })
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_covers_what_is_below_it_and_nothing_beside_it() {
        let base = Base::Changed(vec!["crates/bpf/src/lib.rs".into()]);
        assert!(base.touches(&["crates/bpf/".into()]));
        assert!(base.touches(&["docs".into(), "crates/bpf/src/lib.rs".into()]));
        assert!(!base.touches(&["crates/b".into()]));
        assert!(!base.touches(&["crates/cli".into()]));
        assert!(Base::Changed(vec!["Cargo.lock".into()]).touches(&["crates/cli".into()]));
    }

    #[test]
    fn without_a_base_everything_may_have_changed() {
        let none = Base::find(Path::new("/"), Some("no-such-commit"));
        assert!(none.touches(&["crates/cli".into()]));
        assert!(Base::find(Path::new("."), None).touches(&["x".into()]));
    }
}
