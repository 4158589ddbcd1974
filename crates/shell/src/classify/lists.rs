// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packages, hosts and URLs that are known to be bad: Palisade's short list of past incidents, and lists that the user
//! keeps on the machine. Nothing is asked over the network.
//!
//! A list is text: `npm name words`, `pypi name@1.2.3 words`, `npm name>=1.0<1.2.3 words`, `host name words`,
//! `url prefix words`. A file of advisories in OSV's format is turned into one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::trust::{StateError, failed, replace};
use super::version::Versions;

const OWN: &str = include_str!("flagged.list");
/// Larger lists aren't read.
const CAP: u64 = 256 << 20;

/// The names of ecosystems in OSV, and the kinds of packages in lists.
const KINDS: &[(&str, &str)] = &[
    ("npm", "npm"),
    ("PyPI", "pypi"),
    ("crates.io", "crates"),
    ("RubyGems", "gem"),
    ("Go", "go"),
    ("Packagist", "composer"),
];

/// What is known to be bad.
#[derive(Debug, Default)]
pub struct Flagged {
    packages: BTreeMap<String, Vec<Entry>>,
    hosts: BTreeMap<String, String>,
    urls: BTreeMap<String, String>,
}

/// The current lists. They are read at the first lookup, and again after a list has changed.
#[derive(Debug, Default)]
pub(super) struct Known {
    stamp: Option<Stamp>,
    flagged: Flagged,
}

/// The paths of the lists, with their modification times and sizes.
type Stamp = Vec<(PathBuf, SystemTime, u64)>;

impl Known {
    /// What is known to be bad.
    ///
    /// # Errors
    /// When a list can't be read. The next call tries again.
    pub(super) fn now(&mut self, state: Option<&Path>) -> Result<&Flagged, StateError> {
        let stamp = stamp(state);
        if self.stamp.as_ref() != Some(&stamp) {
            self.stamp = None;
            self.flagged = Flagged::load(state)?;
            self.stamp = Some(stamp);
        }
        Ok(&self.flagged)
    }
}

fn stamp(state: Option<&Path>) -> Stamp {
    let Some(state) = state else { return Stamp::new() };
    let entries = std::fs::read_dir(state.join("lists")).into_iter().flatten().flatten();
    let of = |path: PathBuf| {
        let found = std::fs::metadata(&path).ok()?;
        Some((path, found.modified().ok()?, found.len()))
    };
    let mut stamp: Stamp = entries.filter_map(|entry| of(entry.path())).collect();
    stamp.sort();
    stamp
}

#[derive(Debug)]
struct Entry {
    versions: Versions,
    words: String,
}

/// An error about a file that isn't a valid list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// The file can't be read, or the list can't be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A line can't be parsed.
    #[error(
        "{path}:{line}: a list's line begins with npm, pypi, crates, gem, go, composer, host or url, and a name"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// The file looks like advisories but can't be parsed.
    #[error("can't read {path} as advisories in OSV's format: {source}")]
    Advisory {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// The file has no usable name.
    #[error("the file name of {path} can't be the name of a list")]
    Name {
        /// The file.
        path: PathBuf,
    },
}

impl Flagged {
    /// Loads Palisade's own list and those in a state directory.
    ///
    /// # Errors
    /// When a list can't be read.
    pub fn load(state: Option<&Path>) -> Result<Self, StateError> {
        let mut flagged = Self::default();
        flagged.add(OWN);
        let Some(directory) = state.map(|state| state.join("lists")) else { return Ok(flagged) };
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(flagged),
            Err(error) => return Err(failed("read", &directory)(error)),
        };
        for entry in entries {
            let path = entry.map_err(failed("read", &directory))?.path();
            if path.extension().is_some_and(|extension| extension == "list") {
                flagged.add(&read(&path)?);
            }
        }
        Ok(flagged)
    }

    /// Adds a list's lines and skips the invalid ones. Returns the number of the first invalid line, if there is one.
    fn add(&mut self, text: &str) -> Option<usize> {
        let mut first = None;
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.is_empty() && !line.starts_with('#') && self.add_line(line).is_none() {
                first.get_or_insert(number + 1);
            }
        }
        first
    }

    fn add_line(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        let (name, words) = rest.split_once(' ').unwrap_or((rest, ""));
        match kind {
            "host" => drop(self.hosts.insert(name.to_lowercase(), words.to_owned())),
            "url" => drop(self.urls.insert(name.to_owned(), words.to_owned())),
            _ => {
                KINDS.iter().find(|(_, short)| *short == kind)?;
                let (name, versions) = Versions::split(name);
                let entry = Entry { versions, words: words.to_owned() };
                self.packages.entry(key(kind, name)).or_default().push(entry);
            }
        }
        Some(())
    }

    /// Why a package is flagged. Without a version, only if all of its versions or the newest one are flagged.
    #[must_use]
    pub fn package(&self, kind: &str, name: &str, version: Option<&str>) -> Option<&str> {
        let entries = self.packages.get(&key(kind, name))?;
        entries.iter().find(|entry| entry.versions.contain(version)).map(|entry| entry.words.as_str())
    }

    /// Why a host is flagged, by its own name or as part of a domain.
    #[must_use]
    pub fn host(&self, host: &str) -> Option<&str> {
        let host = host.trim_end_matches('.').to_lowercase();
        let mut rest = host.as_str();
        loop {
            if let Some(words) = self.hosts.get(rest) {
                return Some(words);
            }
            rest = rest.split_once('.')?.1;
        }
    }

    /// Why a URL is flagged: a list contains a prefix of it.
    #[must_use]
    pub fn url(&self, url: &str) -> Option<&str> {
        let (prefix, words) = self.urls.range(..=url.to_owned()).next_back()?;
        url.starts_with(prefix.as_str()).then_some(words.as_str())
    }
}

/// In names of Python packages, `_`, `.` and `-` are the same.
fn key(kind: &str, name: &str) -> String {
    match kind {
        "pypi" => format!("pypi {}", name.to_lowercase().replace(['_', '.'], "-")),
        _ => format!("{kind} {name}"),
    }
}

fn read(path: &Path) -> Result<String, StateError> {
    let mut text = String::new();
    let file = File::open(path).map_err(failed("open", path))?;
    file.take(CAP).read_to_string(&mut text).map_err(failed("read", path))?;
    Ok(text)
}

/// Reads a list, or a file of advisories (one, an array of them, or one per line), and stores it in a state directory.
/// It replaces the list of the same name. Returns how many lines the list has.
///
/// # Errors
/// [`ListError`]; the earlier list stays.
pub fn update(state: &Path, source: &Path) -> Result<usize, ListError> {
    let name = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let text = read(source)?;
    take_in(state, source, name, text)
}

/// As [`update`], for a stream, which has no name of its own.
///
/// # Errors
/// [`ListError`]; the earlier list stays.
pub fn update_from(state: &Path, name: &str, stream: impl std::io::Read) -> Result<usize, ListError> {
    let source = Path::new("standard input");
    let mut text = String::new();
    stream.take(CAP).read_to_string(&mut text).map_err(failed("read", source))?;
    take_in(state, source, name, text)
}

fn take_in(state: &Path, source: &Path, name: &str, text: String) -> Result<usize, ListError> {
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(ListError::Name { path: source.to_owned() });
    }
    let text = if text.trim_start().starts_with(['{', '[']) {
        let lines = advisories(&text)
            .map_err(|error| ListError::Advisory { path: source.to_owned(), source: error })?;
        lines.concat()
    } else {
        text
    };
    if let Some(line) = Flagged::default().add(&text) {
        return Err(ListError::Line { path: source.to_owned(), line });
    }
    replace(&state.join("lists").join(format!("{name}.list")), &text)?;
    Ok(text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count())
}

/// Converts advisories in OSV's format to lines of a list.
fn advisories(text: &str) -> Result<Vec<String>, serde_json::Error> {
    let mut lines = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Advisories>() {
        match value? {
            Advisories::Many(many) => many.iter().for_each(|advisory| advisory.lines(&mut lines)),
            Advisories::One(one) => one.lines(&mut lines),
        }
    }
    lines.sort();
    lines.dedup();
    Ok(lines)
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Advisories {
    Many(Vec<Advisory>),
    One(Box<Advisory>),
}

/// The parts of OSV's schema (1.6) that are used here.
#[derive(serde::Deserialize)]
struct Advisory {
    id: String,
    #[serde(default)]
    summary: String,
    withdrawn: Option<String>,
    #[serde(default)]
    affected: Vec<Affected>,
}

#[derive(serde::Deserialize)]
struct Affected {
    package: Option<Package>,
    #[serde(default)]
    versions: Vec<String>,
    #[serde(default)]
    ranges: Vec<OsvRange>,
}

#[derive(serde::Deserialize)]
struct Package {
    ecosystem: String,
    name: String,
}

#[derive(serde::Deserialize)]
struct OsvRange {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    events: Vec<BTreeMap<String, String>>,
}

impl Advisory {
    fn lines(&self, lines: &mut Vec<String>) {
        if self.withdrawn.is_some() {
            return;
        }
        let summary = palisade_text::shown(&self.summary.replace('\n', " ")).at_most(160).to_string();
        let id: String = self.id.chars().filter(char::is_ascii_graphic).collect();
        for affected in &self.affected {
            let Some(package) = &affected.package else { continue };
            let ecosystem = package.ecosystem.split(':').next().unwrap_or_default();
            let Some((_, kind)) = KINDS.iter().find(|(osv, _)| *osv == ecosystem) else { continue };
            if package.name.contains(char::is_whitespace) || package.name.is_empty() {
                continue;
            }
            let mut add =
                |versions: &str| lines.push(format!("{kind} {}{versions} {id} {summary}\n", package.name));
            let mut ranged = false;
            for range in affected.ranges.iter().filter(|range| range.kind != "GIT") {
                let mut from: Option<&String> = None;
                for event in &range.events {
                    ranged = true;
                    if let Some(introduced) = event.get("introduced") {
                        from = Some(introduced);
                    }
                    let end = event.get("fixed").map(|version| ("<", version));
                    let end = end.or_else(|| event.get("last_affected").map(|version| ("<=", version)));
                    if let (Some(from), Some((sign, end))) = (from.take_if(|_| end.is_some()), end) {
                        add(&format!(">={from}{sign}{end}"));
                    }
                }
                match from {
                    Some(from) if from == "0" => add(""),
                    Some(from) => add(&format!(">={from}")),
                    None => {}
                }
            }
            if !ranged {
                affected
                    .versions
                    .iter()
                    .filter(|version| !version.contains(char::is_whitespace))
                    .for_each(|version| add(&format!("@{version}")));
            }
        }
    }
}
