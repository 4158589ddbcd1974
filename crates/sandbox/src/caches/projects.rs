// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists and removes the caches of projects, and keeps their number within bounds.
//!
//! Programs inside may have made any file there. Every directory is opened below the one before, so that no link is
//! followed.

use super::{PROJECT, identity, is_ours};
use palisade_host::birth::Birth;
use palisade_host::places::Places;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, chmod, openat, statat, unlinkat};
use rustix::io::Errno;
use std::cell::Cell;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The most projects whose caches are kept. Beyond this those that were used longest ago are removed.
const MOST: usize = 512;
/// How long the caches of a project are kept that is no longer used.
const OLDEST: Duration = Duration::from_secs(90 * 24 * 3600);
/// The most files that one launch removes, so that the launch isn't held up: 10 ms. Later launches remove the rest.
const AT_ONCE: u32 = 2000;
/// Directories are open from the top to where the work is, and a process may open 1,024 files.
const DEEPEST: u32 = 400;

/// The caches of a project.
#[derive(Debug)]
pub struct Project {
    /// The project's directory when they were made.
    pub path: PathBuf,
    /// No launch can use them any more: the project is gone, or another one is at its path.
    pub gone: bool,
    /// What they take on disk, in bytes.
    pub size: u64,
    directory: PathBuf,
}

/// The caches of all projects of a user, by path.
///
/// # Errors
/// When they can't be listed.
pub fn list(places: &Places) -> std::io::Result<Vec<Project>> {
    let entries = match std::fs::read_dir(super::directory(places)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut projects = Vec::new();
    for entry in entries {
        let directory = entry?.path();
        if is_ours(&directory).is_err() {
            continue;
        }
        let Some(path) = std::fs::read(directory.join(PROJECT)).ok().as_deref().and_then(path_of) else {
            continue;
        };
        let is_same =
            |birth| std::fs::read(directory.join(PROJECT)).is_ok_and(|text| text == identity(&path, birth));
        let gone = !Birth::of(&path).is_ok_and(is_same);
        let size = Work::Measure.on(&directory)?;
        projects.push(Project { path, gone, size, directory });
    }
    projects.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(projects)
}

impl Project {
    /// Removes the caches. A launch that uses them at this time loses them.
    ///
    /// # Errors
    /// When something can't be removed.
    pub fn remove(&self) -> std::io::Result<()> {
        remove(&self.directory, &Cell::new(u32::MAX))
    }
}

/// Removes the caches of projects that weren't used for long, and of the oldest ones if there are too many.
///
/// No project's path is looked at: its file system may not answer.
pub(super) fn trim(projects: &Path) {
    trim_to(projects, MOST, &Cell::new(AT_ONCE));
}

fn trim_to(projects: &Path, most: usize, left: &Cell<u32>) {
    let used = |directory: PathBuf| {
        // A launch that makes the directory at this time hasn't written the file yet.
        let file =
            directory.join(PROJECT).symlink_metadata().or_else(|_missing| directory.symlink_metadata());
        Some((file.ok()?.modified().ok()?, directory))
    };
    let entries = std::fs::read_dir(projects).into_iter().flatten().flatten();
    let mut all: Vec<(SystemTime, PathBuf)> = entries.filter_map(|entry| used(entry.path())).collect();
    all.sort();
    let now = SystemTime::now();
    let too_many = all.len().saturating_sub(most);
    for (number, (used, directory)) in all.iter().enumerate() {
        let is_old = now.duration_since(*used).is_ok_and(|age| age > OLDEST);
        if (number < too_many || is_old) && is_ours(directory).is_ok() {
            // Another launch may remove it, too. One that can't be removed doesn't keep the others.
            let _removed = remove(directory, left);
        }
        if left.get() == 0 {
            break;
        }
    }
}

/// Removes a directory with everything in it, but no more files than are `left`.
fn remove(directory: &Path, left: &Cell<u32>) -> std::io::Result<()> {
    Work::Remove(left).on(directory)?;
    let _missing = std::fs::remove_file(directory.join(PROJECT));
    std::fs::remove_dir(directory)
}

/// The path in the text that identifies a project: everything before the last line.
fn path_of(text: &[u8]) -> Option<PathBuf> {
    let text = text.strip_suffix(b"\n")?;
    let end = text.iter().rposition(|byte| *byte == b'\n')?;
    Some(PathBuf::from(OsStr::from_bytes(text.get(..end)?)))
}

#[derive(Clone, Copy)]
enum Work<'l> {
    /// Add up the sizes.
    Measure,
    /// Remove everything in it, up to this number of names.
    Remove(&'l Cell<u32>),
}

impl Work<'_> {
    /// Does the work below a directory, and returns the bytes that it takes or took.
    fn on(self, path: &Path) -> std::io::Result<u64> {
        let directory = self.open(CWD, path.as_os_str(), 0)?;
        Ok(self.in_directory(&directory, 0)?)
    }

    fn open(self, above: BorrowedFd<'_>, name: &OsStr, depth: u32) -> Result<OwnedFd, Errno> {
        if depth > DEEPEST {
            return Err(Errno::NAMETOOLONG);
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match (openat(above, name, OFlags::RDONLY | flags, Mode::empty()), self) {
            // Module caches are read-only, so that nobody changes them by mistake.
            (Ok(_) | Err(Errno::ACCESS), Self::Remove(_)) => {
                let known = openat(above, name, OFlags::PATH | flags, Mode::empty())?;
                chmod(format!("/proc/self/fd/{}", known.as_raw_fd()), Mode::RWXU)?;
                openat(above, name, OFlags::RDONLY | flags, Mode::empty())
            }
            (opened, _) => opened,
        }
    }

    fn in_directory(self, directory: &OwnedFd, depth: u32) -> Result<u64, Errno> {
        let mut size = 0;
        // Small, because there is one at each depth, and without memory of the heap, because there are many directories.
        let mut buffer = [const { MaybeUninit::<u8>::uninit() }; 1024];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            // What identifies the project, and says when it was used, is removed last.
            let is_last = depth == 0 && name.to_bytes() == PROJECT.as_bytes();
            if name != c"." && name != c".." && !is_last {
                size += self.on_entry(directory.as_fd(), name, depth)?;
            }
        }
        Ok(size)
    }

    fn on_entry(self, above: BorrowedFd<'_>, name: &CStr, depth: u32) -> Result<u64, Errno> {
        let stat = match statat(above, name, AtFlags::SYMLINK_NOFOLLOW) {
            // Another process has removed it.
            Err(Errno::NOENT) => return Ok(0),
            stat => stat?,
        };
        let mut size = u64::try_from(stat.st_blocks).unwrap_or(0) * 512;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory {
            match self.open(above, OsStr::from_bytes(name.to_bytes()), depth + 1) {
                Ok(directory) => size += self.in_directory(&directory, depth + 1)?,
                // What can't be listed has the size of its name.
                Err(Errno::ACCESS | Errno::NOENT) if matches!(self, Self::Measure) => {}
                Err(errno) => return Err(errno),
            }
        }
        if let Self::Remove(left) = self {
            left.set(left.get().checked_sub(1).ok_or(Errno::AGAIN)?);
            let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            unlinkat(above, name, flags)?;
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn everything_is_removed_and_no_link_is_followed() {
        let cache = tempfile::tempdir().unwrap();
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join("file"), "kept").unwrap();
        let environment = [("XDG_CACHE_HOME", cache.path().to_str().unwrap())];
        let environment = palisade_host::environment::Environment::from_iter(environment);
        let places = Places::new(Path::new("/nowhere"), 0, &environment);
        assert_eq!(list(&places).unwrap().len(), 0);

        let project = tempfile::tempdir().unwrap();
        let text = identity(project.path(), Birth::of(project.path()).unwrap());
        let above = super::super::directory(&places);
        fs::create_dir_all(&above).unwrap();
        let directory = super::super::make(&above, &text).unwrap();
        fs::write(directory.join(PROJECT), &text).unwrap();
        let files = directory.join("set/files");
        fs::create_dir_all(files.join("read/only/deep")).unwrap();
        fs::write(files.join("read/only/file"), vec![1; 100_000]).unwrap();
        symlink(victim.path(), files.join("link")).unwrap();
        symlink(victim.path(), files.join("read/only/link")).unwrap();
        for closed in ["read/only/deep", "read/only", "read"] {
            fs::set_permissions(files.join(closed), Permissions::from_mode(0o500)).unwrap();
        }
        fs::set_permissions(files.join("read/only/deep"), Permissions::from_mode(0o000)).unwrap();

        let found = list(&places).unwrap();
        let [one] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.path.as_path(), one.gone), (project.path(), false));
        assert!((100_000..1_000_000).contains(&one.size), "{}", one.size);
        let path = project.path().to_owned();
        drop(project);
        fs::create_dir(&path).unwrap();
        let found = list(&places).unwrap();
        assert!(found[0].gone);
        found[0].remove().unwrap();
        assert!(!directory.exists());
        assert_eq!(fs::read_to_string(victim.path().join("file")).unwrap(), "kept");
        fs::remove_dir(path).unwrap();
    }

    #[test]
    fn the_oldest_are_removed_little_by_little() {
        let projects = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let make = |name: &str, days: u64, files: u32| {
            let directory = projects.path().join(name);
            fs::create_dir_all(directory.join("set/files")).unwrap();
            (0..files).for_each(|file| fs::write(directory.join(format!("set/files/{file}")), "").unwrap());
            let file = fs::File::create(directory.join(PROJECT)).unwrap();
            file.set_modified(now - Duration::from_secs(days * 24 * 3600)).unwrap();
        };
        make("old", 91, 20);
        (1..=5).for_each(|days| make(&days.to_string(), days, 3));
        let left = || {
            let mut names: Vec<_> =
                fs::read_dir(projects.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        // What one launch may remove isn't enough for the old one.
        trim_to(projects.path(), 4, &Cell::new(10));
        assert!(left().contains(&"old".into()) && left().len() == 6);
        for _launch in 0..5 {
            trim_to(projects.path(), 4, &Cell::new(10));
        }
        assert_eq!(left(), ["1", "2", "3", "4"]);
        trim_to(projects.path(), 4, &Cell::new(1000));
        assert_eq!(left().len(), 4);
    }

    #[test]
    fn a_path_with_line_breaks_is_read_again() {
        let path = Path::new("/a\nb\n1 2 3");
        let text = identity(path, Birth { inode: 1, seconds: 2, nanoseconds: 3 });
        assert_eq!(path_of(&text).as_deref(), Some(path));
        assert_eq!(path_of(b""), None);
    }
}
