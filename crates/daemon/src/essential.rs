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
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The guard's own programs, `palisade` and `palisaded`.
pub(crate) fn own_programs() -> Vec<PathBuf> {
    std::env::current_exe().map_or_else(|_unknown| Vec::new(), |own| installed_with(&own))
}

/// `own`, which is palisaded, and the `palisade` that was installed with it: beside it, or in the `bin` beside its `sbin`.
fn installed_with(own: &Path) -> Vec<PathBuf> {
    // So the kernel calls a program whose file an upgrade has replaced.
    let own = own.as_os_str().as_bytes();
    let own = PathBuf::from(OsStr::from_bytes(own.strip_suffix(b" (deleted)").unwrap_or(own)));
    let in_bin = own.ancestors().nth(2).map(|prefix| prefix.join("bin/palisade"));
    let palisade =
        [Some(own.with_file_name("palisade")), in_bin].into_iter().flatten().find(|path| path.exists());
    palisade.into_iter().chain([own]).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn palisade_is_found_where_packages_and_builds_have_it() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        for directory in ["usr/sbin", "usr/bin", "build"] {
            std::fs::create_dir_all(path(directory)).unwrap();
        }
        for program in ["usr/sbin/palisaded", "usr/bin/palisade", "build/palisaded", "build/palisade"] {
            std::fs::write(path(program), "").unwrap();
        }
        let package = [path("usr/bin/palisade"), path("usr/sbin/palisaded")];
        assert_eq!(installed_with(&path("usr/sbin/palisaded")), package);
        assert_eq!(installed_with(&path("usr/sbin/palisaded (deleted)")), package);
        assert_eq!(
            installed_with(&path("build/palisaded")),
            [path("build/palisade"), path("build/palisaded")]
        );
        std::fs::remove_file(path("build/palisade")).unwrap();
        assert_eq!(installed_with(&path("build/palisaded")), [path("build/palisaded")]);
    }
}
