// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts that the planner reads of the host. Each one is read once, and remembered as an input of the plan.

use crate::arrangement::{Arrangement, Part};
use crate::package::{PlanMode, Unpacked};
use crate::plan::text::Text;
use crate::plan::{Input, Was};
use foldhash::fast::RandomState;
use palisade_host::account::{self, Account, AccountError, Databases};
use palisade_host::birth::Birth;
use palisade_host::closure::Libraries;
use palisade_host::environment::Environment;
use palisade_host::executable::{self, Found};
use palisade_host::fingerprint::Fingerprint;
use palisade_host::layout::Layout;
use palisade_host::names::Names;
use palisade_host::places::Places;
use palisade_host::walk::{self, FileKind, Visit, WalkError};
use palisade_policy::expand::GlobPattern;
use palisade_policy::{Application, Directories};
use rustix::fs::FileType;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

pub(crate) mod broker;

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Nothing.
    Missing,
    /// A directory.
    Directory,
    /// A file of any kind.
    Other,
}

/// The file that changes whenever a package is installed, removed or changed.
pub(crate) const PACKAGES: &str = "/var/lib/dpkg/status";
/// How many directories are compared at each launch. A pattern that looks into more is looked up again.
const LISTINGS: usize = 16;
/// Capabilities that a launcher needs to map a user and the owners of files.
const MAPPING_CAPABILITIES: u64 = 1 << 6 | 1 << 7 | 1 << 21;
/// The host user that a command of root becomes: far above the numbers that distributions and subuid assign.
const UNUSED_ID: u32 = 2_000_000_000;

/// The host, as one launch reads it.
#[derive(Debug)]
pub struct Facts {
    /// The caller.
    pub account: Account,
    /// The caller's variables.
    pub environment: Environment,
    /// Where the launch takes place, without links.
    pub cwd: PathBuf,
    /// Palisade's own directories.
    pub places: Places,
    /// The root's directories.
    pub layout: Layout,
    /// The command; the view `closure` shows what its program needs.
    pub command: Vec<OsString>,
    /// Landlock's version.
    pub landlock: Option<u32>,
    /// An id that no user has, if the caller may map it: commands of root become it.
    pub unused_id: Option<u32>,
    /// The plan's purpose.
    pub purpose: PlanMode,
    /// The profile of the launch.
    pub profile: Option<String>,
    /// That profile's file, if the profile was named by its file and not by its name.
    pub profile_file: Option<PathBuf>,
    /// The application that is opened.
    pub application: Option<Application>,
    /// The part of the command that a profile states: at every launch it precedes the caller's arguments.
    pub prefix: Vec<OsString>,
    /// Further programs of the command, after its first word.
    pub programs: Vec<OsString>,
    /// `prefix` includes the caller's arguments, because they name files.
    pub complete: bool,
    /// Only policy files of the system count: the host has a system store.
    pub(crate) of_system_only: bool,
    /// Links that have been read.
    pub(crate) names: Names,
    /// Libraries that have been read.
    pub(crate) libraries: Libraries,
    /// What was found at paths that exist.
    kinds: RefCell<HashMap<PathBuf, Kind, RandomState>>,
    inputs: RefCell<BTreeMap<PathBuf, Option<Was>>>,
    listings: RefCell<BTreeMap<PathBuf, Fingerprint>>,
    /// Symbolic links that patterns found.
    links: RefCell<BTreeSet<PathBuf>>,
    variables: RefCell<BTreeSet<String>>,
    /// Policy files that were read, in this order.
    policies: RefCell<Vec<PathBuf>>,
    volatile: Cell<bool>,
    /// Why no broker can judge names here, once asked.
    broker: OnceCell<Option<&'static str>>,
}

impl Facts {
    /// Reads the facts.
    ///
    /// # Errors
    /// When the user's home can't be determined.
    pub fn gather(environment: Environment, cwd: PathBuf) -> Result<Self, AccountError> {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let databases = Databases::default();
        // Under sudo the variables may still be those of the user who typed it. Files that root obeys are in root's home.
        let nothing = Environment::empty();
        let own = if uid == 0 && names_places_of_others(&environment) { &nothing } else { &environment };
        let account = account::lookup(uid, gid, &databases, own)?;
        let places = Places::new(&account.home, uid, own);
        Ok(Self {
            layout: Layout::read(Path::new("/")),
            landlock: palisade_sys::landlock::abi(),
            unused_id: if uid == 0 { unused_id() } else { None },
            account,
            environment,
            cwd,
            command: Vec::new(),
            places,
            purpose: PlanMode::default(),
            profile: None,
            profile_file: None,
            application: None,
            prefix: Vec::new(),
            programs: Vec::new(),
            complete: false,
            of_system_only: crate::plan::store::holds_for(uid),
            names: Names::default(),
            libraries: Libraries::default(),
            kinds: RefCell::default(),
            inputs: RefCell::default(),
            listings: RefCell::default(),
            links: RefCell::default(),
            variables: RefCell::default(),
            policies: RefCell::default(),
            volatile: Cell::default(),
            broker: OnceCell::new(),
        })
    }

    /// Sets the profile of the command: its name, or its file as [`crate::layers::profile`] finds it.
    pub fn run_by(&mut self, profile: Option<&OsStr>) {
        self.profile = profile.map(|profile| crate::layers::application::named(profile).name);
        self.profile_file = profile.and_then(|profile| crate::layers::file_of(&self.cwd, profile));
    }

    /// The package that is launched, if there is one.
    pub(crate) const fn package(&self) -> Option<&Unpacked> {
        match &self.purpose {
            PlanMode::Packed(package) => Some(package),
            PlanMode::Launch | PlanMode::Pack | PlanMode::Arranged(_) => None,
        }
    }

    /// The tree that the caller states, if there is one.
    pub(crate) const fn arrangement(&self) -> Option<&Arrangement> {
        match &self.purpose {
            PlanMode::Arranged(arrangement) => Some(arrangement),
            PlanMode::Launch | PlanMode::Pack | PlanMode::Packed(_) => None,
        }
    }

    /// The directory with the homes of applications.
    pub(crate) fn homes(&self) -> PathBuf {
        self.without_links(self.places.data.join("homes"))
    }

    /// The directory with the caches of projects.
    pub(crate) fn projects(&self) -> PathBuf {
        self.without_links(crate::caches::directory(&self.places))
    }

    /// One of Palisade's own directories without links, as far as it exists: a tree behind a link isn't mounted. Users
    /// have directories such as `~/.cache` on another disk.
    fn without_links(&self, path: PathBuf) -> PathBuf {
        let real = crate::plan::planner::real(&path);
        if real != path {
            self.depends_on(&path, false);
        }
        real
    }

    /// The directories with trees that belong to sandboxes: no program outside obeys files in them.
    pub(crate) fn kept_trees(&self) -> [PathBuf; 2] {
        [self.homes(), self.projects()]
    }

    /// The trees in which missing mount points are made: those of sandboxes, and those that the caller of bubblewrap's
    /// options shows to be written to, in which bubblewrap makes them, too.
    pub(crate) fn trees_to_mount_in(&self) -> Vec<PathBuf> {
        let parts = self.arrangement().map(|arrangement| arrangement.parts.as_slice()).unwrap_or_default();
        let writable = parts.iter().filter_map(|part| match part {
            Part::Tree { source, write: true, .. } => self.names.canonical(&self.cwd.join(source)),
            _ => None,
        });
        self.kept_trees().into_iter().chain(writable).collect()
    }

    /// The user's directories.
    pub(crate) fn directories(&self) -> Directories {
        let above = |place: &Path| place.parent().map(Path::to_path_buf).unwrap_or_default();
        Directories {
            config: above(&self.places.config),
            data: above(&self.places.data),
            cache: above(&self.places.cache),
            state: above(&self.places.state),
        }
    }

    /// What is at `path`, links followed. The plan depends on the answer.
    pub(crate) fn kind(&self, path: &Path) -> Kind {
        if let Some(known) = self.kinds.borrow().get(path) {
            return *known;
        }
        let found = Fingerprint::of(path);
        let kind = match &found {
            Ok(Fingerprint::Present(state)) if is_directory(state.mode) => Kind::Directory,
            Ok(Fingerprint::Present(_)) => Kind::Other,
            Ok(Fingerprint::Absent) | Err(_) => Kind::Missing,
        };
        if !self.inputs.borrow().contains_key(path)
            && let Ok(found) = found
        {
            self.note(path, found, false);
        }
        // A missing path isn't kept: a mount point may still be made there.
        if kind != Kind::Missing {
            self.kinds.borrow_mut().insert(path.to_owned(), kind);
        }
        kind
    }

    /// The links that an absolute path passes, one by one.
    ///
    /// # Errors
    /// As for [`walk`](palisade_host::links::walk).
    pub fn way(&self, path: &Path) -> Result<palisade_host::links::Way, rustix::io::Errno> {
        palisade_host::links::walk(&self.names, path)
    }

    /// The path without links, if it exists. The plan depends on the answer.
    pub(crate) fn canonical(&self, path: &Path) -> Option<PathBuf> {
        self.depends_on(path, false);
        self.names.canonical(path)
    }

    /// Makes the plan depend on `path`: on its content, or only on the file that it leads to.
    pub fn depends_on(&self, path: &Path, by_content: bool) {
        let wanted = match self.inputs.borrow().get(path) {
            None => true,
            Some(known) => by_content && !matches!(known, Some(Was::Content(_))),
        };
        if wanted && let Ok(found) = Fingerprint::of(path) {
            self.note(path, found, by_content);
        }
    }

    fn note(&self, path: &Path, found: Fingerprint, by_content: bool) {
        let was = match found {
            Fingerprint::Absent => None,
            Fingerprint::Present(_) if by_content => Some(Was::Content(found)),
            // A path without links is mounted by its own name. The mount fails if the path is gone or has become
            // something else, and then the plan is made again.
            Fingerprint::Present(_) if self.names.canonical(path).is_some_and(|real| real == path) => return,
            Fingerprint::Present(state) => Some(Was::Leads { device: state.dev, inode: state.ino }),
        };
        self.inputs.borrow_mut().insert(path.to_owned(), was);
    }

    /// Whether the path exists. The plan depends on the answer, even if the path isn't shown.
    pub(crate) fn is_there(&self, path: &Path) -> bool {
        let there = self.kind(path) != Kind::Missing;
        if there && let Ok(Fingerprint::Present(state)) = Fingerprint::of(path) {
            let was = Was::Leads { device: state.dev, inode: state.ino };
            self.inputs.borrow_mut().entry(path.to_owned()).or_insert(Some(was));
        }
        there
    }

    /// Makes the plan depend on whether `path` is the same file. Returns which one it is; `None` if the plan couldn't
    /// notice a change.
    pub(crate) fn depends_on_birth(&self, path: &Path) -> Option<Birth> {
        let birth = Birth::of(path).ok().filter(|_birth| !is_system(path))?;
        self.inputs.borrow_mut().insert(path.to_owned(), Some(Was::Born(birth)));
        Some(birth)
    }

    /// Makes the plan depend on which entries a directory has.
    pub(crate) fn depends_on_names_in(&self, directory: &Path) {
        if let Some(listing) = self.names_in(directory) {
            self.note_listing(listing);
        }
    }

    /// A directory, and the fingerprint that changes with its entries.
    fn names_in(&self, directory: &Path) -> Option<(PathBuf, Fingerprint)> {
        let found = Fingerprint::of(directory).ok()?;
        // The directory may have changed again within the same time stamp. The next launch wouldn't notice that.
        if !found.is_settled(SystemTime::now()) {
            self.set_volatile();
        }
        matches!(found, Fingerprint::Present(_)).then(|| (directory.to_owned(), found))
    }

    /// Keeps the earliest fingerprint.
    fn note_listing(&self, (directory, found): (PathBuf, Fingerprint)) {
        self.listings.borrow_mut().entry(directory).or_insert(found);
    }

    /// Remembers that a policy file applies to this launch.
    pub(crate) fn note_policy(&self, file: &Path) {
        let mut policies = self.policies.borrow_mut();
        if !policies.iter().any(|known| known == file) {
            policies.push(file.to_owned());
        }
    }

    /// The policy files that apply to this launch, in the order in which they were read.
    pub(crate) fn policies(&self) -> Vec<PathBuf> {
        self.policies.borrow().clone()
    }

    /// Makes the plan depend on a variable of the caller.
    pub(crate) fn depends_on_variable(&self, name: &str) {
        self.variables.borrow_mut().insert(name.to_owned());
    }

    /// The variables that the plan depends on, with their values.
    pub(crate) fn variables(&self) -> Vec<(Text<'static>, Option<Text<'static>>)> {
        let value =
            |name: &str| self.environment.get(name).and_then(|value| Text::new(value.as_bytes()).ok());
        let each = |name: &String| Some((Text::new(name.clone()).ok()?, value(name).map(Text::into_owned)));
        self.variables.borrow().iter().filter_map(each).collect()
    }

    /// The program with this name, or at this path; never Palisade itself, because links with names of applications
    /// lead to it. The plan depends on the answer.
    pub(crate) fn program(&self, name: &OsStr) -> Option<PathBuf> {
        let path = self.environment.get("PATH").unwrap_or(OsStr::new(executable::DEFAULT_PATH));
        let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
            vec![self.cwd.join(name)]
        } else {
            std::env::split_paths(path).map(|directory| self.cwd.join(directory).join(name)).collect()
        };
        let own = rustix::fs::stat("/proc/self/exe").ok().map(|stat| (stat.st_dev, stat.st_ino));
        for candidate in candidates {
            self.depends_on(&candidate, false);
            let Found::Program(found) = executable::find(candidate.as_os_str(), None, &self.cwd) else {
                continue;
            };
            let is_own = rustix::fs::stat(&found).ok().map(|stat| (stat.st_dev, stat.st_ino)) == own;
            if !is_own {
                return Some(found);
            }
        }
        None
    }

    /// The matches below a directory, down to this depth. The plan depends on the answer.
    ///
    /// # Errors
    /// When there are too many files to examine.
    pub(crate) fn look_up(
        &self,
        base: &Path,
        depth: Option<usize>,
        matches: impl Fn(&Path) -> bool,
    ) -> Result<Vec<PathBuf>, WalkError> {
        if self.kind(base) != Kind::Directory {
            return Ok(Vec::new());
        }
        let own = base.components().count();
        let of_packages = self.is_of_packages(base);
        let until = Instant::now() + MOVING;
        // Only the results of the last attempt are remembered.
        let (found, listed, looked_into, links) = loop {
            let (mut listed, mut looked_into, mut links) = (Vec::new(), 0, BTreeSet::new());
            // The directory is remembered as it was before it is read, so a name that is added meanwhile invalidates the plan.
            let mut looks_into = |directory: &Path| {
                looked_into += 1;
                if looked_into <= LISTINGS && !of_packages {
                    listed.extend(self.names_in(directory));
                }
            };
            looks_into(base);
            let visit = |path: &Path, kind: FileKind| {
                if matches(path) {
                    if kind == FileKind::Symlink {
                        links.insert(path.to_owned());
                    }
                    return Visit::Match;
                }
                let deep = || depth.is_some_and(|depth| path.components().count() >= own + depth);
                if kind == FileKind::Directory && !deep() {
                    looks_into(path);
                    return Visit::Descend;
                }
                Visit::Skip
            };
            let found = walk::walk(base, walk::DEFAULT_LIMIT, visit)?;
            // The entries of a moved directory may now be at a place that the walk had passed already.
            if found.moved == 0 && !found.matches.iter().any(|found| has_moved(found, &links)) {
                break (found, listed, looked_into, links);
            }
            if Instant::now() >= until {
                return Err(WalkError::Moving { path: base.to_owned() });
            }
            std::thread::sleep(PAUSE);
        };
        let mut known = self.links.borrow_mut();
        // For a path that an earlier pattern also found, the result of this pattern counts.
        found.matches.iter().for_each(|found| _ = known.remove(found));
        known.extend(links);
        drop(known);
        if of_packages {
            // Only packages add names there, and their database changes then.
            self.depends_on(Path::new(PACKAGES), true);
        } else if looked_into > LISTINGS {
            self.set_volatile();
        }
        listed.into_iter().for_each(|listing| self.note_listing(listing));
        Ok(found.matches)
    }

    /// Whether a match has left its place, is behind a link now, or has become a link.
    pub(crate) fn has_moved(&self, found: &Path) -> bool {
        has_moved(found, &self.links.borrow())
    }

    /// The matches of a pattern; none if there are too many.
    pub(crate) fn matches(&self, glob: &GlobPattern) -> Vec<PathBuf> {
        self.look_up(glob.base(), glob.depth(), |path| glob.matches(path)).unwrap_or_default()
    }

    /// Whether the directory's entries change only with the packages.
    pub(crate) fn is_of_packages(&self, directory: &Path) -> bool {
        let local = directory.starts_with("/usr/local");
        directory.starts_with("/usr") && !local && Path::new(PACKAGES).exists()
    }

    /// Says that the plan depends on something that can't be compared, such as the matches of a pattern.
    pub(crate) fn set_volatile(&self) {
        self.volatile.set(true);
    }

    /// Whether the plan may be wrong for the next launch although no input has changed.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        self.volatile.get()
    }

    /// The inputs of the plan: paths that exist, and paths that don't.
    pub(crate) fn inputs(&self) -> (Vec<Input<'static>>, Vec<Text<'static>>) {
        let mut present = BTreeMap::new();
        let mut absent = Vec::new();
        let inputs = self.inputs.borrow();
        // System directories aren't watched: their entries may change without the plan changing, and if one disappears
        // the mount fails.
        for (path, was) in inputs.iter().filter(|(path, _was)| !is_system(path)) {
            match was {
                Some(was) => {
                    present.insert((path.clone(), false), *was);
                }
                None => {
                    // The nearest existing directory changes when a name is added to it.
                    for above in path.ancestors().skip(1) {
                        match Fingerprint::of(above) {
                            Ok(Fingerprint::Absent) => {}
                            Ok(found) => {
                                present.insert((above.to_owned(), true), Was::Names(found));
                                break;
                            }
                            Err(_unreadable) => break,
                        }
                    }
                    absent.extend(Text::path(path).ok());
                }
            }
        }
        let listings = self.listings.borrow();
        let listings = listings.iter().map(|(path, found)| ((path.clone(), false), Was::Listing(*found)));
        let present = present
            .into_iter()
            .chain(listings)
            .filter_map(|((path, _names), was)| Some(Input { path: Text::path(&path).ok()?, was }))
            .collect();
        (present, absent)
    }
}

fn is_directory(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory
}

/// Whether a variable that names a directory of root's leads to a directory of another user.
fn names_places_of_others(environment: &Environment) -> bool {
    ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"]
        .into_iter()
        .filter_map(|name| environment.absolute(name))
        // A missing directory would be made in the nearest existing one.
        .filter_map(|path| path.ancestors().find_map(|path| rustix::fs::stat(path).ok()))
        .any(|stat| stat.st_uid != 0)
}

/// Whether only an upgrade of the system makes `path` appear or disappear.
fn is_system(path: &Path) -> bool {
    ["/usr", "/etc", "/opt", "/dev", "/bin", "/lib"]
        .iter()
        .any(|system| path == Path::new(system) || path.starts_with("/dev"))
}

/// Whether a match is gone, is behind a link now, or has become a link. `links`: matches that were links when they were found.
fn has_moved(found: &Path, links: &BTreeSet<PathBuf>) -> bool {
    match std::fs::symlink_metadata(found) {
        Ok(now) => now.is_symlink() && !links.contains(found),
        // A path that can't be examined can't be shown either.
        Err(error) => error.kind() != std::io::ErrorKind::PermissionDenied,
    }
}

/// How long a pattern is looked up again while directories move.
const MOVING: Duration = Duration::from_secs(2);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(2);

/// An id in the caller's user namespace that no user has, if the caller may map it.
fn unused_id() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    let effective = u64::from_str_radix(effective.trim(), 16).ok()?;
    if effective & MAPPING_CAPABILITIES != MAPPING_CAPABILITIES {
        return None;
    }
    let in_map = |file: &str| -> Option<u32> {
        let map = std::fs::read_to_string(file).ok()?;
        // The last id of the largest range. In the initial namespace that range holds all ids.
        let (first, count) = map
            .lines()
            .filter_map(|line| {
                let mut fields = line.split_whitespace();
                let first: u32 = fields.next()?.parse().ok()?;
                let count: u32 = fields.nth(1)?.parse().ok()?;
                Some((first, count))
            })
            .max_by_key(|(_first, count)| *count)?;
        let last = first.checked_add(count.checked_sub(1)?)?;
        (count >= 1000).then(|| last.saturating_sub(1).min(UNUSED_ID))
    };
    let (uid, gid) = (in_map("/proc/self/uid_map")?, in_map("/proc/self/gid_map")?);
    // One number for user and group keeps the plan simple. The smaller one is in both maps.
    Some(uid.min(gid))
}

#[cfg(test)]
mod tests;
