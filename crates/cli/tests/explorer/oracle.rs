// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Judges the host's tree after a launch. The oracle knows nothing of Palisade's rules. It has a list of names that programs
//! outside obey, follows paths as these programs would, and recognizes content from a sandbox by its mark.

use super::tree::{Identity, Tree};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// What programs obey in a directory. `*`: whatever is in there.
pub(super) const OBEYED: &[&str] = &[
    ".git/config",
    ".git/hooks/*",
    ".git/info/attributes",
    ".hg/hgrc",
    ".vscode/*",
    ".cargo/config.toml",
    ".mise/config.toml",
    ".jj/repo/config.toml",
];

/// The mark in every file that a player writes (`player.c`), and in no file of the host.
const MARK: &[u8] = b"evil\n";
/// Below these nothing is obeyed that was made there.
const EXCEPTIONS: &[&str] = &["node_modules", "site-packages"];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Invariant {
    /// No obeyed name has content that was made inside, in no directory.
    Content,
    /// No link stands at an obeyed name or above it, and none leads an obeyed path to content made inside.
    Link,
    /// Where the host had a directory nothing is obeyed that was made inside, whatever is there now.
    Path,
    /// What the host had at obeyed names is still somewhere.
    Loss,
}

pub(super) const INVARIANTS: [Invariant; 4] =
    [Invariant::Content, Invariant::Link, Invariant::Path, Invariant::Loss];

impl fmt::Display for Invariant {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Content => "H1 (content at an obeyed name)",
            Self::Link => "H1b (a link at an obeyed name)",
            Self::Path => "M2 (an obeyed name where the host had a directory)",
            Self::Loss => "loss (a file of the host's is gone)",
        })
    }
}

/// An invariant that doesn't hold.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Broken {
    pub(super) invariant: Invariant,
    pub(super) detail: String,
}

/// What is at an obeyed name.
struct Seen {
    path: String,
    /// A link led there.
    by_link: bool,
    /// It is, or leads to, what was made inside.
    marked: bool,
}

/// Looks at a tree.
pub(super) fn inspect(tree: &Tree) -> BTreeSet<Broken> {
    let mut broken = BTreeSet::new();
    let mut walk = Walk { directories: Vec::new(), contents: Vec::new(), reads: !tree.contents.is_empty() };
    walk.enter(&tree.top);
    let name = |path: &Path| path.strip_prefix(&tree.top).unwrap_or(path).display().to_string();
    let mut report = |invariant, detail: String| broken.insert(Broken { invariant, detail });
    for Directory { path: directory, holders, .. } in &walk.directories {
        if holders.is_empty() || is_excepted(directory) {
            continue;
        }
        for seen in look(directory, |holder| holders.iter().any(|known| known == holder)) {
            let path = format!("{}/{}", name(directory), seen.path);
            if seen.by_link {
                report(
                    Invariant::Link,
                    if seen.marked { format!("{path}, led there by a link") } else { path },
                );
            } else if seen.marked {
                report(Invariant::Content, path);
            }
        }
    }
    for path in &tree.paths {
        let directory = tree.ground.join(path);
        // As they follow it, a link or not; a directory of the host's has been looked at.
        let real = Identity::behind(&directory);
        if real.is_some_and(|real| !tree.made.contains(&real)) && !is_excepted(&directory) {
            for seen in look(&directory, |_| true) {
                let path = format!("{}/{}", name(&directory), seen.path);
                report(if seen.marked { Invariant::Path } else { Invariant::Link }, path);
            }
        }
    }
    for content in &tree.contents {
        if !walk.contents.iter().any(|file| contains(file, content.as_bytes())) {
            report(Invariant::Loss, content.lines().last().unwrap_or_default().trim().to_owned());
        }
    }
    for repository in &tree.configurations {
        let mut directories = walk.directories.iter();
        match directories.find(|directory| directory.identity == Some(*repository)) {
            Some(directory) if directory.path.join("config").symlink_metadata().is_ok() => {}
            Some(directory) => _ = report(Invariant::Loss, format!("{}/config", name(&directory.path))),
            None => _ = report(Invariant::Loss, "a repository".to_owned()),
        }
    }
    broken
}

pub(super) fn is_excepted(directory: &Path) -> bool {
    directory.iter().any(|part| EXCEPTIONS.iter().any(|name| *name == part))
}

fn contains(file: &[u8], part: &[u8]) -> bool {
    file.windows(part.len()).any(|window| window == part)
}

struct Directory {
    path: PathBuf,
    identity: Option<Identity>,
    /// Those of its entries that obeyed names begin with.
    holders: Vec<String>,
}

/// A tree, as it is without following any link.
struct Walk {
    directories: Vec<Directory>,
    /// What is in its files, if that is of interest.
    contents: Vec<Vec<u8>>,
    reads: bool,
}

impl Walk {
    fn enter(&mut self, path: &Path) {
        let mut holders = Vec::new();
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.enter(&entry.path()),
                Ok(kind) if kind.is_file() && self.reads => {
                    self.contents.extend(std::fs::read(entry.path()));
                }
                _ => {}
            }
            if OBEYED.iter().any(|obeyed| obeyed.split('/').next() == Some(&name)) {
                holders.push(name);
            }
        }
        self.directories.push(Directory { path: path.to_owned(), identity: Identity::of(path), holders });
    }
}

/// What of a sandbox's there is at obeyed names in a directory, and every link there. `has`: whether an entry is there.
fn look(directory: &Path, has: impl Fn(&str) -> bool) -> Vec<Seen> {
    let mut seen = Vec::new();
    for name in OBEYED {
        let parts: Vec<&str> = name.split('/').collect();
        if has(parts[0]) {
            descend(directory, "", &parts, false, &mut seen);
        }
    }
    seen
}

fn descend(directory: &Path, path: &str, parts: &[&str], by_link: bool, seen: &mut Vec<Seen>) {
    let Some((part, rest)) = parts.split_first() else { return };
    if *part == "*" {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            step(&entry.path(), &format!("{path}{name}"), rest, by_link, seen);
        }
    } else {
        step(&directory.join(part), &format!("{path}{part}"), rest, by_link, seen);
    }
}

fn step(at: &Path, path: &str, rest: &[&str], by_link: bool, seen: &mut Vec<Seen>) {
    let Ok(own) = at.symlink_metadata() else { return };
    let by_link = by_link || own.is_symlink();
    if own.is_symlink() {
        // The host makes no links: whatever it leads to, it is a sandbox's.
        seen.push(Seen { path: path.to_owned(), by_link, marked: false });
    }
    if rest.is_empty() {
        let is_file = at.metadata().is_ok_and(|metadata| metadata.is_file());
        if is_file && std::fs::read(at).is_ok_and(|content| contains(&content, MARK)) {
            seen.push(Seen { path: path.to_owned(), by_link, marked: true });
        }
    } else {
        descend(at, &format!("{path}/"), rest, by_link, seen);
    }
}
