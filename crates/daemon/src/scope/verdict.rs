// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether an exec is denied by what the kernel side can't see: contents, and files that arguments name. Kills the
//! process of a denied exec by its descriptor.

use super::process;
use super::service::Service;
use palisade_bpf::scope::event::{Event, Kind};
use palisade_scopes::denied::{Denied, Hash};
use palisade_scopes::judge::{Candidate, Reason, judge, judges, runs_arguments};
use rustix::process::{Signal, pidfd_send_signal};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::linux::fs::MetadataExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How many contents are remembered.
const REMEMBERED: usize = 4096;
/// Larger files aren't hashed: no denied content is that large.
const LARGEST: u64 = 1 << 30;
/// How many arguments are examined.
const ARGUMENTS: usize = 32;

/// Identifies a file's state when it was hashed: device, inode, size, times of content and attributes.
type State = (u64, u64, u64, (i64, i64), (i64, i64));

/// The remembered hashes of contents.
#[derive(Debug, Default)]
pub(super) struct Contents(BTreeMap<State, Hash>);

/// Kills the process of an event if what it executed is denied. Returns the reason.
pub(super) fn enforce(service: &Service, contents: &mut Contents, event: &Event) -> Option<Reason> {
    if event.kind != Kind::Exec {
        return None;
    }
    let (denied, listed, programs) = {
        let state = service.state();
        let own = state.scopes.get(&event.scope).and_then(|known| known.profile);
        let profile = own.map_or(state.settings.profile, |own| own.max(state.settings.profile));
        if !judges(profile, &state.settings.denied) {
            return None;
        }
        (state.settings.denied.clone(), state.listed.clone(), state.programs.clone())
    };
    let pidfd = process::open(event.process)?;
    let proc = PathBuf::from(format!("/proc/{}", event.process));
    let exe = proc.join("exe");
    let found = std::fs::metadata(&exe).ok()?;
    // If the process runs another program by now, there is another event for that.
    if found.st_ino() != event.inode {
        return None;
    }
    let given = Path::new(OsStr::from_bytes(&event.path));
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    let real = std::fs::read_link(&exe).ok();
    let mut look = |path: &Path, name: Option<String>, memory: bool| {
        let candidate = contents.candidate(&denied, &listed, path, memory)?;
        Some(Candidate { name, ..candidate })
    };
    let mut executed = Vec::new();
    executed.extend(look(&exe, real.as_deref().and_then(name), event.memory));
    // For a script, also examine the script file.
    let script = within(&proc, given);
    executed.extend(look(&script, name(given), false));
    let mut arguments = Vec::new();
    let runs = real.as_deref().and_then(name).is_some_and(|name| runs_arguments(&name));
    let named = event.arguments.iter().flatten().skip(1).filter(|_| runs);
    for argument in named.filter(|argument| !argument.is_empty()).take(ARGUMENTS) {
        let argument = Path::new(OsStr::from_bytes(argument));
        arguments.extend(look(&within(&proc, argument), name(argument), false));
    }
    let reason = judge(&denied, &executed, &arguments)?;
    if pidfd_send_signal(&pidfd, Signal::KILL).is_err() {
        return None;
    }
    // From now on the kernel denies this file by itself.
    if let (Reason::Content, Some(programs)) = (reason, programs) {
        let _full = programs.deny_file(event.device, event.inode);
    }
    Some(reason)
}

/// The path on the host of a path that the process sees.
fn within(proc: &Path, path: &Path) -> PathBuf {
    match path.strip_prefix("/") {
        Ok(path) => proc.join("root").join(path),
        Err(_) => proc.join("cwd").join(path),
    }
}

impl Contents {
    /// Examines a file; `None` if there is no such file.
    fn candidate(
        &mut self,
        denied: &Denied,
        listed: &BTreeSet<(u64, u64)>,
        path: &Path,
        memory: bool,
    ) -> Option<Candidate> {
        let found = std::fs::metadata(path).ok()?;
        if !found.is_file() {
            return None;
        }
        let listed = listed.contains(&(found.st_dev(), found.st_ino()));
        let content = if denied.contents.is_empty() { None } else { self.hash(path) };
        Some(Candidate { name: None, listed, content, memory })
    }

    fn hash(&mut self, path: &Path) -> Option<Hash> {
        // Opening a pipe or device must not block the daemon.
        let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
        let state = state(&file)?;
        if let Some(hash) = self.0.get(&state) {
            return Some(*hash);
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = file.read(&mut buffer).ok()?;
            if length == 0 {
                break;
            }
            hasher.update(&buffer[..length]);
        }
        let hash = Hash(hasher.finalize().into());
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        self.0.insert(state, hash);
        Some(hash)
    }
}

fn state(file: &File) -> Option<State> {
    let found = file.metadata().ok()?;
    (found.is_file() && found.len() <= LARGEST).then(|| {
        (
            found.st_dev(),
            found.st_ino(),
            found.len(),
            (found.st_mtime(), found.st_mtime_nsec()),
            (found.st_ctime(), found.st_ctime_nsec()),
        )
    })
}
