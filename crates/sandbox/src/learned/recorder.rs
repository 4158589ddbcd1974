// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records a launch's system calls that weren't learned before.

use crate::apply::start::{LaunchEvent, Program};
use crate::plan::Plan;
use crate::plan::inside::{self, Seen};
use palisade_policy::word::SyscallMode;
use palisade_syscall::store::{Binary, key};
use palisade_syscall::{Arch, Numbers, Syscall};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The most programs that are recorded. No profile has that many.
pub const PROGRAMS: usize = 4096;

/// Records a launch's calls.
#[derive(Debug)]
pub struct Recorder<'p> {
    plan: &'p Plan<'p>,
    /// The calls that were made for the first time, by program.
    seen: BTreeMap<Program, BTreeSet<Syscall>>,
    /// There were more programs than are recorded.
    overflowed: bool,
}

/// What a launch has learned, to be stored.
#[derive(Debug)]
pub struct Taught {
    /// The key to store it under.
    pub profile: String,
    /// How many programs made calls.
    pub programs: usize,
    /// There were more programs than are recorded.
    pub overflowed: bool,
    /// The programs' calls.
    pub calls: BTreeMap<Binary, BTreeSet<Syscall>>,
}

/// The program for which calls would be stored was changed or removed: the calls may have been another program's.
#[derive(Debug)]
pub struct Changed {
    /// The key to store them under.
    pub profile: String,
}

impl<'p> Recorder<'p> {
    /// No calls yet, under a plan.
    #[must_use]
    pub const fn new(plan: &'p Plan<'p>) -> Self {
        Self { plan, seen: BTreeMap::new(), overflowed: false }
    }

    /// Records that a program made a call for the first time.
    pub fn note(&mut self, program: &Program, call: Syscall) {
        if self.seen.len() < PROGRAMS || self.seen.contains_key(program) {
            self.seen.entry(program.clone()).or_default().insert(call);
        } else {
            self.overflowed = true;
        }
    }

    /// Records what the kernel has recorded for the file at `path` with this `inode`: those of its `calls` that the filter
    /// would have passed on to be learned. `device` is the kernel's number: `major << 20 | minor`. `tell` gets each call.
    pub fn called(
        &mut self,
        (path, device, inode): (&[u8], u32, u64),
        calls: &[u32],
        tell: &mut dyn FnMut(&LaunchEvent<'_>),
    ) {
        let Some(wanted) = self.plan.broker.as_ref().and_then(|broker| broker.calls.as_ref()) else { return };
        let wanted = Numbers::from_bits(&wanted.numbers);
        // The kernel's device number isn't always the one that `stat` returns, for example on an overlay file system.
        let (major, minor) = (device >> 20, device & 0xf_ffff);
        let mut program = Program { path: path.to_owned(), device: rustix::fs::makedev(major, minor), inode };
        let found = self.on_the_host(&program).and_then(|path| std::fs::metadata(path).ok());
        if let Some(found) = found
            && found.ino() == inode
        {
            program.device = found.dev();
        }
        let calls = calls.iter().filter(|number| wanted.contains(**number));
        for call in calls.filter_map(|number| Syscall::from_number(Arch::NATIVE, *number)) {
            tell(&LaunchEvent::Called { program: &program, call });
            self.note(&program, call);
        }
    }

    /// What a launch in mode `learn` has learned. Afterwards no more calls should be recorded.
    ///
    /// # Errors
    /// When the program for which it would be stored was changed while it ran.
    pub fn taught(&mut self) -> Result<Option<Taught>, Changed> {
        let Some(profile) = self.profile() else { return Ok(None) };
        if self.mode() != Some(SyscallMode::Learn) {
            return Ok(None);
        }
        if key::has_changed(&profile) {
            return Err(Changed { profile });
        }
        let programs = self.seen.len();
        let mut calls: BTreeMap<Binary, BTreeSet<Syscall>> = BTreeMap::new();
        for (program, called) in std::mem::take(&mut self.seen) {
            let host = self.on_the_host(&program);
            calls.entry(identify(&program, host.as_deref())).or_default().extend(called);
        }
        Ok(Some(Taught { profile, programs, overflowed: self.overflowed, calls }))
    }

    fn mode(&self) -> Option<SyscallMode> {
        Some(self.plan.broker.as_ref()?.calls.as_ref()?.mode)
    }

    /// The key under which calls are stored.
    #[must_use]
    pub fn profile(&self) -> Option<String> {
        Some(self.plan.broker.as_ref()?.calls.as_ref()?.profile.to_string())
    }

    /// The host's path of a program, if it has one.
    #[must_use]
    pub fn on_the_host(&self, program: &Program) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(&program.path));
        match path.is_absolute().then(|| inside::look(self.plan, path).seen)? {
            Seen::Host { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// A program's stored identity: its path and its content. The content of a file that is gone, or was made inside, is unknown.
#[must_use]
pub fn identify(program: &Program, host: Option<&Path>) -> Binary {
    let unknown = || {
        let path: &[u8] = if program.path.is_empty() { b"(unknown)" } else { &program.path };
        Binary { path: OsStr::from_bytes(path).into(), hash: [0; 32] }
    };
    let Some(host) = host else { return unknown() };
    let hash = || -> std::io::Result<Option<[u8; 32]>> {
        let file = File::open(host)?;
        let found = file.metadata()?;
        // The file was replaced meanwhile.
        if (found.dev(), found.ino()) != (program.device, program.inode) {
            return Ok(None);
        }
        Binary::hash(file).map(Some)
    };
    match hash() {
        Ok(Some(hash)) => Binary { path: host.to_owned(), hash },
        Ok(None) | Err(_) => Binary { path: host.to_owned(), hash: [0; 32] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_has_no_known_content() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = file.as_file().metadata().unwrap();
        let mut program = Program { path: b"/inside".to_vec(), device: found.dev(), inode: found.ino() };
        assert_eq!(identify(&program, Some(file.path())).hash, Binary::hash(&b""[..]).unwrap());
        program.inode += 1;
        assert_eq!(identify(&program, Some(file.path())).hash, [0; 32]);
        assert_eq!(identify(&program, None).path, Path::new("/inside"));
    }
}
