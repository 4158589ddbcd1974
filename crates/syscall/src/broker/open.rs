// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Opens files for writing, on behalf of the caller.

use crate::broker::attributes::Order;
use crate::broker::caller::{Caller, DecimalBuffer, path_of};
use crate::broker::how::{How, Opened};
use crate::broker::name_policy::Operation;
use crate::broker::resolve::{Last, Object, PROC_MAGIC, Place, Spot, by_number, c_string, kind};
use crate::broker::waiter::What;
use crate::broker::{Call, Outcome, Worker, deliver, modes};
use palisade_sys::notify::Reply;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

impl Worker<'_> {
    /// Opens a path for the caller.
    ///
    /// The kernel checks for a free descriptor number before it looks at the path. Where opening leaves no traces, it
    /// is enough to check this after a failure.
    pub(crate) fn open(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        how: How,
    ) -> Result<Outcome, Errno> {
        if how.leaves_traces() && !caller.has_room() {
            return Err(Errno::MFILE);
        }
        let opened = self.open_for(caller, descriptor, path, how);
        if opened.is_err() && !how.leaves_traces() && !caller.has_room() {
            return Err(Errno::MFILE);
        }
        opened
    }

    fn open_for(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        how: How,
    ) -> Result<Outcome, Errno> {
        if how.makes() {
            modes::permit(how.mode().bits(), || Ok(FileType::RegularFile))?;
        }
        if let Some(outcome) = self.open_literally(caller, path, how) {
            return Ok(outcome);
        }
        let mut spot = caller.resolve(descriptor, path)?;
        if how.makes() {
            self.assume_mask(caller)?;
        }
        if how.is_unnamed() {
            let last = if how.follows() { Last::Follow } else { Last::Keep };
            let directory = caller.object(spot, last)?;
            return self.open_in(caller, &directory, how);
        }
        for _ in 0..40 {
            let place = match spot {
                Spot::Object(object) => {
                    if how.is_exclusive() {
                        return Err(Errno::EXIST);
                    }
                    if how.makes() && kind(object.as_fd())? == FileType::Directory {
                        return Err(Errno::ISDIR);
                    }
                    return self.open_object(caller, object, how);
                }
                Spot::Name(place) => place,
            };
            // A slash behind the name means the directory to which the link leads.
            let follows = !how.has(OFlags::NOFOLLOW) || place.plain().len() < place.name.as_bytes().len();
            match self.open_name(caller, &place, how) {
                Err(Errno::LOOP) if follows => {
                    spot = caller.follow(place, if how.makes() { Last::Make } else { Last::Follow })?;
                }
                other => return other,
            }
        }
        Err(Errno::LOOP)
    }

    /// Makes a file without a name in a directory (`O_TMPFILE`).
    fn open_in(&self, caller: &Caller<'_>, directory: &OwnedFd, how: How) -> Result<Outcome, Errno> {
        let _order = self.shared.read_order();
        let file = rustix::fs::openat(directory, c".", how.on_object(), how.mode())?;
        self.hand_over(caller, Opened { file, new: true }, how)
    }

    /// Opens a path of the policy in place of the caller's path. The caller must be able to open that path itself.
    ///
    /// The caller may be able to exchange the file at that path. So the broker follows no magic link of the process
    /// file system there, by which it would reach files that only the broker can see.
    pub(crate) fn open_instead(&self, caller: &Caller<'_>, path: &CStr, how: How) -> Result<Outcome, Errno> {
        if how.writes() {
            return self.open(caller, CWD_NUMBER, path, how);
        }
        let resolve = ResolveFlags::NO_MAGICLINKS;
        let file = rustix::fs::openat2(CWD, path, how.to_read(), Mode::empty(), resolve)?;
        if rustix::fs::fstatfs(&file)?.f_type == PROC_MAGIC {
            return Err(Errno::ACCESS);
        }
        self.hand_over(caller, Opened { file, new: false }, how)
    }

    fn open_name(&self, caller: &Caller<'_>, place: &Place, how: How) -> Result<Outcome, Errno> {
        let order = if how.makes() {
            self.shared.order_for(place.plain())
        } else {
            Order::Shared(self.shared.read_order())
        };
        if place.plain().len() == place.name.as_bytes().len() {
            let operation = if how.has(OFlags::CREATE) { Operation::MakeFile } else { Operation::Change };
            let path = place.path()?;
            if let Err(refused) = self.check(operation, &path, place) {
                return match place.stat() {
                    // The call would have made or changed nothing: report the missing file.
                    Err(missing) if operation == Operation::Change => Err(missing),
                    _ if operation == Operation::MakeFile
                        && self.may_be_judged(&refused, &path, place, how) =>
                    {
                        // Not every file system supports files without a name.
                        self.give_to_be_judged(caller, place, how)
                            .map_err(|_none| self.refuse(caller, &refused))
                    }
                    _ if operation == Operation::MakeFile && self.goes_on(caller, &refused) => {
                        self.give_unnamed(caller, place, how)
                    }
                    Ok(_) if how.is_exclusive() => Err(Errno::EXIST),
                    _ => Err(self.refuse(caller, &refused)),
                };
            }
        }
        // With slashes behind it the name must be a directory, which can't be opened for writing. The kernel returns
        // the right error.
        match how.open_at(place) {
            Ok(opened) => {
                if how.makes() && place.plain() == b".git" {
                    self.tell_of_repository(&place.path()?);
                }
                drop(order);
                self.hand_over(caller, opened, how)
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
            // `O_TRUNC` counts as writing, which the kernel checks first.
            Err(Errno::ACCESS) if how.has(OFlags::TRUNC) && place.is_directory() => Err(Errno::ISDIR),
            Err(errno) => Err(errno),
        }
    }

    /// Gives a file that has no name and never gets one, in place of a refused one.
    fn give_unnamed(&self, caller: &Caller<'_>, place: &Place, how: How) -> Result<Outcome, Errno> {
        let file = rustix::fs::openat(&place.parent, c".", how.without_name(), how.mode())?;
        self.hand_over(caller, Opened { file, new: true }, how)
    }

    /// Opens an existing file by its descriptor.
    fn open_object(&self, caller: &Caller<'_>, object: OwnedFd, how: How) -> Result<Outcome, Errno> {
        let order = self.shared.read_order();
        let mut buffer = DecimalBuffer::default();
        let path = path_of(object.as_fd())?;
        self.permit(caller, Operation::Change, &path, &Object { file: object.as_fd(), path: &path })?;
        let flags = how.on_object() | OFlags::NONBLOCK;
        let opened =
            match rustix::fs::openat(CWD, by_number(object.as_fd(), &mut buffer), flags, Mode::empty()) {
                Err(Errno::ACCESS) => own_null(&object, flags),
                other => other,
            };
        drop(order);
        match opened {
            Ok(file) => self.hand_over(caller, Opened { file, new: false }, how),
            Err(errno @ (Errno::NXIO | Errno::AGAIN)) => self.not_at_once(caller, object, how, errno),
            Err(errno) => Err(errno),
        }
    }

    /// Sets the flags that the caller asked for, and lets the caller wait where it would have waited.
    pub(super) fn hand_over(&self, caller: &Caller<'_>, opened: Opened, how: How) -> Result<Outcome, Errno> {
        if caller.is_of_kernel(opened.file.as_fd())? {
            return Err(Errno::ACCESS);
        }
        if how.may_wait() && !how.is_exclusive() {
            if how.only_reads() && kind(opened.file.as_fd())? == FileType::Fifo {
                return self.wait_for(caller, opened.file, how);
            }
            rustix::fs::fcntl_setfl(&opened.file, how.status())?;
        }
        how.given(opened).map(Outcome::File)
    }

    /// Handles files that can't be opened without waiting, or that differ from caller to caller (`/dev/tty`).
    fn not_at_once(
        &self,
        caller: &Caller<'_>,
        object: OwnedFd,
        how: How,
        errno: Errno,
    ) -> Result<Outcome, Errno> {
        let stat = rustix::fs::fstat(&object)?;
        let waits = how.may_wait();
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice if stat.st_rdev == rustix::fs::makedev(5, 0) => {
                let file = self.controlling_terminal(caller, how)?;
                how.given(Opened { file, new: false }).map(Outcome::File)
            }
            FileType::Fifo if waits => self.wait_for(caller, object, how),
            FileType::RegularFile if waits && errno == Errno::AGAIN => self.wait_for(caller, object, how),
            _ => Err(errno),
        }
    }

    /// Opens the file in a separate thread, which waits as long as necessary.
    fn wait_for(&self, caller: &Caller<'_>, object: OwnedFd, how: How) -> Result<Outcome, Errno> {
        let call = Call::from(caller.call);
        let shared = Arc::clone(self.shared);
        let wait = (call, What::Call);
        self.shared.waiters.start(Arc::clone(self.shared), wait, caller.process()?, move |wait| {
            let mut buffer = DecimalBuffer::default();
            let number = by_number(object.as_fd(), &mut buffer);
            let opened = rustix::fs::openat(CWD, number, how.on_object(), Mode::empty());
            let answer = match opened.and_then(|file| how.given(Opened { file, new: false })) {
                Ok(given) => deliver(&shared.listener, call, given, None),
                Err(errno) => Reply::Error(errno),
            };
            let _nobody_waits = shared.listener.answer(call.id, wait.answer(answer));
        })?;
        Ok(Outcome::Later)
    }

    /// The file that `/dev/tty` means for the caller. The broker itself has no terminal.
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
            return match rustix::fs::openat(CWD, number, flags, Mode::empty()) {
                // Opening `/dev/tty` needs no permission. For a command of root's, the terminal belongs to another
                // user.
                Err(Errno::ACCESS) => rustix::io::fcntl_dupfd_cloexec(terminal, 3),
                other => other,
            };
        }
        // A terminal that was made inside. Unix98 terminals have the majors 136 to 143 with 256 minors each, packed
        // as `new_encode_dev` does.
        let (major, minor) = (device >> 8 & 0xfff, device & 0xff | device >> 12 & 0xf_ff00);
        let number = major.checked_sub(136).filter(|bank| *bank < 8).ok_or(Errno::NXIO)? * 256 + minor;
        let path = [b"/dev/pts/", buffer.write(number)].concat();
        rustix::fs::openat(CWD, &*c_string(&path)?, flags | OFlags::NOFOLLOW, Mode::empty())
    }

    /// `truncate`. `path` is the index of the argument with the path.
    pub(crate) fn truncate(&self, caller: &Caller<'_>, path: usize, length: u64) -> Result<Outcome, Errno> {
        if i64::try_from(length).is_err() {
            return Err(Errno::INVAL);
        }
        let spot = caller.resolve(CWD_NUMBER, &caller.path(path)?)?;
        let (object, path) = caller.object_and_path(spot, Last::Follow)?;
        let _order = self.shared.read_order();
        match kind(object.as_fd())? {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR),
            _ => return Err(Errno::INVAL),
        }
        self.permit(caller, Operation::Change, &path, &Object { file: object.as_fd(), path: &path })?;
        let mut buffer = DecimalBuffer::default();
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(CWD, by_number(object.as_fd(), &mut buffer), flags, Mode::empty())?;
        if !caller.may_grow(&file, length)? {
            return Err(Errno::FBIG);
        }
        rustix::fs::ftruncate(&file, length)?;
        Ok(Outcome::Value(0))
    }
}

/// Opens the sandbox's null device in place of the host's, when a caller has a descriptor of the host's from outside.
/// The host's device isn't granted inside by name, and both behave the same.
fn own_null(object: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    let is_null = |file: &OwnedFd| -> Result<(), Errno> {
        let stat = rustix::fs::fstat(file)?;
        let device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        if device && stat.st_rdev == rustix::fs::makedev(1, 3) { Ok(()) } else { Err(Errno::ACCESS) }
    };
    is_null(object)?;
    let own = rustix::fs::openat2(CWD, c"/dev/null", flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|_none| Errno::ACCESS)?;
    is_null(&own).map(|()| own)
}

/// `AT_FDCWD`.
pub(crate) const CWD_NUMBER: i32 = -100;
