// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of a plan about system calls that weren't learned.

use crate::plan::text::Text;
use palisade_policy::word::{SyscallMode, SyscallRefusal};
use palisade_syscall::broker::unlearned::{Fate, Unlearned};
use palisade_syscall::{Numbers, Passed};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What happens to calls that weren't learned, if a broker runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Calls<'a> {
    /// The mode; never [`SyscallMode::Off`].
    pub mode: SyscallMode,
    /// How they are refused.
    pub refusal: SyscallRefusal,
    /// The key under which learned calls are stored.
    #[serde(borrow)]
    pub profile: Text<'a>,
    /// The calls: bit N % 8 of byte N / 8 for number N.
    #[serde(borrow)]
    pub numbers: Cow<'a, [u8]>,
    /// The calls that are passed on for other reasons.
    pub passed: Passed,
    /// The kernel records the calls, and none is passed on to be learned.
    #[serde(default)]
    pub by_kernel: bool,
}

impl Calls<'_> {
    /// A copy without borrows.
    #[must_use]
    pub fn into_owned(self) -> Calls<'static> {
        Calls {
            mode: self.mode,
            refusal: self.refusal,
            profile: self.profile.into_owned(),
            numbers: Cow::Owned(self.numbers.into_owned()),
            passed: self.passed,
            by_kernel: self.by_kernel,
        }
    }

    /// What happens to these calls, as text for the user.
    #[must_use]
    pub const fn words(&self) -> &'static str {
        match (self.mode, self.refusal) {
            (SyscallMode::Learn, _) if self.by_kernel => "made, and recorded by the kernel",
            (SyscallMode::Learn, _) => "made, and recorded",
            (SyscallMode::Off, _) => "made",
            (SyscallMode::Ask, SyscallRefusal::Errno) => "made if you allow them, else refused",
            (SyscallMode::Ask, SyscallRefusal::Kill) => "made if you allow them, else the process is ended",
            (SyscallMode::Enforce, SyscallRefusal::Errno) => "refused",
            (SyscallMode::Enforce, SyscallRefusal::Kill) => "the process is ended",
        }
    }

    /// The broker's instructions.
    pub(crate) fn unlearned(&self) -> Unlearned {
        let kill = self.refusal == SyscallRefusal::Kill;
        let fate = match self.mode {
            SyscallMode::Learn | SyscallMode::Off => Fate::Remember,
            SyscallMode::Ask => Fate::Ask { kill },
            SyscallMode::Enforce if kill => Fate::Kill,
            SyscallMode::Enforce => Fate::Refuse,
        };
        Unlearned { numbers: Numbers::from_bits(&self.numbers), fate, passed: self.passed }
    }
}
