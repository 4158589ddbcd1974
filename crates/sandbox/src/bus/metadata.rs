// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Instance metadata of a launch that has portals: `$XDG_RUNTIME_DIR/.flatpak/NUMBER`, in Flatpak's form.
//!
//! xdg-desktop-portal reads the number from the filter's `/.flatpak-info`, and reads a process of the sandbox here.
//! Since 1.20 no portal works without this; before, some needed it (`Realtime`, `GameMode`). As with Flatpak, a lock on
//! `.ref` says that the launch is alive. If a launch is killed, the next launch or Flatpak removes its directory.

use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The name of the runtime that the metadata states. It is unique to Palisade.
pub(crate) const RUNTIME: &str = "palisade.Host";

const FILES: [&str; 4] = ["info", "pid", "bwrapinfo.json", ".ref"];

/// A launch's directory; removed at its end.
#[derive(Debug)]
pub(crate) struct InstanceMetadata {
    directory: PathBuf,
    _lock: OwnedFd,
}

impl InstanceMetadata {
    /// Makes the directory, for the application `id` whose command is process `command`. Returns `None` if it can't be
    /// made. Portals may then not know the application, and report that to it.
    pub(crate) fn make(number: &str, id: &str, command: i32) -> Option<Self> {
        let runtime =
            std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute())?;
        let stat = rustix::fs::lstat(&runtime).ok()?;
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & 0o022 != 0 {
            return None;
        }
        let all = runtime.join(".flatpak");
        let _there = rustix::fs::mkdir(&all, Mode::from_raw_mode(0o755));
        remove_stale(&all);
        let directory = all.join(number);
        rustix::fs::mkdir(&directory, Mode::from_raw_mode(0o755)).ok()?;
        let instance = Self { _lock: lock(&directory, true)?, directory };
        let namespace = fs::metadata(format!("/proc/{command}/ns/pid"))
            .map(|found| format!(", \"pid-namespace\": {}", std::os::unix::fs::MetadataExt::ino(&found)))
            .unwrap_or_default();
        let machine = std::env::consts::ARCH;
        let contents = [
            format!(
                "[Application]\nname={id}\nruntime=runtime/{RUNTIME}/{machine}/stable\n\n\
                 [Instance]\ninstance-id={number}\n"
            ),
            std::process::id().to_string(),
            format!("{{ \"child-pid\": {command}{namespace} }}\n"),
        ];
        for (file, content) in FILES.iter().zip(contents) {
            fs::write(instance.directory.join(file), content).ok()?;
        }
        Some(instance)
    }
}

impl Drop for InstanceMetadata {
    fn drop(&mut self) {
        remove(&self.directory);
    }
}

/// Takes the lock that says that the launch is alive.
fn lock(directory: &Path, make: bool) -> Option<OwnedFd> {
    let make = if make { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | make;
    let file = rustix::fs::open(directory.join(".ref"), flags, Mode::from_raw_mode(0o644)).ok()?;
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

fn remove(directory: &Path) {
    for file in FILES {
        let _not_there = fs::remove_file(directory.join(file));
    }
    let _others_files = fs::remove_dir(directory);
}

/// Removes directories of launches that were killed.
fn remove_stale(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let directory = entry.path();
        let ours = fs::read_to_string(directory.join("info"))
            .is_ok_and(|info| info.contains(&format!("runtime=runtime/{RUNTIME}/")));
        if ours && lock(&directory, false).is_some() {
            remove(&directory);
        }
    }
}
