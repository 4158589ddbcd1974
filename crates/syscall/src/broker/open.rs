// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opening for writing.

use crate::broker::attributes::Order;
use crate::broker::caller::{Caller, DecimalBuffer, path_of};
use crate::broker::guard::Deed;
use crate::broker::resolve::{Last, Object, PROC_MAGIC, Place, Spot, by_number, c_string, kind};
use crate::broker::{Call, Outcome, Worker, deliver, modes};
use palisade_sys::notify::Answer;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The kernel's `O_TMPFILE` is two bits, of which one is `O_DIRECTORY`.
const TMPFILE: OFlags = OFlags::TMPFILE.difference(OFlags::DIRECTORY);
/// The flags that `openat` knows (`VALID_OPEN_FLAGS` of the kernel); it overlooks others, which `openat2` doesn't.
const KNOWN: OFlags = OFlags::from_bits_retain(0o37_777_703);
/// What stays with the open file and can be set afterwards.
const STATUS: OFlags =
    OFlags::APPEND.union(OFlags::NONBLOCK).union(OFlags::from_bits_retain(0o20000 | 0o40000 | 0o1_000_000));

/// How a file is to be opened.
#[derive(Clone, Copy)]
pub(crate) struct How {
    flags: OFlags,
    mode: Mode,
}

impl How {
    pub(crate) fn new(flags: i32, mode: u32) -> Self {
        let flags = OFlags::from_bits_retain(flags.cast_unsigned());
        Self { flags, mode: Mode::from_raw_mode(mode & 0o7777) }
    }

    /// Whether a link in the last place is followed.
    pub(crate) fn follows(self) -> bool {
        !self.flags.intersects(OFlags::NOFOLLOW) && !self.flags.contains(OFlags::CREATE | OFlags::EXCL)
    }

    /// Whether the descriptor is closed when another program is executed.
    pub(crate) fn closes_on_exec(self) -> bool {
        self.flags.contains(OFlags::CLOEXEC)
    }

    /// Whether what is open already could be opened so.
    pub(crate) fn fits(self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.flags.contains(OFlags::CREATE | OFlags::EXCL) {
            return Err(Errno::EXIST);
        }
        if self.flags.contains(OFlags::DIRECTORY) && kind(file)? != FileType::Directory {
            return Err(Errno::NOTDIR);
        }
        let has = rustix::fs::fcntl_getfl(file)? & OFlags::RWMODE;
        let wanted = self.flags & OFlags::RWMODE;
        if has == OFlags::RDWR || has == wanted { Ok(()) } else { Err(Errno::ACCESS) }
    }

    fn writes(self) -> bool {
        self.makes() || self.flags.intersects(OFlags::RWMODE | OFlags::TRUNC)
    }

    /// Whether this is about a name, and a link behind it would be followed.
    pub(super) fn is_plain(self) -> bool {
        self.writes()
            && !self.flags.intersects(OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY)
            && !self.flags.intersects(TMPFILE)
    }

    pub(super) fn makes(self) -> bool {
        self.flags.contains(OFlags::CREATE) || self.flags.intersects(TMPFILE)
    }

    /// For a name: no terminal taken, nothing waited for.
    fn on_name(self) -> OFlags {
        // What is new can't make anybody wait.
        let wait = if self.flags.contains(OFlags::CREATE | OFlags::EXCL) {
            OFlags::empty()
        } else {
            OFlags::NONBLOCK
        };
        self.flags & KNOWN | OFlags::CLOEXEC | OFlags::NOCTTY | wait
    }

    /// Opens a name, following no link. Not by `O_NOFOLLOW`, which would show in the file's flags.
    fn open_at(self, place: &Place) -> Result<OwnedFd, Errno> {
        loop {
            match self.open_name_at(&place.parent, &place.name) {
                // Something was moved at this moment.
                Err(Errno::AGAIN) if !self.may_be_leased(place) => {}
                other => return other,
            }
        }
    }

    /// The same once, with no link followed in any place of `name`.
    pub(super) fn open_name_at(self, parent: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
        let mode = if self.makes() { self.mode } else { Mode::empty() };
        rustix::fs::openat2(parent, name, self.on_name(), mode, ResolveFlags::NO_SYMLINKS)
    }

    /// `EAGAIN` also says that somebody else would have to give up a lease first.
    fn may_be_leased(self, place: &Place) -> bool {
        place.stat().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    }

    /// For something that is there, reached by its descriptor.
    fn on_object(self) -> OFlags {
        // With O_TMPFILE the second means that the file is never to have a name.
        let exclusive = if self.flags.intersects(TMPFILE) { OFlags::empty() } else { OFlags::EXCL };
        let made = OFlags::CREATE | OFlags::NOFOLLOW | exclusive;
        self.flags.difference(made) | OFlags::CLOEXEC | OFlags::NOCTTY
    }
}

impl Worker<'_> {
    pub(crate) fn open(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        how: How,
    ) -> Result<Outcome, Errno> {
        if how.makes() {
            modes::permit(how.mode.bits(), || Ok(FileType::RegularFile))?;
        }
        if let Some(outcome) = self.open_literally(caller, path, how) {
            return Ok(outcome);
        }
        let mut spot = caller.resolve(descriptor, path)?;
        if how.makes() {
            self.assume_mask(caller)?;
        }
        if how.flags.contains(OFlags::PATH) {
            // Nothing can be done with such a descriptor but look.
            let last = if how.flags.contains(OFlags::NOFOLLOW) { Last::Keep } else { Last::Follow };
            let object = caller.object(spot, last)?;
            return self.open_object(caller, object, how);
        }
        if how.flags.intersects(TMPFILE) {
            let object = caller.object(spot, Last::Follow)?;
            return self.open_object(caller, object, how);
        }
        for _ in 0..40 {
            let place = match spot {
                Spot::Object(object) => {
                    if how.flags.contains(OFlags::CREATE | OFlags::EXCL) {
                        return Err(Errno::EXIST);
                    }
                    return self.open_object(caller, object, how);
                }
                Spot::Name(place) => place,
            };
            match self.open_name(caller, &place, how) {
                Err(Errno::LOOP) if !how.flags.contains(OFlags::NOFOLLOW) => spot = caller.follow(place)?,
                other => return other,
            }
        }
        Err(Errno::LOOP)
    }

    /// Opens a path of the policy's instead of the caller's: what the caller could open itself.
    ///
    /// What lies at that path may be the caller's to exchange. So no link of the process file system is followed there,
    /// by which the broker would reach what it itself may see.
    pub(crate) fn open_instead(&self, caller: &Caller<'_>, path: &CStr, how: How) -> Result<Outcome, Errno> {
        if how.writes() {
            return self.open(caller, CWD_NUMBER, path, how);
        }
        let flags = how.on_name() | OFlags::NONBLOCK;
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve)?;
        if rustix::fs::fstatfs(&file)?.f_type == PROC_MAGIC {
            return Err(Errno::ACCESS);
        }
        self.hand_over(caller, file, how)
    }

    fn open_name(&self, caller: &Caller<'_>, place: &Place, how: How) -> Result<Outcome, Errno> {
        let order = if how.makes() {
            self.shared.order_for(place.plain())
        } else {
            Order::Shared(self.shared.read_order())
        };
        if place.plain().len() == place.name.as_bytes().len() {
            let deed = if how.flags.contains(OFlags::CREATE) { Deed::MakeFile } else { Deed::Change };
            let path = place.path()?;
            if let Err(refused) = self.check(deed, &path, place) {
                let exclusive = how.flags.contains(OFlags::CREATE | OFlags::EXCL);
                return match place.stat() {
                    // Nothing would have been made or changed.
                    Err(missing) if deed == Deed::Change => Err(missing),
                    _ if deed == Deed::MakeFile && self.goes_on(caller, &refused) => {
                        self.give_unnamed(caller, place, how)
                    }
                    Ok(_) if exclusive => Err(Errno::EXIST),
                    _ => Err(self.refuse(caller, &refused)),
                };
            }
        }
        // With slashes behind it the name is a directory's, which can't be opened for writing: the
        // kernel says so.
        let opened = how.open_at(place);
        match opened {
            Ok(file) => {
                if how.makes() && place.plain() == b".git" {
                    self.tell_of_repository(&place.path()?);
                }
                drop(order);
                self.hand_over(caller, file, how)
            }
            Err(errno @ (Errno::NXIO | Errno::AGAIN)) => {
                let object = rustix::fs::openat(
                    &place.parent,
                    &*place.name,
                    OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                    Mode::empty(),
                )?;
                drop(order);
                self.not_at_once(caller, object, how, errno)
            }
            Err(errno) => Err(errno),
        }
    }

    /// A file that has no name and never gets one, in place of the one that was refused.
    fn give_unnamed(&self, caller: &Caller<'_>, place: &Place, how: How) -> Result<Outcome, Errno> {
        let made = OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let flags = how.flags & KNOWN.difference(made) | OFlags::TMPFILE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&place.parent, c".", flags, how.mode)?;
        self.hand_over(caller, file, how)
    }

    /// Opens something that is there.
    fn open_object(&self, caller: &Caller<'_>, object: OwnedFd, how: How) -> Result<Outcome, Errno> {
        let order = self.shared.read_order();
        let mut buffer = DecimalBuffer::default();
        if !how.flags.intersects(TMPFILE | OFlags::PATH) {
            let path = path_of(object.as_fd())?;
            self.permit(caller, Deed::Change, &path, &Object { file: object.as_fd(), path: &path })?;
        }
        let flags = how.on_object() | OFlags::NONBLOCK;
        let opened = rustix::fs::openat(CWD, by_number(object.as_fd(), &mut buffer), flags, how.mode);
        drop(order);
        match opened {
            Ok(file) => self.hand_over(caller, file, how),
            Err(errno @ (Errno::NXIO | Errno::AGAIN)) => self.not_at_once(caller, object, how, errno),
            Err(errno) => Err(errno),
        }
    }

    /// Sets what the caller asked for, and has it wait where it would have waited.
    pub(super) fn hand_over(&self, caller: &Caller<'_>, file: OwnedFd, how: How) -> Result<Outcome, Errno> {
        let waits = !how.flags.intersects(OFlags::NONBLOCK | OFlags::PATH)
            && !how.flags.contains(OFlags::CREATE | OFlags::EXCL);
        if waits {
            let reads = how.flags & OFlags::RWMODE == OFlags::RDONLY;
            if reads && kind(file.as_fd())? == FileType::Fifo {
                return self.wait_for(caller, file, how);
            }
            rustix::fs::fcntl_setfl(&file, how.flags & STATUS)?;
        }
        Ok(Outcome::File { file, close_on_exec: how.flags.contains(OFlags::CLOEXEC) })
    }

    /// What can't be opened without waiting, or means something else for the caller.
    fn not_at_once(
        &self,
        caller: &Caller<'_>,
        object: OwnedFd,
        how: How,
        errno: Errno,
    ) -> Result<Outcome, Errno> {
        let stat = rustix::fs::fstat(&object)?;
        let waits = !how.flags.contains(OFlags::NONBLOCK);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == rustix::fs::makedev(5, 0) => {
                let file = self.controlling_terminal(caller, how)?;
                Ok(Outcome::File { file, close_on_exec: how.flags.contains(OFlags::CLOEXEC) })
            }
            FileType::Fifo if waits => self.wait_for(caller, object, how),
            FileType::RegularFile if waits && errno == Errno::AGAIN => self.wait_for(caller, object, how),
            _ => Err(errno),
        }
    }

    /// Opens in a thread of its own, which waits as long as it takes.
    fn wait_for(&self, caller: &Caller<'_>, object: OwnedFd, how: How) -> Result<Outcome, Errno> {
        let call = Call::from(caller.call);
        let id = call.id;
        let shared = Arc::clone(self.shared);
        self.shared.waiters.start(Arc::clone(self.shared), id, caller.process()?, move || {
            let mut buffer = DecimalBuffer::default();
            let flags = how.on_object().difference(OFlags::TRUNC);
            let opened = rustix::fs::openat(CWD, by_number(object.as_fd(), &mut buffer), flags, how.mode);
            let answer = match opened {
                Ok(file) => deliver(&shared.listener, call, file, how.flags.contains(OFlags::CLOEXEC), None),
                Err(errno) => Answer::Error(errno),
            };
            let _nobody_waits = shared.listener.answer(id, answer);
        })?;
        Ok(Outcome::Later)
    }

    /// What `/dev/tty` is for the caller: the broker has no terminal of its own.
    fn controlling_terminal(&self, caller: &Caller<'_>, how: How) -> Result<OwnedFd, Errno> {
        let (device, session) = caller.terminal()?;
        if device == 0 {
            return Err(Errno::NXIO);
        }
        let flags = how.on_object();
        let mut buffer = DecimalBuffer::default();
        if session == self.shared.session {
            let terminal = self.shared.terminal.as_ref().ok_or(Errno::NXIO)?;
            let number = by_number(terminal.as_fd(), &mut buffer);
            return match rustix::fs::openat(CWD, number, flags, how.mode) {
                // `/dev/tty` asks for no permission. Of root's commands the terminal isn't theirs.
                Err(Errno::ACCESS) => rustix::io::fcntl_dupfd_cloexec(terminal, 3),
                other => other,
            };
        }
        // Made inside: the terminals of Unix98 have majors 136 to 143, 256 minors each, as
        // `new_encode_dev` packs them.
        let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
        let number = major.checked_sub(136).filter(|bank| *bank < 8).ok_or(Errno::NXIO)? * 256 + minor;
        let path = [b"/dev/pts/", buffer.write(number)].concat();
        rustix::fs::openat(CWD, &*c_string(&path)?, flags | OFlags::NOFOLLOW, how.mode)
    }

    pub(crate) fn truncate(&self, caller: &Caller<'_>, path: &CStr, length: u64) -> Result<Outcome, Errno> {
        let spot = caller.resolve(CWD_NUMBER, path)?;
        let (object, path) = caller.object_and_path(spot, Last::Follow)?;
        if i64::try_from(length).is_err() {
            return Err(Errno::INVAL);
        }
        let _order = self.shared.read_order();
        match kind(object.as_fd())? {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.permit(caller, Deed::Change, &path, &Object { file: object.as_fd(), path: &path })?;
        let mut buffer = DecimalBuffer::default();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(CWD, by_number(object.as_fd(), &mut buffer), flags, Mode::empty())?;
        rustix::fs::ftruncate(&file, length)?;
        Ok(Outcome::Value(0))
    }
}

/// `AT_FDCWD`.
pub(crate) const CWD_NUMBER: i32 = -100;
