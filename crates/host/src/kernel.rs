// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads facts about the running kernel: version, the settings that decide what a sandbox may use, and its security
//! modules. A probe (crate `sys`) finds out whether a feature *works*; these facts explain why a probe failed.

pub mod user_namespaces;

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::file::read_attribute;

/// A kernel's version, such as `6.1.0-18-amd64`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// All of it.
    pub text: String,
}

impl Release {
    /// Parses `uname -r`; `None` if it doesn't begin with two numbers.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let leading = |part: &str| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part.get(..end)?.parse().ok()
        };
        Some(Self { major: leading(parts.next()?)?, minor: leading(parts.next()?)?, text: text.to_owned() })
    }

    /// Whether it is at least `major.minor`.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl fmt::Display for Release {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Facts about the kernel. `None`: the kernel doesn't have the setting, or doesn't tell us.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kernel {
    /// `kernel.osrelease`.
    pub release: Option<Release>,
    /// `user.max_user_namespaces`; 0 forbids them.
    pub max_user_namespaces: Option<u64>,
    /// `kernel.unprivileged_userns_clone` (Debian's patch); 0 forbids them to ordinary users.
    pub unprivileged_userns_clone: Option<u64>,
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu since 23.10); 1 removes all capabilities inside from
    /// programs without a profile.
    pub apparmor_restrict_unprivileged_userns: Option<u64>,
    /// `kernel.cap_last_cap`: the highest capability that there is.
    pub cap_last_cap: Option<u64>,
    /// `kernel.yama.ptrace_scope`.
    pub ptrace_scope: Option<u64>,
    /// `kernel.unprivileged_bpf_disabled`.
    pub unprivileged_bpf_disabled: Option<u64>,
    /// `kernel.perf_event_paranoid` (negative: no restriction).
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.io_uring_disabled` (since 6.6).
    pub io_uring_disabled: Option<u64>,
    /// `vm.mmap_min_addr`.
    pub mmap_min_addr: Option<u64>,
    /// `kernel.seccomp.actions_avail`.
    pub seccomp_actions: Vec<String>,
    /// Active security modules; `None` where securityfs isn't mounted or readable.
    pub security_modules: Option<Vec<String>>,
    /// The lockdown mode in force (`none`, `integrity`, `confidentiality`).
    pub lockdown: Option<String>,
}

impl Kernel {
    /// Reads the facts; `proc` and `sys` are `/proc` and `/sys` except in tests.
    #[must_use]
    pub fn read(proc: &Path, sys: &Path) -> Self {
        let sysctl = |name: &str| read_attribute(&proc.join("sys").join(name));
        let number = |name: &str| sysctl(name)?.parse().ok();
        Self {
            release: sysctl("kernel/osrelease").and_then(|text| Release::parse(&text)),
            max_user_namespaces: number("user/max_user_namespaces"),
            unprivileged_userns_clone: number("kernel/unprivileged_userns_clone"),
            apparmor_restrict_unprivileged_userns: number("kernel/apparmor_restrict_unprivileged_userns"),
            cap_last_cap: number("kernel/cap_last_cap"),
            ptrace_scope: number("kernel/yama/ptrace_scope"),
            unprivileged_bpf_disabled: number("kernel/unprivileged_bpf_disabled"),
            perf_event_paranoid: sysctl("kernel/perf_event_paranoid").and_then(|text| text.parse().ok()),
            io_uring_disabled: number("kernel/io_uring_disabled"),
            mmap_min_addr: number("vm/mmap_min_addr"),
            seccomp_actions: sysctl("kernel/seccomp/actions_avail")
                .map(|text| text.split_ascii_whitespace().map(str::to_owned).collect())
                .unwrap_or_default(),
            security_modules: read_attribute(&sys.join("kernel/security/lsm"))
                .map(|text| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()),
            lockdown: read_attribute(&sys.join("kernel/security/lockdown"))
                .and_then(|text| Some(selected(&text)?.to_owned())),
        }
    }
}

/// The word in brackets of `none [integrity] confidentiality`.
fn selected(text: &str) -> Option<&str> {
    let start = text.find('[')? + 1;
    let rest = text.get(start..)?;
    rest.get(..rest.find(']')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn releases() {
        let release = Release::parse("6.1.0-18-amd64").unwrap();
        assert_eq!((release.major, release.minor), (6, 1));
        assert!(release.at_least(6, 1) && release.at_least(5, 19) && !release.at_least(6, 2));
        assert_eq!(Release::parse("6.18-rc1").unwrap().minor, 18);
        assert_eq!(Release::parse("10.0").unwrap().major, 10);
        assert_eq!(Release::parse("linux"), None);
        assert_eq!(Release::parse(""), None);
    }

    #[test]
    fn reads_knobs_and_modules() {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("proc/sys/kernel/osrelease", "6.12.1\n"),
            ("proc/sys/kernel/unprivileged_userns_clone", "0\n"),
            ("proc/sys/kernel/perf_event_paranoid", "-1\n"),
            ("proc/sys/kernel/seccomp/actions_avail", "kill allow\n"),
            ("sys/kernel/security/lsm", "capability,landlock"),
            ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let kernel = Kernel::read(&dir.path().join("proc"), &dir.path().join("sys"));
        assert!(kernel.release.as_ref().unwrap().at_least(6, 12));
        assert_eq!(kernel.perf_event_paranoid, Some(-1));
        assert_eq!(kernel.seccomp_actions, ["kill", "allow"]);
        assert_eq!(kernel.security_modules.as_ref().unwrap().len(), 2);
        assert_eq!(kernel.lockdown.as_deref(), Some("integrity"));
        assert_eq!(kernel.cap_last_cap, None);
        assert_eq!(kernel.unprivileged_userns_clone, Some(0));
    }

    #[test]
    fn this_host_has_a_release() {
        let kernel = Kernel::read(Path::new("/proc"), Path::new("/sys"));
        assert!(kernel.release.is_some() && kernel.cap_last_cap.is_some());
    }
}
