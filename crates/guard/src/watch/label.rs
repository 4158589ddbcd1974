// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a file may be used for, told to somebody who answers where fanotify isn't asked (BPF LSM).
//!
//! Labels are given before a question is answered, so whoever goes on finds them. A label and the kernel's own answer
//! ([`Gate::pass`](palisade_sys::fanotify::Gate::pass)) belong together: nothing is passed that should have a label and
//! has none, and a label that is gone takes the other along.

use std::fmt::Debug;
use std::os::fd::BorrowedFd;

/// What a file may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Use {
    /// Its content may become executable memory: a library.
    Map,
    /// It may be executed as well: a program, a script.
    Execute,
}

/// Keeps labels.
pub trait Label: Debug + Send + Sync {
    /// Whether the file has a label that permits this much. Also true of files that somebody else labels.
    fn permits(&self, file: BorrowedFd<'_>, wanted: Use) -> bool;

    /// Gives a label if `still` says, asked while any change of the file would show, that it is to be had; whether the
    /// file has it now. Never takes away anything.
    fn give(&self, file: BorrowedFd<'_>, wanted: Use, still: &mut dyn FnMut() -> bool) -> bool;

    /// Takes a file's label away, if it has one.
    fn take(&self, file: BorrowedFd<'_>);

    /// Other rules or another trust database are in force: every label must be given anew. Nothing is passed meanwhile.
    /// Must not wait for who gives labels: those wait for this.
    fn forget(&self);

    /// After that, when it may wait.
    fn renew(&self);
}
