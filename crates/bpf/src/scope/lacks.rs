// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernel features that may be missing and that scopes can do without.

use libbpf_rs::MapType;

/// The features that the scopes' programs do without, because the kernel lacks them or because the caller says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Programs that user space runs can't find a process by number (before Linux 6.10). To mark a process, a program
    /// iterates over all.
    pub task_by_number: bool,
    /// Tasks have no storage for marks (before Linux 5.11): a process that finds no room in the table isn't marked.
    pub task_storage: bool,
    /// There is no buffer for events (before Linux 5.8), so nothing is reported.
    pub ring_buffer: bool,
}

impl Lacks {
    /// What this kernel reports about itself. Only loading shows whether processes can be found by number.
    pub(super) fn probe() -> Self {
        // If the kernel can't be asked, don't treat the feature as missing: loading then reports the error.
        let absent = |kind: MapType| matches!(kind.is_supported(), Ok(false));
        Self {
            task_by_number: false,
            task_storage: absent(MapType::TaskStorage),
            ring_buffer: absent(MapType::RingBuf),
        }
    }

    /// The features that either of the two does without.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::of_bits(self.bits() | other.bits())
    }

    /// The bits of `programs/scope.h`.
    pub(super) fn bits(self) -> u32 {
        u32::from(self.task_by_number) | u32::from(self.task_storage) << 1 | u32::from(self.ring_buffer) << 2
    }

    pub(super) fn of_bits(bits: u32) -> Self {
        Self { task_by_number: bits & 1 != 0, task_storage: bits & 2 != 0, ring_buffer: bits & 4 != 0 }
    }
}
