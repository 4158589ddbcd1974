// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a kernel may lack and scopes can do without.

use libbpf_rs::MapType;

/// What the scopes' programs go without, because the kernel has none of it or because it is to be done without.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lacks {
    /// Programs that user space runs find no process by its number (before Linux 6.10): to mark one, all are gone
    /// through.
    pub task_by_number: bool,
    /// Tasks hold no marks (before Linux 5.11): who finds no room in the table isn't marked.
    pub task_storage: bool,
    /// There is no buffer for events (before Linux 5.8): nothing is told of what happens.
    pub ring_buffer: bool,
}

impl Lacks {
    /// What this kernel says of itself. Whether processes are found by number only loading shows.
    pub(super) fn probe() -> Self {
        // That it can't be asked is no absence: then loading says what is wrong.
        let absent = |kind: MapType| matches!(kind.is_supported(), Ok(false));
        Self {
            task_by_number: false,
            task_storage: absent(MapType::TaskStorage),
            ring_buffer: absent(MapType::RingBuf),
        }
    }

    /// What either goes without.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::of_bits(self.bits() | other.bits())
    }

    /// As `programs/scope.h` has them.
    pub(super) fn bits(self) -> u32 {
        u32::from(self.task_by_number) | u32::from(self.task_storage) << 1 | u32::from(self.ring_buffer) << 2
    }

    pub(super) fn of_bits(bits: u32) -> Self {
        Self { task_by_number: bits & 1 != 0, task_storage: bits & 2 != 0, ring_buffer: bits & 4 != 0 }
    }
}
