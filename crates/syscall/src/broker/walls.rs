// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports refusals that no protected name causes: directories that must keep their names, borders, modes, and files
//! that are shown read-only. They are reported like those of names.
//!
//! Mounts and Landlock refuse by themselves. The broker makes the calls, so it sees their errors. It reports an error
//! if the sandbox is its reason. If the file's permissions would have refused the call anyway, nothing is reported.

use crate::broker::Worker;
use crate::broker::caller::Caller;
use crate::broker::name_policy::Operation;
use crate::broker::report::{Denial, Report};
use crate::broker::resolve::c_string;
use palisade_sys::notify::Notification;
use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};

/// The name for which the present call was judged last.
#[derive(Default)]
pub(super) struct Judged {
    operation: Cell<Option<Operation>>,
    path: RefCell<Vec<u8>>,
    told: Cell<bool>,
}

/// How a file is shown that no process inside can write to.
pub(crate) enum Shut {
    /// A file of the host, with its path there.
    Shown(Vec<u8>),
    /// A placeholder covers the host's file.
    Covered,
    /// It would lie in a directory above the working directory, which exists only inside.
    Above,
}

impl Judged {
    /// Resets the state at the beginning of a call.
    pub(super) fn begin(&self) {
        self.operation.set(None);
        self.told.set(false);
    }

    pub(super) fn note(&self, operation: Operation, path: &[u8]) {
        self.operation.set(Some(operation));
        let mut kept = self.path.borrow_mut();
        kept.clear();
        kept.extend_from_slice(path);
    }

    /// Records that the refusal of the present call was reported.
    pub(super) fn tell(&self) {
        self.told.set(true);
    }
}

impl Worker<'_> {
    /// Reports why a call is refused, and returns the error.
    pub(super) fn deny(&self, caller: &Caller<'_>, inside: &[u8], denial: Denial, errno: Errno) -> Errno {
        self.judged.tell();
        let path = self.shared.name_policy.host_path(inside).unwrap_or_else(|| inside.to_vec());
        self.tell_of(caller, path, denial);
        errno
    }

    fn tell_of(&self, caller: &Caller<'_>, path: Vec<u8>, denial: Denial) {
        self.shared.reporter.tell(&Report::Denied {
            thread: caller.call.thread,
            program: caller.program(),
            path,
            denial,
        });
    }

    /// Handles a call that failed with an error of the kernel's. Reports it if the way the sandbox shows the name is
    /// the reason.
    pub(super) fn tell_of_kernel(&self, call: &Notification, errno: Errno) {
        let Some(operation) = self.judged.operation.get().filter(|_deed| !self.judged.told.get()) else {
            return;
        };
        let inside = self.judged.path.borrow();
        let caller = &Caller::new(self, call);
        match self.shared.name_policy.shut(&inside) {
            Some(Shut::Covered) => self.tell_of(caller, inside.clone(), Denial::Covered),
            Some(Shut::Above) => {
                let directory = directory_of(&inside);
                // A directory that isn't there can't be the reason.
                if is_there(directory) {
                    self.tell_of(caller, inside.clone(), Denial::Above { directory: directory.to_vec() });
                }
            }
            Some(Shut::Shown(host)) => {
                let object = object_of(operation, &inside);
                // The kernel reports a read-only mount before it checks whether the file to remove exists.
                if is_permitted(object)
                    && (!matches!(operation, Operation::Remove { .. }) || is_there(&inside))
                {
                    let rest = inside.len() - object.len();
                    let same = host == *inside;
                    let grant = same.then(|| host[..host.len() - rest].to_vec());
                    let landlock = errno == Errno::ACCESS;
                    self.tell_of(caller, host, Denial::ReadOnly { grant, landlock });
                }
            }
            None => {}
        }
    }
}

/// The file for which a call needs permission: the file itself, or the directory in which a name is made or removed.
fn object_of(operation: Operation, path: &[u8]) -> &[u8] {
    match operation {
        Operation::Change | Operation::Attributes => path,
        Operation::MakeFile if access(path) != Err(Errno::NOENT) => path,
        _ => directory_of(path),
    }
}

fn directory_of(path: &[u8]) -> &[u8] {
    &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0).max(1).min(path.len())]
}

fn access(path: &[u8]) -> Result<(), Errno> {
    rustix::fs::accessat(CWD, &*c_string(path)?, Access::WRITE_OK, AtFlags::empty())
}

fn is_there(path: &[u8]) -> bool {
    c_string(path).is_ok_and(|path| rustix::fs::statat(CWD, &*path, AtFlags::SYMLINK_NOFOLLOW).is_ok())
}

/// Whether a file's owner and mode allow writing. The kernel checks these first (`do_faccessat`) and then for a
/// read-only mount. It doesn't ask Landlock at all.
fn is_permitted(path: &[u8]) -> bool {
    matches!(access(path), Ok(()) | Err(Errno::ROFS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_permission() {
        for (operation, path, object) in [
            (Operation::Change, "/a/b", "/a/b"),
            (Operation::MakeDirectory, "/a/b", "/a"),
            (Operation::MakeFile, "/nothing/b", "/nothing"),
            (Operation::MakeFile, "/dev/null", "/dev/null"),
            (Operation::Remove { directory: true }, "/a", "/"),
        ] {
            assert_eq!(object_of(operation, path.as_bytes()), object.as_bytes(), "{operation:?} {path}");
        }
        assert!(is_permitted(b"/dev/null") && !is_permitted(b"/nothing"));
    }
}
