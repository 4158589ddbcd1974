// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ways to open a file: the flags of `open`, and the flags that the broker uses in each case.

use crate::broker::caller::DecimalBuffer;
use crate::broker::resolve::{Place, by_number, kind};
use crate::broker::{Emptied, Given};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's `O_TMPFILE` has two bits; one of them is `O_DIRECTORY`.
const TMPFILE: OFlags = OFlags::TMPFILE.difference(OFlags::DIRECTORY);
/// The flags that `openat` knows (the kernel's `VALID_OPEN_FLAGS`). `openat` ignores other flags, `openat2` refuses
/// them.
const KNOWN: OFlags = OFlags::from_bits_retain(0o37_777_703);
/// The only flags that count together with `O_PATH` (the kernel's `O_PATH_FLAGS`).
const OF_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Flags that stay with the open file and can be set afterwards.
const STATUS: OFlags =
    OFlags::APPEND.union(OFlags::NONBLOCK).union(OFlags::from_bits_retain(0o20000 | 0o40000 | 0o1_000_000));

/// How to open a file.
#[derive(Clone, Copy)]
pub(crate) struct How {
    flags: OFlags,
    mode: Mode,
}

/// An opened file, and whether this open created it.
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    pub(super) new: bool,
}

impl How {
    /// From the arguments of `openat` (the kernel's `build_open_how`).
    ///
    /// # Errors
    /// `EINVAL` for flags that can't be combined. The kernel reports this before it reads the path.
    pub(crate) fn new(flags: i32, mode: u32) -> Result<Self, Errno> {
        let mut flags = OFlags::from_bits_retain(flags.cast_unsigned()) & KNOWN;
        if flags.contains(OFlags::PATH) {
            flags &= OF_PATH;
        }
        let how = Self { flags, mode: Mode::from_raw_mode(mode & 0o7777) };
        let how = if how.makes() { how } else { Self { mode: Mode::empty(), ..how } };
        // Which of these flags can be combined depends on the kernel's version. Ask it with an empty path: it reports
        // `EINVAL` before the missing path.
        let odd = flags.contains(OFlags::CREATE | OFlags::DIRECTORY) || flags.intersects(TMPFILE);
        if odd && rustix::fs::openat(CWD, c"", flags, how.mode).err() == Some(Errno::INVAL) {
            return Err(Errno::INVAL);
        }
        Ok(how)
    }

    pub(super) const fn mode(self) -> Mode {
        self.mode
    }

    pub(super) const fn has(self, flags: OFlags) -> bool {
        self.flags.contains(flags)
    }

    /// Whether this makes a file that never has a name.
    pub(super) fn is_unnamed(self) -> bool {
        self.flags.intersects(TMPFILE)
    }

    /// Whether an existing file is an error (`O_EXCL`).
    pub(super) fn is_exclusive(self) -> bool {
        self.has(OFlags::CREATE | OFlags::EXCL)
    }

    /// Whether a link in the last component is followed.
    pub(crate) fn follows(self) -> bool {
        !self.has(OFlags::NOFOLLOW) && !self.is_exclusive()
    }

    /// Whether the descriptor is closed at an exec.
    pub(super) const fn closes_on_exec(self) -> bool {
        self.has(OFlags::CLOEXEC)
    }

    /// Checks whether an open file could be opened again in this way.
    pub(crate) fn fits(self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.is_exclusive() {
            return Err(Errno::EXIST);
        }
        if self.has(OFlags::DIRECTORY) && kind(file)? != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let has = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE;
        let wanted = self.flags & OFlags::RWMODE;
        if has == OFlags::RDWR || has == wanted { Ok(()) } else { Err(Errno::ACCESS) }
    }

    pub(super) fn writes(self) -> bool {
        self.makes() || self.flags.intersects(OFlags::RWMODE | OFlags::TRUNC)
    }

    /// Whether this opens a name for writing, and would follow a link in the last component.
    pub(super) fn is_plain(self) -> bool {
        self.writes()
            && !self.flags.intersects(OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY)
            && !self.is_unnamed()
    }

    pub(super) fn makes(self) -> bool {
        self.has(OFlags::CREATE) || self.is_unnamed()
    }

    /// Whether this creates a file for writing if none is there.
    pub(super) fn writes_alone(self) -> bool {
        self.has(OFlags::CREATE)
            && self.flags & OFlags::RWMODE != OFlags::RDONLY
            && !self.flags.intersects(OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Whether opening itself creates or empties a file. Then all checks must come before it.
    pub(super) fn leaves_traces(self) -> bool {
        self.makes() || self.has(OFlags::TRUNC)
    }

    /// Whether the caller would wait, for the other end of a FIFO or for the end of a lease.
    pub(super) const fn may_wait(self) -> bool {
        !self.flags.intersects(OFlags::NONBLOCK.union(OFlags::PATH))
    }

    pub(super) fn only_reads(self) -> bool {
        self.flags & OFlags::RWMODE == OFlags::RDONLY
    }

    /// The flags to set on a file that was opened without waiting.
    pub(super) fn status(self) -> OFlags {
        self.flags & STATUS
    }

    /// The flags to open a name: take no terminal, don't wait, don't empty the file.
    fn on_name(self) -> OFlags {
        // Opening a new file never waits.
        let wait = if self.is_exclusive() { OFlags::empty() } else { OFlags::NONBLOCK };
        self.flags.difference(OFlags::TRUNC) | OFlags::CLOEXEC | OFlags::NOCTTY | wait
    }

    /// The same for a file that is only read.
    pub(super) fn to_read(self) -> OFlags {
        self.on_name() | OFlags::NONBLOCK
    }

    /// The flags for a file without a name, in place of a named one.
    pub(super) fn without_name(self) -> OFlags {
        let made = OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        self.flags.difference(made) | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC
    }

    /// The flags to open an existing file again by its descriptor.
    pub(super) fn on_object(self) -> OFlags {
        // With O_TMPFILE, `O_EXCL` means that the file never gets a name.
        let made = if self.is_unnamed() {
            OFlags::empty()
        } else {
            OFlags::CREATE | OFlags::NOFOLLOW | OFlags::EXCL | OFlags::TRUNC
        };
        self.flags.difference(made) | OFlags::CLOEXEC | OFlags::NOCTTY
    }

    /// Opens a name and follows no link. Not by `O_NOFOLLOW`, which would be visible in the file's flags.
    pub(super) fn open_at(self, place: &Place) -> Result<Opened, Errno> {
        loop {
            match self.open_name_at(&place.parent, &place.name) {
                // A rename disturbed the lookup: try again.
                Err(Errno::AGAIN) if !Self::may_be_leased(place) => {}
                other => return other,
            }
        }
    }

    /// One attempt. No component of `name` may be a link.
    pub(super) fn open_name_at(self, parent: impl AsFd, name: &CStr) -> Result<Opened, Errno> {
        let open = |flags| rustix::fs::openat2(&parent, name, flags, self.mode, ResolveFlags::NO_SYMLINKS);
        // Try to create the file first: a new file needs no emptying, which would count as a second change of it.
        if self.has(OFlags::CREATE | OFlags::TRUNC) && !self.is_exclusive() {
            match open(self.on_name() | OFlags::EXCL) {
                Err(Errno::EXIST) => {}
                other => return other.map(|file| Opened { file, new: true }),
            }
        }
        open(self.on_name()).map(|file| Opened { file, new: self.is_exclusive() })
    }

    /// `EAGAIN` can also mean that another process must give up a lease first. Only regular files have leases.
    fn may_be_leased(place: &Place) -> bool {
        place.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// What the caller receives for an opened file.
    pub(super) fn given(self, opened: Opened) -> Result<Given, Errno> {
        let Opened { file, new } = opened;
        let emptied = if new || !self.has(OFlags::TRUNC) {
            Emptied::No
        } else if matches!(self.flags & OFlags::RWMODE, OFlags::WRONLY | OFlags::RDWR) {
            Emptied::Itself
        } else {
            match kind(file.as_fd())? {
                FileType::Directory => return Err(Errno::ISDIR),
                FileType::RegularFile => {
                    let mut buffer = DecimalBuffer::default();
                    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
                    let number = by_number(file.as_fd(), &mut buffer);
                    Emptied::By(rustix::fs::openat(CWD, number, flags, Mode::empty())?)
                }
                // The file has no length to empty, but `O_TRUNC` needs write permission.
                _ => {
                    let mut buffer = DecimalBuffer::default();
                    let number = by_number(file.as_fd(), &mut buffer);
                    rustix::fs::accessat(CWD, number, Access::WRITE_OK, AtFlags::empty())?;
                    Emptied::No
                }
            }
        };
        Ok(Given { file, close_on_exec: self.closes_on_exec(), emptied })
    }
}
