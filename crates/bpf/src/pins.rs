// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory where maps and links are pinned. With these pins the programs outlive the process that attached them.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};

use crate::error::Error;

/// `BPF_FS_MAGIC` of `linux/magic.h`.
const BPF_FS: u64 = 0xcafe_4a11;

/// A directory on the BPF file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pins {
    directory: PathBuf,
}

impl Default for Pins {
    fn default() -> Self {
        Self::below("/sys/fs/bpf/palisade/guard")
    }
}

impl Pins {
    /// Pins in a directory other than `/sys/fs/bpf/palisade/guard`: for tests, and for callers with their own BPF file
    /// system.
    #[must_use]
    pub fn below(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into() }
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Whether something is pinned there.
    #[must_use]
    pub fn exist(&self) -> bool {
        self.map("settings").exists()
    }

    pub(crate) fn map(&self, name: &str) -> PathBuf {
        self.directory.join(format!("map-{name}"))
    }

    pub(crate) fn link(&self, program: &str) -> PathBuf {
        self.directory.join(format!("link-{program}"))
    }

    pub(crate) fn program(&self, program: &str) -> PathBuf {
        self.directory.join(format!("program-{program}"))
    }

    /// Makes the directory and calls `pin`. If that fails, no pin is left.
    pub(crate) fn all_or_none(&self, pin: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.prepare()?;
        let result = pin();
        if result.is_err() {
            // Report the first error.
            let _ = self.clear();
        }
        result
    }

    /// Mounts the BPF file system if it isn't mounted. Needed early by a process that can't mount any more when it pins.
    ///
    /// # Errors
    /// If it can't be mounted.
    pub fn mount(&self) -> Result<(), Error> {
        let top = Path::new("/sys/fs/bpf");
        if self.directory.starts_with(top) && !is_bpf(top) {
            mount(
                "bpf",
                top,
                "bpf",
                MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC,
                Some(c"mode=0700"),
            )
            .map_err(|error| failed("mount the BPF file system on", top, error.into()))?;
        }
        Ok(())
    }

    /// Makes the directory, for root only, on a BPF file system.
    fn prepare(&self) -> Result<(), Error> {
        self.mount()?;
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| failed("make the directory", &self.directory, error))
    }

    /// The paths of the pinned links, one for each program.
    pub(crate) fn links(&self) -> Result<Vec<PathBuf>, Error> {
        let entries =
            fs::read_dir(&self.directory).map_err(|error| failed("list", &self.directory, error))?;
        let mut links = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| failed("list", &self.directory, error))?;
            if entry.file_name().as_encoded_bytes().starts_with(b"link-") {
                links.push(entry.path());
            }
        }
        Ok(links)
    }

    /// Removes every pin, links first, and the directory. The kernel detaches what no other process holds.
    ///
    /// Returns how many pins there were; zero is no error.
    ///
    /// # Errors
    /// If a pin can't be removed.
    pub fn clear(&self) -> Result<usize, Error> {
        let entries = match fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(failed("list", &self.directory, error)),
        };
        let mut paths = Vec::new();
        for entry in entries {
            paths.push(entry.map_err(|error| failed("list", &self.directory, error))?.path());
        }
        // "link-" sorts before "map-".
        paths.sort();
        for path in &paths {
            fs::remove_file(path).map_err(|error| failed("unpin", path, error))?;
        }
        fs::remove_dir(&self.directory)
            .map_err(|error| failed("remove the directory", &self.directory, error))?;
        Ok(paths.len())
    }
}

fn is_bpf(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|found| u64::try_from(found.f_type) == Ok(BPF_FS))
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> Error {
    Error::File { operation, path: path.to_owned(), source }
}
