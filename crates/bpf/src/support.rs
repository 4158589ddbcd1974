// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether this kernel accepts the guard's programs, and proves that it calls them.
//!
//! Loading and attaching prove nothing: a kernel without `bpf` in `lsm=` accepts the programs and never calls them.

use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::class::{Access, Mode, ObjectClass};
use crate::error::{ClassifyError, Error};
use crate::guard::GuardPrograms;

/// Whether the programs are available here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// The programs load. This doesn't prove that the kernel calls them: use [`GuardPrograms::prove`].
    Loads,
    /// They don't load, for a reason that is expected of some kernels or callers.
    Absent(Absence),
}

/// Why the programs aren't available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// EPERM to a process that isn't root.
    NotRoot,
    /// EPERM to root: a lockdown, a container, or a kernel that lets no process attach to its LSM.
    Refused,
    /// The kernel has no types of its own (`CONFIG_DEBUG_INFO_BTF`), or `/sys` isn't mounted.
    NoTypes,
    /// The kernel's LSM has no hooks for programs (`CONFIG_BPF_LSM`), or lacks some of them.
    NoHook,
    /// `bpf` is not among the kernel's security modules (`lsm=`). Newer kernels then refuse inode storage. Older ones
    /// accept everything and call nothing, which the proof detects.
    NotListed,
}

impl std::fmt::Display for Absence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotRoot => "eBPF programs can only be loaded by root",
            Self::Refused => "the kernel refuses programs for its security hooks (lockdown, or a container)",
            Self::NoTypes => "the kernel doesn't describe its types (/sys/kernel/btf/vmlinux)",
            Self::NoHook => "the kernel's security hooks accept no eBPF programs",
            Self::NotListed => "bpf is not among the kernel's security modules (lsm= on its command line)",
        })
    }
}

/// Tries to load the programs, and drops them.
///
/// # Errors
/// Any error that isn't an expected refusal. A refusal by the verifier is a bug, not a kernel without eBPF.
pub fn probe() -> Result<Support, Error> {
    match GuardPrograms::load() {
        Ok(_) => Ok(Support::Loads),
        Err(error) => absence(&error).map(Support::Absent).ok_or(error),
    }
}

/// The expected refusal that an error of [`GuardPrograms::load`] means, if any.
#[must_use]
pub fn absence(error: &Error) -> Option<Absence> {
    match error {
        // This covers both a read of the types here and a search by libbpf.
        Error::Btf(_) | Error::Load { .. } if !Path::new("/sys/kernel/btf/vmlinux").exists() => {
            Some(Absence::NoTypes)
        }
        Error::Hook(_) => Some(Absence::NoHook),
        Error::Load { errno: Some(libc::EPERM), .. } if rustix::process::geteuid().is_root() => {
            Some(Absence::Refused)
        }
        Error::Load { errno: Some(libc::EPERM), .. } => Some(Absence::NotRoot),
        // A container may filter the system call.
        Error::Load { errno: Some(libc::ENOSYS), .. } => Some(Absence::Refused),
        // If the kernel answers EOPNOTSUPP, libbpf tries again without BTF and reports the second answer, EINVAL.
        Error::Load { errno: Some(libc::EINVAL | libc::EOPNOTSUPP), .. } if listed() == Some(false) => {
            Some(Absence::NotListed)
        }
        _ => None,
    }
}

fn listed() -> Option<bool> {
    modules().map(|names| names.iter().any(|name| name == "bpf"))
}

/// The names in `/sys/kernel/security/lsm`, in the kernel's order; `None` if the file can't be read.
#[must_use]
pub fn modules() -> Option<Vec<String>> {
    let list = fs::read_to_string("/sys/kernel/security/lsm").ok()?;
    Some(list.trim().split(',').map(str::to_owned).collect())
}

/// What happened to an exec that no matrix allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// It was refused.
    Refused,
    /// It was noticed, and happened because the mode is permissive.
    Seen,
    /// The kernel never called the programs: they are attached but not in force.
    NotCalled {
        /// Whether the kernel lists `bpf` among its security modules; `None` if the list can't be read.
        listed: Option<bool>,
    },
}

impl Proof {
    /// Whether the programs are called.
    #[must_use]
    pub fn in_force(self) -> bool {
        !matches!(self, Self::NotCalled { .. })
    }
}

/// A comment for a shell, and invalid for the kernel: executing it has no effect even if it isn't refused.
const HARMLESS: &[u8] = b"# palisade asks whether its programs are called\n";

/// A child that another thread forks may hold our descriptor for a moment.
const ATTEMPTS: u32 = 20;

impl GuardPrograms {
    /// Executes a file of its own that no matrix allows, and checks what the programs did about it.
    ///
    /// The file is made in the first of `directories` where a file may be executed and have a class.
    ///
    /// # Errors
    /// If the mode is off, no directory is suitable, or the counters can't be read.
    pub fn prove(&self, directories: &[&Path]) -> Result<Proof, Error> {
        let mode = self.mode()?;
        if mode == Mode::Off {
            return Err(Error::Off);
        }
        for directory in directories {
            let path = directory.join(format!(".palisade-proof-{}", std::process::id()));
            let result = self.prove_by(&path, mode);
            // The file may not exist.
            let _ = fs::remove_file(&path);
            if let Some(proof) = result? {
                return Ok(proof);
            }
        }
        Err(Error::NoPlace)
    }

    /// `None` if the directory prevents executing the file.
    fn prove_by(&self, path: &Path, mode: Mode) -> Result<Option<Proof>, Error> {
        let failed = |operation, source| Error::File { operation, path: PathBuf::from(path), source };
        let written = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(path)
            .and_then(|mut file| file.write_all(HARMLESS));
        if written.is_err() {
            return Ok(None);
        }
        let file = fs::File::open(path).map_err(|error| failed("open", error))?;
        for _ in 0..ATTEMPTS {
            match self.classify(file.as_fd(), ObjectClass::PROOF) {
                Ok(()) => {}
                Err(ClassifyError::Writer) => {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Err(ClassifyError::Map(error)) => return Err(error),
                Err(_) => return Ok(None),
            }
            let before = self.seen()?;
            let result =
                Command::new(path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let called = self.seen()? > before;
            match result {
                Err(error) if error.raw_os_error() == Some(libc::EPERM) && called => {
                    return Ok(Some(Proof::Refused));
                }
                Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                Err(error) if error.raw_os_error() == Some(libc::EACCES) && !called => return Ok(None),
                Ok(mut child) => {
                    child.wait().map_err(|error| failed("wait for", error))?;
                }
                Err(_) => {}
            }
            return match (called, mode) {
                (false, _) => Ok(Some(Proof::NotCalled { listed: listed() })),
                (true, Mode::Enforce) => Err(Error::NotRefused),
                (true, _) => Ok(Some(Proof::Seen)),
            };
        }
        Err(failed("execute", io::ErrorKind::ExecutableFileBusy.into()))
    }

    fn seen(&self) -> Result<u64, Error> {
        let (allowed, refused) = self.counts(Access::Execute, ObjectClass::PROOF)?;
        Ok(allowed + refused)
    }
}
