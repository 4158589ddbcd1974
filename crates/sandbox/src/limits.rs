// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits: by resource limits what those really limit, by control groups the rest.

use crate::error::PlanError;
use crate::plan::{Cgroup, Limit};
use crate::planner::Isolation;
use crate::text::Text;
use palisade_host::cgroup::{Cgroups, Controller, Version};
use palisade_policy::{Amount, Limit as Wanted, Policy};
use std::borrow::Cow;
use std::path::Path;

type Planned = (Vec<Limit>, Vec<Cgroup<'static>>);

/// `RLIMIT_*` as the kernel numbers them on x86-64 and aarch64.
const NPROC: u32 = 6;

/// Plans the policy's limits.
pub(crate) fn plan(
    policy: &Policy,
    isolation: Isolation,
    brokered: bool,
    best_effort: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Planned, PlanError> {
    let mut limits = Vec::new();
    let mut cgroups: Vec<Cgroup<'static>> = Vec::new();
    for (wanted, amount) in policy.limits() {
        let Amount::AtMost(value) = amount.value else { continue };
        let resource = match wanted {
            Wanted::CpuTime => 0,
            Wanted::FileSize => 1,
            Wanted::Stack => 3,
            Wanted::CoreSize => 4,
            Wanted::OpenFiles => 7,
            Wanted::LockedMemory => 8,
            Wanted::AddressSpace => 9,
            Wanted::Memory | Wanted::Processes => {
                match group(wanted, value) {
                    Ok((parent, settings)) => add(&mut cgroups, parent, settings),
                    // Counted per user namespace (since Linux 5.14), but not for the host's root.
                    Err(_)
                        if wanted == Wanted::Processes
                            && isolation == Isolation::Full
                            && !rustix::process::geteuid().is_root() =>
                    {
                        limits.push(Limit { resource: NPROC, value });
                    }
                    Err(reason) if best_effort => {
                        notes.push(Cow::Owned(format!("no limit of {wanted}: {reason}")));
                    }
                    Err(reason) => return Err(PlanError::Limit { limit: wanted, reason }),
                }
                continue;
            }
        };
        limits.push(Limit { resource, value });
    }
    if brokered {
        cgroups.iter_mut().filter(|cgroup| cgroup.limits_memory()).for_each(make_room);
    }
    Ok((limits, cgroups))
}

/// Tasks of the broker's: its process, two that receive calls, one that looks after those that wait.
const BROKER: u64 = 4;

/// The broker joins the group that limits memory. Where that is the one that limits processes, too, it has room for both.
fn make_room(cgroup: &mut Cgroup<'static>) {
    for (name, value) in &mut cgroup.settings {
        if name.as_bytes() == b"pids.max"
            && let Some(most) =
                std::str::from_utf8(value.as_bytes()).ok().and_then(|most| most.parse::<u64>().ok())
            && let Ok(more) = Text::new(most.saturating_add(BROKER).to_string())
        {
            *value = more;
        }
    }
}

type Setting = (Text<'static>, Text<'static>);

/// Where a control group for this limit can be made, and what to write there.
fn group(wanted: Wanted, value: u64) -> Result<(Text<'static>, Vec<Setting>), String> {
    let name = if wanted == Wanted::Memory { "memory" } else { "pids" };
    let cgroups = Cgroups::read(Path::new("/proc/self")).map_err(|error| error.to_string())?;
    let Some(controller) = cgroups.controller(name) else {
        return Err(format!("the control group controller {name} isn't there"));
    };
    if !usable(controller) {
        return Err(format!(
            "control groups below {} can't be made by this user (systemd-run --user --scope gives a delegated one)",
            controller.directory.display()
        ));
    }
    let keys: &[&str] = match (wanted, controller.version) {
        (Wanted::Memory, Version::V2) => &["memory.max"],
        (Wanted::Memory, Version::V1) => &["memory.limit_in_bytes"],
        _ => &["pids.max"],
    };
    let parent = Text::path(&controller.directory).map_err(|error| error.to_string())?;
    let mut settings = Vec::new();
    for key in keys {
        let setting = Text::new(*key).and_then(|key| Ok((key, Text::new(value.to_string())?)));
        settings.push(setting.map_err(|error| error.to_string())?);
    }
    Ok((parent, settings))
}

/// Whether groups with this controller can be made.
pub(crate) fn usable(controller: &Controller) -> bool {
    controller.writable && (controller.version == Version::V1 || controller.enabled_for_children)
}

/// One group serves all controllers of its hierarchy.
fn add(cgroups: &mut Vec<Cgroup<'static>>, parent: Text<'static>, settings: Vec<Setting>) {
    match cgroups.iter_mut().find(|cgroup| cgroup.parent == parent) {
        Some(cgroup) => cgroup.settings.extend(settings),
        None => cgroups.push(Cgroup { parent, settings }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroup(settings: &[(&'static str, &'static str)]) -> Cgroup<'static> {
        let text = |text: &'static str| Text::new(text).unwrap();
        let settings = settings.iter().map(|(name, value)| (text(name), text(value))).collect();
        Cgroup { parent: text("/sys/fs/cgroup/x"), settings }
    }

    #[test]
    fn a_group_that_the_broker_joins_has_room_for_it() {
        let mut both = cgroup(&[("memory.max", "1000"), ("pids.max", "5")]);
        make_room(&mut both);
        assert_eq!(both, cgroup(&[("memory.max", "1000"), ("pids.max", "9")]));
        assert!(both.limits_memory() && !cgroup(&[("pids.max", "5")]).limits_memory());
    }
}
