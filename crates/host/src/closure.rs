// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the closure of a program: every file that its loader opens before `main`.
//!
//! The files are found as glibc's `ld.so` and musl's loader find them, without running a loader: from the ELF files
//! themselves, `/etc/ld.so.cache`, and the loaders' default directories. No header names the libraries that a program
//! opens later (`dlopen`); features list them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;

use crate::elf::{self, Elf, ElfError, Machine};

mod ldcache;
mod search;
#[cfg(test)]
mod tests;

use ldcache::LdCache;

/// More objects than this in one closure are an error: the largest programs have some 500.
const OBJECTS: usize = 8192;

/// A program's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The program first, its loader if it has one, then the libraries in the order in which they are loaded. Each
    /// has the path by which the loader opens it, which may be a link's path.
    pub objects: Vec<PathBuf>,
    /// Libraries that aren't there.
    pub missing: Vec<Missing>,
}

/// A library that a file needs and that can't be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Its name.
    pub name: OsString,
    /// The file that needs it.
    pub by: PathBuf,
}

/// Why there is no closure.
#[derive(Debug, thiserror::Error)]
pub enum ClosureError {
    /// The program, or its loader, can't be read.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// There are too many libraries.
    #[error("{path} needs more than {OBJECTS} libraries")]
    TooMany {
        /// The program.
        path: PathBuf,
    },
}

/// A cache of what was read of a host's libraries. Several threads may use it. It is worth keeping for several
/// programs, because most of their libraries are the same.
#[derive(Debug)]
pub struct Libraries {
    cache: PathBuf,
    caches: Mutex<HashMap<Machine, Arc<LdCache>>>,
    files: Mutex<HashMap<PathBuf, Option<Arc<Elf>>, RandomState>>,
}

/// An object of an unfinished closure.
struct Object {
    path: PathBuf,
    elf: Arc<Elf>,
    /// The object that needs it: paths for libraries are inherited (`DT_RPATH`).
    by: Option<usize>,
}

impl Default for Libraries {
    fn default() -> Self {
        Self::new(Path::new("/etc/ld.so.cache"))
    }
}

impl Libraries {
    /// Libraries found by this cache.
    #[must_use]
    pub fn new(cache: &Path) -> Self {
        Self { cache: cache.to_owned(), caches: Mutex::default(), files: Mutex::default() }
    }

    /// The files that are loaded for `program`, an ELF file. `program` should be canonical: `$ORIGIN` is the
    /// program's directory.
    ///
    /// # Errors
    /// [`ClosureError`] if the program or its loader can't be read or isn't a valid ELF file. Missing or damaged
    /// libraries are no error: they are in [`Closure::missing`].
    pub fn closure(&self, program: &Path) -> Result<Closure, ClosureError> {
        let elf = self.read(program)?;
        let machine = elf.machine;
        let mut objects = vec![Object { path: program.to_owned(), elf: Arc::clone(&elf), by: None }];
        let mut known: HashSet<OsString, RandomState> = HashSet::default();
        let mut missing = Vec::new();
        let flavour = search::Flavour::of(&elf);
        if let Some(interpreter) = &elf.interpreter {
            let loader = self.read(interpreter)?;
            known.extend(loader.soname.clone());
            known.insert(interpreter.clone().into_os_string());
            objects.push(Object { path: interpreter.clone(), elf: loader, by: Some(0) });
        }
        let cache = self.cache(machine);
        // The loader's order: all that the program names, then all that those name.
        let mut pending: VecDeque<usize> = (0..objects.len()).collect();
        while let Some(asking) = pending.pop_front() {
            let asked = Arc::clone(&objects[asking].elf);
            for name in &asked.needed {
                if flavour.is_in_loader(name) || !known.insert(name.clone()) {
                    continue;
                }
                let fits = |path: PathBuf| {
                    self.elf(&path).filter(|elf| elf.machine == machine).map(|elf| (elf, path))
                };
                let asks = &objects[asking];
                let candidates = search::candidates(flavour, &objects, asking, name, &cache);
                let found = candidates.into_iter().find_map(fits).or_else(|| {
                    search::standard_candidates(flavour, &asks.elf, name).into_iter().find_map(fits)
                });
                let Some((elf, path)) = found else {
                    missing.push(Missing { name: name.clone(), by: objects[asking].path.clone() });
                    continue;
                };
                // A library may be known by another name already.
                let same = elf.soname.clone().is_some_and(|soname| soname != *name && !known.insert(soname));
                if same || objects.iter().any(|object| object.path == path) {
                    continue;
                }
                if objects.len() == OBJECTS {
                    return Err(ClosureError::TooMany { path: program.to_owned() });
                }
                pending.push_back(objects.len());
                objects.push(Object { path, elf, by: Some(asking) });
            }
        }
        Ok(Closure { objects: objects.into_iter().map(|object| object.path).collect(), missing })
    }

    /// The closures of many files, found by several threads.
    #[must_use]
    pub fn closures(&self, programs: &[PathBuf]) -> Vec<Result<Closure, ClosureError>> {
        /// A further thread is started for each this many files: fewer take less time than starting it.
        const EACH: usize = 8;
        let threads =
            std::thread::available_parallelism().map_or(1, usize::from).min(programs.len().div_ceil(EACH));
        if threads < 2 {
            return programs.iter().map(|program| self.closure(program)).collect();
        }
        let next = AtomicUsize::new(0);
        let work = || {
            let mut found = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(program) = programs.get(at) else { break found };
                found.push((at, self.closure(program)));
            }
        };
        let mut found: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
            let mut found = work();
            // A panic aborts.
            found.extend(others.into_iter().filter_map(|other| other.join().ok()).flatten());
            found
        });
        found.sort_unstable_by_key(|(at, _closure)| *at);
        found.into_iter().map(|(_at, closure)| closure).collect()
    }

    fn cache(&self, machine: Machine) -> Arc<LdCache> {
        let mut caches = self.caches.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = caches.entry(machine).or_insert_with(|| Arc::new(LdCache::read(&self.cache, machine)));
        Arc::clone(cache)
    }

    /// Whether there is an ELF file at `path`.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.elf(path).is_some()
    }

    /// The file at `path`.
    fn read(&self, path: &Path) -> Result<Arc<Elf>, ElfError> {
        match self.elf(path) {
            Some(elf) => Ok(elf),
            // Errors aren't cached.
            None => elf::read(path).map(Arc::new),
        }
    }

    /// The file at `path`, if it is one that can be loaded.
    fn elf(&self, path: &Path) -> Option<Arc<Elf>> {
        if let Some(known) = self.files.lock().unwrap_or_else(PoisonError::into_inner).get(path) {
            return known.clone();
        }
        let read = elf::read(path).ok().map(Arc::new);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(path.to_owned()).or_insert(read).clone()
    }
}

/// `text` with `$ORIGIN`, `$LIB` and `$PLATFORM` as the loader replaces them for a file in `origin`.
fn expand(text: &OsStr, origin: &Path, library: &str, platform: &str) -> PathBuf {
    let mut expanded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'$') {
        expanded.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let values: [(&[u8], &[u8]); 3] = [
            (b"ORIGIN", origin.as_os_str().as_bytes()),
            (b"LIB", library.as_bytes()),
            (b"PLATFORM", platform.as_bytes()),
        ];
        let found = values.iter().find_map(|(name, value)| {
            let braced =
                rest.strip_prefix(b"{").and_then(|rest| rest.strip_prefix(*name)?.strip_prefix(b"}"));
            let plain = || {
                let after = rest.strip_prefix(*name)?;
                let goes_on = after.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
                (!goes_on).then_some(after)
            };
            Some((*value, braced.or_else(plain)?))
        });
        match found {
            Some((value, after)) => {
                expanded.extend_from_slice(value);
                rest = after;
            }
            None => expanded.push(b'$'),
        }
    }
    expanded.extend_from_slice(rest);
    PathBuf::from(OsString::from_vec(expanded))
}
