// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes an application's files and removes them. If either is interrupted, the next call of either completes or undoes it.

use crate::disk::{self, Content, Disk, DiskError};
use crate::manifest::{self, Choices, Defaults, Kind, Made, Manifest, ManifestError, Origin, Store};
use crate::mime;
use palisade_host::file::{self, FileError, Links};
use rustix::fs::{FileType, Mode};
use std::path::{Path, PathBuf};

/// The permissions of the files: every user may read them.
const MODE: Mode = Mode::from_raw_mode(0o644);

/// Files can't be made or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Another file is where a file is to be made.
    #[error("{path:?} is there already, and Palisade {}", if *.changed { "made it, but it was changed" } else { "didn't make it" })]
    Foreign {
        /// Where.
        path: PathBuf,
        /// Whether Palisade made it before.
        changed: bool,
    },
    /// Another application's file is where a file is to be made.
    #[error("{path:?} is there already, made for {by}")]
    Taken {
        /// Where.
        path: PathBuf,
        /// The other application.
        by: String,
    },
    /// The file in the way can't be kept aside.
    #[error("can't move {path:?} away: {aside:?} exists already")]
    Aside {
        /// What is in the way.
        path: PathBuf,
        /// Where it would be kept.
        aside: PathBuf,
    },
    /// The list of defaults is a link.
    #[error("can't set defaults in {file:?}: it is a symbolic link, which would be replaced by a file")]
    Link {
        /// The file.
        file: PathBuf,
    },
    /// The list of defaults can't be read.
    #[error("can't read the defaults: {0}")]
    Defaults(#[from] FileError),
    /// The list of defaults is no text.
    #[error("can't edit {file:?}: it is no UTF-8")]
    NotText {
        /// The file.
        file: PathBuf,
    },
    /// The list of what was made can't be used.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// A step failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

/// The content that a file should have.
#[derive(Debug, Clone)]
pub(crate) enum What {
    /// A link to this target.
    Link(PathBuf),
    /// A file with this content.
    File(Vec<u8>),
}

impl What {
    fn content(&self) -> Content {
        match self {
            Self::Link(target) => Content::Link(target.clone()),
            Self::File(bytes) => Content::of(bytes),
        }
    }

    fn place(&self, disk: &Disk, path: &Path, replace: bool) -> Result<(), DiskError> {
        match self {
            Self::Link(target) => disk.place_link(path, target, replace),
            Self::File(bytes) => disk.place_file(path, bytes, MODE, replace),
        }
    }
}

/// A file that should exist.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    pub(crate) what: What,
    pub(crate) origin: Option<Origin>,
}

/// The types of files for which the default should be set.
#[derive(Debug, Clone)]
pub(crate) struct WantedDefaults {
    /// The file in which the defaults are set.
    pub(crate) file: PathBuf,
    /// The desktop entry's id.
    pub(crate) entry: String,
}

/// Everything that should exist for an application.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) name: String,
    pub(crate) binary: PathBuf,
    pub(crate) choices: Choices,
    pub(crate) files: Vec<Wanted>,
    pub(crate) defaults: Option<WantedDefaults>,
    /// Whether files in the way are kept aside.
    pub(crate) force: bool,
}

impl Order {
    /// The paths that it writes to.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let files = self.files.iter().map(|wanted| wanted.path.as_path());
        files.chain(self.defaults.iter().map(|defaults| defaults.file.as_path()))
    }
}

/// What happened to the files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The files that exist, in order.
    pub made: Vec<(Kind, PathBuf)>,
    /// The files that were removed.
    pub removed: Vec<PathBuf>,
    /// The files that were changed since Palisade made them. They stay, and no longer belong to Palisade.
    pub left: Vec<PathBuf>,
    /// The files that were in the way, and where they are now.
    pub aside: Vec<(PathBuf, PathBuf)>,
    /// The files that were restored.
    pub restored: Vec<PathBuf>,
}

/// What to do with a file.
enum Step {
    Make,
    Replace,
    Keep,
    MoveAside,
}

/// Makes what is ordered. What an earlier order made and this one doesn't contain is removed.
pub(crate) fn enable(disk: &Disk, store: &Store, order: &Order) -> Result<Outcome, InstallError> {
    let (_lock, made) = store.lock_and_make(disk)?;
    let old = store.read(&order.name)?;
    let result = enable_locked(disk, store, order, old.as_ref(), made.clone());
    if result.is_err() && old.is_none() {
        // Remove what has been made. If even that fails, the manifest lists what is left.
        let _as_far_as_it_goes = disable_locked(disk, store, &order.name);
        disk.remove_empty(made.iter().rev().map(PathBuf::as_path));
    }
    result
}

fn enable_locked(
    disk: &Disk,
    store: &Store,
    order: &Order,
    old: Option<&Manifest>,
    made_already: Vec<PathBuf>,
) -> Result<Outcome, InstallError> {
    let mut after = Manifest::new(&order.name, &order.binary, order.choices.clone());
    let others = others(store, &order.name);
    let mut steps = Vec::new();
    for wanted in &order.files {
        if let Some(other) = others.iter().find(|other| other.file(&wanted.path).is_some()) {
            return Err(InstallError::Taken { path: wanted.path.clone(), by: other.name.clone() });
        }
        let known = old.and_then(|old| old.file(&wanted.path));
        let (step, made) = judge(wanted, known, order.force)?;
        steps.push((wanted, step));
        after.files.push(made);
    }
    let edits = edits(order, old)?;
    after.defaults.extend(edits.iter().filter_map(|edit| edit.set.clone()));
    after.directories = directories(store, order, old, &others, made_already);

    // First write down what will have been done, together with what was done before.
    let mut during = after.clone();
    if let Some(old) = old {
        for made in &old.files {
            match during.files.iter_mut().find(|other| other.path == made.path) {
                Some(other) => {
                    let more = made.contents.iter().filter(|content| !other.contents.contains(content));
                    let more: Vec<Content> = more.cloned().collect();
                    other.contents.extend(more);
                }
                None => during.files.push(made.clone()),
            }
        }
        during.defaults.extend(old.defaults.iter().filter(|old| !after.defaults.contains(old)).cloned());
    }
    store.write(disk, &during)?;

    let mut outcome = Outcome::default();
    let needed = |directory: &PathBuf| order.paths().any(|path| path.starts_with(directory));
    disk.make_directories(&absent(after.directories.iter().filter(|directory| needed(directory))))?;
    for (wanted, step) in steps {
        let place = |replace| wanted.what.place(disk, &wanted.path, replace);
        match step {
            Step::Keep => {}
            Step::Make => place(false)?,
            Step::Replace => place(true)?,
            Step::MoveAside => {
                let aside = manifest::aside(&wanted.path);
                disk.move_to_free(&wanted.path, &aside)?;
                outcome.aside.push((wanted.path.clone(), aside));
                place(false)?;
            }
        }
        outcome.made.push((wanted.kind, wanted.path.clone()));
    }
    for made in during.files.iter().filter(|made| after.file(&made.path).is_none()) {
        undo(disk, made, &mut outcome)?;
    }
    for edit in &edits {
        edit.apply(disk)?;
    }
    let unneeded = after.directories.iter().rev().filter(|directory| !needed(directory));
    disk.remove_empty(
        unneeded.map(PathBuf::as_path).filter(|directory| !store.file("").starts_with(directory)),
    );
    if during != after {
        store.write(disk, &after)?;
    }
    Ok(outcome)
}

/// What was made for other applications. A list that can't be read concerns only that application.
fn others(store: &Store, name: &str) -> Vec<Manifest> {
    let names = store.names().unwrap_or_default();
    names.iter().filter(|other| *other != name).filter_map(|other| store.read(other).ok().flatten()).collect()
}

/// Decides what to do for a wanted file, and how to list it.
fn judge(wanted: &Wanted, known: Option<&Made>, force: bool) -> Result<(Step, Made), InstallError> {
    let content = wanted.what.content();
    let mut made = Made {
        kind: wanted.kind,
        path: wanted.path.clone(),
        contents: vec![content.clone()],
        before: known.and_then(|known| known.before),
        origin: wanted.origin.clone(),
    };
    let Some(seen) = disk::look(&wanted.path)? else { return Ok((Step::Make, made)) };
    let step = match seen.content {
        // A foreign file with exactly the wanted content counts as Palisade's: the list may be lost.
        Some(there) if there == content => Step::Keep,
        Some(there) if known.is_some_and(|known| known.contents.contains(&there)) => Step::Replace,
        _ if force => {
            let aside = made.aside();
            if disk::look(&aside)?.is_some() {
                return Err(InstallError::Aside { path: wanted.path.clone(), aside });
            }
            made.before = Some(seen.identity);
            Step::MoveAside
        }
        _ => {
            // A file that a killed process was about to keep aside was never Palisade's.
            let changed = known.is_some_and(|known| known.before != Some(seen.identity));
            return Err(InstallError::Foreign { path: wanted.path.clone(), changed });
        }
    };
    Ok((step, made))
}

/// The directories that are or will be made for this application. Each comes before those in it.
fn directories(
    store: &Store,
    order: &Order,
    old: Option<&Manifest>,
    others: &[Manifest],
    made_already: Vec<PathBuf>,
) -> Vec<PathBuf> {
    let list = store.file(&order.name);
    let paths: Vec<&Path> = order.paths().chain([list.as_path()]).collect();
    let mut directories = made_already;
    directories.extend(old.into_iter().flat_map(|old| old.directories.iter().cloned()));
    for parent in paths.iter().filter_map(|path| path.parent()) {
        directories.extend(manifest::missing(parent));
    }
    // A directory that several applications need is removed with the last of them.
    let shared = |directory: &&PathBuf| paths.iter().any(|path| path.starts_with(directory));
    directories.extend(others.iter().flat_map(|other| &other.directories).filter(shared).cloned());
    // Palisade's own directories are removed when they are empty, whichever call made them.
    directories.retain(|directory| !store.is_own(directory));
    // A directory is before those in it: its name is their beginning.
    directories.sort();
    directories.dedup();
    directories
}

fn absent<'p>(directories: impl Iterator<Item = &'p PathBuf>) -> Vec<PathBuf> {
    directories.filter(|directory| disk::is_absent(directory)).cloned().collect()
}

/// Removes everything that was made for an application. `None` if nothing was made.
pub(crate) fn disable(disk: &Disk, store: &Store, name: &str) -> Result<Option<Outcome>, InstallError> {
    let _lock = store.lock()?;
    if !store.is_there() {
        store.tidy_above(disk);
        return Ok(None);
    }
    disable_locked(disk, store, name)
}

fn disable_locked(disk: &Disk, store: &Store, name: &str) -> Result<Option<Outcome>, InstallError> {
    let file = store.file(name);
    let Some(manifest) = store.read(name)? else {
        let _left_by_somebody_killed = disk.sweep(&file);
        store.tidy(disk);
        return Ok(None);
    };
    let mut outcome = Outcome::default();
    for made in &manifest.files {
        undo(disk, made, &mut outcome)?;
    }
    for defaults in &manifest.defaults {
        match Rewrite::new(&defaults.file, &[defaults], None) {
            Ok(rewrite) => rewrite.apply(disk)?,
            // The file has become something that can't be edited.
            Err(_unreadable) => outcome.left.push(defaults.file.clone()),
        }
    }
    let inner_first = || manifest.directories.iter().rev().map(PathBuf::as_path);
    disk.remove_empty(inner_first().filter(|directory| !file.starts_with(directory)));
    disk.remove(&file)?;
    let _left_by_somebody_killed = disk.sweep(&file);
    store.tidy(disk);
    disk.remove_empty(inner_first());
    Ok(Some(outcome))
}

/// Removes a file if it is still Palisade's, and restores what was there before.
fn undo(disk: &Disk, made: &Made, outcome: &mut Outcome) -> Result<(), InstallError> {
    let path = &made.path;
    let aside = made.aside();
    let kept = made.before.is_some() && disk::look(&aside)?.is_some();
    match disk::look(path)? {
        Some(seen) if seen.content.as_ref().is_some_and(|there| made.contents.contains(there)) => {
            if kept {
                disk.put_back(&aside, path)?;
                outcome.restored.push(path.clone());
            } else {
                disk.remove(path)?;
            }
            outcome.removed.push(path.clone());
        }
        None if kept => {
            disk.put_back(&aside, path)?;
            outcome.restored.push(path.clone());
        }
        None => {}
        // The earlier file was never kept aside, or is back already.
        Some(seen) if !kept && made.before == Some(seen.identity) => {}
        Some(_changed) => outcome.left.push(path.clone()),
    }
    // A killed process may have left a temporary file.
    let _gone = disk.sweep(path);
    Ok(())
}

/// A list of defaults, and how it changes.
struct Rewrite {
    file: PathBuf,
    mode: Mode,
    before: Option<String>,
    after: Option<String>,
    /// The defaults that are newly set.
    set: Option<Defaults>,
}

/// The lists of defaults that change: the one in which defaults are set, and those in which earlier ones were set.
fn edits(order: &Order, old: Option<&Manifest>) -> Result<Vec<Rewrite>, InstallError> {
    let earlier = old.map(|old| old.defaults.as_slice()).unwrap_or_default();
    let mut files: Vec<&Path> = earlier.iter().map(|defaults| defaults.file.as_path()).collect();
    files.extend(order.defaults.iter().map(|defaults| defaults.file.as_path()));
    files.sort();
    files.dedup();
    let mut edits = Vec::new();
    for file in files {
        let undone: Vec<&Defaults> = earlier.iter().filter(|defaults| defaults.file == file).collect();
        let wanted = order.defaults.as_ref().filter(|defaults| defaults.file == file);
        let types = wanted.map(|wanted| (wanted, order.choices.mime.as_slice()));
        match Rewrite::new(file, &undone, types) {
            // The file has become something that can't be edited, and no default is to be set in it.
            Err(_unreadable) if wanted.is_none() => {}
            rewrite => edits.push(rewrite?),
        }
    }
    Ok(edits)
}

impl Rewrite {
    fn new(
        file: &Path,
        undone: &[&Defaults],
        wanted: Option<(&WantedDefaults, &[String])>,
    ) -> Result<Self, InstallError> {
        let stat = rustix::fs::lstat(file).ok();
        if stat.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink) {
            return Err(InstallError::Link { file: file.to_owned() });
        }
        let mode = stat.map_or(MODE, |stat| Mode::from_raw_mode(stat.st_mode & 0o777));
        let before = match file::read(file, mime::LARGEST, Links::Refuse) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes);
                Some(text.map_err(|_error| InstallError::NotText { file: file.to_owned() })?)
            }
            Err(error) if error.is_absent() => None,
            Err(error) => return Err(error.into()),
        };
        let mut after = before.clone();
        for defaults in undone.iter().rev() {
            after = after.and_then(|text| mime::unset(&text, &defaults.edits));
        }
        let set = wanted.map(|(wanted, types)| {
            let (text, edits) = mime::set(after.as_deref().unwrap_or_default(), &wanted.entry, types);
            after = Some(text);
            Defaults { file: file.to_owned(), edits }
        });
        Ok(Self { file: file.to_owned(), mode, before, after, set })
    }

    fn apply(&self, disk: &Disk) -> Result<(), DiskError> {
        match &self.after {
            after if *after == self.before => {}
            Some(after) => {
                disk.place_file(&self.file, after.as_bytes(), self.mode, self.before.is_some())?;
            }
            None => disk.remove(&self.file)?,
        }
        let _left_by_somebody_killed = disk.sweep(&self.file);
        Ok(())
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
