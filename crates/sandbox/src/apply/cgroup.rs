// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Control groups of a launch: made before, joined by the command, removed after.

use crate::error::StartError;
use crate::plan::{GroupLimit, Plan};
use palisade_host::cgroup::{Cgroups, Controller, Version};
use palisade_text::Show as _;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tasks of the broker: its process, two that receive calls, one that looks after waiting calls, and one that moves
/// files into place after they have been written.
const BROKER: u64 = 5;

/// Limits of the launcher's own group that must hold in a group beside it, too. On version 2 that group has the same
/// files.
const CARRIED_OVER: [&str; 5] = ["memory.max", "memory.high", "memory.swap.max", "pids.max", "cpu.max"];

/// The groups of one launch, one for each hierarchy.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    made: Vec<PathBuf>,
    members: Vec<File>,
    numbers: Vec<i32>,
    /// Which of them limits memory.
    memory: Option<usize>,
}

/// A group that is to be made.
struct Wanted {
    parent: PathBuf,
    /// Names of files, and what is written there.
    settings: Vec<(&'static str, String)>,
    limits_memory: bool,
}

/// Where the calling process can make a group that keeps a limit.
///
/// # Errors
/// Why it can't, in words.
pub(crate) fn place(limit: GroupLimit) -> Result<Controller, String> {
    let name = limit.controller();
    let cgroups = Cgroups::read(Path::new("/proc/self")).map_err(|error| error.to_string())?;
    let controller = cgroups.controllers.into_iter().find(|controller| controller.name == name);
    let Some(controller) = controller else {
        return Err(format!("the control group controller {name} isn't there"));
    };
    if !controller.usable {
        return Err(format!(
            "this user can't make a control group for {name} below or beside {} (`systemd-run \
             --user --scope palisade run …` starts palisade in a group of the user's own manager, where the user can)",
            controller.own.shown()
        ));
    }
    Ok(controller)
}

/// The most processes that there can be (`PID_MAX_LIMIT`). The kernel refuses a larger limit, which would limit nothing.
const ALL_PROCESSES: u64 = 4 << 20;

/// The groups that keep the limits. The broker joins the one that limits memory: where that limits processes too, it
/// has room for both.
fn wanted(limits: &[GroupLimit], brokered: bool) -> Result<Vec<Wanted>, String> {
    let mut all: Vec<Wanted> = Vec::new();
    for &limit in limits {
        let Controller { parent, own, version, .. } = place(limit)?;
        let setting = match (limit, version) {
            (GroupLimit::Memory(value), Version::V2) => ("memory.max", value),
            (GroupLimit::Memory(value), Version::V1) => ("memory.limit_in_bytes", value),
            (GroupLimit::Processes(value), _) => ("pids.max", value.min(ALL_PROCESSES)),
        };
        let index = all.iter().position(|wanted| wanted.parent == parent).unwrap_or_else(|| {
            let settings = if parent == own { Vec::new() } else { carried_over(&own) };
            all.push(Wanted { parent, settings, limits_memory: false });
            all.len() - 1
        });
        let Some(wanted) = all.get_mut(index) else { continue };
        wanted.limits_memory |= matches!(limit, GroupLimit::Memory(_));
        set(&mut wanted.settings, setting);
    }
    if brokered {
        all.iter_mut().filter(|wanted| wanted.limits_memory).for_each(make_room);
    }
    Ok(all)
}

/// The limits of the launcher's own group, which a group beside it must not be without.
fn carried_over(own: &Path) -> Vec<(&'static str, String)> {
    let limit = |name: &'static str| {
        let text = std::fs::read_to_string(own.join(name)).ok()?;
        let text = text.trim_end();
        (!text.starts_with("max")).then(|| (name, text.to_owned()))
    };
    CARRIED_OVER.into_iter().filter_map(limit).collect()
}

/// Adds a limit; the lower of two counts.
fn set(settings: &mut Vec<(&'static str, String)>, (name, value): (&'static str, u64)) {
    match settings.iter_mut().find(|(other, _)| *other == name) {
        Some((_, other)) => {
            let lower = other.parse::<u64>().map_or(value, |other| other.min(value));
            *other = lower.to_string();
        }
        None => settings.push((name, value.to_string())),
    }
}

fn make_room(wanted: &mut Wanted) {
    for (name, value) in &mut wanted.settings {
        if *name == "pids.max"
            && let Ok(most) = value.parse::<u64>()
        {
            *value = most.saturating_add(BROKER).min(ALL_PROCESSES).to_string();
        }
    }
}

impl Groups {
    /// Makes and sets up groups that keep the plan's limits. What was made is removed again on failure.
    pub(crate) fn make(plan: &Plan<'_>) -> Result<Self, StartError> {
        let mut groups = Self::default();
        let wanted = wanted(&plan.group_limits, plan.broker.is_some())
            .map_err(|reason| StartError::NoCgroup { reason })?;
        for wanted in &wanted {
            sweep(&wanted.parent);
            // The process id makes it unique among living launches; a group left by a killed
            // launcher of the same number is empty and serves again.
            let path = wanted.parent.join(format!("palisade-{}", std::process::id()));
            let made = groups.add(&path, &wanted.settings);
            if wanted.limits_memory {
                groups.memory = groups.members.len().checked_sub(1);
            }
            if let Err((path, source)) = made {
                groups.remove();
                return Err(StartError::Cgroup { path, source });
            }
        }
        Ok(groups)
    }

    fn add(&mut self, path: &Path, settings: &[(&str, String)]) -> Result<(), (PathBuf, std::io::Error)> {
        match std::fs::create_dir(path) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err((path.to_owned(), error));
            }
            _ => self.made.push(path.to_owned()),
        }
        for (name, value) in settings {
            let file = path.join(name);
            write(&file, value.as_bytes()).map_err(|error| (file, error))?;
        }
        let procs = path.join("cgroup.procs");
        let members = File::options().write(true).open(&procs).map_err(|error| (procs, error))?;
        self.numbers.push(members.as_raw_fd());
        self.members.push(members);
        Ok(())
    }

    /// The groups for the command to join.
    pub(crate) fn descriptors(&self) -> &[i32] {
        &self.numbers
    }

    /// The group for the broker to join: the command causes the memory that the broker uses.
    pub(crate) fn memory(&self) -> Result<Option<OwnedFd>, StartError> {
        let Some(members) = self.memory.and_then(|index| self.members.get(index)) else { return Ok(None) };
        let action = "keep the control group open for the broker";
        let failed = |source| StartError::Launch { action, source };
        rustix::io::fcntl_dupfd_cloexec(members, 3).map(Some).map_err(failed)
    }

    /// Removes the groups. The last members may still be ending: the kernel answers "busy" until they are gone.
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

/// Removes groups that killed launchers left. The kernel refuses to remove a group that has members.
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

/// Writes a setting in one call, because control files require this. Never creates a file.
fn write(path: &Path, value: &[u8]) -> std::io::Result<()> {
    File::options().write(true).open(path)?.write_all(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_of_two_limits_counts_and_the_broker_has_room() {
        let mut settings = vec![("memory.max", "1000".to_owned()), ("pids.max", "7".to_owned())];
        set(&mut settings, ("memory.max", 2000));
        set(&mut settings, ("pids.max", 5));
        set(&mut settings, ("memory.high", 3));
        let mut wanted = Wanted { parent: PathBuf::new(), settings, limits_memory: true };
        make_room(&mut wanted);
        let expected = [("memory.max", "1000"), ("pids.max", "10"), ("memory.high", "3")];
        assert_eq!(wanted.settings, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn what_limits_the_launcher_limits_the_group_beside_it() {
        let own = tempfile::tempdir().unwrap();
        for (name, text) in [("memory.max", "max\n"), ("pids.max", "50\n"), ("cpu.max", "5000 100000\n")] {
            std::fs::write(own.path().join(name), text).unwrap();
        }
        let expected = [("pids.max", "50"), ("cpu.max", "5000 100000")];
        assert_eq!(carried_over(own.path()), expected.map(|(name, value)| (name, value.to_owned())));
    }
}
