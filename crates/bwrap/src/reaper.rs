// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Process 1: it reaps the processes of the sandbox, tells the monitor how the command ended, and ends last.

use crate::inside;
use crate::launch::Common;
use crate::monitor::exit_code;
use crate::status;
use crate::words::{Result, because, joined};
use palisade_sys::{family, seccomp, wait};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

/// Waits for every process of the sandbox. Returns the command's exit code.
pub(crate) fn run(common: &Common, command: i32, filters: &[Vec<seccomp::Instruction>]) -> Result<u8> {
    let Common { request, ended, .. } = common;
    inside::keep_capabilities(0, &common.identity)?;
    // What the caller has passed is the command's: a pipe must end when the command closes it.
    let mut kept: Vec<i32> = ended.iter().map(|ended| status::number(ended.as_fd())).collect();
    kept.extend(request.descriptors.sync);
    family::close_all_but(&mut kept).map_err(|errno| because("close_range", errno))?;
    let _locks: Vec<OwnedFd> = request.locks.iter().map(|path| lock(path)).collect::<Result<_>>()?;
    inside::die_with_parent(request)?;
    inside::load(filters)?;
    let mut code = 1;
    loop {
        match wait::any() {
            Ok((pid, change)) if pid == command => {
                code = exit_code(change);
                if let Some(ended) = ended {
                    let value = u64::from(code) + 1;
                    let _the_monitor_has_died = rustix::io::write(ended, &value.to_ne_bytes());
                }
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(code),
            Err(errno) => return Err(because("init wait()", errno)),
        }
    }
}

/// Takes the lock that says that the sandbox uses a file.
fn lock(path: &CStr) -> Result<OwnedFd> {
    let name = |text: &[u8]| joined(&[text, path.to_bytes()]);
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| because(name(b"Unable to open lock file "), errno))?;
    rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockShared)
        .map_err(|errno| because(name(b"Unable to lock file "), errno))?;
    Ok(file)
}
