// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that reads package databases and hashes files: as a user who owns nothing. What it says is believed only
//! as far as `palisade_guard::trust::loader` says.
//!
//! It is this program again, with `--load-trust`: what it is to do is its standard input, what it finds its standard
//! output. The database of the last import is descriptor 3 of its parent's choosing: opened there, because only root
//! may read it.

use palisade_guard::settings::{TrustFrom, TrustSettings};
use palisade_guard::trust::base::Base;
use palisade_guard::trust::filter::Filter;
use palisade_guard::trust::import::{Event, Origin, Request};
use palisade_guard::trust::loader::{self, Limits, Received};
use palisade_guard::trust::rpm;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

/// `nobody`: who owns nothing.
const NOBODY: u32 = 65534;
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
    /// The database of the last import, as `/proc/PID/fd/N` of the parent.
    pub(crate) previous: Option<PathBuf>,
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
    received: Received<ChildStdout>,
}

impl Loader {
    /// Starts one.
    pub(crate) fn start(order: &Order) -> io::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("--load-trust")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .uid(NOBODY)
            .gid(NOBODY)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let mut loader = match pipes {
            Some((mut input, output)) => {
                let loader = Self { child, received: loader::receive(output, Limits::default()) };
                let text = serde_json::to_vec(order).map_err(io::Error::other)?;
                input.write_all(&text)?;
                loader
            }
            None => return Err(io::Error::other("no pipes")),
        };
        // It may have ended already; what it said is then all there is.
        let _still_there = loader.child.try_wait();
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
    let mut text = Vec::new();
    let order: Order = match io::stdin()
        .take(LONGEST)
        .read_to_end(&mut text)
        .and_then(|_| serde_json::from_slice(&text).map_err(io::Error::other))
    {
        Ok(order) => order,
        Err(error) => return failed(&format!("can't understand the order: {error}")),
    };
    // The parent holds it open for as long as this process is at work.
    let previous =
        order.previous.as_ref().and_then(|path| Base::from_file(File::open(path).ok()?, path).ok());
    if let Err(errno) = rustix::thread::set_no_new_privs(true) {
        return failed(&format!("can't give away rights: {errno}"));
    }
    let request = match order.request() {
        Ok(request) => request,
        Err(error) => return failed(&format!("the filter: {error}")),
    };
    match loader::serve_loader(&request, previous.as_ref(), io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string()),
    }
}

fn failed(reason: &str) -> ExitCode {
    crate::journal::say(&format!("palisaded: the loader: {reason}"));
    ExitCode::FAILURE
}
