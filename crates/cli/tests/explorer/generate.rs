// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random sequences. Each has a few names and a few kinds of calls of its own, so that the same names meet often.
//!
//! Nothing here knows an attack: a call's kind, its paths and their spelling are drawn one by one.

use super::random::Random;
use super::sequence::{Actor, Sequence, Step};

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
    MakeNode,
    Symlink,
    Link,
    Rename,
    Remove,
    RemoveDirectory,
    Truncate,
    Descriptor,
    Enter,
}

/// How often each kind is drawn where a sequence has it.
const KINDS: &[(Kind, usize)] = &[
    (Kind::MakeDirectory, 12),
    (Kind::MakeFile, 14),
    (Kind::Rename, 16),
    (Kind::Symlink, 7),
    (Kind::Link, 3),
    (Kind::MakeNode, 1),
    (Kind::Remove, 2),
    (Kind::RemoveDirectory, 2),
    (Kind::Truncate, 1),
    (Kind::Descriptor, 7),
    (Kind::Enter, 2),
];
/// Kinds that every sequence has.
const ALWAYS: usize = 3;

/// What one sandbox's player has: the directories of its descriptors and its own, as far as that is known.
#[derive(Default)]
struct Player {
    directory: String,
    kept: [Option<String>; 4],
}

struct Generator {
    random: Random,
    plain: Vec<&'static str>,
    obeyed: Vec<(&'static str, &'static str)>,
    kinds: Vec<(Kind, usize)>,
    /// Percent of paths that are spelled in an odd way.
    odd: usize,
    /// Paths of earlier calls and of the host's tree.
    used: Vec<String>,
    /// Those of directories among them, as far as that is known.
    directories: Vec<String>,
    /// And those of files.
    files: Vec<String>,
    players: [Player; 2],
}

/// Sequence `number` of `seed`.
pub(super) fn sequence(seed: u64, number: u64) -> Sequence {
    let mut random = Random::new(seed, number);
    let draw = |random: &mut Random, count: usize| (0..count).map(|_| random.pick(PLAIN)).collect();
    let count = 2 + random.below(2);
    let plain = draw(&mut random, count);
    let obeyed = (0..=random.below(2)).map(|_| random.pick(OBEYED)).collect();
    let kinds =
        KINDS.iter().enumerate().filter(|(at, _)| *at < ALWAYS || random.chance(45)).map(|(_, kind)| *kind);
    let kinds = kinds.collect();
    let odd = random.pick(&[0, 10, 40]);
    let mut generator = Generator {
        random,
        plain,
        obeyed,
        kinds,
        odd,
        used: Vec::new(),
        directories: Vec::new(),
        files: Vec::new(),
        players: Default::default(),
    };
    let tree = generator.tree();
    let steps = generator.steps();
    Sequence { tree, steps }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Generator {
    /// The host's tree: a repository, and some of the names.
    fn tree(&mut self) -> Vec<String> {
        let mut tree: Vec<String> =
            [".git/", ".git/HEAD", ".git/config", ".git/objects/", ".git/refs/", ".git/info/", ".git/hooks/"]
                .map(str::to_owned)
                .into();
        if self.random.chance(70) {
            tree.push(".git/hooks/pre-commit".to_owned());
        }
        let mut add = |path: String| {
            for (at, _) in path.match_indices('/') {
                let directory = &path[..=at];
                if !tree.iter().any(|known| known == directory) {
                    tree.push(directory.to_owned());
                }
            }
            if !path.ends_with('/') && !tree.contains(&path) {
                tree.push(path);
            }
        };
        for name in ["src", "a"] {
            if self.plain.contains(&name) && self.random.chance(70) {
                add(format!("{name}/"));
                self.used.push(name.to_owned());
                self.directories.push(name.to_owned());
                if self.random.chance(40) {
                    let inner = self.random.pick(&self.plain);
                    add(format!("{name}/{inner}/"));
                }
            }
        }
        for (directory, name) in self.obeyed.clone() {
            if self.random.chance(25) {
                let above = if self.random.chance(50) { "" } else { "src" };
                add(join(above, &join(directory, name)));
                self.used.push(join(above, directory));
                self.files.push(join(above, &join(directory, name)));
            }
        }
        tree
    }

    fn steps(&mut self) -> Vec<Step> {
        let launches = self.random.weighted(&[(1, 5), (2, 4), (3, 1)]);
        let both = self.random.chance(25);
        let hosts = if self.random.chance(30) { 12 } else { 0 };
        let mut steps = Vec::new();
        for launch in 0..launches {
            self.players = Default::default();
            if launch > 0 && hosts > 0 && self.random.chance(50) {
                let call = self.host_rename();
                steps.push(Step { launch, actor: Actor::Before, call });
            }
            let count = (8 + self.random.below(10)) / launches.min(2);
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
        let [from, to, above] = [(); 3].map(|()| self.random.pick(PLAIN));
        let from = if self.random.chance(20) { join(above, from) } else { from.to_owned() };
        let to = if self.random.chance(20) { join(above, to) } else { to.to_owned() };
        format!("rename {from} {to}")
    }

    /// A directory in which something may be made; empty for the ground itself.
    fn directory(&mut self) -> String {
        let plain = self.random.pick(&self.plain).to_owned();
        match self.random.below(20) {
            0..=8 => String::new(),
            9..=15 => plain,
            16 => join(&plain, self.random.pick(&self.plain)),
            17 => join(&plain, self.random.pick(&self.obeyed).0),
            _ => self.random.pick(&self.obeyed).0.to_owned(),
        }
    }

    /// A directory that was made, or would have been.
    fn known_directory(&mut self) -> String {
        if self.directories.is_empty() || self.random.chance(15) {
            return self.directory();
        }
        let recent = self.random.chance(50);
        let at = self.random.below(if recent { 1 } else { self.directories.len() });
        self.directories[self.directories.len() - 1 - at].clone()
    }

    /// A path for a directory.
    fn new_directory(&mut self) -> String {
        let obeyed = self.random.pick(&self.obeyed).0;
        let plain = self.random.pick(&self.plain);
        match self.random.below(20) {
            0..=5 => plain.to_owned(),
            6..=8 => obeyed.to_owned(),
            9..=13 => join(&self.known_directory(), obeyed),
            14 => join(&self.known_directory(), plain),
            15 => join(&self.directory(), plain),
            16 => join(&self.directory(), obeyed),
            // `.git/hooks`: one of its parts.
            17 | 18 if obeyed.contains('/') => join(&self.known_directory(), parent(obeyed)),
            17 | 18 => obeyed.to_owned(),
            _ => join(&self.known_directory(), obeyed.rsplit('/').next().unwrap_or(obeyed)),
        }
    }

    /// A path for a file.
    fn new_file(&mut self) -> String {
        let (directory, leaf) = self.random.pick(&self.obeyed);
        let above = if self.random.chance(60) { self.known_directory() } else { self.directory() };
        match self.random.below(10) {
            0 => join(&above, self.random.pick(&self.plain)),
            _ if above.ends_with(directory) => join(&above, leaf),
            1..=4 => join(&above, leaf),
            _ => join(&above, &join(directory, leaf)),
        }
    }

    /// A file that was made, or would have been.
    fn known_file(&mut self) -> String {
        if self.files.is_empty() {
            return self.new_file();
        }
        let at = self.random.below(self.files.len());
        self.files[at].clone()
    }

    /// A path that there may be something at.
    fn existing(&mut self) -> String {
        if !self.used.is_empty() && self.random.chance(80) {
            let recent = self.random.chance(50);
            let at = self.random.below(if recent { self.used.len().min(3) } else { self.used.len() });
            return self.used[self.used.len() - 1 - at].clone();
        }
        if self.random.chance(60) { self.new_directory() } else { self.new_file() }
    }

    fn anything(&mut self) -> String {
        match self.random.below(10) {
            0..=3 => self.existing(),
            4..=7 => self.new_directory(),
            _ => self.new_file(),
        }
    }

    fn remember(&mut self, path: &str) {
        self.used.push(path.to_owned());
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
                let words: Vec<String> = call
                    .split(' ')
                    .map(|word| word.strip_prefix(&inside).unwrap_or(word).to_owned())
                    .collect();
                if words.join(" ") == call { call } else { format!("~{directory} {}", words.join(" ")) }
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
                let path = self.new_directory();
                self.remember(&path);
                self.directories.push(path.clone());
                let call = self.random.pick(&["mkdir", "mkdirat"]);
                format!("{call} {}", self.spelled(who, &path))
            }
            Kind::MakeFile => self.make_file(who),
            Kind::MakeNode => {
                let path = self.new_file();
                self.remember(&path);
                let call = self.random.pick(&["mknod", "mknodat"]);
                format!("{call} {}", self.spelled(who, &path))
            }
            Kind::Symlink => self.symlink(who),
            Kind::Link => {
                let from = if self.random.chance(30) { self.existing() } else { self.known_file() };
                let to = self.anything();
                self.remember(&to);
                let call = self.random.pick(&["link", "linkat", "linkfollow"]);
                format!("{call} {} {}", self.spelled(who, &from), self.spelled(who, &to))
            }
            Kind::Rename => {
                let from = self.existing();
                // Often the same name in another place.
                let to = match from.rsplit('/').next() {
                    Some(name) if self.random.chance(25) => join(&self.directory(), name),
                    _ => self.anything(),
                };
                self.remember(&to);
                if self.directories.contains(&from) {
                    self.directories.push(to.clone());
                }
                let call = self.random.weighted(&[
                    ("rename", 6),
                    ("renameat", 3),
                    ("noreplace", 2),
                    ("exchange", 4),
                    ("whiteout", 1),
                ]);
                format!("{call} {} {}", self.spelled(who, &from), self.spelled(who, &to))
            }
            Kind::Remove => {
                let path = self.existing();
                let call = self.random.pick(&["unlink", "unlinkat"]);
                format!("{call} {}", self.spelled(who, &path))
            }
            Kind::RemoveDirectory => {
                let path = self.existing();
                let call = self.random.pick(&["rmdir", "removedir"]);
                format!("{call} {}", self.spelled(who, &path))
            }
            Kind::Truncate => {
                let path = self.existing();
                format!("truncate {}", self.spelled(who, &path))
            }
            Kind::Descriptor => self.descriptor(who),
            Kind::Enter => self.enter(who),
        }
    }

    fn make_file(&mut self, who: usize) -> String {
        let path = if self.random.chance(15) { self.existing() } else { self.new_file() };
        self.remember(&path);
        self.files.push(path.clone());
        let call = self.random.weighted(&[("open", 4), ("openat", 4), ("creat", 2), ("openat2", 1)]);
        let flags =
            self.random.weighted(&[("wc", 5), ("wcx", 3), ("wct", 3), ("w", 1), ("wa", 1), ("+cn", 1)]);
        format!("{call} - {flags} {}", self.spelled(who, &path))
    }

    fn descriptor(&mut self, who: usize) -> String {
        let none = self.players[who].kept.iter().all(Option::is_none);
        if none || self.random.chance(35) { self.keep(who) } else { self.kept(who) }
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
            _ => (self.random.pick(&["wc", "+cx", "w"]), self.new_file()),
        };
        let text = format!("openat {slot} {flags} {}", self.spelled(who, &path));
        if flags.contains('c') {
            self.remember(&path);
            self.files.push(path.clone());
        }
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
                let to = self.new_file();
                self.remember(&to);
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
        let path = if self.random.chance(50) { self.directory() } else { self.existing() };
        let call =
            format!("chdir {}", if path.is_empty() { "@".to_owned() } else { self.spelled(who, &path) });
        self.players[who].directory = path;
        call
    }

    /// A link: to another of the names, as it is seen from where the link lies.
    fn symlink(&mut self, who: usize) -> String {
        let path = self.anything();
        let target = match self.random.below(10) {
            0 | 1 => self.existing(),
            2 => self.new_file(),
            3 => self.new_directory(),
            _ => self.random.pick(&self.plain).to_owned(),
        };
        let depth = path.matches('/').count();
        let target = match self.random.below(6) {
            0 => format!("@/{target}"),
            1 | 2 if depth > 0 => format!("{}{target}", "../".repeat(depth)),
            3 if depth > 0 => "..".to_owned(),
            _ => target,
        };
        self.remember(&path);
        let call = self.random.pick(&["symlink", "symlinkat"]);
        format!("{call} {target} {}", self.spelled(who, &path))
    }

    /// One of the ways in which a player can say a path.
    fn spelled(&mut self, who: usize, path: &str) -> String {
        let odd = self.random.chance(self.odd);
        let player = &self.players[who];
        if odd && self.random.chance(40) {
            for (slot, kept) in player.kept.iter().enumerate() {
                let rest = kept.as_ref().and_then(|kept| path.strip_prefix(kept.as_str())?.strip_prefix('/'));
                if let Some(rest) = rest {
                    return if self.random.chance(50) {
                        format!("{slot}:{rest}")
                    } else {
                        format!("#{slot}/{rest}")
                    };
                }
            }
        }
        let path = if odd { self.noisy(path) } else { path.to_owned() };
        let directory = &self.players[who].directory;
        if directory.is_empty() {
            return if odd && self.random.chance(25) { format!("@/{path}") } else { path };
        }
        if let Some(rest) = path.strip_prefix(directory.as_str()).and_then(|rest| rest.strip_prefix('/')) {
            return rest.to_owned();
        }
        if self.random.chance(50) {
            return format!("@/{path}");
        }
        format!("{}{path}", "../".repeat(directory.split('/').count()))
    }

    /// The same path with a part that changes nothing, or with a letter of another case.
    fn noisy(&mut self, path: &str) -> String {
        let plain = self.random.pick(&self.plain);
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        let at = self.random.below(parts.len());
        match self.random.below(6) {
            0 => parts.insert(at, ".".to_owned()),
            1 => parts.insert(at, format!("{plain}/..")),
            2 if at > 0 => parts.insert(at, String::new()),
            3 => parts[at] = parts[at].to_uppercase(),
            4 => parts.push(String::new()),
            5 => parts.push(".".to_owned()),
            _ => {}
        }
        parts.join("/")
    }
}
