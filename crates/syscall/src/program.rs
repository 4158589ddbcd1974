// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A compiled filter, and the instructions that it is written in (`linux/filter.h`, `linux/seccomp.h`).

use serde::{Deserialize, Serialize};

use crate::{Action, Instruction};

/// A filter that the kernel can load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The instructions, for `palisade_sys::seccomp::install`.
    pub program: Vec<Instruction>,
}

/// The kernel's limit, `BPF_MAXINSNS`.
pub(crate) const LIMIT: usize = 4096;

/// Loads 32 bits of `struct seccomp_data`.
pub(crate) const LOAD: u16 = 0x20;
/// Skips `k` instructions.
pub(crate) const JUMP: u16 = 0x05;
/// Skips `jt` instructions if the loaded value is `k`, else `jf`.
pub(crate) const IF_EQUAL: u16 = 0x15;
/// The same if the loaded value is at least `k`.
pub(crate) const IF_AT_LEAST: u16 = 0x35;
/// The same if the loaded value shares a bit with `k`.
pub(crate) const IF_ANY_BIT: u16 = 0x45;
/// Returns `k` as the filter's result.
pub(crate) const RETURN: u16 = 0x06;

/// Offsets in `struct seccomp_data`.
pub(crate) const NUMBER: u32 = 0;
pub(crate) const ARCHITECTURE: u32 = 4;

/// The offset of one half of an argument, little endian.
pub(crate) const fn half(argument: u8, high: bool) -> u32 {
    16 + 8 * argument as u32 + if high { 4 } else { 0 }
}

const RETURN_KILL_PROCESS: u32 = 0x8000_0000;
const RETURN_ERRNO: u32 = 0x0005_0000;
pub(crate) const RETURN_USER_NOTIF: u32 = 0x7fc0_0000;
const RETURN_ALLOW: u32 = 0x7fff_0000;

/// The value that a filter returns for an action.
pub(crate) fn verdict(action: Action) -> u32 {
    match action {
        Action::Allow => RETURN_ALLOW,
        Action::Pretend => RETURN_ERRNO,
        Action::Errno(errno) => RETURN_ERRNO | u32::from(errno.number()),
        Action::KillProcess => RETURN_KILL_PROCESS,
        Action::Notify => RETURN_USER_NOTIF,
        // The kernel ignores the low bits for this action. The listener reads them (`Filter::refusal`).
        Action::Refuse(errno) => RETURN_USER_NOTIF | u32::from(errno.number()),
    }
}
