// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups that are scopes: `palisade/scope-N` in the cgroup v2 hierarchy.
//!
//! Every child process starts in its parent's group, and no process inside can leave without rights on the groups above.

use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many levels such a group is below the hierarchy's root.
pub(super) const LEVEL: u32 = 2;

/// A scope's group.
#[derive(Debug, Clone)]
pub(super) struct Group {
    directory: PathBuf,
    /// The group's number, as the eBPF programs see it.
    pub(super) number: u64,
}

/// The file system type of cgroup v2 (`CGROUP2_SUPER_MAGIC`).
const CGROUP2: rustix::fs::FsWord = 0x6367_7270;

/// The mount point of the cgroup v2 hierarchy. If something else is mounted over it, what is made there is no group.
fn hierarchy() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let found = lines.find_map(|mut fields| {
        let place = fields.nth(1)?;
        let is_there = || rustix::fs::statfs(place).is_ok_and(|found| found.f_type == CGROUP2);
        (fields.next() == Some("cgroup2") && is_there()).then(|| PathBuf::from(place))
    });
    found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no cgroup v2 hierarchy is mounted"))
}

impl Group {
    /// Makes the group of a scope.
    pub(super) fn make(scope: u32) -> io::Result<Self> {
        let directory = hierarchy()?.join("palisade").join(format!("scope-{scope}"));
        fs::create_dir_all(&directory)?;
        let number = fs::metadata(&directory)?.st_ino();
        Ok(Self { directory, number })
    }

    /// Finds the existing group of a scope.
    pub(super) fn find(scope: u32) -> Option<Self> {
        let directory = hierarchy().ok()?.join("palisade").join(format!("scope-{scope}"));
        let number = fs::metadata(&directory).ok()?.st_ino();
        Some(Self { directory, number })
    }

    /// Moves a process into the group.
    pub(super) fn add(&self, pid: u32) -> io::Result<()> {
        fs::write(self.directory.join("cgroup.procs"), pid.to_string())
    }

    /// The number of processes in the group and below.
    pub(super) fn population(&self) -> u64 {
        fn count(directory: &Path) -> u64 {
            let own = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            let below = fs::read_dir(directory).into_iter().flatten().flatten();
            let below = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            own.lines().count() as u64 + below.map(|entry| count(&entry.path())).sum::<u64>()
        }
        count(&self.directory)
    }

    /// Removes the group and the groups below it, if no process is in them. Also removes the common parent if this was the
    /// last group.
    pub(super) fn remove(&self) {
        fn empty(directory: &Path) {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    empty(&entry.path());
                }
            }
            let _not_empty = fs::remove_dir(directory);
        }
        empty(&self.directory);
        if let Some(parent) = self.directory.parent() {
            let _others = fs::remove_dir(parent);
        }
    }
}
