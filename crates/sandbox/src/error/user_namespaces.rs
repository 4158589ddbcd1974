// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why this host refuses user namespaces, in words, with the command that changes it.

pub use palisade_host::kernel::user_namespaces::{Cause, Stage};

use palisade_host::kernel::user_namespaces::Signs;
use palisade_sys::probe::{self, Kind, Presence};
use palisade_text::Show as _;
use rustix::io::Errno;
use std::path::Path;

/// Why the caller can't have the user namespace that a launch needs, with its mounts and processes. `None`: it can.
#[must_use]
pub fn examine() -> Option<Cause> {
    let (stage, errno) = [Kind::User, Kind::Mount, Kind::Pid].into_iter().find_map(refusal)?;
    let filtered = stage == Stage::Make && probe::user_namespaces_are_filtered();
    Some(Cause::of(stage, errno, &Signs::read(Path::new("/"), filtered)))
}

fn refusal(kind: Kind) -> Option<(Stage, Errno)> {
    // A probe that fails for another reason says nothing about namespaces.
    let Ok(Presence::Absent { action, errno }) = probe::namespace(kind) else { return None };
    let stage = match kind {
        _ if action == kind.made() => Stage::Make,
        Kind::User => Stage::Use,
        _ => Stage::Mount,
    };
    Some((stage, errno))
}

/// The cause in words.
#[must_use]
pub fn words(cause: &Cause) -> String {
    match cause {
        Cause::Forbidden => "user.max_user_namespaces is 0".to_owned(),
        Cause::UsedUp { limit } => {
            format!("as many user namespaces exist as user.max_user_namespaces ({limit}), or that of an outer one, permits")
        }
        Cause::Privileged => {
            "kernel.unprivileged_userns_clone is 0, so only root may make user namespaces".to_owned()
        }
        Cause::AppArmor { stage: Stage::Make, label: None } => {
            "AppArmor refuses user namespaces to programs without a profile (kernel.apparmor_restrict_unprivileged_userns)"
                .to_owned()
        }
        Cause::AppArmor { label: None, .. } => {
            "AppArmor refuses capabilities in user namespaces to programs without a profile \
             (kernel.apparmor_restrict_unprivileged_userns)"
                .to_owned()
        }
        Cause::AppArmor { stage, label: Some(label) } => {
            let what = match stage {
                Stage::Make => "user namespaces",
                Stage::Use => "capabilities in user namespaces",
                Stage::Mount => "mounts in user namespaces",
            };
            format!("AppArmor's profile {} refuses {what}", label.shown())
        }
        Cause::Filter => "a seccomp filter refuses user namespaces, as in another sandbox".to_owned(),
        Cause::Container { engine, stage } => {
            let what = match stage {
                Stage::Make | Stage::Use => "user namespaces",
                Stage::Mount => "mounts in user namespaces, as where parts of /proc are masked",
            };
            format!("the container ({}) refuses {what}", engine.shown())
        }
        Cause::Missing => "the kernel is built without user namespaces".to_owned(),
        Cause::Chroot => "the kernel refuses user namespaces in a chroot".to_owned(),
        Cause::Covered => {
            "mounts cover parts of /proc, as in a container, so the kernel refuses a new /proc".to_owned()
        }
        Cause::Sandbox => "another sandbox permits user namespaces, but not what a launch does in them".to_owned(),
        Cause::Unknown => "the host doesn't show why".to_owned(),
    }
}

/// What to do about it.
#[must_use]
pub fn hint(cause: &Cause) -> String {
    match cause {
        Cause::Forbidden => {
            "sudo sysctl -w user.max_user_namespaces=10000   # until the next boot; a file in /etc/sysctl.d sets it for good"
                .to_owned()
        }
        Cause::UsedUp { limit } => {
            let more = limit.saturating_mul(2).max(10_000);
            format!("sudo sysctl -w user.max_user_namespaces={more}   # until the next boot")
        }
        Cause::Privileged => {
            "sudo sysctl -w kernel.unprivileged_userns_clone=1   # until the next boot; a file in /etc/sysctl.d sets it for good"
                .to_owned()
        }
        Cause::AppArmor { .. } => {
            "palisade setup   # shows a profile for AppArmor and installs it; asks for root once".to_owned()
        }
        // Its filter permits them.
        Cause::Container { engine, stage: Stage::Mount } if engine == "podman" => {
            "podman run --security-opt unmask=ALL …".to_owned()
        }
        // No option of a command changes an LXC container.
        Cause::Covered => covered(),
        Cause::Container { engine, .. } if engine == "lxc" => covered(),
        Cause::Container { engine, .. } => {
            let engine = if engine == "podman" { "podman" } else { "docker" };
            format!(
                "{engine} run --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
            )
        }
        Cause::Filter | Cause::Sandbox => {
            "palisade run --best-effort …   # with fewer guarantees; or start it outside of that sandbox".to_owned()
        }
        Cause::Chroot => {
            "palisade run --best-effort …   # with fewer guarantees; or start it in a container, whose root is no chroot"
                .to_owned()
        }
        Cause::Missing | Cause::Unknown => {
            "palisade run --best-effort …   # with fewer guarantees, without namespaces".to_owned()
        }
    }
}

fn covered() -> String {
    "palisade run --best-effort …   # with fewer guarantees; or start it where nothing covers parts of /proc"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_named_once_and_both_forms_differ() {
        let all = [
            Cause::Forbidden,
            Cause::UsedUp { limit: 7 },
            Cause::Privileged,
            Cause::AppArmor { stage: Stage::Make, label: None },
            Cause::AppArmor { stage: Stage::Use, label: None },
            Cause::AppArmor { stage: Stage::Make, label: Some("a (enforce)".into()) },
            Cause::AppArmor { stage: Stage::Use, label: Some("a (enforce)".into()) },
            Cause::Filter,
            Cause::Container { engine: "podman".into(), stage: Stage::Make },
            Cause::Container { engine: "podman".into(), stage: Stage::Mount },
            Cause::Missing,
            Cause::Chroot,
            Cause::Covered,
            Cause::Sandbox,
            Cause::Unknown,
        ];
        let mut said: Vec<String> = all.iter().map(words).collect();
        said.sort();
        said.dedup();
        assert_eq!(said.len(), all.len(), "{said:?}");
        for cause in &all[3..7] {
            assert!(hint(cause).starts_with("palisade setup "));
        }
        assert!(hint(&all[8]).starts_with("podman run --security-opt seccomp=unconfined "));
        assert_eq!(hint(&all[9]), "podman run --security-opt unmask=ALL …");
        let lxc = Cause::Container { engine: "lxc".into(), stage: Stage::Mount };
        assert_eq!(hint(&lxc), hint(&Cause::Covered));
    }

    #[test]
    fn a_host_whose_namespaces_work_has_no_cause() {
        assert_eq!(examine().is_none(), probe::user_namespaces_work());
    }
}
