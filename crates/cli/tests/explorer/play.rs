// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays sequences: several in one launch, each in its own tree with its own repository.

use super::oracle::{Broken, Invariant, inspect};
use super::player::Player;
use super::sequence::{Actor, Sequence};
use super::tree::Tree;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where and how sequences are played.
pub(super) struct Ground<'g> {
    /// The directory that a launch may write to, empty.
    pub(super) directory: &'g Path,
    /// Where trees go that have been looked at.
    pub(super) played: &'g PlayedTrees,
    /// The owner of what the host makes.
    pub(super) owner: (u32, u32),
    /// What starts a player, its working directory apart.
    pub(super) player: &'g dyn Fn() -> Command,
}

/// The outcome of one sequence.
#[derive(Default)]
pub(super) struct Outcome {
    /// Of each step: 0 or errno.
    pub(super) results: Vec<i32>,
    /// After whichever launch.
    pub(super) broken: BTreeSet<Broken>,
}

/// A directory outside of what launches may write to, with the trees that have been played. They are removed seldom: for
/// a minute after that ext4 passes over their inodes one by one whenever it makes a file.
pub(crate) struct PlayedTrees {
    directory: PathBuf,
    count: Cell<usize>,
}

impl PlayedTrees {
    /// More sequences than `./x test` plays.
    const KEPT: usize = 20_000;

    pub(crate) fn new(directory: PathBuf) -> Self {
        let played = Self { directory, count: Cell::new(0) };
        played.clear();
        played
    }

    fn clear(&self) {
        let _absent_at_first = std::fs::remove_dir_all(&self.directory);
        std::fs::create_dir(&self.directory).unwrap();
        self.count.set(0);
    }

    pub(crate) fn take(&self, tree: &Path) {
        if self.count.get() >= Self::KEPT {
            self.clear();
        }
        let to = self.directory.join(self.count.get().to_string());
        std::fs::rename(tree, to).unwrap_or_else(|error| panic!("{}: {error}", tree.display()));
        self.count.set(self.count.get() + 1);
    }
}

/// A sequence that is being played.
struct Running<'s> {
    sequence: &'s Sequence,
    tree: Tree,
    outcome: Outcome,
}

impl Running<'_> {
    /// Its steps of one launch, in which `players` make the calls.
    fn launch(&mut self, launch: usize, players: &mut [Option<Player>; 2]) {
        let steps = &self.sequence.steps;
        let ground = self.tree.ground.display().to_string();
        let mut begun = [false; 2];
        let mut at = 0;
        while at < steps.len() {
            let actor = steps[at].actor;
            // Calls that follow each other go together.
            let end = steps[at..]
                .iter()
                .position(|step| step.actor != actor || step.launch != steps[at].launch)
                .map_or(steps.len(), |count| at + count);
            if steps[at].launch == launch {
                let who = match actor {
                    Actor::Before => None,
                    Actor::Host => {
                        for step in &steps[at..end] {
                            self.outcome.results.push(rename(&mut self.tree, &step.call));
                        }
                        None
                    }
                    Actor::First => Some(0),
                    Actor::Second => Some(1),
                };
                if let Some(who) = who {
                    let mut calls = String::new();
                    if !std::mem::replace(&mut begun[who], true) {
                        writeln!(calls, "begin {ground}").unwrap();
                    }
                    for step in &steps[at..end] {
                        writeln!(calls, "{}", step.call.replace('@', &ground)).unwrap();
                    }
                    let player = players[who].as_mut().unwrap();
                    self.outcome.results.extend(player.play(&calls).unwrap());
                }
            }
            at = end;
        }
    }

    /// What the host does before a launch begins.
    fn before(&mut self, launch: usize) {
        for step in &self.sequence.steps {
            if step.launch == launch && step.actor == Actor::Before {
                self.outcome.results.push(rename(&mut self.tree, &step.call));
            }
        }
    }
}

fn rename(tree: &mut Tree, call: &str) -> i32 {
    let mut words = call.split(' ').skip(1);
    let (from, to) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    tree.rename(from, to)
}

/// Plays all of them, as many launches as they need together.
pub(super) fn play(ground: &Ground<'_>, sequences: &[Sequence]) -> Vec<Outcome> {
    let make = |(number, sequence): (usize, &'_ Sequence)| {
        let top = ground.directory.join(format!("{number:04}"));
        Tree::make(top.clone(), &sequence.tree, ground.owner)
            .unwrap_or_else(|error| panic!("{}: {error}", top.display()))
    };
    let mut running: Vec<Running<'_>> = sequences
        .iter()
        .enumerate()
        .map(|all| Running { sequence: all.1, tree: make(all), outcome: Outcome::default() })
        .collect();
    let launches = sequences.iter().map(Sequence::launches).max().unwrap_or(0);
    for launch in 0..launches {
        let taking_part = |one: &&mut Running<'_>| one.sequence.launches() > launch;
        for one in running.iter_mut().filter(taking_part) {
            one.before(launch);
        }
        let wanted = |actor| {
            let mut steps = sequences.iter().flat_map(|sequence| &sequence.steps);
            steps.any(|step| step.launch == launch && step.actor == actor)
        };
        let start =
            |actor| wanted(actor).then(|| Player::start((ground.player)().current_dir(ground.directory)));
        let mut players = [start(Actor::First), start(Actor::Second)];
        for one in running.iter_mut().filter(taking_part) {
            one.launch(launch, &mut players);
        }
        players.into_iter().flatten().for_each(Player::end);
        for one in running.iter_mut().filter(taking_part) {
            one.outcome.broken.extend(inspect(&one.tree));
        }
    }
    running.iter().for_each(|one| ground.played.take(&one.tree.top));
    if remove_strays(ground.directory) {
        // A path with a link and `..` led out of one of the trees, so files may have moved there: don't report a loss.
        for one in &mut running {
            one.outcome.broken.retain(|broken| broken.invariant != Invariant::Loss);
        }
    }
    running.into_iter().map(|one| one.outcome).collect()
}

/// Removes whatever lies beside the trees, but for the player. Whether there was anything.
fn remove_strays(directory: &Path) -> bool {
    let mut any = false;
    for entry in std::fs::read_dir(directory).unwrap().flatten().filter(|entry| entry.file_name() != "player")
    {
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        let removed = if is_directory { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        any = true;
    }
    any
}
