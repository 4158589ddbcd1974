// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the directories that belong to a program, and the files in them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::names::{Listing, Names};
use crate::walk::{self, FileKind, Visit};

/// The most entries of such a directory that are read, and the most links in it that are followed out of it.
const LISTED: usize = 200_000;
const LEAD_OUT: usize = 1000;

/// Where directories that belong to a program may be, and whether they may contain files to load.
const PLACES: [(&str, bool); 8] = [
    ("/usr/lib", true),
    ("/usr/libexec", true),
    ("/usr/local/lib", true),
    ("/opt", true),
    ("/usr/share", false),
    ("/usr/local/share", false),
    ("/usr/local/etc", false),
    ("/etc", false),
];

/// Directories that belong to programs with other names.
const RELATED: [(&str, &[&str]); 4] = [
    ("perl", &["perl5", "perl-base"]),
    ("node", &["nodejs"]),
    ("git", &["git-core"]),
    ("ruby", &["gems", "rubygems-integration"]),
];

/// The places in which directories of programs are looked for.
pub(super) struct Places<'s> {
    places: Vec<Place>,
    names: &'s Names,
}

/// One such place.
struct Place {
    path: PathBuf,
    /// Directories in it may contain files to load.
    loads: bool,
    /// The entries of the place, if listing it pays off.
    listing: Option<Rc<Listing>>,
}

impl Place {
    /// Whether there is such a directory.
    fn has(&self, name: &OsStr) -> bool {
        self.listing.as_ref().is_none_or(|listing| listing.may_have(name)) && self.path.join(name).is_dir()
    }
}

impl<'s> Places<'s> {
    /// [`PLACES`], and the places for libraries of one kind of machine (`/usr/lib/x86_64-linux-gnu`), which have too
    /// many entries to be listed.
    pub(super) fn find(names: &'s Names, many: bool) -> Self {
        let of_machines = std::fs::read_dir("/usr/lib").into_iter().flatten().filter_map(|entry| {
            let path = entry.ok()?.path();
            let of_machine = path.file_name()?.as_bytes().windows(7).any(|part| part == b"-linux-");
            of_machine.then_some(Place { path, loads: true, listing: None })
        });
        let places = PLACES.iter().map(|(place, loads)| Place {
            path: PathBuf::from(place),
            loads: *loads,
            listing: many.then(|| names.listing(Path::new(place))),
        });
        Self { places: places.chain(of_machines).collect(), names }
    }

    /// The existing directories that belong to a program.
    pub(super) fn of_program(&self, program: &Path) -> Vec<(PathBuf, bool)> {
        let real = self.names.canonical(program).unwrap_or_else(|| program.to_owned());
        // The name without its extension counts, too: `PROGRAM.bin` lies beside a script `PROGRAM`.
        let mut names: BTreeSet<&OsStr> = [program, &real]
            .into_iter()
            .flat_map(|path| [path.file_name(), path.file_stem()])
            .flatten()
            .collect();
        if names.iter().any(|name| is_gcc(&name.to_string_lossy())) {
            names.insert(OsStr::new("gcc"));
        }
        for (name, related) in RELATED {
            if names.contains(OsStr::new(name)) {
                names.extend(related.iter().map(OsStr::new));
            }
        }
        let mut found = Vec::new();
        for place in &self.places {
            let there = names.iter().filter(|name| place.has(name));
            found.extend(there.map(|name| (place.path.join(name), place.loads)));
        }
        // The program may lie in its own directory: `/opt/NAME/bin/PROGRAM`, `/usr/lib/NAME/PROGRAM`.
        for place in self.places.iter().filter(|place| place.loads) {
            if let Ok(rest) = real.strip_prefix(&place.path)
                && rest.components().count() > 1
                && let Some(first) = rest.components().next()
            {
                let directory = place.path.join(first);
                if !self.places.iter().any(|place| place.path == directory) {
                    found.push((directory, place.loads));
                }
            }
        }
        found
    }

    /// The directories that belong to a library: for example an interpreter's, in a program that has the interpreter
    /// built in.
    pub(super) fn of_library(&self, library: &Path) -> Vec<(PathBuf, bool)> {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_prefix("lib").and_then(|name| name.split(".so").next()) else {
            return Vec::new();
        };
        let interpreters: &[&str] = match name {
            "perl" | "ruby" => &[name],
            python if python.starts_with("python3.") => &[name, "python3"],
            _ => &[],
        };
        interpreters.iter().flat_map(|name| self.of_program(&Path::new("/usr/bin").join(name))).collect()
    }
}

/// `gcc`, `gcc-12`, `x86_64-linux-gnu-gcc-nm-12`, `g++`: plugins and the compiler itself lie in directories named
/// `gcc`.
fn is_gcc(name: &str) -> bool {
    name.split('-').any(|part| matches!(part, "gcc" | "g++" | "cpp" | "c++"))
}

/// The content of a program's own directory.
pub(super) struct Inside {
    /// Files that may be loaded or executed, judged by their names.
    pub(super) loadable: Vec<PathBuf>,
    /// Targets of links that lead out of the directory.
    pub(super) lead_out: Vec<PathBuf>,
}

impl Inside {
    pub(super) fn of(directory: &Path, names: &Names) -> Self {
        let mut links = Vec::new();
        let visit = |path: &Path, kind: FileKind| match kind {
            FileKind::Directory => Visit::Descend,
            FileKind::Symlink => {
                links.push(path.to_owned());
                Visit::Skip
            }
            FileKind::File => {
                let name = path.file_name().unwrap_or_default().as_bytes();
                let may_be = name.windows(3).any(|part| part == b".so") || !name.contains(&b'.');
                if may_be { Visit::Match } else { Visit::Skip }
            }
            FileKind::Other => Visit::Skip,
        };
        let loadable = walk::walk(directory, LISTED, visit).map(|walk| walk.matches).unwrap_or_default();
        let real = names.canonical(directory).unwrap_or_else(|| directory.to_owned());
        let mut lead_out: Vec<PathBuf> = links
            .into_iter()
            .filter_map(|link| names.canonical(&link))
            // Neither a target in the directory itself nor one that contains the directory.
            .filter(|target| !target.starts_with(&real) && !real.starts_with(target))
            .filter(|target| target.components().count() > 3)
            .collect();
        lead_out.sort_unstable();
        lead_out.dedup();
        lead_out.truncate(LEAD_OUT);
        Self { loadable, lead_out }
    }
}
