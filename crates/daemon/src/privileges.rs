// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the daemon gives away once it has begun.

use rustix::io::Errno;
use rustix::thread::{CapabilitySet, CapabilitySets};

/// Marks, and the maps of eBPF programs that are loaded by then (`CAP_SYS_ADMIN` stands for `CAP_BPF`); every process's `/proc`; every file's content and handle; leases; the audit system; the loader's user.
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
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: CapabilitySet::empty() };
    for bit in 0..64 {
        let Some(capability) = CapabilitySet::from_bits(1 << bit) else { continue };
        if !KEPT.contains(capability)
            && rustix::thread::capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            rustix::thread::remove_capability_from_bounding_set(capability)?;
        }
    }
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
