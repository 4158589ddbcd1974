// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists the trust database, and compares it with the disk.

use super::Which;
use crate::guard::{GuardError, Places, count, files};
use crate::output;
use crate::progress::Bar;
use crate::verb::{self, Exit, Failure, NO, YES};
use palisade_guard::facts::{Access, Facts};
use palisade_guard::kind::Recognizer;
use palisade_guard::settings::Settings;
use palisade_guard::supposed::{Supposed, Who};
use palisade_guard::trust::entry::Record;
use palisade_guard::trust::store::Store;
use palisade_guard::trust::trust_file::escape;
use palisade_guard::trust::verify::{Difference, OnDisk, Selection};
use palisade_guard::trusted::Trusted;
use palisade_text::harmless;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Files {
    files: Vec<File>,
}

#[derive(Serialize)]
struct File {
    path: String,
    size: u64,
    digest: String,
    source: String,
}

impl From<&Record> for File {
    fn from(Record { entry, .. }: &Record) -> Self {
        Self {
            path: shown(&entry.path),
            size: entry.size,
            digest: entry.digest.to_string(),
            source: entry.source.to_string(),
        }
    }
}

/// A path as trust files of version 2 write it. The result is always text.
fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(&escape(path)).into_owned()
}

/// The records of a database that `which` selects.
fn selection(store: &Store, which: &Which) -> Result<Selection, Failure> {
    let below = match &which.below {
        Some(path) => {
            let path = path.canonicalize().or_else(|_gone| std::path::absolute(path));
            let path = path.map_err(|source| Failure::Cwd { source })?;
            Some(path.as_os_str().as_bytes().to_vec())
        }
        None => None,
    };
    let sources = |name: &String| {
        Selection::sources(store, name).ok_or_else(|| GuardError::NoSource { name: name.clone() })
    };
    Ok(Selection { sources: which.source.as_ref().map(sources).transpose()?, below })
}

fn records(store: &Store, which: &Which) -> Result<Vec<Record>, Failure> {
    Ok(store.list(&selection(store, which)?).map_err(GuardError::from)?)
}

/// A line for each. Names of files are in them, which can't begin a line of their own.
fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.map(|text| harmless(&text) + "\n").collect()
}

/// Lists what is trusted.
pub(super) fn list(places: &Places, which: &Which, json: bool) -> Exit {
    let store = files::database(places)?;
    let records = records(&store, which)?;
    if json {
        verb::print_json(&Files { files: records.iter().map(File::from).collect() })?;
    } else {
        let line = |Record { entry, .. }: &Record| format!("{}  {}", shown(&entry.path), entry.source);
        verb::print(&lines(records.iter().map(line)))?;
    }
    Ok(YES)
}

/// Prints the database as text.
pub(super) fn dump(places: &Places, which: &Which) -> Exit {
    let store = files::database(places)?;
    let records = records(&store, which)?;
    let line = |Record { entry, .. }: &Record| {
        format!("{} {} {} {}\n", entry.source.kind(), shown(&entry.path), entry.size, entry.digest)
    };
    verb::print(&records.iter().map(line).collect::<String>())?;
    Ok(YES)
}

#[derive(Serialize)]
struct Verified {
    looked_at: u64,
    bytes: u64,
    differences: Vec<Differing>,
}

#[derive(Serialize)]
struct Differing {
    #[serde(flatten)]
    file: File,
    /// `missing`, `unreadable`, `unstable`, `size` or `content`.
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    size_found: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest_found: Option<String>,
}

impl From<&Difference> for Differing {
    fn from(Difference { record, found }: &Difference) -> Self {
        let (what, size_found, digest_found) = match found {
            OnDisk::Missing => ("missing", None, None),
            OnDisk::Unreadable => ("unreadable", None, None),
            OnDisk::Unstable => ("unstable", None, None),
            OnDisk::Other { size, digest } => {
                let what = if *size == record.entry.size { "content" } else { "size" };
                (what, Some(*size), Some(digest.to_string()))
            }
        };
        Self { file: record.into(), what, size_found, digest_found }
    }
}

impl Differing {
    fn words(&self) -> String {
        let File { path, source, size, .. } = &self.file;
        let what = match (self.what, self.size_found) {
            ("missing", _) => "is gone".to_owned(),
            ("unreadable", _) => "can't be read".to_owned(),
            ("unstable", _) => "was changed while it was read".to_owned(),
            ("size", Some(found)) => format!("has {found} bytes instead of {size}"),
            _ => "has another content".to_owned(),
        };
        format!("{path} {what} ({source})")
    }
}

/// Compares the database with the disk.
pub(super) fn verify(places: &Places, which: &Which, json: bool) -> Exit {
    let store = files::database(places)?;
    let selection = selection(&store, which)?;
    let mut bar = Bar::new();
    let mut found = Vec::new();
    let all = store
        .verify(
            Path::new("/"),
            &selection,
            |difference| found.push(difference),
            |progress| {
                let words = format!("{} files, {} MB", progress.done, progress.bytes / 1_000_000);
                bar.show(progress.done, progress.total.max(store.built_records()), &words);
            },
        )
        .map_err(GuardError::from)?;
    drop(bar);
    found.sort_by(|one, other| one.record.cmp(&other.record));
    let differences: Vec<Differing> = found.iter().map(Differing::from).collect();
    let same = differences.is_empty();
    if json {
        verb::print_json(&Verified { looked_at: all.done, bytes: all.bytes, differences })?;
    } else {
        verb::print(&lines(differences.iter().map(Differing::words)))?;
        let all = count(all.done, "trusted file", "trusted files");
        let different = count(differences.len() as u64, "differs", "differ");
        output::say(&format!("{all} hashed, {different}\n"));
        if !same {
            let hint = "sudo palisade guard trust update PATH   # for those that you changed yourself";
            output::say(&format!("hint: {}\n", output::as_typed(hint)));
        }
    }
    Ok(if same { YES } else { NO })
}

#[derive(Serialize)]
struct Checked {
    files: Vec<CheckedFile>,
}

#[derive(Serialize)]
struct CheckedFile {
    path: String,
    trusted: bool,
    /// The sources that trust a file of this path, whatever its content is now.
    sources: Vec<String>,
    /// Whether fs-verity should protect it and doesn't.
    unprotected: bool,
}

/// Prints for each file which sources trust it.
pub(super) fn check(places: &Places, paths: &[PathBuf], json: bool) -> Exit {
    let settings: Settings = files::setup(places, None)?.settings;
    let trust = Trusted::new(Some(files::database(places)?), settings.trust.integrity);
    let recognizer = Recognizer::own();
    let who = Who::root(Path::new("/bin/sh"));
    let mut checked = Vec::new();
    for path in paths {
        let failed = |source| Failure::Read { path: path.clone(), source };
        let supposed = Supposed::new(Access::Open, path, &who, &trust, &recognizer).map_err(failed)?;
        let real = supposed.real_path().as_os_str().as_bytes();
        let mut sources: Vec<String> = Vec::new();
        if let Some(store) = trust.store() {
            store.who(real, |source, _| sources.push(source.to_string())).map_err(GuardError::from)?;
        }
        sources.dedup();
        checked.push(CheckedFile {
            path: shown(real),
            trusted: supposed.trusted(),
            sources,
            unprotected: supposed.lacks_verity(),
        });
    }
    let all = checked.iter().all(|file| file.trusted);
    if json {
        verb::print_json(&Checked { files: checked })?;
    } else {
        let line = |file: &CheckedFile| {
            let by = file.sources.join(", ");
            let verdict = match (file.trusted, file.sources.is_empty()) {
                (true, _) => format!("trusted by {by}"),
                (false, true) => "not trusted".to_owned(),
                (false, false) if file.unprotected => {
                    format!(
                        "not trusted: fs-verity doesn't protect it, which integrity = \"verity\" requires for what {by} trusts"
                    )
                }
                (false, false) => format!("not trusted: it differs from the file that {by} trusts"),
            };
            format!("{}: {verdict}", file.path)
        };
        verb::print(&lines(checked.iter().map(line)))?;
    }
    Ok(if all { YES } else { NO })
}
