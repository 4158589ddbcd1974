// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The explorer: random sequences of calls that write names, by one or two sandboxes in one to three launches, with
//! the host's renames in between. An oracle that knows nothing of Palisade's rules looks at the host's tree after each
//! launch (`oracle.rs` has the invariants). The generator knows no attack.
//!
//! By hand, against any binary, until each invariant has been broken once under each seed:
//!
//! ```text
//! PALISADE_BIN=… PALISADE_EXPLORER_SEEDS='31 32' PALISADE_EXPLORER_EVERY=1 PALISADE_EXPLORER_SEQUENCES=20000 \
//!     cargo test -p palisade-cli --test integration -- explorer::ten_thousand --include-ignored --nocapture
//! ```
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod generate;
mod minimise;
mod model;
mod oracle;
pub(crate) mod play;
pub(crate) mod player;
pub(crate) mod random;
mod sequence;
mod spell;
mod tree;

use crate::support::{Place, each_plays, everybody, has, say};
use oracle::{INVARIANTS, Invariant};
use play::{Ground, Outcome, PlayedTrees};
use sequence::{Played, Sequence};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// For all people and seeds together, without `PALISADE_EXPLORER_SEQUENCES`.
const SEQUENCES: u64 = 10_000;
/// What is always played; a random one is added.
const SEEDS: [u64; 6] = [31, 32, 33, 51, 52, 53];
/// Sequences that share their launches.
const BATCH: u64 = 500;

/// What is played, from the environment.
struct Settings {
    /// `PALISADE_EXPLORER_SEQUENCES`
    sequences: u64,
    /// `PALISADE_EXPLORER_SEEDS`, with spaces between them.
    seeds: Vec<u64>,
    /// `PALISADE_EXPLORER_EVERY`: goes on after the first finding, until each invariant is broken.
    every: bool,
    /// `PALISADE_EXPLORER_AS`: `root` or `user` alone.
    person: Option<String>,
}

impl Settings {
    fn read() -> Self {
        let variable = |name: &str| std::env::var(format!("PALISADE_EXPLORER_{name}")).ok();
        let random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        Self {
            sequences: variable("SEQUENCES").map_or(SEQUENCES, |number| number.parse().unwrap()),
            seeds: variable("SEEDS").map_or_else(
                || [&SEEDS[..], &[1000 + u64::from(random)]].concat(),
                |seeds| seeds.split_whitespace().map(|seed| seed.parse().unwrap()).collect(),
            ),
            every: variable("EVERY").is_some(),
            person: variable("AS"),
        }
    }
}

/// A sequence that broke an invariant.
struct Found {
    number: u64,
    sequence: Sequence,
    outcome: Outcome,
}

/// The results of some sequences of one seed.
#[derive(Default)]
struct Report {
    played: u64,
    seconds: f64,
    /// Of each invariant the first sequence that broke it.
    found: BTreeMap<Invariant, Found>,
}

/// A person's place with the player in it.
struct Arena<'p> {
    place: &'p Place,
    sandbox: bool,
    played: PlayedTrees,
}

impl Arena<'_> {
    fn new(place: &Place, sandbox: bool) -> Arena<'_> {
        place.write("work/player.c", include_str!("explorer/player.c"));
        place.outside("cd ~/work && cc -O2 -pthread -o player player.c && rm player.c");
        Arena { place, sandbox, played: PlayedTrees::new(place.home.join("played")) }
    }

    fn player(&self) -> Command {
        if self.sandbox {
            self.place.palisade(&["--quiet"], &["./player"])
        } else {
            self.place.command(self.place.work.join("player"))
        }
    }

    fn person(&self) -> &'static str {
        if self.place.is_root() { "root" } else { "user" }
    }

    fn with_ground<T>(&self, use_it: impl FnOnce(&Ground<'_>) -> T) -> T {
        let player = || self.player();
        let owner = (self.place.uid, self.place.gid);
        use_it(&Ground { directory: &self.place.work, played: &self.played, owner, player: &player })
    }

    /// Plays sequences of a seed from `first` on; ends early when `is_enough`.
    fn explore(
        &self,
        seed: u64,
        first: u64,
        count: u64,
        is_enough: impl Fn(&BTreeMap<Invariant, Found>) -> bool,
    ) -> Report {
        let (mut report, begun) = (Report::default(), Instant::now());
        while report.played < count && !is_enough(&report.found) {
            let numbers = first + report.played..first + count.min(report.played + BATCH);
            let sequences: Vec<Sequence> =
                numbers.clone().map(|number| generate::sequence(seed, number)).collect();
            report.played += numbers.end - numbers.start;
            let outcomes = self.with_ground(|ground| play::play(ground, &sequences));
            for ((number, sequence), outcome) in numbers.zip(sequences).zip(outcomes) {
                for invariant in INVARIANTS {
                    if outcome.broken.iter().any(|broken| broken.invariant == invariant) {
                        report.found.entry(invariant).or_insert_with(|| Found {
                            number,
                            sequence: sequence.clone(),
                            outcome: Outcome {
                                results: outcome.results.clone(),
                                broken: outcome.broken.clone(),
                            },
                        });
                    }
                }
            }
        }
        report.seconds = begun.elapsed().as_secs_f64();
        report
    }

    /// A finding for people, as short as it can be made.
    fn describe(&self, seed: u64, invariant: Invariant, found: &Found) -> String {
        let shortest = self.with_ground(|ground| minimise::minimise(ground, &found.sequence, invariant));
        let (how, (sequence, outcome)) = match &shortest {
            Some((sequence, outcome)) => ("shortened", (sequence, outcome)),
            None => {
                ("it breaks nothing when it is played alone; as it was", (&found.sequence, &found.outcome))
            }
        };
        let mut text = format!("{invariant}: seed {seed}, sequence {}, as {}\n", found.number, self.person());
        for broken in outcome.broken.iter().filter(|broken| broken.invariant == invariant) {
            writeln!(text, "  on the host: {}", broken.detail).unwrap();
        }
        let played = Played { sequence, results: &outcome.results };
        writeln!(text, "  {how}:\n{played}").unwrap();
        text
    }
}

/// All that one person plays; gives what was found.
fn play_as(place: &Place, settings: &Settings, share: (u64, u64)) -> Vec<String> {
    let arena = Arena::new(place, true);
    let mut failures = Vec::new();
    let seeds = u64::try_from(settings.seeds.len()).unwrap();
    for seed in &settings.seeds {
        let count = settings.sequences.div_ceil(seeds * share.1);
        let enough = |found: &BTreeMap<Invariant, Found>| {
            found.len() == INVARIANTS.len() || !settings.every && !found.is_empty()
        };
        let report = arena.explore(*seed, count * share.0, count, enough);
        let Report { played, seconds, found } = &report;
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let speed = *played as f64 / seconds;
        say(&format!("explorer: {}: seed {seed}: {played} sequences, {speed:.0} a second\n", arena.person()));
        for (invariant, found) in found {
            say(&format!("explorer: seed {seed}: {invariant}: sequence {}\n", found.number));
            failures.push(arena.describe(*seed, *invariant, found));
        }
        if !failures.is_empty() && !settings.every {
            break;
        }
    }
    failures
}

#[test]
fn ten_thousand_sequences_break_no_invariant() {
    let settings = Settings::read();
    let wanted =
        |place: &Place| settings.person.as_ref().is_none_or(|person| (person == "root") == place.is_root());
    let people: Vec<Place> = everybody().into_iter().filter(|place| has("gcc") && wanted(place)).collect();
    each_plays(&people, |place, share| play_as(place, &settings, share));
}

/// What a call is named, whichever thread makes it.
fn name(call: &str) -> &str {
    let own = call.trim_start_matches(['|', '+']);
    let own = if own.starts_with('~') { own.split_once(' ').map_or("", |(_, rest)| rest) } else { own };
    own.split(' ').next().unwrap_or_default()
}

/// Every kind of call must work in some sequence; otherwise the sequences don't test it.
#[test]
fn every_call_succeeds_outside_and_inside() {
    for (place, sandbox) in everybody().iter().flat_map(|place| [(place, false), (place, true)]) {
        if !has("gcc") {
            continue;
        }
        let arena = Arena::new(place, sandbox);
        let sequences: Vec<Sequence> =
            (0..2 * BATCH).map(|number| generate::sequence(SEEDS[0], number)).collect();
        let outcomes = arena.with_ground(|ground| play::play(ground, &sequences));
        let mut works: BTreeMap<&str, bool> = BTreeMap::new();
        for (sequence, outcome) in sequences.iter().zip(&outcomes) {
            assert_eq!(sequence.steps.len(), outcome.results.len());
            for (step, result) in sequence.steps.iter().zip(&outcome.results) {
                // What happens beside another call ends later.
                if !step.call.starts_with('+') {
                    *works.entry(name(&step.call)).or_default() |= *result == 0;
                }
            }
        }
        // A sandbox reports openat2 as missing. A whiteout is a device, and a link made from a descriptor alone needs the
        // right to read every file.
        let refused = |name: &str| match name {
            "openat2" => sandbox,
            "whiteout" | "linkfd" => sandbox || !place.is_root(),
            _ => false,
        };
        let never: Vec<_> = works.iter().filter(|(name, works)| !**works && !refused(name)).collect();
        assert!(works.len() > 25, "{works:?}");
        assert!(never.is_empty(), "{}: inside: {sandbox}: {never:?}", arena.person());
    }
}

/// The control: the same sequences, without a sandbox, played by the same program and judged by the same oracle.
#[test]
fn without_a_sandbox_every_invariant_breaks() {
    for place in everybody().iter().filter(|_| has("gcc")) {
        let arena = Arena::new(place, false);
        let report = arena.explore(SEEDS[0], 0, SEQUENCES, |found| found.len() == INVARIANTS.len());
        let unbroken: Vec<Invariant> =
            INVARIANTS.into_iter().filter(|invariant| !report.found.contains_key(invariant)).collect();
        assert!(unbroken.is_empty(), "{unbroken:?} in {} sequences", report.played);
    }
}
