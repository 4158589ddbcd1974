// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The differential test: calls inside give the same results as native ones. One program plays random scripts of file,
//! descriptor, socket and signal calls natively and inside, in trees at the same paths, with the same rights. The test
//! compares each result and error, the signals, the memory that a call filled, the effect of each call on the tree, and the
//! tree at the end. `differential/known.list` has the differences that are allowed; the generator doesn't know them.
//!
//! By hand, against any binary, until each difference has been met once:
//!
//! ```text
//! PALISADE_BIN=… PALISADE_DIFFERENTIAL_SEEDS='1 2' PALISADE_DIFFERENTIAL_CALLS=1000000 \
//!     cargo test -p palisade-cli --test integration -- differential::broker --nocapture
//! ```
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod generate;
mod ground;
mod known;
mod play;
mod script;
mod shorten;

use crate::support::{Place, everybody, has, say};
use known::Known;
use play::{Arena, Wall};
use script::{Pair, Played, Script};
use shorten::Kind;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Behind all walls and for all people together, without `PALISADE_DIFFERENTIAL_CALLS`.
const CALLS: u64 = 20_000;
/// The seed if no number of calls is given; longer runs play it and a random one. Of a hundred thousand random calls one or two
/// may show a difference that is not known yet. Only a run that looks for such differences should fail because of it.
const SEED: u64 = 1;
/// Scripts that share a launch.
const BATCH: usize = 500;
/// Of one script so many calls are left out, each because it is known to go differently.
const LEFT_OUT: usize = 20;
/// After so many calls behind a wall each line of the list must have applied.
const LONG: u64 = 200_000;
/// So many findings of a person's and seed's are made short, without `PALISADE_DIFFERENTIAL_SHORTENED`.
const SHORTENED: usize = 8;

/// What is played, from the environment.
struct Settings {
    /// `PALISADE_DIFFERENTIAL_CALLS`
    calls: u64,
    /// `PALISADE_DIFFERENTIAL_SEEDS`, with spaces between them.
    seeds: Vec<u64>,
    /// `PALISADE_DIFFERENTIAL_SHORTENED`
    shortened: usize,
}

impl Settings {
    fn read() -> Self {
        let variable = |name: &str| std::env::var(format!("PALISADE_DIFFERENTIAL_{name}")).ok();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        let random = variable("CALLS").map(|_| 1000 + u64::from(now));
        Self {
            calls: variable("CALLS").map_or(CALLS, |number| number.parse().unwrap()),
            shortened: variable("SHORTENED").map_or(SHORTENED, |number| number.parse().unwrap()),
            seeds: variable("SEEDS").map_or_else(
                || std::iter::once(SEED).chain(random).collect(),
                |seeds| seeds.split_whitespace().map(|seed| seed.parse().unwrap()).collect(),
            ),
        }
    }
}

/// A script that isn't compared to its end yet.
struct Pending {
    number: u64,
    script: Script,
    left_out: usize,
}

/// The first script in which a difference of its kind was met.
struct Found {
    number: u64,
    /// Calls that had been compared before.
    after: u64,
    times: u64,
    script: Script,
    pair: Pair,
}

/// The results of the scripts of one seed.
#[derive(Default)]
struct Report {
    /// Compared, each once.
    calls: u64,
    failed: u64,
    seconds: f64,
    found: BTreeMap<Kind, Found>,
    /// How often each line of the list applied.
    applied: Vec<u64>,
}

impl Report {
    /// Counts what has been compared; gives what is to be played again without the call that went differently.
    fn take(&mut self, wall: Wall, known: &[Known], pending: Pending, pair: &Pair) -> Option<Pending> {
        let Pending { number, mut script, left_out } = pending;
        let differences = pair.differences();
        for difference in &differences {
            if let Some(line) = known::find(known, wall, &script, difference) {
                self.applied[line] += 1;
                continue;
            }
            let after = self.calls;
            let first = || Found { number, after, times: 0, script: script.clone(), pair: pair.clone() };
            self.found.entry(shorten::kind(&script, difference)).or_insert_with(first).times += 1;
        }
        let stopped = differences.last().filter(|last| !last.goes_on).map(|last| last.at);
        if let Some(at) = stopped.filter(|at| *at < script.calls.len() && left_out < LEFT_OUT) {
            script.calls.remove(at);
            self.calls += 1;
            return Some(Pending { number, script, left_out: left_out + 1 });
        }
        self.calls += u64::try_from(stopped.unwrap_or(script.calls.len())).unwrap();
        let failed = pair.native.words.iter().filter(|word| word.starts_with('E')).count();
        self.failed += u64::try_from(failed).unwrap();
        None
    }
}

/// Plays scripts of a seed from `first` on, until so many calls have been compared.
fn explore(arena: &Arena<'_>, known: &[Known], seed: u64, first: u64, calls: u64) -> Report {
    let begun = Instant::now();
    let mut report = Report { applied: vec![0; known.len()], ..Report::default() };
    let mut waiting: Vec<Pending> = Vec::new();
    let mut next = first;
    // About as many as that takes; what is played again comes with the next ones.
    let batch = BATCH.min(usize::try_from(calls / 23).unwrap().max(1));
    while report.calls < calls {
        while waiting.len() < batch {
            waiting.push(Pending {
                number: next,
                script: generate::script(seed, next, arena.place.uid),
                left_out: 0,
            });
            next += 1;
        }
        let scripts: Vec<Script> = waiting.iter().map(|one| one.script.clone()).collect();
        let pairs = arena.play(&scripts);
        let played = std::mem::take(&mut waiting).into_iter().zip(pairs);
        waiting.extend(played.filter_map(|(one, pair)| report.take(arena.wall, known, one, &pair)));
    }
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

fn line(arena: &Arena<'_>, seed: u64, (call, native, inside): &Kind, found: &Found) -> String {
    let Found { number, after, times, .. } = found;
    let who = arena.how();
    format!(
        "{call}: natively {native}, inside {inside}: seed {seed}, script {number}, {who}; {times} times, first after {after} calls"
    )
}

/// A finding in words, with its script as short as possible. A difference that doesn't appear again is printed and isn't counted:
/// some results depend on timing, such as that of a datagram without a receiver.
fn describe(arena: &Arena<'_>, seed: u64, kind: &Kind, found: &Found) -> Option<String> {
    let what = line(arena, seed, kind, found);
    let Some((script, pair)) = shorten::shorten(arena, &found.script, kind) else {
        let played = Played { script: &found.script, pair: &found.pair };
        say(&format!("differential: not met again: {what}\n{played}\n"));
        return None;
    };
    Some(format!("{what}\n  shortened:\n{}", Played { script: &script, pair: &pair }))
}

/// All that one person plays behind a wall; gives what was found, and how often each line of the list applied.
fn play_as(
    place: &Place,
    wall: Wall,
    known: &[Known],
    settings: &Settings,
    calls: u64,
) -> (Vec<String>, Vec<u64>) {
    let arena = Arena::new(place, wall);
    if wall == Wall::Enforced {
        let scripts: Vec<Script> = (0..300).map(|number| generate::script(SEED, number, place.uid)).collect();
        arena.learn(&scripts);
    }
    let (mut failures, mut applied) = (Vec::new(), vec![0; known.len()]);
    for seed in &settings.seeds {
        let report = explore(&arena, known, *seed, 0, calls);
        #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
        let speed = report.calls as f64 / report.seconds;
        say(&format!(
            "differential: {}: seed {seed}: {} calls, {speed:.0} a second, {} of them fail\n",
            arena.how(),
            report.calls,
            report.failed
        ));
        // Two errors are of less account than what a call has done, or hasn't.
        let mut found: Vec<(&Kind, &Found)> = report.found.iter().collect();
        found.sort_by_key(|((_, native, inside), _)| {
            native != "ok" && inside.starts_with('E') && !inside.ends_with(['~', '!'])
        });
        for (at, (kind, found)) in found.into_iter().enumerate() {
            failures.extend(if at < settings.shortened {
                describe(&arena, *seed, kind, found)
            } else {
                Some(line(&arena, *seed, kind, found))
            });
        }
        applied.iter_mut().zip(&report.applied).for_each(|(all, one)| *all += one);
    }
    (failures, applied)
}

/// Plays the calls of all users behind one wall.
fn play(wall: Wall) {
    let settings = Settings::read();
    let known = known::read();
    let people: Vec<Place> = everybody().into_iter().filter(|_| has("gcc")).collect();
    let shares = u64::try_from(people.len() * settings.seeds.len() * Wall::ALL.len()).unwrap();
    let calls = settings.calls.div_ceil(shares.max(1));
    let played: Vec<(Vec<String>, Vec<u64>)> = std::thread::scope(|scope| {
        let (known, settings) = (&known, &settings);
        let games: Vec<_> = people
            .iter()
            .map(|place| scope.spawn(move || play_as(place, wall, known, settings, calls)))
            .collect();
        games.into_iter().map(|game| game.join().unwrap()).collect()
    });
    let mut failures: Vec<String> = played.iter().flat_map(|one| one.0.clone()).collect();
    let all = calls * u64::try_from(people.len() * settings.seeds.len()).unwrap();
    let is_expected = |line: &Known| line.walls.contains(&wall.name()) && !line.is_rare;
    for (at, line) in known.iter().enumerate().filter(|(_, line)| is_expected(line)) {
        if all >= LONG && played.iter().all(|one| one.1[at] == 0) {
            failures.push(format!("this known difference wasn't met in {all} calls: {}", line.line));
        }
    }
    assert!(
        failures.is_empty(),
        "\n{}\n(how calls are written: crates/cli/tests/differential/caller.c)",
        failures.join("\n")
    );
}

#[test]
fn broker() {
    play(Wall::Broker);
}

#[test]
fn mounts() {
    play(Wall::Mounts);
}

#[test]
fn enforced() {
    play(Wall::Enforced);
}

#[test]
#[cfg(target_arch = "x86_64")]
fn interposed() {
    play(Wall::Interposed);
}
