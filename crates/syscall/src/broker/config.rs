// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces files that may change if the change is harmless: a repository's own configuration.
//!
//! git writes `config.lock` and renames it to `config`. The broker reads both files, judges the difference to the
//! content before the sandbox's first change, and puts its own copy in place. A process that still has the lock file
//! open writes to a file that no program reads.

use crate::broker::resolve::{Place, c_string};
use palisade_host::gitconfig::edit;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Larger configurations are refused without a judgement.
const LARGEST: u64 = 1 << 20;

/// The prefix of a copy's name until the copy is in place. No broker lets a command open such a file: a process that
/// had it open could still write to it when git obeys it.
const ON_ITS_WAY: &str = ".config.palisade-";

/// Whether a name is that of a copy that isn't in place yet.
pub(crate) fn is_on_its_way(name: &[u8]) -> bool {
    name.get(..ON_ITS_WAY.len()).is_some_and(|start| start.eq_ignore_ascii_case(ON_ITS_WAY.as_bytes()))
}

/// Why a file wasn't replaced.
pub(crate) enum NotReplaced {
    /// The change isn't harmless, and why.
    Refused(String),
    /// The operation failed.
    Failed(Errno),
}

impl std::fmt::Display for NotReplaced {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(why) => to.write_str(why),
            Self::Failed(errno) => write!(to, "it couldn't be read and copied: {errno}"),
        }
    }
}

impl From<Errno> for NotReplaced {
    fn from(errno: Errno) -> Self {
        Self::Failed(errno)
    }
}

/// The first content of each configuration, by its path on the host. Without it a command could split a harmful
/// change into steps that are harmless one by one.
#[derive(Default)]
pub(crate) struct Baselines(Mutex<Known>);

#[derive(Default)]
struct Known {
    baselines: HashMap<Vec<u8>, edit::Baseline>,
    /// The size of all remembered contents, in bytes.
    size: usize,
}

/// At most this many configurations can be changed in one launch.
const MOST: usize = 4096;
/// And at most as many as fit into this many bytes.
const ROOM: usize = 32 << 20;

impl Baselines {
    fn judge(
        &self,
        path: &[u8],
        made: bool,
        old: Option<&[u8]>,
        new: &[u8],
        place: &edit::Place<'_>,
    ) -> Result<(), NotReplaced> {
        let known = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let size_before = known.baselines.get(path).map(edit::Baseline::size);
        let others = known.size - size_before.unwrap_or(0);
        // An upper bound: the first content, the present one and the new one.
        let there = old.map_or(0, <[u8]>::len);
        let most = size_before.unwrap_or(0).max(3 * there) + there + new.len();
        if others + most > ROOM || (size_before.is_none() && known.baselines.len() >= MOST) {
            return Err(NotReplaced::Failed(Errno::NOSPC));
        }
        // In a repository of the user's a missing file counts as empty. Only a repository that was made inside has
        // nothing to compare with.
        let now = match (old, made) {
            (None, false) => Some(&[][..]),
            (old, _) => old,
        };
        let baseline = known
            .baselines
            .entry(path.to_vec())
            .or_insert_with(|| edit::Baseline::new(now.map(<[u8]>::to_vec)));
        let judged = baseline.judge(now, new, place);
        known.size = others + baseline.size();
        judged.map_err(|refusal| NotReplaced::Refused(refusal.to_string()))
    }
}

/// Puts a copy of `from` at `to` and removes `from`, if the change is harmless. `path` is the path of `to` on the
/// host. `made` says that its directory was made inside. The caller must hold the lock against changes of names
/// inside.
pub(crate) fn replace(
    baselines: &Baselines,
    from: &Place,
    to: &Place,
    path: &[u8],
    made: bool,
) -> Result<(), NotReplaced> {
    make(baselines, &open(from)?, to, path, made)?;
    rustix::fs::unlinkat(&from.parent, &*c_string(from.plain())?, rustix::fs::AtFlags::empty())?;
    Ok(())
}

/// Puts a copy of the open file `source` at `to`, if the change is harmless. The other arguments are those of
/// [`replace`].
pub(crate) fn make(
    baselines: &Baselines,
    source: &OwnedFd,
    to: &Place,
    path: &[u8],
    made: bool,
) -> Result<(), NotReplaced> {
    let bytes = path;
    let (new, mode) = content(source)?;
    let old = match open(to) {
        Ok(file) => Some(read(&file)?),
        Err(Errno::NOENT) => None,
        Err(errno) => return Err(errno.into()),
    };
    let path = Path::new(std::ffi::OsStr::from_bytes(path));
    let git_directory = path.parent().unwrap_or(path);
    // The outermost git directory: a submodule's lies within it.
    let top = git_directory
        .ancestors()
        .filter(|path| path.file_name().is_some_and(|name| name == ".git"))
        .last()
        .and_then(Path::parent)
        .unwrap_or(git_directory);
    let place = edit::Place { git_directory, work_tree_top: top };
    // git reads `config.worktree` after `config`, so it could override what was judged harmless there.
    if to.plain() == b"config.worktree"
        && names_work_tree(&new)
        && !old.as_deref().is_some_and(names_work_tree)
    {
        return Err(NotReplaced::Refused(
            "it may not contain `worktree`, which would move the working tree".into(),
        ));
    }
    baselines.judge(bytes, made, old.as_deref(), &new, &place)?;
    Ok(put(to, &new, mode, old.is_some())?)
}

/// Puts a copy of the open file `source` at a name that is not protected.
pub(crate) fn put_new(source: &OwnedFd, to: &Place) -> Result<(), NotReplaced> {
    let (new, mode) = content(source)?;
    Ok(put(to, &new, mode, false)?)
}

/// Judges an existing file as the configuration of a new repository, and replaces it by a copy: another process may
/// have the file open, or it may have another name. `path` is on the host.
pub(crate) fn adopt(baselines: &Baselines, file: &Place, path: &[u8]) -> Result<(), NotReplaced> {
    let (text, mode) = content(&open(file)?)?;
    let host = Path::new(std::ffi::OsStr::from_bytes(path));
    let git_directory = host.parent().unwrap_or(host);
    if file.plain() == b"config.worktree" && names_work_tree(&text) {
        return Err(NotReplaced::Refused(
            "it may not contain `worktree`, which would move the working tree".into(),
        ));
    }
    let place = edit::Place { git_directory, work_tree_top: git_directory };
    baselines.judge(path, true, None, &text, &place)?;
    Ok(put(file, &text, mode, true)?)
}

/// Atomically replaces a file by one with this content. `there` says that a file exists, which must not be lost.
fn put(place: &Place, content: &[u8], mode: u32, there: bool) -> Result<(), Errno> {
    // In the same directory, under a name that no process inside any sandbox can open.
    let temporary = c_string(format!("{ON_ITS_WAY}{}", std::process::id()).as_bytes())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let _left_by_a_broker_that_was_killed =
        rustix::fs::unlinkat(&place.parent, &*temporary, rustix::fs::AtFlags::empty());
    let file = rustix::fs::openat(&place.parent, &*temporary, flags, Mode::RUSR | Mode::WUSR)?;
    let written = write(file, content, mode, there).and_then(|()| {
        rustix::fs::renameat(&place.parent, &*temporary, &place.parent, &*c_string(place.plain())?)
    });
    if written.is_err() {
        let _gone = rustix::fs::unlinkat(&place.parent, &*temporary, rustix::fs::AtFlags::empty());
    }
    written
}

fn names_work_tree(text: &[u8]) -> bool {
    let name = b"worktree";
    text.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name))
}

fn open(place: &Place) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(&place.parent, &*c_string(place.plain())?, flags, Mode::empty())
}

/// The content of a file, and its mode.
fn content(file: &OwnedFd) -> Result<(Vec<u8>, u32), NotReplaced> {
    let stat = rustix::fs::fstat(file)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(NotReplaced::Refused("it isn't a regular file".into()));
    }
    Ok((read(file)?, stat.st_mode))
}

fn read(file: &OwnedFd) -> Result<Vec<u8>, NotReplaced> {
    let file = rustix::io::fcntl_dupfd_cloexec(file, 0)?;
    let mut bytes = Vec::new();
    File::from(file).take(LARGEST + 1).read_to_end(&mut bytes).map_err(|error| errno(&error))?;
    if bytes.len() as u64 > LARGEST {
        return Err(NotReplaced::Refused("it is larger than 1 MiB".into()));
    }
    Ok(bytes)
}

fn write(file: OwnedFd, bytes: &[u8], mode: u32, to_disk: bool) -> Result<(), Errno> {
    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
    let mut file = File::from(file);
    file.write_all(bytes)
        .and_then(|()| if to_disk { file.sync_data() } else { Ok(()) })
        .map_err(|error| errno(&error))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop makes repositories with large configurations inside. The broker's memory stays bounded, and no
    /// configuration is put in place without a judgement.
    #[test]
    fn what_is_remembered_has_a_limit() {
        let baselines = Baselines::default();
        let place = edit::Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") };
        let large = vec![b'#'; 1 << 20];
        let judge = |number: usize, new: &[u8]| {
            baselines.judge(format!("/{number}/.git/config").as_bytes(), true, None, new, &place)
        };
        let refused = (0..100).find(|number| judge(*number, &large).is_err()).unwrap();
        assert_eq!(refused, ROOM / large.len());
        assert!(matches!(judge(refused, &large), Err(NotReplaced::Failed(Errno::NOSPC))));
        assert!(baselines.0.lock().unwrap().size <= ROOM);
    }

    #[test]
    fn so_many_are_remembered() {
        let baselines = Baselines::default();
        let place = edit::Place { git_directory: Path::new("/w/.git"), work_tree_top: Path::new("/w") };
        let judge = |number: usize| {
            baselines
                .judge(format!("/{number}/.git/config").as_bytes(), true, None, b"[core]\n", &place)
                .is_ok()
        };
        assert!((0..MOST).all(judge) && !judge(MOST) && judge(0));
    }
}
