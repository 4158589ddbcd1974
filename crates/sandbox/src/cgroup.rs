// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups of a launch: made before, joined by the command, removed after.

use crate::error::StartError;
use crate::plan::Plan;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The groups of one launch, one for each hierarchy.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    made: Vec<PathBuf>,
    members: Vec<File>,
    numbers: Vec<i32>,
    /// Which of them limits memory.
    memory: Option<usize>,
}

impl Groups {
    /// Makes and sets up what the plan names. What was made is removed again on failure.
    pub(crate) fn make(plan: &Plan<'_>) -> Result<Self, StartError> {
        let mut groups = Self::default();
        for cgroup in &plan.cgroups {
            sweep(cgroup.parent.as_path());
            // The process id makes it unique among living launches; a group left by a killed
            // launcher of the same number is empty and serves again.
            let path = cgroup.parent.as_path().join(format!("palisade-{}", std::process::id()));
            let made = groups
                .add(&path, cgroup.settings.iter().map(|(name, value)| (name.as_path(), value.as_bytes())));
            if cgroup.limits_memory() {
                groups.memory = groups.members.len().checked_sub(1);
            }
            if let Err((path, source)) = made {
                groups.remove();
                return Err(StartError::Cgroup { path, source });
            }
        }
        Ok(groups)
    }

    fn add<'s>(
        &mut self,
        path: &Path,
        settings: impl Iterator<Item = (&'s Path, &'s [u8])>,
    ) -> Result<(), (PathBuf, std::io::Error)> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err((path.to_owned(), error));
            }
            _ => self.made.push(path.to_owned()),
        }
        for (name, value) in settings {
            let file = path.join(name);
            write(&file, value).map_err(|error| (file, error))?;
        }
        let procs = path.join("cgroup.procs");
        let members = File::options().write(true).open(&procs).map_err(|error| (procs, error))?;
        self.numbers.push(members.as_raw_fd());
        self.members.push(members);
        Ok(())
    }

    /// For the command to join.
    pub(crate) fn descriptors(&self) -> &[i32] {
        &self.numbers
    }

    /// For the broker to join: what it remembers is the command's doing.
    pub(crate) fn memory(&self) -> Result<Option<OwnedFd>, StartError> {
        let Some(members) = self.memory.and_then(|index| self.members.get(index)) else { return Ok(None) };
        let action = "keep the control group open for the broker";
        let failed = |source| StartError::Launch { action, source };
        rustix::io::fcntl_dupfd_cloexec(members, 3).map(Some).map_err(failed)
    }

    /// Removes the groups. The last members may be dying still: the kernel answers "busy" until
    /// they are gone.
    pub(crate) fn remove(self) {
        drop(self.members);
        for path in self.made.iter().rev() {
            for _attempt in 0..200 {
                match std::fs::remove_dir(path) {
                    Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Removes groups that killed launchers have left; one with members stays, the kernel sees to that.
fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|name| name.strip_prefix("palisade-")?.parse::<u32>().ok());
        if launcher.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _has_members = std::fs::remove_dir(entry.path());
        }
    }
}

/// Writes a setting in one call, as control files want it; never creates a file.
fn write(path: &Path, value: &[u8]) -> std::io::Result<()> {
    File::options().write(true).open(path)?.write_all(value)
}
