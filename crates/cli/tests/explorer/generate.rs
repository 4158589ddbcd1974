// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generates random sequences. Each has a few names and a few kinds of calls of its own, so that the same names meet often.
//!
//! The generator knows no attack: it draws a call's kind, its paths and their spelling independently.

use super::model::{Model, Node, is_below, join, parent};
use super::random::Random;
use super::sequence::{Actor, Sequence, Step};
use super::spell::Player;

const PLAIN: &[&str] = &["a", "src", "evil", "e"];
/// Directories that hold obeyed names, and a name in each.
const OBEYED: &[(&str, &str)] = &[
    (".git", "config"),
    (".git/hooks", "pre-commit"),
    (".git/info", "attributes"),
    (".hg", "hgrc"),
    (".vscode", "tasks.json"),
    (".cargo", "config.toml"),
    (".mise", "config.toml"),
    (".jj/repo", "config.toml"),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    MakeDirectory,
    MakeFile,
    Rename,
    Symlink,
    Link,
    MakeNode,
    Remove,
    RemoveDirectory,
    Truncate,
    Descriptor,
    Enter,
}

/// How often each kind is drawn where a sequence has it.
const KINDS: &[(Kind, usize)] = &[
    (Kind::MakeDirectory, 14),
    (Kind::MakeFile, 14),
    (Kind::Rename, 14),
    (Kind::Symlink, 6),
    (Kind::Link, 3),
    (Kind::MakeNode, 1),
    (Kind::Remove, 3),
    (Kind::RemoveDirectory, 3),
    (Kind::Truncate, 1),
    (Kind::Descriptor, 6),
    (Kind::Enter, 2),
];
/// Kinds that every sequence has.
const ALWAYS: usize = 3;

struct Generator {
    random: Random,
    plain: Vec<&'static str>,
    obeyed: Vec<(&'static str, &'static str)>,
    kinds: Vec<(Kind, usize)>,
    /// Percent of paths that are spelled in an odd way.
    odd: usize,
    model: Model,
    /// Where the host has directories at first, the repository apart: paths that are trusted.
    trusted: Vec<String>,
    players: [Player; 2],
}

/// Sequence `number` of `seed`.
pub(super) fn sequence(seed: u64, number: u64) -> Sequence {
    let mut random = Random::new(seed, number);
    let mut plain: Vec<&str> = (0..2 + random.below(2)).map(|_| random.pick(PLAIN)).collect();
    if random.chance(6) {
        // Names that aren't obeyed there are elsewhere.
        plain.push("node_modules");
    }
    let obeyed = (0..random.pick(&[1, 1, 2])).map(|_| random.pick(OBEYED)).collect();
    let kinds =
        KINDS.iter().enumerate().filter(|(at, _)| *at < ALWAYS || random.chance(40)).map(|(_, kind)| *kind);
    let kinds = kinds.collect();
    let odd = random.pick(&[0, 10, 40]);
    let (model, trusted, players) = (Model::default(), Vec::new(), Default::default());
    let mut generator = Generator { random, plain, obeyed, kinds, odd, model, trusted, players };
    let tree = generator.tree();
    let steps = generator.steps();
    Sequence { tree, steps }
}

impl Generator {
    /// The host's tree: a repository, and some of the names.
    fn tree(&mut self) -> Vec<String> {
        let mut tree: Vec<String> =
            [".git/", ".git/HEAD", ".git/config", ".git/objects/", ".git/refs/", ".git/info/", ".git/hooks/"]
                .map(str::to_owned)
                .into();
        let mut add = |path: &str| {
            for (at, _) in path.match_indices('/') {
                let directory = &path[..=at];
                if !tree.iter().any(|known| known == directory) {
                    tree.push(directory.to_owned());
                }
            }
            if !path.ends_with('/') && !tree.iter().any(|known| known == path) {
                tree.push(path.to_owned());
            }
        };
        if self.random.chance(70) {
            add(".git/hooks/pre-commit");
        }
        for name in ["src", "a"] {
            if self.plain.contains(&name) && self.random.chance(85) {
                add(&format!("{name}/"));
                if self.random.chance(30) {
                    add(&format!("{name}/{}/", self.random.pick(&self.plain)));
                }
            }
        }
        for (directory, name) in self.obeyed.clone() {
            if self.random.chance(20) {
                let above = if self.random.chance(50) { "" } else { "src" };
                add(&join(above, &join(directory, name)));
            }
        }
        // Entries of `.git` matter only to sequences that use its names.
        let names = |entry: &&String| {
            !entry.starts_with(".git") || self.obeyed.iter().any(|(name, _)| entry.starts_with(name))
        };
        for entry in tree.iter().filter(names) {
            match entry.strip_suffix('/') {
                Some(directory) => {
                    self.model.make(directory, Node::Directory);
                    if !directory.contains('.') {
                        self.trusted.push(directory.to_owned());
                    }
                }
                None => self.model.make(entry, Node::File),
            }
        }
        tree
    }

    fn steps(&mut self) -> Vec<Step> {
        let launches = self.random.weighted(&[(1, 3), (2, 5), (3, 2)]);
        let both = self.random.chance(25);
        let hosts = if self.random.chance(30) { 12 } else { 0 };
        let mut steps = Vec::new();
        for launch in 0..launches {
            self.players = Default::default();
            if launch > 0 && hosts > 0 && self.random.chance(50) {
                let call = self.host_rename();
                steps.push(Step { launch, actor: Actor::Before, call });
            }
            let count = (14 + self.random.below(12)) / launches.min(2);
            for _step in 0..count {
                let (actor, call) = if self.random.chance(hosts) {
                    (Actor::Host, self.host_rename())
                } else if both && self.random.chance(50) {
                    (Actor::Second, self.call(1))
                } else {
                    (Actor::First, self.call(0))
                };
                steps.push(Step { launch, actor, call });
            }
        }
        steps
    }

    /// `rename FROM TO`, of a directory: to no obeyed name, which would be the host's own doing.
    fn host_rename(&mut self) -> String {
        let [from, to, above] = [(); 3].map(|()| self.random.pick(&self.plain));
        let from = if self.random.chance(20) { join(above, from) } else { from.to_owned() };
        let to = if self.random.chance(20) { join(above, to) } else { to.to_owned() };
        self.model.rename(&from, &to);
        format!("rename {from} {to}")
    }

    /// One of the model's paths, the latest more often than others.
    fn known(&mut self, is_wanted: impl Fn(&str, Node) -> bool) -> Option<String> {
        let paths = self.model.paths(is_wanted);
        if paths.is_empty() {
            return None;
        }
        let latest = if self.random.chance(70) { paths.len().min(2) } else { paths.len() };
        Some(paths[paths.len() - 1 - self.random.below(latest)].to_owned())
    }

    /// A directory in which something may be made; empty for the ground itself.
    fn directory(&mut self) -> String {
        let ground = self.random.chance(25);
        let known = if ground { None } else { self.known(|_, node| node != Node::File) };
        known.unwrap_or_default()
    }

    /// A path that a call can do something with, more often than not.
    fn fit(&mut self, draw: fn(&mut Self) -> String, fits: impl Fn(&Model, &str) -> bool) -> String {
        for _attempt in 0..3 {
            let path = draw(self);
            if fits(&self.model, &path) {
                return path;
            }
        }
        draw(self)
    }

    fn vacant_file(&mut self) -> String {
        self.fit(Self::new_file, Model::is_vacant)
    }

    /// A path for a directory.
    fn new_directory(&mut self) -> String {
        if let Some(path) = self.vacated(50) {
            return path;
        }
        let above = self.directory();
        let (obeyed, _) = self.random.pick(&self.obeyed);
        let first = obeyed.split('/').next().unwrap_or(obeyed);
        match self.random.below(20) {
            0..=8 => join(&above, self.random.pick(&self.plain)),
            9 => join(&above, obeyed.rsplit('/').next().unwrap_or(obeyed)),
            // Of `.git/hooks` the part that lacks.
            _ if self.model.of(&join(&above, first)).is_none() => join(&above, first),
            _ => join(&above, obeyed),
        }
    }

    /// A path for a file.
    fn new_file(&mut self) -> String {
        let above = self.directory();
        let (holder, leaf) = self.random.pick(&self.obeyed);
        let inner = join(&above, holder);
        match self.random.below(10) {
            0 => join(&above, self.random.pick(&self.plain)),
            1..=7 if !above.ends_with(holder) && self.model.of(&inner).is_some() => join(&inner, leaf),
            1 if !above.ends_with(holder) => join(&inner, leaf),
            _ => join(&above, leaf),
        }
    }

    /// A path at which the host has had a directory from the beginning.
    fn trusted(&mut self, percent: usize) -> Option<String> {
        if self.trusted.is_empty() || !self.random.chance(percent) {
            return None;
        }
        let at = self.random.below(self.trusted.len());
        Some(self.trusted[at].clone())
    }

    /// Such a path where there is nothing now.
    fn vacated(&mut self, percent: usize) -> Option<String> {
        let vacant: Vec<String> =
            self.trusted.iter().filter(|path| self.model.is_vacant(path)).cloned().collect();
        if vacant.is_empty() || !self.random.chance(percent) {
            return None;
        }
        let at = self.random.below(vacant.len());
        Some(vacant[at].clone())
    }

    /// A path that there may be something at.
    fn existing(&mut self) -> String {
        if let Some(path) = self.trusted(15) {
            return path;
        }
        let known = if self.random.chance(92) { self.known(|_, _| true) } else { None };
        known.unwrap_or_else(|| self.new_directory())
    }

    fn known_file(&mut self) -> String {
        self.known(|_, node| node == Node::File).unwrap_or_else(|| self.new_file())
    }

    fn anything(&mut self) -> String {
        if let Some(path) = self.vacated(25).or_else(|| self.trusted(10)) {
            return path;
        }
        match self.random.below(10) {
            0..=2 => self.existing(),
            3..=7 => self.new_directory(),
            _ => self.new_file(),
        }
    }

    fn spelled(&mut self, who: usize, path: &str) -> String {
        let odd = self.random.chance(self.odd);
        self.players[who].spell(&mut self.random, odd, &self.plain, path)
    }

    /// A call of one sandbox.
    fn call(&mut self, who: usize) -> String {
        let call = self.plain_call(who);
        if !self.random.chance(self.odd / 4) || call.starts_with("fchdir") || call.starts_with("chdir") {
            return call;
        }
        match self.random.below(3) {
            0 => format!("|{call}"),
            1 => format!("+{call}"),
            // Its own directory is that of all threads, but for this one.
            _ if self.players[who].directory.is_empty() => {
                let directory = self.random.pick(&self.plain);
                let inside = format!("{directory}/");
                let words: Vec<&str> =
                    call.split(' ').map(|word| word.strip_prefix(&inside).unwrap_or(word)).collect();
                let words = words.join(" ");
                if words == call { call } else { format!("~{directory} {words}") }
            }
            _ => call,
        }
    }

    fn plain_call(&mut self, who: usize) -> String {
        let kinds = std::mem::take(&mut self.kinds);
        let kind = self.random.weighted(&kinds);
        self.kinds = kinds;
        match kind {
            Kind::MakeDirectory => {
                let path = self.fit(Self::new_directory, Model::is_vacant);
                self.model.make(&path, Node::Directory);
                self.one_path(who, &["mkdir", "mkdirat"], &path)
            }
            Kind::MakeFile => self.make_file(who),
            Kind::MakeNode => {
                let path = self.vacant_file();
                self.model.make(&path, Node::File);
                self.one_path(who, &["mknod", "mknodat"], &path)
            }
            Kind::Symlink => self.symlink(who),
            Kind::Link => {
                let from = if self.random.chance(30) { self.existing() } else { self.known_file() };
                let to = self.fit(Self::anything, Model::is_vacant);
                self.model.make(&to, self.model.of(&from).unwrap_or(Node::File));
                let call = self.random.pick(&["link", "linkat", "linkfollow"]);
                format!("{call} {} {}", self.spelled(who, &from), self.spelled(who, &to))
            }
            Kind::Rename => self.rename(who),
            Kind::Remove => {
                let path = self.known(|_, node| node != Node::Directory).unwrap_or_else(|| self.anything());
                self.model.remove(&path);
                self.one_path(who, &["unlink", "unlinkat"], &path)
            }
            Kind::RemoveDirectory => {
                let known = self.trusted(40).or_else(|| self.known(|_, node| node == Node::Directory));
                let path = known.unwrap_or_else(|| self.anything());
                if self.model.paths(|known, _| parent(known) == path).is_empty() {
                    self.model.remove(&path);
                }
                self.one_path(who, &["rmdir", "removedir"], &path)
            }
            Kind::Truncate => {
                let path = self.known_file();
                self.one_path(who, &["truncate"], &path)
            }
            Kind::Descriptor => {
                let none = self.players[who].kept.iter().all(Option::is_none);
                if none || self.random.chance(35) { self.keep(who) } else { self.kept(who) }
            }
            Kind::Enter => self.enter(who),
        }
    }

    fn one_path(&mut self, who: usize, calls: &[&str], path: &str) -> String {
        format!("{} {}", self.random.pick(calls), self.spelled(who, path))
    }

    fn make_file(&mut self, who: usize) -> String {
        let path = if self.random.chance(15) {
            self.known_file()
        } else {
            self.fit(Self::new_file, Model::may_be_file)
        };
        let call = self.random.weighted(&[("open", 8), ("openat", 8), ("creat", 4), ("openat2", 1)]);
        self.model.make(&path, Node::File);
        let flags =
            self.random.weighted(&[("wc", 5), ("wcx", 3), ("wct", 3), ("w", 1), ("wa", 1), ("+cn", 1)]);
        format!("{call} - {flags} {}", self.spelled(who, &path))
    }

    fn rename(&mut self, who: usize) -> String {
        let from = self.existing();
        // Often the same name in another place.
        let to = match from.rsplit('/').next() {
            Some(name) if self.random.chance(20) => name.to_owned(),
            Some(name) if self.random.chance(20) => join(&self.directory(), name),
            _ => self.fit(Self::anything, |model, to| {
                !is_below(to, &from) && (model.is_vacant(to) || model.of(to) == model.of(&from))
            }),
        };
        let call = self.random.weighted(&[
            ("rename", 6),
            ("renameat", 3),
            ("noreplace", 2),
            ("exchange", 4),
            ("whiteout", 1),
        ]);
        if call == "exchange" {
            self.model.exchange(&from, &to);
        } else {
            self.model.rename(&from, &to);
        }
        format!("{call} {} {}", self.spelled(who, &from), self.spelled(who, &to))
    }

    /// A descriptor that later calls use: of a directory, of a file to write to, of one without a name.
    fn keep(&mut self, who: usize) -> String {
        let slot = self.random.below(4);
        let (flags, path) = match self.random.below(5) {
            0 | 1 => (self.random.pick(&["rd", "od", "r"]), self.existing()),
            2 => {
                let directory = self.directory();
                ("wp", if directory.is_empty() { ".".to_owned() } else { directory })
            }
            3 => ("w", self.known_file()),
            _ => (self.random.pick(&["wc", "+cx"]), self.vacant_file()),
        };
        if flags.contains('c') {
            self.model.make(&path, Node::File);
        }
        let text = format!("openat {slot} {flags} {}", self.spelled(who, &path));
        self.players[who].kept[slot] = Some(path);
        text
    }

    /// A call by a kept descriptor.
    fn kept(&mut self, who: usize) -> String {
        let slots: Vec<usize> = (0..4).filter(|slot| self.players[who].kept[*slot].is_some()).collect();
        let slot = self.random.pick(&slots);
        match self.random.below(8) {
            0..=3 => format!("write {slot}"),
            4 => format!("ftruncate {slot}"),
            way => {
                let to = self.vacant_file();
                self.model.make(&to, Node::File);
                let to = self.spelled(who, &to);
                if way == 5 { format!("linkfd {slot} {to}") } else { format!("linkfollow #{slot} {to}") }
            }
        }
    }

    fn enter(&mut self, who: usize) -> String {
        let kept = self.players[who].kept.iter().position(Option::is_some);
        if let Some(slot) = kept.filter(|_| self.random.chance(50)) {
            let directory = self.players[who].kept[slot].clone().unwrap_or_default();
            self.players[who].directory = if directory == "." { String::new() } else { directory };
            return format!("fchdir {slot}");
        }
        let path = self.directory();
        let said = if path.is_empty() { "@".to_owned() } else { self.spelled(who, &path) };
        self.players[who].directory = path;
        format!("chdir {said}")
    }

    /// A link: to another of the names, as it is seen from where the link lies.
    fn symlink(&mut self, who: usize) -> String {
        let path = self.fit(Self::anything, Model::is_vacant);
        let target = match self.random.below(10) {
            0..=5 => self.existing(),
            6 => self.new_file(),
            7 => self.new_directory(),
            _ => self.random.pick(&self.plain).to_owned(),
        };
        self.model.make(&path, Node::Link);
        let depth = path.matches('/').count();
        let target = match self.random.below(6) {
            0 => format!("@/{target}"),
            1 if depth > 0 => "..".to_owned(),
            2 => target,
            _ => format!("{}{target}", "../".repeat(depth)),
        };
        let call = self.random.pick(&["symlink", "symlinkat"]);
        format!("{call} {target} {}", self.spelled(who, &path))
    }
}
