// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes refusals to a file, one JSON object on each line. Repeated refusals change the count in their line.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use palisade_event::Refusal;
use palisade_text::shown;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::refusals::RefusalOutlet;

/// A file of the user's that is larger isn't extended.
const LARGEST: u64 = 16 << 20;
/// How often a file is looked for that others make and remove meanwhile.
const ATTEMPTS: usize = 3;

/// Why a file of the user's isn't written.
#[derive(Debug, thiserror::Error)]
enum RefusalFileError {
    #[error("it is no regular file")]
    NotRegular,
    #[error("it is a symbolic link")]
    Link,
    #[error("a directory above it is a symbolic link, which root doesn't follow")]
    LinkAbove,
    #[error("it belongs to user {0}")]
    Owner(u32),
    #[error("other users may write to it")]
    OthersWrite,
    #[error("the same file has another name, too")]
    OtherName,
    #[error("the sandbox can write there")]
    Inside,
    #[error("it has more than {} MiB", LARGEST >> 20)]
    Large,
    #[error("the path isn't absolute")]
    Relative,
    #[error(transparent)]
    System(#[from] io::Error),
}

impl From<Errno> for RefusalFileError {
    fn from(errno: Errno) -> Self {
        Self::System(errno.into())
    }
}

/// A file of refusals.
#[derive(Debug)]
pub struct RefusalFile {
    state: State,
    /// For complaints.
    name: String,
    /// The lines: the offset of the count, and the count.
    lines: HashMap<usize, (u64, u64)>,
    complaint: Option<String>,
}

#[derive(Debug)]
enum State {
    /// A file of the user's, opened for the first refusal. The directories are those that the sandbox can write to.
    Path(PathBuf, Vec<PathBuf>),
    Open(File),
    Stopped,
}

impl RefusalFile {
    /// Writes to an open file, which is this process's alone.
    #[must_use]
    pub fn new(file: OwnedFd) -> Self {
        Self::of(State::Open(File::from(file)), "the file inside".to_owned())
    }

    /// Appends to the user's file at `path`, which is made if it doesn't exist. The sandbox can write to the directories
    /// `writable`: a file there isn't used.
    #[must_use]
    pub fn at(path: PathBuf, writable: Vec<PathBuf>) -> Self {
        let name = shown(&path).to_string();
        Self::of(State::Path(path, writable), name)
    }

    fn of(state: State, name: String) -> Self {
        Self { state, name, lines: HashMap::new(), complaint: None }
    }

    fn file(&mut self) -> Option<&mut File> {
        if let State::Path(path, writable) = &self.state {
            match open(path, writable) {
                Ok(file) => self.state = State::Open(file),
                Err(error) => self.stop(&error),
            }
        }
        match &mut self.state {
            State::Open(file) => Some(file),
            State::Path(..) | State::Stopped => None,
        }
    }

    fn stop(&mut self, error: &RefusalFileError) {
        self.complaint = Some(format!("refusals aren't written to {}: {error}", self.name));
        self.state = State::Stopped;
    }

    fn written(&mut self, number: usize, refusal: &Refusal<'_>) -> Result<(), RefusalFileError> {
        let known = self.lines.get(&number).copied();
        let Some(file) = self.file() else { return Ok(()) };
        if let Some((at, count)) = known
            && recount(file, at, count, refusal.count)?
        {
            self.lines.insert(number, (at, refusal.count));
            return Ok(());
        }
        let at = append(file, refusal)?;
        self.lines.insert(number, (at, refusal.count));
        Ok(())
    }
}

impl RefusalOutlet for RefusalFile {
    fn take(&mut self, number: usize, refusal: &Refusal<'_>) {
        if let Err(error) = self.written(number, refusal) {
            self.stop(&error);
        }
    }

    fn complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }
}

/// Appends a line with one write, because other launches may append to the same file. Returns the place of its count.
fn append(file: &mut File, refusal: &Refusal<'_>) -> Result<u64, RefusalFileError> {
    let mut line = refusal.line().map_err(io::Error::from)?;
    line.push('\n');
    rustix::fs::fcntl_setfl(&*file, OFlags::APPEND)?;
    let written = file.write(line.as_bytes())?;
    let end = file.stream_position()?;
    let begin = end.saturating_sub(u64::try_from(written).unwrap_or_default());
    if written < line.len() {
        // A disk that is full takes a part of the line. Nothing is left of it, unless another launch has appended.
        if file.metadata()?.len() == end {
            file.set_len(begin)?;
        }
        return Err(io::Error::from(ErrorKind::StorageFull).into());
    }
    Ok(begin + u64::try_from(Refusal::COUNT_AT).unwrap_or_default())
}

/// Replaces the count in a line. Returns whether the line is still there: the user may have emptied the file.
fn recount(file: &File, at: u64, before: u64, now: u64) -> Result<bool, RefusalFileError> {
    let mut found = [0; Refusal::COUNT_WIDTH];
    match file.read_exact_at(&mut found, at) {
        Ok(()) if found == *Refusal::shown_count(before).as_bytes() => {}
        Ok(()) => return Ok(false),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    // With this flag, Linux appends whatever the offset is (pwrite(2)).
    rustix::fs::fcntl_setfl(file, OFlags::empty())?;
    file.write_all_at(Refusal::shown_count(now).as_bytes(), at)?;
    Ok(true)
}

/// Opens the user's file. Whatever lies at the path, this neither waits nor changes a file that isn't the user's own.
fn open(path: &Path, writable: &[PathBuf]) -> Result<File, RefusalFileError> {
    let (Some(above), Some(name), true) = (path.parent(), path.file_name(), path.is_absolute()) else {
        return Err(RefusalFileError::Relative);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Another user may have put a link there, so that root's file is made where that user can't make one.
    let root = rustix::process::geteuid().is_root();
    let resolve = if root { ResolveFlags::NO_SYMLINKS } else { ResolveFlags::empty() };
    let directory = match rustix::fs::openat2(rustix::fs::CWD, above, flags, Mode::empty(), resolve) {
        Err(Errno::LOOP) if root => return Err(RefusalFileError::LinkAbove),
        directory => directory?,
    };
    // The real path: links may lead into what the sandbox can write to.
    let real = std::fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))?;
    if writable.iter().any(|tree| real.starts_with(tree)) || writable.contains(&real.join(name)) {
        return Err(RefusalFileError::Inside);
    }
    for _attempt in 0..ATTEMPTS {
        let made = rustix::fs::openat(
            &directory,
            name,
            OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o600),
        );
        match made {
            Ok(file) => return Ok(File::from(file)),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        // First without opening it: opening a pipe or a device can wait, or have an effect.
        let found = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&directory, name, found, Mode::empty()) {
            Ok(found) => {
                examine(&found)?;
                let again = format!("/proc/self/fd/{}", found.as_raw_fd());
                let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK | OFlags::CLOEXEC;
                return Ok(File::from(rustix::fs::open(again, flags, Mode::empty())?));
            }
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(Errno::NOENT.into())
}

/// Checks that a file is a regular one that only this user writes.
fn examine(found: &OwnedFd) -> Result<(), RefusalFileError> {
    let stat = rustix::fs::statat(found.as_fd(), "", AtFlags::EMPTY_PATH)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Symlink => return Err(RefusalFileError::Link),
        _ => return Err(RefusalFileError::NotRegular),
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(RefusalFileError::Owner(stat.st_uid));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(RefusalFileError::OthersWrite);
    }
    if stat.st_nlink > 1 {
        return Err(RefusalFileError::OtherName);
    }
    if u64::try_from(stat.st_size).is_ok_and(|size| size > LARGEST) {
        return Err(RefusalFileError::Large);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::refusal;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn take(file: &mut RefusalFile, object: &str, number: usize, count: u64) {
        file.take(number, &Refusal::new(&refusal(object), count));
    }

    fn counts(path: &Path) -> Vec<(String, u64)> {
        let text = std::fs::read_to_string(path).unwrap();
        let line = |line: &str| {
            let read: serde_json::Value = serde_json::from_str(line).unwrap();
            (read["object"].as_str().unwrap().to_owned(), read["count"].as_u64().unwrap())
        };
        text.lines().map(line).collect()
    }

    #[test]
    fn a_refusal_is_a_line_and_its_repetitions_are_counted_there() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("refusals");
        let mut file = RefusalFile::at(path.clone(), Vec::new());
        assert!(!path.exists(), "it is made at the first refusal");
        take(&mut file, "/a", 0, 1);
        take(&mut file, "/b", 1, 1);
        take(&mut file, "/a", 0, 100);
        assert_eq!(counts(&path), [("/a".to_owned(), 100), ("/b".to_owned(), 1)]);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // Another launch appends.
        let mut other = RefusalFile::at(path.clone(), Vec::new());
        take(&mut other, "/c", 0, 1);
        take(&mut file, "/b", 1, 2);
        take(&mut other, "/c", 0, 3);
        let all = [("/a".to_owned(), 100), ("/b".to_owned(), 2), ("/c".to_owned(), 3)];
        assert_eq!(counts(&path), all);
        // The user has emptied the file.
        std::fs::write(&path, "").unwrap();
        take(&mut file, "/a", 0, 101);
        assert_eq!(counts(&path), [("/a".to_owned(), 101)]);
        assert_eq!((file.complaint(), other.complaint()), (None, None));
    }

    #[test]
    fn what_isnt_the_users_own_file_is_left_alone() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("refusals");
        let target = above.path().join("target");
        let said = |writable: Vec<PathBuf>, path: &Path| {
            let mut file = RefusalFile::at(path.to_owned(), writable);
            take(&mut file, "/a", 0, 1);
            take(&mut file, "/a", 0, 2);
            let complaint = file.complaint().unwrap_or_default();
            assert_eq!(file.complaint(), None, "a complaint is made once");
            complaint
        };
        std::fs::write(&target, "target").unwrap();
        symlink(&target, &path).unwrap();
        assert!(said(vec![], &path).ends_with(": it is a symbolic link"));
        std::fs::remove_file(&path).unwrap();
        std::fs::hard_link(&target, &path).unwrap();
        assert!(said(vec![], &path).contains("another name"));
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(said(vec![], &path).contains("no regular file"), "a pipe without a reader");
        let reader = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        assert!(said(vec![], &path).contains("no regular file"), "a pipe with a reader");
        drop(reader);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(said(vec![], &path).contains("no regular file"));
        std::fs::remove_dir(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
        assert!(said(vec![], &path).contains("other users may write"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        File::options().write(true).open(&path).unwrap().set_len(LARGEST + 1).unwrap();
        assert!(said(vec![], &path).contains("16 MiB"));
        std::fs::remove_file(&path).unwrap();
        assert!(
            said(vec![above.path().canonicalize().unwrap()], &path).contains("the sandbox can write there")
        );
        assert!(said(vec![], Path::new("refusals")).contains("isn't absolute"));
        assert!(said(vec![], Path::new("/dev/null")).contains("no regular file"));
        assert!(said(vec![], &above.path().join("none/refusals")).contains("No such file"));
        symlink(above.path(), above.path().join("link")).unwrap();
        let linked = said(vec![], &above.path().join("link/refusals"));
        let root = rustix::process::geteuid().is_root();
        assert_eq!((linked.contains("a directory above it"), path.exists()), (root, !root), "{linked}");
        let _made_by_an_ordinary_user = std::fs::remove_file(&path);
        assert!(!path.exists());
        assert_eq!(std::fs::read(&target).unwrap(), b"target");
    }

    #[test]
    fn a_full_disk_ends_the_file_and_leaves_whole_lines() {
        let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
        let mut file = RefusalFile::new(full.into());
        take(&mut file, "/a", 0, 1);
        assert!(file.complaint().unwrap().starts_with("refusals aren't written to the file inside: "));
        take(&mut file, "/a", 0, 2);
        assert_eq!(file.complaint(), None);
    }
}
