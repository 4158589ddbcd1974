// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Surveys a host: kinds of files, programs that aren't trusted, file systems that aren't watched.

use crate::facts::{Access, Facts};
use crate::kind::{Recognizer, Stat};
use crate::settings::Watch;
use crate::supposed::{Supposed, Who};
use crate::trusted::Trusted;
use crate::watch::mounts::select;
use palisade_host::mounts;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The kind of the file at a path, as rules write it.
///
/// # Errors
/// If the file can't be opened.
pub fn kind(path: &Path, recognizer: &Recognizer) -> std::io::Result<String> {
    let real = path.canonicalize()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(&real, flags, Mode::empty())?;
    let status = Stat::of(file.as_fd()).map_err(std::io::Error::other)?;
    Ok(recognizer.kind_of(file.as_fd(), real.as_os_str().as_bytes(), status).as_str().to_owned())
}

/// The programs of a `PATH`, by whether they are trusted.
#[derive(Debug, Default)]
pub struct Programs {
    /// How many programs were checked.
    pub looked_at: usize,
    /// Programs that aren't trusted.
    pub untrusted: Vec<PathBuf>,
    /// Programs that this process may not read.
    pub unknown: Vec<PathBuf>,
}

impl Programs {
    /// The programs in the directories of a `PATH`.
    #[must_use]
    pub fn of(path: &OsStr, trust: &Trusted) -> Self {
        let recognizer = Recognizer::own();
        let who = Who::root(Path::new("/bin/sh"));
        let programs = programs(path);
        let mut found = Self { looked_at: programs.len(), ..Self::default() };
        for program in programs {
            match Supposed::new(Access::Execute, &program, &who, trust, &recognizer) {
                Ok(supposed) if supposed.trusted() => {}
                Ok(_) => found.untrusted.push(program),
                Err(_) => found.unknown.push(program),
            }
        }
        found
    }
}

/// The real paths of the executable files in the directories of a `PATH`.
fn programs(path: &OsStr) -> BTreeSet<PathBuf> {
    let mut programs = BTreeSet::new();
    for directory in std::env::split_paths(path).filter(|directory| directory.is_absolute()) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(real) = entry.path().canonicalize() else { continue };
            let may_execute = std::fs::metadata(&real)
                .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0);
            if may_execute {
                programs.insert(real);
            }
        }
    }
    programs
}

/// Mounted file systems by whether they are watched.
#[derive(Debug)]
pub struct Mounts {
    /// A mount point of each watched file system.
    pub watched: Vec<PathBuf>,
    /// The file systems that aren't watched.
    pub unwatched: Vec<Unwatched>,
}

/// A mounted file system that isn't watched.
#[derive(Debug)]
pub struct Unwatched {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// Its type.
    pub kind: String,
    /// Why it isn't watched.
    pub because: &'static str,
    /// The mount has noexec: nothing can be executed there, but interpreters can read its files.
    pub noexec: bool,
}

impl Mounts {
    /// The file systems of a `mountinfo`, by the settings.
    #[must_use]
    pub fn of(mountinfo: &[u8], watch: &Watch) -> Self {
        let mounts = mounts::parse(mountinfo);
        let selection = select(&mounts, watch);
        let unwatched = selection.unwatched.into_iter().map(|(point, because)| {
            // The last mount at a point is the visible one.
            let mount = mounts.iter().rfind(|mount| mount.point == point);
            Unwatched {
                kind: mount.map(|mount| mount.kind.clone()).unwrap_or_default(),
                noexec: mount.is_some_and(|mount| mount.noexec),
                mount: point,
                because,
            }
        });
        Self { unwatched: unwatched.collect(), watched: selection.watched.into_values().collect() }
    }
}
