// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds toolchains that users keep in their home, so that `palisade run -- cargo build` works although the rest of
//! the home is the sandbox's own.
//!
//! They are found by presence, from a table; no tool is run. The value of a variable counts only if the directory has
//! the content that the variable promises. A path is refused if it would show the home itself, `/` or a directory of
//! secrets. All of them are meant to be shown read-only and executable.

mod table;

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::layout::Layout;

/// Which language or manager a toolchain belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Kind {
    Rust,
    Python,
    Conda,
    Node,
    Go,
    Ruby,
    Java,
    Haskell,
    Julia,
    Dotnet,
    Other,
}

/// A toolchain, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// What it belongs to.
    pub kind: Kind,
    /// Where programs look for it; the last component may be a link.
    pub path: PathBuf,
    /// Its canonical path.
    pub canonical: PathBuf,
    /// Why it is shown.
    pub why: String,
}

/// A path that was named but isn't shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The variable that names it; `None` for a row of the table whose link leads to a refused place.
    pub variable: Option<String>,
    /// The path named.
    pub path: PathBuf,
    /// Why it isn't shown.
    pub reason: Reason,
}

/// Why a path isn't shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Reason {
    /// It is `/`, the home, or above the home.
    #[error("it contains the home directory")]
    Home,
    /// It is, contains or lies in a directory that holds secrets.
    #[error("it contains, or lies in, a directory that holds secrets or settings")]
    Secrets,
    /// It is in `/proc`, `/sys`, `/dev` or `/run`.
    #[error("it is in /proc, /sys, /dev or /run")]
    Kernel,
    /// The directory doesn't have the content that the variable promises.
    #[error("its content isn't what the variable is for")]
    Unlike,
    /// It isn't absolute, or has `..` in it.
    #[error("it isn't an absolute path without `..`")]
    NotPlain,
    /// A directory of `PATH` outside the home, or in it and not named `bin` or `shims`.
    #[error("it isn't a directory named bin or shims in the home")]
    NotBin,
}

/// All toolchains found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchains {
    /// Those to be shown, none inside another.
    pub found: Vec<Toolchain>,
    /// Paths that were named but aren't shown.
    pub refused: Vec<Refused>,
}

/// Finds the toolchains of the user with this `home`. Directories that `layout` shows anyway are left out.
#[must_use]
pub fn find(home: &Path, environment: &Environment, layout: &Layout) -> Toolchains {
    let judge = Judge::new(home, layout);
    let mut all = Toolchains::default();
    for row in table::HOME {
        let path = home.join(row.path);
        match judge.place(&path) {
            Ok(Some(canonical)) => {
                all.found.push(Toolchain { kind: row.kind, path, canonical, why: row.why.to_owned() })
            }
            Ok(None) => {}
            Err(reason) => all.refused.push(Refused { variable: None, path, reason }),
        }
    }
    for variable in table::VARIABLES {
        let Some(value) = environment.get(variable.name) else {
            continue;
        };
        for base in std::env::split_paths(value) {
            if base.as_os_str().is_empty() {
                continue;
            }
            if let Err(reason) = judge.variable(variable, &base, &mut all.found) {
                all.refused.push(Refused { variable: Some(variable.name.to_owned()), path: base, reason });
            }
        }
    }
    all.found = outermost(all.found);
    all
}

/// Where toolchains of a home would be, existing or not: a change of these paths can change the result of [`find`].
pub fn candidates(home: &Path) -> impl Iterator<Item = PathBuf> {
    table::HOME.iter().map(|row| home.join(row.path))
}

/// Whether a variable of this name names a toolchain's place.
#[must_use]
pub fn is_variable(name: &[u8]) -> bool {
    table::VARIABLES.iter().any(|variable| variable.name.as_bytes() == name)
}

/// A directory of `PATH` that the view doesn't show by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDirectory {
    /// As it is written in `PATH`.
    pub path: PathBuf,
    /// Its canonical path.
    pub canonical: PathBuf,
}

/// The directories of `PATH` outside the system directories.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathDirectories {
    /// Those that may be shown, read-only.
    pub found: Vec<PathDirectory>,
    /// Those that exist but aren't shown.
    pub refused: Vec<Refused>,
}

/// Sorts the directories of `PATH`. A directory inside the home is shown if it is named `bin` or `shims`, before and
/// after following links, and isn't in a directory of secrets. By convention such directories contain programs, but a
/// `~/projects/tool` on `PATH` may contain anything. Directories outside the home and the system directories are left
/// to the policy.
#[must_use]
pub fn path_directories(home: &Path, environment: &Environment, layout: &Layout) -> PathDirectories {
    let judge = Judge::new(home, layout);
    let mut all = PathDirectories::default();
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in environment.absolute_list("PATH") {
        if seen.contains(&path) {
            continue;
        }
        seen.push(path.clone());
        let reason = match judge.place(&path) {
            Ok(None) => continue,
            Ok(Some(canonical)) => {
                let in_home = path.starts_with(home) || path.starts_with(&judge.home);
                if in_home && is_bin(&path) && is_bin(&canonical) && canonical.is_dir() {
                    all.found.push(PathDirectory { path, canonical });
                    continue;
                }
                Reason::NotBin
            }
            Err(reason) => reason,
        };
        all.refused.push(Refused { variable: Some("PATH".to_owned()), path, reason });
    }
    all
}

fn is_bin(path: &Path) -> bool {
    matches!(path.file_name().and_then(OsStr::to_str), Some("bin" | "shims"))
}

/// Whether `canonical` may be shown at all to a sandbox of the user with this `home`: it must not be the home, above
/// it, or a directory of secrets or of the kernel.
///
/// # Errors
/// The [`Reason`] why not.
pub fn acceptable(canonical: &Path, home: &Path) -> Result<(), Reason> {
    if home.starts_with(canonical) {
        return Err(Reason::Home);
    }
    if ["/proc", "/sys", "/dev", "/run", "/boot"].iter().any(|kernel| canonical.starts_with(kernel)) {
        return Err(Reason::Kernel);
    }
    let secret = |name: &str| {
        let secret = home.join(name);
        canonical.starts_with(&secret) || secret.starts_with(canonical)
    };
    if table::NEVER.iter().any(|name| secret(name)) {
        return Err(Reason::Secrets);
    }
    Ok(())
}

struct Judge<'a> {
    home: PathBuf,
    layout: &'a Layout,
}

impl<'a> Judge<'a> {
    fn new(home: &Path, layout: &'a Layout) -> Self {
        Self { home: home.canonicalize().unwrap_or_else(|_| home.to_owned()), layout }
    }

    /// The canonical path of an existing path that must be mounted; `None` when it doesn't exist or is shown already.
    fn place(&self, path: &Path) -> Result<Option<PathBuf>, Reason> {
        if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
            return Err(Reason::NotPlain);
        }
        let Ok(canonical) = path.canonicalize() else {
            return Ok(None);
        };
        acceptable(&canonical, &self.home)?;
        // A link in the home to a shown directory still needs its own path inside. So only directories that are shown
        // under both names are left out.
        if self.layout.shows(&canonical) && self.layout.shows(path) {
            return Ok(None);
        }
        Ok(Some(canonical))
    }

    fn variable(
        &self,
        variable: &table::Variable,
        base: &Path,
        found: &mut Vec<Toolchain>,
    ) -> Result<(), Reason> {
        // If only parts of a variable's directory are shown, the directory may be the home itself (GOPATH=~).
        let whole = variable.parts == [""];
        if whole && self.place(base)?.is_none() {
            return Ok(());
        }
        if !base.is_dir() {
            return Ok(());
        }
        if !variable.markers.iter().any(|marker| base.join(marker).exists()) {
            return Err(Reason::Unlike);
        }
        for part in variable.parts {
            let path = if part.is_empty() { base.to_owned() } else { base.join(part) };
            if let Some(canonical) = self.place(&path)? {
                found.push(Toolchain {
                    kind: variable.kind,
                    path,
                    canonical,
                    why: format!("{} ({})", variable.why, variable.name),
                });
            }
        }
        Ok(())
    }
}

/// Drops directories that lie in another found directory, both by name and by canonical path.
fn outermost(mut all: Vec<Toolchain>) -> Vec<Toolchain> {
    // The sort is stable, so that of equal paths the table's row stays.
    all.sort_by_key(|toolchain| toolchain.path.components().count());
    let mut kept: Vec<Toolchain> = Vec::new();
    for toolchain in all {
        let covered = kept.iter().any(|outer| {
            toolchain.path.starts_with(&outer.path) && toolchain.canonical.starts_with(&outer.canonical)
        });
        if !covered {
            kept.push(toolchain);
        }
    }
    kept.sort_by(|a, b| a.path.cmp(&b.path));
    kept
}

#[cfg(test)]
#[path = "toolchain_tests.rs"]
mod tests;
