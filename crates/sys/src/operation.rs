// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operation list: how a sandbox's file tree is built, step by step.
//!
//! The list is compiled from a plan beforehand and executed in the child, which decides nothing and allocates
//! nothing. Paths of the new tree are relative: once [`Operation::Root`] has run, the working directory is the new
//! root, and `/` is still the host's root.

use crate::landlock::{self, Rights};
use crate::raw::{self, Fd, MountAttr, Result};
use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Where a mounted tree comes from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// The working directory of the launch, by descriptor: no path is looked up, so no race is possible.
    WorkingDirectory,
    /// A path of the host of which only root can change any component.
    Trusted(&'a CStr),
    /// A canonical path of the host; refused if a component has become a symbolic link since.
    Canonical(&'a CStr),
    /// A detached tree that the launcher makes meanwhile (as root, it can map the owners), by the number of its slot.
    Tree(usize),
    /// A path in the new tree.
    Inside(&'a CStr),
}

/// A terminal of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terminal {
    /// Its path on the host.
    pub path: CString,
    /// The device of its file system, and its inode.
    pub identity: (u64, u64),
}

/// Where the launcher leaves the descriptor of a tree for the builder, which shares its table.
#[derive(Debug)]
pub struct TreeSlot(AtomicI32);

impl TreeSlot {
    /// An empty slot.
    #[must_use]
    pub const fn empty() -> Self {
        Self(AtomicI32::new(-1))
    }

    /// Leaves a tree; it must stay open until the launch is over.
    pub fn leave(&self, tree: BorrowedFd<'_>) {
        self.0.store(tree.as_raw_fd(), Ordering::Release);
    }

    fn get(&self) -> Option<Fd> {
        let fd = self.0.load(Ordering::Acquire);
        (fd >= 0).then_some(fd)
    }
}

/// A private directory of the new tree. The launcher keeps it open, to say at the end which files the command has left
/// there.
#[derive(Debug)]
pub struct Kept {
    tree: AtomicI32,
    files: AtomicU64,
}

impl Kept {
    /// One that isn't made yet. For one launch.
    #[must_use]
    pub const fn new() -> Self {
        Self { tree: AtomicI32::new(-1), files: AtomicU64::new(0) }
    }

    /// In the builder, before the command runs: counts the files that are there without the command. Done for the first
    /// place only, because all are on one file system.
    pub(crate) fn count(&self) -> Result<()> {
        let tree = self.tree.load(Ordering::Acquire);
        if tree >= 0 {
            self.files.store(raw::count_files(tree)?, Ordering::Release);
        }
        Ok(())
    }

    /// The directory, and how many files its file system had before the command ran; zero if they weren't counted here.
    /// Given once.
    #[must_use]
    pub fn take(&self) -> Option<(OwnedFd, u64)> {
        let tree = self.tree.swap(-1, Ordering::AcqRel);
        // SAFETY: needed to own what the builder has opened. Sound: it opened it in the table that it shared with this
        // process and closed it nowhere, and the number is taken out of its cell once.
        (tree >= 0).then(|| (unsafe { OwnedFd::from_raw_fd(tree) }, self.files.load(Ordering::Acquire)))
    }
}

impl Default for Kept {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        drop(self.take());
    }
}

/// The number of files on the file system of an open file.
///
/// # Errors
/// When the kernel can't say, which no open file is known to cause.
pub fn count_files(on: BorrowedFd<'_>) -> Result<u64> {
    raw::count_files(on.as_raw_fd())
}

/// Mount attributes of a bind mount, in addition to `nosuid`, which every bind mount has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attributes(pub u64);

impl Attributes {
    /// No write.
    pub const READ_ONLY: Self = Self(0x1);
    /// No set-uid.
    pub const NOSUID: Self = Self(0x2);
    /// No device files.
    pub const NODEV: Self = Self(0x4);
    /// Nothing runs.
    pub const NOEXEC: Self = Self(0x8);

    /// Both sets together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub enum Operation<'a> {
    /// Mounts an empty tmpfs over `/` and makes it the working directory.
    Root {
        /// tmpfs options, such as `("size", "50%")`.
        options: &'a [(&'a CStr, &'a CStr)],
    },
    /// Makes a directory.
    Directory {
        /// Where.
        path: &'a CStr,
        /// Its exact permissions.
        mode: u32,
    },
    /// Makes a file.
    File {
        /// Where.
        path: &'a CStr,
        /// Its exact permissions.
        mode: u32,
        /// What it holds.
        content: &'a [u8],
    },
    /// Makes a symbolic link.
    Symlink {
        /// Where.
        path: &'a CStr,
        /// Where it leads.
        target: &'a CStr,
    },
    /// Mounts a tree (or a file) of the host.
    Bind {
        /// What.
        source: Source<'a>,
        /// Where; exists already.
        target: &'a CStr,
        /// The target lies inside a tree that other processes may change: follow no symbolic link.
        guarded: bool,
        /// With what is mounted beneath it.
        recursive: bool,
        /// Attributes added to those it has.
        attributes: Attributes,
        /// Landlock rights beneath it.
        rights: Rights,
    },
    /// Makes a directory of the new tree a separate mount, which stays writable when the root becomes read-only.
    Own {
        /// Which.
        path: &'a CStr,
        /// Landlock rights beneath it.
        rights: Rights,
        /// Where the launcher finds the directory, if it looks into it at the end.
        kept: Option<&'a Kept>,
    },
    /// Mounts a new file system.
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
        /// The target lies inside a tree that other processes may change: follow no symbolic link.
        guarded: bool,
        /// Landlock rights beneath it.
        rights: Rights,
    },
    /// Shows a directory of the new tree through another, which takes all changes.
    Overlay {
        /// What is shown beneath the changes.
        lower: &'a CStr,
        /// Where changes go.
        upper: &'a CStr,
        /// An empty directory on the file system of `upper`.
        work: &'a CStr,
        /// Where.
        target: &'a CStr,
        /// The target lies inside a tree that other processes may change: follow no symbolic link.
        guarded: bool,
        /// Landlock rights beneath it.
        rights: Rights,
    },
    /// Gives a socket of the launcher a name in the new tree. Processes can connect to it from then on.
    ///
    /// No file system of the host has that name, and the name disappears with the tree.
    Listen {
        /// Where.
        path: &'a CStr,
        /// The socket's number in the table that builder and launcher share.
        socket: i32,
    },
    /// Gives a terminal a name in the new tree. Without one, or if the host's name leads to another file, it does
    /// nothing: programs can use the terminal without a name.
    Terminal {
        /// Which.
        terminal: Option<&'a Terminal>,
        /// Where.
        target: &'a CStr,
    },
    /// Mounts the process file system that init has made. Before the `pidns` option of Linux 6.17 only a member of
    /// the PID namespace can make it, and the builder isn't a member.
    Proc {
        /// Where.
        target: &'a CStr,
        /// Landlock rights beneath it.
        rights: Rights,
    },
    /// Allows something beneath a path of the new tree.
    Allow {
        /// Which.
        path: &'a CStr,
        /// What.
        rights: Rights,
    },
    /// Makes the new tree's root read-only, makes it `/`, and unmounts the host's tree.
    Enter {
        /// Make it read-only.
        read_only: bool,
    },
}

/// What operations have opened so far.
pub(crate) struct Progress {
    pub(crate) ruleset: Option<Fd>,
    /// A detached clone of the launch's working directory, taken before it changes.
    pub(crate) working_directory: Option<Fd>,
    /// The detached process file system, once init has made it.
    pub(crate) proc: Option<Fd>,
    root: Option<Fd>,
    handled: Rights,
}

const OPEN_TREE_CLONE: u32 = 1;
const OPEN_TREE_CLOEXEC: u32 = libc::O_CLOEXEC.cast_unsigned();
const RECURSIVE: u32 = libc::AT_RECURSIVE.cast_unsigned();
const EMPTY_PATH: u32 = libc::AT_EMPTY_PATH.cast_unsigned();
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;
const RESOLVE_NO_SYMLINKS: u64 = 0x04;
const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
const RESOLVE_BENEATH: u64 = 0x08;
const PRIVATE: u64 = libc::MS_PRIVATE;

impl Progress {
    pub(crate) fn new(handled: Option<&landlock::Handled>) -> Result<Self> {
        let ruleset = handled.map(landlock::create_ruleset).transpose()?;
        let handled = Rights(handled.map_or(0, |handled| handled.files));
        Ok(Self { ruleset, working_directory: None, proc: None, root: None, handled })
    }

    /// Runs one operation.
    pub(crate) fn run(&mut self, operation: &Operation<'_>, trees: &[TreeSlot]) -> Result<()> {
        match *operation {
            Operation::Root { options } => self.root(options),
            Operation::Directory { path, mode } => raw::mkdir(path, mode),
            Operation::File { path, mode, content } => file(path, mode, content),
            Operation::Symlink { path, target } => raw::symlink(target, path),
            Operation::Bind { source, target, guarded, recursive, attributes, rights } => {
                // A program of the host may replace a file at this moment (`useradd` does so with /etc/passwd), so
                // the file can be gone when its mount is attached. The next attempt finds the new file.
                let mut again =
                    if matches!(source, Source::Trusted(_) | Source::Canonical(_)) { 3 } else { 0 };
                loop {
                    let tree = self.tree(source, recursive, trees)?;
                    let bound = self.bind(tree, source, target, guarded, recursive, attributes, rights);
                    // The launcher closes the trees that it has opened.
                    if !matches!(source, Source::Tree(_)) {
                        raw::close(tree)?;
                    }
                    match bound {
                        Err(rustix::io::Errno::NOENT) if again > 0 => again -= 1,
                        other => return other,
                    }
                }
            }
            Operation::Own { path, rights, kept } => {
                let tree = raw::open_tree(libc::AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)?;
                self.attach(tree, path, false, rights)?;
                match kept {
                    Some(kept) => {
                        kept.tree.store(tree, Ordering::Release);
                        Ok(())
                    }
                    None => raw::close(tree),
                }
            }
            Operation::Filesystem { kind, options, flags, attributes, target, guarded, rights } => {
                let fs = filesystem(kind, options, flags)?;
                let tree = raw::fsmount(fs, attributes.0)?;
                raw::close(fs)?;
                self.attach(tree, target, guarded, rights)?;
                raw::close(tree)
            }
            Operation::Overlay { lower, upper, work, target, guarded, rights } => {
                let options = [(c"lowerdir", lower), (c"upperdir", upper), (c"workdir", work)];
                // Without privilege overlayfs stores its metadata in the user's extended attributes.
                let fs = filesystem(c"overlay", &options, &[c"userxattr"])?;
                let tree = raw::fsmount(fs, Attributes::NOSUID.and(Attributes::NODEV).0)?;
                raw::close(fs)?;
                self.attach(tree, target, guarded, rights)?;
                raw::close(tree)
            }
            Operation::Listen { path, socket } => {
                raw::bind(socket, path)?;
                raw::listen(socket)
            }
            Operation::Terminal { terminal, target } => match terminal {
                Some(terminal) => self.terminal(terminal, target),
                None => Ok(()),
            },
            Operation::Proc { target, rights } => {
                let tree = self.proc.take().ok_or(rustix::io::Errno::BADF)?;
                self.attach(tree, target, false, rights)?;
                raw::close(tree)
            }
            Operation::Allow { path, rights } => self.allow_path(path, rights),
            Operation::Enter { read_only } => self.enter(read_only),
        }
    }

    fn root(&mut self, options: &[(&CStr, &CStr)]) -> Result<()> {
        let fs = filesystem(c"tmpfs", options, &[])?;
        let root = raw::fsmount(fs, Attributes::NOSUID.and(Attributes::NODEV).0)?;
        raw::close(fs)?;
        raw::move_mount(root, c"", libc::AT_FDCWD, c"/", MOVE_MOUNT_F_EMPTY_PATH)?;
        raw::fchdir(root)?;
        self.root = Some(root);
        Ok(())
    }

    fn terminal(&self, terminal: &Terminal, target: &CStr) -> Result<()> {
        let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
        let Ok(tree) = raw::open_tree(libc::AT_FDCWD, &terminal.path, flags) else { return Ok(()) };
        if raw::stat(tree)?.identity == terminal.identity {
            raw::make_file(target, 0o600)?;
            // The rule for devices holds, as for the name of the controlling terminal.
            self.attach(tree, target, false, Rights::default())?;
        }
        raw::close(tree)
    }

    /// Sets a tree's attributes and attaches it at its target.
    #[expect(clippy::too_many_arguments, reason = "the fields of one operation")]
    fn bind(
        &self,
        tree: Fd,
        source: Source<'_>,
        target: &CStr,
        guarded: bool,
        recursive: bool,
        attributes: Attributes,
        rights: Rights,
    ) -> Result<()> {
        // A tree from the launcher has its attributes already, and a device file needs none.
        if !matches!(source, Source::Tree(_)) && attributes != Attributes::default() {
            let set = attributes.and(Attributes::NOSUID).0;
            let attr = MountAttr { set, clear: 0, propagation: PRIVATE, userns: 0 };
            raw::mount_setattr(tree, recursive, &attr)?;
        }
        self.attach(tree, target, guarded, rights)
    }

    /// A detached clone of what `source` names.
    fn tree(&mut self, source: Source<'_>, recursive: bool, trees: &[TreeSlot]) -> Result<Fd> {
        let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | if recursive { RECURSIVE } else { 0 };
        match source {
            Source::WorkingDirectory => self.working_directory.take().ok_or(rustix::io::Errno::BADF),
            Source::Tree(slot) => trees.get(slot).and_then(TreeSlot::get).ok_or(rustix::io::Errno::BADF),
            Source::Trusted(path) | Source::Inside(path) => raw::open_tree(libc::AT_FDCWD, path, flags),
            Source::Canonical(path) => {
                let resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
                let at = raw::openat2(libc::AT_FDCWD, path, libc::O_PATH | libc::O_CLOEXEC, 0, resolve)?;
                let tree = raw::open_tree(at, c"", flags | EMPTY_PATH);
                raw::close(at)?;
                tree
            }
        }
    }

    /// Adds the tree's Landlock rule and attaches the tree at its target.
    fn attach(&self, tree: Fd, target: &CStr, guarded: bool, rights: Rights) -> Result<()> {
        self.allow(tree, rights)?;
        if guarded {
            let resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_BENEATH;
            let at = raw::openat2(libc::AT_FDCWD, target, libc::O_PATH | libc::O_CLOEXEC, 0, resolve)?;
            let moved =
                raw::move_mount(tree, c"", at, c"", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
            raw::close(at)?;
            moved
        } else {
            raw::move_mount(tree, c"", libc::AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH)
        }
    }

    /// Allows `rights` beneath an open file, if Landlock is in use and any are left.
    pub(crate) fn allow(&self, parent: Fd, rights: Rights) -> Result<()> {
        let rights = rights.intersection(self.handled);
        match self.ruleset {
            Some(ruleset) if rights != Rights::default() => landlock::allow_beneath(ruleset, parent, rights),
            _ => Ok(()),
        }
    }

    fn allow_path(&self, path: &CStr, rights: Rights) -> Result<()> {
        if self.ruleset.is_none() {
            return Ok(());
        }
        let fd = raw::open(path, libc::O_PATH)?;
        let allowed = self.allow(fd, rights);
        raw::close(fd)?;
        allowed
    }

    fn enter(&mut self, read_only: bool) -> Result<()> {
        let Some(root) = self.root.take() else { return Err(rustix::io::Errno::BADF) };
        if read_only {
            let attr = MountAttr { set: Attributes::READ_ONLY.0, clear: 0, propagation: 0, userns: 0 };
            patiently(|| raw::mount_setattr(root, false, &attr))?;
        }
        // Both arguments are ".": the old root ends up mounted over the new one, one call unmounts it, and no
        // directory has to be made to hold it (pivot_root(2), NOTES).
        raw::pivot_root(c".", c".")?;
        raw::unmount_detached(c".")?;
        raw::close(root)
    }

    /// Clones the launch's working directory before anything else moves.
    pub(crate) fn take_working_directory(&mut self) -> Result<()> {
        let flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | RECURSIVE;
        self.working_directory = Some(raw::open_tree(libc::AT_FDCWD, c".", flags)?);
        Ok(())
    }
}

/// Tries again for as long as a mount is busy, about a second in all.
///
/// A mount with a file that is open for writing can't become read-only. The builder has closed what it wrote. But
/// another process may look at the builder's descriptors in `/proc` at that moment, or at a path of the mount whose
/// access time is recorded. Then the mount stays busy for some microseconds more (`mnt_hold_writers`,
/// fs/namespace.c).
fn patiently(mut task: impl FnMut() -> Result<()>) -> Result<()> {
    for attempt in 0..13 {
        match task() {
            Err(rustix::io::Errno::BUSY) => raw::pause(100 << attempt)?,
            done => return done,
        }
    }
    task()
}

/// Makes the process file system of the caller's PID namespace, detached.
pub(crate) fn proc() -> Result<Fd> {
    let fs = filesystem(c"proc", &[], &[])?;
    let attributes = Attributes::NOSUID.and(Attributes::NODEV).and(Attributes::NOEXEC);
    let tree = raw::fsmount(fs, attributes.0);
    raw::close(fs)?;
    tree
}

fn filesystem(kind: &CStr, options: &[(&CStr, &CStr)], flags: &[&CStr]) -> Result<Fd> {
    let fs = raw::fsopen(kind)?;
    for (key, value) in options {
        raw::fsconfig_string(fs, key, value)?;
    }
    for flag in flags {
        raw::fsconfig_flag(fs, flag)?;
    }
    raw::fsconfig_create(fs)?;
    Ok(fs)
}

fn file(path: &CStr, mode: u32, content: &[u8]) -> Result<()> {
    if content.is_empty() {
        return raw::make_file(path, mode);
    }
    let fd = raw::create(path, mode)?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = raw::write(fd, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    raw::close(fd)
}
