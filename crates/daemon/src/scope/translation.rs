// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Converts between the kernel's types and the protocol's types.

use palisade_bpf::scope::{self as kernel, Lacks};
use palisade_protocol::scope::{Profile, Verdict};
use std::time::Duration;

/// The abilities of scopes that are unavailable because the kernel lacks these features.
pub(super) fn lacking(lacks: Lacks) -> impl Iterator<Item = &'static str> {
    let each = [
        (
            lacks.task_by_number,
            "the kernel finds no process by its number (before Linux 6.10): marking a process searches all processes",
        ),
        (
            lacks.task_storage,
            "the kernel has no task storage (before Linux 5.11): the size of a table limits how many processes can be marked",
        ),
        (
            lacks.ring_buffer,
            "the kernel has no ring buffer (before Linux 5.8): palisaded reports no events of scopes and kills no processes",
        ),
    ];
    each.into_iter().filter_map(|(lacks, words)| lacks.then_some(words))
}

/// The time since boot (`CLOCK_BOOTTIME`).
pub(super) fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// An exec's verdict as an event's verdict.
pub(super) fn verdict(verdict: kernel::Verdict) -> palisade_event::Verdict {
    match verdict {
        kernel::Verdict::Watch => palisade_event::Verdict::Allowed,
        kernel::Verdict::Warn => palisade_event::Verdict::Warned,
        kernel::Verdict::Kill => palisade_event::Verdict::Killed,
        kernel::Verdict::Refuse => palisade_event::Verdict::Refused,
    }
}

/// A scope's verdict as the protocol's verdict.
pub(super) fn of_scope(verdict: kernel::Verdict) -> Verdict {
    match verdict {
        kernel::Verdict::Watch => Verdict::Watch,
        kernel::Verdict::Warn => Verdict::Warn,
        kernel::Verdict::Kill => Verdict::Kill,
        kernel::Verdict::Refuse => Verdict::Refuse,
    }
}

/// A scope's profile as the number that the kernel side uses.
pub(super) fn profile_for_kernel(profile: Option<Profile>) -> u32 {
    match profile {
        None | Some(Profile::Prompt) => 0,
        Some(Profile::Audit) => 1,
        Some(Profile::Session) => 2,
        Some(Profile::Strict) => 3,
    }
}

/// The number that the kernel side uses as a profile.
pub(super) fn profile_of_kernel(profile: u32) -> Option<Profile> {
    match profile {
        1 => Some(Profile::Audit),
        2 => Some(Profile::Session),
        3 => Some(Profile::Strict),
        _ => None,
    }
}

/// The protocol's verdict as the kernel's verdict.
pub(super) fn of_kernel(verdict: Verdict) -> kernel::Verdict {
    match verdict {
        Verdict::Watch => kernel::Verdict::Watch,
        Verdict::Warn => kernel::Verdict::Warn,
        Verdict::Kill => kernel::Verdict::Kill,
        Verdict::Refuse => kernel::Verdict::Refuse,
    }
}
