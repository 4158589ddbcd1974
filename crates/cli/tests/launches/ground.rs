// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a story's home on the host, and checks it after a launch.

use super::oracle::{May, Oracle, resolve};
use super::story::{Node, Story, Tree};
use rustix::fs::{FileType, fstat};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Path, PathBuf};

/// Results that no launch may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Breach {
    /// A file was read that the policy doesn't let be read.
    Read,
    /// A file was changed or removed that the policy doesn't let be changed.
    Changed,
    /// A path at which the policy permits no change leads to another file.
    Replaced,
    /// There is a new name in a directory that the policy doesn't let be changed.
    Added,
    /// A grant of the policy can't be used, although no attack has happened yet.
    Refused,
    /// A plan was made that can't be applied, although nothing was changing the files meanwhile.
    Failed,
}

pub(super) const BREACHES: [Breach; 6] =
    [Breach::Read, Breach::Changed, Breach::Replaced, Breach::Added, Breach::Refused, Breach::Failed];

impl fmt::Display for Breach {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Read => "read what must not be read",
            Self::Changed => "changed what must not be changed",
            Self::Replaced => "replaced what must not be changed",
            Self::Added => "made a name where nothing may be changed",
            Self::Refused => "refused what is granted",
            Self::Failed => "failed at a plan of its own",
        })
    }
}

/// Something that the host has made.
struct Object {
    path: String,
    is_directory: bool,
    /// What may be done with it wherever it shows.
    may: May,
    /// What a first launch must let be done with it.
    must: May,
    /// Its path leads to it, whatever an attacker does.
    is_pinned: bool,
    /// Finds it wherever it is now.
    file: File,
    inode: u64,
    content: String,
}

pub(super) struct Ground {
    pub(super) home: PathBuf,
    objects: Vec<Object>,
    /// Which paths the host has links at.
    links: BTreeSet<String>,
}

impl Ground {
    /// Makes the home, for `owner`.
    pub(super) fn make(home: PathBuf, story: &Story, owner: (u32, u32)) -> std::io::Result<Self> {
        let oracle = Oracle::new(story);
        std::fs::create_dir(&home)?;
        give(&home, owner)?;
        let mut ground = Self { home, objects: Vec::new(), links: BTreeSet::new() };
        for (number, (path, node)) in story.tree.iter().enumerate() {
            let at = ground.home.join(path);
            let mut content = String::new();
            match node {
                Node::Link(target) => {
                    symlink(spelled(&ground.home, path, target), &at)?;
                    ground.links.insert(path.clone());
                }
                Node::Directory => std::fs::create_dir(&at)?,
                Node::File => {
                    content = format!("t{number} {path}\n");
                    std::fs::write(&at, &content)?;
                }
            }
            give(&at, owner)?;
            if *node != (Node::File) && *node != (Node::Directory) {
                continue;
            }
            let file = File::open(&at)?;
            let inode = file.metadata()?.ino();
            let may = oracle.anywhere(path);
            let must = if oracle.is_plain(path) { oracle.at_home(path) } else { May::default() };
            ground.objects.push(Object {
                path: path.clone(),
                is_directory: *node == Node::Directory,
                may,
                must,
                is_pinned: is_pinned(&oracle, &story.tree, path),
                file,
                inode,
                content,
            });
        }
        Ok(ground)
    }

    /// What a launch must not have done; `read` are the first words that it has read.
    pub(super) fn inspect(&self, read: &[String]) -> std::io::Result<BTreeMap<Breach, String>> {
        let mut breaches = BTreeMap::new();
        for object in &self.objects {
            let token = object.content.split(' ').next().unwrap_or_default();
            let mut report = |breach, detail: String| {
                breaches.entry(breach).or_insert(detail);
            };
            if !object.may.read && !object.is_directory && read.iter().any(|word| word == token) {
                report(Breach::Read, format!("~/{}", object.path));
            }
            if object.may.write {
                continue;
            }
            let status = fstat(object.file.as_fd())?;
            if status.st_nlink == 0 {
                report(Breach::Changed, format!("~/{} is gone", object.path));
            }
            if object.is_directory {
                let at = self.home.join(&object.path);
                let is_there = std::fs::symlink_metadata(&at).is_ok_and(|found| found.ino() == object.inode);
                let names = if is_there { names(&at)? } else { BTreeSet::new() };
                for name in names {
                    let path = format!("{}/{name}", object.path);
                    if !self.links.contains(&path) && !self.objects.iter().any(|known| known.path == path) {
                        report(Breach::Added, format!("~/{path}"));
                    }
                }
            } else {
                let mut now = String::new();
                let mut file = &object.file;
                file.rewind()?;
                file.read_to_string(&mut now)?;
                if now != object.content {
                    report(Breach::Changed, format!("~/{}: {now:?}", object.path));
                }
            }
            if object.is_pinned {
                let found = std::fs::symlink_metadata(self.home.join(&object.path));
                let what = match found {
                    Ok(found) if found.ino() == object.inode => continue,
                    Ok(found) => format!("{:?}", FileType::from_raw_mode(found.mode())),
                    Err(error) => error.to_string(),
                };
                report(Breach::Replaced, format!("~/{}: {what}", object.path));
            }
        }
        Ok(breaches)
    }

    /// What the policy grants and a first launch, before any attack, could not do.
    pub(super) fn lacks(&self, read: &[String]) -> std::io::Result<Option<String>> {
        for object in self.objects.iter().filter(|object| !object.is_directory) {
            let token = object.content.split(' ').next().unwrap_or_default();
            if object.must.read && !read.iter().any(|word| word == token) {
                return Ok(Some(format!("~/{} can't be read", object.path)));
            }
            let mut now = String::new();
            let mut file = &object.file;
            file.rewind()?;
            file.read_to_string(&mut now)?;
            if object.must.write && now == object.content {
                return Ok(Some(format!("~/{} can't be written to", object.path)));
            }
        }
        Ok(None)
    }
}

/// Whether the path of an object that can't be changed keeps leading to it: where nothing above may be changed, and where
/// a rule names it, or something in it.
fn is_pinned(oracle: &Oracle<'_>, tree: &Tree, path: &str) -> bool {
    let parent = path.rsplit_once('/').map(|(parent, _)| parent);
    let Some(parent) = parent else { return true };
    debug_assert!(resolve(tree, path).is_some_and(|at| at == path), "{path}");
    oracle.keeps_path(path) || (!oracle.anywhere(parent).write && is_pinned(oracle, tree, parent))
}

/// A link's text: relative where it lies in a directory.
fn spelled(home: &Path, path: &str, target: &str) -> PathBuf {
    match path.matches('/').count() {
        0 => home.join(target),
        depth => Path::new(&"../".repeat(depth)).join(target),
    }
}

fn names(directory: &Path) -> std::io::Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(directory)?.flatten();
    Ok(entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

fn give(path: &Path, (user, group): (u32, u32)) -> std::io::Result<()> {
    if rustix::process::geteuid().as_raw() == user { Ok(()) } else { lchown(path, Some(user), Some(group)) }
}
