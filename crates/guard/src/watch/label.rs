// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels state what a file may be used for. They are read by the security module that answers where fanotify isn't
//! asked (BPF LSM).
//!
//! Labels are given before a question is answered, so the process that continues finds them. A label and the kernel's
//! own answer ([`Gate::pass`](palisade_sys::fanotify::Gate::pass)) belong together. A file that should have a label and
//! has none isn't passed, and removing a label also ends the kernel's own answer.

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

/// Stores labels.
pub trait Label: Debug + Send + Sync {
    /// Whether the file has a label that permits this much. Also true for files that another component labels.
    fn permits(&self, file: BorrowedFd<'_>, wanted: Use) -> bool;

    /// Labels the file if `still` returns true. `still` is called while any change of the file would show. Returns
    /// whether the file has the label now. Never removes a label.
    fn give(&self, file: BorrowedFd<'_>, wanted: Use, still: &mut dyn FnMut() -> bool) -> bool;

    /// Removes a file's label, if it has one.
    fn take(&self, file: BorrowedFd<'_>);

    /// Other rules or another trust database are in force: every label must be given again. No file is passed
    /// meanwhile. This function must not wait for the threads that give labels, because those wait for it.
    fn forget(&self);

    /// The rest of the work after `forget`, when waiting is allowed.
    fn renew(&self);
}
