// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starting child processes that end when their parent thread ends.

use crate::raw;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a program that is killed when this thread ends, before its exec as well.
///
/// # Errors
/// As [`Command::spawn`].
pub fn spawn_tied(command: &mut Command) -> io::Result<Child> {
    let parent = std::process::id();
    let tie = move || {
        raw::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL.unsigned_abs() as usize, 0)?;
        // The parent may have ended before this call.
        let is_there =
            rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get().unsigned_abs() == parent);
        if is_there { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: needed to tie the child before exec. Sound: the closure makes two system calls; it neither allocates
    // nor takes locks.
    unsafe { command.pre_exec(tie) };
    command.spawn()
}
