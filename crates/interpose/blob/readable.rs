// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether the program's pointers point to something: the kernel answers `EFAULT` where a look from here would end the
//! program. It is asked by calls that read what they are given and then do nothing, of the kinds that the program makes
//! itself. A null pointer, which may mean something else to them, points nowhere. A thread that unmaps what another one is giving the kernel races with itself, and may still end.

use crate::call::{self, number};
use crate::layout::STATE;
use crate::signals::SIZE;
use crate::state;
use core::sync::atomic::Ordering;

pub(crate) const EFAULT: i64 = -14;

/// A signal mask: 8 bytes.
pub(crate) fn mask(address: u64) -> bool {
    const NO_SUCH_WAY: u64 = 99;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads eight bytes or
    // answers EFAULT; then it refuses the operation, which is none.
    address != 0 && EFAULT != unsafe { call::raw(number::RT_SIGPROCMASK, [NO_SUCH_WAY, address, 0, SIZE, 0, 0]) }
}

/// The same for calls that are none of the kind: what a filter of the program's lets through isn't known.
pub(crate) fn mask_of_a_wait(address: u64) -> bool {
    state().sealed.load(Ordering::Relaxed) != 0 || mask(address)
}

/// What is done on a signal, or two times: 32 bytes.
pub(crate) fn action(address: u64) -> bool {
    const SIGKILL: u64 = 9;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads an action or answers
    // EFAULT; then it refuses the signal, which takes no handler.
    address != 0 && EFAULT != unsafe { call::raw(number::RT_SIGACTION, [SIGKILL, address, 0, SIZE, 0, 0]) }
}

/// A time: 16 bytes.
pub(crate) fn time(address: u64) -> bool {
    const WAIT_PRIVATE: u64 = 128;
    let other = u64::from(u32::MAX);
    let word = (STATE + core::mem::offset_of!(crate::layout::State, table)) as u64;
    // SAFETY: needed: only the kernel can say that an address is readable without a fault. Sound: it reads the time or answers
    // EFAULT; it doesn't wait, as the word has another value.
    address != 0 && EFAULT != unsafe { call::raw(number::FUTEX, [word, WAIT_PRIVATE, other, address, 0, 0]) }
}
