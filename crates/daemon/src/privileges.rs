// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the daemon gives away once it has begun.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Marks, and the maps of eBPF programs that are loaded by then (`CAP_SYS_ADMIN` stands for `CAP_BPF`); every process's `/proc`; every file's content and handle; leases; the audit system; the users of the loader and of what asks libmagic.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::LEASE)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::KILL);

/// The last that the kernel should end when memory is short: without the guard the host would go on unguarded.
const OOM_SCORE: &str = "-900";
/// Descriptors: each question brings one.
const DESCRIPTORS: u64 = 65536;

/// Gives away every capability but those that are needed, for good.
///
/// # Errors
/// When the kernel doesn't take them; the daemon can go on with all.
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

/// Gives away every capability but these until it executes something.
///
/// # Errors
/// When the kernel doesn't take them.
pub(crate) fn keep_only(kept: CapabilitySet) -> Result<(), Errno> {
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    rustix::thread::set_capabilities(None, sets)
}

/// Takes what a daemon needs that everybody waits for: descriptors, a turn before others, and a long life.
pub(crate) fn prepare() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(DESCRIPTORS).max(DESCRIPTORS);
    let wanted = Rlimit { current: Some(DESCRIPTORS), maximum: Some(most) };
    // Each of these helps, and none is needed. In a container root may not raise the limit, only use it up.
    if setrlimit(Resource::Nofile, wanted).is_err() {
        let _fewer = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let _later = rustix::process::setpriority_process(None, -14);
    let _sooner = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A capability too few would be missed where systemd starts the daemon, and one too many could be got back.
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
