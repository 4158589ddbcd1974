// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random argument lists. Nothing of the host outside of the ground can be changed by one, not by root's either: only the
//! ground and harmless devices are ever shown so that they can be written to.

use super::list::{List, Pass, Unit};
use super::pools::{
    ABSENT, CAPABILITIES, DIRECTORIES, HOST, INSIDE, LINKS, MODES, NAMES, ON_HOST, OWN, VALUES, Word,
};
use crate::explorer::random::Random;

/// What a list begins with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The host's tree, read-only.
    Host,
    /// `/usr` and links to it.
    Usr,
    /// Nothing but the program.
    Nothing,
    /// Not even that.
    Absent,
}

struct Generator {
    random: Random,
    base: Base,
    list: List,
    next: u32,
}

/// What shows each accepted difference (`known.list`): they come first, whatever the seed.
pub(super) fn first() -> Vec<List> {
    let show: &[&[u8]] = &[b"--ro-bind", b"@P", b"/probe"];
    let lists: [&[&[&[u8]]]; 4] = [
        &[show, &[b"--bind-data", b"20", b"/s/c"], &[b"--remount-ro", b"/s/c"]],
        &[show, &[b"--unshare-ipc"], &[b"--mqueue", b"/q"], &[b"--mqueue", b"/q/"]],
        &[show, &[b"--symlink", b"a", b"/l"], &[b"--symlink", b"b", b"/l"]],
        &[show, &[b"--overlay-src", b"@G/dir"], &[b"--args", b"21"]],
    ];
    let words = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect::<Vec<_>>();
    let list = |units: &[&[&[u8]]]| List {
        units: units.iter().map(|unit| Unit(words(unit))).collect(),
        passed: vec![
            Pass { number: 20, how: b'|', value: b"some content".to_vec() },
            Pass {
                number: 21,
                how: b'A',
                value: b"--overlay\0@G/upper\0@G/work\0/s\0--cap-add\0CAP_KILL\0".to_vec(),
            },
        ],
        command: words(&[b"/probe", b"look"]),
        looks: true,
    };
    lists.map(list).into()
}

/// List `number` of `seed`.
pub(super) fn list(seed: u64, number: u64) -> List {
    let mut random = Random::new(seed, number);
    let base = random.weighted(&[(Base::Host, 42), (Base::Usr, 38), (Base::Nothing, 17), (Base::Absent, 3)]);
    let mut generator = Generator { random, base, list: List::default(), next: 20 };
    generator.list.passed.push(Pass { number: 10, how: b'/', value: b"@G/dir".to_vec() });
    generator.list.passed.push(Pass { number: 11, how: b'<', value: b"@G/file".to_vec() });
    generator.base();
    for _ in 0..generator.random.pick(&[1, 1, 2, 2, 3, 3, 4, 5, 7, 10]) {
        generator.step();
    }
    for _ in 0..generator.random.pick(&[0, 0, 1, 1, 1, 2, 3, 5]) {
        generator.setting();
    }
    if generator.random.chance(8) {
        generator.arguments_by_descriptor();
    }
    generator.command();
    generator.list
}

impl Generator {
    fn add(&mut self, words: &[&[u8]]) {
        self.list.units.push(Unit(words.iter().map(|word| word.to_vec()).collect()));
    }

    /// Passes a descriptor; gives its number.
    fn pass(&mut self, how: u8, value: &[u8]) -> Vec<u8> {
        let number = self.next;
        self.next += 1;
        self.list.passed.push(Pass { number, how, value: value.to_vec() });
        number.to_string().into_bytes()
    }

    /// A descriptor to be read from; now and then none.
    fn content(&mut self, content: &[u8]) -> Vec<u8> {
        match self.random.below(60) {
            0 => b"99".to_vec(),
            1 => b"x".to_vec(),
            2 => b"10".to_vec(),
            3 => self.pass(b'<', b"@G/file"),
            _ => self.pass(b'|', content),
        }
    }

    fn dest(&mut self) -> Vec<u8> {
        let chance = self.random.below(100);
        // A new name, so that a step goes on.
        if chance < 35 {
            let top = if self.base == Base::Host {
                self.random.pick(&["@G", "@G/dir", "/tmp"])
            } else {
                self.random.pick(&["", "/s", "/u/v"])
            };
            let number = self.random.below(1000);
            return format!("{top}/n{number}").into_bytes();
        }
        // One from before.
        if chance < 50 {
            let earlier: Vec<&Unit> =
                self.list.units.iter().skip(3).filter(|unit| unit.0.len() > 1).collect();
            if !earlier.is_empty() {
                return earlier[self.random.below(earlier.len())].0.last().cloned().unwrap_or_default();
            }
        }
        let pool = if self.base == Base::Host { ON_HOST } else { INSIDE };
        self.random.weighted(pool).to_vec()
    }

    /// Permissions of the next thing that is made.
    fn modifiers(&mut self, may_have_size: bool) {
        if self.random.chance(35) {
            let mode = self.random.pick(MODES);
            self.add(&[b"--perms", mode]);
        }
        if may_have_size && self.random.chance(30) {
            let size = self.random.pick::<Word>(&[
                b"4096", b"1000000", b"1048576", b"8192", b"65537", b"99999", b"123456", b"0",
            ]);
            self.add(&[b"--size", size]);
        }
    }

    fn base(&mut self) {
        match self.base {
            Base::Host => {
                self.add(&[b"--ro-bind", b"/", b"/"]);
                for (chance, words) in [
                    (90, &[b"--tmpfs" as &[u8], b"/tmp"] as &[&[u8]]),
                    (90, &[b"--bind", b"@G", b"@G"]),
                    (50, &[b"--dev", b"/dev"]),
                    (50, &[b"--proc", b"/proc"]),
                ] {
                    if self.random.chance(chance) {
                        self.add(words);
                    }
                }
            }
            Base::Usr => {
                self.add(&[b"--ro-bind", b"/usr", b"/usr"]);
                for name in ["bin", "lib", "lib64", "sbin"] {
                    self.add(&[
                        b"--symlink",
                        format!("usr/{name}").as_bytes(),
                        format!("/{name}").as_bytes(),
                    ]);
                }
                self.add(&[b"--ro-bind", b"@P", b"/probe"]);
                if self.random.chance(40) {
                    self.add(&[b"--proc", b"/proc"]);
                }
                if self.random.chance(40) {
                    self.add(&[b"--dev", b"/dev"]);
                }
            }
            Base::Nothing => self.add(&[b"--ro-bind", b"@P", b"/probe"]),
            Base::Absent => {}
        }
    }

    fn bind(&mut self) {
        let dest = self.dest();
        let kinds: &[(&str, usize)] = &[
            ("--bind", 6),
            ("--ro-bind", 6),
            ("--dev-bind", 2),
            ("--bind-try", 2),
            ("--ro-bind-try", 2),
            ("--dev-bind-try", 1),
        ];
        let kind = self.random.weighted(kinds);
        let chance = self.random.below(100);
        let source = if chance < 6 {
            self.random.weighted(ABSENT)
        } else if chance < 35 && kind.starts_with("--ro") {
            self.random.weighted(HOST)
        } else {
            self.random.weighted(OWN)
        };
        // `known.list` says why not `--bind-try ''`.
        let source: Word = if kind == "--ro-bind" && self.random.chance(1) { b"" } else { source };
        self.add(&[kind.as_bytes(), source, &dest]);
    }

    fn step(&mut self) {
        let dest = self.dest();
        match self.random.below(100) {
            0..=34 => self.bind(),
            35..=46 => {
                self.modifiers(true);
                self.add(&[b"--tmpfs", &dest]);
            }
            47..=55 => {
                self.modifiers(false);
                self.add(&[b"--dir", &dest]);
            }
            56..=68 => {
                self.modifiers(false);
                let kind = self.random.pick::<Word>(&[b"--file", b"--bind-data", b"--ro-bind-data"]);
                let content = self.content(b"some content\n");
                self.add(&[kind, &content, &dest]);
            }
            69..=76 => {
                let target = self.random.weighted(LINKS);
                let link =
                    if self.random.chance(40) && self.base != Base::Host { b"/l".to_vec() } else { dest };
                self.add(&[b"--symlink", target, &link]);
            }
            77..=82 => {
                // A mount point, mostly.
                let mounted: Vec<Vec<u8>> = self
                    .list
                    .units
                    .iter()
                    .filter(|unit| unit.0[0].ends_with(b"bind") || unit.0[0] == b"--tmpfs")
                    .filter_map(|unit| unit.0.last().cloned())
                    .collect();
                let dest = if mounted.is_empty() || self.random.chance(15) {
                    dest
                } else {
                    mounted[self.random.below(mounted.len())].clone()
                };
                self.add(&[b"--remount-ro", &dest]);
            }
            83..=87 if !self.shows_nodes(&dest) => {
                let mode = self.random.pick(MODES);
                // Mostly of something that is there.
                let made: Vec<Vec<u8>> = self
                    .list
                    .units
                    .iter()
                    .filter(|unit| {
                        [b"--dir" as &[u8], b"--file", b"--tmpfs", b"--bind", b"--symlink"]
                            .contains(&&*unit.0[0])
                    })
                    .filter_map(|unit| unit.0.last().cloned())
                    .filter(|made| !made.starts_with(b"/dev"))
                    .collect();
                let dest = if made.is_empty() || self.random.chance(20) {
                    dest
                } else {
                    made[self.random.below(made.len())].clone()
                };
                self.add(&[b"--chmod", mode, &dest]);
            }
            // Nothing else is mounted or made there: queues would outlive the sandbox.
            83..=88 => {
                let dest = self.random.pick::<Word>(&[b"/q", b"/tmp/q", b"/tmp/q/r", b"/q/"]);
                self.add(&[b"--mqueue", dest]);
            }
            89 | 90 => self.add(&[b"--proc", &dest]),
            91 | 92 => self.add(&[b"--dev", &dest]),
            93 | 94 => {
                let kind = self.random.pick::<Word>(&[b"--bind-fd", b"--ro-bind-fd"]);
                let source = self.random.weighted(OWN);
                // Opening the others may fail.
                let is_plain = source.starts_with(b"@G/") && !source.starts_with(b"@G/locked");
                let descriptor = if is_plain { self.pass(b'/', source) } else { b"99".to_vec() };
                self.add(&[kind, &descriptor, &dest]);
            }
            _ => self.overlay(&dest),
        }
    }

    /// Whether a change of permissions might be one of the host's devices or kernel files.
    fn shows_nodes(&self, dest: &[u8]) -> bool {
        let shows = |unit: &Unit| match unit.0.as_slice() {
            [option, dest] => option == b"--proc" && dest != b"/proc",
            [_option, source, _dest] => source.starts_with(b"/dev"),
            _ => false,
        };
        dest.starts_with(b"/dev") || dest.starts_with(b"/proc") || self.list.units.iter().any(shows)
    }

    fn overlay(&mut self, dest: &[u8]) {
        for _ in 0..self.random.pick(&[0, 1, 2, 2, 2, 2, 2, 2]) {
            let source: Word = self.random.pick(&[
                b"@G/lower1" as Word,
                b"@G/lower2",
                b"@G/dir",
                b"@G/com,ma:co",
                b"@G/missing",
                b"/usr",
            ]);
            self.add(&[b"--overlay-src", source]);
        }
        match self.random.below(3) {
            0 => self.add(&[b"--overlay", b"@G/upper", b"@G/work", dest]),
            1 => self.add(&[b"--tmp-overlay", dest]),
            _ => self.add(&[b"--ro-overlay", dest]),
        }
    }

    fn setting(&mut self) {
        let number = self.random.weighted::<Word>(&[
            (b"0", 5),
            (b"1000", 5),
            (b"65534", 3),
            (b"1", 5),
            (b"x", 1),
            (b"-1", 1),
        ]);
        match self.random.below(33) {
            0 => self.add(&[b"--unshare-all"]),
            1 => {
                self.add(&[b"--unshare-all"]);
                self.add(&[b"--share-net"]);
            }
            2 => self.add(&[b"--unshare-user"]),
            3 => self.add(&[b"--unshare-user-try"]),
            4 => self.add(&[b"--unshare-ipc"]),
            5 | 6 => self.add(&[b"--unshare-pid"]),
            7 => self.add(&[b"--unshare-net"]),
            8 => {
                let other = self.random.pick::<Word>(&[b"--unshare-cgroup", b"--unshare-cgroup-try"]);
                self.add(&[other]);
            }
            9 | 10 => {
                if self.random.chance(80) {
                    self.add(&[b"--unshare-user"]);
                }
                let option = self.random.pick::<Word>(&[b"--uid", b"--gid"]);
                self.add(&[option, number]);
            }
            11 => {
                if self.random.chance(80) {
                    self.add(&[b"--unshare-uts"]);
                }
                self.add(&[b"--hostname", b"some-host"]);
            }
            12 | 13 => {
                let directory = self.random.pick(DIRECTORIES);
                self.add(&[b"--chdir", directory]);
            }
            14 | 15 => {
                let (name, value) = (self.random.pick(NAMES), self.random.pick(VALUES));
                let name: Word = if self.random.chance(4) { b"" } else { name };
                self.add(&[b"--setenv", name, value]);
            }
            16 => {
                let name = self.random.pick(NAMES);
                self.add(&[b"--unsetenv", name]);
            }
            17 => self.add(&[b"--clearenv"]),
            18..=20 => {
                let option = self.random.pick::<Word>(&[b"--cap-add", b"--cap-drop"]);
                let capability = self.random.pick(CAPABILITIES);
                self.add(&[option, capability]);
            }
            21 => self.add(&[b"--new-session"]),
            22 => {
                if self.random.chance(80) {
                    self.add(&[b"--unshare-pid"]);
                }
                self.add(&[b"--as-pid-1"]);
            }
            23 => self.add(&[b"--die-with-parent"]),
            24 => {
                let file = self.dest();
                let file = if self.random.chance(70) && self.base == Base::Host {
                    b"@G/file".to_vec()
                } else {
                    file
                };
                self.add(&[b"--lock-file", &file]);
            }
            25 => {
                let option = self.random.pick::<Word>(&[b"--sync-fd", b"--block-fd"]);
                let descriptor = self.content(b"x");
                self.add(&[option, &descriptor]);
            }
            26 => self.told(b"--info-fd", b"@C/info"),
            27 => self.told(b"--json-status-fd", b"@C/status"),
            28 => {
                let option =
                    self.random.pick::<Word>(&[b"--seccomp", b"--add-seccomp-fd", b"--add-seccomp-fd"]);
                let path = self.random.weighted::<Word>(&[
                    (b"@C/filter", 12),
                    (b"@C/half-filter", 1),
                    (b"@C/odd-filter", 1),
                ]);
                let filter = self.pass(b'<', path);
                self.add(&[option, &filter]);
            }
            29 => {
                self.add(&[b"--unshare-user"]);
                self.add(&[b"--disable-userns"]);
            }
            30 => {
                if self.random.chance(60) {
                    self.add(&[b"--unshare-user"]);
                    self.add(&[b"--disable-userns"]);
                }
                self.add(&[b"--assert-userns-disabled"]);
            }
            31 => {
                let name = self.random.pick::<Word>(&[b"other", b"", b"a b"]);
                self.add(&[b"--argv0", name]);
            }
            _ => {
                let option =
                    self.random.pick::<Word>(&[b"--level-prefix", b"--unshare-uts", b"--unshare-uts"]);
                self.add(&[option]);
            }
        }
    }

    fn told(&mut self, option: &[u8], file: &[u8]) {
        // One that can't be written to leaves bubblewrap's child waiting for ever.
        let descriptor = self.pass(b'>', file);
        self.add(&[option, &descriptor]);
    }

    /// Some of the last options come by a descriptor.
    fn arguments_by_descriptor(&mut self) {
        let at = self.list.units.len() - self.random.below(3).min(self.list.units.len());
        let mut data = Vec::new();
        for word in self.list.units.split_off(at).into_iter().flat_map(|unit| unit.0) {
            data.extend(word);
            data.push(0);
        }
        let file = self.pass(b'A', &data);
        self.add(&[b"--args", &file]);
    }

    fn command(&mut self) {
        let probe: Word = if self.base == Base::Host { b"@P" } else { b"/probe" };
        let command: &[&[u8]] = match self.random.below(60) {
            0 => &[probe, b"exit", b"7"],
            1 => &[probe, b"kill", b"15"],
            2 => &[b"missing"],
            3 => &[b"/"],
            4 => &[],
            5 => &[b"--", b"sh", b"-c", b"echo $0 $PWD; exit 3"],
            6 => &[b"@G/file"],
            _ => {
                self.list.looks = true;
                &[probe, b"look"]
            }
        };
        if self.random.chance(10) && !command.is_empty() && command[0] != b"--" {
            self.list.command.push(b"--".to_vec());
        }
        self.list.command.extend(command.iter().map(|word| word.to_vec()));
    }
}
