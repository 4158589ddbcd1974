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
/// Longer lists aren't read.
const CAP: u64 = 256 << 20;

/// What a package manager's packages are called in lists.
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

/// The lists as they are now: read when they are first asked about, and again when one has changed.
#[derive(Debug, Default)]
pub(super) struct Known {
    stamp: Option<Stamp>,
    flagged: Flagged,
}

/// Which lists there are, when each was changed, and how long it is.
type Stamp = Vec<(PathBuf, SystemTime, u64)>;

impl Known {
    /// What is known to be bad.
    ///
    /// # Errors
    /// When a list can't be read; the next time it is tried again.
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

/// A file that is no list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// It can't be read, or the list can't be written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A line means nothing.
    #[error(
        "{path}:{line}: a list's line begins with npm, pypi, crates, gem, go, composer, host or url, and a name"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
    },
    /// It looks like advisories and can't be understood.
    #[error("{path} is no file of advisories in OSV's format: {source}")]
    Advisory {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: serde_json::Error,
    },
    /// It is named like nothing.
    #[error("{path} has no name that a list could have")]
    Name {
        /// The file.
        path: PathBuf,
    },
}

impl Flagged {
    /// Palisade's own list, and those in a state directory.
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

    /// Adds a list's lines; what means nothing is passed over. The count of those is given back, and the first's number.
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

    /// Why a package is flagged; without a version if all of its are, or the newest.
    #[must_use]
    pub fn package(&self, kind: &str, name: &str, version: Option<&str>) -> Option<&str> {
        let entries = self.packages.get(&key(kind, name))?;
        entries.iter().find(|entry| entry.versions.contain(version)).map(|entry| entry.words.as_str())
    }

    /// Why a host is flagged, itself or as part of a domain.
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

    /// Why a URL is flagged: one that begins so is in a list.
    #[must_use]
    pub fn url(&self, url: &str) -> Option<&str> {
        let (prefix, words) = self.urls.range(..=url.to_owned()).next_back()?;
        url.starts_with(prefix.as_str()).then_some(words.as_str())
    }
}

/// Names of Python's packages are the same with `_`, `.` and `-`.
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

/// Takes a list, or a file of advisories (one, an array of them, or one a line), into a state directory, in the place of
/// the list of the same name. Gives back how many lines the list has.
///
/// # Errors
/// [`ListError`]; the list that was there stays.
pub fn update(state: &Path, source: &Path) -> Result<usize, ListError> {
    let name = source.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let text = read(source)?;
    take_in(state, source, name, text)
}

/// [`update`] of what is read from a stream, which has no name by itself.
///
/// # Errors
/// [`ListError`]; the list that was there stays.
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

/// The lines of a list for advisories in OSV's format.
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

/// What of OSV's schema (1.6) matters here.
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
