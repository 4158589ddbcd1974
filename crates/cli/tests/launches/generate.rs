// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates random stories. Each has a few names, so that policies and attackers often use the same paths.
//!
//! The generator knows no attack: it draws trees, rules, calls and their paths independently.

use super::oracle::{is_in, resolve};
use super::story::{Access, Launch, Layer, Node, Rule, Story, Tree};
use crate::explorer::random::Random;

/// The directories of a home: the working directory, what may be granted, what seldom is.
const TOPS: [&str; 3] = ["w", "o", "keys"];
const DIRECTORIES: [&str; 3] = ["a", "b", "conf"];
const FILES: [&str; 3] = ["key", "x.cfg", "y.cfg"];
/// What isn't there at first.
const NEW: [&str; 3] = ["out", "new", "z"];

const ACCESSES: [(Access, usize); 5] =
    [(Access::Write, 3), (Access::Read, 2), (Access::Execute, 1), (Access::Hide, 3), (Access::Deny, 3)];

const CALLS: [(&str, usize); 9] = [
    ("rename", 30),
    ("exchange", 10),
    ("symlink", 24),
    ("mkdir", 12),
    ("write", 8),
    ("link", 4),
    ("unlink", 4),
    ("rmdir", 6),
    ("noreplace", 2),
];

struct Generator {
    random: Random,
    tree: Tree,
    rules: Vec<Rule>,
    /// Where the attacker has made links, as far as that worked.
    links: Vec<String>,
}

/// Story `number` of `seed`, with an administrator's rules where there may be some.
pub(super) fn story(seed: u64, number: u64, locks: bool) -> Story {
    let random = Random::new(seed, number);
    let mut generator = Generator { random, tree: Tree::new(), rules: Vec::new(), links: Vec::new() };
    generator.plant();
    for _ in 0..=generator.random.below(4) {
        let rule = generator.rule(locks);
        // Two rules can't be one option, and one place can't show two objects.
        if !generator.rules.contains(&rule) {
            generator.rules.push(rule);
        }
    }
    let protect = generator.protect();
    let launches = (0..2 + generator.random.below(2)).map(|_| generator.launch(protect)).collect();
    Story { tree: generator.tree, rules: generator.rules, launches }
}

impl Generator {
    /// The host's tree.
    fn plant(&mut self) {
        for top in TOPS {
            self.fill(top, 0);
        }
        for _ in 0..self.random.below(3) {
            let place = self.directory();
            let name = self.random.pick(&["l", "m", "a", "key"]);
            let place = if self.random.chance(30) { name.to_owned() } else { format!("{place}/{name}") };
            let target = self.node();
            self.tree.entry(place).or_insert(Node::Link(target));
        }
    }

    fn fill(&mut self, directory: &str, depth: usize) {
        self.tree.insert(directory.to_owned(), Node::Directory);
        for name in FILES {
            if self.random.chance(45) {
                self.tree.insert(format!("{directory}/{name}"), Node::File);
            }
        }
        for name in DIRECTORIES {
            if depth < 2 && self.random.chance(55) {
                self.fill(&format!("{directory}/{name}"), depth + 1);
            }
        }
    }

    /// A directory of the host's, half of the time in the working directory.
    fn directory(&mut self) -> String {
        self.any(|node| *node == Node::Directory)
    }

    /// Whatever the host has, half of the time in the working directory.
    fn node(&mut self) -> String {
        self.any(|_| true)
    }

    fn any(&mut self, wanted: impl Fn(&Node) -> bool) -> String {
        let all: Vec<&String> =
            self.tree.iter().filter(|(_, node)| wanted(node)).map(|(path, _)| path).collect();
        let own: Vec<&String> = all.iter().copied().filter(|path| path.starts_with("w/")).collect();
        let from = if own.is_empty() || self.random.chance(50) { all } else { own };
        self.random.pick(&from).clone()
    }

    /// A path, perhaps through a link, and perhaps of nothing.
    fn path(&mut self) -> String {
        if !self.rules.is_empty() && self.random.chance(40) {
            let met = self.meeting();
            return self.spelling(&met);
        }
        let path = self.node();
        let behind = match self.tree.get(&path) {
            Some(Node::Link(target)) if self.random.chance(50) => {
                let below: Vec<&String> =
                    self.tree.keys().filter(|other| other.starts_with(&format!("{target}/"))).collect();
                (!below.is_empty()).then(|| format!("{path}{}", &self.random.pick(&below)[target.len()..]))
            }
            Some(Node::Directory) if self.random.chance(10) => {
                Some(format!("{path}/{}", self.random.pick(&NEW)))
            }
            _ => None,
        };
        behind.unwrap_or(path)
    }

    /// What another rule is about, what lies in it, or what it lies in: rules that never meet decide nothing together.
    fn meeting(&mut self) -> String {
        let rule = self.random.below(self.rules.len());
        let plain: Vec<&str> =
            self.rules[rule].path.split('/').take_while(|name| !name.contains('*')).collect();
        let Some(at) = resolve(&self.tree, &plain.join("/")) else { return self.node() };
        let near: Vec<&String> =
            self.tree.keys().filter(|path| is_in(path, &at) || is_in(&at, path)).collect();
        if near.is_empty() || self.random.chance(30) { at } else { (*self.random.pick(&near)).clone() }
    }

    /// One of the ways to spell a path without links: as it is, or by a link that leads to it or above it.
    fn spelling(&mut self, path: &str) -> String {
        let spellings: Vec<String> = self
            .tree
            .iter()
            .filter(|(_, node)| matches!(node, Node::Link(_)))
            .filter_map(|(place, _)| Some((place, resolve(&self.tree, place)?)))
            .filter(|(_, at)| is_in(path, at))
            .map(|(place, at)| format!("{place}{}", &path[at.len()..]))
            .collect();
        if spellings.is_empty() || self.random.chance(30) {
            return path.to_owned();
        }
        self.random.pick(&spellings.iter().collect::<Vec<_>>()).clone()
    }

    /// A pattern that fits what the host has.
    fn pattern(&mut self) -> String {
        let path = self.path();
        let mut names: Vec<&str> = path.split('/').collect();
        let last = names.len() - 1;
        if last == 0 {
            return format!("{path}/*");
        }
        match self.random.below(3) {
            0 => names[last] = "*.cfg",
            1 => names[1 + self.random.below(last)] = "*",
            _ => {}
        }
        if self.random.chance(50) && last > 1 {
            let from = 1 + self.random.below(last - 1);
            let to = from + self.random.below(last - from);
            names.splice(from..to, ["**"]);
        }
        if names.iter().all(|name| !name.contains('*')) {
            names.insert(1, "**");
        }
        names.join("/")
    }

    fn rule(&mut self, locks: bool) -> Rule {
        let layers =
            [(Layer::CommandLine, 50), (Layer::User, 40), (Layer::Locked, if locks { 30 } else { 0 })];
        let layer = self.random.weighted(&layers);
        let access = match (self.random.weighted(&ACCESSES), layer) {
            // There is no option for either alone.
            (Access::Read, Layer::CommandLine) => Access::Execute,
            (access, _) => access,
        };
        let path = if self.random.chance(25) { self.pattern() } else { self.path() };
        let is_moved = access.is_grant() && !path.contains('*') && self.random.chance(8);
        let destination = is_moved.then(|| format!("/mnt/{}", self.rules.len()));
        Rule { layer, access, path, dotted: self.random.chance(50), destination }
    }

    fn protect(&mut self) -> usize {
        self.random.below(5)
    }

    fn launch(&mut self, protect: usize) -> Launch {
        let protect = if self.random.chance(15) { self.protect() } else { protect };
        let mut options = match protect {
            0 => vec!["--protect", "mounts"],
            1 => vec!["--protect", "off"],
            _ => Vec::new(),
        };
        if self.random.chance(4) {
            options = vec!["--protect", "off", "--namespaces", "none"];
        }
        let calls = (0..2 + self.random.below(7)).map(|_| self.call()).collect();
        let race = self.random.chance(20).then(|| {
            let (one, other) = (self.spot(), self.links.last().cloned().unwrap_or_else(|| self.spot()));
            format!("@/{one} @/{other}")
        });
        Launch { options, calls, race }
    }

    /// The path on which the attacker acts: mostly the path of a rule, or a directory above it.
    fn spot(&mut self) -> String {
        let mut path = if self.random.chance(60) {
            let rule = self.random.below(self.rules.len());
            let path = &self.rules[rule].path;
            let plain: Vec<&str> = path.split('/').take_while(|name| !name.contains('*')).collect();
            plain.join("/")
        } else {
            self.node()
        };
        while path.contains('/') && self.random.chance(40) {
            path.truncate(path.rfind('/').unwrap_or_default());
        }
        if !path.contains('/') || self.random.chance(15) {
            path = format!("w/{}", self.random.pick(&NEW));
        }
        path
    }

    /// A new name, or any other spot.
    fn goal(&mut self) -> String {
        if self.random.chance(40) {
            let directory = self.directory();
            format!("{directory}/{}", self.random.pick(&NEW))
        } else {
            self.spot()
        }
    }

    fn call(&mut self) -> String {
        let call = self.random.weighted(&CALLS);
        match call {
            "rename" | "noreplace" | "exchange" | "link" => {
                format!("{call} @/{} @/{}", self.spot(), self.goal())
            }
            "symlink" => {
                let (target, place) = (self.node(), self.goal());
                self.links.push(place.clone());
                format!("symlink @/{target} @/{place}")
            }
            "write" => format!("openat - wc @/{}", self.goal()),
            _ => format!("{call} @/{}", self.spot()),
        }
    }
}
