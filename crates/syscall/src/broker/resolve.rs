// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Resolves a path to the directory that holds its last name, as the caller would find it.
//!
//! The kernel resolves most paths in one call. Paths through `/proc/self` depend on the process that resolves them.
//! The broker isn't in the sandbox's PID namespace, so for the broker that link doesn't exist. Such paths are
//! resolved here, name by name. The result is judged afterwards, so the way of resolving doesn't matter for security.
//! Without namespaces the broker is in that namespace. Then every path that leads into `/proc` is resolved here, and only
//! the files of processes inside are given to callers: the kernel would let the broker write to its own memory.

use crate::broker::caller::{Caller, DIRECTORY, DecimalBuffer, OBJECT, PATH_MAX, path_of};
use crate::broker::repository::{Locks, marks_of};
use crate::broker::way::Way;
use palisade_policy::names::repository::Marks;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How many links the kernel follows in one path.
const LINKS: u32 = 40;
/// The inode number of the root of every process file system (`PROC_ROOT_INO`).
const PROC_ROOT: u64 = 1;
pub(crate) const PROC_MAGIC: i64 = 0x9fa0;

/// Where a path leads.
#[derive(Debug)]
pub(crate) enum Spot {
    /// A name in a directory; the file may exist or not. Either no link is left to follow, or the call follows none.
    Name(Place),
    /// An existing file that was reached without a last name: by `.`, `..`, `/`, or a magic link.
    Object(OwnedFd),
}

/// A name in a directory.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory.
    pub(crate) parent: OwnedFd,
    /// The name, with the slashes behind it. A slash means that the file must be a directory.
    pub(crate) name: CString,
}

impl Place {
    /// The name without the slashes.
    pub(crate) fn plain(&self) -> &[u8] {
        trim(self.name.to_bytes())
    }

    /// The whole path, as seen inside.
    pub(crate) fn path(&self) -> Result<Vec<u8>, Errno> {
        let mut path = path_of(self.parent.as_fd())?;
        if path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(self.plain());
        Ok(path)
    }

    /// The target text of the link at this name.
    pub(crate) fn read_link(&self) -> Result<Vec<u8>, Errno> {
        rustix::fs::readlinkat(&self.parent, &*c_string(self.plain())?, Vec::new()).map(CString::into_bytes)
    }

    /// Whether a directory has this name.
    pub(crate) fn is_directory(&self) -> bool {
        self.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    }

    /// The status of the file; follows no link.
    pub(crate) fn stat(&self) -> Result<Stat, Errno> {
        let name = c_string(self.plain())?;
        rustix::fs::statat(&self.parent, &*name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Way for Place {
    fn open(&self, up: usize) -> Result<OwnedFd, Errno> {
        let above = upwards(up.saturating_sub(1)).ok_or(Errno::NOENT)?;
        rustix::fs::openat(&self.parent, &*above, DIRECTORY, Mode::empty())
    }

    fn marks(&self, up: usize, locks: &Locks) -> Option<Marks> {
        marks_of(self.open(up), locks)
    }
}

/// A file that was reached by a descriptor, and its path.
pub(crate) struct Object<'o> {
    pub(crate) file: BorrowedFd<'o>,
    pub(crate) path: &'o [u8],
}

impl Object<'_> {
    /// The directory that its path names as its parent, if the file is still there.
    fn parent(&self) -> Option<OwnedFd> {
        let slash = self.path.iter().rposition(|byte| *byte == b'/')?;
        let (directory, name) = (&self.path[..slash.max(1)], &self.path[slash + 1..]);
        let parent = open_parent(CWD, &c_string(directory).ok()?).ok()?;
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let there = rustix::fs::statat(&parent, &*c_string(name).ok()?, flags).ok()?;
        let own = rustix::fs::fstat(self.file).ok()?;
        ((there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)).then_some(parent)
    }
}

impl Way for Object<'_> {
    fn open(&self, up: usize) -> Result<OwnedFd, Errno> {
        let above = upwards(up.saturating_sub(1)).ok_or(Errno::NOENT)?;
        let parent = self.parent().ok_or(Errno::NOENT)?;
        rustix::fs::openat(&parent, &*above, DIRECTORY, Mode::empty())
    }

    fn marks(&self, up: usize, locks: &Locks) -> Option<Marks> {
        // A file without a name lies in no directory.
        if rustix::fs::fstat(self.file).is_ok_and(|stat| stat.st_nlink == 0) {
            return Some(Marks::default());
        }
        marks_of(self.open(up), locks)
    }
}

/// `.`, or `../..`: `count` directories up.
fn upwards(count: usize) -> Option<CString> {
    if count == 0 {
        return Some(c".".to_owned());
    }
    c_string(&[b"..".as_slice()].repeat(count).join(&b'/')).ok()
}

/// Whether a link in the last component is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Last {
    /// Yes.
    Follow,
    /// Yes, and a file is made if the target doesn't exist.
    Make,
    /// No: the call is about the link itself.
    Keep,
}

fn trim(mut name: &[u8]) -> &[u8] {
    while let Some((b'/', rest)) = name.split_last() {
        name = rest;
    }
    name
}

pub(crate) fn c_string(bytes: &[u8]) -> Result<CString, Errno> {
    CString::new(bytes).map_err(|_null| Errno::INVAL)
}

/// Splits a path into the directory and the last name with its slashes.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let end = trim(path).len();
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    path.split_at(start)
}

/// Whether a name is `.`, `..` or empty: a call can't make such a name, since it means an existing directory.
fn is_dots(name: &[u8]) -> bool {
    matches!(trim(name), b"" | b"." | b"..")
}

impl Caller<'_> {
    /// Resolves a path that a call names together with a directory descriptor.
    ///
    /// With [`Last::Follow`] the last component of the result may be a link, because the fast way doesn't look. The
    /// call itself then refuses to follow it, and [`follow`](Self::follow) continues from there.
    pub(crate) fn resolve(&self, descriptor: i32, path: &CStr) -> Result<Spot, Errno> {
        let bytes = path.to_bytes();
        let (directory, name) = split(bytes);
        if is_dots(name) {
            return self.walk_from(descriptor, bytes, Last::Follow);
        }
        let parent = if directory.is_empty() {
            self.base(descriptor)
        } else {
            let quick = if self.is_in_place() {
                let start = if bytes.first() == Some(&b'/') { root()? } else { self.base(descriptor)? };
                open_apart(&start, &c_string(directory)?)
            } else if bytes.first() == Some(&b'/') {
                open_parent(CWD, &c_string(directory)?)
            } else if descriptor == CWD.as_raw_fd() && directory.len() < PATH_MAX / 2 {
                self.in_working_directory(directory)
            } else {
                open_parent(self.base(descriptor)?.as_fd(), &c_string(directory)?)
            };
            match quick {
                // Either `/proc/self` or a missing file: resolve it name by name.
                Err(Errno::LOOP | Errno::NOENT | Errno::SRCH) => {
                    return self.walk_from(descriptor, bytes, Last::Keep);
                }
                other => other,
            }
        };
        Ok(Spot::Name(Place { parent: parent?, name: c_string(name)? }))
    }

    /// Continues from a name that turned out to be a link.
    pub(crate) fn follow(&self, place: Place, last: Last) -> Result<Spot, Errno> {
        Walk { caller: self, links: 0 }.walk(place.parent, place.name.as_bytes(), last)
    }

    fn walk_from(&self, descriptor: i32, path: &[u8], last: Last) -> Result<Spot, Errno> {
        let start = if path.first() == Some(&b'/') { root()? } else { self.base(descriptor)? };
        Walk { caller: self, links: 0 }.walk(start, path, last)
    }

    /// The existing file that a path leads to.
    ///
    /// # Errors
    /// `ENOENT`, and other errors of the lookup.
    pub(crate) fn object(&self, spot: Spot, last: Last) -> Result<OwnedFd, Errno> {
        self.object_and_name(spot, last).map(|(object, _name)| object)
    }

    /// The existing file that a path leads to, and its path.
    pub(crate) fn object_and_path(&self, spot: Spot, last: Last) -> Result<(OwnedFd, Vec<u8>), Errno> {
        let (object, name) = self.object_and_name(spot, last)?;
        let path = match (path_of(object.as_fd()), name) {
            // The kernel doesn't report the path of a file that lies too deep, but the path of its directory can be
            // found out.
            (Err(Errno::NAMETOOLONG), Some(place)) => place.path()?,
            (path, _name) => path?,
        };
        Ok((object, path))
    }

    fn object_and_name(&self, spot: Spot, last: Last) -> Result<(OwnedFd, Option<Place>), Errno> {
        let mut spot = spot;
        loop {
            let place = match spot {
                Spot::Object(object) => return Ok((object, None)),
                Spot::Name(place) => place,
            };
            let flags = OBJECT | OFlags::NOFOLLOW;
            let slash = place.plain().len() != place.name.as_bytes().len();
            let object = rustix::fs::openat(&place.parent, &*c_string(place.plain())?, flags, Mode::empty())?;
            let kind = kind(object.as_fd())?;
            if kind == FileType::Symlink && (last == Last::Follow || slash) {
                spot = self.follow(place, Last::Follow)?;
                continue;
            }
            if slash && kind != FileType::Directory {
                return Err(Errno::NOTDIR);
            }
            return Ok((object, Some(place)));
        }
    }
}

fn open_parent(base: BorrowedFd<'_>, directory: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(base, directory, DIRECTORY, Mode::empty())
}

/// As [`open_parent`], where the broker is in the command's `/proc`: `self` and magic links there would be the broker's own.
/// `ELOOP` for those, as for a missing file the path is resolved name by name then.
fn open_apart(base: &OwnedFd, directory: &CStr) -> Result<OwnedFd, Errno> {
    let directory = directory.to_bytes();
    let relative =
        c_string(directory.iter().position(|byte| *byte != b'/').map_or(b".", |at| &directory[at..]))?;
    let opened =
        rustix::fs::openat2(base, &*relative, DIRECTORY, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    if is_in_proc(opened.as_fd())? { Err(Errno::LOOP) } else { Ok(opened) }
}

/// Whether a file is the kernel's, about processes.
pub(crate) fn is_in_proc(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(rustix::fs::fstatfs(file)?.f_type == PROC_MAGIC)
}

fn root() -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, c"/", DIRECTORY, Mode::empty())
}

pub(crate) fn kind(object: BorrowedFd<'_>) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(object)?.st_mode))
}

/// Whether an entry of a directory is itself a directory. Some file systems don't report the type.
pub(crate) fn is_directory(parent: &OwnedFd, name: &CStr, told: FileType) -> bool {
    match told {
        FileType::Unknown => rustix::fs::openat(parent, name, OBJECT | OFlags::NOFOLLOW, Mode::empty())
            .and_then(|found| kind(found.as_fd()))
            .is_ok_and(|kind| kind == FileType::Directory),
        other => other == FileType::Directory,
    }
}

struct Walk<'c> {
    caller: &'c Caller<'c>,
    links: u32,
}

impl Walk<'_> {
    fn walk(&mut self, start: OwnedFd, path: &[u8], last: Last) -> Result<Spot, Errno> {
        let mut here = start;
        let mut rest = path.to_vec();
        loop {
            let skipped = rest.iter().take_while(|byte| **byte == b'/').count();
            rest.drain(..skipped);
            if rest.is_empty() {
                return Ok(Spot::Object(here));
            }
            let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
            let name = c_string(&rest[..end])?;
            let slashes = rest[end..].iter().take_while(|byte| **byte == b'/').count();
            let is_last = end + slashes == rest.len();
            if matches!(name.to_bytes(), b"." | b"..") {
                here = rustix::fs::openat(&here, &*name, DIRECTORY, Mode::empty())?;
                rest.drain(..end);
                continue;
            }
            // The kernel makes no file for a name with a slash behind it, and doesn't check whether a directory is
            // there.
            if is_last && last == Last::Make && slashes > 0 && self.links > 0 {
                return Err(Errno::ISDIR);
            }
            if is_last && last == Last::Keep {
                return Ok(Spot::Name(Place { parent: here, name: c_string(&rest)? }));
            }
            let next = match self.step(&here, &name) {
                Err(Errno::NOENT) if is_last => {
                    return Ok(Spot::Name(Place { parent: here, name: c_string(&rest)? }));
                }
                other => other?,
            };
            match next {
                Next::Link(target) => {
                    if target.first() == Some(&b'/') {
                        here = root()?;
                    }
                    let mut longer = target;
                    longer.extend_from_slice(&rest[end..]);
                    if longer.len() >= PATH_MAX * 2 {
                        return Err(Errno::NAMETOOLONG);
                    }
                    rest = longer;
                }
                Next::Jump(object) => {
                    rest.drain(..end);
                    if rest.iter().all(|byte| *byte == b'/') && rest.is_empty() {
                        return Ok(Spot::Object(object));
                    }
                    here = directory(object)?;
                }
                Next::There if is_last => {
                    return Ok(Spot::Name(Place { parent: here, name: c_string(&rest)? }));
                }
                Next::There => {
                    let found = rustix::fs::openat(&here, &*name, OBJECT | OFlags::NOFOLLOW, Mode::empty())?;
                    here = directory(found)?;
                    rest.drain(..end);
                }
            }
        }
    }

    /// Looks at one component.
    fn step(&mut self, here: &OwnedFd, name: &CStr) -> Result<Next, Errno> {
        let proc = self.in_proc(here)?;
        if proc == Proc::Root {
            match name.to_bytes() {
                b"self" => return self.own_directory(here, false).map(Next::Jump),
                b"thread-self" => return self.own_directory(here, true).map(Next::Jump),
                _ => {}
            }
        }
        let found = rustix::fs::openat(here, name, OBJECT | OFlags::NOFOLLOW, Mode::empty())?;
        if kind(found.as_fd())? != FileType::Symlink {
            return Ok(Next::There);
        }
        self.links += 1;
        if self.links > LINKS {
            return Err(Errno::LOOP);
        }
        if proc == Proc::Below {
            if self.caller.is_of_kernel(here.as_fd())? {
                return Err(Errno::ACCESS);
            }
            return rustix::fs::openat(here, name, OBJECT, Mode::empty()).map(Next::Jump);
        }
        let target = rustix::fs::readlinkat(&found, c"", Vec::new())?;
        Ok(Next::Link(target.into_bytes()))
    }

    /// The directory that `self` or `thread-self` in `proc` means for the caller.
    fn own_directory(&self, proc: &OwnedFd, thread: bool) -> Result<OwnedFd, Errno> {
        let (process, number) = self.caller.numbers_inside()?;
        let mut digits = DecimalBuffer::default();
        let own = rustix::fs::openat(proc, digits.write(process), DIRECTORY, Mode::empty())?;
        if !thread {
            return Ok(own);
        }
        let path = [b"task/", digits.write(number)].concat();
        rustix::fs::openat(&own, &*c_string(&path)?, DIRECTORY, Mode::empty())
    }

    fn in_proc(&self, here: &OwnedFd) -> Result<Proc, Errno> {
        let kind = rustix::fs::fstatfs(here)?.f_type;
        if kind != PROC_MAGIC {
            return Ok(Proc::Elsewhere);
        }
        let stat = rustix::fs::fstat(here)?;
        Ok(if stat.st_ino == PROC_ROOT { Proc::Root } else { Proc::Below })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Proc {
    Elsewhere,
    Root,
    Below,
}

enum Next {
    /// An existing file that is no link.
    There,
    /// A link with this target text.
    Link(Vec<u8>),
    /// A file that the kernel reached by a magic link.
    Jump(OwnedFd),
}

fn directory(object: OwnedFd) -> Result<OwnedFd, Errno> {
    if kind(object.as_fd())? == FileType::Directory { Ok(object) } else { Err(Errno::NOTDIR) }
}

/// `self/fd/N` of this process as a path relative to the worker's directory.
pub(crate) fn by_number<'b>(file: BorrowedFd<'_>, buffer: &'b mut DecimalBuffer) -> &'b [u8] {
    buffer.write(file.as_raw_fd().unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_cut_before_its_last_name() {
        for (path, directory, name) in [
            ("a", "", "a"),
            ("/a", "/", "a"),
            ("a/b", "a/", "b"),
            ("a/b//", "a/", "b//"),
            ("//a//b", "//a//", "b"),
            ("/", "", "/"),
            ("a/..", "a/", ".."),
        ] {
            assert_eq!(split(path.as_bytes()), (directory.as_bytes(), name.as_bytes()), "{path}");
        }
        assert!(is_dots(b"../") && is_dots(b".") && is_dots(b"///") && !is_dots(b"..."));
    }
}
