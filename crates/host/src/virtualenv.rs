// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds Python's virtual environments, and the interpreter behind each.
//!
//! An environment in a project (`.venv`) contains links to a Python that is installed elsewhere; its `pyvenv.cfg`
//! names the place. The project controls that file, so its value is trusted only if it names a Python in a place
//! where version managers install them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::file::{self, Links};
use crate::layout::Layout;

/// `pyvenv.cfg` has about six lines.
const CAP: usize = 64 * 1024;

/// Below the home: directories in which each entry is one installed Python.
const VERSIONS: [&str; 9] = [
    ".pyenv/versions",
    ".local/share/uv/python",
    ".local/share/mise/installs/python",
    ".asdf/installs/python",
    ".rye/py",
    ".local/share/hatch/env/virtual/.pythons",
    ".local/share/pypoetry/python",
    "micromamba/envs",
    ".conda/envs",
];

/// Below the home: conda's prefixes, which are themselves a Python and have more in `envs`.
const PREFIXES: [&str; 4] = ["miniconda3", "anaconda3", "miniforge3", "mambaforge"];

/// A virtual environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VirtualEnvironment {
    /// Its directory.
    pub root: PathBuf,
    /// The Python behind it.
    pub base: Base,
}

/// The Python that an environment was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Base {
    /// In a system directory, which is shown anyway.
    System(PathBuf),
    /// In a known place: its prefix, to be shown read-only.
    Known {
        /// As `pyvenv.cfg` names it (often a link to a version).
        prefix: PathBuf,
        /// Its canonical path.
        canonical: PathBuf,
    },
    /// Not trusted.
    Rejected {
        /// What `pyvenv.cfg` names; empty if it names nothing.
        home: PathBuf,
        /// Why it isn't trusted.
        reason: Rejection,
    },
}

/// Why an environment's Python isn't shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Rejection {
    /// `pyvenv.cfg` can't be read or has no `home`.
    #[error("pyvenv.cfg doesn't say where Python is")]
    Unreadable,
    /// `home` isn't an absolute path to a directory.
    #[error("pyvenv.cfg names a directory that isn't there")]
    Missing,
    /// `home` isn't where version managers install Python.
    #[error("pyvenv.cfg names a place where no version manager installs Python")]
    Unknown,
}

/// Finds the environments that apply to `cwd`: the active one (`$VIRTUAL_ENV`), then `.venv` and `venv` in it.
#[must_use]
pub fn find(cwd: &Path, home: &Path, environment: &Environment, layout: &Layout) -> Vec<VirtualEnvironment> {
    let active = environment.absolute("VIRTUAL_ENV").map(Path::to_path_buf);
    let mut roots: Vec<PathBuf> = active.into_iter().collect();
    for name in [".venv", "venv"] {
        let root = cwd.join(name);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
        .into_iter()
        .filter(|root| rustix::fs::lstat(root.join("pyvenv.cfg")).is_ok())
        .map(|root| VirtualEnvironment { base: base(&root, home, layout), root })
        .collect()
}

fn base(root: &Path, home: &Path, layout: &Layout) -> Base {
    let rejected = |home: PathBuf, reason| Base::Rejected { home, reason };
    let Some(bin) =
        file::read(&root.join("pyvenv.cfg"), CAP, Links::Refuse).ok().and_then(|text| home_of(&text))
    else {
        return rejected(PathBuf::new(), Rejection::Unreadable);
    };
    // `home` is the directory of the executable. The prefix is the directory above, in Python's layout on Unix.
    let canonical_bin = bin.canonicalize().ok().filter(|bin| bin.is_dir());
    let (Some(canonical_bin), true) = (canonical_bin, bin.is_absolute()) else {
        return rejected(bin, Rejection::Missing);
    };
    if layout.shows(&canonical_bin) {
        return Base::System(bin);
    }
    let is_bin = |path: &Path| path.file_name() == Some(OsStr::new("bin"));
    let (Some(prefix), Some(canonical)) = (bin.parent(), canonical_bin.parent()) else {
        return rejected(bin, Rejection::Unknown);
    };
    if !is_bin(&bin) || !is_bin(&canonical_bin) || !is_known(prefix, canonical, home) {
        return rejected(bin, Rejection::Unknown);
    }
    Base::Known { prefix: prefix.to_owned(), canonical: canonical.to_owned() }
}

/// Whether both paths are of one installed version: the named one is mounted, the canonical one is read.
fn is_known(prefix: &Path, canonical: &Path, home: &Path) -> bool {
    let real_home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let one_of = |path: &Path, home: &Path| {
        VERSIONS.iter().any(|place| path.parent() == Some(home.join(place).as_path()))
            || PREFIXES.iter().any(|place| {
                let conda = home.join(place);
                path == conda || path.parent() == Some(conda.join("envs").as_path())
            })
    };
    (one_of(prefix, home) || one_of(prefix, &real_home)) && one_of(canonical, &real_home)
}

/// The value of `home` in `pyvenv.cfg`: lines `key = value`, read as Python's `site` does.
fn home_of(text: &[u8]) -> Option<PathBuf> {
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let split = line.iter().position(|&byte| byte == b'=')?;
        let (key, value) = line.split_at(split);
        let value = value.get(1..)?.trim_ascii();
        (key.trim_ascii().eq_ignore_ascii_case(b"home") && !value.is_empty() && !value.contains(&0))
            .then(|| PathBuf::from(OsStr::from_bytes(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    struct Project {
        _dir: tempfile::TempDir,
        home: PathBuf,
        cwd: PathBuf,
    }

    impl Project {
        fn new(python_home: &str) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let home = dir.path().canonicalize().unwrap().join("home");
            let cwd = home.join("project");
            fs::create_dir_all(cwd.join(".venv")).unwrap();
            let text = python_home.replace('~', home.to_str().unwrap());
            fs::write(cwd.join(".venv/pyvenv.cfg"), text).unwrap();
            Self { _dir: dir, home, cwd }
        }

        fn directory(&self, path: &str) -> PathBuf {
            let path = self.home.join(path);
            fs::create_dir_all(&path).unwrap();
            path
        }

        fn base(&self) -> Base {
            let layout = Layout::read(Path::new("/"));
            let found = find(&self.cwd, &self.home, &Environment::empty(), &layout);
            assert_eq!(found.len(), 1);
            found[0].base.clone()
        }

        fn rejection(&self) -> Rejection {
            match self.base() {
                Base::Rejected { reason, .. } => reason,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_systems_python() {
        let project = Project::new("include-system-site-packages = false\nhome = /usr/bin\n");
        assert_eq!(project.base(), Base::System("/usr/bin".into()));
    }

    #[test]
    fn a_version_managers_python_by_its_link() {
        let project = Project::new("Home=~/.local/share/uv/python/cpython-3.12/bin\r\n");
        project.directory(".local/share/uv/python/cpython-3.12.7/bin");
        let link = project.home.join(".local/share/uv/python/cpython-3.12");
        symlink("cpython-3.12.7", &link).unwrap();
        assert_eq!(
            project.base(),
            Base::Known {
                prefix: link,
                canonical: project.home.join(".local/share/uv/python/cpython-3.12.7"),
            }
        );
    }

    #[test]
    fn condas_own_prefix_and_environments() {
        for prefix in ["miniconda3", "miniconda3/envs/x"] {
            let project = Project::new(&format!("home = ~/{prefix}/bin"));
            project.directory(&format!("{prefix}/bin"));
            assert!(matches!(project.base(), Base::Known { .. }), "{prefix}");
        }
    }

    #[test]
    fn hostile_projects() {
        for (text, directory, reason) in [
            ("home = ~/.ssh", ".ssh", Rejection::Unknown),
            ("home = ~/.ssh/bin", ".ssh/bin", Rejection::Unknown),
            ("home = ~/bin", "bin", Rejection::Unknown),
            ("home = ~", "x", Rejection::Unknown),
            ("home = ~/.pyenv/versions/../../bin", "bin", Rejection::Missing),
            ("home = ~/.pyenv/versions/bin", ".pyenv/versions/bin", Rejection::Unknown),
            ("home = ../../.ssh", ".ssh", Rejection::Missing),
            ("home = /nowhere/bin", "x", Rejection::Missing),
            ("nothing", "x", Rejection::Unreadable),
            ("home =", "x", Rejection::Unreadable),
        ] {
            let project = Project::new(text);
            project.directory(directory);
            assert_eq!(project.rejection(), reason, "{text}");
        }
    }

    #[test]
    fn a_hostile_link_out_of_a_known_place() {
        let project = Project::new("home = ~/.pyenv/versions/x/bin");
        project.directory("secret/bin");
        project.directory(".pyenv/versions");
        symlink("../../secret", project.home.join(".pyenv/versions/x")).unwrap();
        assert_eq!(project.rejection(), Rejection::Unknown);
    }

    #[test]
    fn a_linked_configuration_is_not_read() {
        let project = Project::new("");
        let cfg = project.cwd.join(".venv/pyvenv.cfg");
        fs::remove_file(&cfg).unwrap();
        symlink("/etc/passwd", &cfg).unwrap();
        assert_eq!(project.rejection(), Rejection::Unreadable);
    }

    #[test]
    fn the_active_one_comes_first() {
        let project = Project::new("home = /usr/bin");
        let other = project.directory("other");
        fs::write(other.join("pyvenv.cfg"), "home = /usr/bin").unwrap();
        let environment = Environment::from_iter([("VIRTUAL_ENV", &other)]);
        let found = find(&project.cwd, &project.home, &environment, &Layout::default());
        let roots: Vec<_> = found.into_iter().map(|found| found.root).collect();
        assert_eq!(roots, [other, project.cwd.join(".venv")]);
    }
}
