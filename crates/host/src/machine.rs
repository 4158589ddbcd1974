// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes the machine: a measured figure has no meaning without it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::file::{self, Links, read_attribute};

/// `/proc/cpuinfo` has about 1.5 KiB per CPU.
const CPUINFO_CAP: usize = 16 * 1024 * 1024;

/// The machine. `None`: unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: Option<String>,
    /// Processors online, as the kernel lists them (`0-3,6`).
    pub cpus_online: Option<String>,
    /// The number of processors online.
    pub cpu_count: u32,
    /// Memory in KiB.
    pub memory_kib: Option<u64>,
    /// The frequency governor of the first processor.
    pub governor: Option<String>,
    /// Whether the processor may exceed its nominal frequency.
    pub boost: Option<bool>,
    /// Whether two threads share a core.
    pub smt: Option<bool>,
    /// The clock source; `tsc` is the fast one.
    pub clocksource: Option<String>,
    /// Mitigations per vulnerability, in the kernel's words.
    pub mitigations: BTreeMap<String, String>,
    /// Virtual machine and container.
    pub virtualisation: Virtualisation,
}

/// Hints at the virtual machine or container in which the process runs. No interface says reliably whether this is a
/// container: these are conventions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// The processor reports a hypervisor.
    pub hypervisor: bool,
    /// Vendor and product by the firmware, or the hypervisor's own name.
    pub platform: Option<String>,
    /// The container engine that left its mark in the root.
    pub container: Option<String>,
}

impl Machine {
    /// Reads the facts below `root`, which is `/` except in tests.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let attribute = |path: &str| read_attribute(&root.join(path)).filter(|t| !t.is_empty());
        let cpuinfo = file::read(&root.join("proc/cpuinfo"), CPUINFO_CAP, Links::Follow)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default();
        let cpus_online = attribute("sys/devices/system/cpu/online");
        // amd and acpi-cpufreq say "boost", Intel says the opposite.
        let boost = attribute("sys/devices/system/cpu/cpufreq/boost")
            .map(|text| text == "1")
            .or_else(|| attribute("sys/devices/system/cpu/intel_pstate/no_turbo").map(|text| text == "0"));
        Self {
            cpu_model: ["model name", "Model", "Hardware", "cpu model"]
                .iter()
                .find_map(|key| field(&cpuinfo, key)),
            cpu_count: cpus_online.as_deref().map_or(0, count),
            cpus_online,
            memory_kib: attribute("proc/meminfo")
                .and_then(|text| field(&text, "MemTotal")?.split_ascii_whitespace().next()?.parse().ok()),
            governor: attribute("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            boost,
            smt: attribute("sys/devices/system/cpu/smt/active").map(|text| text == "1"),
            clocksource: attribute("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: mitigations(&root.join("sys/devices/system/cpu/vulnerabilities")),
            virtualisation: Virtualisation::read(root, &cpuinfo),
        }
    }
}

impl Virtualisation {
    fn read(root: &Path, cpuinfo: &str) -> Self {
        let attribute = |path: &str| read_attribute(&root.join(path)).filter(|t| !t.is_empty());
        let firmware = || {
            let parts: Vec<String> = ["sys_vendor", "product_name"]
                .iter()
                .filter_map(|name| attribute(&format!("sys/class/dmi/id/{name}")))
                .collect();
            (!parts.is_empty()).then(|| parts.join(" "))
        };
        Self {
            hypervisor: field(cpuinfo, "flags")
                .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            platform: attribute("sys/hypervisor/type").or_else(firmware),
            container: container(root),
        }
    }
}

/// The engine of the container that `root` belongs to, by the mark that it leaves there.
pub(crate) fn container(root: &Path) -> Option<String> {
    [(".dockerenv", "docker"), ("run/.containerenv", "podman"), ("dev/.lxc", "lxc")]
        .iter()
        .find(|(mark, _)| root.join(mark).exists())
        .map(|(_, name)| (*name).to_owned())
        .or_else(|| read_attribute(&root.join("run/systemd/container")).filter(|name| !name.is_empty()))
}

fn mitigations(directory: &Path) -> BTreeMap<String, String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((name, read_attribute(&entry.path())?))
        })
        .collect()
}

/// The value of `key : value`, as in `/proc/cpuinfo` and `/proc/meminfo`.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

/// How many processors a list such as `0-3,6` contains.
fn count(list: &str) -> u32 {
    list.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            Some(last.checked_sub(first)?.saturating_add(1))
        })
        .fold(0, u32::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn counts_lists() {
        assert_eq!(count("0-3,6"), 5);
        assert_eq!(count("0"), 1);
        assert_eq!(count("3-1,x"), 0);
    }

    #[test]
    fn reads_a_machine() {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("proc/cpuinfo", "model name\t: Ann 5000\nflags\t\t: fpu hypervisor\n"),
            ("proc/meminfo", "MemTotal:   1024 kB\nMemFree: 1 kB\n"),
            ("sys/devices/system/cpu/online", "0-1\n"),
            ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
            ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
            ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
            (".dockerenv", ""),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let machine = Machine::read(dir.path());
        assert_eq!(machine.cpu_model.as_deref(), Some("Ann 5000"));
        assert_eq!((machine.cpu_count, machine.memory_kib), (2, Some(1024)));
        assert_eq!(machine.boost, Some(false));
        assert_eq!(machine.mitigations["meltdown"], "Not affected");
        assert!(machine.virtualisation.hypervisor);
        assert_eq!(machine.virtualisation.platform.as_deref(), Some("QEMU"));
        assert_eq!(machine.virtualisation.container.as_deref(), Some("docker"));
    }

    #[test]
    fn this_machine_has_processors() {
        assert!(Machine::read(Path::new("/")).cpu_count > 0);
    }
}
