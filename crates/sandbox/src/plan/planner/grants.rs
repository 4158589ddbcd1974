// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides which paths a policy grants on this host.
//!
//! Each path is looked up once. Its target decides in which order mounts are made, whether a masked file would show,
//! and whether a command of an earlier launch could have chosen the target by a link.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::package;
use crate::plan::planner::statements::{Said, Statements};
use palisade_host::links::{self, Link};
use palisade_host::walk::WalkError;
use palisade_policy::decide::{EffectiveGlob, EffectivePath};
use palisade_policy::layer::Rank;
use palisade_policy::resolve::Resolved;
use palisade_policy::{Grant, Layer, Strength};
use palisade_text::Show as _;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The paths of a policy's rules.
#[derive(Debug)]
pub(super) struct Grants {
    /// In the order of mounting: a path comes after the paths that it lies in, with links followed.
    pub(super) paths: Vec<EffectivePath>,
    /// The target of each path on the host.
    real: Vec<PathBuf>,
    /// Paths that are looked up at each launch.
    pub(super) anchors: Vec<Anchor>,
    /// Paths through links that must lead to their targets inside, too. Other paths decide about the targets.
    pub(super) names: Vec<PathBuf>,
}

/// A path that is looked up at each launch.
#[derive(Debug)]
pub(super) struct Anchor {
    /// On the host, links followed.
    pub(super) source: PathBuf,
    /// Inside.
    pub(super) destination: PathBuf,
    /// It is a directory in which names are searched, so it keeps its own name, too.
    pub(super) itself: bool,
    /// It was found by a pattern.
    pub(super) pattern: Option<PatternMatch>,
}

/// Where a pattern finds an anchor again.
#[derive(Debug)]
pub(super) struct PatternMatch {
    /// The directory in which the pattern begins, links followed.
    pub(super) base: PathBuf,
    /// How many directories above the match the pattern names. Directories that a `**` at its beginning matches don't count.
    pub(super) named: usize,
}

/// A path with its target.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) path: EffectivePath,
    /// The path on the host without links; unchanged if nothing exists there.
    pub(super) real: PathBuf,
    /// The symbolic links on the path, each with its own place.
    pub(super) links: Vec<Link>,
    /// Another rule decides about the path's own name: this object grants nothing.
    only_restricts: bool,
}

/// How a path is used.
enum Wanted {
    /// As its rule says.
    Whole,
    /// Only its name is made, as a way to what other rules grant.
    Name,
    Nothing,
}

/// The paths that rules name, with globs looked up. Paths that don't exist or can't be used are left out.
pub(super) fn grants(
    facts: &Facts,
    resolved: &Resolved,
    shows_cwd: bool,
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<Grants, PlanError> {
    let mut objects = Vec::new();
    for path in resolved.effective() {
        let path = match facts.package() {
            Some(package) => match package::view::placed(package, path) {
                Some(path) => path,
                None => continue,
            },
            None => path,
        };
        let own_directory = path.source == facts.cwd && path.rule.origin.layer == Layer::BuiltIn;
        if own_directory && path.rule.origin.file.is_none() && !shows_cwd {
            continue;
        }
        if own_directory && let Some(reason) = unsuitable(facts) {
            notes.push(Cow::Owned(reason));
            continue;
        }
        let allowed = matches!(path.grant, Grant::Allowed { .. });
        if allowed && facts.kind(&path.source) == Kind::Missing {
            missing(&path, notes)?;
            continue;
        }
        objects.push(Object::of(facts, path));
    }
    let mut anchors: Vec<Anchor> = objects
        .iter()
        .filter(|object| object.path.grant != Grant::Absent)
        .map(|object| Anchor {
            source: object.real.clone(),
            destination: object.path.destination.clone(),
            itself: false,
            pattern: None,
        })
        .collect();
    let mut matches = Vec::new();
    for glob in resolved.globs() {
        let found = matches_of(facts, &glob)?;
        matches.extend_from_slice(&found);
        let base = facts.canonical(&glob.base).unwrap_or_else(|| glob.base.clone());
        anchors.push(Anchor {
            source: base.clone(),
            destination: glob.inside(&glob.base),
            itself: true,
            pattern: None,
        });
        for host in found {
            let destination = glob.inside(&host);
            let decision = resolved.decide(&destination);
            // A link is judged by its target when it is used, and can't be mounted over.
            if !objects.iter().any(|object: &Object| object.path.destination == destination) {
                let source = decision.source.unwrap_or_else(|| host.clone());
                // Not necessarily the pattern's rule: another rule may decide about this match.
                let rule = decision.because.into_iter().next().unwrap_or_else(|| glob.rule.clone());
                let path = EffectivePath { source, destination, grant: decision.grant, rule };
                let path = match facts.package() {
                    Some(package) => package::view::placed(package, path),
                    None => Some(path),
                };
                let Some(path) = path else { continue };
                // A link without a target: there is no file to show or to hide. Any other missing match has been moved
                // since it was found. It must not be shown at its new place, where no rule applies to it.
                if facts.kind(&path.source) == Kind::Missing {
                    if facts.package().is_none() && path.source == host && facts.has_moved(&host) {
                        let source = WalkError::Moving { path: glob.base.clone() };
                        return Err(PlanError::Walk { rule: Box::new(glob.rule.clone()), source });
                    }
                    continue;
                }
                let named = glob.pattern.decisive(&host).saturating_sub(1);
                let object = Object::of(facts, path);
                // A writable grant needs no pin: under another name it isn't granted.
                if !matches!(object.path.grant, Grant::Allowed { write: true, .. }) {
                    anchors.push(Anchor {
                        source: object.real.clone(),
                        destination: object.path.destination.clone(),
                        itself: false,
                        pattern: Some(PatternMatch { base: base.clone(), named }),
                    });
                }
                objects.push(object);
            }
        }
    }
    if facts.package().is_none() {
        for glob in resolved.overridden_globs() {
            matches.append(&mut matches_of(facts, &glob)?);
        }
        let elsewhere = restrictions_elsewhere(facts, resolved, &matches, &objects);
        objects.extend(elsewhere);
    }
    let statements = match facts.package() {
        Some(_) => Statements::default(),
        None => Statements::gather(facts, resolved, &matches, &objects),
    };
    // Rules about an object by a link come after rules by its own name.
    objects.sort_by_key(|object| (object.place().components().count(), !object.links.is_empty()));
    let paths = Vec::with_capacity(objects.len());
    let mut grants = Grants { paths, real: Vec::new(), anchors, names: Vec::new() };
    for object in &objects {
        match object.is_wanted(&objects, &statements)? {
            Wanted::Whole => {
                // Looked up again by its present path, because no command can move the link.
                if object.only_restricts {
                    grants.anchors.push(Anchor {
                        source: object.real.clone(),
                        destination: object.real.clone(),
                        itself: false,
                        pattern: None,
                    });
                }
                grants.paths.push(object.path.clone());
                grants.real.push(object.real.clone());
            }
            Wanted::Name => grants.names.push(object.path.destination.clone()),
            Wanted::Nothing => {}
        }
    }
    grants.narrow(&statements, &objects)?;
    Ok(grants)
}

/// The matches of a pattern on the host.
fn matches_of(facts: &Facts, glob: &EffectiveGlob) -> Result<Vec<PathBuf>, PlanError> {
    let packed = facts.package().filter(|_package| package::is_packed(&glob.base));
    let found = match packed {
        Some(package) => package::view::look_up(facts, package, glob),
        None => facts.look_up(&glob.base, glob.depth(), |path| glob.matches(path)),
    };
    found.map_err(|source| PlanError::Walk { rule: Box::new(glob.rule.clone()), source })
}

/// Restrictions by a link, if another rule decides about the link's own name: a rule applies to the target of its path,
/// and a pattern applies to the targets of its matches.
fn restrictions_elsewhere(
    facts: &Facts,
    resolved: &Resolved,
    matches: &[PathBuf],
    objects: &[Object],
) -> Vec<Object> {
    let named = resolved.stated();
    let is_named = |path: &PathBuf| named.iter().any(|one| one.destination == *path);
    let by_patterns: BTreeSet<&PathBuf> = matches.iter().filter(|path| !is_named(path)).collect();
    let by_patterns: Vec<EffectivePath> =
        by_patterns.into_iter().flat_map(|path| resolved.stated_at(path)).collect();
    let mut found = Vec::new();
    for path in named.into_iter().chain(by_patterns) {
        let is_effective = objects.iter().any(|object| {
            object.path.destination == path.destination && object.path.rule.rank() == path.rule.rank()
        });
        if is_effective || facts.canonical(&path.source).is_none_or(|real| real == path.source) {
            continue;
        }
        let mut object = Object::of(facts, path);
        object.path.source.clone_from(&object.real);
        object.path.destination.clone_from(&object.real);
        object.only_restricts = true;
        found.push(object);
    }
    found
}

impl Anchor {
    /// A path that a rule names.
    pub(super) const fn plain(source: PathBuf, destination: PathBuf) -> Self {
        Self { source, destination, itself: false, pattern: None }
    }
}

impl Grants {
    /// No path.
    pub(super) const fn empty() -> Self {
        Self { paths: Vec::new(), real: Vec::new(), anchors: Vec::new(), names: Vec::new() }
    }

    /// Adds a path whose source has no links.
    pub(super) fn push(&mut self, path: EffectivePath) {
        self.real.push(path.source.clone());
        self.paths.push(path);
    }

    /// Where a link counts, several rules together may allow less of an object than any single wanted path.
    fn narrow(&mut self, statements: &Statements, all: &[Object]) -> Result<(), PlanError> {
        for real in statements.objects() {
            let said = statements.decide(real);
            // Names decide about most objects, and the search below examines all paths.
            let shown = if said.by_link { self.decisive(real) } else { None };
            let Some(Grant::Allowed { write, execute }) = shown.map(|shown| shown.grant) else { continue };
            let Some((grant, rule)) = said.less_than((write, execute)) else { continue };
            ensure_lasting(statements, all, real, (write, execute))?;
            let depth = |path: &Path| path.components().count();
            // After the paths that it lies in, and after paths at the same place.
            let at = self.places().take_while(|place| depth(place) <= depth(real)).count();
            let path = |path: &Path| path.to_owned();
            let narrower =
                EffectivePath { source: path(real), destination: path(real), grant, rule: rule.clone() };
            self.paths.insert(at, narrower);
            self.real.insert(at, path(real));
            self.anchors.push(Anchor {
                source: path(real),
                destination: path(real),
                itself: false,
                pattern: None,
            });
        }
        Ok(())
    }

    /// The place of each path inside: the target of its links, or the place where its rule shows it.
    pub(super) fn places(&self) -> impl Iterator<Item = &Path> {
        std::iter::zip(&self.paths, &self.real).map(|(path, real)| {
            if path.source == path.destination { real.as_path() } else { path.destination.as_path() }
        })
    }

    /// The path whose rule decides about `path`, which has no links: the nearest path at or above it, after that path's
    /// links are followed.
    pub(super) fn decisive(&self, path: &Path) -> Option<&EffectivePath> {
        std::iter::zip(&self.paths, &self.real)
            .filter(|(found, real)| found.source == found.destination && path.starts_with(real))
            .max_by_key(|(found, real)| {
                // Of two rules for the same object, the refusal wins.
                let refuses = matches!(found.grant, Grant::Hidden | Grant::Denied);
                (real.components().count(), refuses)
            })
            .map(|(found, _real)| found)
    }
}

impl Object {
    pub(super) fn of(facts: &Facts, path: EffectivePath) -> Self {
        let real = facts.canonical(&path.source).unwrap_or_else(|| path.source.clone());
        let links = match real == path.source {
            true => Vec::new(),
            // A path that can't be walked leads to nothing, and was left out earlier.
            false => links::walk(&facts.names, &path.source).map(|way| way.links).unwrap_or_default(),
        };
        Self { path, real, links, only_restricts: false }
    }

    /// Its place inside, for the order of mounts.
    fn place(&self) -> &Path {
        if self.is_moved() { &self.path.destination } else { &self.real }
    }

    /// It is shown under another name than the host's.
    fn is_moved(&self) -> bool {
        self.path.source != self.path.destination
    }

    pub(super) const fn rank(&self) -> Rank {
        self.path.rule.rank()
    }

    pub(super) const fn allows(&self) -> Option<(bool, bool)> {
        match self.path.grant {
            Grant::Allowed { write, execute } => Some((write, execute)),
            _ => None,
        }
    }

    /// A link on the path that a sandboxed command may have made, and the writable tree in which the link lies.
    pub(super) fn untrusted_link<'o>(&'o self, all: &'o [Self]) -> Option<(&'o Path, &'o Self)> {
        self.links.iter().find_map(|link| {
            let writable = |object: &&Self| matches!(object.allows(), Some((true, _)));
            let tree = all.iter().filter(writable).find(|object| link.place.starts_with(&object.real))?;
            Some((link.place.as_path(), tree))
        })
    }

    /// The path whose rule decides about the target of this one. A path with an untrusted link decides nothing.
    fn decisive<'o>(&self, all: &'o [Self]) -> Option<&'o Self> {
        all.iter()
            .filter(|other| !std::ptr::eq(*other, self) && !other.is_moved())
            .filter(|other| self.real.starts_with(&other.real) && other.untrusted_link(all).is_none())
            .max_by_key(|other| (other.real.components().count(), other.links.is_empty()))
    }

    /// The nearest lock above, if it leads here by a link: a comparison of names doesn't find such a lock.
    fn lock_by_link<'o>(&self, all: &'o [Self]) -> Option<(&'o Link, &'o Self)> {
        let lock = all
            .iter()
            .filter(|other| other.path.rule.strength == Strength::Locked && !other.is_moved())
            .filter(|other| self.real.starts_with(&other.real))
            .max_by_key(|other| (other.real.components().count(), other.allows().is_none()))?;
        Some((lock.links.last()?, lock))
    }

    /// How this path is used. A link on the path, or on a path above it, may have made the rule wrong or unnecessary.
    fn is_wanted(&self, all: &[Self], statements: &Statements) -> Result<Wanted, PlanError> {
        let rule = &self.path.rule;
        let said = statements.decide(&self.real);
        let Some((write, execute)) = self.allows() else { return self.is_mask_wanted(all, &said) };
        let within = |(may_write, may_execute)| (may_write || !write) && (may_execute || !execute);
        if rule.strength != Strength::Locked
            && let Some((link, lock)) = self.lock_by_link(all)
            && !lock.allows().is_some_and(within)
        {
            return Err(PlanError::LinkAround {
                link: link.place.clone(),
                target: lock.real.clone(),
                write,
                rule: Box::new(rule.clone()),
                other: Box::new(lock.path.rule.clone()),
            });
        }
        // The rule that shows it elsewhere is of a later layer than the lock. This may be what the lock leaves of it.
        let own_lock = rule.strength == Strength::Locked && rule.destination.is_some();
        if self.is_moved()
            && !own_lock
            && let Some((link, lock)) = said.lock_by_link_against((write, execute))
        {
            return Err(PlanError::LinkAround {
                link: link.place.clone(),
                target: lock.real.clone(),
                write,
                rule: Box::new(rule.clone()),
                other: Box::new(lock.path.rule.clone()),
            });
        }
        let Some(last) = self.links.last() else {
            // If no link leads here, the policy has decided correctly by names.
            if self.is_moved() || !said.by_link || said.permits((write, execute)) {
                return Ok(Wanted::Whole);
            }
            ensure_lasting(statements, all, &self.real, (write, execute))?;
            return Ok(Wanted::Nothing);
        };
        let decisive = self.decisive(all);
        let untrusted = self.untrusted_link(all);
        let granted = decisive.and_then(Self::allows).is_some_and(within);
        if self.only_restricts && !granted {
            return Ok(Wanted::Nothing);
        }
        if let Some(other) = decisive {
            let covered = matches!(other.path.grant, Grant::Hidden | Grant::Denied);
            if covered || other.path.rule.strength == Strength::Locked && !granted {
                return Err(PlanError::LinkAround {
                    link: last.place.clone(),
                    target: self.real.clone(),
                    write,
                    rule: Box::new(rule.clone()),
                    other: Box::new(other.path.rule.clone()),
                });
            }
        }
        if untrusted.is_none() && !said.permits((write, execute)) {
            ensure_lasting(statements, all, &self.real, (write, execute))?;
            return match said.lock_against((write, execute)) {
                Some(lock) if rule.strength != Strength::Locked => Err(PlanError::LinkAround {
                    link: last.place.clone(),
                    target: self.real.clone(),
                    write,
                    rule: Box::new(rule.clone()),
                    other: Box::new(lock.path.rule.clone()),
                }),
                _ => Ok(Wanted::Name),
            };
        }
        match (decisive, untrusted) {
            // A later layer allows less of the target.
            (Some(other), _) if !granted && other.path.rule.rank() > rule.rank() => Ok(Wanted::Name),
            // The target is shown in the same way anyway.
            (Some(other), _) if granted && other.path.grant == self.path.grant => {
                Ok(if untrusted.is_some() { Wanted::Name } else { Wanted::Whole })
            }
            (Some(other), _) if granted => self.restricts(other, untrusted),
            (_, Some((link, tree))) => Err(PlanError::Link {
                link: link.to_owned(),
                target: self.real.clone(),
                writable: tree.path.source.clone(),
                write,
                rule: Box::new(rule.clone()),
            }),
            (_, None) => Ok(Wanted::Whole),
        }
    }

    /// Like `is_wanted`, for paths that are hidden, denied or private.
    fn is_mask_wanted(&self, all: &[Self], said: &Said<'_>) -> Result<Wanted, PlanError> {
        if self.links.is_empty() {
            return Ok(Wanted::Whole);
        }
        let untrusted = self.untrusted_link(all);
        match self.decisive(all).filter(|other| other.allows().is_some()) {
            // A rule of higher precedence allows something.
            Some(_) if untrusted.is_none() && said.allows() => Ok(Wanted::Nothing),
            Some(_) if untrusted.is_none() => Ok(Wanted::Whole),
            Some(shown) => self.restricts(shown, untrusted),
            // A path that isn't shown needs no mask.
            None if self.only_restricts => Ok(Wanted::Nothing),
            None => Ok(Wanted::Whole),
        }
    }

    /// What happens to a rule that, by a link, allows less than another rule does by its own name: it is applied,
    /// unless the other one is of a later layer.
    ///
    /// A command that can move the link would make the next launch look at another place. Then the rule must be stated
    /// for the link's target.
    fn restricts(&self, other: &Self, untrusted: Option<(&Path, &Self)>) -> Result<Wanted, PlanError> {
        let rule = &self.path.rule;
        if rule.strength != Strength::Locked && other.path.rule.rank() > rule.rank() {
            return Ok(if self.allows().is_some() { Wanted::Name } else { Wanted::Nothing });
        }
        let Some((link, tree)) = untrusted else { return Ok(Wanted::Whole) };
        Err(self.movable(link, tree))
    }

    /// The rule can't last from one launch to the next, because the link lies in a writable tree.
    fn movable(&self, link: &Path, tree: &Self) -> PlanError {
        PlanError::MovableLink {
            link: link.to_owned(),
            target: self.real.clone(),
            writable: tree.path.source.clone(),
            option: match self.path.grant {
                Grant::Allowed { write: true, .. } => "--rw",
                Grant::Allowed { .. } => "--ro",
                Grant::Denied => "--deny",
                Grant::Tmpfs => "--tmpfs",
                Grant::Hidden | Grant::Absent => "--hide",
            },
            rule: Box::new(self.path.rule.clone()),
        }
    }
}

/// The rules must not restrict `shown` only by a link that a command may move.
fn ensure_lasting(
    statements: &Statements,
    all: &[Object],
    real: &Path,
    shown: (bool, bool),
) -> Result<(), PlanError> {
    let Some(refusing) = statements.refused_by_movable_link(real, shown) else { return Ok(()) };
    refusing.untrusted_link(all).map_or(Ok(()), |(link, tree)| Err(refusing.movable(link, tree)))
}

/// A rule names a missing path: an error on the command line, a note elsewhere.
fn missing(path: &EffectivePath, notes: &mut Vec<Cow<'static, str>>) -> Result<(), PlanError> {
    let rule = &path.rule;
    match rule.origin.layer {
        Layer::CommandLine => {
            Err(PlanError::Missing { path: path.source.clone(), rule: Box::new(rule.clone()) })
        }
        Layer::BuiltIn | Layer::Distribution => Ok(()),
        _ => {
            notes.push(Cow::Owned(format!("{} doesn't exist: {rule} has no effect", path.source.shown())));
            Ok(())
        }
    }
}

/// Why the working directory can't be writable by default, if it can't.
fn unsuitable(facts: &Facts) -> Option<String> {
    let cwd = &facts.cwd;
    let home = &facts.account.home;
    if facts.layout.shows(cwd) {
        return Some(format!("the working directory {} is a system directory: read-only", cwd.shown()));
    }
    if home.starts_with(cwd) {
        let reason = if cwd == home { "is your home" } else { "holds your home" };
        return Some(format!(
            "the working directory {} {reason}: private and empty inside; change to a project's directory, or add --rw DIRECTORY",
            cwd.shown()
        ));
    }
    for taken in ["/proc", "/sys", "/dev", "/run"] {
        if cwd.starts_with(taken) {
            return Some(format!("the working directory {} isn't shown: it lies in {taken}", cwd.shown()));
        }
    }
    None
}
