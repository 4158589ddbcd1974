// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The name policy: decides which operations on protected names are refused, and which operations would bypass the
//! protection.
//!
//! All rules use paths of the host, so that a tree that is shown elsewhere inside is judged by its place on the host.
//! This module does no I/O: it asks `Way` for what must be looked up.

use crate::broker::config;
use crate::broker::identity::Moment;
use crate::broker::repository::Locks;
use crate::broker::walls::Shut;
use crate::broker::way::{Way, is_below};
use palisade_policy::names::repository::Marks;
use palisade_policy::names::{Content, NameRule, NameRules, NameStatus, repository};
use serde::{Deserialize, Serialize};

pub use crate::broker::operation::Operation;

/// What is protected, and where.
#[derive(Clone, Debug, Default)]
pub struct ProtectedPaths {
    /// Trees of the host, and private trees within them. If several hold a path, the deepest one counts.
    pub roots: Vec<Root>,
    /// Protected names, at any depth.
    pub names: NameRules,
    /// Protected paths, as seen inside.
    pub paths: NameRules,
    /// Directories that must keep their names, because the policy states a rule about the path of something in them.
    pub pinned: Vec<Pin>,
}

/// A directory that must keep its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Its path inside.
    pub path: Vec<u8>,
    /// The path about which the policy states a rule.
    pub about: Vec<u8>,
}

/// A tree of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its path inside: absolute, without a trailing slash.
    pub inside: Vec<u8>,
    /// Its path on the host. `None`: the tree is private to the sandbox and not visible outside.
    pub host: Option<Vec<u8>>,
    /// The tree is writable.
    pub write: bool,
    /// It is a directory that exists only inside, above the working directory: nothing can be made in it.
    pub above: bool,
}

impl Root {
    /// The host path of a path in this tree, whose root on the host is `host`.
    fn on_host(&self, host: &[u8], inside: &[u8]) -> Vec<u8> {
        let rest = &inside[self.inside.len().min(inside.len())..];
        let mut path = host.to_vec();
        if !rest.is_empty() && rest.first() != Some(&b'/') && path.last() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(rest);
        path
    }
}

/// A refusal, in the form in which it is reported.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The path on the host.
    pub path: Vec<u8>,
    /// Index of the rule.
    pub rule: usize,
    /// The name itself isn't protected, but protected names lie below it.
    pub holder: bool,
    /// The file may be written if its content is harmless.
    pub content: bool,
    /// A checkout may write such a name: it isn't part of git's own directory.
    pub carried: bool,
    /// An explanation, where the rule alone isn't enough.
    pub detail: String,
}

/// The protected paths, and the start of the protection.
pub(crate) struct NamePolicy {
    protected_paths: ProtectedPaths,
    start: Moment,
}

/// The number of components of an absolute path.
fn depth(path: &[u8]) -> usize {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count()
}

fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// A path on the host with its status.
struct Stand<'g> {
    /// The path on the host.
    host: Vec<u8>,
    /// How many of its components belong to the root of the tree.
    root: usize,
    status: NameStatus<'g>,
}

/// The rule that decides about a path.
struct Verdict<'g> {
    rule: &'g NameRule,
    /// The path itself isn't protected, but protected names lie below it.
    holder: bool,
    /// The path that the rule is for.
    judged: Vec<u8>,
}

impl NamePolicy {
    pub(crate) fn new(protected_paths: ProtectedPaths) -> Self {
        Self { protected_paths, start: Moment::now() }
    }

    /// The deepest tree that holds a path.
    fn root_of(&self, inside: &[u8]) -> Option<&Root> {
        let roots = self.protected_paths.roots.iter();
        roots.filter(|root| is_below(inside, &root.inside)).max_by_key(|root| root.inside.len())
    }

    /// The path on the host. `None` if the tree isn't writable, or isn't visible outside.
    fn on_host(&self, inside: &[u8]) -> Option<(Vec<u8>, usize)> {
        let root = self.root_of(inside).filter(|root| root.write)?;
        let host = root.host.as_ref()?;
        Some((root.on_host(host, inside), depth(host)))
    }

    fn stand(&self, inside: &[u8]) -> Option<Stand<'_>> {
        let (host, root) = self.on_host(inside)?;
        let status = match self.protected_paths.names.judge(&host, root) {
            NameStatus::Protected(rule) => NameStatus::Protected(rule),
            // Protected paths are stated as seen inside. They count wherever the tree lies on the host.
            other => match self.protected_paths.paths.judge(inside, 0) {
                NameStatus::Free => other,
                stricter => stricter,
            },
        };
        Some(Stand { host, root, status })
    }

    /// Whether a call may do `operation` to the name at `inside`. `way` gives the directories above it.
    pub(crate) fn check(
        &self,
        operation: Operation,
        inside: &[u8],
        way: &dyn Way,
        locks: &Locks,
    ) -> Result<(), Box<Refused>> {
        if config::is_on_its_way(last(inside)) {
            return self.distrust(inside);
        }
        let Some(stand) = self.stand(inside) else { return Ok(()) };
        self.keeps_repository(operation, &stand.host, way, locks)?;
        let Some(Verdict { rule, holder, judged }) = self.verdict(&stand, |directory, depth| {
            way.marks(depth - directory, locks).is_none_or(Marks::are_enough)
        }) else {
            return Ok(());
        };
        let host = stand.host;
        let fresh = || way.is_fresh(self.start);
        let allowed = match holder {
            true => operation.may_be_done_to_holder(last(&host), rule, fresh),
            false => operation.may_be_done(last(&host), rule, fresh),
        };
        if allowed {
            return Ok(());
        }
        let mut refused = self.refusal(host, rule, holder);
        if judged != refused.path {
            refused.detail = format!("git treats a directory above it as a repository, and {}", rule.reason);
        }
        Err(refused)
    }

    /// Whether every operation is allowed on the file with this real path, and the path alone proves it.
    pub(crate) fn is_free_as_written(&self, inside: &[u8]) -> bool {
        !config::is_on_its_way(last(inside))
            && self
                .stand(inside)
                // Assume that any directory above may be a repository.
                .is_none_or(|stand| {
                    stand.status == NameStatus::Free && self.verdict(&stand, |_, _| true).is_none()
                })
    }

    /// The rule that decides about a path: a rule for the path itself, or the rule for the same name in a `.git`.
    /// `is_repository` says whether a directory above the path is a repository; it gets the depths of the directory
    /// and of the path.
    fn verdict<'g>(
        &'g self,
        stand: &Stand<'g>,
        is_repository: impl Fn(usize, usize) -> bool,
    ) -> Option<Verdict<'g>> {
        let verdict = |rule, holder, judged| Some(Verdict { rule, holder, judged });
        if let NameStatus::Protected(rule) = stand.status {
            return verdict(rule, false, stand.host.clone());
        }
        let depth = depth(&stand.host);
        let found = self
            .protected_paths
            .names
            .judge_in_repositories(&stand.host, stand.root, |directory| is_repository(directory, depth));
        match (found.status, stand.status) {
            (NameStatus::Protected(rule), _) => verdict(rule, false, found.as_if(&stand.host)),
            (_, NameStatus::Holder(rule)) => verdict(rule, true, stand.host.clone()),
            (NameStatus::Holder(rule), _) => verdict(rule, true, found.as_if(&stand.host)),
            _ => None,
        }
    }

    /// Refuses an operation by which a repository of the user stops being one. In a directory that isn't a
    /// repository, any name could be written.
    fn keeps_repository(
        &self,
        operation: Operation,
        host: &[u8],
        way: &dyn Way,
        locks: &Locks,
    ) -> Result<(), Box<Refused>> {
        if !matches!(operation, Operation::Remove { .. } | Operation::MoveFrom { .. }) {
            return Ok(());
        }
        let Some(mark) = repository::mark(last(host)) else { return Ok(()) };
        let Some(rule) = self.rule_of_repository(parent(host)) else { return Ok(()) };
        let ends = |marks: Marks| marks.are_enough() && !marks.without(mark).are_enough();
        if way.marks(1, locks).is_none_or(ends) && !way.is_fresh(self.start) {
            return Err(self.refusal(host.to_vec(), rule, true));
        }
        Ok(())
    }

    /// The rule that would protect files in a host directory if the directory were a repository. `None` if its own
    /// name protects them already.
    fn rule_of_repository(&self, host: &[u8]) -> Option<&NameRule> {
        self.protected_paths.names.of_repository(host, self.root_depth(host))
    }

    /// The host path of a directory in which files are protected only if it is a repository.
    pub(crate) fn unnamed_repository(&self, inside: &[u8]) -> Option<Vec<u8>> {
        self.host_path(inside).filter(|host| self.rule_of_repository(host).is_some())
    }

    /// A refusal for a directory that would become a repository and can't be examined.
    pub(crate) fn distrust_repository(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match self.host_path(inside) {
            Some(host) => match self.rule_of_repository(&host) {
                Some(rule) => Err(self.refusal(host, rule, true)),
                None => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Whether a file may be at a path in `directory` when `directory` becomes a repository. `Ok(true)` means that
    /// the files below it must be checked too.
    pub(crate) fn check_in_new(
        &self,
        operation: Operation,
        inside: &[u8],
        directory: &[u8],
    ) -> Result<bool, Box<Refused>> {
        let Some(stand) = self.stand(inside) else { return Ok(false) };
        let Some(repository) = self.host_path(directory).map(|host| depth(&host)) else { return Ok(false) };
        // A name that is protected by itself was protected before.
        if matches!(stand.status, NameStatus::Protected(_)) {
            return Ok(false);
        }
        let names = &self.protected_paths.names;
        let found = names.judge_in_repositories(&stand.host, stand.root, |found| found == repository);
        let (rule, holder) = match found.status {
            NameStatus::Free => return Ok(false),
            NameStatus::Holder(rule) => (rule, true),
            NameStatus::Protected(rule) => (rule, false),
        };
        let allowed = match holder {
            true => operation.may_be_done_to_holder(last(&stand.host), rule, || true),
            false => operation.may_be_done(last(&stand.host), rule, || true),
        };
        if allowed {
            return Ok(true);
        }
        Err(self.refusal(stand.host, rule, holder))
    }

    /// How many components of a host path belong to the root of its tree.
    fn root_depth(&self, host: &[u8]) -> usize {
        let roots = self.protected_paths.roots.iter().filter_map(|root| root.host.as_ref());
        roots.filter(|root| is_below(host, root)).map(|root| depth(root)).max().unwrap_or(0)
    }

    fn index_of(&self, rule: &NameRule) -> usize {
        let mut rules = self.protected_paths.names.rules().iter().chain(self.protected_paths.paths.rules());
        rules.position(|known| core::ptr::eq(known, rule)).unwrap_or(0)
    }

    fn refusal(&self, path: Vec<u8>, rule: &NameRule, holder: bool) -> Box<Refused> {
        Box::new(Refused {
            path,
            rule: self.index_of(rule),
            holder,
            content: rule.content == Content::GitConfig && !holder,
            carried: (!holder || rule.content == Content::Directory) && !rule.path.starts_with(".git/"),
            detail: String::new(),
        })
    }

    /// The path because of which the directory at `inside` must keep its name, if it must.
    pub(crate) fn pinned_for(&self, inside: &[u8]) -> Option<&[u8]> {
        self.protected_paths.pinned.iter().find(|pin| pin.path == inside).map(|pin| pin.about.as_slice())
    }

    /// How the file at `inside` is shown, if no process inside can write to it.
    pub(crate) fn shut(&self, inside: &[u8]) -> Option<Shut> {
        let root = self.root_of(inside).filter(|root| !root.write)?;
        Some(match &root.host {
            None if root.above => Shut::Above,
            Some(host) => Shut::Shown(root.on_host(host, inside)),
            None => Shut::Covered,
        })
    }

    /// Whether protected names begin at `inside`, so that no directory may be moved there, whatever it contains.
    pub(crate) fn is_holder(&self, inside: &[u8]) -> bool {
        self.stand(inside).is_some_and(|stand| matches!(stand.status, NameStatus::Holder(_)))
    }

    /// Whether a link at `inside` is the one by which git tests whether the file system has links (`tXXXXXX` ->
    /// `testing`), and its target is judged like the link itself.
    pub(crate) fn link_stays(&self, inside: &[u8], target: &[u8]) -> bool {
        let name = last(inside);
        let is_trial = target == b"testing" && name.len() == 7 && name[0] == b't' && name != target;
        is_trial && self.is_holder(inside) && self.is_holder(&[parent(inside), b"/", target].concat())
    }

    /// Whether the directory of `way` was made after the launch began. Then no program outside can have relied on its
    /// content.
    pub(crate) fn is_fresh(&self, way: &dyn Way) -> bool {
        way.is_fresh(self.start)
    }

    /// The rule that doesn't apply at `inside`, which lies below a directory with unprotected names such as
    /// `node_modules`, but would apply at `outside`.
    fn exception(&self, inside: &[u8], outside: &[u8]) -> Option<&NameRule> {
        let (inside, root) = self.on_host(inside)?;
        let outside = self.host_path(outside)?;
        self.protected_paths.names.exception((&inside, root), (&outside, self.root_depth(&outside)))
    }

    /// The index of a rule that applies at one of two places and not at the other, because one lies below
    /// `node_modules` or a similar directory. A move out of `node_modules` would bring freely written names to a
    /// place where host programs obey them, and other processes may still write to them during the move. A move into
    /// it would allow free writes to the user's files.
    pub(crate) fn border_between(&self, one: &[u8], other: &[u8]) -> Option<usize> {
        self.exception(one, other).or_else(|| self.exception(other, one)).map(|rule| self.index_of(rule))
    }

    /// Refuses a link at `inside`, outside such a directory, that leads to `leads` below it (an absolute path as seen
    /// inside).
    pub(crate) fn leads_where_judged(&self, inside: &[u8], leads: &[u8]) -> Result<(), Box<Refused>> {
        self.exception(leads, inside).map_or(Ok(()), |rule| {
            let detail = "the link leads to a directory where protected names may be written".to_owned();
            Err(Box::new(Refused {
                detail,
                ..*self.refusal(self.host_path(inside).unwrap_or_default(), rule, true)
            }))
        })
    }

    /// Whether the name at `inside` is unprotected. Used for each name in a directory that is moved as a whole.
    pub(crate) fn is_free(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match self.stand(inside) {
            Some(Stand { host, status: NameStatus::Protected(rule), .. }) => {
                Err(self.refusal(host, rule, false))
            }
            _ => Ok(()),
        }
    }

    /// A refusal for a file that can't be examined, by the rule that starts at its name or else by the first rule.
    /// `Ok` if there is no rule.
    pub(crate) fn distrust(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        let Some(Stand { host, status, .. }) = self.stand(inside) else { return Ok(()) };
        let begins = match status {
            NameStatus::Protected(rule) | NameStatus::Holder(rule) => Some(rule),
            NameStatus::Free => None,
        };
        match begins.or(self.protected_paths.names.rules().first()) {
            Some(rule) => Err(self.refusal(host, rule, true)),
            None => Ok(()),
        }
    }

    /// Whether the command may connect to the socket at `inside`, which wasn't made in this sandbox. Private trees
    /// contain no such sockets. A socket that is itself granted for writing is meant to be used.
    pub(crate) fn may_connect(&self, inside: &[u8]) -> bool {
        match self.root_of(inside) {
            None => true,
            Some(root) => root.host.is_none() || (root.write && root.inside == inside),
        }
    }

    /// Whether a path lies in a private tree of the sandbox.
    pub(crate) fn is_private(&self, inside: &[u8]) -> bool {
        self.root_of(inside).is_none_or(|root| root.host.is_none())
    }

    /// The path on the host, if the file is visible outside.
    pub(crate) fn host_path(&self, inside: &[u8]) -> Option<Vec<u8>> {
        self.on_host(inside).map(|(path, _root)| path)
    }
}

#[cfg(test)]
#[path = "name_policy_tests.rs"]
mod tests;
