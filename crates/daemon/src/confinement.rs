// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The seccomp filter that the daemon installs after its start, for itself and for the processes that it starts. The list is
//! `data/guard.list` of the crate `syscall`.
//!
//! A compromised daemon still has its descriptors and capabilities. The filter limits which parts of the kernel these can
//! be used on, for every thread and for the processes that the daemon starts: the reader of packages, and the standby.

use palisade_sys::seccomp::{self, Probe};
use palisade_syscall::confined::{Confined, Outside};
use palisade_syscall::{Arch, Syscall};
use rustix::io::Errno;
use std::io::{self, Write};
use std::process::ExitCode;

/// What becomes of calls that aren't on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OtherCalls {
    /// They fail, and the kernel logs them.
    Refuse,
    /// They end the process.
    Kill,
    /// They are made: there is no filter.
    Allow,
}

/// Why the filter isn't in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfinementError {
    /// The list of system calls can't be used.
    #[error("the list of system calls can't be used: {0}")]
    List(#[from] palisade_syscall::Error),
    /// The kernel refuses the filter.
    #[error("the kernel refuses the seccomp filter: {0}")]
    Install(#[from] Errno),
}

/// Installs the filter for every present and future thread.
///
/// # Errors
/// When the kernel refuses the filter. The daemon can run without it.
pub(crate) fn begin(other: OtherCalls) -> Result<(), ConfinementError> {
    let outside = match other {
        OtherCalls::Refuse => Outside::Refused,
        OtherCalls::Kill => Outside::Kills,
        OtherCalls::Allow => return Ok(()),
    };
    let confined = Confined::new(outside, Arch::NATIVE)?;
    seccomp::no_new_privileges()?;
    seccomp::install_everywhere(&confined.quiet.program, false)?;
    Ok(seccomp::install_everywhere(&confined.told.program, true)?)
}

/// System calls that an attacker in a compromised daemon would make. The arguments are such that each call has no effect.
const TRIED: &[(&str, [u64; 6])] = &[
    ("ptrace", [1, 0, 0, 0, 0, 0]),
    ("process_vm_writev", [0, 0, 0, 0, 0, 1]),
    ("pidfd_getfd", [u64::MAX, 0, 0, 0, 0, 0]),
    ("init_module", [0; 6]),
    ("kexec_load", [0, 0, 0, u64::MAX, 0, 0]),
    ("reboot", [0; 6]),
    ("mount", [0; 6]),
    ("umount2", [0; 6]),
    ("open_tree", [u64::MAX, 0, u64::MAX, 0, 0, 0]),
    ("pivot_root", [0; 6]),
    ("chroot", [0; 6]),
    ("swapon", [0; 6]),
    ("settimeofday", [1, 0, 0, 0, 0, 0]),
    ("keyctl", [0xffff, 0, 0, 0, 0, 0]),
    ("userfaultfd", [0xffff, 0, 0, 0, 0, 0]),
    ("io_uring_setup", [0; 6]),
    ("personality", [0xffff_ffff, 0, 0, 0, 0, 0]),
    ("unshare", [0; 6]),
    ("setns", [u64::MAX, 0, 0, 0, 0, 0]),
    // CLONE_NEWNS with CLONE_FS.
    ("clone", [0x0002_0200, 0, 0, 0, 0, 0]),
    ("clone3", [0; 6]),
    // AF_INET, AF_NETLINK.
    ("socket", [2, 1, 0, 0, 0, 0]),
    ("socket", [16, 3, 0, 0, 0, 0]),
    ("bind", [u64::MAX, 0, 0, 0, 0, 0]),
    // Memory that is writable and executable.
    ("mmap", [0, 4096, 7, 0x22, u64::MAX, 0]),
    ("mprotect", [0, 4096, 4, 0, 0, 0]),
    // TIOCSTI.
    ("ioctl", [u64::MAX, 0x5412, 0, 0, 0, 0]),
    // PR_SET_KEEPCAPS.
    ("prctl", [8, 7, 0, 0, 0, 0]),
];

/// Tries these calls in child processes under the filter, and reports the result of each.
pub(crate) fn prove(other: OtherCalls) -> ExitCode {
    if let Err(error) = begin(other) {
        crate::saying::say(&format!("palisaded: error: {error}"));
        return ExitCode::FAILURE;
    }
    for (name, arguments) in TRIED {
        let number = name.parse().ok().and_then(|call: Syscall| call.number(Arch::NATIVE));
        let became = match number.map(|number| seccomp::probe_call(number, *arguments)) {
            Some(Ok(Probe::Failed(errno))) => format!("errno {}", errno.raw_os_error()),
            Some(Ok(Probe::Returned(_))) => "made".to_owned(),
            Some(Ok(Probe::Ended(signal))) => format!("signal {signal}"),
            Some(Err(errno)) => format!("not tried: {errno}"),
            None => "unknown".to_owned(),
        };
        if writeln!(io::stdout(), "{name}: {became}").is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
