// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that reads package databases and hashes files: as a user who owns and runs nothing. What it says is believed only
//! as far as `palisade_guard::trust::loader` says.
//!
//! It is this program again, with `--load-trust`: what it is to do comes over the socket that is its standard output, and
//! what it finds goes there. The database of the last import is its standard input, opened by its parent, because only
//! root may read it.

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

/// Who owns nothing and runs nothing else: as `nobody`, whose services could trace it, it could be made to lie.
const NOBODY: u32 = 65533;
/// The most files of one import.
const MOST: u64 = 10_000_000;
/// The longest order, in bytes.
const LONGEST: u64 = 64 << 20;

/// What a loader is to do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Every package.
    pub(crate) packages: bool,
    /// Every package of rpm.
    pub(crate) rpm: bool,
    /// Only these packages.
    pub(crate) some: Vec<Vec<u8>>,
    /// What can be executed below these.
    pub(crate) directories: Vec<PathBuf>,
    /// The filter's text; without one, Palisade's own.
    pub(crate) filter: Option<Vec<u8>>,
    /// Hash what seems unchanged, too.
    pub(crate) everything: bool,
}

impl Order {
    /// Everything that the settings say.
    pub(crate) fn all(settings: &TrustSettings, filter: Option<Vec<u8>>, everything: bool) -> Self {
        Self {
            // Without dpkg's database there are no packages, which is no mistake.
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

    /// Whether there is nothing to do.
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

/// A loader at work.
#[derive(Debug)]
pub(crate) struct Loader {
    child: Child,
    received: Received<UnixStream>,
}

impl Loader {
    /// Starts one; files that look as they do in `previous` aren't hashed again.
    pub(crate) fn start(order: &Order, previous: Option<File>) -> io::Result<Self> {
        let (mut ours, theirs) = UnixStream::pair()?;
        // Until its exec it holds the gate, too, and the exec is a question.
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
    /// Its process.
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

/// Is the loader: reads the order, imports, tells.
pub(crate) fn run() -> ExitCode {
    // Nor may anybody of the same number look into it.
    if let Err(errno) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        return failed(&format!("can't keep others out: {errno}"));
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
    // Without one it is nothing that begins like a database.
    let previous = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    let previous = previous.ok().and_then(|file| Base::from_file(file, Path::new("trust.db")).ok());
    if let Err(errno) = rustix::thread::set_no_new_privs(true) {
        return failed(&format!("can't give away rights: {errno}"));
    }
    let request = match order.request() {
        Ok(request) => request,
        Err(error) => return failed(&format!("the filter: {error}")),
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
