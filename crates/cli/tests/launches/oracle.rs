// SPDX-License-Identifier: Apache-2.0 OR MIT
//! States what a policy permits, from the policy and the host's first tree alone. It follows docs/policy.md ("Precedence",
//! "Links, and directories that move"), and uses no code of Palisade.

use super::story::{Access, Layer, Node, Rule, Story, Tree};
use std::collections::BTreeSet;

/// What may be done with an object of the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct May {
    pub(super) read: bool,
    pub(super) write: bool,
}

impl May {
    const fn of(access: Access) -> Self {
        Self { read: access.is_grant(), write: matches!(access, Access::Write) }
    }

    const fn within(self, other: Self) -> Self {
        Self { read: self.read && other.read, write: self.write && other.write }
    }

    const fn or(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }
}

/// A rule at one object that it is about.
struct Stated<'s> {
    rule: &'s Rule,
    /// The object's path, without links.
    at: String,
    /// A link leads there.
    by_link: bool,
    /// How deep a pattern's plain beginning lies, wherever its links lead.
    beginning: usize,
}

impl<'s> Stated<'s> {
    /// A rule at a path; `straight` if it comes there by no link.
    fn at(tree: &Tree, rule: &'s Rule, path: &str, straight: bool) -> Option<Self> {
        let at = resolve(tree, path)?;
        let base = resolve(tree, &beginning(&rule.path)).filter(|_| rule.is_pattern());
        let beginning = base.map_or(0, |base| base.matches('/').count());
        Some(Self { rule, by_link: !straight || at != path, at, beginning })
    }
}

pub(super) struct Oracle<'s> {
    stated: Vec<Stated<'s>>,
}

impl<'s> Oracle<'s> {
    pub(super) fn new(story: &'s Story) -> Self {
        let mut stated = Vec::new();
        for rule in &story.rules {
            if rule.is_pattern() {
                let (found, straight) = found(&story.tree, &rule.path);
                let stated_at = |path: &String| Stated::at(&story.tree, rule, path, straight);
                stated.extend(found.into_iter().filter_map(stated_at));
            } else {
                stated.extend(Stated::at(&story.tree, rule, &rule.path, true));
            }
        }
        Self { stated }
    }

    /// What may be done with the object at a path without links, at its own place.
    pub(super) fn at_home(&self, path: &str) -> May {
        let own = path == "w" || path.starts_with("w/");
        let mut may = May { read: own, write: own };
        let lock = self.lock(path);
        if let Some(lock) = lock {
            may = lock;
        }
        for layer in [Layer::User, Layer::CommandLine] {
            if let Some(says) = self.says(path, layer) {
                may = lock.map_or(says, |lock| says.within(lock));
            }
        }
        may
    }

    /// What may be done with it at any place where it is shown.
    pub(super) fn anywhere(&self, path: &str) -> May {
        let moved = self.stated.iter().filter(|stated| stated.rule.destination.is_some());
        let moved = moved.filter(|stated| is_in(path, &stated.at)).map(|stated| {
            let may = May::of(stated.rule.access);
            self.lock(path).map_or(may, |lock| may.within(lock))
        });
        moved.fold(self.at_home(path), May::or)
    }

    /// Whether a rule without a pattern names exactly this object, or one below it. If so, the object's path must not come to
    /// lead elsewhere.
    pub(super) fn keeps_path(&self, path: &str) -> bool {
        let plain = self.stated.iter().filter(|stated| !stated.rule.is_pattern());
        plain.map(|stated| &stated.at).any(|at| is_in(at, path))
    }

    /// Whether a link decides nothing of an object. What a link grants may be refused for more reasons.
    pub(super) fn is_plain(&self, path: &str) -> bool {
        !self.stated.iter().any(|stated| stated.by_link && is_in(path, &stated.at))
    }

    /// Questions about the host's objects, and their answers: those that a rule decides come first.
    pub(super) fn questions(&self, tree: &Tree) -> Vec<(String, &'static str, bool)> {
        let objects = tree.iter().filter(|(_, node)| !matches!(node, Node::Link(_))).map(|(path, _)| path);
        let (ruled, others): (Vec<&String>, Vec<&String>) =
            objects.partition(|path| self.stated.iter().any(|stated| is_in(path, &stated.at)));
        let all = ruled.into_iter().rev().chain(others);
        all.flat_map(|path| {
            let may = self.at_home(path);
            [(path.clone(), "read", may.read), (path.clone(), "write", may.write)]
        })
        .collect()
    }

    fn lock(&self, path: &str) -> Option<May> {
        self.says(path, Layer::Locked)
    }

    /// What the closest rules of a layer say: a refusal before a grant; grants add up.
    fn says(&self, path: &str, layer: Layer) -> Option<May> {
        let about: Vec<&Stated<'_>> = self
            .stated
            .iter()
            .filter(|stated| stated.rule.layer == layer && is_in(path, &stated.at))
            .filter(|stated| stated.rule.destination.is_none())
            .collect();
        let closeness = |stated: &Stated<'_>| {
            // The beginning tells patterns apart, and nothing else: plain paths to one object are alike.
            (stated.at.matches('/').count(), !stated.rule.is_pattern(), stated.beginning)
        };
        let closest = about.iter().map(|stated| closeness(stated)).max()?;
        let speaking = about.iter().filter(|stated| closeness(stated) == closest);
        let accesses: BTreeSet<Access> = speaking.map(|stated| stated.rule.access).collect();
        let refused = accesses.iter().any(|access| !access.is_grant());
        Some(if refused {
            May::default()
        } else {
            accesses.into_iter().map(May::of).fold(May::default(), May::or)
        })
    }
}

/// Whether a path is `directory` or lies in it.
pub(super) fn is_in(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What a path leads to; none if that isn't there.
pub(super) fn resolve(tree: &Tree, path: &str) -> Option<String> {
    let mut rest: Vec<String> = path.rsplit('/').map(str::to_owned).collect();
    let mut at = String::new();
    let mut followed = 0;
    while let Some(name) = rest.pop() {
        let next = if at.is_empty() { name } else { format!("{at}/{name}") };
        match tree.get(&next)? {
            Node::Link(target) => {
                followed += 1;
                if followed > 10 {
                    return None;
                }
                rest.extend(target.rsplit('/').map(str::to_owned));
                at.clear();
            }
            Node::File if !rest.is_empty() => return None,
            Node::File | Node::Directory => at = next,
        }
    }
    Some(at)
}

/// The plain beginning of a pattern.
fn beginning(pattern: &str) -> String {
    pattern.split('/').take_while(|name| !name.contains('*')).collect::<Vec<_>>().join("/")
}

/// What a pattern fits: its plain beginning may lead through links, what follows is names. It holds for all that lies in a
/// match, so nothing is a match there. And whether the beginning leads through none.
fn found<'t>(tree: &'t Tree, pattern: &str) -> (Vec<&'t String>, bool) {
    let plain = beginning(pattern);
    let Some(base) = resolve(tree, &plain) else { return (Vec::new(), true) };
    let pattern = format!("{base}{}", &pattern[plain.len()..]);
    let mut found: Vec<&String> = Vec::new();
    for path in tree.keys().filter(|path| matches(&pattern, path)) {
        // Those above come first.
        if !found.iter().any(|above| is_in(path, above)) {
            found.push(path);
        }
    }
    (found, base == plain)
}

/// Whether a pattern fits a path: `**` any number of names, `*` any part of one.
fn matches(pattern: &str, path: &str) -> bool {
    fn names(pattern: &[&str], path: &[&str]) -> bool {
        match pattern {
            [] => path.is_empty(),
            ["**", rest @ ..] => (0..=path.len()).any(|skipped| names(rest, &path[skipped..])),
            [first, rest @ ..] => {
                path.split_first().is_some_and(|(name, below)| one(first, name) && names(rest, below))
            }
        }
    }
    fn one(pattern: &str, name: &str) -> bool {
        match pattern.split_once('*') {
            None => pattern == name,
            Some((before, after)) => {
                name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after)
            }
        }
    }
    let (pattern, path): (Vec<&str>, Vec<&str>) = (pattern.split('/').collect(), path.split('/').collect());
    names(&pattern, &path)
}
