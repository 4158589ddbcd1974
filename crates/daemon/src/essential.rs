// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host can't do without, labelled before anybody needs it.
//!
//! With `on-death = "closed"` nobody labels any more once the guard has died: what wasn't used before would be refused
//! for ever, also the shell by which somebody sets things right. So these files have their labels from the beginning.

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

/// The guard's own programs.
pub(crate) fn own_programs() -> Vec<PathBuf> {
    std::env::current_exe().into_iter().flat_map(|own| [own.with_file_name("palisade"), own]).collect()
}

/// Labels what of it the rules allow, where labels outlive the guard. Nobody may put something else in force meanwhile.
pub(crate) fn label(lsm: &Arc<Lsm>, policy: &Policy, trust: &Trusted) {
    if !lsm.is_pinned() {
        return;
    }
    let decider = Decider::new(&policy.rules);
    let labels = Labels(Arc::clone(lsm));
    for needed in safety::needed(&decider, trust, &own_programs()) {
        // What is gone by now will be asked about when it is back.
        let Ok(file) = File::open(&needed.path) else { continue };
        let file = file.as_fd();
        let is_linker =
            || needed.path.canonicalize().is_ok_and(|path| policy.is_linker(path.as_os_str().as_bytes()));
        // Rules may say that nobody executes the linker; programs that name it map it.
        let wanted = if policy.starts() == Starts::Opens && is_linker() { Use::Map } else { needed.wanted };
        if !labels.permits(file, wanted) {
            labels.give(file, wanted, &mut || needed.is_allowed(file, &decider, trust));
        }
    }
}
