// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a file is to be opened: the flags of `open`, and what each way of opening makes of them.

use crate::broker::caller::DecimalBuffer;
use crate::broker::resolve::{Place, by_number, kind};
use crate::broker::{Emptied, Given};
use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The kernel's `O_TMPFILE` is two bits, of which one is `O_DIRECTORY`.
const TMPFILE: OFlags = OFlags::TMPFILE.difference(OFlags::DIRECTORY);
/// The flags that `openat` knows (`VALID_OPEN_FLAGS` of the kernel); it overlooks others, which `openat2` doesn't.
const KNOWN: OFlags = OFlags::from_bits_retain(0o37_777_703);
/// All that counts beside `O_PATH` (`O_PATH_FLAGS` of the kernel).
const OF_PATH: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// What stays with the open file and can be set afterwards.
const STATUS: OFlags =
    OFlags::APPEND.union(OFlags::NONBLOCK).union(OFlags::from_bits_retain(0o20000 | 0o40000 | 0o1_000_000));

/// How a file is to be opened.
#[derive(Clone, Copy)]
pub(crate) struct How {
    flags: OFlags,
    mode: Mode,
}

/// What was opened, and whether it was made by that.
pub(super) struct Opened {
    pub(super) file: OwnedFd,
    pub(super) new: bool,
}

impl How {
    /// As `openat` takes its arguments (`build_open_how` of the kernel).
    ///
    /// # Errors
    /// `EINVAL` for flags that don't go together, which the kernel says before it looks at the path.
    pub(crate) fn new(flags: i32, mode: u32) -> Result<Self, Errno> {
        let mut flags = OFlags::from_bits_retain(flags.cast_unsigned()) & KNOWN;
        if flags.contains(OFlags::PATH) {
            flags &= OF_PATH;
        }
        let how = Self { flags, mode: Mode::from_raw_mode(mode & 0o7777) };
        let how = if how.makes() { how } else { Self { mode: Mode::empty(), ..how } };
        // Which do is another matter in each kernel. It says so before it finds that there is no path.
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

    /// Whether the file is to be one that never had a name.
    pub(super) fn is_unnamed(self) -> bool {
        self.flags.intersects(TMPFILE)
    }

    /// Whether what is there is refused.
    pub(super) fn is_exclusive(self) -> bool {
        self.has(OFlags::CREATE | OFlags::EXCL)
    }

    /// Whether a link in the last place is followed.
    pub(crate) fn follows(self) -> bool {
        !self.has(OFlags::NOFOLLOW) && !self.is_exclusive()
    }

    /// Whether the descriptor is closed when another program is executed.
    pub(super) const fn closes_on_exec(self) -> bool {
        self.has(OFlags::CLOEXEC)
    }

    /// Whether what is open already could be opened so.
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

    /// Whether this is about a name, and a link behind it would be followed.
    pub(super) fn is_plain(self) -> bool {
        self.writes()
            && !self.flags.intersects(OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY)
            && !self.is_unnamed()
    }

    pub(super) fn makes(self) -> bool {
        self.has(OFlags::CREATE) || self.is_unnamed()
    }

    /// Whether a file is made to be written, from its beginning on.
    pub(super) fn writes_alone(self) -> bool {
        self.has(OFlags::CREATE)
            && self.flags & OFlags::RWMODE != OFlags::RDONLY
            && !self.flags.intersects(OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Whether something is made or emptied by opening, so that afterwards it is too late to find that it can't be.
    pub(super) fn leaves_traces(self) -> bool {
        self.makes() || self.has(OFlags::TRUNC)
    }

    /// Whether the caller would wait for whoever has the other end, or a lease.
    pub(super) const fn may_wait(self) -> bool {
        !self.flags.intersects(OFlags::NONBLOCK.union(OFlags::PATH))
    }

    pub(super) fn only_reads(self) -> bool {
        self.flags & OFlags::RWMODE == OFlags::RDONLY
    }

    /// What is set on a file that was opened without waiting.
    pub(super) fn status(self) -> OFlags {
        self.flags & STATUS
    }

    /// For a name: no terminal taken, nothing waited for, nothing emptied.
    fn on_name(self) -> OFlags {
        // What is new can't make anybody wait.
        let wait = if self.is_exclusive() { OFlags::empty() } else { OFlags::NONBLOCK };
        self.flags.difference(OFlags::TRUNC) | OFlags::CLOEXEC | OFlags::NOCTTY | wait
    }

    /// The same, for what is only read.
    pub(super) fn to_read(self) -> OFlags {
        self.on_name() | OFlags::NONBLOCK
    }

    /// For a file without a name in place of one.
    pub(super) fn without_name(self) -> OFlags {
        let made = OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        self.flags.difference(made) | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC
    }

    /// For something that is there, reached by its descriptor.
    pub(super) fn on_object(self) -> OFlags {
        // With O_TMPFILE the last means that the file is never to have a name.
        let made = if self.is_unnamed() {
            OFlags::empty()
        } else {
            OFlags::CREATE | OFlags::NOFOLLOW | OFlags::EXCL | OFlags::TRUNC
        };
        self.flags.difference(made) | OFlags::CLOEXEC | OFlags::NOCTTY
    }

    /// Opens a name, following no link. Not by `O_NOFOLLOW`, which would show in the file's flags.
    pub(super) fn open_at(self, place: &Place) -> Result<Opened, Errno> {
        loop {
            match self.open_name_at(&place.parent, &place.name) {
                // Something was moved at this moment.
                Err(Errno::AGAIN) if !Self::may_be_leased(place) => {}
                other => return other,
            }
        }
    }

    /// The same once, with no link followed in any place of `name`.
    pub(super) fn open_name_at(self, parent: impl AsFd, name: &CStr) -> Result<Opened, Errno> {
        let open = |flags| rustix::fs::openat2(&parent, name, flags, self.mode, ResolveFlags::NO_SYMLINKS);
        // What was made needn't be emptied, which would show as another change of it.
        if self.has(OFlags::CREATE | OFlags::TRUNC) && !self.is_exclusive() {
            match open(self.on_name() | OFlags::EXCL) {
                Err(Errno::EXIST) => {}
                other => return other.map(|file| Opened { file, new: true }),
            }
        }
        open(self.on_name()).map(|file| Opened { file, new: self.is_exclusive() })
    }

    /// `EAGAIN` also says that somebody else would have to give up a lease first.
    fn may_be_leased(place: &Place) -> bool {
        place.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// What the caller is given, of a file that was opened so.
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
                // There is nothing to empty, but only who may write to it may say so.
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
