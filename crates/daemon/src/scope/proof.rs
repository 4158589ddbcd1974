// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether the kernel calls the program at its security hook. Loading and attaching prove nothing: a kernel without
//! `bpf` in `lsm=` accepts the program and never calls it.

use palisade_bpf::scope::{Depth, Outcome, Scope, ScopePrograms, Verdict};
use rustix::io::Errno;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

/// The child's exit status when its exec was refused.
const REFUSED: u8 = 3;
/// The number of the proof's scope. There is no other scope yet.
const SCOPE: u32 = palisade_bpf::scope::SCOPES - 1;

/// Marks a child of this process, lets it execute a program, and returns whether that was refused.
pub(super) fn refuses(programs: &ScopePrograms) -> io::Result<bool> {
    let mut child = Command::new("/proc/self/exe")
        .arg("--prove-refusal")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    // A new child may still be in its first exec, which isn't the one to test. When the child has written something, its
    // first exec is over.
    if let Some(output) = &mut child.stdout {
        output.read_exact(&mut [0])?;
    }
    let before = programs.settings().map_err(io::Error::other)?;
    let result = programs
        .open_scope(&Scope { id: SCOPE, verdict: Verdict::Refuse, ..Scope::default() })
        .and_then(|()| programs.change(|settings| settings.depth = Depth::OneLevel))
        .and_then(|()| programs.mark(child.id(), SCOPE, true));
    drop(child.stdin.take());
    let status = child.wait()?;
    programs.close_scope(SCOPE).map_err(io::Error::other)?;
    programs.change(|settings| settings.depth = before.depth).map_err(io::Error::other)?;
    let marked = result.map_err(io::Error::other)?;
    if marked != Outcome::Done {
        return Err(io::Error::other(format!("can't mark palisaded's test process: {marked:?}")));
    }
    Ok(status.code() == Some(i32::from(REFUSED)))
}

/// The child's main function: waits until it is marked, then executes itself.
pub(crate) fn act() -> ExitCode {
    if io::stdout().write_all(b"\n").and_then(|()| io::stdout().flush()).is_err() {
        return ExitCode::FAILURE;
    }
    let _marked = io::stdin().read_to_end(&mut Vec::new());
    let error = Command::new("/proc/self/exe").arg("--version").exec();
    ExitCode::from(if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) { REFUSED } else { 1 })
}
