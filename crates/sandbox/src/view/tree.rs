// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Composing the new file tree: which step makes which name, and what a path leads to.

use crate::error::PlanError;
use crate::facts::{Facts, Kind};
use crate::plan::text::{NullByte, Text};
use crate::plan::{Bind, Origin, Step};
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
    /// Others may replace it; what comes in its place is shown the same way.
    pub(crate) renewed: bool,
    pub(crate) map_owners: bool,
    /// Landlock gives no right in it: what may be used is allowed one by one.
    pub(crate) shut: bool,
}

/// Rights beneath a place that may be changed.
pub(crate) const WRITABLE: Rights = Rights::EVERYTHING;

/// The tree so far, and the steps that make it.
#[derive(Debug)]
pub(crate) struct Tree<'f> {
    facts: &'f Facts,
    made: MountTable,
    steps: Vec<Step<'static>>,
    placeholders: bool,
    /// Something is shown in which Landlock gives no right.
    partly_shut: bool,
    /// What covered links lead to where nothing of it has shown so far, and whether it is denied.
    links: Vec<(PathBuf, bool)>,
    /// Trees that show at names by which the host's links lead to them, and what they are.
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

    /// The finished steps: the tree is entered at the end.
    pub(crate) fn finish(mut self) -> Vec<Step<'static>> {
        self.steps.push(Step::Enter);
        self.steps
    }

    /// Adds a step that makes no name.
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

    /// Makes a writable directory that is a mount of its own.
    pub(crate) fn private(&mut self, path: &Path, mode: u32) -> Result<(), PlanError> {
        let path = self.resolve(path);
        if self.host_path(&path).is_some() {
            // On top of a tree of the host: there is no directory of ours to take.
            self.place(&path, false)?;
            self.steps.push(Step::Tmpfs { path: relative(&path)?, rights: WRITABLE });
        } else {
            self.directory(&path, mode)?;
            self.steps.push(Step::Own { path: relative(&path)?, rights: WRITABLE });
        }
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

    /// Makes a file with its rights, also on top of a tree of the host.
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
        // Made aside, and mounted over what is there: the root is read-only once it is entered.
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

    /// Covers a file that is there, though no step has made it, by one with other content.
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

    /// Shows a directory of the host in which everything can be changed, and nothing is.
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
        self.made.insert(&target, Made::Directory);
        Ok(())
    }

    /// Puts a placeholder over a path of the host that is visible, if it is.
    ///
    /// Returns whether there was anything to cover.
    pub(crate) fn mask(&mut self, path: &Path, denied: bool) -> Result<bool, PlanError> {
        let path = self.resolve(path);
        // What doesn't show here may still be a link of the host to something that shows elsewhere.
        let named = self.host_path(&path);
        let spelled = named.clone().unwrap_or_else(|| path.clone());
        let (host, path) = match (self.facts.canonical(&spelled), named) {
            // A link is covered by covering what it leads to, if that can be seen at all.
            (Some(real), _) if real != spelled => match self.inside(&real) {
                Some(path) if self.host_path(&path).as_ref() == Some(&real) => (real, path),
                // Another mask lies over it.
                Some(_) => return Ok(true),
                None => {
                    self.links.push((real, denied));
                    return Ok(true);
                }
            },
            (_, Some(host)) => (host, path),
            // What stands here is ours: a name above, at most.
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

    /// Where else something of the host shows by a name that leads to it on the host, too. `path` is one of its names.
    fn other_names(&self, path: &Path, host: &Path) -> Vec<PathBuf> {
        let Some(real) = self.facts.names.canonical(host) else { return Vec::new() };
        if self.facts.names.canonical(path).as_ref() != Some(&real) {
            // A place of its own, of which the policy says something else.
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

    /// Puts a placeholder over a name.
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

    /// Covers what links lead to that have been covered before it was shown.
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

    /// Whether a tree of the host shows at `path`, and which path of the host that is.
    pub(crate) fn host_path(&self, path: &Path) -> Option<PathBuf> {
        let (made, rest) = self.made.nearest(path)?;
        match made {
            Made::Mount(source) if rest.as_os_str().is_empty() => Some(source.clone()),
            Made::Mount(source) => Some(source.join(rest)),
            Made::Directory | Made::File | Made::Link(_) => None,
        }
    }

    /// Whether something is shown in which Landlock gives no right.
    pub(crate) const fn is_partly_shut(&self) -> bool {
        self.partly_shut
    }

    /// Whether the host's file of this very name is in sight, in something in which Landlock gives no right.
    pub(crate) fn is_shut_at(&self, path: &Path) -> bool {
        self.partly_shut
            && path.starts_with(USR)
            && self.resolve(path) == path
            && self.made.nearest(path).is_some_and(|(_made, rest)| path.strip_prefix(USR) == Ok(&rest))
            && self.host_path(path).as_deref() == Some(path)
    }

    /// Whether a step has made this very name.
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

    /// Whether a step shows the launch's working directory by its descriptor, which works once.
    pub(crate) fn took_working_directory(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step, Step::Bind(bind) if bind.origin == Origin::WorkingDirectory))
    }

    /// Where a path of the host shows inside, if it does.
    fn inside(&self, host: &Path) -> Option<PathBuf> {
        // Its own name goes before those under which a rule shows it elsewhere.
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

    /// Makes a mount point. Returns whether it lies in a tree that others can change.
    fn place(&mut self, target: &Path, file: bool) -> Result<bool, PlanError> {
        self.parents(target)?;
        if let Some(host) = self.host_path(target) {
            return match self.facts.kind(&host) {
                // A home of a sandbox's own has room for what is shown in it; what is the user's isn't touched.
                Kind::Missing if mount_point::make(&self.facts.homes(), &host, file) => Ok(true),
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

    /// Makes the directories above `path`, as far as they are ours to make.
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
                let made = || mount_point::make(&self.facts.homes(), &host, false);
                if self.facts.kind(&host) != Kind::Directory && !made() {
                    return Err(PlanError::NoMountPoint { path: path.to_owned(), host });
                }
            } else {
                self.steps.push(Step::Directory { path: relative(&above)?, mode: 0o755 });
                self.made.insert(&above, Made::Directory);
            }
        }
        Ok(())
    }

    /// `path` with the links that steps have made followed.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        self.made.resolve(path)
    }

    /// What masks are made of: a file and a directory that are empty, and two that can't be read.
    /// They stay: a directory that is removed while mounted can't even be listed.
    fn make_placeholders(&mut self) {
        if std::mem::replace(&mut self.placeholders, true) {
            return;
        }
        // Nothing else makes a file or a link of that name.
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

/// A path of the new tree as steps have it: without the leading slash.
pub(crate) fn relative(path: &Path) -> Result<Text<'static>, NullByte> {
    Text::path(path.strip_prefix("/").unwrap_or(path))
}
