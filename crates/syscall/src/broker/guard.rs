// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is refused: protected names in writable trees, and what would lead around them.
//!
//! Everything here goes by paths as the host has them, so that a tree shown elsewhere inside is
//! judged by what it is. No I/O: what must be looked up is asked for.

use crate::broker::config;
use crate::broker::history::{History, Identity, Way, is_below, upwards};
use crate::broker::repository::Locks;
use palisade_policy::names::repository::Marks;
use palisade_policy::names::{Content, NameRule, NameRules, Standing, repository};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is protected, and where.
#[derive(Clone, Debug, Default)]
pub struct Wards {
    /// Trees of the host, and private ones within them; of those that hold a path the deepest counts.
    pub roots: Vec<Root>,
    /// The names, at any depth.
    pub names: NameRules,
    /// Paths, as they are inside.
    pub paths: NameRules,
}

/// A tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Where it is inside, absolute, without a slash at the end.
    pub inside: Vec<u8>,
    /// Where it is on the host; `None`: it is the sandbox's own and nobody outside sees it.
    pub host: Option<Vec<u8>>,
    /// It can be written to.
    pub write: bool,
}

/// What a call would do to a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Open a file that is there for writing, or truncate it.
    Change,
    /// Make a file, or open it for writing if it is there.
    MakeFile,
    /// Make a directory.
    MakeDirectory,
    /// Make a symbolic link.
    MakeLink,
    /// Give the file another name: this is its first.
    LinkFrom,
    /// Give a file this name too.
    LinkTo,
    /// Move it away from here.
    MoveFrom {
        /// It is a directory.
        directory: bool,
    },
    /// Move something here.
    MoveTo {
        /// That is a directory.
        directory: bool,
    },
    /// Remove it.
    Remove,
    /// Change permissions, owner or extended attributes.
    Attributes,
}

impl Deed {
    /// Whether there may be something of this name afterwards that wasn't there before.
    pub(crate) const fn makes(self) -> bool {
        matches!(
            self,
            Self::MakeFile | Self::MakeDirectory | Self::MakeLink | Self::LinkTo | Self::MoveTo { .. }
        )
    }
}

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The path on the host.
    pub path: Vec<u8>,
    /// Index of the rule.
    pub rule: usize,
    /// The name isn't protected itself, but leads to protected ones.
    pub holder: bool,
    /// It may be written if its content is harmless.
    pub content: bool,
    /// What is wrong with it, where the rule alone doesn't say.
    pub detail: String,
}

/// The wards and what has happened so far.
pub(crate) struct Guard {
    wards: Wards,
    history: Mutex<History>,
}

/// Slash-separated, absolute: the number of components.
fn depth(path: &[u8]) -> usize {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count()
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Where a path stands.
struct Stand<'g> {
    /// The path on the host.
    host: Vec<u8>,
    /// How many of its components belong to the tree's own root.
    root: usize,
    standing: Standing<'g>,
}

/// What decides about a path.
struct Verdict<'g> {
    rule: &'g NameRule,
    /// The path isn't protected itself, but leads to what is.
    holder: bool,
    /// The path that the rule is for.
    judged: Vec<u8>,
}

/// Whether a rule lets this be done to a name.
fn allows(deed: Deed, name: &[u8], rule: &NameRule, holder: bool, made: bool) -> bool {
    if holder {
        match deed {
            Deed::MakeDirectory | Deed::Remove | Deed::Attributes => true,
            // What was made under such a name has been judged by it all the time.
            Deed::MoveFrom { directory } => !directory || made,
            Deed::MoveTo { directory: true } => false,
            Deed::MakeLink => made && rule.carried,
            Deed::Change | Deed::MakeFile | Deed::LinkFrom | Deed::LinkTo | Deed::MoveTo { .. } => {
                // git, or Jujutsu, follows a file of this name to wherever it says, and it can be
                // written by any other name that it has.
                !rule.follows_file(name) || made
            }
        }
    } else if !made {
        false
    } else {
        match deed {
            Deed::Remove => true,
            Deed::LinkFrom => rule.carried,
            _ if rule.carried => true,
            // Directories that git's templates have.
            Deed::MakeDirectory => matches!(name, b"hooks" | b"branches"),
            Deed::Attributes | Deed::MoveFrom { .. } => true,
            // git's templates; it runs none of them.
            Deed::Change | Deed::MakeFile | Deed::MoveTo { directory: false } | Deed::LinkTo => {
                name.ends_with(b".sample") && rule.path.ends_with("hooks")
            }
            Deed::MakeLink | Deed::MoveTo { directory: true } => false,
        }
    }
}

impl Guard {
    pub(crate) fn new(wards: Wards) -> Self {
        Self { wards, history: Mutex::default() }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The deepest tree that holds a path.
    fn root_of(&self, inside: &[u8]) -> Option<&Root> {
        let roots = self.wards.roots.iter();
        roots.filter(|root| is_below(inside, &root.inside)).max_by_key(|root| root.inside.len())
    }

    /// The path on the host; `None` where nothing can be written, or nobody else sees it.
    fn on_host(&self, inside: &[u8]) -> Option<(Vec<u8>, usize)> {
        let root = self.root_of(inside).filter(|root| root.write)?;
        let host = root.host.as_ref()?;
        let rest = &inside[root.inside.len().min(inside.len())..];
        let mut path = host.clone();
        if !rest.is_empty() && rest.first() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(rest);
        Some((path, depth(host)))
    }

    fn stand(&self, inside: &[u8]) -> Option<Stand<'_>> {
        let (host, root) = self.on_host(inside)?;
        let standing = match self.wards.names.judge(&host, root) {
            Standing::Protected(rule) => Standing::Protected(rule),
            // Whoever protects a path knows it as it is inside, and means it wherever it lies.
            other => match self.wards.paths.judge(inside, 0) {
                Standing::Free => other,
                stricter => stricter,
            },
        };
        Some(Stand { host, root, standing })
    }

    /// Whether a call may do this to the name at `inside`, which `way` leads to.
    pub(crate) fn check(
        &self,
        deed: Deed,
        inside: &[u8],
        way: &dyn Way,
        locks: &Locks,
    ) -> Result<(), Box<Refused>> {
        if config::is_on_its_way(last(inside)) {
            return self.distrust(inside);
        }
        let Some(stand) = self.stand(inside) else { return Ok(()) };
        self.keeps_repository(deed, &stand.host, way, locks)?;
        let Some(Verdict { rule, holder, judged }) = self.verdict(&stand, |directory, depth| {
            way.marks(depth - directory, locks).is_none_or(Marks::are_enough)
        }) else {
            return Ok(());
        };
        let host = stand.host;
        let made = if rule.carried && !holder {
            // A checkout writes such names in what it has made itself: what counts is the directory
            // that the whole name lies in, `.cargo/config.toml` being one name.
            let up = depth(&host).saturating_sub(depth(self.holder_of(&judged, &host, rule)));
            self.history().is_made_up_to(&host, up, way)
        } else {
            self.history().is_made(&host, way)
        };
        if allows(deed, last(&host), rule, holder, made) {
            return Ok(());
        }
        let mut refused = self.refusal(host, rule, holder);
        if judged != refused.path {
            refused.detail = format!("git takes a directory above it for a repository, and {}", rule.reason);
        }
        Err(refused)
    }

    /// Whether anything may be done to the file that has this real path, and that can be told by the path alone.
    pub(crate) fn is_free_as_written(&self, inside: &[u8]) -> bool {
        !config::is_on_its_way(last(inside))
            && self
                .stand(inside)
                // Whichever of its directories may be a repository.
                .is_none_or(|stand| {
                    stand.standing == Standing::Free && self.verdict(&stand, |_, _| true).is_none()
                })
    }

    /// What decides about a path: a rule on it, or one on what it would be in a `.git`, where
    /// `is_repository` says of a directory above it (its depth, that of the path) that it is one.
    fn verdict<'g>(
        &'g self,
        stand: &Stand<'g>,
        is_repository: impl Fn(usize, usize) -> bool,
    ) -> Option<Verdict<'g>> {
        let verdict = |rule, holder, judged| Some(Verdict { rule, holder, judged });
        if let Standing::Protected(rule) = stand.standing {
            return verdict(rule, false, stand.host.clone());
        }
        let depth = depth(&stand.host);
        let found = self
            .wards
            .names
            .judge_in_repositories(&stand.host, stand.root, |directory| is_repository(directory, depth));
        match (found.standing, stand.standing) {
            (Standing::Protected(rule), _) => verdict(rule, false, found.as_if(&stand.host)),
            (_, Standing::Holder(rule)) => verdict(rule, true, stand.host.clone()),
            (Standing::Holder(rule), _) => verdict(rule, true, found.as_if(&stand.host)),
            _ => None,
        }
    }

    /// Refuses to make something else of a repository of somebody else's: taken for none, anything could be
    /// written there.
    fn keeps_repository(
        &self,
        deed: Deed,
        host: &[u8],
        way: &dyn Way,
        locks: &Locks,
    ) -> Result<(), Box<Refused>> {
        if !matches!(deed, Deed::Remove | Deed::MoveFrom { .. }) {
            return Ok(());
        }
        let Some(mark) = repository::mark(last(host)) else { return Ok(()) };
        let Some(rule) = self.rule_of_repository(parent(host)) else { return Ok(()) };
        let ends = |marks: Marks| marks.are_enough() && !marks.without(mark).are_enough();
        if way.marks(1, locks).is_none_or(ends) && !self.history().is_made_up_to(host, 1, way) {
            return Err(self.refusal(host.to_vec(), rule, true));
        }
        Ok(())
    }

    /// The rule that would protect what lies in a directory of the host if it were a repository, and doesn't
    /// by its name.
    fn rule_of_repository(&self, host: &[u8]) -> Option<&NameRule> {
        self.wards.names.of_repository(host, self.root_depth(host))
    }

    /// Where a directory is on the host, if what lies in it would be protected only as in a repository.
    pub(crate) fn unnamed_repository(&self, inside: &[u8]) -> Option<Vec<u8>> {
        self.host_path(inside).filter(|host| self.rule_of_repository(host).is_some())
    }

    /// A refusal for a directory that would be a repository and can't be looked at.
    pub(crate) fn distrust_repository(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match self.host_path(inside) {
            Some(host) => match self.rule_of_repository(&host) {
                Some(rule) => Err(self.refusal(host, rule, true)),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Whether something may be at a path in `directory` when that becomes a repository; and whether it matters
    /// what lies below it.
    pub(crate) fn check_in_new(
        &self,
        deed: Deed,
        inside: &[u8],
        directory: &[u8],
    ) -> Result<bool, Box<Refused>> {
        let Some(stand) = self.stand(inside) else { return Ok(false) };
        let Some(repository) = self.host_path(directory).map(|host| depth(&host)) else { return Ok(false) };
        // What is protected by its own name has been so all the time.
        if matches!(stand.standing, Standing::Protected(_)) {
            return Ok(false);
        }
        let names = &self.wards.names;
        let found = names.judge_in_repositories(&stand.host, stand.root, |found| found == repository);
        let (rule, holder) = match found.standing {
            Standing::Free => return Ok(false),
            Standing::Holder(rule) => (rule, true),
            Standing::Protected(rule) => (rule, false),
        };
        if allows(deed, last(&stand.host), rule, holder, true) {
            return Ok(true);
        }
        Err(self.refusal(stand.host, rule, holder))
    }

    /// The directory that a protected name at or above `host` begins in; of a name with a wildcard,
    /// the one that stands for it (`.git/worktrees/*/commondir`: the worktree's).
    ///
    /// `judged` is the path that the rule is for: `host`, or what that would be in a `.git`.
    fn holder_of<'p>(&self, judged: &'p [u8], host: &[u8], rule: &NameRule) -> &'p [u8] {
        let root = self.root_depth(host);
        let protects = |path: &[u8]| matches!(self.wards.names.judge(path, root), Standing::Protected(found) if core::ptr::eq(found, rule));
        let end = upwards(judged).take_while(|path| protects(path)).last().unwrap_or(judged);
        let parts = rule.path.split('/').rev().take_while(|part| !part.contains('*')).count();
        upwards(end).nth(parts).unwrap_or(b"/")
    }

    /// How many components of a path on the host belong to the tree's own root.
    fn root_depth(&self, host: &[u8]) -> usize {
        let roots = self.wards.roots.iter().filter_map(|root| root.host.as_ref());
        roots.filter(|root| is_below(host, root)).map(|root| depth(root)).max().unwrap_or(0)
    }

    fn refusal(&self, path: Vec<u8>, rule: &NameRule, holder: bool) -> Box<Refused> {
        let rules = self.wards.names.rules().iter().chain(self.wards.paths.rules());
        let index = rules.into_iter().position(|known| core::ptr::eq(known, rule)).unwrap_or(0);
        Box::new(Refused {
            path,
            rule: index,
            holder,
            content: rule.content == Content::GitConfig && !holder,
            detail: String::new(),
        })
    }

    /// The rule that keeps a directory of this name from being put at `inside`, whatever is in it.
    pub(crate) fn is_holder(&self, inside: &[u8]) -> bool {
        self.stand(inside).is_some_and(|stand| matches!(stand.standing, Standing::Holder(_)))
    }

    /// Whether a link at `inside` leads to its own directory, where everything is judged as it is at
    /// the link: git tries with such a link whether there are links at all.
    pub(crate) fn link_stays(&self, inside: &[u8], target: &[u8]) -> bool {
        if target.contains(&b'/') || matches!(target, b"." | b"..") || !self.is_holder(inside) {
            return false;
        }
        let Some(slash) = inside.iter().rposition(|byte| *byte == b'/') else { return false };
        self.is_holder(&[&inside[..=slash], target].concat())
    }

    /// Whether both are places where a protected name begins, by the same rules: a directory that
    /// was made at one may move to the other.
    pub(crate) fn may_move_holder(&self, from: &[u8], way: &dyn Way, to: &[u8]) -> bool {
        let (Some(from), Some(to)) = (self.stand(from), self.stand(to)) else { return false };
        match (from.standing, to.standing) {
            (Standing::Holder(one), Standing::Holder(other)) => {
                core::ptr::eq(one, other) && self.history().is_made(&from.host, way)
            }
            _ => false,
        }
    }

    /// A directory was made at `inside`, if others see it there.
    pub(crate) fn made_directory(&self, inside: &[u8], directory: Option<Identity>) {
        if self.on_host(inside).is_some()
            && let Some(directory) = directory
        {
            self.history().made(directory);
        }
    }

    /// A directory was removed.
    pub(crate) fn removed_directory(&self, inside: &[u8], directory: Option<Identity>) {
        if let Some(host) = self.host_path(inside) {
            self.history().removed(host, directory);
        }
    }

    /// Whether what is at a path of the host was made in this sandbox, or what it lies in.
    pub(crate) fn is_made(&self, host: &[u8], way: &dyn Way) -> bool {
        self.history().is_made(host, way)
    }

    /// Whether a directory of somebody else's was at `inside`.
    pub(crate) fn is_vacated(&self, inside: &[u8]) -> bool {
        self.host_path(inside).is_some_and(|host| self.history().is_vacated(&host))
    }

    /// A directory was moved away.
    pub(crate) fn moved_directory(&self, from: &[u8], directory: Option<Identity>) {
        if let Some(host) = self.host_path(from) {
            self.history().moved(host, directory);
        }
    }

    /// Whether a move takes something out from below a directory where names aren't protected, such as
    /// `node_modules`: what was written there freely may be protected where it comes to.
    pub(crate) fn leaves_exception(&self, from: &[u8], to: &[u8]) -> bool {
        let exceptions = || self.wards.names.rules().iter().flat_map(|rule| &rule.except_below);
        let below = |path: &[u8]| {
            path.split(|byte| *byte == b'/')
                .any(|part| exceptions().any(|name| name.as_bytes().eq_ignore_ascii_case(part)))
        };
        below(from) && !below(to)
    }

    /// Whether anything protected is found at `inside`: for what is moved there as a whole.
    pub(crate) fn is_free(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match self.stand(inside) {
            Some(Stand { host, standing: Standing::Protected(rule), .. }) => {
                Err(self.refusal(host, rule, false))
            }
            _ => Ok(()),
        }
    }

    /// A refusal for what can't be looked at, by the first rule; nothing where none holds.
    pub(crate) fn distrust(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match (self.on_host(inside), self.wards.names.rules().first()) {
            (Some((host, _root)), Some(rule)) => Err(self.refusal(host, rule, true)),
            _ => Ok(()),
        }
    }

    /// Two directories have changed places, and this is one of them.
    pub(crate) fn exchanged_directory(&self, inside: &[u8]) {
        if let Some(host) = self.host_path(inside) {
            self.history().vacate(host);
        }
    }

    /// Whether the socket at `inside`, which nobody here has made, may be connected to: in private
    /// places there are no others, and one that is granted itself is meant to be used.
    pub(crate) fn may_connect(&self, inside: &[u8]) -> bool {
        match self.root_of(inside) {
            None => true,
            Some(root) => root.host.is_none() || (root.write && root.inside == inside),
        }
    }

    /// Whether a path lies in a tree of the sandbox's own.
    pub(crate) fn is_private(&self, inside: &[u8]) -> bool {
        self.root_of(inside).is_none_or(|root| root.host.is_none())
    }

    /// Where a path is on the host, if others see it there.
    pub(crate) fn host_path(&self, inside: &[u8]) -> Option<Vec<u8>> {
        self.on_host(inside).map(|(path, _root)| path)
    }
}

#[cfg(test)]
#[path = "guard_tests.rs"]
mod tests;
