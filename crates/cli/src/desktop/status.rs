// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is enabled, and whether it is still as it was made.

use super::disk::{self, Content};
use super::enable::{command, is_current};
use super::error::DesktopError;
use super::manifest::{Kind, Made, Manifest, Store};
use super::mime;
use crate::answer;
use palisade_host::file::{self, Links};
use palisade_text::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Whether a file is what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Ours,
    Changed,
    Missing,
    /// A link to a Palisade that isn't there any more.
    Dangling,
    /// Ours, made from a file of the system's that has changed since.
    Outdated,
}

impl State {
    const fn words(self) -> &'static str {
        match self {
            Self::Ours => "",
            Self::Changed => "  changed by somebody",
            Self::Missing => "  missing",
            Self::Dangling => "  leads nowhere",
            Self::Outdated => "  made from a file that has changed",
        }
    }

    /// Whether it does what it is for.
    const fn works(self) -> bool {
        matches!(self, Self::Ours | Self::Outdated)
    }
}

/// An application that is enabled.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    name: String,
    enabled: bool,
    /// Whether all of it is still ours.
    intact: bool,
    /// Whether some of it would be made otherwise now.
    outdated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "some_lossy")]
    binary: Option<PathBuf>,
    files: Vec<ReportedFile>,
    defaults: Vec<ReportedDefault>,
    /// What makes it whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<String>,
}

#[derive(Debug, Serialize)]
struct ReportedFile {
    kind: Kind,
    #[serde(serialize_with = "answer::lossy")]
    path: PathBuf,
    state: State,
    /// Where the file is that was there before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(serialize_with = "some_lossy")]
    aside: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct ReportedDefault {
    mime: String,
    /// Whether the application is still the default.
    holds: bool,
}

fn some_lossy<S: serde::Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.to_string_lossy()).serialize(to)
}

/// What is enabled.
pub(super) fn report(store: &Store, name: &str) -> Result<Report, DesktopError> {
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
    pub(super) const fn is_good(&self) -> bool {
        self.enabled && self.intact
    }

    /// In words.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "{}: {}\n",
            harmless(&self.name),
            match (self.enabled, self.intact) {
                (false, _) => "not enabled",
                (true, true) => "enabled",
                (true, false) => "enabled, but not as it was made",
            }
        );
        for file in &self.files {
            let path = harmless(&file.path.to_string_lossy());
            text.push_str(&format!("  {:<14} {path}{}\n", file.kind.name(), file.state.words()));
            if let Some(aside) = &file.aside {
                text.push_str(&format!("  {:<14} {}\n", "kept aside", harmless(&aside.to_string_lossy())));
            }
        }
        for default in &self.defaults {
            let words = if default.holds { "" } else { "  another application now" };
            text.push_str(&format!("  {:<14} {}{words}\n", "default for", harmless(&default.mime)));
        }
        if let Some(again) = &self.again {
            text.push_str(&format!("  to renew it    {}\n", harmless(again)));
        }
        text
    }
}
