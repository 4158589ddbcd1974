// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the program that launches sandboxes: `palisade` itself.
//!
//! The search order is: the path that the caller names, the variable `PALISADE_HELPER`, the directory of this process's
//! executable, then `/usr/local/bin` and `/usr/bin`. `PATH` isn't searched, because a working directory may be in it.
//! The file is opened once: only root and the caller may be able to write to it or to a directory above it, and the
//! descriptor of the examined file is executed. Before anything is started, each launch checks that the program has the
//! same version as this library.

use palisade_host::places::{self, TrustError, Trustee};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable that names the program.
const VARIABLE: &str = "PALISADE_HELPER";
/// The program's name.
const NAME: &str = "palisade";
/// The paths at which the program is installed.
const INSTALLED: [&str; 2] = ["/usr/local/bin/palisade", "/usr/bin/palisade"];

/// Why the program that launches can't be found.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It is at none of the paths.
    #[error("can't find the program palisade, which launches sandboxes: it is not at {}", shown(.tried))]
    Missing {
        /// Where it was looked for.
        tried: Vec<PathBuf>,
    },
    /// It can't be opened.
    #[error("can't open {path:?}, which launches sandboxes: {source}")]
    Open {
        /// The program.
        path: PathBuf,
        /// Why.
        source: rustix::io::Errno,
    },
    /// Other users could have written it.
    #[error("refusing {path:?}, which launches sandboxes: {source}")]
    Distrusted {
        /// The program.
        path: PathBuf,
        /// Which users could have.
        source: TrustError,
    },
}

fn shown(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

impl HelperError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } | Self::Open { .. } => {
                format!("{VARIABLE}=/path/to/palisade   # or Sandbox::helper, or install it in /usr/bin")
            }
            Self::Distrusted { path, .. } => {
                format!(
                    "namei -l {}   # shows each part; then: chmod go-w PART",
                    palisade_text::quoted(&path.to_string_lossy())
                )
            }
        }
    }
}

/// The program that launches, examined and open.
#[derive(Debug, Clone)]
pub struct Helper {
    path: PathBuf,
    file: Arc<OwnedFd>,
}

impl Helper {
    /// Looks for the program.
    ///
    /// # Errors
    /// When it is at none of the paths, or other users could have written it.
    pub fn find() -> Result<Self, HelperError> {
        if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
            return Self::at(Path::new(&named));
        }
        let own = std::env::current_exe().ok();
        let beside = own.as_deref().and_then(Path::parent).map(|directory| directory.join(NAME));
        let tried: Vec<PathBuf> = beside.into_iter().chain(INSTALLED.map(PathBuf::from)).collect();
        match tried.iter().find(|path| path.is_file()) {
            Some(path) => Self::at(path),
            None => Err(HelperError::Missing { tried }),
        }
    }

    /// The program at a path.
    ///
    /// # Errors
    /// When it can't be opened, or other users could have written it.
    pub fn at(path: &Path) -> Result<Self, HelperError> {
        let open = |source| HelperError::Open { path: path.to_owned(), source };
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(open)?;
        let uid = rustix::process::geteuid().as_raw();
        // A private group of the user would be acceptable, too. Checking that would need the host's list of users.
        let distrusted = |source| HelperError::Distrusted { path: path.to_owned(), source };
        let real = places::check(path, Trustee { uid, private_group: None }).map_err(distrusted)?;
        let (opened, examined) =
            (rustix::fs::fstat(&file).map_err(open)?, rustix::fs::stat(&real).map_err(open)?);
        if (opened.st_dev, opened.st_ino) != (examined.st_dev, examined.st_ino) {
            return Err(open(rustix::io::Errno::STALE));
        }
        Ok(Self { path: real, file: Arc::new(file) })
    }

    /// The program's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path to execute it by: the open file, even if its path leads elsewhere by then. The child has the descriptor
    /// until it executes it.
    pub(crate) fn program(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}
