// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Labels in advance the files that the host can't do without.
//!
//! With `on-death = "closed"`, no process labels files any more after the guard has died. Files that weren't used before
//! would then be refused for ever, also the shell that an administrator needs for repair. So these files get their labels
//! at the start.

use crate::lsm::{Labels, Lsm};
use palisade_guard::decide::Decider;
use palisade_guard::safety;
use palisade_guard::trusted::Trusted;
use palisade_guard::watch::label::{Label, Use};
use palisade_guard::watch::policy::{Policy, Starts};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

/// The guard's own programs, `palisade` and `palisaded`.
pub(crate) fn own_programs() -> Vec<PathBuf> {
    std::env::current_exe().into_iter().flat_map(|own| [own.with_file_name("palisade"), own]).collect()
}

/// Labels those of these files that the rules allow, if labels outlive the guard. The caller must hold the lock on what is
/// in force.
pub(crate) fn label(lsm: &Arc<Lsm>, policy: &Policy, trust: &Trusted) {
    if !lsm.is_pinned() {
        return;
    }
    let decider = Decider::new(&policy.rules);
    let labels = Labels(Arc::clone(lsm));
    for needed in safety::needed(&decider, trust, &own_programs()) {
        // A file that is gone now will be asked about when it is back.
        let Ok(file) = File::open(&needed.path) else { continue };
        let file = file.as_fd();
        let is_linker =
            || needed.path.canonicalize().is_ok_and(|path| policy.is_linker(path.as_os_str().as_bytes()));
        // The rules may deny executing the linker; programs that name it as their interpreter map it.
        let wanted = if policy.starts() == Starts::Opens && is_linker() { Use::Map } else { needed.wanted };
        if !labels.permits(file, wanted) {
            labels.give(file, wanted, &mut || needed.is_allowed(file, &decider, trust));
        }
    }
}
