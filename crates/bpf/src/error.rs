// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The errors of loading, attaching and using the eBPF programs.

use std::io;
use std::path::PathBuf;

use crate::class::ObjectClass;

/// Why an operation on the eBPF programs failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's types can't be read. Without them the programs can't be adapted to the kernel.
    #[error("can't read the kernel's types (BTF)")]
    Btf(#[source] libbpf_rs::Error),
    /// The hook is not in the kernel's types: an LSM without BPF, or a kernel older than 6.1.
    #[error("this kernel's LSM has no hook {0}")]
    Hook(&'static str),
    /// The embedded object is invalid.
    #[error("can't open the embedded eBPF object")]
    Open(#[source] libbpf_rs::Error),
    /// The kernel refused the programs.
    #[error("can't load the eBPF programs{}", said(.log))]
    Load {
        /// The error's number, if it is known.
        errno: Option<i32>,
        /// The end of the messages of the verifier and libbpf.
        log: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// A program couldn't be attached.
    #[error("can't attach the eBPF program {program}")]
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
    /// A map couldn't be read or written.
    #[error("can't {operation} the eBPF map {map}")]
    Map {
        /// What was tried.
        operation: &'static str,
        /// The map.
        map: &'static str,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// Another version of this program made the pins.
    #[error("the pins below {} have layout {found}, and this program needs layout {wanted}", .directory.display())]
    Layout {
        /// The directory of the pins.
        directory: PathBuf,
        /// The layout of the pins.
        found: u32,
        /// The layout of this program.
        wanted: u32,
    },
    /// An operation on the pins failed.
    #[error("can't {operation} {}", .path.display())]
    Pin {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// An operation on a file failed.
    #[error("can't {operation} {}", .path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// No descriptor of a task could be opened.
    #[error("can't open task {task} by descriptor")]
    Task {
        /// Its number.
        task: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel didn't run a program on request.
    #[error("can't run the eBPF program {program}")]
    Run {
        /// Its name.
        program: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The proof needs a mode in which accesses are judged.
    #[error("can't test whether the kernel calls the eBPF programs: their mode is off")]
    Off,
    /// The programs were called while they enforce, and didn't refuse a file that no process may execute.
    #[error("the kernel calls the eBPF programs, but they refused nothing")]
    NotRefused,
    /// No directory is suitable for the proof's file: all are mounted `noexec`.
    #[error(
        "can't test whether the kernel calls the eBPF programs: every directory for the test file is mounted noexec"
    )]
    NoPlace,
}

/// Why a file wasn't given a class.
#[derive(Debug, thiserror::Error)]
pub enum ClassifyError {
    /// It isn't a regular file with a name.
    #[error("can't classify the file: it isn't a regular file with a name")]
    NotAFile,
    /// Its file system may change files unseen by the kernel.
    #[error(
        "can't classify the file: its file system (type {0:#x}) can change files without the kernel's notice"
    )]
    FileSystem(u64),
    /// A process has it open for writing.
    #[error("can't classify the file: it is open for writing")]
    Writer,
    /// It was changed, or opened for writing, while it was read.
    #[error("can't classify the file as {0:?}: it was changed meanwhile")]
    Changed(ObjectClass),
    /// Its file system has no leases, so writers can't be detected.
    #[error("can't classify the file: can't take a lease")]
    Lease(#[source] io::Error),
    /// The file's attributes can't be read.
    #[error("can't classify the file: can't read its attributes")]
    Stat(#[source] io::Error),
    /// The map couldn't be written.
    #[error(transparent)]
    Map(#[from] Error),
}

fn said(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!(": {}", log.trim_end()) }
}

/// The number of the error below `error`, if the kernel gave one.
///
/// libbpf-rs reports only a kind of error. EPERM (the kernel refuses programs here) and EACCES (the verifier refuses this
/// program) have the same kind. The text ends with the standard library's `(os error N)`.
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
