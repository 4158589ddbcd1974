// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Changes permissions, owners and extended attributes. Also: how a refusal is decided and reported.

use crate::broker::caller::{Caller, DecimalBuffer, path_of};
use crate::broker::name_policy::{Operation, Refused};
use crate::broker::observe::Done;
use crate::broker::report::{Denial, Report};
use crate::broker::resolve::{Last, Object, by_number, kind};
use crate::broker::way::Way;
use crate::broker::{Outcome, Shared, Worker, modes};
use rustix::fs::{AtFlags, CWD, Gid, Mode, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// The kernel's limits for extended attributes (`XATTR_NAME_MAX`, `XATTR_SIZE_MAX`).
const ATTRIBUTE_NAME: usize = 256;
const ATTRIBUTE_SIZE: u64 = 64 * 1024;

/// The error for a refusal. Programs know it from files that belong to other users.
const REFUSED: Errno = Errno::ACCESS;

/// The lock that is held from a judgement until the call is made.
#[expect(dead_code, reason = "held, never looked at")]
pub(crate) enum Order<'s> {
    /// Other calls may make or open names meanwhile.
    Shared(RwLockReadGuard<'s, ()>),
    /// No other call of this sandbox changes a name meanwhile.
    Alone(RwLockWriteGuard<'s, ()>),
}

impl Shared {
    /// While the caller holds this, paths keep their meaning.
    pub(crate) fn read_order(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// While the caller holds this, no other call inside changes a name.
    pub(crate) fn write_order(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An existing file.
pub(crate) struct Target {
    object: OwnedFd,
    path: Vec<u8>,
}

impl Target {
    /// The file that a descriptor refers to.
    pub(crate) fn of(object: OwnedFd) -> Result<Self, Errno> {
        let path = path_of(object.as_fd())?;
        Ok(Self { object, path })
    }

    pub(crate) fn object(&self) -> BorrowedFd<'_> {
        self.object.as_fd()
    }

    pub(crate) fn way(&self) -> Object<'_> {
        Object { file: self.object.as_fd(), path: &self.path }
    }
}

impl Worker<'_> {
    /// Asks the name policy about a name, and reports a refusal to the launcher.
    pub(crate) fn permit(
        &self,
        caller: &Caller<'_>,
        operation: Operation,
        path: &[u8],
        way: &dyn Way,
    ) -> Result<(), Errno> {
        self.check(operation, path, way).map_err(|refused| self.refuse(caller, &refused))
    }

    /// Whether attributes of a file may be changed. Landlock doesn't restrict that, so without mounts the broker
    /// refuses it for files that aren't writable.
    pub(crate) fn permit_attributes(&self, caller: &Caller<'_>, target: &Target) -> Result<(), Errno> {
        self.permit(caller, Operation::Attributes, &target.path, &target.way())?;
        let refuses = self.shared.in_place && self.shared.name_policy.shut(&target.path).is_some();
        if refuses { Err(REFUSED) } else { Ok(()) }
    }

    /// Asks the name policy about a name.
    pub(crate) fn check(&self, operation: Operation, path: &[u8], way: &dyn Way) -> Result<(), Box<Refused>> {
        if self.shared.observer.is_some() {
            self.operations.borrow_mut().push(Done::before(operation, path));
        }
        self.judged.note(operation, path);
        self.shared.name_policy.check(operation, path, way, &self.locks)?;
        if operation.makes() { self.may_begin(path, way) } else { Ok(()) }
    }

    /// Whether the writer of this name is git checking out a commit, or Mercurial cloning.
    ///
    /// If the broker refused the name, git would stop in the middle and leave a tree, an index and a branch that
    /// contradict each other. So git continues: where it may not make a file, it gets a file without a name; where it
    /// may not remove one, it gets a success. `git status` shows both. Mercurial writes `.hg/hgrc` (the address it
    /// cloned from) last; after a refusal it would remove the whole clone. A checkout by Mercurial doesn't continue
    /// without a file.
    ///
    /// The check uses the process name, which any program can set. That is no gain for an attacker: the protected
    /// name isn't written in either case.
    pub(crate) fn is_checkout(&self, caller: &Caller<'_>, refused: &Refused) -> bool {
        refused.carried
            && match &*caller.program() {
                b"git" => true,
                b"hg" => refused.path.ends_with(b"/.hg/hgrc"),
                _ => false,
            }
    }

    /// Like [`is_checkout`](Self::is_checkout). Also reports the refusal to the launcher.
    pub(crate) fn goes_on(&self, caller: &Caller<'_>, refused: &Refused) -> bool {
        let goes_on = self.is_checkout(caller, refused);
        if goes_on {
            let detail = match &*caller.program() {
                b"hg" => "hg continued without it; `hg pull` there needs an address",
                _ => "git continued without it; `git status` shows it",
            };
            self.refuse(caller, &Refused { detail: detail.to_owned(), ..refused.clone() });
        }
        goes_on
    }

    pub(crate) fn refuse(&self, caller: &Caller<'_>, refused: &Refused) -> Errno {
        self.judged.tell();
        self.shared.reporter.tell(&Report::Refused {
            thread: caller.call.thread,
            program: caller.program(),
            call: crate::broker::calls::name_of(caller.call).to_owned(),
            refused: refused.clone(),
        });
        REFUSED
    }

    /// Sets this thread's umask to the caller's, for files that it makes from here on.
    pub(crate) fn assume_mask(&self, caller: &Caller<'_>) -> Result<(), Errno> {
        let mask = caller.umask()?;
        if self.umask.replace(mask) != mask || !self.shared.apart {
            let _before = rustix::process::umask(Mode::from_raw_mode(mask));
        }
        Ok(())
    }

    /// The file that a path and flags (`AT_SYMLINK_NOFOLLOW`, `AT_EMPTY_PATH`) name. `path` is the index of the
    /// argument with the path. The flags are checked before the path is read, as in the kernel.
    pub(crate) fn target_at(
        &self,
        caller: &Caller<'_>,
        (descriptor, path): (i32, usize),
        flags: u32,
    ) -> Result<Target, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !(AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
            return Err(Errno::INVAL);
        }
        let path = caller.path_or_empty(path)?;
        if path.is_empty() {
            let meant = flags.contains(AtFlags::EMPTY_PATH);
            return if meant { Target::of(caller.base(descriptor)?) } else { Err(Errno::NOENT) };
        }
        let last = if flags.contains(AtFlags::SYMLINK_NOFOLLOW) { Last::Keep } else { Last::Follow };
        let spot = caller.resolve(descriptor, &path)?;
        let (object, path) = caller.object_and_path(spot, last)?;
        Ok(Target { object, path })
    }

    pub(crate) fn change_mode(
        &self,
        caller: &Caller<'_>,
        path: (i32, usize),
        mode: u32,
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let target = self.target_at(caller, path, flags)?;
        self.change_mode_of(caller, &target, mode)
    }

    pub(crate) fn change_mode_of(
        &self,
        caller: &Caller<'_>,
        target: &Target,
        mode: u32,
    ) -> Result<Outcome, Errno> {
        let _order = self.shared.read_order();
        self.permit_attributes(caller, target)?;
        modes::permit(mode, || kind(target.object.as_fd()))
            .map_err(|errno| self.deny(caller, &target.path, Denial::Mode, errno))?;
        let mut buffer = DecimalBuffer::default();
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::chmodat(CWD, by_number(target.object.as_fd(), &mut buffer), mode, AtFlags::empty())?;
        Ok(Outcome::Value(0))
    }

    pub(crate) fn change_owner(
        &self,
        caller: &Caller<'_>,
        path: (i32, usize),
        owner: (u32, u32),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let target = self.target_at(caller, path, flags)?;
        self.change_owner_of(caller, &target, owner)
    }

    pub(crate) fn change_owner_of(
        &self,
        caller: &Caller<'_>,
        target: &Target,
        (user, group): (u32, u32),
    ) -> Result<Outcome, Errno> {
        let _order = self.shared.read_order();
        self.permit_attributes(caller, target)?;
        let user = (user != u32::MAX).then(|| Uid::from_raw(user));
        let group = (group != u32::MAX).then(|| Gid::from_raw(group));
        match rustix::fs::chownat(&target.object, c"", user, group, AtFlags::EMPTY_PATH) {
            Ok(()) => Ok(Outcome::Value(0)),
            // The user namespace of the sandbox has no such user. Without a user namespace the kernel answers EPERM,
            // which programs expect.
            Err(Errno::INVAL) => Err(Errno::PERM),
            Err(errno) => Err(errno),
        }
    }

    /// `setxattr` and its variants.
    pub(crate) fn set_attribute(
        &self,
        caller: &Caller<'_>,
        target: &Target,
        attribute: &Attribute,
    ) -> Result<Outcome, Errno> {
        let Attribute { name, value, flags } = attribute;
        let _order = self.shared.read_order();
        self.permit_attributes(caller, target)?;
        let mut buffer = DecimalBuffer::default();
        rustix::fs::setxattr(by_number(target.object.as_fd(), &mut buffer), &**name, value, *flags)?;
        Ok(Outcome::Value(0))
    }

    /// `removexattr` and its variants.
    pub(crate) fn remove_attribute(
        &self,
        caller: &Caller<'_>,
        target: &Target,
        name: &CStr,
    ) -> Result<Outcome, Errno> {
        let _order = self.shared.read_order();
        self.permit_attributes(caller, target)?;
        let mut buffer = DecimalBuffer::default();
        rustix::fs::removexattr(by_number(target.object.as_fd(), &mut buffer), name)?;
        Ok(Outcome::Value(0))
    }
}

/// An extended attribute to set.
pub(crate) struct Attribute {
    name: CString,
    value: Vec<u8>,
    flags: XattrFlags,
}

impl Attribute {
    /// Reads the arguments from `first` on: name, value, size, flags. Errors are checked in the kernel's order
    /// (`setxattr_copy`).
    pub(crate) fn read(caller: &Caller<'_>, first: usize) -> Result<Self, Errno> {
        let flags = XattrFlags::from_bits_retain(caller.unsigned(first + 3));
        if !(XattrFlags::CREATE | XattrFlags::REPLACE).contains(flags) {
            return Err(Errno::INVAL);
        }
        let name = attribute_name(caller, first)?;
        let size = caller.argument(first + 2);
        if size > ATTRIBUTE_SIZE {
            return Err(Errno::TOOBIG);
        }
        let value = caller.bytes(first + 1, usize::try_from(size).map_err(|_large| Errno::TOOBIG)?)?;
        Ok(Self { name, value, flags })
    }
}

/// The name of an extended attribute, from argument `index`.
pub(crate) fn attribute_name(caller: &Caller<'_>, index: usize) -> Result<CString, Errno> {
    let name = caller.string(index, ATTRIBUTE_NAME)?;
    if name.is_empty() { Err(Errno::RANGE) } else { Ok(name) }
}
