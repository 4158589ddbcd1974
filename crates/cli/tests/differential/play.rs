// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays scripts natively and then inside, in trees at the same paths.

use super::ground::{ground, look, make};
use super::script::{Outcome, Pair, Script};
use crate::explorer::play::PlayedTrees;
use crate::explorer::player::Player;
use crate::support::Place;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Seconds in which a script must have ended, on whatever machine.
const LIMIT: i64 = 60;

/// What the calls are made behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wall {
    /// The default: names are protected by the broker.
    Broker,
    Mounts,
    /// The broker, with unix datagram sockets, and a filter of the calls that were learned before.
    Enforced,
    Interposed,
}

impl Wall {
    pub(super) const ALL: [Self; 4] = [Self::Broker, Self::Mounts, Self::Enforced, Self::Interposed];

    /// As `known.list` has it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Mounts => "mounts",
            Self::Enforced => "enforced",
            Self::Interposed => "interposed",
        }
    }
}

/// A person's place with the caller in it.
pub(super) struct Arena<'p> {
    pub(super) place: &'p Place,
    pub(super) wall: Wall,
    played: PlayedTrees,
}

impl<'p> Arena<'p> {
    pub(super) fn new(place: &'p Place, wall: Wall) -> Self {
        place.write("work/caller.c", include_str!("caller.c"));
        place.outside("cd ~/work && cc -O2 -o caller caller.c && rm caller.c");
        Self { place, wall, played: PlayedTrees::new(place.home.join("played")) }
    }

    /// Without a sandbox; `command` is completed to start the caller so.
    fn without_sandbox(&self, mut command: Command) -> Command {
        if self.place.is_root() {
            command.arg(&self.place.work);
        }
        command
    }

    fn native(&self) -> Command {
        self.without_sandbox(self.place.command(self.place.work.join("caller")))
    }

    fn inside(&self) -> Command {
        let run = |options: &[&str]| self.place.palisade(&[&["--quiet"], options].concat(), &["./caller"]);
        match self.wall {
            Wall::Broker => run(&[]),
            Wall::Mounts => run(&["--protect", "mounts"]),
            Wall::Enforced => run(&["--allow-datagrams", "--syscalls", "enforce"]),
            Wall::Interposed => {
                let mut command = self.place.command(self.place.binary());
                command.args(["interpose", "--output", "/dev/null", "--", "./caller"]);
                self.without_sandbox(command)
            }
        }
    }

    /// Has every call of these scripts learned, before `--syscalls enforce`.
    pub(super) fn learn(&self, scripts: &[Script]) {
        let mut player =
            Player::start(&mut self.place.palisade(&["--quiet", "--syscalls", "learn"], &["./caller"]));
        for (number, script) in scripts.iter().enumerate() {
            self.make(number, script);
            let answer = player.answer(&self.request(number, script), LIMIT);
            assert!(answer.is_ok_and(|line| line.ends_with('\n')), "the caller has died: {script:?}");
        }
        player.end();
        (0..scripts.len()).for_each(|number| _ = self.take(number));
    }

    fn top(&self, number: usize) -> PathBuf {
        self.place.work.join(format!("{number:04}"))
    }

    fn make(&self, number: usize, script: &Script) {
        let top = self.top(number);
        make(&top, &script.tree, (self.place.uid, self.place.gid))
            .unwrap_or_else(|error| panic!("{}: {error}: {:?}", top.display(), script.tree));
    }

    /// What lies there at the end; it is away then.
    fn take(&self, number: usize) -> Vec<String> {
        let tree = look(&self.top(number));
        self.played.take(&self.top(number));
        tree
    }

    fn request(&self, number: usize, script: &Script) -> String {
        let mut request = format!("begin {}\n", ground(&self.top(number)).display());
        for call in &script.calls {
            writeln!(request, "{call}").unwrap();
        }
        request.push_str("sync\n");
        request
    }

    /// One side of all of them.
    fn side(&self, scripts: &[Script], command: &dyn Fn() -> Command) -> Vec<Outcome> {
        for (number, script) in scripts.iter().enumerate() {
            self.make(number, script);
        }
        let mut player: Option<Player> = None;
        let mut outcomes = Vec::new();
        for (number, script) in scripts.iter().enumerate() {
            let one = player.get_or_insert_with(|| Player::start(&mut command()));
            let answer = one.answer(&self.request(number, script), LIMIT);
            // An incomplete line, written when it died, isn't a result.
            let ended = answer.as_ref().is_ok_and(|line| line.ends_with('\n'));
            if !ended && let Some(lost) = player.take() {
                lost.kill();
            }
            let (Ok(line) | Err(line)) = answer;
            let end = if ended { line.len() } else { line.rfind(' ').unwrap_or(0) };
            let words = line[..end].split_whitespace().map(str::to_owned).collect();
            outcomes.push(Outcome { words, tree: Vec::new() });
        }
        player.into_iter().for_each(Player::end);
        for (number, outcome) in outcomes.iter_mut().enumerate() {
            outcome.tree = self.take(number);
        }
        outcomes
    }

    /// Both sides of all of them.
    pub(super) fn play(&self, scripts: &[Script]) -> Vec<Pair> {
        let native = self.side(scripts, &|| self.native());
        let inside = self.side(scripts, &|| self.inside());
        native.into_iter().zip(inside).map(|(native, inside)| Pair { native, inside }).collect()
    }

    /// The user that plays, and the wall.
    pub(super) fn how(&self) -> String {
        format!("as {}, {}", if self.place.is_root() { "root" } else { "user" }, self.wall.name())
    }
}
