// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes, moves and removes names.

use crate::broker::caller::{Caller, DecimalBuffer, path_of};
use crate::broker::identity::Moment;
use crate::broker::name_policy::{Operation, Refused};
use crate::broker::readable::Opened;
use crate::broker::report::{Denial, Report};
use crate::broker::resolve::{Last, Object, Place, Spot, by_number, is_directory, kind};
use crate::broker::{Outcome, Worker, config, modes};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, StatxFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// When a directory is moved away from a place where protected names begin, it is searched for them. At most this
/// many entries are searched.
const LOOKED_THROUGH: usize = 200_000;

/// One side of a move.
struct Side {
    place: Place,
    path: Vec<u8>,
    kind: Option<FileType>,
    /// Device and inode of the file at this name.
    identity: Option<(u64, u64)>,
    /// The error, if the file at this name couldn't be examined.
    error: Errno,
}

impl Side {
    fn is_directory(&self) -> bool {
        self.kind == Some(FileType::Directory)
    }

    fn of(place: Place) -> Result<Self, Errno> {
        let path = place.path()?;
        let (stat, error) = match place.stat() {
            Ok(stat) => (Some(stat), Errno::NOENT),
            Err(errno) => (None, errno),
        };
        let kind = stat.as_ref().map(|stat| FileType::from_raw_mode(stat.st_mode));
        Ok(Self { place, path, kind, identity: stat.map(|stat| (stat.st_dev, stat.st_ino)), error })
    }

    /// Whether it is known that a file is there or not.
    fn can_be_told(&self) -> Result<(), Errno> {
        if self.kind.is_none() && self.error != Errno::NOENT { Err(self.error) } else { Ok(()) }
    }

    /// Makes a move that was judged. If another sandbox has put another directory or link there in the meantime, the
    /// move is undone. Another file is harmless: it contains no further names.
    fn rename(&self, to: &Self, flags: RenameFlags) -> Result<(), Errno> {
        let rename = |from: &Place, to: &Place, flags| {
            rustix::fs::renameat_with(&from.parent, &*from.name, &to.parent, &*to.name, flags)
        };
        let was_judged = |at: &Place, judged: Option<(u64, u64)>| {
            at.stat().map_or(true, |stat| {
                let kind = FileType::from_raw_mode(stat.st_mode);
                judged == Some((stat.st_dev, stat.st_ino))
                    || !matches!(kind, FileType::Directory | FileType::Symlink)
            })
        };
        rename(&self.place, &to.place, flags)?;
        let exchanged = flags.contains(RenameFlags::EXCHANGE);
        if was_judged(&to.place, self.identity) && (!exchanged || was_judged(&self.place, to.identity)) {
            return Ok(());
        }
        let back = if exchanged { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        rename(&to.place, &self.place, back)?;
        Err(Errno::AGAIN)
    }
}

impl Worker<'_> {
    fn name(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        otherwise: Errno,
    ) -> Result<Place, Errno> {
        match caller.resolve(descriptor, path)? {
            Spot::Name(place) => Ok(place),
            Spot::Object(_) => Err(otherwise),
        }
    }

    /// Resolves one of two paths of a call. The kernel checks the first path before it reads the second: a directory
    /// of the first that can't be searched gives its error first.
    fn side(&self, caller: &Caller<'_>, (descriptor, path): (i32, usize)) -> Result<Spot, Errno> {
        let spot = caller.resolve(descriptor, &caller.path(path)?)?;
        if let Spot::Name(place) = &spot {
            rustix::fs::statat(&place.parent, c".", AtFlags::empty())?;
        }
        Ok(spot)
    }

    pub(crate) fn make_directory(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        mode: u32,
    ) -> Result<Outcome, Errno> {
        modes::permit(mode, || Ok(FileType::Directory))?;
        let place = self.name(caller, descriptor, path, Errno::EXIST)?;
        self.assume_mask(caller)?;
        let _order = self.shared.order_for(place.plain());
        let path = place.path()?;
        match self.check(Operation::MakeDirectory, &path, &place) {
            Ok(()) => {}
            // An empty directory of this name is harmless.
            Err(refused) if place.stat().is_err() && self.is_checkout(caller, &refused) => {}
            Err(refused) => return Err(self.unless_there(caller, &place, &refused)),
        }
        rustix::fs::mkdirat(&place.parent, &*place.name, Mode::from_raw_mode(mode & 0o7777))?;
        if place.plain() == b".git" {
            self.tell_of_repository(&path);
        }
        Ok(Outcome::Value(0))
    }

    /// Reports a directory or file that git will treat as a repository to the launcher, if it is visible outside.
    pub(crate) fn tell_of_repository(&self, inside: &[u8]) {
        if self.shared.name_policy.is_holder(inside)
            && let Some(path) = self.shared.name_policy.host_path(inside)
        {
            self.shared.reporter.tell(&Report::Repository { path });
        }
    }

    /// For calls that fail if the name exists. That error comes before a refusal and isn't reported.
    fn permit_new(
        &self,
        caller: &Caller<'_>,
        operation: Operation,
        path: &[u8],
        place: &Place,
    ) -> Result<(), Errno> {
        self.check(operation, path, place).map_err(|refused| self.unless_there(caller, place, &refused))
    }

    fn unless_there(&self, caller: &Caller<'_>, place: &Place, refused: &Refused) -> Errno {
        match place.stat() {
            Ok(_) => Errno::EXIST,
            Err(_) => self.refuse(caller, refused),
        }
    }

    pub(crate) fn make_node(
        &self,
        caller: &Caller<'_>,
        (descriptor, path): (i32, usize),
        mode: u32,
        device: u64,
    ) -> Result<Outcome, Errno> {
        modes::permit(mode, || Ok(FileType::RegularFile))?;
        let kind = match mode & 0o170_000 {
            0 => FileType::RegularFile,
            bits => FileType::from_raw_mode(bits),
        };
        match kind {
            FileType::Directory => return Err(Errno::PERM),
            FileType::Symlink | FileType::Unknown => return Err(Errno::INVAL),
            _ => {}
        }
        let place = self.name(caller, descriptor, &caller.path(path)?, Errno::EXIST)?;
        self.assume_mask(caller)?;
        let _order = self.shared.order_for(place.plain());
        self.permit_new(caller, Operation::MakeFile, &place.path()?, &place)?;
        let mode = Mode::from_raw_mode(mode & 0o7777);
        let before = Moment::now();
        rustix::fs::mknodat(&place.parent, &*place.name, kind, mode, device)?;
        if kind == FileType::Socket {
            // No process ever listens at this name: binding makes another name. A program that connects gets the
            // right error.
            self.shared.bound.add(&place, before);
        }
        Ok(Outcome::Value(0))
    }

    pub(crate) fn make_link(
        &self,
        caller: &Caller<'_>,
        target: &CStr,
        descriptor: i32,
        path: &CStr,
    ) -> Result<Outcome, Errno> {
        let place = self.name(caller, descriptor, path, Errno::EXIST)?;
        let _order = self.shared.order_for(place.plain());
        self.check_link(&place.path()?, &place, target.to_bytes())
            .map_err(|refused| self.unless_there(caller, &place, &refused))?;
        rustix::fs::symlinkat(target, &place.parent, &*place.name)?;
        Ok(Outcome::Value(0))
    }

    /// `link` and `linkat`. Each path has its directory descriptor and the index of its argument.
    pub(crate) fn link(
        &self,
        caller: &Caller<'_>,
        from: (i32, usize),
        to: (i32, usize),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
            return Err(Errno::INVAL);
        }
        let last = if flags.contains(AtFlags::SYMLINK_FOLLOW) { Last::Follow } else { Last::Keep };
        let _order = self.shared.write_order();
        let path = caller.path_or_empty(from.1)?;
        let (object, source) = if !path.is_empty() {
            caller.object_and_path(caller.resolve(from.0, &path)?, last)?
        } else if flags.contains(AtFlags::EMPTY_PATH) && may_link_descriptors() {
            let object = caller.base(from.0)?;
            let source = path_of(object.as_fd())?;
            (object, source)
        } else {
            return Err(Errno::NOENT);
        };
        let place = self.name(caller, to.0, &caller.path(to.1)?, Errno::EXIST)?;
        let way = Object { file: object.as_fd(), path: &source };
        self.permit(caller, Operation::LinkFrom, &source, &way)?;
        let path = place.path()?;
        if kind(object.as_fd())? == FileType::Symlink {
            let text = rustix::fs::readlinkat(&object, c"", Vec::new())?;
            self.check_link(&path, &place, text.as_bytes())
                .map_err(|refused| self.unless_there(caller, &place, &refused))?;
        } else {
            self.permit_new(caller, Operation::LinkTo, &path, &place)?;
        }
        let mut buffer = DecimalBuffer::default();
        let number = by_number(object.as_fd(), &mut buffer);
        rustix::fs::linkat(CWD, number, &place.parent, &*place.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(Outcome::Value(0))
    }

    pub(crate) fn remove(
        &self,
        caller: &Caller<'_>,
        (descriptor, path): (i32, usize),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !AtFlags::REMOVEDIR.contains(flags) {
            return Err(Errno::INVAL);
        }
        let directory = flags.contains(AtFlags::REMOVEDIR);
        let path = caller.path(path)?;
        let dots = match last_of(path.to_bytes()) {
            _ if !directory => Errno::ISDIR,
            b"" => Errno::BUSY,
            b".." => Errno::NOTEMPTY,
            _ => Errno::INVAL,
        };
        let place = self.name(caller, descriptor, &path, dots)?;
        let _order = self.shared.order_for(place.plain());
        let path = place.path()?;
        if let Err(refused) = self.check(Operation::Remove { directory }, &path, &place) {
            // A missing file can't be removed; don't report a refusal.
            place.stat()?;
            return match !directory && self.goes_on(caller, &refused) {
                true => Ok(Outcome::Value(0)),
                false => Err(self.refuse(caller, &refused)),
            };
        }
        let leaving = if directory { None } else { self.shared.bound.leaving(&place) };
        rustix::fs::unlinkat(&place.parent, &*place.name, flags)?;
        self.shared.bound.left(leaving);
        Ok(Outcome::Value(0))
    }

    /// `rename` and its variants. Each path has its directory descriptor and the index of its argument.
    pub(crate) fn rename(
        &self,
        caller: &Caller<'_>,
        from: (i32, usize),
        to: (i32, usize),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = RenameFlags::from_bits_retain(flags);
        let exchanged = flags.contains(RenameFlags::EXCHANGE);
        let alone = RenameFlags::NOREPLACE | RenameFlags::WHITEOUT;
        if !(RenameFlags::EXCHANGE | alone).contains(flags) || (exchanged && flags.intersects(alone)) {
            return Err(Errno::INVAL);
        }
        let from = self.side(caller, from)?;
        let to = self.side(caller, to)?;
        if mount_of(&from)? != mount_of(&to)? {
            return Err(Errno::XDEV);
        }
        let Spot::Name(from) = from else { return Err(Errno::BUSY) };
        let Spot::Name(to) = to else {
            return Err(if flags.contains(RenameFlags::NOREPLACE) { Errno::EXIST } else { Errno::BUSY });
        };
        let _order = self.shared.write_order();
        let (from, to) = (Side::of(from)?, Side::of(to)?);
        if from.kind.is_none() {
            return Err(from.error);
        }
        to.can_be_told()?;
        self.keeps_its_name(caller, &from)?;
        self.stays_on_its_side(caller, &from, &to)?;
        if exchanged {
            if to.kind.is_none() {
                return Err(Errno::NOENT);
            }
            self.keeps_its_name(caller, &to)?;
            return self.exchange(caller, &from, &to, flags);
        }
        if flags.contains(RenameFlags::NOREPLACE) && to.kind.is_some() {
            return Err(Errno::EXIST);
        }
        let judged = self.may_leave(&from).and_then(|()| match self.may_arrive(&from, &to) {
            // Only for a refusal of this very name. If a file would complete a repository, the refusal can be about
            // the configuration that lies there.
            Err(refused)
                if refused.content
                    && from.kind == Some(FileType::RegularFile)
                    && self.shared.name_policy.host_path(&to.path).as_ref() == Some(&refused.path) =>
            {
                Ok(Some(refused))
            }
            other => other.map(|()| None),
        });
        match judged {
            Ok(None) => {
                let leaving = self.shared.bound.leaving(&to.place);
                from.rename(&to, flags)?;
                self.shared.bound.left(leaving);
            }
            // Two names of one file, or the same name twice: the kernel does nothing.
            Ok(Some(_)) if from.identity == to.identity => {}
            Ok(Some(refused)) => {
                let fresh = self.shared.name_policy.is_fresh(&to.place);
                let baselines = &self.shared.baselines;
                config::replace(baselines, &from.place, &to.place, &refused.path, fresh).map_err(
                    |error| match error {
                        config::NotReplaced::Refused(detail) => {
                            self.refuse(caller, &Refused { detail, ..*refused })
                        }
                        config::NotReplaced::Failed(errno) => errno,
                    },
                )?;
            }
            Err(refused) => return Err(self.refuse(caller, &refused)),
        }
        Ok(Outcome::Value(0))
    }

    /// A directory can't cross the border of `node_modules`: the broker answers as if it were another file system.
    /// Programs then copy the directory, and each name is judged at its new place.
    fn stays_on_its_side(&self, caller: &Caller<'_>, from: &Side, to: &Side) -> Result<(), Errno> {
        let name_policy = &self.shared.name_policy;
        let directory = from.is_directory() || to.is_directory();
        let Some(rule) = name_policy.border_between(&from.path, &to.path).filter(|_rule| directory) else {
            return Ok(());
        };
        let to = name_policy.host_path(&to.path).unwrap_or_else(|| to.path.clone());
        let denial = Denial::Border { to, rule: u32::try_from(rule).unwrap_or(u32::MAX) };
        Err(self.deny(caller, &from.path, denial, Errno::XDEV))
    }

    /// A directory must keep its name if the policy states a rule about a path in it. The broker answers as if a file
    /// system were mounted on it.
    fn keeps_its_name(&self, caller: &Caller<'_>, side: &Side) -> Result<(), Errno> {
        let about = self.shared.name_policy.pinned_for(&side.path).filter(|_about| side.is_directory());
        match about {
            Some(about) => {
                let denial = Denial::Pinned { about: about.to_vec() };
                Err(self.deny(caller, &side.path, denial, Errno::BUSY))
            }
            None => Ok(()),
        }
    }

    fn may_leave(&self, from: &Side) -> Result<(), Box<Refused>> {
        let directory = from.is_directory();
        self.check(Operation::MoveFrom { directory }, &from.path, &from.place)?;
        if directory && self.shared.name_policy.is_holder(&from.path) {
            self.look_through(from)?;
        }
        Ok(())
    }

    fn may_arrive(&self, from: &Side, to: &Side) -> Result<(), Box<Refused>> {
        match from.kind {
            Some(FileType::Symlink) => match from.place.read_link() {
                Ok(text) => self.check_link(&to.path, &to.place, &text),
                Err(_gone) => self.check(Operation::MakeLink, &to.path, &to.place),
            },
            _ => self.check(Operation::MoveTo { directory: from.is_directory() }, &to.path, &to.place),
        }
    }

    fn exchange(
        &self,
        caller: &Caller<'_>,
        from: &Side,
        to: &Side,
        flags: RenameFlags,
    ) -> Result<Outcome, Errno> {
        for (one, other) in [(from, to), (to, from)] {
            self.may_leave(one)
                .and_then(|()| self.may_arrive(one, other))
                .map_err(|refused| self.refuse(caller, &refused))?;
        }
        from.rename(to, flags)?;
        Ok(Outcome::Value(0))
    }

    /// Refuses a move that would take protected names along.
    fn look_through(&self, from: &Side) -> Result<(), Box<Refused>> {
        let name_policy = &self.shared.name_policy;
        let mut left = LOOKED_THROUGH;
        let mut opened = Opened::default();
        let Ok(top) = opened.list(&from.place.parent, &from.place.name) else {
            // If the directory can't be read, it may contain protected names.
            return name_policy.distrust(&from.path);
        };
        let mut pending = vec![(top, from.path.clone())];
        while let Some((directory, path)) = pending.pop() {
            let Ok(entries) = rustix::fs::Dir::read_from(&directory) else {
                return name_policy.distrust(&path);
            };
            for entry in entries {
                let Ok(entry) = entry else { return name_policy.distrust(&path) };
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let inside = [&path, b"/".as_slice(), name.to_bytes()].concat();
                name_policy.is_free(&inside)?;
                left = left.saturating_sub(1);
                if left == 0 {
                    return name_policy.distrust(&inside);
                }
                if is_directory(&directory, name, entry.file_type()) {
                    // A directory that can't be read now could be made readable after the move.
                    let Ok(below) = opened.list(&directory, name) else {
                        return name_policy.distrust(&inside);
                    };
                    pending.push((below, inside));
                }
            }
        }
        Ok(())
    }
}

/// The last name of a path, without slashes. Empty for the root.
fn last_of(path: &[u8]) -> &[u8] {
    path.split(|byte| *byte == b'/').rfind(|name| !name.is_empty()).unwrap_or_default()
}

/// The mount that holds a path's last name.
fn mount_of(spot: &Spot) -> Result<u64, Errno> {
    let place = match spot {
        Spot::Name(place) => &place.parent,
        Spot::Object(object) => object,
    };
    let flags = AtFlags::EMPTY_PATH | AtFlags::NO_AUTOMOUNT;
    rustix::fs::statx(place, c"", flags, StatxFlags::MNT_ID).map(|stat| stat.stx_mnt_id)
}

/// Whether this kernel lets a process that has opened a file give it a name by its descriptor (since Linux 6.10).
/// Older kernels ask for a capability that no process inside has, and otherwise return ENOENT.
fn may_link_descriptors() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let own = rustix::fs::openat(CWD, c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let tried = own.and_then(|own| rustix::fs::linkat(&own, c"", CWD, c".", AtFlags::EMPTY_PATH));
        tried == Err(Errno::EXIST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_ends_in_a_name_or_in_none() {
        for (path, last) in [("a/b", "b"), ("a/..//", ".."), ("//", ""), (".", "."), ("a/./", ".")] {
            assert_eq!(last_of(path.as_bytes()), last.as_bytes(), "{path}");
        }
    }
}
