// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loader: the process that reads package databases and hashes files, as a user who owns nothing and runs nothing else.
//! palisaded trusts its results only as far as `palisade_guard::trust::loader` says.
//!
//! The loader is this program again, with `--load-trust`. Its standard output is a socket: its order arrives there, and it
//! sends its results there. Its standard input is the database of the last import, which the parent opens because only root
//! may read it.

use palisade_guard::settings::{TrustFrom, TrustSettings};
use palisade_guard::trust::base::Base;
use palisade_guard::trust::filter::Filter;
use palisade_guard::trust::import::{Event, Origin, Request};
use palisade_guard::trust::loader::{self, Limits, Received};
use palisade_guard::trust::rpm;
use palisade_sys::child::spawn_tied;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

/// A user who owns nothing and runs nothing else. Services that run as `nobody` could trace a loader with that user and
/// make it send wrong results.
const NOBODY: u32 = 65533;
/// The most files of one import.
const MOST: u64 = 10_000_000;
/// The longest order, in bytes.
const LONGEST: u64 = 64 << 20;

/// What a loader should read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// All packages of dpkg.
    pub(crate) packages: bool,
    /// All packages of rpm.
    pub(crate) rpm: bool,
    /// Only these packages.
    pub(crate) some: Vec<Vec<u8>>,
    /// The executable files below these directories.
    pub(crate) directories: Vec<PathBuf>,
    /// The text of the filter; if none, Palisade's own filter.
    pub(crate) filter: Option<Vec<u8>>,
    /// Hash also what seems unchanged.
    pub(crate) everything: bool,
}

impl Order {
    /// An order for everything that the settings name.
    pub(crate) fn all(settings: &TrustSettings, filter: Option<Vec<u8>>, everything: bool) -> Self {
        Self {
            // Without dpkg's database there are no packages. That is no error.
            packages: settings.sources.contains(&TrustFrom::Dpkg)
                && Path::new("/var/lib/dpkg/status").exists(),
            // A host may have both, or neither.
            rpm: settings.sources.contains(&TrustFrom::Rpm)
                && matches!(rpm::find(Path::new("/")), Ok(Some(_)) | Err(_)),
            directories: settings.directories.clone(),
            filter,
            everything,
            ..Self::default()
        }
    }

    /// Whether the order is empty.
    pub(crate) fn is_empty(&self) -> bool {
        !self.packages && !self.rpm && self.some.is_empty() && self.directories.is_empty()
    }

    fn request(&self) -> Result<Request, palisade_guard::trust::filter::Error> {
        let mut from = Vec::new();
        if self.packages {
            from.push(Origin::Packages);
        }
        if self.rpm {
            from.push(Origin::Rpm);
        }
        if !self.some.is_empty() {
            from.push(Origin::SomePackages(self.some.clone()));
        }
        from.extend(self.directories.iter().cloned().map(Origin::Executables));
        Ok(Request {
            root: "/".into(),
            filter: self.filter.as_ref().map_or_else(|| Ok(Filter::default()), |text| Filter::parse(text))?,
            from,
            hard: self.everything,
            most: MOST,
            threads: None,
        })
    }
}

/// A loader that runs.
#[derive(Debug)]
pub(crate) struct Loader {
    child: Child,
    received: Received<UnixStream>,
}

impl Loader {
    /// Starts a loader. It doesn't hash files again that look as they do in `previous`.
    pub(crate) fn start(order: &Order, previous: Option<File>) -> io::Result<Self> {
        let (mut ours, theirs) = UnixStream::pair()?;
        // Until its exec the child also holds the gate, and its exec is itself a question.
        let child = spawn_tied(
            Command::new("/proc/self/exe")
                .arg("--load-trust")
                .env_clear()
                .current_dir("/")
                .stdin(previous.map_or_else(Stdio::null, Stdio::from))
                .stdout(OwnedFd::from(theirs))
                .uid(NOBODY)
                .gid(NOBODY),
        )?;
        let text = serde_json::to_vec(order).map_err(io::Error::other)?;
        let loader = Self { child, received: loader::receive(ours.try_clone()?, Limits::default()) };
        ours.write_all(&text)?;
        ours.shutdown(Shutdown::Write)?;
        Ok(loader)
    }
}

impl Loader {
    /// The loader's process number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Iterator for Loader {
    type Item = Result<Event, loader::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.received.next()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// The main function of `--load-trust`: reads the order, imports, sends the results.
pub(crate) fn run() -> ExitCode {
    // Other processes with the same user number must not trace it.
    if let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        return failed(&format!("can't protect itself from other processes: {errno}"));
    }
    let Ok(mut socket) = io::stdout().as_fd().try_clone_to_owned().map(UnixStream::from) else {
        return failed("standard output is closed");
    };
    let mut text = Vec::new();
    let order: Order = match (&socket)
        .take(LONGEST)
        .read_to_end(&mut text)
        .and_then(|_| serde_json::from_slice(&text).map_err(io::Error::other))
    {
        Ok(order) => order,
        Err(error) => return failed(&format!("can't understand the order: {error}")),
    };
    // If standard input is no database, there is no previous import.
    let previous = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let previous = previous.ok().and_then(|file| Base::from_file(file, Path::new("trust.db")).ok());
    if let Err(errno) = rustix::thread::set_no_new_privs(true) {
        return failed(&format!("can't set no_new_privs: {errno}"));
    }
    let request = match order.request() {
        Ok(request) => request,
        Err(error) => return failed(&format!("can't use the import filter: {error}")),
    };
    match loader::serve_loader(&request, previous.as_ref(), &mut socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(reason: &str) -> ExitCode {
    crate::saying::say(&format!("palisaded: the loader: {reason}"));
    ExitCode::FAILURE
}
