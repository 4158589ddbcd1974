// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file tree that is built as bubblewrap builds it: each step looks at what the steps before it have left.
//!
//! The steps of [`crate::operation`] are computed in advance, and their targets are known to be there. Here a target may
//! lie inside a tree of the host, so each step makes what is missing, and accepts what exists. Absolute symbolic links
//! on the way to a target must not lead into the host's tree. So the process's root is an empty tmpfs while the steps
//! run, and only descriptors lead to the host.
//!
//! ```text
//! /            the tmpfs: the process's root meanwhile
//! /newroot     the new tree: the working directory, and the root in the end
//! /oldroot     the host's tree, only if overlays name it
//! /bindfile…   files that were made for the new tree; each is mounted there and removed here
//! ```
//!
//! Nothing here allocates or takes a lock, so a process that shares its launcher's memory may run it, too.

mod make;

use self::make::{copy, data, directory, file, parents, read_only, symlink};
use crate::operation::Attributes;
use crate::raw::{self, Fd, Result};
use core::ffi::CStr;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What a step shows of the host.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A detached tree ([`detach`]).
    Tree(BorrowedFd<'a>),
    /// A canonical path of the host, without its leading slash.
    Host(&'a CStr),
}

/// One step. Targets are relative to the new root. [`relative`] makes them so.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Makes the directories above a path.
    Parents {
        /// The path.
        path: &'a CStr,
        /// Their permissions.
        mode: u32,
    },
    /// Makes a directory, unless there is one.
    Directory {
        /// Where.
        path: &'a CStr,
        /// Its permissions.
        mode: u32,
    },
    /// Makes a directory; it is an error if the name is taken.
    NewDirectory {
        /// Where.
        path: &'a CStr,
        /// Its permissions.
        mode: u32,
    },
    /// Makes an empty file, or empties the one there is.
    NewFile {
        /// Where.
        path: &'a CStr,
        /// Its permissions.
        mode: u32,
    },
    /// Mounts a tree or a file of the host with what is mounted beneath it. Makes the target, of the same kind.
    Bind {
        /// What.
        source: Source<'a>,
        /// Where.
        target: &'a CStr,
        /// Attributes added to those it has.
        attributes: Attributes,
        /// The mounted file must be this one.
        same_as: Option<BorrowedFd<'a>>,
    },
    /// Makes a tree or a file of the new tree read-only if it can be written to.
    Cover {
        /// Which.
        path: &'a CStr,
    },
    /// Mounts a new file system on a directory.
    Filesystem {
        /// Its type, such as `proc`.
        kind: &'a CStr,
        /// Its options.
        options: &'a [(&'a CStr, &'a CStr)],
        /// Options without a value.
        flags: &'a [&'a CStr],
        /// Mount attributes.
        attributes: Attributes,
        /// Where.
        target: &'a CStr,
    },
    /// Mounts several trees as one.
    Overlay {
        /// Options for overlayfs, which name trees below `/oldroot`.
        options: &'a CStr,
        /// Where.
        target: &'a CStr,
    },
    /// Makes a file of what a descriptor gives.
    Content {
        /// The descriptor.
        content: Fd,
        /// Where.
        path: &'a CStr,
        /// Its permissions.
        mode: u32,
    },
    /// Mounts a file of what a descriptor gives.
    Data {
        /// The descriptor.
        content: Fd,
        /// The file's name beside the new root, which must be new.
        name: &'a CStr,
        /// Where.
        target: &'a CStr,
        /// Its permissions.
        mode: u32,
        /// Mount attributes.
        attributes: Attributes,
    },
    /// Makes a symbolic link. One that leads there already is accepted.
    Symlink {
        /// Where the link leads.
        target: &'a CStr,
        /// Where.
        path: &'a CStr,
    },
    /// Makes a mount read-only, without those beneath it.
    ReadOnly {
        /// Which.
        path: &'a CStr,
    },
    /// Changes permissions.
    Permissions {
        /// Of what.
        path: &'a CStr,
        /// The permissions.
        mode: u32,
    },
    /// Sets the host name.
    Hostname {
        /// The name.
        name: &'a CStr,
    },
}

/// The part of a step that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Making the target, or what the step consists of.
    Make,
    /// Making a file as the target.
    MakeFile,
    /// Reading what a descriptor gives, or writing it.
    Copy,
    /// Making the file that holds what a descriptor gives.
    Hold,
    /// Setting that file's permissions.
    HoldMode,
    /// Mounting.
    Mount,
    /// The target isn't the root of a mount.
    NoMount,
    /// The mounted file is another one than the descriptor's.
    Changed,
    /// There is something else than a symbolic link.
    NoLink,
    /// There is a symbolic link that leads elsewhere.
    OtherLink,
}

/// Why a step failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed {
    /// The part.
    pub part: Part,
    /// What the kernel said.
    pub errno: Errno,
}

fn at(part: Part) -> impl Fn(Errno) -> Failed {
    move |errno| Failed { part, errno }
}

/// The part of the beginning or end that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// Keeping the host from seeing mounts of the new tree.
    Apart,
    /// Mounting the tmpfs.
    Stage,
    /// Making the new root.
    NewRoot,
    /// Showing the host's tree to overlays.
    OldRoot,
    /// Making directories for overlays.
    Changes,
    /// Making the new root the root.
    Enter,
}

const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
const RECURSIVE: u32 = libc::AT_RECURSIVE.cast_unsigned();
const CLONE_TREE: u32 = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x4;
/// Follow symbolic links, also at the end of the target.
const MOVE_MOUNT_T_SYMLINKS: u32 = 0x10;
const SLAVE: u64 = libc::MS_SLAVE;

/// The new root, as the process sees it meanwhile.
const NEWROOT: &CStr = c"/newroot";

/// A path of the new tree, relative to the new root.
#[must_use]
pub fn relative(path: &CStr) -> &CStr {
    let bytes = path.to_bytes_with_nul();
    let slashes = bytes.iter().take_while(|byte| **byte == b'/').count();
    match bytes.get(slashes..).map(CStr::from_bytes_with_nul) {
        Some(Ok(rest)) if !rest.is_empty() => rest,
        _ => c".",
    }
}

/// A detached clone of a tree of the host with what is mounted beneath it. Symbolic links are followed.
///
/// # Errors
/// As `open_tree(2)`.
pub fn detach(path: &CStr) -> Result<OwnedFd> {
    let tree = raw::open_tree(libc::AT_FDCWD, path, CLONE_TREE)?;
    // SAFETY: needed to own it. Sound: it was made in this moment.
    Ok(unsafe { OwnedFd::from_raw_fd(tree) })
}

/// The tree while it is built. The calling process must be alone in its mount namespace.
#[derive(Debug)]
pub struct Staging {
    host: OwnedFd,
}

impl Staging {
    /// Makes the empty new root, and goes there.
    ///
    /// `old_root`: overlays name the host's trees. `changes`: how many overlays have changes that are gone with the
    /// sandbox.
    ///
    /// # Errors
    /// The part that failed.
    pub fn begin(old_root: bool, changes: &[[&CStr; 2]]) -> core::result::Result<Self, (Frame, Errno)> {
        let with = |frame: Frame| move |errno: Errno| (frame, errno);
        let host = raw::open(c"/", libc::O_PATH | libc::O_DIRECTORY).map_err(with(Frame::Apart))?;
        let attr = raw::MountAttr { set: 0, clear: 0, propagation: SLAVE, userns: 0 };
        raw::mount_setattr(host, true, &attr).map_err(with(Frame::Apart))?;
        // SAFETY: needed to own it. Sound: it was made above.
        let host = unsafe { OwnedFd::from_raw_fd(host) };
        let old = old_root.then(|| detach(c"/")).transpose().map_err(with(Frame::OldRoot))?;

        let stage = new_filesystem(c"tmpfs", &[], &[], Attributes::NOSUID.and(Attributes::NODEV))
            .map_err(with(Frame::Stage))?;
        let entered = raw::move_mount(stage, c"", libc::AT_FDCWD, c"/", MOVE_MOUNT_F_EMPTY_PATH)
            .and_then(|()| raw::fchdir(stage))
            .and_then(|()| raw::chroot(c"."));
        raw::close(stage).and(entered).map_err(with(Frame::Stage))?;
        make_newroot().map_err(with(Frame::NewRoot))?;
        if let Some(old) = old {
            raw::mkdir(c"oldroot", 0o755)
                .and_then(|()| attach(old.as_raw_fd(), c"oldroot"))
                .map_err(with(Frame::OldRoot))?;
        }
        for directory in changes.iter().flatten() {
            raw::mkdir(directory, 0o755).map_err(with(Frame::Changes))?;
        }
        raw::chdir(NEWROOT).map_err(with(Frame::NewRoot))?;
        Ok(Self { host })
    }

    /// Runs one step.
    ///
    /// # Errors
    /// The part that failed.
    pub fn run(&self, operation: &Operation<'_>) -> core::result::Result<(), Failed> {
        self.perform(operation)?;
        match operation {
            // What is mounted over the new root is the new root from here on.
            Operation::Bind { target, .. }
            | Operation::Filesystem { target, .. }
            | Operation::Overlay { target, .. }
                if may_be_root(target) =>
            {
                raw::chdir(NEWROOT).map_err(at(Part::Mount))
            }
            _ => Ok(()),
        }
    }

    fn perform(&self, operation: &Operation<'_>) -> core::result::Result<(), Failed> {
        let make = at(Part::Make);
        match *operation {
            Operation::Parents { path, mode } => parents(path, mode).map_err(make),
            Operation::Directory { path, mode } => directory(path, mode).map_err(make),
            Operation::NewDirectory { path, mode } => raw::mkdir(path, mode).map_err(make),
            Operation::NewFile { path, mode } => {
                raw::create_or_empty(path, mode).and_then(raw::close).map_err(make)
            }
            Operation::Bind { source, target, attributes, same_as } => {
                self.bind(source, target, attributes, same_as)
            }
            Operation::Cover { path } => match raw::may_write(path) {
                Ok(()) => {
                    let tree = raw::open_tree(libc::AT_FDCWD, path, CLONE_TREE).map_err(at(Part::Mount))?;
                    let protection = Attributes::READ_ONLY.and(Attributes::NODEV);
                    let mounted = mount(tree, path, protection);
                    raw::close(tree).and(mounted).map_err(at(Part::Mount))
                }
                // It can't be written to, or there is none.
                Err(Errno::ACCESS | Errno::NOENT | Errno::ROFS) => Ok(()),
                Err(errno) => Err(make(errno)),
            },
            Operation::Filesystem { kind, options, flags, attributes, target } => {
                let tree = new_filesystem(kind, options, flags, attributes).map_err(at(Part::Mount))?;
                let attached = attach(tree, target);
                raw::close(tree).and(attached).map_err(at(Part::Mount))
            }
            Operation::Overlay { options, target } => {
                raw::mount_overlay(target, options).map_err(at(Part::Mount))
            }
            Operation::Content { content, path, mode } => {
                let file = raw::create_or_empty(path, mode).map_err(make)?;
                let copied = copy(content, file);
                raw::close(file).and(copied).map_err(at(Part::Copy))
            }
            Operation::Data { content, name, target, mode, attributes } => {
                data(content, name, target, mode, attributes)
            }
            Operation::Symlink { target, path } => symlink(target, path),
            Operation::ReadOnly { path } => read_only(path),
            Operation::Permissions { path, mode } => raw::chmod(path, mode).map_err(make),
            Operation::Hostname { name } => raw::sethostname(name.to_bytes()).map_err(make),
        }
    }

    fn bind(
        &self,
        source: Source<'_>,
        target: &CStr,
        attributes: Attributes,
        same_as: Option<BorrowedFd<'_>>,
    ) -> core::result::Result<(), Failed> {
        let (tree, opened) = match source {
            Source::Tree(tree) => (tree.as_raw_fd(), false),
            Source::Host(path) => {
                let tree =
                    raw::open_tree(self.host.as_raw_fd(), path, CLONE_TREE).map_err(at(Part::Mount))?;
                (tree, true)
            }
        };
        let bound = bind_tree(tree, target, attributes, same_as);
        if opened {
            raw::close(tree).map_err(at(Part::Mount))?;
        }
        bound
    }

    /// Goes back to the host's tree, where a step that failed can be explained.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn leave(&self) -> Result<()> {
        raw::fchdir(self.host.as_raw_fd()).and_then(|()| raw::chroot(c"."))
    }

    /// Makes the new root the root and the working directory, and unmounts the host's tree.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn enter(self) -> Result<()> {
        // `pivot_root` exchanges the process's root. It must be the host's again, or the host's tree would stay beneath
        // the new root.
        let newroot = raw::open(NEWROOT, libc::O_PATH | libc::O_DIRECTORY)?;
        self.leave()?;
        raw::fchdir(newroot)?;
        raw::close(newroot)?;
        raw::pivot_root(c".", c".")?;
        // The topmost mount is the stage, and beneath it is the host's tree.
        raw::unmount_detached(c".")?;
        raw::unmount_detached(c".")?;
        raw::chdir(c"/")
    }
}

/// Makes the new root beside the other things of the stage.
fn make_newroot() -> Result<()> {
    raw::mkdir(NEWROOT, 0o755)?;
    let tree = raw::open_tree(libc::AT_FDCWD, NEWROOT, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)?;
    let attached = attach(tree, NEWROOT);
    raw::close(tree).and(attached)
}

/// Whether a target may be the new root itself.
fn may_be_root(target: &CStr) -> bool {
    target.to_bytes().split(|byte| *byte == b'/').all(|part| part.is_empty() || part == b".")
        || target.to_bytes().windows(2).any(|pair| pair == b"..")
}

fn attach(tree: Fd, target: &CStr) -> Result<()> {
    raw::move_mount(tree, c"", libc::AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_SYMLINKS)
}

/// Sets a tree's attributes and attaches it.
fn mount(tree: Fd, target: &CStr, attributes: Attributes) -> Result<()> {
    let set = attributes.and(Attributes::NOSUID).0;
    let attr = raw::MountAttr { set, clear: 0, propagation: 0, userns: 0 };
    raw::mount_setattr(tree, true, &attr)?;
    attach(tree, target)
}

fn bind_tree(
    tree: Fd,
    target: &CStr,
    attributes: Attributes,
    same_as: Option<BorrowedFd<'_>>,
) -> core::result::Result<(), Failed> {
    let shown = raw::stat(tree).map_err(at(Part::Mount))?;
    if shown.is(libc::S_IFDIR) {
        directory(target, 0o755).map_err(at(Part::Make))?;
    } else {
        file(target, 0o444).map_err(at(Part::MakeFile))?;
    }
    mount(tree, target, attributes).map_err(at(Part::Mount))?;
    match same_as {
        Some(expected) => {
            let expected = raw::stat(expected.as_raw_fd()).map_err(at(Part::Changed))?;
            if expected.identity == shown.identity {
                Ok(())
            } else {
                Err(Failed { part: Part::Changed, errno: Errno::NOENT })
            }
        }
        None => Ok(()),
    }
}

fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    flags: &[&CStr],
    attributes: Attributes,
) -> Result<Fd> {
    let fs = raw::fsopen(kind)?;
    let configured = configure(fs, kind, options, flags);
    let tree = configured.and_then(|()| raw::fsmount(fs, attributes.0));
    raw::close(fs)?;
    tree
}

fn configure(fs: Fd, kind: &CStr, options: &[(&CStr, &CStr)], flags: &[&CStr]) -> Result<()> {
    // What the table of mounts shows as the device.
    raw::fsconfig_string(fs, c"source", kind)?;
    options.iter().try_for_each(|(key, value)| raw::fsconfig_string(fs, key, value))?;
    flags.iter().try_for_each(|flag| raw::fsconfig_flag(fs, flag))?;
    raw::fsconfig_create(fs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_new_tree_has_no_leading_slash() {
        for (path, expected) in
            [(c"/", c"."), (c"", c"."), (c"//a/b/", c"a/b/"), (c"a", c"a"), (c"../x", c"../x")]
        {
            assert_eq!(relative(path), expected);
        }
    }
}
