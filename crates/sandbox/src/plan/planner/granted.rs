// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows a view, and applies the policy's decisions about paths to it.

use super::grants::Grants;
use super::pins;
use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::{NameEnforcement, Origin, Step};
use crate::view::caches::Caches;
use crate::view::resources::Resources;
use crate::view::tree::{Show, Tree, relative};
use crate::view::{self, USERS, closure};
use palisade_host::needs::More;
use palisade_policy::decide::EffectivePath;
use palisade_policy::resolve::Resolved;
use palisade_policy::word::Switch;
use palisade_policy::{Grant, Layer, Policy, View};
use palisade_sys::landlock::Rights;
use palisade_text::Show as _;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Shows a view, and what the rules grant and refuse in it.
pub(super) fn granted(
    tree: &mut Tree<'_>,
    facts: &Facts,
    resources: &Resources<'_>,
    resolved: &Resolved,
    grants: &Grants,
    (mapped, enforcement): (bool, NameEnforcement),
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    let policy = resources.policy;
    let paths = grants.paths.as_slice();
    if let Some(path) = paths.iter().find(|path| grants_root(path)) {
        return Err(PlanError::Root { rule: Box::new(path.rule.clone()) });
    }
    // The files of a package were determined when it was made.
    let more = if facts.package().is_some() { More::default() } else { resources.more(facts) };
    let caches = Caches::find(facts, policy, paths, resources.isolation, notes);
    let listed = policy.switch(Switch::Shell).value;
    let (view, network) = (policy.view().value, policy.network().value);
    let shown = view::Shown { view, network, caches, mapped, listed };
    let later = view::compose(tree, facts, &shown, &more, notes)?;
    let kept = resources.home(tree, facts, mapped)?;
    if view == View::System && facts.package().is_none() {
        view::user_toolchains(tree, facts, kept.as_deref())?;
    }
    if let Some(kept) = &kept {
        view::home_settings::protect(tree, facts, resolved, kept, mapped)?;
    }
    let mut repository = Repository::of(facts, policy, paths);
    let places: Vec<&Path> = grants.places().collect();
    for (path, place) in std::iter::zip(paths, &places) {
        if repository.as_ref().is_some_and(|repository| repository.holds(&path.destination, place)) {
            view::repository(tree, facts)?;
            repository = None;
        }
        let covers = matches!(path.grant, Grant::Hidden | Grant::Denied);
        let exceptions = covers
            && std::iter::zip(paths, &places).any(|(other, below)| {
                below != place
                    && below.starts_with(place)
                    && matches!(other.grant, Grant::Allowed { .. } | Grant::Tmpfs)
            });
        // The target of a link may not be visible. Then there is no path to mount on.
        let shows =
            *place == path.destination || tree.host_path(&tree.resolve(place)).as_deref() == Some(*place);
        let private = (exceptions && shows).then_some(*place);
        apply(tree, facts, path, (mapped, private), notes)?;
        if enforcement != NameEnforcement::Broker {
            pins::mount(tree, facts, path, &pins::below(facts, path, grants), mapped)?;
        }
        pin_own_places(tree, facts, path, mapped)?;
    }
    for name in &grants.names {
        closure::links(tree, facts, name)?;
    }
    closure::user_toolchains(tree, facts, resolved, &later, notes)?;
    Ok(())
}

/// The repository of the working directory, before it is shown.
///
/// It is mounted before every rule about a part of it, because a later mount would cover the part: `--hide ../.env` from
/// a directory below the repository's top.
struct Repository<'f> {
    cwd: &'f Path,
    parts: Vec<PathBuf>,
}

impl<'f> Repository<'f> {
    /// `None` if none is shown: a view shows it already, or the policy doesn't show the working directory.
    fn of(facts: &'f Facts, policy: &Policy, paths: &[EffectivePath]) -> Option<Self> {
        let shows_cwd = policy.switch(Switch::WorkingDirectory).value
            && paths.iter().any(|path| path.destination.starts_with(&facts.cwd));
        let wanted = shows_cwd && policy.view().value != View::Host;
        wanted.then(|| Self { cwd: &facts.cwd, parts: view::repository_outside(facts) })
    }

    /// Whether a rule's path, or its target, lies in it.
    fn holds(&self, path: &Path, place: &Path) -> bool {
        let parts = self.parts.iter().map(PathBuf::as_path).chain([self.cwd]);
        parts.into_iter().any(|part| path.starts_with(part) || place.starts_with(part))
    }
}

/// Applies the policy's decision about one path to the tree.
pub(super) fn apply(
    tree: &mut Tree<'_>,
    facts: &Facts,
    path: &EffectivePath,
    (mapped, private): (bool, Option<&Path>),
    notes: &mut Vec<Cow<'static, str>>,
) -> Result<(), PlanError> {
    match path.grant {
        Grant::Absent => Ok(()),
        Grant::Hidden | Grant::Denied => {
            // Allowed paths below need mount points. The private directory holds nothing else.
            if let Some(place) = private {
                return tree.private(place, 0o755, false);
            }
            let covered = tree.mask(&path.destination, path.grant == Grant::Denied)?;
            let user = path.rule.origin.layer >= Layer::User;
            if !covered && user && tree.host_path(&tree.resolve(&path.destination)).is_some() {
                notes.push(Cow::Owned(format!(
                    "{} doesn't exist: {} has no effect if the path is made later",
                    path.destination.shown(),
                    path.rule
                )));
            }
            Ok(())
        }
        Grant::Tmpfs => tree.private(&path.destination, 0o755, false),
        Grant::Allowed { write, execute } => {
            let working_directory = path.source == facts.cwd;
            let source = if working_directory {
                path.source.clone()
            } else {
                facts.canonical(&path.source).unwrap_or_else(|| path.source.clone())
            };
            let origin = if working_directory && !tree.took_working_directory() {
                Origin::WorkingDirectory
            } else {
                Origin::Canonical
            };
            let show = Show { origin, write, execute, map_owners: mapped, ..USERS };
            let own_name = path.source == path.destination && !working_directory;
            // A link into a tree that isn't shown whole is made again, so that its target has its own name inside, too.
            let link = own_name
                && source != path.source
                && (!tree.stands(&source) || tree.host_path(&source).as_ref() == Some(&source))
                && tree.host_path(&tree.resolve(&path.destination)).is_none()
                && closure::links(tree, facts, &path.source)?.as_deref() == Some(source.as_path());
            // The same for a link in a visible tree of the host: a mount on a link isn't possible.
            let linked = own_name
                && source != path.source
                && tree.host_path(&tree.resolve(&path.destination)).as_deref() == Some(path.source.as_path());
            let destination = if link || linked { &source } else { &path.destination };
            if own_name && !write && tree.is_shut_at(destination) {
                // The path is visible and lacks only the right. A rule costs a quarter of a mount.
                let rights = if execute { Rights::READ.union(Rights::EXECUTE) } else { Rights::READ };
                let rights = match facts.kind(&source) {
                    Kind::Directory => rights,
                    _ => rights.intersection(Rights::OF_FILES),
                };
                tree.push(Step::Allow { path: relative(destination)?, rights });
                return Ok(());
            }
            tree.show(&source, destination, show)
        }
    }
}

/// Keeps files that Palisade obeys and stores at their paths, below a writable path.
///
/// The directories between the two become mounts of their own, because a mount point can't be renamed: otherwise the
/// command would move them aside and make new ones. This comes right after the path's own mount, so that other rules
/// about these directories are applied on top.
pub(super) fn pin_own_places(
    tree: &mut Tree<'_>,
    facts: &Facts,
    path: &EffectivePath,
    mapped: bool,
) -> Result<(), PlanError> {
    let Grant::Allowed { write: true, execute } = path.grant else { return Ok(()) };
    let source = real(&path.source);
    let mut between = BTreeSet::new();
    for place in facts.places.all() {
        let real_place = real(place);
        if source.starts_with(&real_place) {
            return Err(PlanError::OwnPlace { rule: Box::new(path.rule.clone()), place: place.to_owned() });
        }
        let Ok(rest) = real_place.strip_prefix(&source) else { continue };
        // The command could make a missing directory.
        make_own_place(facts, place);
        between
            .extend(rest.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).map(Path::to_owned));
    }
    let show = Show { write: true, execute, map_owners: mapped, ..USERS };
    // Where a directory is missing and couldn't be made, the command can't make it either.
    for part in between.into_iter().filter(|part| facts.kind(&source.join(part)) != Kind::Missing) {
        tree.show(&source.join(&part), &path.destination.join(&part), show)?;
    }
    Ok(())
}

/// Masks each of Palisade's own directories that a grant shows.
pub(super) fn hide_own_places(
    tree: &mut Tree<'_>,
    facts: &Facts,
    paths: &[EffectivePath],
) -> Result<(), PlanError> {
    let granted: Vec<(PathBuf, &Path)> = paths
        .iter()
        .filter(|path| matches!(path.grant, Grant::Allowed { .. }))
        .map(|path| (real(&path.source), path.destination.as_path()))
        .collect();
    for place in facts.places.all() {
        let real_place = real(place);
        for (source, destination) in &granted {
            let Ok(rest) = real_place.strip_prefix(source) else { continue };
            // Another launch may make one of these while this command runs.
            if facts.places.runtimes().any(|runtime| runtime == place) {
                make_own_place(facts, place);
            }
            tree.mask(&destination.join(rest), false)?;
        }
    }
    // A view may show one, too: the whole host, or a session's directory outside `/run`.
    for runtime in facts.places.runtimes() {
        if tree.host_path(&tree.resolve(runtime)).is_some() {
            make_own_place(facts, runtime);
            tree.mask(runtime, false)?;
        }
    }
    Ok(())
}

/// Makes one of Palisade's own directories, if it is missing and may be made.
pub(super) fn make_own_place(facts: &Facts, place: &Path) {
    let private = facts.places.own().any(|own| own == place);
    let mode = if private { 0o700 } else { 0o755 };
    let _exists_or_not_ours = std::fs::DirBuilder::new().recursive(true).mode(mode).create(place);
}

/// `path` with links followed as far as it exists, so that two names of one directory compare equal.
pub(crate) fn real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    match existing {
        Some((above, real)) => match path.strip_prefix(above) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            _ => real,
        },
        None => path.to_owned(),
    }
}

/// Whether a rule shows the host's root, or something in the place of the root inside.
fn grants_root(path: &EffectivePath) -> bool {
    let root = Path::new("/");
    match path.grant {
        Grant::Allowed { .. } => path.source == root || path.destination == root,
        Grant::Tmpfs => path.destination == root,
        Grant::Hidden | Grant::Denied | Grant::Absent => false,
    }
}
