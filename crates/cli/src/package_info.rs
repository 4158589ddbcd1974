// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Describes a package. Any user may have made it, so its texts are escaped.

use palisade_package::error::{PackageError, mebibytes};
use palisade_package::manifest::{Manifest, What};
use palisade_package::trailer::Trailer;
use palisade_protocol::date;
use palisade_sandbox::layers::packed::Definition;
use palisade_text::{Show as _, harmless};
use serde::Serialize;
use std::fmt::Write;
use std::fs::File;

/// What a package is.
#[derive(Debug, Serialize)]
pub(crate) struct Info {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    program: String,
    machine: String,
    palisade: String,
    /// Seconds since 1970.
    made: u64,
    pub(crate) files: usize,
    /// Bytes of the whole program.
    pub(crate) size: u64,
    pub(crate) unpacked_size: u64,
    hash: String,
    features: Vec<String>,
    /// The id of its desktop entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) menu: Option<String>,
    #[serde(skip)]
    icon: bool,
}

impl Info {
    pub(crate) fn of(manifest: &Manifest, trailer: &Trailer, file: &File) -> Result<Self, PackageError> {
        let size = file.metadata().map_err(|source| PackageError::Read { source })?.len();
        Ok(Self {
            name: manifest.name.clone(),
            description: manifest.description.clone(),
            program: String::from_utf8_lossy(&manifest.program).into_owned(),
            machine: manifest.machine.clone(),
            palisade: manifest.palisade.clone(),
            made: manifest.made,
            files: manifest.files(),
            size,
            unpacked_size: manifest.size(),
            hash: trailer.name(),
            features: manifest.definitions.features.iter().map(|feature| feature.name.clone()).collect(),
            menu: manifest.menu.as_ref().map(|menu| menu.id.clone()),
            icon: manifest.menu.as_ref().is_some_and(|menu| menu.icon.is_some()),
        })
    }

    /// The description for people.
    pub(crate) fn words(&self) -> String {
        let described = self.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
        let features = if self.features.is_empty() { "none".to_owned() } else { self.features.join(", ") };
        let menu = match &self.menu {
            Some(id) if self.icon => format!("{id}, with an icon"),
            Some(id) => id.clone(),
            None => "none".to_owned(),
        };
        let mut out = harmless(&format!("{}{described}", self.name)) + "\n";
        for (word, value) in [
            ("program", self.program.clone()),
            ("machine", self.machine.clone()),
            ("made", format!("{} by palisade {}", date::day(self.made), self.palisade)),
            (
                "size",
                format!(
                    "{}, {} files of {}",
                    mebibytes(self.size),
                    self.files,
                    mebibytes(self.unpacked_size)
                ),
            ),
            ("features", features),
            ("menu", menu),
            ("hash", self.hash.clone()),
        ] {
            let _ = writeln!(out, "  {word:<9} {}", harmless(&value));
        }
        out
    }
}

/// The policy of a package, one file after the other.
pub(crate) fn policy(manifest: &Manifest) -> String {
    let mut out = String::new();
    let mut put = |sort: &str, definition: &Definition| {
        let _ = writeln!(out, "# {sort} {}\n{}", harmless(&definition.name), definition.text);
    };
    manifest.definitions.features.iter().for_each(|definition| put("feature", definition));
    manifest.definitions.profiles.iter().for_each(|definition| put("profile", definition));
    out
}

/// The files of a package, one line each.
pub(crate) fn files(manifest: &Manifest) -> String {
    let mut out = String::new();
    for entry in &manifest.entries {
        let path = entry.path().shown();
        let _ = match &entry.what {
            What::Directory { .. } => continue,
            What::File { size, .. } => writeln!(out, "{size:>11} /{path}"),
            What::Link { target } => {
                writeln!(out, "{:>11} /{path} -> {}", "", palisade_text::bytes(target))
            }
        };
    }
    out
}
