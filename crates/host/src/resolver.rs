// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the real file behind `/etc/resolv.conf`.
//!
//! On most distributions it is a link into `/run` (systemd-resolved, NetworkManager, resolvconf), and the views
//! replace `/run`. With the host's network and a dangling link, name resolution fails.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::file::{self, FileError, Links};

/// The most links that the kernel follows in one lookup.
const MAX_LINKS: usize = 40;

/// The largest file that can be a resolver configuration.
const CAP: usize = 64 * 1024;

/// The resolver's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolver {
    /// The file itself, without links: what to mount.
    pub file: PathBuf,
    /// Where to mount it when its place isn't shown: the first path outside the configuration's own directory to
    /// which the links lead. One mount there makes `/etc/resolv.conf` work, whatever further links follow. `None`:
    /// the file lies in that directory itself.
    pub appears_at: Option<PathBuf>,
    /// The name servers it lists, as text.
    pub nameservers: Vec<String>,
    /// The domains in which the C libraries look a name up, too.
    pub search: Vec<String>,
}

/// Why the resolver's configuration can't be read.
#[derive(Debug, thiserror::Error)]
pub enum ResolverError {
    /// A link leads nowhere, or in a circle.
    #[error("{path} is a link to {target}, which isn't there")]
    Dangling {
        /// The configuration.
        path: PathBuf,
        /// The missing target.
        target: PathBuf,
    },
    /// The file can't be read.
    #[error("can't read the resolver's configuration: {0}")]
    File(#[from] FileError),
}

/// Reads `path`, normally `/etc/resolv.conf`. `Ok(None)`: this host has none (musl and glibc then
/// ask 127.0.0.1).
///
/// # Errors
/// [`ResolverError`] for a link that leads nowhere or a file that can't be read.
pub fn read(path: &Path) -> Result<Option<Resolver>, ResolverError> {
    if rustix::fs::lstat(path).is_err() {
        return Ok(None);
    }
    let own = path.parent().unwrap_or(Path::new("/"));
    let mut hop = path.to_owned();
    let mut appears_at = None;
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&hop) else {
            break;
        };
        hop = lexical(&hop.parent().unwrap_or(Path::new("/")).join(target));
        if appears_at.is_none() && !hop.starts_with(own) {
            appears_at = Some(hop.clone());
        }
    }
    let file =
        path.canonicalize().map_err(|_| ResolverError::Dangling { path: path.to_owned(), target: hop })?;
    let bytes = file::read(&file, CAP, Links::Refuse)?;
    Ok(Some(Resolver { file, appears_at, nameservers: nameservers(&bytes), search: search(&bytes) }))
}

/// Removes `.` and `..` by the text alone. This is correct for links as distributions make them
/// (`../run/systemd/resolve/stub-resolv.conf`); `file` comes from the kernel's own resolution.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

fn nameservers(bytes: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(bytes)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            (words.next() == Some("nameserver")).then(|| words.next().map(str::to_owned)).flatten()
        })
        .collect()
}

/// The last line counts (resolv.conf(5)).
fn search(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let domains = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        matches!(words.next(), Some("search" | "domain")).then(|| words.map(str::to_owned).collect())
    };
    text.lines().filter_map(domains).next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_plain_file_needs_nothing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("resolv.conf");
        fs::write(&path, "# x\nnameserver 10.0.0.1\nsearch a\nnameserver ::1 # y\n").unwrap();
        let resolver = read(&path).unwrap().unwrap();
        assert_eq!(resolver.appears_at, None);
        assert_eq!(resolver.nameservers, ["10.0.0.1", "::1"]);
        assert_eq!(resolver.search, ["a"]);
        fs::write(&path, "search a\nsearch b.example c\n").unwrap();
        assert_eq!(read(&path).unwrap().unwrap().search, ["b.example", "c"]);
    }

    #[test]
    fn links_out_of_etc_say_where_the_file_must_appear() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for directory in ["etc", "run/resolvconf", "run/systemd"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("run/systemd/stub"), "nameserver 127.0.0.53\n").unwrap();
        symlink("../systemd/stub", root.join("run/resolvconf/resolv.conf")).unwrap();
        symlink("resolv.real", root.join("etc/resolv.conf")).unwrap();
        symlink("../run/resolvconf/resolv.conf", root.join("etc/resolv.real")).unwrap();
        let resolver = read(&root.join("etc/resolv.conf")).unwrap().unwrap();
        assert_eq!(resolver.file, root.join("run/systemd/stub"));
        assert_eq!(resolver.appears_at, Some(root.join("run/resolvconf/resolv.conf")));
    }

    #[test]
    fn dangling_circular_and_missing() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("resolv.conf");
        assert_eq!(read(&path).unwrap(), None);
        symlink("gone", &path).unwrap();
        assert!(matches!(read(&path), Err(ResolverError::Dangling { .. })));
        fs::remove_file(&path).unwrap();
        symlink("resolv.conf", &path).unwrap();
        assert!(matches!(read(&path), Err(ResolverError::Dangling { .. })));
    }
}
