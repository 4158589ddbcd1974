// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What steps make in the new tree. Paths are relative to the new root, which is the working directory.

use super::{CLONE_TREE, Failed, Part, at, mount};
use crate::operation::Attributes;
use crate::raw::{self, Fd, Result};
use core::ffi::CStr;
use rustix::io::Errno;

/// Makes a directory, unless there is one.
pub(super) fn directory(path: &CStr, mode: u32) -> Result<()> {
    match raw::mkdir(path, mode) {
        Ok(()) => Ok(()),
        // A read-only file system may refuse a name that exists with another error.
        Err(refused) => match raw::kind(path) {
            Ok(libc::S_IFDIR) => Ok(()),
            Ok(_) => Err(Errno::NOTDIR),
            Err(_) if refused == Errno::EXIST => Ok(()),
            Err(_) => Err(refused),
        },
    }
}

/// Makes an empty file, unless there is a file of any kind but a directory.
pub(super) fn file(path: &CStr, mode: u32) -> Result<()> {
    if raw::kind(path).is_ok_and(|kind| kind != libc::S_IFDIR) {
        return Ok(());
    }
    match raw::create_or_empty(path, mode) {
        Ok(made) => raw::close(made),
        Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno),
    }
}

const PATH_MAX: usize = 4096;

/// Makes the directories above `path`.
pub(super) fn parents(path: &CStr, mode: u32) -> Result<()> {
    let bytes = path.to_bytes();
    let mut prefix = [0u8; PATH_MAX];
    if bytes.len() >= PATH_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    prefix[..bytes.len()].copy_from_slice(bytes);
    let Some(last) = bytes.iter().rposition(|byte| *byte == b'/') else { return Ok(()) };
    // Nearly always they exist already.
    if until(&mut prefix, last, raw::kind) == Ok(libc::S_IFDIR) {
        return Ok(());
    }
    let mut end = 0;
    while let Some(length) = bytes[end..].iter().position(|byte| *byte == b'/') {
        end += length;
        until(&mut prefix, end, |above| directory(above, mode))?;
        end += bytes[end..].iter().take_while(|byte| **byte == b'/').count();
    }
    Ok(())
}

/// Calls `task` with the path that ends before `end`.
fn until<T>(path: &mut [u8; PATH_MAX], end: usize, task: impl FnOnce(&CStr) -> Result<T>) -> Result<T> {
    let Some(byte) = path.get_mut(end) else { return Err(Errno::NAMETOOLONG) };
    let before = core::mem::replace(byte, 0);
    let done = CStr::from_bytes_until_nul(path).map_err(|_no_end| Errno::INVAL).and_then(task);
    if let Some(byte) = path.get_mut(end) {
        *byte = before;
    }
    done
}

pub(super) fn copy(from: Fd, to: Fd) -> Result<()> {
    let mut buffer = [0u8; 8192];
    loop {
        let read = match raw::read(from, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        let mut rest = buffer.get(..read).unwrap_or_default();
        while !rest.is_empty() {
            match raw::write(to, rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }
}

pub(super) fn data(
    content: Fd,
    name: &CStr,
    target: &CStr,
    mode: u32,
    attributes: Attributes,
) -> core::result::Result<(), Failed> {
    let held = raw::create(name, 0o600).map_err(at(Part::Hold))?;
    let filled = raw::fchmod(held, mode)
        .map_err(at(Part::HoldMode))
        .and_then(|()| copy(content, held).map_err(at(Part::Copy)));
    raw::close(held).map_err(at(Part::Copy))?;
    filled?;
    file(target, 0o444).map_err(at(Part::MakeFile))?;
    let tree = raw::open_tree(libc::AT_FDCWD, name, CLONE_TREE).map_err(at(Part::Mount))?;
    let mounted = mount(tree, target, attributes);
    raw::close(tree).and(mounted).map_err(at(Part::Mount))?;
    // The mount keeps the file. Nothing inside could reach this name anyway.
    raw::unlink(name).map_err(at(Part::Mount))
}

pub(super) fn symlink(target: &CStr, path: &CStr) -> core::result::Result<(), Failed> {
    let refused = match raw::symlink(target, path) {
        Ok(()) => return Ok(()),
        Err(Errno::EXIST) => Errno::EXIST,
        Err(errno) => return Err(Failed { part: Part::Make, errno }),
    };
    let mut found = [0u8; PATH_MAX];
    match raw::readlink(path, &mut found) {
        Ok(length) if found.get(..length) == Some(target.to_bytes()) => Ok(()),
        Ok(_) => Err(Failed { part: Part::OtherLink, errno: refused }),
        Err(errno) => Err(Failed { part: Part::NoLink, errno }),
    }
}

pub(super) fn read_only(path: &CStr) -> core::result::Result<(), Failed> {
    let root = raw::open(path, libc::O_PATH).map_err(at(Part::Make))?;
    let set = Attributes::READ_ONLY.and(Attributes::NOSUID).and(Attributes::NODEV).0;
    let attr = raw::MountAttr { set, clear: 0, propagation: 0, userns: 0 };
    let changed = raw::mount_setattr(root, false, &attr);
    raw::close(root).map_err(at(Part::Mount))?;
    match changed {
        Err(Errno::INVAL) => Err(Failed { part: Part::NoMount, errno: Errno::INVAL }),
        other => other.map_err(at(Part::Mount)),
    }
}
