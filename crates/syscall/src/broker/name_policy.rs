// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is refused: protected names in writable trees, and what would lead around them.
//!
//! Everything here goes by paths as the host has them, so that a tree shown elsewhere inside is
//! judged by what it is. No I/O: what must be looked up is asked for.

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
    /// Trees of the host, and private ones within them; of those that hold a path the deepest counts.
    pub roots: Vec<Root>,
    /// The names, at any depth.
    pub names: NameRules,
    /// Paths, as they are inside.
    pub paths: NameRules,
    /// Directories that keep their names: what the policy says of something in them is said of its path.
    pub pinned: Vec<Pin>,
}

/// A directory that keeps its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Where it is inside.
    pub path: Vec<u8>,
    /// The path of which the policy says something.
    pub about: Vec<u8>,
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

impl Root {
    /// The path on the host of one in this tree, whose root is at `host`.
    fn on_host(&self, host: &[u8], inside: &[u8]) -> Vec<u8> {
        let rest = &inside[self.inside.len().min(inside.len())..];
        let mut path = host.to_vec();
        if !rest.is_empty() && rest.first() != Some(&b'/') {
            path.push(b'/');
        }
        path.extend_from_slice(rest);
        path
    }
}

/// A refusal. It is told as it was judged.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// The path on the host.
    pub path: Vec<u8>,
    /// Index of the rule.
    pub rule: usize,
    /// The name isn't protected itself, but leads to protected ones.
    pub holder: bool,
    /// It may be written if its content is harmless.
    pub content: bool,
    /// A checkout may write such a name: it is none of git's own directory.
    pub carried: bool,
    /// What is wrong with it, where the rule alone doesn't say.
    pub detail: String,
}

/// The protected_paths, and since when they are.
pub(crate) struct NamePolicy {
    protected_paths: ProtectedPaths,
    start: Moment,
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
    status: NameStatus<'g>,
}

/// What decides about a path.
struct Verdict<'g> {
    rule: &'g NameRule,
    /// The path isn't protected itself, but leads to what is.
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

    /// The path on the host; `None` where nothing can be written, or nobody else sees it.
    fn on_host(&self, inside: &[u8]) -> Option<(Vec<u8>, usize)> {
        let root = self.root_of(inside).filter(|root| root.write)?;
        let host = root.host.as_ref()?;
        Some((root.on_host(host, inside), depth(host)))
    }

    fn stand(&self, inside: &[u8]) -> Option<Stand<'_>> {
        let (host, root) = self.on_host(inside)?;
        let status = match self.protected_paths.names.judge(&host, root) {
            NameStatus::Protected(rule) => NameStatus::Protected(rule),
            // Whoever protects a path knows it as it is inside, and means it wherever it lies.
            other => match self.protected_paths.paths.judge(inside, 0) {
                NameStatus::Free => other,
                stricter => stricter,
            },
        };
        Some(Stand { host, root, status })
    }

    /// Whether a call may do this to the name at `inside`, which `way` leads to.
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
                    stand.status == NameStatus::Free && self.verdict(&stand, |_, _| true).is_none()
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

    /// Refuses to make something else of a repository of somebody else's: taken for none, anything could be
    /// written there.
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

    /// The rule that would protect what lies in a directory of the host if it were a repository, and doesn't
    /// by its name.
    fn rule_of_repository(&self, host: &[u8]) -> Option<&NameRule> {
        self.protected_paths.names.of_repository(host, self.root_depth(host))
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
        operation: Operation,
        inside: &[u8],
        directory: &[u8],
    ) -> Result<bool, Box<Refused>> {
        let Some(stand) = self.stand(inside) else { return Ok(false) };
        let Some(repository) = self.host_path(directory).map(|host| depth(&host)) else { return Ok(false) };
        // What is protected by its own name has been so all the time.
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

    /// How many components of a path on the host belong to the tree's own root.
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

    /// What the directory at `inside` keeps its name for, if it does.
    pub(crate) fn pinned_for(&self, inside: &[u8]) -> Option<&[u8]> {
        self.protected_paths.pinned.iter().find(|pin| pin.path == inside).map(|pin| pin.about.as_slice())
    }

    /// How the place at `inside` is shown, if nobody can write to it.
    pub(crate) fn shut(&self, inside: &[u8]) -> Option<Shut> {
        let root = self.root_of(inside).filter(|root| !root.write)?;
        Some(match &root.host {
            Some(host) => Shut::Shown(root.on_host(host, inside)),
            None => Shut::Covered,
        })
    }

    /// The rule that keeps a directory of this name from being put at `inside`, whatever is in it.
    pub(crate) fn is_holder(&self, inside: &[u8]) -> bool {
        self.stand(inside).is_some_and(|stand| matches!(stand.status, NameStatus::Holder(_)))
    }

    /// Whether a link at `inside` is the one with which git tries whether there are links at all (`tXXXXXX` ->
    /// `testing`), and leads to where everything is judged as it is at the link.
    pub(crate) fn link_stays(&self, inside: &[u8], target: &[u8]) -> bool {
        let name = last(inside);
        let is_trial = target == b"testing" && name.len() == 7 && name[0] == b't' && name != target;
        is_trial && self.is_holder(inside) && self.is_holder(&[parent(inside), b"/", target].concat())
    }

    /// Whether what lies in the directory of `way` can have been known to nobody before the launch began.
    pub(crate) fn is_fresh(&self, way: &dyn Way) -> bool {
        way.is_fresh(self.start)
    }

    /// The rule that doesn't hold at `inside` because that lies below a directory where names aren't protected, such
    /// as `node_modules`, and would hold at `outside`.
    fn exception(&self, inside: &[u8], outside: &[u8]) -> Option<&NameRule> {
        let (inside, root) = self.on_host(inside)?;
        let outside = self.host_path(outside)?;
        self.protected_paths.names.exception((&inside, root), (&outside, self.root_depth(&outside)))
    }

    /// The rule by whose names it matters that they are written freely at one of two places and not at the other, as on
    /// either side of the border of `node_modules`; its index. Taken out, what was written there freely would be obeyed where it comes to, and others
    /// may go on writing while it moves; taken in, what is the user's could be written freely.
    pub(crate) fn border_between(&self, one: &[u8], other: &[u8]) -> Option<usize> {
        self.exception(one, other).or_else(|| self.exception(other, one)).map(|rule| self.index_of(rule))
    }

    /// Refuses a link at `inside` that leads below such a directory, to `leads` (absolute, as it is inside), from
    /// outside of it.
    pub(crate) fn leads_where_judged(&self, inside: &[u8], leads: &[u8]) -> Result<(), Box<Refused>> {
        self.exception(leads, inside).map_or(Ok(()), |rule| {
            let detail =
                "the link leads to a directory in which protected names are written freely".to_owned();
            Err(Box::new(Refused {
                detail,
                ..*self.refusal(self.host_path(inside).unwrap_or_default(), rule, true)
            }))
        })
    }

    /// Whether anything protected is found at `inside`: for what is moved there as a whole.
    pub(crate) fn is_free(&self, inside: &[u8]) -> Result<(), Box<Refused>> {
        match self.stand(inside) {
            Some(Stand { host, status: NameStatus::Protected(rule), .. }) => {
                Err(self.refusal(host, rule, false))
            }
            _ => Ok(()),
        }
    }

    /// A refusal for what can't be looked at, by the rule that begins there or else the first one; nothing where none
    /// holds.
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
#[path = "name_policy_tests.rs"]
mod tests;
