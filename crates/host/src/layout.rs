// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the host's root directory, and which of its directories the view `system` shows.
//!
//! Each shown directory is one mount at launch (about 6 µs), so the table is short: directories that programs can't
//! run without, and the targets of links in other system directories. Data that only some programs read
//! (`/var/lib/dpkg`, `/srv`, `/var/cache`) is left to the policy.

use std::path::{Path, PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

/// Names in the root that are directories on some distributions and links into `/usr` on others.
pub const MERGED: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// System directories of the view `system`, and why each is there. Only those that exist count. These are left out on
/// purpose: `/snap` (a snap needs snapd and its setuid launcher), `/run/wrappers` (setuid programs),
/// `/nix/var/nix/daemon-socket` and similar ones (connecting works through a read-only mount, so showing the
/// directory would give access to the daemon).
pub const SYSTEM: [(&str, &str); 11] = [
    ("/usr", "programs, libraries and their data"),
    ("/etc", "configuration that libraries and programs read"),
    ("/opt", "programs installed outside the package manager"),
    ("/nix/store", "programs and libraries of Nix"),
    ("/nix/var/nix/profiles", "links that PATH leads through with Nix"),
    ("/run/current-system", "the link that PATH leads through on NixOS"),
    ("/gnu/store", "programs and libraries of Guix"),
    ("/var/guix/profiles", "links that PATH leads through with Guix"),
    ("/var/lib/ca-certificates", "where /etc/ssl leads to on openSUSE; without it TLS fails"),
    ("/var/lib/gems", "system-wide Ruby gems on Debian, started from /usr/local/bin"),
    ("/var/lib/texmf", "TeX formats and file lists; without them no TeX starts"),
];

/// A name in the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootName {
    /// Absolute path, such as `/lib64`.
    pub path: PathBuf,
    /// What is there.
    pub kind: RootKind,
}

/// What is at a name in the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RootKind {
    /// A symbolic link with this unresolved content (often relative: `usr/bin`).
    Symlink(PathBuf),
    /// A directory of its own, which the view must mount.
    Directory,
}

/// A system directory that exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemDirectory {
    /// Where programs look for it.
    pub path: PathBuf,
    /// Its canonical path.
    pub canonical: PathBuf,
    /// Why it is shown.
    pub why: String,
}

/// The host's root.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Those of [`MERGED`] that exist.
    pub merged: Vec<RootName>,
    /// Those of [`SYSTEM`] that exist.
    pub system: Vec<SystemDirectory>,
}

impl Layout {
    /// Reads the layout below `root`, which is `/` except in tests. Paths in the result are as seen from that root,
    /// except `canonical`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let merged = MERGED
            .iter()
            .filter_map(|name| {
                let kind = root_kind(&root.join(name))?;
                Some(RootName { path: Path::new("/").join(name), kind })
            })
            .collect();
        let system = SYSTEM
            .iter()
            .filter_map(|(path, why)| {
                let canonical = root.join(path.trim_start_matches('/')).canonicalize().ok()?;
                canonical.is_dir().then(|| SystemDirectory {
                    path: PathBuf::from(path),
                    canonical,
                    why: (*why).to_owned(),
                })
            })
            .collect();
        Self { merged, system }
    }

    /// Whether the view `system` shows `path` already, so that no further mount is needed. `path` must be canonical:
    /// a link in a system directory may lead anywhere.
    #[must_use]
    pub fn shows(&self, path: &Path) -> bool {
        self.system
            .iter()
            .any(|directory| path.starts_with(&directory.path) || path.starts_with(&directory.canonical))
            || self.merged.iter().any(|name| path.starts_with(&name.path))
    }
}

fn root_kind(path: &Path) -> Option<RootKind> {
    let stat = rustix::fs::lstat(path).ok()?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => std::fs::read_link(path).ok().map(RootKind::Symlink),
        FileType::Directory => Some(RootKind::Directory),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn tells_links_from_directories() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("usr/bin")).unwrap();
        fs::create_dir(root.path().join("lib64")).unwrap();
        fs::write(root.path().join("lib32"), "").unwrap();
        std::os::unix::fs::symlink("usr/bin", root.path().join("bin")).unwrap();
        let layout = Layout::read(root.path());
        assert_eq!(
            layout.merged,
            [
                RootName { path: "/bin".into(), kind: RootKind::Symlink("usr/bin".into()) },
                RootName { path: "/lib64".into(), kind: RootKind::Directory },
            ]
        );
        let paths: Vec<_> = layout.system.iter().map(|d| d.path.clone()).collect();
        assert_eq!(paths, [PathBuf::from("/usr")]);
    }

    #[test]
    fn knows_what_is_shown() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("elsewhere/opt")).unwrap();
        fs::create_dir_all(root.path().join("usr")).unwrap();
        std::os::unix::fs::symlink("elsewhere/opt", root.path().join("opt")).unwrap();
        let layout = Layout::read(root.path());
        assert!(layout.shows(Path::new("/usr/local/bin")));
        assert!(!layout.shows(Path::new("/usrlocal")));
        assert!(!layout.shows(Path::new("/home/x")));
        let opt = root.path().canonicalize().unwrap().join("elsewhere/opt/x");
        assert!(layout.shows(&opt), "the canonical place of a moved /opt");
    }

    #[test]
    fn this_host_has_usr_and_etc() {
        let layout = Layout::read(Path::new("/"));
        assert!(layout.shows(Path::new("/usr/bin")) && layout.shows(Path::new("/etc")));
    }
}
