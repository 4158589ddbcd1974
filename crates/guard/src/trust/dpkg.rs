// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads dpkg's database: which files belong to which package, and with which MD5.
//!
//! It reads `status` (the installed packages, and the MD5s of configuration files), `diversions`, and each package's
//! `list` and `md5sums` in `info`. The formats are those of deb(5), dpkg(1) and dpkg-divert(1). Files for which no
//! package has an MD5, because a maintainer script made them, are not trusted.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::entry::from_hexadecimal;
use super::real_path::below;

/// Where the database is, below the root directory.
const DIRECTORY: &[u8] = b"/var/lib/dpkg";
/// The largest database file that is read, in bytes.
const LARGEST: u64 = 256 << 20;

/// dpkg's database can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of the database.
    #[error("can't read {path} of dpkg's database: {source}")]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A database file is far larger than it can be.
    #[error("{path} of dpkg's database has {size} bytes, more than {LARGEST}")]
    TooLarge {
        /// Which one.
        path: PathBuf,
        /// How large it is.
        size: u64,
    },
}

/// An installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name, with the architecture if there can be several: `bash`, `libc6:amd64`.
    pub name: Vec<u8>,
    /// The MD5s of its configuration files.
    configuration: Vec<(Vec<u8>, [u8; 16])>,
}

/// A file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its path, with diversions applied; links aren't resolved.
    pub path: Vec<u8>,
    /// Its MD5, if the package gives one. Directories and links have none.
    pub md5: Option<[u8; 16]>,
}

/// The packages that have changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Packages that were installed, upgraded or configured.
    pub installed: Vec<Vec<u8>>,
    /// Packages that are gone.
    pub removed: Vec<Vec<u8>>,
}

/// dpkg's database.
#[derive(Debug)]
pub struct Database {
    root: PathBuf,
    packages: Vec<Package>,
    /// For a path: where a package's file goes instead, unless it belongs to the package of that name.
    diversions: HashMap<Vec<u8>, (Vec<u8>, Vec<u8>)>,
}

impl Database {
    /// Reads which packages are installed below `root`.
    ///
    /// # Errors
    ///
    /// If there is no dpkg database, or it can't be read.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let directory = below(root, DIRECTORY);
        let info = directory.join("info");
        let failed = |source| Error::Read { path: info.clone(), source };
        let mut names = HashSet::new();
        for entry in fs::read_dir(&info).map_err(failed)? {
            names.insert(entry.map_err(failed)?.file_name().as_bytes().to_vec());
        }
        let mut packages = parse_status(&read(&directory.join("status"))?, &names);
        packages.extend(under_way(&packages, &names));
        let diversions = match read(&directory.join("diversions")) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => HashMap::new(),
            other => parse_diversions(&other?),
        };
        Ok(Self { root: root.into(), packages, diversions })
    }

    /// The installed packages, and those that dpkg is installing.
    #[must_use]
    pub fn packages(&self) -> &[Package] {
        &self.packages
    }

    /// The package of this name: one that `status` lists as installed, or one that has a list but isn't in `status`
    /// yet, because dpkg keeps its latest changes in `updates` for a while. Its files with an MD5 exist already.
    #[must_use]
    pub fn package(&self, name: &[u8]) -> Option<Package> {
        if let Some(package) = self.packages.iter().find(|package| package.name == name) {
            return Some(package.clone());
        }
        let is_there = !name.contains(&b'/') && info(&self.root, name, b".list").exists();
        is_there.then(|| Package { name: name.to_vec(), configuration: Vec::new() })
    }

    /// A package's files; empty if the package was removed in the meantime.
    ///
    /// # Errors
    ///
    /// If its list can't be read.
    pub fn files(&self, package: &Package) -> Result<Vec<Listed>, Error> {
        let read_if_there = |what| match read(&info(&self.root, &package.name, what)) {
            Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            other => other,
        };
        let (list, sums) = (read_if_there(b".list")?, read_if_there(b".md5sums")?);
        let mut sums = parse_sums(&sums);
        sums.extend(package.configuration.iter().cloned());
        let base = package.name.split(|byte| *byte == b':').next().unwrap_or_default();
        Ok(paths(&list)
            .map(|line| {
                let path = self.place(line, base);
                Listed { path: path.to_vec(), md5: sums.get(line).copied() }
            })
            .collect())
    }

    /// Where a file is that the list of the package `base` has in this line.
    fn place<'a>(&'a self, line: &'a [u8], base: &[u8]) -> &'a [u8] {
        match self.diversions.get(line) {
            Some((to, by)) if by != base => to,
            _ => line,
        }
    }

    /// The package whose file is at `path`. It reads only lists: those of a thousand packages in a few milliseconds.
    ///
    /// # Errors
    ///
    /// If a list can't be read.
    pub fn owner(&self, path: &[u8]) -> Result<Option<&Package>, Error> {
        // The lines that can stand for a file at this path.
        let diverted =
            self.diversions.iter().filter(|(_from, (to, _by))| to == path).map(|(from, _)| &from[..]);
        let lines: Vec<&[u8]> = std::iter::once(path).chain(diverted).collect();
        for package in &self.packages {
            let list = match read(&info(&self.root, &package.name, b".list")) {
                Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                read => read?,
            };
            let base = package.name.split(|byte| *byte == b':').next().unwrap_or_default();
            if paths(&list).any(|line| lines.contains(&line) && self.place(line, base) == path) {
                return Ok(Some(package));
            }
        }
        Ok(None)
    }

    /// The packages that have changed since a time, and those of `known` (from the trust database) that are gone.
    ///
    /// The time of change is used, not that of modification: a `md5sums` file's time of modification is when the
    /// package was built. Take `since` from before the last import began, so that changes during the import aren't
    /// missed.
    #[must_use]
    pub fn changed<'a>(&self, since: SystemTime, known: impl IntoIterator<Item = &'a [u8]>) -> Changed {
        // A file system's times lag behind the clock by up to one tick.
        let since = since.checked_sub(Duration::from_secs(1)).unwrap_or(since);
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let known: HashSet<&[u8]> = known.into_iter().collect();
        let is_new = |path: PathBuf| {
            fs::metadata(path).is_ok_and(|about| {
                let seconds = u64::try_from(about.ctime()).unwrap_or(0);
                let more = u32::try_from(about.ctime_nsec()).unwrap_or(0);
                Duration::new(seconds, more) >= since
            })
        };
        let names: HashSet<&[u8]> = self.packages.iter().map(|package| &package.name[..]).collect();
        let installed = names.iter().filter(|name| {
            [&b".list"[..], b".md5sums"].iter().any(|suffix| is_new(info(&self.root, name, suffix)))
        });
        let mut changed = Changed {
            installed: installed.map(|name| name.to_vec()).collect(),
            removed: known.difference(&names).map(|name| name.to_vec()).collect(),
        };
        changed.installed.sort_unstable();
        changed.removed.sort_unstable();
        changed
    }
}

/// The paths of a list.
fn paths(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|byte| *byte == b'\n').filter(|line| line.len() > 1 && line[0] == b'/')
}

fn info(root: &Path, name: &[u8], suffix: &[u8]) -> PathBuf {
    below(root, &[DIRECTORY, b"/info/", name, suffix].concat())
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |source| Error::Read { path: path.into(), source };
    let size = fs::metadata(path).map_err(failed)?.len();
    if size > LARGEST {
        return Err(Error::TooLarge { path: path.into(), size });
    }
    fs::read(path).map_err(failed)
}

/// The installed packages of `status`. `names` are the files in `info`.
fn parse_status(text: &[u8], names: &HashSet<Vec<u8>>) -> Vec<Package> {
    let mut packages = Vec::new();
    let (mut name, mut architecture, mut installed) = (Vec::new(), Vec::new(), false);
    let (mut configuration, mut in_configuration) = (Vec::new(), false);
    for line in text.split(|byte| *byte == b'\n').chain([&b""[..]]) {
        if line.trim_ascii().is_empty() {
            let name = std::mem::take(&mut name);
            let with = [&name[..], b":", &architecture].concat();
            let listed = |name: &[u8]| names.contains(&[name, b".list"].concat());
            let name = if listed(&with) { with } else { name };
            // A slash in the name would lead out of `info`.
            if installed && listed(&name) && !name.contains(&b'/') {
                packages.push(Package { name, configuration: std::mem::take(&mut configuration) });
            }
            configuration.clear();
            architecture.clear();
            (installed, in_configuration) = (false, false);
            continue;
        }
        if line.starts_with(b" ") {
            if in_configuration {
                configuration.extend(parse_configuration(line));
            }
            continue;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (field, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        in_configuration = field.eq_ignore_ascii_case(b"Conffiles");
        if field.eq_ignore_ascii_case(b"Package") {
            name = value.to_vec();
        } else if field.eq_ignore_ascii_case(b"Architecture") {
            architecture = value.to_vec();
        } else if field.eq_ignore_ascii_case(b"Status") {
            // Also while a package is being installed: its files exist, and must have their MD5 anyway.
            let state = value.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
            installed = [
                &b"installed"[..],
                b"unpacked",
                b"half-configured",
                b"triggers-awaited",
                b"triggers-pending",
            ]
            .contains(&state);
        }
    }
    packages
}

/// Parses ` /etc/file MD5` with an optional ` obsolete` or ` remove-on-upgrade` behind it.
fn parse_configuration(line: &[u8]) -> Option<(Vec<u8>, [u8; 16])> {
    let mut line = line.trim_ascii();
    for flag in [&b" obsolete"[..], b" remove-on-upgrade"] {
        line = line.strip_suffix(flag).unwrap_or(line);
    }
    let space = line.iter().rposition(|byte| *byte == b' ')?;
    let md5 = from_hexadecimal(&line[space + 1..])?.try_into().ok()?;
    Some((line[..space].to_vec(), md5))
}

/// Packages that `status` doesn't list yet, because dpkg keeps its latest changes in `updates` for a while. Packages
/// that were removed except for their configuration have no MD5s any more.
fn under_way(known: &[Package], names: &HashSet<Vec<u8>>) -> Vec<Package> {
    let known: HashSet<&[u8]> = known.iter().map(|package| &package.name[..]).collect();
    let has_sums = |name: &[u8]| names.contains(&[name, b".md5sums"].concat());
    let mut packages: Vec<Package> = names
        .iter()
        .filter_map(|name| name.strip_suffix(b".list"))
        .filter(|name| !known.contains(name) && has_sums(name))
        .map(|name| Package { name: name.to_vec(), configuration: Vec::new() })
        .collect();
    packages.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    packages
}

/// Lines of `MD5  path/without/slash`.
fn parse_sums(text: &[u8]) -> HashMap<Vec<u8>, [u8; 16]> {
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let (digits, rest) = line.split_at_checked(32)?;
            let path = rest.strip_prefix(b"  ").filter(|path| !path.is_empty())?;
            let path = path.strip_prefix(b"./").unwrap_or(path);
            let path = [b"/", path.strip_prefix(b"/").unwrap_or(path)].concat();
            Some((path, from_hexadecimal(digits)?.try_into().ok()?))
        })
        .collect()
}

/// Three lines for each: from, to, and the package that diverts (`:` for the administrator).
fn parse_diversions(text: &[u8]) -> HashMap<Vec<u8>, (Vec<u8>, Vec<u8>)> {
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    let triples = lines.as_chunks::<3>().0.iter();
    triples.map(|[from, to, by]| (from.to_vec(), (to.to_vec(), by.to_vec()))).collect()
}

#[cfg(test)]
mod tests;
