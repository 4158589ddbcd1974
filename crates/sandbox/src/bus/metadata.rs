// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What xdg-desktop-portal looks up of a launch that has portals: `$XDG_RUNTIME_DIR/.flatpak/NUMBER`, in Flatpak's form.
//!
//! It finds the number in the filter's `/.flatpak-info`, and here a process of the sandbox: since 1.20 there is no
//! portal without that, before some (`Realtime`, `GameMode`) need it. As with Flatpak a lock on `.ref` tells that the
//! launch lives: what one leaves that was killed is removed by the next, or by Flatpak.

use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The runtime that it is said to have: nobody else's is called so.
pub(crate) const RUNTIME: &str = "palisade.Host";

const FILES: [&str; 4] = ["info", "pid", "bwrapinfo.json", ".ref"];

/// A launch's directory; removed at its end.
#[derive(Debug)]
pub(crate) struct InstanceMetadata {
    directory: PathBuf,
    _lock: OwnedFd,
}

impl InstanceMetadata {
    /// Makes it, for the application `id` whose command is process `command`. Nothing where it can't be made: then
    /// portals may not know the application, which they tell it.
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
                 [InstanceMetadata]\ninstance-id={number}\n"
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

/// Takes the lock by which others tell that somebody lives here.
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

/// Removes what launches left that couldn't.
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
