// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is refused: protected names in writable trees, and what would lead around them.
//!
//! Everything here goes by paths as the host has them, so that a tree shown elsewhere inside is
//! judged by what it is. No I/O: what must be looked up is asked for.

use crate::broker::history::{History, is_below, upwards};
use palisade_policy::names::{Content, NameRule, NameRules, Standing};
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

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Where a path stands.
struct Stand<'g> {
    /// The path on the host.
    host: Vec<u8>,
    standing: Standing<'g>,
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
        Some(Stand { host, standing })
    }

    /// Whether a call may do this to the name at `inside`.
    pub(crate) fn check(&self, deed: Deed, inside: &[u8]) -> Result<(), Box<Refused>> {
        let Some(Stand { host, standing }) = self.stand(inside) else { return Ok(()) };
        let (rule, holder) = match standing {
            Standing::Free => return Ok(()),
            Standing::Protected(rule) => (rule, false),
            Standing::Holder(rule) => (rule, true),
        };
        let made = if rule.carried && !holder {
            // A checkout writes such names in what it has made itself: what counts is the directory
            // that the whole name lies in, `.cargo/config.toml` being one name.
            self.history().is_made(self.holder_of(&host, rule))
        } else {
            self.history().is_made(&host)
        };
        let allowed = if holder {
            match deed {
                Deed::MakeDirectory | Deed::Remove | Deed::Attributes => true,
                // What was made under such a name has been judged by it all the time.
                Deed::MoveFrom { directory } => !directory || made,
                Deed::MoveTo { directory: true } => false,
                Deed::MakeLink => made && rule.carried,
                Deed::Change | Deed::MakeFile | Deed::LinkFrom | Deed::LinkTo | Deed::MoveTo { .. } => {
                    // git follows a file of this name to wherever it says.
                    !last(&host).eq_ignore_ascii_case(b".git") || deed == Deed::LinkFrom || made
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
                Deed::MakeDirectory => matches!(last(&host), b"hooks" | b"branches"),
                Deed::Attributes | Deed::MoveFrom { .. } => true,
                // git's templates; it runs none of them.
                Deed::Change | Deed::MakeFile | Deed::MoveTo { directory: false } | Deed::LinkTo => {
                    last(&host).ends_with(b".sample") && rule.path.ends_with("hooks")
                }
                Deed::MakeLink | Deed::MoveTo { directory: true } => false,
            }
        };
        if allowed { Ok(()) } else { Err(self.refusal(host, rule, holder)) }
    }

    /// The directory that a protected name at or above `host` begins in; of a name with a wildcard,
    /// the one that stands for it (`.git/worktrees/*/commondir`: the worktree's).
    fn holder_of<'p>(&self, host: &'p [u8], rule: &NameRule) -> &'p [u8] {
        let root = self.root_depth(host);
        let protects = |path: &[u8]| matches!(self.wards.names.judge(path, root), Standing::Protected(found) if core::ptr::eq(found, rule));
        let end = upwards(host).take_while(|path| protects(path)).last().unwrap_or(host);
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
    pub(crate) fn may_move_holder(&self, from: &[u8], to: &[u8]) -> bool {
        let (Some(from), Some(to)) = (self.stand(from), self.stand(to)) else { return false };
        match (from.standing, to.standing) {
            (Standing::Holder(one), Standing::Holder(other)) => {
                core::ptr::eq(one, other) && self.history().is_made(&from.host)
            }
            _ => false,
        }
    }

    /// A directory was made.
    pub(crate) fn made_directory(&self, inside: &[u8]) {
        if let Some((host, _root)) = self.on_host(inside) {
            self.history().made(host);
        }
    }

    /// A directory was removed.
    pub(crate) fn removed_directory(&self, inside: &[u8]) {
        if let Some((host, _root)) = self.on_host(inside) {
            self.history().removed(host);
        }
    }

    /// Whether a path of the host was made in this sandbox, or what it lies in was.
    pub(crate) fn is_made(&self, host: &[u8]) -> bool {
        self.history().is_made(host)
    }

    /// Whether a directory of somebody else's was at `inside`.
    pub(crate) fn is_vacated(&self, inside: &[u8]) -> bool {
        self.on_host(inside).is_some_and(|(host, _root)| self.history().is_vacated(&host))
    }

    /// A directory was moved.
    pub(crate) fn moved_directory(&self, from: &[u8], to: &[u8]) {
        let [from, to] = [from, to].map(|path| self.host_path(path));
        self.history().moved(from.as_deref(), to);
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
            Some(Stand { host, standing: Standing::Protected(rule) }) => Err(self.refusal(host, rule, false)),
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
        if let Some((host, _root)) = self.on_host(inside) {
            self.history().exchanged(host);
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

    /// Where a path is on the host, if others see it there.
    pub(crate) fn host_path(&self, inside: &[u8]) -> Option<Vec<u8>> {
        self.on_host(inside).map(|(path, _root)| path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::{Layer, Origin};

    fn rule(path: &str, carried: bool, content: Content) -> NameRule {
        let origin = Origin { layer: Layer::BuiltIn, file: None, line: 1, column: 1 };
        NameRule {
            path: path.into(),
            reason: "a test".into(),
            origin,
            carried,
            except_below: Vec::new(),
            content,
            anchored: false,
            locked: false,
        }
    }

    fn guard() -> Guard {
        let names = NameRules::new(vec![
            rule(".git/hooks", false, Content::Never),
            rule(".git/config", false, Content::GitConfig),
            rule(".vscode", true, Content::Never),
            rule(".git/modules/**/hooks", false, Content::Never),
            rule(".cargo/config.toml", true, Content::Never),
        ]);
        let root = |inside: &str, host: Option<&str>| Root {
            inside: inside.into(),
            host: host.map(|host| host.into()),
            write: true,
        };
        let roots =
            vec![root("/w", Some("/home/u/w")), root("/w/tmp", None), root("/link", Some("/home/u/r/.git"))];
        Guard::new(Wards { roots, names, paths: NameRules::default() })
    }

    fn refuses(guard: &Guard, deed: Deed, path: &str) -> bool {
        guard.check(deed, path.as_bytes()).is_err()
    }

    #[test]
    fn names_are_judged_where_others_see_them() {
        let guard = guard();
        assert!(refuses(&guard, Deed::MakeFile, "/w/.git/hooks/pre-commit"));
        assert!(refuses(&guard, Deed::MakeFile, "/w/a/b/.git/hooks/pre-commit"));
        assert!(!refuses(&guard, Deed::MakeFile, "/w/tmp/.git/hooks/pre-commit"));
        assert!(!refuses(&guard, Deed::MakeFile, "/elsewhere/.git/hooks/pre-commit"));
        assert!(!refuses(&guard, Deed::MakeFile, "/wider/.git/hooks/pre-commit"));
        assert!(refuses(&guard, Deed::MakeFile, "/link/hooks/pre-commit"), "by the host's path");
        let refused = guard.check(Deed::Change, b"/link/config").unwrap_err();
        assert_eq!(refused.path, b"/home/u/r/.git/config");
        assert!(refused.content);
    }

    #[test]
    fn sockets_of_others_are_granted_one_by_one() {
        let mut guard = guard();
        guard.wards.roots.push(Root { inside: b"/run/s".into(), host: Some(b"/run/s".into()), write: true });
        guard.wards.roots.push(Root { inside: b"/etc".into(), host: Some(b"/etc".into()), write: false });
        for (path, may) in
            [("/w/sock", false), ("/w/tmp/sock", true), ("/run/s", true), ("/etc/s", false), ("/tmp/s", true)]
        {
            assert_eq!(guard.may_connect(path.as_bytes()), may, "{path}");
        }
    }

    #[test]
    fn what_holds_protected_names_stays_where_it_is() {
        let guard = guard();
        assert!(refuses(&guard, Deed::MoveFrom { directory: true }, "/w/.git"));
        assert!(refuses(&guard, Deed::MoveTo { directory: true }, "/w/.git"));
        assert!(refuses(&guard, Deed::MakeLink, "/w/.git"));
        assert!(refuses(&guard, Deed::MakeFile, "/w/.git"), "git follows such a file");
        assert!(refuses(&guard, Deed::MakeFile, "/w/.Git"), "and so it does where case doesn't count");
        guard.made_directory(b"/w/made");
        assert!(!refuses(&guard, Deed::MakeFile, "/w/made/.git"), "a worktree's or a submodule's");
        assert!(!refuses(&guard, Deed::MakeDirectory, "/w/.git"));
        assert!(!refuses(&guard, Deed::MoveFrom { directory: true }, "/w/project"));
    }

    #[test]
    fn a_link_to_its_own_directory_leads_nowhere_else() {
        let guard = guard();
        assert!(guard.link_stays(b"/w/.git/modules/m/tXXXX", b"testing"));
        assert!(!guard.link_stays(b"/w/.git/modules/m/tXXXX", b"../../../x"));
        assert!(!guard.link_stays(b"/w/.git/modules/m/tXXXX", b".."));
        assert!(!guard.link_stays(b"/w/.git", b"other"));
        assert!(!guard.link_stays(b"/w/.git/modules/m/hooks", b"testing"));
    }

    #[test]
    fn a_repository_made_inside_has_templates_and_no_hooks() {
        let guard = guard();
        guard.made_directory(b"/w/new");
        guard.made_directory(b"/w/new/.git");
        assert!(!refuses(&guard, Deed::MakeDirectory, "/w/new/.git/hooks"));
        assert!(!refuses(&guard, Deed::MakeFile, "/w/new/.git/hooks/pre-commit.sample"));
        assert!(refuses(&guard, Deed::MakeFile, "/w/new/.git/hooks/pre-commit"));
        assert!(refuses(&guard, Deed::MoveTo { directory: false }, "/w/new/.git/hooks/pre-commit"));
        assert!(refuses(&guard, Deed::MakeLink, "/w/new/.git/hooks"));
        assert!(refuses(&guard, Deed::MoveTo { directory: true }, "/w/new/.git/hooks"));
        assert!(
            refuses(&guard, Deed::LinkFrom, "/w/new/.git/config"),
            "it could be written by its other name"
        );
        assert!(!refuses(&guard, Deed::MakeFile, "/w/new/.vscode/tasks.json"), "a checkout writes it");
        assert!(refuses(&guard, Deed::MakeFile, "/w/.vscode/tasks.json"));
        guard.made_directory(b"/w/.cargo");
        assert!(refuses(&guard, Deed::MakeFile, "/w/.cargo/config.toml"), "the directory alone was made");
        guard.made_directory(b"/w/new/.cargo");
        assert!(!refuses(&guard, Deed::MakeFile, "/w/new/.cargo/config.toml"));
        assert!(refuses(&guard, Deed::MakeDirectory, "/w/new/.git/hooks/pre-commit"));
        assert!(!refuses(&guard, Deed::Remove, "/w/new/.git/config"));
    }

    #[test]
    fn a_place_that_somebody_trusted_is_not_made_anew() {
        let guard = guard();
        guard.moved_directory(b"/w/trusted", b"/w/old");
        assert!(guard.is_vacated(b"/w/trusted"));
        guard.made_directory(b"/w/trusted");
        assert!(refuses(&guard, Deed::MakeFile, "/w/trusted/.vscode/tasks.json"));
        guard.removed_directory(b"/w/other");
        guard.made_directory(b"/w/other");
        assert!(refuses(&guard, Deed::MakeFile, "/w/other/.vscode/tasks.json"));
    }

    #[test]
    fn what_was_made_inside_moves_as_such() {
        let guard = guard();
        guard.made_directory(b"/w/a");
        guard.moved_directory(b"/w/a", b"/w/b");
        assert!(!refuses(&guard, Deed::MakeFile, "/w/b/.vscode/x"));
        assert!(refuses(&guard, Deed::MakeFile, "/w/a/.vscode/x"));
        // Not made here, but moved to where something was.
        guard.moved_directory(b"/w/old", b"/w/c");
        assert!(refuses(&guard, Deed::MakeFile, "/w/c/.vscode/x"));
        guard.made_directory(b"/w/p/q");
        guard.moved_directory(b"/w/p", b"/w/r");
        assert!(!refuses(&guard, Deed::MakeFile, "/w/r/q/.vscode/x"));
        guard.exchanged_directory(b"/w/r");
        assert!(refuses(&guard, Deed::MakeFile, "/w/r/q/.vscode/x"));
    }

    #[test]
    fn a_repository_made_inside_may_be_renamed_to_another_that_is_judged_alike() {
        let guard = guard();
        guard.made_directory(b"/w/x/.git");
        assert!(guard.may_move_holder(b"/w/x/.git", b"/w/y/.git"));
        assert!(!guard.may_move_holder(b"/w/.git", b"/w/y/.git"));
        assert!(!guard.may_move_holder(b"/w/x/.git", b"/w/y/plain"));
    }
}
