// SPDX-License-Identifier: Apache-2.0 OR MIT
//! System calls of a launch that weren't learned: kept when they are learned, asked for when they are asked for.

use crate::asking::Asking;
use crate::prompt;
use crate::question::{Wish, Word};
use crate::{output, situation};
use palisade_policy::word::SyscallMode;
use palisade_sandbox::apply::start::{Happening, Program};
use palisade_sandbox::error::quoted;
use palisade_sandbox::filter::calls::Unanswered;
use palisade_sandbox::plan::Plan;
use palisade_sandbox::plan::inside::{self, Seen};
use palisade_syscall::broker::report::Answer;
use palisade_syscall::store::{Binary, Store, StoreError, key};
use palisade_syscall::{Arch, Numbers, Syscall};
use palisade_text::harmless;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More programs than this aren't kept account of: no profile has so many.
const PROGRAMS: usize = 4096;

/// Keeps account of a launch's calls.
#[derive(Debug)]
pub(crate) struct Calls<'p> {
    plan: &'p Plan<'p>,
    /// What was called for the first time, by the program that did.
    seen: BTreeMap<Program, BTreeSet<Syscall>>,
    /// There were more programs.
    overflowed: bool,
}

/// Why calls aren't kept.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The user's state has no place.
    #[error("can't find where they are kept: {0}")]
    Place(crate::answer::Failure),
}

impl<'p> Calls<'p> {
    pub(crate) const fn new(plan: &'p Plan<'p>) -> Self {
        Self { plan, seen: BTreeMap::new(), overflowed: false }
    }

    /// A program made a call for the first time.
    pub(crate) fn note(&mut self, program: &Program, call: Syscall) {
        if self.seen.len() < PROGRAMS || self.seen.contains_key(program) {
            self.seen.entry(program.clone()).or_default().insert(call);
        } else {
            self.overflowed = true;
        }
    }

    /// What the kernel has put down: of that, what would have been passed on to be learned. `tell` hears of each call.
    pub(crate) fn called(
        &mut self,
        called: &[palisade_protocol::learn::Program],
        tell: &mut dyn FnMut(&Happening<'_>),
    ) {
        let Some(wanted) = self.plan.broker.as_ref().and_then(|broker| broker.calls.as_ref()) else { return };
        let wanted = Numbers::from_bits(&wanted.numbers);
        for one in called {
            // The kernel's number of a device, which isn't always what `stat` says: of a file system in layers, say.
            let (major, minor) = (one.device >> 20, one.device & 0xf_ffff);
            let device = rustix::fs::makedev(major, minor);
            let mut program = Program { path: one.path.clone(), device, inode: one.inode };
            let found = self.on_the_host(&program).and_then(|path| std::fs::metadata(path).ok());
            if let Some(found) = found
                && found.ino() == one.inode
            {
                program.device = found.dev();
            }
            let calls = one.calls.iter().filter(|number| wanted.contains(**number));
            for call in calls.filter_map(|number| Syscall::from_number(Arch::NATIVE, *number)) {
                tell(&Happening::Called { program: &program, call });
                self.note(&program, call);
            }
        }
    }

    /// Keeps what was learned. Says how much of it is new.
    pub(crate) fn keep(&mut self, quiet: bool) {
        let Some(profile) = self.profile() else { return };
        if self.mode() != Some(SyscallMode::Learn) {
            return;
        }
        if key::has_changed(&profile) {
            // What it called may have been another program's.
            output::error(
                &format_args!(
                    "what was learned of system calls isn't kept: the program {} was changed or removed while it ran",
                    key::shown(&profile)
                ),
                Some(
                    "palisade run --profile NAME --syscalls learn -- COMMAND…   # keeps calls by the profile",
                ),
            );
            return;
        }
        if self.overflowed {
            output::note(&format_args!(
                "system calls of more than {PROGRAMS} programs aren't learned: learn another run of fewer"
            ));
        }
        let programs = self.seen.len();
        let mut learned: BTreeMap<Binary, BTreeSet<Syscall>> = BTreeMap::new();
        for (program, calls) in std::mem::take(&mut self.seen) {
            let host = self.on_the_host(&program);
            learned.entry(identify(&program, host.as_deref())).or_default().extend(calls);
        }
        match keep(&profile, &learned) {
            Ok(new) if !quiet => output::note(&format_args!(
                "{new} new system calls were learned for {:?}, of {programs} programs: palisade syscalls show {}",
                key::shown(&profile),
                quoted(&profile)
            )),
            Ok(_new) => {}
            Err(error) => output::error(
                &format_args!("what was learned of system calls isn't kept: {error}"),
                Some("palisade syscalls list   # says whether what was kept before can be read"),
            ),
        }
    }

    /// Asks the user whether a call may be made.
    pub(crate) fn ask(&self, question: &Unanswered<'_>, asking: &mut Asking, answers: BorrowedFd<'_>) {
        let (number, call) = (question.number, question.call);
        let no = Answer { number, allow: false, keep: false };
        let Ok(answers) = answers.try_clone_to_owned() else { return };
        let (program, profile) = (question.program.clone(), self.profile());
        let host = self.on_the_host(&program);
        let Ok(unheard) = answers.try_clone() else { return };
        let asked = asking.queue(Box::new(move |running| {
            // Where nothing is learned an answer holds for the session at most.
            let keep = profile.as_deref().map(|profile| || always(profile, &program, host.as_deref(), call));
            let keep = keep.as_ref().map(|keep| keep as prompt::Keep<'_>);
            let word = prompt::ask(&wish(&program, call, profile.as_deref()), keep, running);
            // Nobody is there: nobody will be.
            let word = word.ok().flatten().unwrap_or(Word::Never);
            Answer { number, allow: word.allows(), keep: word.stays() }.send(answers.as_fd());
        }));
        if !asked {
            no.send(unheard.as_fd());
        }
    }

    fn mode(&self) -> Option<SyscallMode> {
        Some(self.plan.broker.as_ref()?.calls.as_ref()?.mode)
    }

    fn profile(&self) -> Option<String> {
        Some(self.plan.broker.as_ref()?.calls.as_ref()?.profile.to_string())
    }

    /// The host's path of a program, if it has one.
    fn on_the_host(&self, program: &Program) -> Option<PathBuf> {
        let path = Path::new(OsStr::from_bytes(&program.path));
        match path.is_absolute().then(|| inside::look(self.plan, path).seen)? {
            Seen::Host { path, .. } => Some(path),
            _ => None,
        }
    }
}

/// What a program is kept as: its path and its content. That of a file that is gone, or was made inside, is unknown.
fn identify(program: &Program, host: Option<&Path>) -> Binary {
    let unknown = || {
        let path: &[u8] = if program.path.is_empty() { b"(unknown)" } else { &program.path };
        Binary { path: OsStr::from_bytes(path).into(), hash: [0; 32] }
    };
    let Some(host) = host else { return unknown() };
    let hash = || -> std::io::Result<Option<[u8; 32]>> {
        let file = File::open(host)?;
        let found = file.metadata()?;
        // It was replaced meanwhile.
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

fn keep(profile: &str, learned: &BTreeMap<Binary, BTreeSet<Syscall>>) -> Result<usize, KeepError> {
    let facts = situation::facts().map_err(KeepError::Place)?;
    Ok(Store::open(&facts.places.syscalls())?.learn(profile, learned)?)
}

/// Learns one call, and says so.
fn always(profile: &str, program: &Program, host: Option<&Path>, call: Syscall) -> String {
    let binary = identify(program, host);
    match keep(profile, &BTreeMap::from([(binary, BTreeSet::from([call]))])) {
        Ok(_new) => format!(
            "palisade: {} is learned for {}\r\nhint: to take that back: palisade syscalls clean {}\r\n",
            call.name(),
            harmless(&key::shown(profile)),
            harmless(&quoted(profile)),
        ),
        Err(error) => {
            format!("palisade: allowed for this session only: {}\r\n", harmless(&error.to_string()))
        }
    }
}

fn wish(program: &Program, call: Syscall, profile: Option<&str>) -> Wish {
    let path = String::from_utf8_lossy(&program.path);
    Wish {
        program: if path.is_empty() { "a program".to_owned() } else { path.into_owned() },
        action: format!("call {}", call.name()),
        why: match profile {
            Some(_) => "The system call wasn't learned of it.",
            None => "The policy has it asked about.",
        },
        scope: profile.map(|profile| format!("programs of {}", quoted(profile))),
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
