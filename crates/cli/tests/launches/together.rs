// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests how rules combine: each pair of rules in a small set of paths, which all concern one file or a directory above it,
//! and larger random sets of them.
//!
//! Random policies for a whole home seldom have two rules for one file, but combined rules are where planners make errors.

use super::story::{Access, Launch, Layer, Node, Rule, Story, Tree};
use crate::explorer::random::Random;

/// `T` is a top directory; `a`, `l` and `m` are links to it, to its directory and to the file there.
const SPELLINGS: [&str; 14] = [
    "T",
    "T/b",
    "T/b/x.cfg",
    "a",
    "a/b",
    "l/x.cfg",
    "m",
    "T/*",
    "T/b/*.cfg",
    "T/**/x.cfg",
    "a/*",
    "l/*.cfg",
    "a/**/x.cfg",
    "l",
];
/// Shown elsewhere as well.
const MOVED: [&str; 2] = ["T/b/x.cfg", "l"];
const ACCESSES: [Access; 3] = [Access::Deny, Access::Read, Access::Write];
const TOPS: [&str; 2] = ["keys", "w"];

/// All rules; with `locks` also those of an administrator.
fn rules(locks: bool) -> Vec<Rule> {
    let layers: &[Layer] = if locks {
        &[Layer::Locked, Layer::User, Layer::CommandLine]
    } else {
        &[Layer::User, Layer::CommandLine]
    };
    let mut all = Vec::new();
    for layer in layers.iter().copied() {
        for access in ACCESSES {
            // There is no option for reading alone.
            let access =
                if (access, layer) == (Access::Read, Layer::CommandLine) { Access::Execute } else { access };
            let rule = |path: &str, destination| Rule {
                layer,
                access,
                path: path.into(),
                dotted: false,
                destination,
            };
            all.extend(SPELLINGS.map(|path| rule(path, None)));
            if access.is_grant() {
                all.extend(MOVED.map(|path| rule(path, Some(format!("/mnt/{path}")))));
            }
        }
    }
    all
}

/// How many stories there are of two rules.
pub(super) fn pairs(locks: bool) -> u64 {
    let rules = rules(locks).len() as u64;
    rules * (rules - 1) / 2 * TOPS.len() as u64
}

/// Story `number`: of two rules, and behind the last pair of three or four.
pub(super) fn story(seed: u64, number: u64, locks: bool) -> Story {
    let all = rules(locks);
    let mut random = Random::new(seed, number);
    let (chosen, top) = if number < pairs(locks) {
        let tops = TOPS.len() as u64;
        (
            pair(all.len(), usize::try_from(number / tops).unwrap_or(0)),
            usize::try_from(number % tops).unwrap_or(0),
        )
    } else {
        let count = 3 + random.below(2);
        let mut chosen: Vec<usize> = (0..count).map(|_| random.below(all.len())).collect();
        chosen.sort_unstable();
        chosen.dedup();
        (chosen, random.below(TOPS.len()))
    };
    let top = TOPS[top];
    let mut rules: Vec<Rule> = chosen.into_iter().map(|at| all[at].clone()).collect();
    for (number, rule) in rules.iter_mut().enumerate() {
        if let Some(rest) = rule.path.strip_prefix('T') {
            rule.path = format!("{top}{rest}");
        }
        // One place can't show two objects.
        if let Some(destination) = &mut rule.destination {
            *destination = format!("/mnt/{number}");
        }
    }
    // One option can't be given twice for the same path.
    rules.dedup_by(|one, other| {
        one.path == other.path && one.layer == other.layer && one.access == other.access
    });
    let options = match random.below(6) {
        0 => vec!["--protect", "mounts"],
        1 => vec!["--protect", "off"],
        _ => Vec::new(),
    };
    Story { tree: tree(top), rules, launches: vec![Launch { options, ..Launch::default() }] }
}

/// The pair with this number, of `things` elements.
fn pair(things: usize, mut number: usize) -> Vec<usize> {
    let mut first = 0;
    while number >= things - 1 - first {
        number -= things - 1 - first;
        first += 1;
    }
    vec![first, first + 1 + number]
}

fn tree(top: &str) -> Tree {
    let mut tree = Tree::new();
    for directory in ["w", top, &format!("{top}/b")] {
        tree.insert(directory.to_owned(), Node::Directory);
    }
    for file in ["b/x.cfg", "b/key", "y.cfg"] {
        tree.insert(format!("{top}/{file}"), Node::File);
    }
    for (link, target) in [("a", ""), ("l", "/b"), ("m", "/b/x.cfg")] {
        tree.insert(link.to_owned(), Node::Link(format!("{top}{target}")));
    }
    tree
}
