// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this thread couldn't find something out because descriptors or memory are used up, or because who was asked ended at it.
//! What rules say then would be a guess: a path that isn't known matches no rule that denies it, nor does a kind.

use rustix::io::Errno;
use std::cell::Cell;

thread_local! {
    static SEEN: Cell<bool> = const { Cell::new(false) };
}

/// Notes it if that is why it failed.
pub(crate) fn noted<T>(result: Result<T, Errno>) -> Result<T, Errno> {
    if let Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM) = result {
        note();
    }
    result
}

/// Notes it.
pub(crate) fn note() {
    SEEN.set(true);
}

/// Whether it was so since this was asked last.
pub(crate) fn take() -> bool {
    SEEN.take()
}

/// Whether it was so.
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
