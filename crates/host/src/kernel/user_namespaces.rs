// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why user namespaces are refused: limits, settings, filters and security modules, told apart by what the host shows.

use std::path::Path;

use rustix::io::Errno;

use super::Kernel;
use crate::file::read_attribute;
use crate::machine::container;

/// How far a program came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The namespace isn't made.
    Make,
    /// The namespace is made, and a capability in it is refused.
    Use,
    /// Capabilities in the namespace work, and a mount is refused.
    Mount,
}

/// What the host shows about the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signs {
    /// `user.max_user_namespaces`.
    pub limit: Option<u64>,
    /// `kernel.unprivileged_userns_clone` (Debian's patch) is 0.
    pub forbidden: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns` (Ubuntu's patch) isn't 0.
    pub restricted: bool,
    /// AppArmor's label of the caller, such as `unconfined` or `docker-default (enforce)`. `None`: no AppArmor.
    pub label: Option<String>,
    /// A seccomp filter refuses the call.
    pub filtered: bool,
    /// The engine of the container in which the caller runs.
    pub engine: Option<String>,
    /// The kernel has no user namespaces.
    pub missing: bool,
    /// The caller's root isn't that of its mount namespace.
    pub chrooted: bool,
    /// Mounts cover parts of `/proc`.
    pub covered: bool,
    /// The caller has a seccomp filter.
    pub sandboxed: bool,
}

impl Signs {
    /// Reads the signs below `root`, which is `/` except in tests. Only a call shows whether it is `filtered`.
    #[must_use]
    pub fn read(root: &Path, filtered: bool) -> Self {
        let kernel = Kernel::read(&root.join("proc"), &root.join("sys"));
        let mounts = std::fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
        let points = || mounts.lines().filter_map(|line| line.split(' ').nth(4));
        let status = std::fs::read_to_string(root.join("proc/self/status")).unwrap_or_default();
        Self {
            limit: kernel.max_user_namespaces,
            forbidden: kernel.unprivileged_userns_clone == Some(0),
            restricted: kernel.apparmor_restrict_unprivileged_userns.unwrap_or(0) > 0,
            // The file without `apparmor` in its path belongs to another module where two are in force.
            label: read_attribute(&root.join("proc/self/attr/apparmor/current"))
                .map(|text| text.trim_end_matches('\0').to_owned())
                .filter(|text| !text.is_empty()),
            filtered,
            engine: container(root),
            missing: root.join("proc/self").exists() && !root.join("proc/self/ns/user").exists(),
            // The kernel shows only mounts below the caller's root. A root that is a mount of its own looks like any other.
            chrooted: !mounts.is_empty() && points().all(|point| point != "/"),
            covered: points().any(|point| point.starts_with("/proc/")),
            sandboxed: status.lines().any(|line| line == "Seccomp:\t2"),
        }
    }

    /// Whether a profile of AppArmor confines the caller.
    fn is_confined(&self) -> bool {
        self.label.as_ref().is_some_and(|label| label != "unconfined")
    }
}

/// Why user namespaces are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// `user.max_user_namespaces` is 0.
    Forbidden,
    /// As many user namespaces exist as `user.max_user_namespaces` permits.
    UsedUp {
        /// The limit.
        limit: u64,
    },
    /// `kernel.unprivileged_userns_clone` is 0.
    Privileged,
    /// AppArmor refuses them to the caller.
    AppArmor {
        /// What it refuses.
        stage: Stage,
        /// The label of the caller, if a profile confines it. `None`: the caller has no profile, and the host restricts
        /// programs without one.
        label: Option<String>,
    },
    /// A seccomp filter of the program that started the caller.
    Filter,
    /// The engine of a container.
    Container {
        /// Its name, such as `docker`.
        engine: String,
        /// What it refuses.
        stage: Stage,
    },
    /// The kernel has no user namespaces.
    Missing,
    /// The caller is in a chroot.
    Chroot,
    /// Mounts cover parts of `/proc`, so the kernel refuses a new one.
    Covered,
    /// Another sandbox permits user namespaces, and refuses what a launch does in them.
    Sandbox,
    /// Nothing shows why.
    Unknown,
}

impl Cause {
    /// Why a program that came to `stage` got `errno`.
    #[must_use]
    pub fn of(stage: Stage, errno: Errno, signs: &Signs) -> Self {
        match (stage, errno, signs.limit) {
            (Stage::Make, Errno::NOSPC | Errno::USERS, Some(0)) => return Self::Forbidden,
            // The limit may be that of an outer namespace, whose number can't be seen.
            (Stage::Make, Errno::NOSPC | Errno::USERS, Some(limit)) => return Self::UsedUp { limit },
            (Stage::Make, Errno::INVAL, _) if signs.missing => return Self::Missing,
            _ => {}
        }
        let container = || signs.engine.clone().map(|engine| Self::Container { engine, stage });
        // A filter answers before the kernel looks at its settings.
        if signs.filtered {
            return container().unwrap_or(Self::Filter);
        }
        let refused = matches!(errno, Errno::PERM | Errno::ACCESS);
        if refused && stage == Stage::Make && signs.forbidden {
            return Self::Privileged;
        }
        // The engine's mark alone proves little: the image of a virtual machine may have it, too. With a profile, or where
        // mounts alone are refused, it is the engine.
        if refused && signs.is_confined() {
            return container().unwrap_or_else(|| Self::AppArmor { stage, label: signs.label.clone() });
        }
        match stage {
            Stage::Make if errno == Errno::PERM && signs.chrooted => Self::Chroot,
            Stage::Mount => container().unwrap_or(match signs {
                Signs { covered: true, .. } => Self::Covered,
                Signs { sandboxed: true, .. } => Self::Sandbox,
                _ => Self::Unknown,
            }),
            _ if refused && signs.restricted => Self::AppArmor { stage, label: None },
            Stage::Use if refused && signs.sandboxed => Self::Sandbox,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn ubuntu() -> Signs {
        Signs { limit: Some(30_000), restricted: true, label: Some("unconfined".into()), ..Signs::default() }
    }

    #[test]
    fn both_forms_of_ubuntus_refusal_are_told_apart() {
        // Ubuntu 23.10 refuses the call. Later releases take the capabilities, which shows when the user is mapped.
        for errno in [Errno::PERM, Errno::ACCESS] {
            for stage in [Stage::Make, Stage::Use] {
                assert_eq!(Cause::of(stage, errno, &ubuntu()), Cause::AppArmor { stage, label: None });
            }
        }
        let free = Signs { restricted: false, ..ubuntu() };
        assert_eq!(Cause::of(Stage::Make, Errno::PERM, &free), Cause::Unknown);
        assert_eq!(Cause::of(Stage::Mount, Errno::PERM, &ubuntu()), Cause::Unknown, "a masked /proc");
    }

    #[test]
    fn a_profile_that_confines_the_caller_is_named() {
        let label = Some("snap.editor.editor (enforce)".to_owned());
        let signs = Signs { restricted: false, label: label.clone(), ..ubuntu() };
        for stage in [Stage::Make, Stage::Use, Stage::Mount] {
            let cause = Cause::of(stage, Errno::ACCESS, &signs);
            assert_eq!(cause, Cause::AppArmor { stage, label: label.clone() });
        }
    }

    #[test]
    fn settings_and_limits() {
        let signs = Signs { limit: Some(0), ..ubuntu() };
        assert_eq!(Cause::of(Stage::Make, Errno::NOSPC, &signs), Cause::Forbidden);
        assert_eq!(Cause::of(Stage::Make, Errno::NOSPC, &ubuntu()), Cause::UsedUp { limit: 30_000 });
        let debian = Signs { forbidden: true, ..Signs::default() };
        assert_eq!(Cause::of(Stage::Make, Errno::PERM, &debian), Cause::Privileged);
        let none = Signs { missing: true, ..Signs::default() };
        assert_eq!(Cause::of(Stage::Make, Errno::INVAL, &none), Cause::Missing);
        assert_eq!(Cause::of(Stage::Make, Errno::INVAL, &Signs::default()), Cause::Unknown);
    }

    #[test]
    fn a_filter_answers_first_and_a_container_has_an_engine() {
        let filtered = Signs { filtered: true, forbidden: true, ..ubuntu() };
        assert_eq!(Cause::of(Stage::Make, Errno::PERM, &filtered), Cause::Filter);
        assert_eq!(Cause::of(Stage::Make, Errno::NOSYS, &filtered), Cause::Filter);
        let docker = |stage| Cause::Container { engine: "docker".into(), stage };
        let inside = Signs { engine: Some("docker".into()), ..filtered };
        assert_eq!(Cause::of(Stage::Make, Errno::PERM, &inside), docker(Stage::Make));
        // Without its filter, Docker's profile refuses mounts, and what masks /proc refuses a new one.
        let label = Some("docker-default (enforce)".into());
        let inside = Signs { filtered: false, forbidden: false, label, ..inside };
        for (stage, errno) in
            [(Stage::Make, Errno::PERM), (Stage::Mount, Errno::ACCESS), (Stage::Mount, Errno::PERM)]
        {
            assert_eq!(Cause::of(stage, errno, &inside), docker(stage));
        }
        // Without a profile of the engine's, the host's restriction is the reason. A virtual machine may have the mark.
        let inside = Signs { label: ubuntu().label, ..inside };
        let restricted = Cause::AppArmor { stage: Stage::Use, label: None };
        assert_eq!(Cause::of(Stage::Use, Errno::PERM, &inside), restricted);
        assert_eq!(Cause::of(Stage::Mount, Errno::PERM, &inside), docker(Stage::Mount), "a masked /proc");
    }

    #[test]
    fn roots_and_mounts_that_the_kernel_refuses() {
        let chroot = Signs { chrooted: true, ..Signs::default() };
        assert_eq!(Cause::of(Stage::Make, Errno::PERM, &chroot), Cause::Chroot);
        assert_eq!(Cause::of(Stage::Make, Errno::NOMEM, &chroot), Cause::Unknown);
        let covered = Signs { covered: true, sandboxed: true, ..Signs::default() };
        assert_eq!(Cause::of(Stage::Mount, Errno::PERM, &covered), Cause::Covered);
        let sandboxed = Signs { covered: false, ..covered };
        assert_eq!(Cause::of(Stage::Mount, Errno::PERM, &sandboxed), Cause::Sandbox);
        let docker = Signs { engine: Some("docker".into()), ..sandboxed };
        assert!(matches!(Cause::of(Stage::Mount, Errno::PERM, &docker), Cause::Container { .. }));
    }

    #[test]
    fn signs_are_read() {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("proc/sys/user/max_user_namespaces", "7\n"),
            ("proc/sys/kernel/unprivileged_userns_clone", "0\n"),
            ("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n"),
            ("proc/self/attr/apparmor/current", "unconfined\n"),
            ("proc/self/ns/user", ""),
            (".dockerenv", ""),
            (
                "proc/self/mountinfo",
                "2 1 0:3 / /proc rw - proc proc rw\n3 2 0:4 / /proc/kcore rw - tmpfs t rw\n",
            ),
            ("proc/self/status", "Name:\tsh\nSeccomp:\t2\n"),
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let all = Signs {
            limit: Some(7),
            forbidden: true,
            restricted: true,
            label: Some("unconfined".into()),
            filtered: false,
            engine: Some("docker".into()),
            missing: false,
            chrooted: true,
            covered: true,
            sandboxed: true,
        };
        assert_eq!(Signs::read(dir.path(), false), all);
        fs::remove_file(dir.path().join("proc/self/ns/user")).unwrap();
        assert!(Signs::read(dir.path(), false).missing);
        let mounts = "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:3 / /proc rw - proc proc rw\n";
        fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
        let plain = Signs::read(dir.path(), false);
        assert!(!plain.chrooted && !plain.covered);
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(Signs::read(empty.path(), true), Signs { filtered: true, ..Signs::default() });
    }
}
