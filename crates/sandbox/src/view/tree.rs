// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Composes the new file tree: which step makes which path, and where a path leads.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::text::{NullByte, Text};
use crate::plan::{Bind, Origin, Step};
use crate::view::above;
use crate::view::closure::USR;
use crate::view::mount_point;
use crate::view::mount_table::{Made, MountTable};
use palisade_sys::landlock::Rights;
use std::path::{Path, PathBuf};

/// How a tree of the host is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Show {
    pub(crate) origin: Origin,
    pub(crate) write: bool,
    pub(crate) execute: bool,
    /// Processes outside may replace the file. The mask refresher then mounts it again.
    pub(crate) renewed: bool,
    pub(crate) map_owners: bool,
    /// Landlock gives no right in it: single files are allowed by further rules.
    pub(crate) shut: bool,
}

/// The rights below a writable path.
pub(crate) const WRITABLE: Rights = Rights::EVERYTHING;

/// The tree so far, and the steps that make it.
#[derive(Debug)]
pub(crate) struct Tree<'f> {
    facts: &'f Facts,
    made: MountTable,
    steps: Vec<Step<'static>>,
    placeholders: bool,
    /// A tree is shown in which Landlock gives no right.
    partly_shut: bool,
    /// Targets of masked links that weren't visible when they were masked, and whether they are denied.
    links: Vec<(PathBuf, bool)>,
    /// Trees that are shown at a path from which the host's links lead to them: that path, and the host's path.
    aliases: Vec<(PathBuf, PathBuf)>,
}

impl<'f> Tree<'f> {
    /// A tree that is an empty tmpfs of at most `size`.
    pub(crate) fn new(facts: &'f Facts, size: &'static std::ffi::CStr) -> Self {
        let steps = vec![Step::Root { size: Text::literal(size) }];
        let mut made = MountTable::default();
        made.insert(Path::new("/"), Made::Directory);
        Self {
            facts,
            made,
            steps,
            placeholders: false,
            partly_shut: false,
            links: Vec::new(),
            aliases: Vec::new(),
        }
    }

    /// The complete steps. The last one enters the tree.
    pub(crate) fn finish(mut self) -> Vec<Step<'static>> {
        self.steps.push(Step::Enter);
        self.steps
    }

    /// Adds a step that makes no path.
    pub(crate) fn push(&mut self, step: Step<'static>) {
        self.steps.push(step);
    }

    /// Makes a directory and those above it.
    pub(crate) fn directory(&mut self, path: &Path, mode: u32) -> Result<(), PlanError> {
        let path = self.resolve(path);
        if self.made.has(&path) {
            return Ok(());
        }
        self.parents(&path)?;
        if !self.made.has(&path) {
            self.steps.push(Step::Directory { path: relative(&path)?, mode });
            self.made.insert(&path, Made::Directory);
        }
        Ok(())
    }

    /// Makes a file.
    pub(crate) fn file(&mut self, path: &Path, mode: u32, content: Text<'static>) -> Result<(), PlanError> {
        let path = self.resolve(path);
        self.parents(&path)?;
        self.steps.push(Step::File { path: relative(&path)?, mode, content });
        self.made.insert(&path, Made::File);
        Ok(())
    }

    /// Makes a symbolic link.
    pub(crate) fn symlink(&mut self, path: &Path, target: &Path) -> Result<(), PlanError> {
        self.parents(path)?;
        self.steps.push(Step::Symlink { path: relative(path)?, target: Text::path(target)? });
        self.made.insert(path, Made::Link(target.to_owned()));
        Ok(())
    }

    /// Makes a writable directory that is a separate mount. `reports_leftovers`: the user is told of files that were left there.
    pub(crate) fn private(
        &mut self,
        path: &Path,
        mode: u32,
        reports_leftovers: bool,
    ) -> Result<(), PlanError> {
        let path = self.resolve(path);
        if self.host_path(&path).is_some() {
            // Inside a tree of the host there is no directory of the new tree to use.
            self.place(&path, false)?;
            self.steps.push(Step::Tmpfs { path: relative(&path)?, rights: WRITABLE });
        } else {
            self.directory(&path, mode)?;
            self.steps.push(Step::Own { path: relative(&path)?, rights: WRITABLE, reports_leftovers });
        }
        self.made.forget(&path);
        self.made.insert(&path, Made::Directory);
        Ok(())
    }

    /// Covers a directory that steps have made with an empty, writable one.
    pub(crate) fn fresh(&mut self, path: &Path) -> Result<(), PlanError> {
        let path = self.resolve(path);
        self.steps.push(Step::Tmpfs { path: relative(&path)?, rights: WRITABLE });
        self.made.forget(&path);
        self.made.insert(&path, Made::Directory);
        Ok(())
    }

    /// Shows a tree or file of the host at `target`.
    pub(crate) fn show(&mut self, source: &Path, target: &Path, show: Show) -> Result<(), PlanError> {
        let target = self.resolve(target);
        let kind = self.facts.kind(source);
        let guarded = self.place(&target, kind != Kind::Directory)?;
        let mut rights = Rights::READ;
        if show.shut {
            self.partly_shut = true;
            rights = Rights::default();
        } else if show.execute {
            rights = rights.union(Rights::EXECUTE);
        }
        if show.write {
            rights = rights.union(WRITABLE.without(Rights::EXECUTE));
        }
        if kind != Kind::Directory {
            rights = rights.intersection(Rights::OF_FILES);
        }
        self.steps.push(Step::Bind(Bind {
            source: Text::path(source)?,
            target: relative(&target)?,
            origin: show.origin,
            write: show.write,
            execute: show.execute,
            devices: false,
            guarded,
            renewed: show.renewed,
            map_owners: show.map_owners,
            rights,
        }));
        self.made.forget(&target);
        self.made.insert(&target, Made::Mount(source.to_owned()));
        if source != target && self.facts.names.canonical(&target).as_deref() == Some(source) {
            self.aliases.push((target, source.to_owned()));
        }
        Ok(())
    }

    /// A device file of the host, or a directory of them.
    pub(crate) fn device(&mut self, path: &Path) -> Result<(), PlanError> {
        let kind = self.facts.kind(path);
        if kind == Kind::Missing {
            return Ok(());
        }
        self.place(path, kind != Kind::Directory)?;
        self.steps.push(Step::Bind(Bind {
            source: Text::path(path)?,
            target: relative(path)?,
            origin: Origin::System,
            write: true,
            execute: false,
            devices: true,
            guarded: false,
            renewed: false,
            map_owners: false,
            rights: Rights::default(),
        }));
        self.made.insert(path, Made::Mount(path.to_owned()));
        Ok(())
    }

    /// Makes a file with its rights, also inside a tree of the host.
    pub(crate) fn made_file(
        &mut self,
        path: &Path,
        mode: u32,
        content: Text<'static>,
        write: bool,
        rights: Rights,
    ) -> Result<(), PlanError> {
        let path = self.resolve(path);
        if self.host_path(&path).is_none() && !write {
            self.file(&path, mode, content)?;
            self.steps.push(Step::Allow { path: relative(&path)?, rights });
            return Ok(());
        }
        // Made at another path and mounted over the target, because the root becomes read-only when it is entered.
        self.make_placeholders();
        let aside = PathBuf::from(format!("/.palisade/file-{}", self.steps.len()));
        self.steps.push(Step::File { path: relative(&aside)?, mode, content });
        let guarded = self.place(&path, true)?;
        self.steps.push(Step::Bind(Bind {
            source: relative(&aside)?,
            target: relative(&path)?,
            origin: Origin::Inside,
            write,
            execute: mode & 0o111 != 0,
            devices: false,
            guarded,
            renewed: false,
            map_owners: false,
            rights,
        }));
        self.made.insert(&path, Made::File);
        Ok(())
    }

    /// Covers an existing file that no step has made with a file of other content.
    pub(crate) fn cover(&mut self, path: &Path, content: Text<'static>) -> Result<(), PlanError> {
        self.make_placeholders();
        let aside = PathBuf::from(format!("/.palisade/file-{}", self.steps.len()));
        self.steps.push(Step::File { path: relative(&aside)?, mode: 0o444, content });
        self.steps.push(Step::Bind(Bind {
            source: relative(&aside)?,
            target: relative(path)?,
            origin: Origin::Inside,
            write: false,
            execute: false,
            devices: false,
            guarded: true,
            renewed: false,
            map_owners: false,
            rights: Rights::READ.intersection(Rights::OF_FILES),
        }));
        Ok(())
    }

    /// Shows a directory of the host in which everything can be changed, without changing the host.
    pub(crate) fn overlay(&mut self, source: &Path, target: &Path, show: Show) -> Result<(), PlanError> {
        self.make_placeholders();
        let [lower, upper, work] = ["lower", "upper", "work"]
            .map(|part| PathBuf::from(format!("/.palisade/{part}-{}", self.steps.len())));
        self.show(source, &lower, Show { write: false, ..show })?;
        for path in [&upper, &work] {
            self.steps.push(Step::Directory { path: relative(path)?, mode: 0o700 });
        }
        let target = self.resolve(target);
        let guarded = self.place(&target, false)?;
        self.steps.push(Step::Overlay {
            lower: relative(&lower)?,
            upper: relative(&upper)?,
            work: relative(&work)?,
            target: relative(&target)?,
            guarded,
            rights: WRITABLE,
        });
        self.made.forget(&target);
        // Mount points are made in the lower directory, where no link that a program inside has made is followed. A path
        // of the overlay could lead through such a link.
        self.made.insert(&target, Made::Mount(source.to_owned()));
        Ok(())
    }

    /// Mounts a placeholder over a path of the host, if that path is visible.
    ///
    /// Returns whether there was a path to cover.
    pub(crate) fn mask(&mut self, path: &Path, denied: bool) -> Result<bool, PlanError> {
        let path = self.resolve(path);
        // A path that isn't visible here may be a link of the host to a file that is visible at another path.
        let named = self.host_path(&path);
        let spelled = named.clone().unwrap_or_else(|| path.clone());
        let (host, path) = match (self.facts.canonical(&spelled), named) {
            // A link is covered by covering its target, if the target is visible.
            (Some(real), _) if real != spelled => match self.inside(&real) {
                Some(path) if self.host_path(&path).as_ref() == Some(&real) => (real, path),
                // Another mask covers it already.
                Some(_) => return Ok(true),
                None => {
                    self.links.push((real, denied));
                    return Ok(true);
                }
            },
            (_, Some(host)) => (host, path),
            // No path of the host is visible here: the path was made by a step, or doesn't exist.
            (_, None) => return Ok(false),
        };
        let directory = match self.facts.kind(&host) {
            Kind::Missing => return Ok(false),
            Kind::Directory => true,
            Kind::Other => false,
        };
        self.make_placeholders();
        for place in self.other_names(&path, &host) {
            self.put_mask(&place, directory, denied)?;
        }
        self.put_mask(&path, directory, denied)?;
        Ok(true)
    }

    /// Other visible paths of a file of the host that lead to it on the host, too. `path` is one of its paths.
    fn other_names(&self, path: &Path, host: &Path) -> Vec<PathBuf> {
        let Some(real) = self.facts.names.canonical(host) else { return Vec::new() };
        if self.facts.names.canonical(path).as_ref() != Some(&real) {
            // A rule shows the file at another path, about which the policy has decided separately.
            return Vec::new();
        }
        let aliases = self.aliases.iter().filter_map(|(target, source)| {
            let rest = real.strip_prefix(source).ok()?;
            Some(if rest.as_os_str().is_empty() { target.clone() } else { target.join(rest) })
        });
        aliases
            .chain([real.clone()])
            .filter(|place| place != path && self.host_path(place).as_ref() == Some(&real))
            .collect()
    }

    /// Mounts a placeholder over a path.
    fn put_mask(&mut self, path: &Path, directory: bool, denied: bool) -> Result<(), PlanError> {
        let source = match (directory, denied) {
            (true, true) => c".palisade/denied",
            (true, false) => c".palisade/hidden",
            (false, true) => c".palisade/denied-file",
            (false, false) => c".palisade/hidden-file",
        };
        self.steps.push(Step::Bind(Bind {
            source: Text::literal(source),
            target: relative(path)?,
            origin: Origin::Inside,
            write: false,
            execute: false,
            devices: false,
            guarded: true,
            renewed: true,
            map_owners: false,
            rights: Rights::default(),
        }));
        self.made.forget(path);
        self.made.insert(path, Made::Directory);
        Ok(())
    }

    /// Masks the targets of links that were masked before the targets became visible.
    pub(crate) fn mask_behind_links(&mut self) -> Result<(), PlanError> {
        for (real, denied) in std::mem::take(&mut self.links) {
            if let Some(path) = self.inside(&real) {
                self.mask(&path, denied)?;
            }
        }
        Ok(())
    }

    /// Mounts a part of the new tree onto itself, read-only.
    pub(crate) fn freeze(&mut self, path: &Path) -> Result<(), PlanError> {
        let path = relative(path)?;
        self.steps.push(Step::Bind(Bind {
            source: path.clone(),
            target: path,
            origin: Origin::Inside,
            write: false,
            execute: false,
            devices: false,
            guarded: false,
            renewed: false,
            map_owners: false,
            rights: Rights::default(),
        }));
        Ok(())
    }

    /// The host's path that is visible at `path`, if a tree of the host is.
    pub(crate) fn host_path(&self, path: &Path) -> Option<PathBuf> {
        let (made, rest) = self.made.nearest(path)?;
        match made {
            Made::Mount(source) if rest.as_os_str().is_empty() => Some(source.clone()),
            Made::Mount(source) => Some(source.join(rest)),
            Made::Directory | Made::File | Made::Link(_) => None,
        }
    }

    /// Whether a tree is shown in which Landlock gives no right.
    pub(crate) const fn is_partly_shut(&self) -> bool {
        self.partly_shut
    }

    /// Whether the host's file of exactly this path is visible, in a tree in which Landlock gives no right.
    pub(crate) fn is_shut_at(&self, path: &Path) -> bool {
        self.partly_shut
            && path.starts_with(USR)
            && self.resolve(path) == path
            && self.made.nearest(path).is_some_and(|(_made, rest)| path.strip_prefix(USR) == Ok(&rest))
            && self.host_path(path).as_deref() == Some(path)
    }

    /// Whether a step has made exactly this path.
    pub(crate) fn stands(&self, path: &Path) -> bool {
        self.made.has(path)
    }

    /// Whether `path` is a directory inside.
    pub(crate) fn shows_directory(&self, path: &Path) -> bool {
        let path = self.resolve(path);
        match self.host_path(&path) {
            Some(host) => self.facts.kind(&host) == Kind::Directory,
            None => self.made.get(&path) == Some(&Made::Directory),
        }
    }

    /// Whether a step shows the working directory of the launch by its descriptor, which works only once.
    pub(crate) fn took_working_directory(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Bind(bind) if bind.origin == Origin::WorkingDirectory))
    }

    /// The path inside at which a path of the host is visible, if it is.
    pub(crate) fn inside(&self, host: &Path) -> Option<PathBuf> {
        // The same path as on the host is preferred to paths at which rules show it.
        let own = self.resolve(host);
        if self.host_path(&own).as_deref() == Some(host) {
            return Some(own);
        }
        let shown = self
            .made
            .mounts()
            .filter_map(|(target, source)| host.strip_prefix(source).ok().map(|rest| (target, source, rest)));
        let (target, _source, rest) =
            shown.max_by_key(|(_target, source, _rest)| source.components().count())?;
        let target = target.path();
        Some(if rest.as_os_str().is_empty() { target } else { target.join(rest) })
    }

    /// Makes a mount point. Returns whether it lies in a tree that processes outside can change.
    fn place(&mut self, target: &Path, file: bool) -> Result<bool, PlanError> {
        self.parents(target)?;
        if let Some(host) = self.host_path(target) {
            self.free(target, &host, file)?;
            return match self.facts.kind(&host) {
                // In a sandbox's own home or caches a mount point can be made. Directories of the user stay unchanged.
                Kind::Missing if mount_point::make(&self.facts.trees_to_mount_in(), &host, file) => Ok(true),
                Kind::Missing => Err(PlanError::NoMountPoint { path: target.to_owned(), host }),
                _ => Ok(true),
            };
        }
        if !self.made.has(target) {
            let path = relative(target)?;
            self.steps.push(if file {
                Step::File { path, mode: 0o644, content: Text::literal(c"") }
            } else {
                Step::Directory { path, mode: 0o755 }
            });
            self.made.insert(target, if file { Made::File } else { Made::Directory });
        }
        Ok(false)
    }

    /// Fails if a program inside has left something at a mount point in a home or cache that can't be one.
    fn free(&self, target: &Path, host: &Path, file: bool) -> Result<(), PlanError> {
        match mount_point::in_the_way(&self.facts.kept_trees(), host, file) {
            Some(found) => Err(PlanError::InTheWay { path: target.to_owned(), found, file }),
            None => Ok(()),
        }
    }

    /// Makes the missing directories above `path`, where Palisade may make them.
    fn parents(&mut self, path: &Path) -> Result<(), PlanError> {
        let mut missing: Vec<PathBuf> = Vec::new();
        for above in path.ancestors().skip(1) {
            if self.made.has(above) {
                break;
            }
            missing.push(above.to_owned());
        }
        for above in missing.into_iter().rev() {
            if let Some(host) = self.host_path(&above) {
                let made = || mount_point::make(&self.facts.trees_to_mount_in(), &host, false);
                if self.facts.kind(&host) != Kind::Directory && !made() {
                    self.free(path, &host, false)?;
                    return Err(PlanError::NoMountPoint { path: path.to_owned(), host });
                }
            } else {
                let mode = above::mode(&above, &self.facts.cwd, &self.facts.account.home);
                self.steps.push(Step::Directory { path: relative(&above)?, mode });
                self.made.insert(&above, Made::Directory);
            }
        }
        Ok(())
    }

    /// `path` with the links that steps have made followed.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.made.resolve(path)
    }

    /// The sources of masks: an empty file and directory, and two that can't be read. They stay, because a directory
    /// that is removed while it is mounted can't even be listed.
    fn make_placeholders(&mut self) {
        if std::mem::replace(&mut self.placeholders, true) {
            return;
        }
        // No other code makes a file or a link with this name.
        if self.made.insert(Path::new("/.palisade"), Made::Directory).is_none() {
            self.steps.push(Step::Directory { path: Text::literal(c".palisade"), mode: 0o755 });
        }
        for (path, mode) in [(c".palisade/hidden", 0o555), (c".palisade/denied", 0)] {
            self.steps.push(Step::Directory { path: Text::literal(path), mode });
        }
        for (path, mode) in [(c".palisade/hidden-file", 0o444), (c".palisade/denied-file", 0)] {
            self.steps.push(Step::File { path: Text::literal(path), mode, content: Text::literal(c"") });
        }
    }
}

/// A path of the new tree in the form for steps: without the leading slash.
pub(crate) fn relative(path: &Path) -> Result<Text<'static>, NullByte> {
    Text::path(path.strip_prefix("/").unwrap_or(path))
}
