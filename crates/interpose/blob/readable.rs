// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that the program's pointers point to readable memory: where the kernel would answer `EFAULT`, an access
//! from here would end the program. The checks use calls that read their arguments and then do nothing, and that are
//! of the kinds that the program makes itself. A null pointer counts as unreadable, because it may have another
//! meaning for these calls. A thread that unmaps memory which another thread passes to the kernel has a race of its
//! own, and may still end.

use crate::call::{self, number};
use crate::layout::STATE;
use crate::signals::SIZE;
use crate::state;
use core::sync::atomic::Ordering;

pub(crate) const EFAULT: i64 = -14;

/// Whether a signal mask is readable: 8 bytes.
pub(crate) fn mask(address: u64) -> bool {
    const NO_SUCH_WAY: u64 = 99;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads eight
    // bytes or answers EFAULT; then it refuses the operation, because its number is invalid.
    address != 0 && EFAULT != unsafe { call::raw(number::RT_SIGPROCMASK, [NO_SUCH_WAY, address, 0, SIZE, 0, 0]) }
}

/// The same for calls of other kinds: the program's own filter may not permit the check.
pub(crate) fn mask_of_a_wait(address: u64) -> bool {
    state().sealed.load(Ordering::Relaxed) != 0 || mask(address)
}

/// Whether a signal action, or two times, are readable: 32 bytes.
pub(crate) fn action(address: u64) -> bool {
    const SIGKILL: u64 = 9;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads an action
    // or answers EFAULT; then it refuses the signal, which can't have a handler.
    address != 0 && EFAULT != unsafe { call::raw(number::RT_SIGACTION, [SIGKILL, address, 0, SIZE, 0, 0]) }
}

/// Whether a time is readable: 16 bytes.
pub(crate) fn time(address: u64) -> bool {
    const WAIT_PRIVATE: u64 = 128;
    let other = u64::from(u32::MAX);
    let word = (STATE + core::mem::offset_of!(crate::layout::State, table)) as u64;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads the time
    // or answers EFAULT; it doesn't wait, because the word has another value.
    address != 0 && EFAULT != unsafe { call::raw(number::FUTEX, [word, WAIT_PRIVATE, other, address, 0, 0]) }
}
