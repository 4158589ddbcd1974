// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plans a file tree that the caller states part by part.
//!
//! The caller decides what is there; the policy only takes away. So a rule of the policy is applied to each tree that the
//! caller shows, right after it: what the caller puts there later stays on top, and what the caller hides stays hidden.

use super::granted::{apply, make_own_place, pin_own_places, real};
use super::grants::{Anchor, Grants};
use super::pins;
use crate::arrangement::{Arrangement, Part};
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::repository;
use crate::plan::text::Text;
use crate::plan::{NameEnforcement, Step};
use crate::view;
use crate::view::resources::Resources;
use crate::view::tree::{Tree, WRITABLE, relative};
use palisade_policy::decide::EffectivePath;
use palisade_policy::names::{NameRules, NameStatus};
use palisade_policy::pattern::PathPattern;
use palisade_policy::word::{Bus, HomePolicy, Switch};
use palisade_policy::{Access, Grant, Layer, NetworkMode, Origin, PathRule, Policy, Strength};
use palisade_sys::landlock::Rights;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories of the system: in them root's command sees the owners' numbers, as other users do.
const SYSTEM: [&str; 12] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/opt", "/run", "/sbin", "/sys", "/usr"];

/// One thing to do, in the order of the arguments.
#[derive(Debug)]
enum Item {
    /// A tree of the host that the caller shows; the index of its path.
    Shown(usize),
    /// What the policy says about a path in that tree; the index of its path.
    Ruled(usize),
    /// Anything else.
    Part(Part),
}

/// What the caller asks for, and the policy's rules about it.
#[derive(Debug)]
pub(super) struct Arranged {
    items: Vec<Item>,
    /// The paths of the host that are shown or restricted.
    pub(super) grants: Grants,
}

/// Refuses what can't be had together with a tree that the caller states.
pub(super) fn check(policy: &Policy) -> Result<(), PlanError> {
    let refuse = |key: &'static str, origin: Origin| Err(PlanError::Arranged { key, origin });
    let home = policy.home();
    if home.value != HomePolicy::None {
        return refuse("home.policy", home.origin);
    }
    for (key, bus) in [("dbus.session", policy.session_bus()), ("dbus.system", policy.system_bus())] {
        if bus.value != Bus::None {
            return refuse(key, bus.origin);
        }
    }
    let shell = policy.switch(Switch::Shell);
    if shell.value {
        return refuse("behaviour.shell", shell.origin);
    }
    Ok(())
}

/// Applies the policy's rules about paths (`stated`) to what the caller asks for.
pub(super) fn arrange(
    facts: &Facts,
    arrangement: &Arrangement,
    stated: &Grants,
    names: &NameRules,
) -> Result<Arranged, PlanError> {
    let mut arranged = Arranged { items: Vec::new(), grants: Grants::empty() };
    for part in &arrangement.parts {
        match part {
            Part::Tree { source, place, write, devices, optional } => {
                let source = &facts.cwd.join(source);
                let Some(real) = facts.canonical(source).filter(|real| facts.kind(real) != Kind::Missing)
                else {
                    if *optional {
                        continue;
                    }
                    return Err(PlanError::NoSource { path: source.clone() });
                };
                if real == Path::new("/") {
                    arranged.root(facts, stated, names, (place, *write))?;
                } else {
                    arranged.tree(facts, stated, names, &real, place, (*write, *devices))?;
                }
            }
            // The new root is an empty one already; what was made before is covered.
            Part::Private { place, .. } if place == Path::new("/") => {
                arranged = Arranged { items: Vec::new(), grants: Grants::empty() };
            }
            other => arranged.part(other.clone()),
        }
    }
    Ok(arranged)
}

impl Arranged {
    /// The host's root: the sandbox has a root of its own, in which each directory of the host's is shown.
    fn root(
        &mut self,
        facts: &Facts,
        stated: &Grants,
        names: &NameRules,
        (place, write): (&Path, bool),
    ) -> Result<(), PlanError> {
        facts.depends_on_names_in(Path::new("/"));
        let entries = std::fs::read_dir("/").into_iter().flatten().filter_map(Result::ok);
        let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            let place = place.join(entry.strip_prefix("/").unwrap_or(&entry));
            if let Ok(target) = std::fs::read_link(&entry) {
                self.items.push(Item::Part(Part::Link { place, target }));
            } else if facts.kind(&entry) != Kind::Missing {
                self.tree(facts, stated, names, &entry, &place, (write, false))?;
            }
        }
        Ok(())
    }

    /// A tree of the host, and the policy's rules about paths in it.
    fn tree(
        &mut self,
        facts: &Facts,
        stated: &Grants,
        names: &NameRules,
        source: &Path,
        place: &Path,
        (write, devices): (bool, bool),
    ) -> Result<(), PlanError> {
        for (kernels, part) in [
            ("/proc", Part::Processes { place: place.to_owned() }),
            ("/dev", Part::Devices { place: place.to_owned() }),
        ] {
            if source == Path::new(kernels) {
                self.part(part);
                return Ok(());
            }
        }
        if devices && source.starts_with("/dev") && source == place {
            let part = Part::Tree {
                source: source.to_owned(),
                place: place.to_owned(),
                write,
                devices,
                optional: false,
            };
            self.items.push(Item::Part(part));
            return Ok(());
        }
        let write = write && !is_protected(names, source);
        let access = if write { Access::Write } else { Access::Execute };
        let pattern = |path: &Path| {
            PathPattern::exactly(path)
                .map_err(|source| PlanError::Unnamed { path: path.to_owned(), reason: source.to_string() })
        };
        let rule = PathRule {
            pattern: pattern(source)?,
            destination: (source != place).then(|| pattern(place)).transpose()?,
            access,
            origin: Origin::argument(0),
            strength: Strength::Set,
        };
        let grant = Grant::Allowed { write, execute: true };
        let own = EffectivePath { source: source.to_owned(), destination: place.to_owned(), grant, rule };
        let ruled = ruled(facts, stated, &own, (write, true));
        self.push(own, Item::Shown);
        for path in ruled {
            self.grants.anchors.push(Anchor::plain(path.source.clone(), path.destination.clone()));
            self.push(path, Item::Ruled);
        }
        Ok(())
    }

    /// The same part again covers the earlier one, which then needn't be made.
    fn part(&mut self, part: Part) {
        if matches!(part, Part::Devices { .. } | Part::Processes { .. }) {
            self.items.retain(|item| !matches!(item, Item::Part(earlier) if *earlier == part));
        }
        self.items.push(Item::Part(part));
    }

    fn push(&mut self, path: EffectivePath, item: fn(usize) -> Item) {
        self.items.push(item(self.grants.paths.len()));
        self.grants.push(path);
    }

    /// The paths whose owners are mapped for root's command.
    pub(super) fn mapped(&self) -> Vec<EffectivePath> {
        self.grants.paths.iter().filter(|path| owners_count(path)).cloned().collect()
    }
}

/// Whether a name that programs obey would be written by what is shown itself, whatever its name inside is.
fn is_protected(names: &NameRules, source: &Path) -> bool {
    let path = source.as_os_str().as_bytes();
    let is_above = |above| repository::is_above(source, above);
    matches!(names.judge(path, 0), NameStatus::Protected(_))
        || matches!(names.judge_in_repositories(path, 0, is_above).status, NameStatus::Protected(_))
}

/// Root's command needs the owners of what isn't the system's.
fn owners_count(path: &EffectivePath) -> bool {
    match path.grant {
        Grant::Allowed { write: true, .. } => {
            !["/sys", "/dev"].iter().any(|kernels| path.source.starts_with(kernels))
        }
        Grant::Allowed { write: false, .. } => !SYSTEM.iter().any(|system| path.source.starts_with(system)),
        _ => false,
    }
}

/// Whether any user can pass the directories between a tree's root and the path `rest` in it.
fn is_open_to_all(root: &Path, rest: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let passable = |directory: &Path| {
        root.join(directory).metadata().is_ok_and(|found| found.permissions().mode() & 0o001 != 0)
    };
    rest.ancestors().skip(1).all(passable)
}

/// What the policy takes away in a tree that the caller shows, from shallow to deep.
fn ruled(
    facts: &Facts,
    stated: &Grants,
    shown: &EffectivePath,
    (write, execute): (bool, bool),
) -> Vec<EffectivePath> {
    let rules: Vec<(PathBuf, &EffectivePath)> = stated
        .paths
        .iter()
        .filter(|path| path.source == path.destination)
        .filter(|path| {
            let is_general = path.rule.origin.layer == Layer::BuiltIn && path.rule.origin.file.is_none();
            !is_general || matches!(path.grant, Grant::Hidden | Grant::Denied)
        })
        .map(|path| (facts.canonical(&path.source).unwrap_or_else(|| path.source.clone()), path))
        .collect();
    let mut found: Vec<EffectivePath> = Vec::new();
    // The rule about the whole tree is the nearest one at or above it.
    let whole = rules.iter().filter(|(real, _path)| shown.source.starts_with(real));
    let whole = whole.max_by_key(|(real, _path)| real.components().count());
    let inner = rules.iter().filter(|(real, _path)| real.starts_with(&shown.source) && *real != shown.source);
    for (real, path) in whole.into_iter().chain(inner) {
        let rest = real.strip_prefix(&shown.source).unwrap_or(Path::new(""));
        let at = |directory: &Path| match rest.as_os_str().is_empty() {
            true => directory.to_owned(),
            false => directory.join(rest),
        };
        let destination = at(&shown.destination);
        let above = found.iter().rev().find(|above| destination.starts_with(&above.destination));
        let present = above.map_or(shown.grant, |above| above.grant);
        let Grant::Allowed { write: present_write, execute: present_execute } = present else { continue };
        let grant = match path.grant {
            Grant::Hidden | Grant::Denied => path.grant,
            // A private directory above what the caller shows by its own name isn't about that.
            Grant::Tmpfs if shown.source != *real && shown.source.starts_with(real) => continue,
            Grant::Tmpfs => Grant::Tmpfs,
            Grant::Allowed { write: rule_write, execute: rule_execute } => {
                let (write, execute) = (write && rule_write, execute && rule_execute);
                if (write, execute) == (present_write, present_execute) {
                    continue;
                }
                Grant::Allowed { write, execute }
            }
            Grant::Absent => continue,
        };
        found.push(EffectivePath { source: at(&shown.source), destination, grant, rule: path.rule.clone() });
    }
    found
}

/// Builds the tree.
pub(super) fn compose(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resources: &Resources<'_>,
    arranged: &Arranged,
    (mapped, enforcement): (bool, NameEnforcement),
) -> Result<(), PlanError> {
    let mut builder =
        Builder { tree, facts, mapped, enforcement, private: BTreeSet::new(), processes: false };
    for (number, item) in arranged.items.iter().enumerate() {
        match item {
            Item::Shown(index) | Item::Ruled(index) => {
                let Some(path) = arranged.grants.paths.get(*index) else { continue };
                builder.path(path, matches!(item, Item::Shown(_)), &arranged.grants)?;
            }
            Item::Part(part) => {
                let later = arranged.items.get(number + 1..).unwrap_or_default();
                let later: Vec<(&Path, bool)> =
                    later.iter().filter_map(|item| arranged.place_of(facts, item)).collect();
                builder.part(part, &later)?;
            }
        }
    }
    let processes = builder.processes;
    if resources.policy.network().value == NetworkMode::Filtered {
        view::own_name_server(tree)?;
    }
    if processes {
        view::processes(tree)?;
    }
    Ok(())
}

impl Arranged {
    /// Where an item is, and whether it is a file.
    fn place_of<'a>(&'a self, facts: &Facts, item: &'a Item) -> Option<(&'a Path, bool)> {
        match item {
            Item::Shown(index) | Item::Ruled(index) => {
                let path = self.grants.paths.get(*index)?;
                Some((&path.destination, facts.kind(&path.source) == Kind::Other))
            }
            Item::Part(part) => Some((part.place(), matches!(part, Part::File { .. }))),
        }
    }
}

struct Builder<'t, 'f> {
    tree: &'t mut Tree<'f>,
    facts: &'t Facts,
    mapped: bool,
    enforcement: NameEnforcement,
    /// Directories of the new tree that are mounts of their own.
    private: BTreeSet<PathBuf>,
    /// The processes inside are shown. This step comes last, because init makes the file system meanwhile.
    processes: bool,
}

impl Builder<'_, '_> {
    /// The path at which a mount is made: the links of what is shown are followed, as far as they lead to what is shown.
    fn resolved(&self, place: &Path) -> PathBuf {
        let at = self.tree.resolve(place);
        match self.tree.host_path(&at) {
            Some(host) => match self.facts.canonical(&host) {
                Some(real) if real != host => self.tree.inside(&real).unwrap_or(at),
                _ => at,
            },
            None => at,
        }
    }

    fn path(&mut self, path: &EffectivePath, shown: bool, grants: &Grants) -> Result<(), PlanError> {
        let (tree, facts) = (&mut *self.tree, self.facts);
        let mapped = self.mapped && owners_count(path);
        match path.grant {
            Grant::Hidden | Grant::Denied => {
                tree.mask(&path.destination, path.grant == Grant::Denied)?;
                return Ok(());
            }
            Grant::Tmpfs => return tree.private(&path.destination, 0o755, false),
            Grant::Allowed { .. } | Grant::Absent => {}
        }
        let place = self.resolved(&path.destination);
        let path = EffectivePath { destination: place, ..path.clone() };
        let (tree, facts) = (&mut *self.tree, facts);
        apply(tree, facts, &path, (mapped, None), &mut Vec::new())?;
        if shown {
            if self.enforcement != NameEnforcement::Broker {
                pins::mount(tree, facts, &path, &pins::below(facts, &path, grants), mapped)?;
            }
            pin_own_places(tree, facts, &path, mapped)?;
            self.hide_own_places(&path, mapped)?;
        }
        Ok(())
    }

    /// Masks Palisade's own directories in a tree.
    fn hide_own_places(&mut self, path: &EffectivePath, mapped: bool) -> Result<(), PlanError> {
        for place in self.facts.places.all() {
            let real = real(place);
            let Ok(rest) = real.strip_prefix(&path.source) else { continue };
            // Another launch may make one of these while this command runs.
            if self.facts.places.runtimes().any(|runtime| runtime == place) {
                make_own_place(self.facts, place);
            }
            // Where root's command is another user, it can't pass a directory of root's, and neither can its builder.
            if self.mapped && !mapped && !is_open_to_all(&path.source, rest) {
                continue;
            }
            self.tree.mask(&path.destination.join(rest), false)?;
        }
        Ok(())
    }

    fn part(&mut self, part: &Part, later: &[(&Path, bool)]) -> Result<(), PlanError> {
        match part {
            Part::Tree { source, .. } => self.tree.device(source),
            Part::Processes { place } if place == Path::new("/proc") => {
                self.processes = true;
                self.tree.directory(place, 0o755)
            }
            Part::Devices { place } if place == Path::new("/dev") => self.devices(place),
            Part::Processes { place } | Part::Devices { place } => {
                let reason = "only /proc shows processes, and only /dev shows devices".to_owned();
                Err(PlanError::Unnamed { path: place.clone(), reason })
            }
            Part::Private { place, mode, frozen } => self.private(place, *mode, *frozen, later),
            Part::Queues { place } => {
                let place = self.resolved(place);
                self.tree.directory(&place, 0o755)?;
                self.tree.push(Step::Queues { path: relative(&place)?, rights: WRITABLE });
                Ok(())
            }
            Part::Directory { place, mode } => {
                let place = self.resolved(place);
                if self.tree.shows_directory(&place) {
                    return Ok(());
                }
                if self.tree.host_path(&place).is_some() || self.is_private(&place) {
                    return self.tree.directory(&place, *mode);
                }
                self.own(&place, *mode)
            }
            Part::Link { place, target } => self.link(place, target),
            Part::File { place, content, mode, write } => {
                let place = self.resolved(place);
                self.tree.made_file(&place, *mode, Text::new(content.clone())?, *write, Rights::OF_FILES)
            }
        }
    }

    fn link(&mut self, place: &Path, target: &Path) -> Result<(), PlanError> {
        let Some(host) = self.tree.host_path(&self.tree.resolve(place.parent().unwrap_or(place))) else {
            return match self.tree.stands(place) {
                true => Ok(()),
                false => self.tree.symlink(place, target),
            };
        };
        // It would be made on the host.
        let host = host.join(place.file_name().unwrap_or_default());
        match std::fs::read_link(&host) {
            Ok(found) if found == target => Ok(()),
            _ => Err(PlanError::NoMountPoint { path: place.to_owned(), host }),
        }
    }

    fn is_private(&self, place: &Path) -> bool {
        place.ancestors().skip(1).any(|above| self.private.contains(above))
    }

    fn own(&mut self, place: &Path, mode: u32) -> Result<(), PlanError> {
        match self.tree.stands(place) {
            // What earlier parts have made there is covered.
            true => self.tree.fresh(place)?,
            false => self.tree.private(place, mode, false)?,
        }
        self.private.insert(place.to_owned());
        Ok(())
    }

    fn private(
        &mut self,
        place: &Path,
        mode: u32,
        frozen: bool,
        later: &[(&Path, bool)],
    ) -> Result<(), PlanError> {
        let place = self.resolved(place);
        let below: Vec<&(&Path, bool)> =
            later.iter().filter(|(path, _file)| path.starts_with(&place) && *path != place).collect();
        if frozen && below.is_empty() && self.tree.host_path(&place).is_some() {
            // A placeholder costs less than a mount of its own, and is mounted again if the host replaces the path.
            self.tree.mask(&place, mode & 0o700 == 0)?;
            return Ok(());
        }
        self.own(&place, if mode & 0o700 == 0 { 0o755 } else { mode })?;
        if frozen {
            for (path, file) in below {
                let path = self.resolved(path);
                match file {
                    true if !self.tree.stands(&path) => self.tree.file(&path, 0o644, Text::literal(c""))?,
                    true => {}
                    false => self.tree.directory(&path, 0o755)?,
                }
            }
            self.tree.freeze(&place)?;
            self.private.remove(&place);
        }
        Ok(())
    }

    fn devices(&mut self, place: &Path) -> Result<(), PlanError> {
        self.own(place, 0o755)?;
        view::device_files(self.tree)?;
        self.tree.directory(Path::new("/dev/shm"), 0o1777)?;
        Ok(())
    }
}
