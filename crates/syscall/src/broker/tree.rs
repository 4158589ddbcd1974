// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Making, moving and removing names.

use crate::broker::caller::{Caller, DecimalBuffer};
use crate::broker::guard::{Deed, Refused};
use crate::broker::history::Way;
use crate::broker::report::Report;
use crate::broker::resolve::{Last, Object, Place, Spot, by_number, is_directory};
use crate::broker::{Outcome, Worker, config, modes};
use palisade_policy::names::repository::mark;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::AsFd;
use std::time::SystemTime;

/// A directory that is put where another was is looked through for protected names: this many
/// entries at most.
const LOOKED_THROUGH: usize = 200_000;

/// One side of a move.
struct Side {
    place: Place,
    path: Vec<u8>,
    kind: Option<FileType>,
}

impl Side {
    fn is_directory(&self) -> bool {
        self.kind == Some(FileType::Directory)
    }

    fn rename(&self, to: &Self, flags: RenameFlags) -> Result<(), Errno> {
        let (from, to) = (&self.place, &to.place);
        rustix::fs::renameat_with(&from.parent, &*from.name, &to.parent, &*to.name, flags)
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
        self.permit_new(caller, Deed::MakeDirectory, &path, &place)?;
        let begun = SystemTime::now();
        rustix::fs::mkdirat(&place.parent, &*place.name, Mode::from_raw_mode(mode & 0o7777))?;
        // Somebody else may have put another one there at this very moment.
        let made = place.directory(0).filter(|directory| directory.is_made_since(begun));
        self.shared.guard.made_directory(&path, made);
        if place.plain() == b".git" {
            self.tell_of_repository(&path);
        }
        Ok(Outcome::Value(0))
    }

    /// Tells the launcher what git will take for a repository, if anybody else sees it.
    pub(crate) fn tell_of_repository(&self, inside: &[u8]) {
        if self.shared.guard.is_holder(inside)
            && let Some(path) = self.shared.guard.host_path(inside)
        {
            self.shared.reporter.tell(&Report::Repository { path });
        }
    }

    /// For calls that fail when the name is there: that comes before a refusal, and is no news.
    fn permit_new(&self, caller: &Caller<'_>, deed: Deed, path: &[u8], place: &Place) -> Result<(), Errno> {
        self.check(deed, path, place).map_err(|refused| match place.stat() {
            Ok(_) => Errno::EXIST,
            Err(_) => self.refuse(caller, &refused),
        })
    }

    pub(crate) fn make_node(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        mode: u32,
        device: u64,
    ) -> Result<Outcome, Errno> {
        modes::permit(mode, || Ok(FileType::RegularFile))?;
        let place = self.name(caller, descriptor, path, Errno::EXIST)?;
        self.assume_mask(caller)?;
        let _order = self.shared.order_for(place.plain());
        self.permit_new(caller, Deed::MakeFile, &place.path()?, &place)?;
        let kind = match mode & 0o170_000 {
            0 => FileType::RegularFile,
            bits => FileType::from_raw_mode(bits),
        };
        if kind == FileType::Directory {
            return Err(Errno::PERM);
        }
        let mode = Mode::from_raw_mode(mode & 0o7777);
        rustix::fs::mknodat(&place.parent, &*place.name, kind, mode, device)?;
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
        let path = place.path()?;
        if !self.shared.guard.link_stays(&path, target.to_bytes()) {
            self.permit_new(caller, Deed::MakeLink, &path, &place)?;
        }
        rustix::fs::symlinkat(target, &place.parent, &*place.name)?;
        Ok(Outcome::Value(0))
    }

    pub(crate) fn link(
        &self,
        caller: &Caller<'_>,
        from: (i32, &CStr),
        to: (i32, &CStr),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !(AtFlags::SYMLINK_FOLLOW | AtFlags::EMPTY_PATH).contains(flags) {
            return Err(Errno::INVAL);
        }
        let place = self.name(caller, to.0, to.1, Errno::EXIST)?;
        let last = if flags.contains(AtFlags::SYMLINK_FOLLOW) { Last::Follow } else { Last::Keep };
        if from.1.is_empty() {
            // With AT_EMPTY_PATH the kernel asks for a capability that nobody inside has.
            return Err(Errno::NOENT);
        }
        let _order = self.shared.write_order();
        let spot = caller.resolve(from.0, from.1)?;
        let (object, source) = caller.object_and_path(spot, last)?;
        let way = Object { file: object.as_fd(), path: &source };
        self.permit(caller, Deed::LinkFrom, &source, &way)?;
        self.permit_new(caller, Deed::LinkTo, &place.path()?, &place)?;
        let mut buffer = DecimalBuffer::default();
        let number = by_number(object.as_fd(), &mut buffer);
        rustix::fs::linkat(CWD, number, &place.parent, &*place.name, AtFlags::SYMLINK_FOLLOW)?;
        Ok(Outcome::Value(0))
    }

    pub(crate) fn remove(
        &self,
        caller: &Caller<'_>,
        descriptor: i32,
        path: &CStr,
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = AtFlags::from_bits_retain(flags);
        if !AtFlags::REMOVEDIR.contains(flags) {
            return Err(Errno::INVAL);
        }
        let directory = flags.contains(AtFlags::REMOVEDIR);
        let dots = if !directory {
            Errno::ISDIR
        } else if path.to_bytes().ends_with(b"..") {
            Errno::NOTEMPTY
        } else {
            Errno::INVAL
        };
        let place = self.name(caller, descriptor, path, dots)?;
        let _order = self.shared.order_for(place.plain());
        let path = place.path()?;
        if let Err(refused) = self.check(Deed::Remove, &path, &place) {
            // What isn't there can't be removed: no news.
            place.stat()?;
            return Err(self.refuse(caller, &refused));
        }
        let removed = if directory { place.directory(0) } else { None };
        let leaving = if directory { None } else { self.shared.bound.leaving(&place) };
        rustix::fs::unlinkat(&place.parent, &*place.name, flags)?;
        self.shared.bound.left(leaving);
        if directory {
            self.shared.guard.removed_directory(&path, removed);
        }
        Ok(Outcome::Value(0))
    }

    pub(crate) fn rename(
        &self,
        caller: &Caller<'_>,
        from: (i32, &CStr),
        to: (i32, &CStr),
        flags: u32,
    ) -> Result<Outcome, Errno> {
        let flags = RenameFlags::from_bits_retain(flags);
        let from = self.name(caller, from.0, from.1, Errno::BUSY)?;
        let to = self.name(caller, to.0, to.1, Errno::BUSY)?;
        let _order = self.shared.write_order();
        let side = |place: Place| {
            let kind = place.stat().ok().map(|stat| FileType::from_raw_mode(stat.st_mode));
            place.path().map(|path| Side { place, path, kind })
        };
        let (from, to) = (side(from)?, side(to)?);
        if from.kind.is_none() {
            return Err(Errno::NOENT);
        }
        if flags.contains(RenameFlags::EXCHANGE) {
            if to.kind.is_none() {
                return Err(Errno::NOENT);
            }
            return self.exchange(caller, &from, &to, flags);
        }
        match self.may_move(&from, &to) {
            Ok(()) => {}
            // Only where it would come to be: moved away it would take along what it was.
            Err(refused)
                if refused.content
                    && from.kind == Some(FileType::RegularFile)
                    && self.shared.guard.host_path(&to.path).as_ref() == Some(&refused.path) =>
            {
                let made = self.shared.guard.is_made(&refused.path, &to.place);
                let baselines = &self.shared.baselines;
                return match config::replace(baselines, &from.place, &to.place, &refused.path, made) {
                    Ok(()) => Ok(Outcome::Value(0)),
                    Err(config::NotReplaced::Refused(detail)) => {
                        Err(self.refuse(caller, &Refused { detail, ..*refused }))
                    }
                    Err(config::NotReplaced::Failed(errno)) => Err(errno),
                };
            }
            Err(refused) => return Err(self.refuse(caller, &refused)),
        }
        let (moved, replaced) = (from.place.directory(0), to.place.directory(0));
        let leaving = self.shared.bound.leaving(&to.place);
        from.rename(&to, flags)?;
        self.shared.bound.left(leaving);
        if from.is_directory() {
            if to.is_directory() {
                self.shared.guard.removed_directory(&to.path, replaced);
            }
            self.shared.guard.moved_directory(&from.path, moved);
        }
        Ok(Outcome::Value(0))
    }

    fn may_move(&self, from: &Side, to: &Side) -> Result<(), Box<Refused>> {
        let directory = from.is_directory();
        if directory && self.shared.guard.may_move_holder(&from.path, &from.place, &to.path) {
            return Ok(());
        }
        self.check(Deed::MoveFrom { directory }, &from.path, &from.place)?;
        self.check(Deed::MoveTo { directory }, &to.path, &to.place)?;
        let guard = &self.shared.guard;
        // In the place of a directory that somebody may trust, or out of one that nobody minds.
        if directory
            && (to.is_directory()
                || guard.is_vacated(&to.path)
                || guard.leaves_exception(&from.path, &to.path))
        {
            self.look_through(from, &to.path)?;
        }
        Ok(())
    }

    fn exchange(
        &self,
        caller: &Caller<'_>,
        from: &Side,
        to: &Side,
        flags: RenameFlags,
    ) -> Result<Outcome, Errno> {
        for (one, other) in [(from, to), (to, from)] {
            let directory = one.is_directory();
            self.permit(caller, Deed::MoveFrom { directory }, &one.path, &one.place)?;
            self.permit(caller, Deed::MoveTo { directory }, &other.path, &other.place)?;
            if directory {
                self.look_through(one, &other.path).map_err(|refused| self.refuse(caller, &refused))?;
            }
        }
        from.rename(to, flags)?;
        for side in [from, to] {
            // What was made at one of them isn't told from what was there any more.
            if side.is_directory() {
                self.shared.guard.exchanged_directory(&side.path);
            }
        }
        Ok(Outcome::Value(0))
    }

    /// Refuses a directory that would bring protected names to where it goes.
    fn look_through(&self, from: &Side, to: &[u8]) -> Result<(), Box<Refused>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut left = LOOKED_THROUGH;
        let Ok(top) = rustix::fs::openat(&from.place.parent, &*from.place.name, flags, Mode::empty()) else {
            // What can't be read can't be vouched for.
            return self.shared.guard.distrust(to);
        };
        let mut pending = vec![(top, to.to_vec())];
        while let Some((directory, path)) = pending.pop() {
            let Ok(entries) = rustix::fs::Dir::read_from(&directory) else {
                return self.shared.guard.distrust(&path);
            };
            for entry in entries {
                let Ok(entry) = entry else { return self.shared.guard.distrust(&path) };
                let name = entry.file_name();
                if matches!(name.to_bytes(), b"." | b"..") {
                    continue;
                }
                let inside = [&path, b"/".as_slice(), name.to_bytes()].concat();
                self.shared.guard.is_free(&inside)?;
                // A repository of another name, which is as little to be trusted there.
                if mark(name.to_bytes()).is_some() && self.shared.guard.unnamed_repository(&path).is_some() {
                    return self.shared.guard.distrust_repository(&path);
                }
                left = left.saturating_sub(1);
                if left == 0 {
                    return self.shared.guard.distrust(&inside);
                }
                if is_directory(&directory, name, entry.file_type()) {
                    // What can't be read now can be made readable when it is there.
                    let Ok(below) = rustix::fs::openat(&directory, name, flags, Mode::empty()) else {
                        return self.shared.guard.distrust(&inside);
                    };
                    pending.push((below, inside));
                }
            }
        }
        Ok(())
    }
}
