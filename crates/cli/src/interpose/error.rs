// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a command wasn't started, or why nothing is known about it.

use super::{FAILURE, shown};
use palisade_interpose::fakes::FakeError;
use palisade_interpose::launch::LaunchError;
use palisade_text::quoted;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Why interposition fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InterposeError {
    /// There is no such command.
    #[error("can't find the command {}", shown(name))]
    NotFound {
        /// Its name.
        name: OsString,
    },
    /// It can't be executed.
    #[error("can't execute {path:?}: it is not an executable file, or you may not execute it")]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The program would run with other rights.
    #[error("can't interpose {path:?}: it runs with the rights of its owner, so only root may trace it")]
    OtherRights {
        /// The file.
        path: PathBuf,
    },
    /// A text that can't be passed to a program.
    #[error("an argument or a variable has a zero byte in it")]
    Zero,
    /// The command can't be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// An answer of `--fake` isn't understood.
    #[error(transparent)]
    Fake(#[from] FakeError),
    /// A file can't be written.
    #[error("can't write {path:?}: {source}")]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl InterposeError {
    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::NotFound { name } => {
                Some(format!("type {}   # is it on PATH?", quoted(&name.to_string_lossy())))
            }
            Self::NotExecutable { path } => Some(format!("ls -l {}", quoted(&path.to_string_lossy()))),
            Self::OtherRights { .. } => Some("sudo palisade interpose -- COMMAND…".to_owned()),
            // Without Yama only a tracer can be the reason.
            Self::Launch(LaunchError::Watch(_))
                if !Path::new("/proc/sys/kernel/yama/ptrace_scope").exists() =>
            {
                Some("run it without a tracer such as strace".to_owned())
            }
            Self::Launch(LaunchError::Watch(_)) => {
                Some("cat /proc/sys/kernel/yama/ptrace_scope   # 3 forbids tracing, and so does a tracer such as strace".to_owned())
            }
            Self::Launch(LaunchError::Architecture) => {
                Some("strace -c -f COMMAND   # counts system calls, too".to_owned())
            }
            Self::Write { path, source } => path.parent().map(|above| {
                // A file name alone is in the working directory.
                let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
                let above = quoted(&above.to_string_lossy());
                match source.kind() {
                    ErrorKind::NotFound => format!("mkdir -p {above}"),
                    _ => format!("ls -ld {above}"),
                }
            }),
            Self::Fake(_) => Some("palisade interpose --fake time=2030-01-01 -- date".to_owned()),
            Self::Launch(_) | Self::Zero => None,
        }
    }

    /// The exit code of the verb.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } | Self::Launch(LaunchError::Execute { .. }) => 126,
            _ => FAILURE,
        }
    }
}
