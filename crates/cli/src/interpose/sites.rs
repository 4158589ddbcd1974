// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares the sites of calls that trapped with the sites that a scan of the same files finds.

use palisade_interpose::launch::Found;
use palisade_interpose::scan;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Larger files aren't read: the largest libraries have some hundred megabytes.
const LARGEST: u64 = 1 << 30;

/// The result, by file.
#[derive(Debug, Serialize)]
pub(super) struct Sites {
    files: Vec<File>,
    /// Sites that trapped in no file: in the vDSO, or in code that was written at run time.
    elsewhere: usize,
    /// Sites for which there was no room.
    unlisted: u64,
}

/// A file that was mapped to be executed.
#[derive(Debug, Serialize)]
struct File {
    path: String,
    /// Places in the file that trapped.
    trapped: Vec<u64>,
    /// Places that a scan finds.
    scanned: Vec<u64>,
    /// How many scanned places have known bytes, so that they can be patched.
    known: usize,
    /// Why it wasn't scanned.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<String>,
}

impl File {
    /// Places that both found.
    fn both(&self) -> usize {
        let scanned: BTreeSet<&u64> = self.scanned.iter().collect();
        self.trapped.iter().filter(|place| scanned.contains(place)).count()
    }
}

/// Scans the files that code was executed from.
pub(super) fn compare(found: &Found) -> Sites {
    // One file can appear under two device numbers: on an overlay, /proc names another device than the file has.
    let mut files: BTreeMap<&[u8], BTreeSet<u64>> = BTreeMap::new();
    for file in &found.files {
        files.entry(&file.path).or_default().extend(&file.sites);
    }
    let file = |(path, trapped): (&[u8], BTreeSet<u64>)| {
        let (scanned, unreadable) = match read(Path::new(OsStr::from_bytes(path))) {
            Ok(text) => (scan::sites(&text), None),
            Err(why) => (Vec::new(), Some(why.to_string())),
        };
        File {
            path: String::from_utf8_lossy(path).into_owned(),
            trapped: trapped.into_iter().collect(),
            known: scanned.iter().filter(|site| site.form.is_some()).count(),
            scanned: scanned.iter().map(|site| site.offset).collect(),
            unreadable,
        }
    };
    Sites {
        files: files.into_iter().map(file).collect(),
        elsewhere: found.elsewhere.len(),
        unlisted: found.unlisted,
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let size = std::fs::metadata(path)?;
    if !size.is_file() || size.len() > LARGEST {
        return Err(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "it isn't a regular file of less than 1 GiB",
        ));
    }
    std::fs::read(path)
}

/// As a table.
pub(super) fn write(text: &mut String, sites: &Sites) {
    let _ = writeln!(text, "  trapped   scanned      both     known file");
    for file in &sites.files {
        let (trapped, scanned) = (file.trapped.len(), file.scanned.len());
        let why = file.unreadable.as_ref().map(|why| format!(" (not scanned: {why})")).unwrap_or_default();
        let (both, known) = (file.both(), file.known);
        // The program chose the path, so it is escaped.
        let path = palisade_text::shown(&file.path);
        let _ = writeln!(text, "{trapped:>9} {scanned:>9} {both:>9} {known:>9} {path}{why}");
    }
    let _ = writeln!(text, "{:>9}         -         -         - in no file", sites.elsewhere);
    if sites.unlisted > 0 {
        let _ = writeln!(text, "palisade: note: the list is full: {} more sites are missing", sites.unlisted);
    }
}
