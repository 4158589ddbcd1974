// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why something about the programs failed.

use std::io;
use std::path::PathBuf;

use crate::class::ObjectClass;

/// Why something about the programs failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's types can't be read: without them the programs can't be fitted to it.
    #[error("read the kernel's types (BTF)")]
    Btf(#[source] libbpf_rs::Error),
    /// The hook is not in the kernel's types: an LSM without BPF, or a kernel older than 6.1.
    #[error("this kernel's LSM has no hook {0}")]
    Hook(&'static str),
    /// The embedded object isn't one.
    #[error("open the embedded eBPF object")]
    Open(#[source] libbpf_rs::Error),
    /// The kernel didn't take the programs.
    #[error("load the eBPF programs{}", said(.log))]
    Load {
        /// The number of the error, where it is known.
        errno: Option<i32>,
        /// What the verifier and libbpf said, its end.
        log: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// A program isn't attached.
    #[error("attach the eBPF program {program}")]
    Attach {
        /// Its name.
        program: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// A program must be attached and isn't, or its pin is gone.
    #[error("the eBPF program {program} is not attached")]
    Unattached {
        /// Its name.
        program: &'static str,
    },
    /// A map that must be there isn't.
    #[error("the eBPF map {0} is missing")]
    Missing(&'static str),
    /// A map wasn't read or written.
    #[error("{operation} in the eBPF map {map}")]
    Map {
        /// What was tried.
        operation: &'static str,
        /// On which map.
        map: &'static str,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// Pinned by another version of this program.
    #[error("what is pinned below {} has layout {found}, this program's is {wanted}", .directory.display())]
    Layout {
        /// Where.
        directory: PathBuf,
        /// The other's.
        found: u32,
        /// Ours.
        wanted: u32,
    },
    /// Something about the pins failed.
    #[error("{operation} {}", .path.display())]
    Pin {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// Something about files failed.
    #[error("{operation} {}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A task has no descriptor.
    #[error("open task {task} by descriptor")]
    Task {
        /// Its number.
        task: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel didn't run a program that was ordered to run.
    #[error("run the eBPF program {program}")]
    Run {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The proof needs a mode in which something is judged.
    #[error("prove that the programs are called: their mode is off")]
    Off,
    /// The programs were asked while they enforce, and what nobody may execute was not refused.
    #[error("prove that the programs are called: they were, and refused nothing")]
    NotRefused,
    /// No directory is fit for the proof's file: all are mounted without the right to execute.
    #[error("prove that the programs are called: no directory in which a file may be executed")]
    NoPlace,
}

/// Why a file was not given a class.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// Not a regular file with a name.
    #[error("classify: it isn't a regular file with a name")]
    NotAFile,
    /// Its file system may change files without the kernel seeing it.
    #[error("classify: the contents of its file system (type {0:#x}) may change unseen")]
    FileSystem(u64),
    /// Somebody has it open for writing.
    #[error("classify: it is open for writing")]
    Writer,
    /// It was changed, or opened to be changed, while it was read.
    #[error("classify as {0:?}: it was changed meanwhile")]
    Changed(ObjectClass),
    /// Its file system has no leases, so nobody can say who writes.
    #[error("classify: take a lease")]
    Lease(#[source] io::Error),
    /// The descriptor tells nothing.
    #[error("classify: read the file's attributes")]
    Stat(#[source] io::Error),
    /// The map wasn't written.
    #[error(transparent)]
    Map(#[from] Error),
}

fn said(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": {}", log.trim_end()) }
}

/// The number of the error below `error`, where the kernel gave one.
///
/// libbpf-rs tells only a kind, and EPERM (the kernel refuses programs here) and EACCES (the verifier refuses this
/// program) are of one kind. The words end with the standard library's `(os error N)`.
pub(crate) fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    let words = format!("{error:#}");
    let (_, number) = words.rsplit_once("(os error ")?;
    number.strip_suffix(')')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use libbpf_rs::ErrorExt;

    use super::*;

    #[test]
    fn numbers_are_found_below_words() {
        for number in [libc::EPERM, libc::EACCES, libc::EOPNOTSUPP] {
            let error = libbpf_rs::Error::from_raw_os_error(number);
            assert_eq!(errno(&error), Some(number));
            let error = libbpf_rs::Error::from_raw_os_error(number).context("load").context("a program");
            assert_eq!(errno(&error), Some(number));
        }
        let none = libbpf_rs::Error::from(io::Error::other("nothing of the kernel's"));
        assert_eq!(errno(&none), None);
    }
}
