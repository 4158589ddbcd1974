// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports what is enabled, and whether it is still as it was made.

use crate::disk::{self, Content};
use crate::enable::{command, is_current};
use crate::error::DesktopError;
use crate::manifest::{Kind, Made, Manifest, Store};
use crate::mime;
use palisade_host::file::{self, Links};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Whether a file is as it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// As it was made.
    Ours,
    /// It was changed since Palisade made it.
    Changed,
    /// It isn't there.
    Missing,
    /// It is a link to a Palisade that doesn't exist any more.
    Dangling,
    /// Ours, made from a file of the system's that has changed since.
    Outdated,
}

impl State {
    /// Whether it still does what it is for.
    pub const fn works(self) -> bool {
        matches!(self, Self::Ours | Self::Outdated)
    }
}

/// What is enabled for an application.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The profile.
    pub name: String,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether all files are still as they were made.
    pub intact: bool,
    /// Whether some files would be made differently now.
    pub outdated: bool,
    /// The path of Palisade that the files start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "some_lossy")]
    pub binary: Option<PathBuf>,
    /// What was made.
    pub files: Vec<ReportedFile>,
    /// The types of files for which the application was made the default.
    pub defaults: Vec<ReportedDefault>,
    /// The command that repairs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
}

/// A file that was made.
#[derive(Debug, Serialize)]
pub struct ReportedFile {
    /// What it is.
    pub kind: Kind,
    /// Where it is.
    #[serde(serialize_with = "lossy")]
    pub path: PathBuf,
    /// Whether it is as it was made.
    pub state: State,
    /// Where the earlier file is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "some_lossy")]
    pub aside: Option<PathBuf>,
}

/// A type of files for which the application was made the default.
#[derive(Debug, Serialize)]
pub struct ReportedDefault {
    /// The type.
    pub mime: String,
    /// Whether the application is still the default.
    pub holds: bool,
}

/// A path in JSON, which has only text: bytes that aren't UTF-8 are replaced.
fn lossy<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

fn some_lossy<S: serde::Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

/// Reports what is enabled.
pub(crate) fn report(store: &Store, name: &str) -> Result<Report, DesktopError> {
    let manifest = store.read(name).map_err(|source| DesktopError::State { source })?;
    let Some(manifest) = manifest else { return Ok(Report::absent(name)) };
    let mut files = Vec::new();
    for made in &manifest.files {
        let state = state(made).map_err(|error| DesktopError::State { source: error.into() })?;
        let aside =
            made.before.map(|_identity| made.aside()).filter(|aside| aside.symlink_metadata().is_ok());
        files.push(ReportedFile { kind: made.kind, path: made.path.clone(), state, aside });
    }
    let defaults = defaults(&manifest);
    let outdated = files.iter().any(|file| file.state == State::Outdated);
    let intact = files.iter().all(|file| file.state.works());
    let again = (outdated || !intact).then(|| command(name, &manifest.choices));
    Ok(Report {
        name: name.to_owned(),
        enabled: true,
        intact,
        outdated,
        binary: Some(manifest.binary),
        files,
        defaults,
        again,
    })
}

fn state(made: &Made) -> Result<State, disk::DiskError> {
    let Some(seen) = disk::look(&made.path)? else { return Ok(State::Missing) };
    let there = seen.content.filter(|there| made.contents.contains(there));
    Ok(match (there, &made.origin) {
        (None, _) => State::Changed,
        (Some(Content::Link(target)), _) if !target.exists() => State::Dangling,
        (Some(_), Some(origin)) if !is_current(origin) => State::Outdated,
        (Some(_), _) => State::Ours,
    })
}

fn defaults(manifest: &Manifest) -> Vec<ReportedDefault> {
    let text = |file: &Path| {
        let bytes = file::read(file, mime::LARGEST, Links::Follow).unwrap_or_default();
        String::from_utf8(bytes).unwrap_or_default()
    };
    let mut reported = Vec::new();
    for defaults in &manifest.defaults {
        let text = text(&defaults.file);
        reported.extend(
            defaults.edits.types().map(|mime| ReportedDefault {
                mime: mime.to_owned(),
                holds: defaults.edits.hold(&text, mime),
            }),
        );
    }
    reported
}

impl Report {
    fn absent(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            enabled: false,
            intact: false,
            outdated: false,
            binary: None,
            files: Vec::new(),
            defaults: Vec::new(),
            again: None,
        }
    }

    /// Whether it is enabled and does what it is for.
    pub const fn is_good(&self) -> bool {
        self.enabled && self.intact
    }
}
