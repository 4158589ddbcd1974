// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of one run of the bench: a single directory, which is removed at the end, also after a signal.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;

use crate::launch::Invocation;
use crate::oci::{self, BundleError};
use crate::template::{Places, Template};

/// Why a session can't be prepared or run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("can't create a working directory below {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error("can't prepare {}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("can't watch for signal {signal}")]
    Signal { signal: i32, source: io::Error },
}

/// The signals that end a run early, each with its number.
const SIGNALS: [(i32, usize); 3] =
    [(signal_hook::consts::SIGINT, 2), (signal_hook::consts::SIGTERM, 15), (signal_hook::consts::SIGHUP, 1)];

/// The directories of one run, and whether it was asked to stop.
#[derive(Debug)]
pub(crate) struct Session {
    directory: TempDir,
    stop: Arc<AtomicBool>,
    signal: Arc<AtomicUsize>,
    bundles: Cell<usize>,
}

impl Session {
    /// Creates the session's directory below `base`, or below the first usable default.
    pub(crate) fn create(base: Option<&Path>) -> Result<Self, SessionError> {
        let stop = Arc::new(AtomicBool::new(false));
        let which = Arc::new(AtomicUsize::new(0));
        for (signal, number) in SIGNALS {
            // Register the number before the flag: code that sees the flag finds the number.
            signal_hook::flag::register_usize(signal, Arc::clone(&which), number)
                .map_err(|source| SessionError::Signal { signal, source })?;
            // A flag and no exit: the stack unwinds to `main`, and this removes the directory.
            signal_hook::flag::register(signal, Arc::clone(&stop))
                .map_err(|source| SessionError::Signal { signal, source })?;
        }
        let directory = match base {
            Some(base) => create_below(base)?,
            None => create_in_default()?,
        };
        let session = Self { directory, stop, signal: which, bundles: Cell::new(0) };
        session.populate()?;
        Ok(session)
    }

    /// The directory in which the workloads run. It is writable in every sandbox.
    pub(crate) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// A directory beside it that no sandbox was asked to show. It contains a file `canary`.
    pub(crate) fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// `command` as `template` runs it. Creates the files that this needs.
    pub(crate) fn invocation(
        &self,
        template: &Template,
        command: &[String],
    ) -> Result<Invocation, SessionError> {
        let number = self.bundles.get();
        let places = Places {
            work: self.work(),
            root: self.root(),
            bundle: self.scratch().join(format!("bundle-{number}")),
            settings: self.settings(),
        };
        if template.wants_bundle() {
            oci::write(&places.bundle, command, &places.work, &places.root)?;
            self.bundles.set(number + 1);
        }
        Ok(Invocation {
            argv: template.fill(command, &places),
            directory: places.work,
            variables: Vec::new(),
        })
    }

    /// A root file system that contains only mount points, for launchers that need one.
    fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }

    /// The settings by which sandboxes for agents make the working directory writable and allow the same host as
    /// `palisade --allow example.com`. All of them read the same format.
    fn settings(&self) -> PathBuf {
        self.directory.path().join("settings.json")
    }

    /// The directory for files of the bench itself.
    pub(crate) fn scratch(&self) -> &Path {
        self.directory.path()
    }

    /// The flag that SIGINT, SIGTERM or SIGHUP sets.
    pub(crate) fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// The number of the signal that arrived.
    pub(crate) fn signal(&self) -> Option<u8> {
        u8::try_from(self.signal.load(Ordering::Relaxed)).ok().filter(|&number| number > 0)
    }

    fn populate(&self) -> Result<(), SessionError> {
        let prepare = |path: PathBuf, result: io::Result<()>| {
            result.map_err(|source| SessionError::Prepare { path, source })
        };
        for directory in [self.work(), self.outside(), self.root()] {
            prepare(directory.clone(), fs::create_dir(&directory))?;
        }
        let canary = self.outside().join("canary");
        prepare(canary.clone(), fs::write(&canary, "canary\n"))?;
        let settings = serde_json::json!({
            "network": { "allowedDomains": ["example.com"], "deniedDomains": [] },
            "filesystem": { "denyRead": [], "allowWrite": [self.work()], "denyWrite": [] },
        });
        prepare(self.settings(), fs::write(self.settings(), settings.to_string()))?;
        for name in ["dev", "etc", "proc", "tmp", "usr", "var"] {
            let path = self.root().join(name);
            prepare(path.clone(), fs::create_dir(&path))?;
        }
        for name in ["bin", "lib", "lib64", "sbin"] {
            let path = self.root().join(name);
            prepare(path.clone(), symlink(Path::new("usr").join(name), &path))?;
        }
        // The working directory has the same path inside, so that one command line suits every launcher.
        let work = self.work();
        let mount_point = self.root().join(work.strip_prefix("/").unwrap_or(&work));
        prepare(mount_point.clone(), fs::create_dir_all(&mount_point))
    }
}

fn create_below(base: &Path) -> Result<TempDir, SessionError> {
    let error = |source| SessionError::Create { path: base.to_owned(), source };
    fs::create_dir_all(base).map_err(error)?;
    let base = base.canonicalize().map_err(error)?;
    tempfile::Builder::new().prefix("palisade-bench-").tempdir_in(base).map_err(error)
}

/// Avoids /tmp and /var/tmp if possible: many sandboxes replace both, and the workload would not find its directory. Root's
/// home doesn't work either (firejail hides /root and /home from root), so root uses the system's cache directory.
fn create_in_default() -> Result<TempDir, SessionError> {
    let cache = if rustix::process::geteuid().is_root() {
        Some(PathBuf::from("/var/cache"))
    } else {
        std::env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
    };
    let fallback = Path::new("/var/tmp");
    match cache {
        Some(cache) => create_below(&cache).or_else(|_| create_below(fallback)),
        None => create_below(fallback),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_nothing_behind() {
        let base = tempfile::tempdir().unwrap();
        let session = Session::create(Some(base.path())).unwrap();
        assert!(session.work().is_dir() && session.outside().join("canary").is_file());
        assert!(!session.stop().load(std::sync::atomic::Ordering::Relaxed));
        drop(session);
        assert_eq!(fs::read_dir(base.path()).unwrap().count(), 0);
    }
}
