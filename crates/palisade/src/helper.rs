// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that launches: `palisade` itself.
//!
//! It is looked for in this order: the path that was named, the variable `PALISADE_HELPER`, beside the own executable,
//! then `/usr/local/bin` and `/usr/bin`; never on `PATH`, which a working directory may be on. It is opened once: nobody but root
//! and the caller may be able to write to it or to a directory above it, and what was examined is what is
//! executed, by its descriptor. That it is of the same version is seen at each launch, before anything is started.

use palisade_host::places::{self, TrustError, Trustee};
use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The variable that names it.
const VARIABLE: &str = "PALISADE_HELPER";
/// What it is called.
const NAME: &str = "palisade";
/// Where it is installed.
const INSTALLED: [&str; 2] = ["/usr/local/bin/palisade", "/usr/bin/palisade"];

/// Why there is no program that launches.
#[derive(Debug, thiserror::Error)]
pub enum HelperError {
    /// It is in none of the places.
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
    /// Others could have written it.
    #[error("can't believe {path:?}, which launches sandboxes: {source}")]
    Distrusted {
        /// The program.
        path: PathBuf,
        /// Who could.
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
                format!("ls -ld {} …   # look at who may write to it, then chmod go-w", path.display())
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
    /// Looks for it.
    ///
    /// # Errors
    /// When it is nowhere, or others could have written it.
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

    /// The one at a path.
    ///
    /// # Errors
    /// When it can't be opened, or others could have written it.
    pub fn at(path: &Path) -> Result<Self, HelperError> {
        let open = |source| HelperError::Open { path: path.to_owned(), source };
        let file = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(open)?;
        let uid = rustix::process::geteuid().as_raw();
        // A group of the user's own would do; it isn't asked for, as that takes a look at the host's users.
        let distrusted = |source| HelperError::Distrusted { path: path.to_owned(), source };
        let real = places::check(path, Trustee { uid, private_group: None }).map_err(distrusted)?;
        let (opened, examined) =
            (rustix::fs::fstat(&file).map_err(open)?, rustix::fs::stat(&real).map_err(open)?);
        if (opened.st_dev, opened.st_ino) != (examined.st_dev, examined.st_ino) {
            return Err(open(rustix::io::Errno::STALE));
        }
        Ok(Self { path: real, file: Arc::new(file) })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What executes it, whatever is at its path by then. The child that executes it has the descriptor until then.
    pub(crate) fn program(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }
}
