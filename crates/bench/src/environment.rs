// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine and conditions of a measurement. Figures without them can't be compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{SystemTime, UNIX_EPOCH};

use palisade_protocol::date;
use serde::{Deserialize, Serialize};

/// The machine and its state when the measurement began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Environment {
    /// UTC, RFC 3339.
    pub(crate) date: String,
    pub(crate) bench_version: String,
    pub(crate) kernel: String,
    pub(crate) architecture: String,
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_byte: u64,
    /// `None` where the kernel doesn't control the clock, as in most virtual machines.
    pub(crate) governor: Option<String>,
    pub(crate) virtualisation: String,
    /// The load averages of one, five and fifteen minutes.
    pub(crate) load: String,
    pub(crate) root: bool,
    /// The kernel's statement about each processor vulnerability.
    pub(crate) mitigations: BTreeMap<String, String>,
    /// The version that each launcher reports.
    pub(crate) versions: BTreeMap<String, String>,
    /// Memory peaks at or below this value belong to the bench itself (see `palisade_sys::usage::Usage::max_rss`).
    pub(crate) memory_floor_byte: u64,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        Self {
            date: rfc3339(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())),
            bench_version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: text("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            architecture: std::env::consts::ARCH.to_owned(),
            cpu: field(&cpuinfo, "model name")
                .or_else(|| field(&cpuinfo, "CPU part"))
                .unwrap_or_else(unknown),
            cores: available_parallelism().map_or(0, usize::from),
            memory_byte: kibibytes(&text("/proc/meminfo").unwrap_or_default(), "MemTotal"),
            governor: text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtualisation: virtualisation(&cpuinfo),
            load: text("/proc/loadavg")
                .map_or_else(unknown, |load| load.split(' ').take(3).collect::<Vec<_>>().join(" ")),
            root: rustix::process::geteuid().is_root(),
            mitigations: mitigations(),
            versions: BTreeMap::new(),
            memory_floor_byte: own_peak(),
        }
    }

    /// The environment in one line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{}, {} cores, Linux {} ({}, governor {}), load {}, {}",
            self.cpu,
            self.cores,
            self.kernel,
            self.virtualisation,
            self.governor.as_deref().unwrap_or("not visible"),
            self.load,
            if self.root { "as root" } else { "as an ordinary user" },
        )
    }

    /// What differs between two environments. Their figures are comparable if nothing differs.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let pairs = [
            ("kernel", &self.kernel, &other.kernel),
            ("processor", &self.cpu, &other.cpu),
            ("virtualisation", &self.virtualisation, &other.virtualisation),
        ];
        let mut differences: Vec<String> = pairs
            .iter()
            .filter(|(_, a, b)| a != b)
            .map(|(what, a, b)| format!("{what}: {a} and {b}"))
            .collect();
        if self.cores != other.cores {
            differences.push(format!("cores: {} and {}", self.cores, other.cores));
        }
        if self.root != other.root {
            differences.push("one was measured as root".to_owned());
        }
        differences
    }
}

/// The memory peak of this process. It is a floor for the peaks that `wait4` reports for its children.
pub(crate) fn own_peak() -> u64 {
    kibibytes(&text("/proc/self/status").unwrap_or_default(), "VmHWM")
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn text(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value of a `name : value` line in a file of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim().to_owned())
}

fn kibibytes(text: &str, name: &str) -> u64 {
    field(text, name).and_then(|value| value.strip_suffix(" kB")?.trim().parse::<u64>().ok()).unwrap_or(0)
        * 1024
}

fn virtualisation(cpuinfo: &str) -> String {
    let container = if Path::new("/.dockerenv").exists() {
        Some("Docker".to_owned())
    } else if Path::new("/run/.containerenv").exists() {
        Some("Podman".to_owned())
    } else {
        text("/run/systemd/container")
    };
    let guest =
        field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let machine =
        guest.then(|| match text("/sys/class/dmi/id/sys_vendor").or_else(|| text("/sys/hypervisor/type")) {
            Some(vendor) => format!("virtual machine, {vendor}"),
            None => "virtual machine".to_owned(),
        });
    match (container, machine) {
        (Some(container), Some(machine)) => format!("{container} in a {machine}"),
        (Some(container), None) => container,
        (None, Some(machine)) => machine,
        (None, None) => "no virtualisation seen".to_owned(),
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_string_lossy().into_owned(), text(entry.path())?)))
        .filter(|(_, state)| state != "Not affected")
        .collect()
}

/// A time in seconds since 1970, in RFC 3339 format.
fn rfc3339(seconds: u64) -> String {
    format!("{}T{}Z", date::day(seconds), date::time(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_735_689_599), "2024-12-31T23:59:59Z");
        assert_eq!(rfc3339(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn reads_this_machine() {
        let environment = Environment::read();
        assert!(environment.kernel.starts_with(|first: char| first.is_ascii_digit()), "{environment:?}");
        assert!(environment.cores > 0 && environment.memory_byte > 0 && environment.memory_floor_byte > 0);
        assert!(environment.differences(&environment).is_empty());
    }

    #[test]
    fn says_what_differs() {
        let here = Environment { kernel: "6.1".into(), cores: 2, ..Environment::default() };
        let there = Environment { kernel: "6.18".into(), cores: 4, root: true, ..Environment::default() };
        assert_eq!(
            here.differences(&there),
            ["kernel: 6.1 and 6.18", "cores: 2 and 4", "one was measured as root"]
        );
    }
}
