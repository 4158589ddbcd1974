// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records whether this thread failed to find out a fact because descriptors or memory are used up, or because the
//! recognizer's process ended on the file. A decision would then be a guess: an unknown path or kind matches no rule
//! that denies it.

use rustix::io::Errno;
use std::cell::Cell;

thread_local! {
    static SEEN: Cell<bool> = const { Cell::new(false) };
}

/// Records a shortage if the error is one.
pub(crate) fn noted<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    if let Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) = result {
        note();
    }
    result
}

/// Records a shortage.
pub(crate) fn note() {
    SEEN.set(true);
}

/// Whether a shortage was recorded since the last call.
pub(crate) fn take() -> bool {
    SEEN.take()
}

/// Whether a shortage is recorded.
pub(crate) fn is_seen() -> bool {
    SEEN.get()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_is_no_shortage() {
        let _before = take();
        for errno in [Errno::NOENT, Errno::SRCH, Errno::ACCESS] {
            assert!(noted::<()>(Err(errno)).is_err() && !is_seen());
        }
        assert!(noted::<()>(Err(Errno::MFILE)).is_err() && is_seen());
        assert!(take() && !take());
    }
}
