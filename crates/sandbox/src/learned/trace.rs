// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records what a command used.

use palisade_syscall::broker::report::{Came, Used};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// The number of program names that are kept for a path. These are enough to recognise the user of the path.
const NAMES: usize = 3;

/// The most paths and addresses that are noted. The broker reports as many.
const MOST: usize = 1 << 19;
/// The most bytes that they take.
const ROOM: usize = 64 << 20;

/// What was used, by path. Paths are paths inside.
#[derive(Clone, Debug, Default)]
pub struct AccessTrace {
    pub(super) paths: BTreeMap<PathBuf, Uses>,
    pub(super) addresses: BTreeMap<String, Programs>,
    pub(super) names: BTreeSet<String>,
    /// The total length of paths and addresses.
    length: usize,
    overflowed: bool,
}

/// The uses of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    uses: BTreeSet<(Used, Came)>,
    pub(super) programs: Programs,
}

/// The programs that used a path.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Programs {
    names: BTreeSet<String>,
    more: bool,
}

impl AccessTrace {
    /// Notes a use.
    pub fn note(&mut self, how: Used, came: Came, path: &Path, program: &[u8]) {
        let program = String::from_utf8_lossy(program);
        let address = (how == Used::Network).then(|| path.to_string_lossy().into_owned());
        let known = match &address {
            Some(address) => self.addresses.contains_key(address),
            None => self.paths.contains_key(path),
        };
        if !known {
            let length = self.length + path.as_os_str().len();
            if length > ROOM || self.paths.len() + self.addresses.len() >= MOST {
                self.overflowed = true;
                return;
            }
            self.length = length;
        }
        if let Some(address) = address {
            self.addresses.entry(address).or_default().add(&program);
            return;
        }
        let uses = self.paths.entry(path.to_owned()).or_default();
        uses.uses.insert((how, came));
        uses.programs.add(&program);
    }

    /// Notes that a protected name was refused, by the name in its rule, which would allow it.
    pub fn note_name(&mut self, name: &str) {
        self.names.insert(name.to_owned());
    }

    /// Whether more was used than was noted.
    #[must_use]
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// The paths for which a use was refused.
    pub fn refused(&self) -> impl Iterator<Item = &Path> {
        let paths = self.paths.iter();
        paths.filter(|(_path, uses)| uses.refused()).map(|(path, _uses)| path.as_path())
    }

    /// Names of the rules for protected names that refused a use.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Whether a path, or one below it, was used: read, executed or changed, with success.
    #[must_use]
    pub fn used_below(&self, path: &Path) -> bool {
        let mut below =
            self.paths.range(path.to_owned()..).take_while(|(other, _uses)| other.starts_with(path));
        below.any(|(_path, uses)| uses.succeeded())
    }

    /// The paths that were made, changed, renamed or removed.
    pub fn changed(&self) -> impl Iterator<Item = &Path> {
        let paths = self.paths.iter();
        let changed = [Used::Change, Used::Name, Used::Make];
        paths.filter(move |(_path, uses)| uses.any(&changed, Came::Done)).map(|(path, _uses)| path.as_path())
    }

    /// Whether nothing has been noted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.addresses.is_empty() && self.names.is_empty()
    }

    /// Whether the command made this path itself, or a directory above it.
    pub(super) fn made(&self, path: &Path) -> bool {
        path.ancestors().any(|path| self.paths.get(path).is_some_and(|uses| uses.has(Used::Make, Came::Done)))
    }
}

impl Uses {
    pub(super) fn has(&self, how: Used, came: Came) -> bool {
        self.uses.contains(&(how, came))
    }

    fn succeeded(&self) -> bool {
        self.uses.iter().any(|(how, came)| *how != Used::Look && *came == Came::Done)
    }

    fn refused(&self) -> bool {
        self.uses.iter().any(|(_how, came)| *came == Came::Refused)
    }

    pub(super) fn any(&self, hows: &[Used], came: Came) -> bool {
        hows.iter().any(|how| self.has(*how, came))
    }
}

impl Programs {
    pub(super) fn add(&mut self, name: &str) {
        if self.names.len() < NAMES || self.names.contains(name) {
            self.names.insert(name.to_owned());
        } else {
            self.more = true;
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        for name in &other.names {
            self.add(name);
        }
        self.more |= other.more;
    }
}

/// `git`, `cc, ld and make`, `cc, ld, make and others`.
impl fmt::Display for Programs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if self.more {
            names.push("others");
        }
        match names.split_last() {
            None => Ok(()),
            Some((only, [])) => f.write_str(only),
            Some((last, rest)) => write!(f, "{} and {last}", rest.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_the_limit_nothing_more_is_noted_but_what_is_known() {
        let mut trace = AccessTrace::default();
        let long = "x".repeat(4000);
        let path = |number: usize| PathBuf::from(format!("/{number}/{long}"));
        let mut note = |number| trace.note(Used::Read, Came::Done, &path(number), b"cat");
        (0..ROOM / 4000 + 100).for_each(&mut note);
        note(0);
        assert!(trace.overflowed() && trace.length <= ROOM);
        let noted = trace.paths.len();
        trace.note(Used::Network, Came::Done, &path(0), b"curl");
        trace.note(Used::Look, Came::Done, &path(0), b"ls");
        assert_eq!((trace.paths.len(), trace.addresses.len()), (noted, 0));
        assert!(trace.paths[&path(0)].has(Used::Look, Came::Done));
    }
}
