// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drops the daemon's capabilities after its start, and sets its limits.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Needed for: fanotify marks, and the maps of eBPF programs that are loaded by then (`CAP_SYS_ADMIN` includes `CAP_BPF`);
/// every process's `/proc`; every file's content and handle; leases; the audit system; changing to the users of the loader
/// and of the libmagic children.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// Makes this process the last that the kernel ends when memory is short: otherwise the host would go on unguarded.
const OOM_SCORE: &str = "-900";
/// The limit of open descriptors: each question brings one.
const DESCRIPTORS: u64 = 65536;

/// Drops every capability that isn't needed, for good.
///
/// # Errors
/// When the kernel refuses. The daemon can continue with all capabilities.
pub(crate) fn drop_capabilities() -> Result<(), Errno> {
    for bit in 0..64 {
        let Some(capability) = CapabilitySet::from_bits(1 << bit) else { continue };
        if !KEPT.contains(capability)
            && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
    keep_only(KEPT)
}

/// Drops every capability but these, until this process executes a program.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn keep_only(kept: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

/// Prepares the process for its role, in which all others wait for it: more descriptors, a higher priority, and protection
/// when memory is short.
pub(crate) fn prepare() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).max(DESCRIPTORS);
    let wanted = Rlimit { current: Some(DESCRIPTORS), maximum: Some(most) };
    // Each of these helps, and none is required. In a container root may not raise the hard limit, but may use all of it.
    if setrlimit(Resource::Nofile, wanted).is_err() {
        let _fewer = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let _later = rustix::process::setpriority_process(None, -14);
    let _sooner = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A missing capability would fail where systemd starts the daemon; an extra one could be gained again.
    #[test]
    fn the_unit_bounds_it_to_what_is_kept() {
        let unit = include_str!("../../../packaging/palisaded.service");
        let line = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet="));
        let named = line.unwrap_or_default().split(' ').map(|name| match name {
            "CAP_SYS_ADMIN" => CapabilitySet::SYS_ADMIN,
            "CAP_SYS_PTRACE" => CapabilitySet::SYS_PTRACE,
            "CAP_DAC_READ_SEARCH" => CapabilitySet::DAC_READ_SEARCH,
            "CAP_DAC_OVERRIDE" => CapabilitySet::DAC_OVERRIDE,
            "CAP_LEASE" => CapabilitySet::LEASE,
            "CAP_AUDIT_WRITE" => CapabilitySet::AUDIT_WRITE,
            "CAP_SETUID" => CapabilitySet::SETUID,
            "CAP_SETGID" => CapabilitySet::SETGID,
            "CAP_KILL" => CapabilitySet::KILL,
            other => panic!("{other} isn't kept"),
        });
        assert_eq!(named.fold(CapabilitySet::empty(), CapabilitySet::union), KEPT);
    }
}
