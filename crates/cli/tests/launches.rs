// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The explorer of launches: random homes, random policies over them, and an attacker inside who makes links, renames and
//! exchanges writable files, in each of several launches and while the next one begins. An oracle derives from the
//! policy and the first home alone which objects may be read and changed (`oracle.rs`). The test reads the host's tree
//! after each launch. The generator knows no attack.
//!
//! By hand, against any binary:
//!
//! ```text
//! PALISADE_BIN=… PALISADE_LAUNCHES_SEEDS='1 2' PALISADE_LAUNCHES_EVERY=1 PALISADE_LAUNCHES=20000 \
//!     cargo test -p palisade-cli --test integration -- launches::a_thousand --nocapture
//! PALISADE_BIN=… PALISADE_LAUNCHES_SEEDS=9006 PALISADE_LAUNCHES_STORY=2918 cargo test …    # one story again
//! ```
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod generate;
mod ground;
mod oracle;
mod play;
mod shorten;
mod story;
mod together;

use crate::explorer::random::Random;
use crate::support::{Place, each_plays, everybody, has, say};
use ground::{BREACHES, Breach};
use oracle::Oracle;
use play::{Arena, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::AssertUnwindSafe;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use story::{Layer, Story};

/// For all people and seeds together, without `PALISADE_LAUNCHES`.
const LAUNCHES: u64 = 1000;
/// How many stories of rules that meet each person plays without `PALISADE_MEETINGS`: pairs, and as many of more rules.
const MEETINGS: u64 = 60;
/// Of how many policies each person asks `palisade explain`, and how much of each.
const EXPLAINED: u64 = 40;
const QUESTIONS: usize = 6;
/// What is always played. Where `PALISADE_LAUNCHES` or `PALISADE_MEETINGS` says how much, a random one is added.
const SEEDS: [u64; 3] = [1, 2, 3];

/// What is played, from the environment.
struct Settings {
    /// `PALISADE_LAUNCHES`
    launches: u64,
    /// `PALISADE_LAUNCHES_SEEDS`, with spaces between them.
    seeds: Vec<u64>,
    /// `PALISADE_LAUNCHES_STORY`: the number of the only story.
    story: Option<u64>,
    /// `PALISADE_LAUNCHES_EVERY`: goes on after the first finding, until there is one of each kind.
    every: bool,
}

impl Settings {
    fn read() -> Self {
        let random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
        // A random seed is drawn only if a number of launches was requested, so that ordinary runs always have the same result.
        let drawn =
            ["PALISADE_LAUNCHES", "PALISADE_MEETINGS"].map(std::env::var_os).iter().any(Option::is_some);
        let seeds = std::env::var("PALISADE_LAUNCHES_SEEDS").map_or_else(
            |_| SEEDS.into_iter().chain(drawn.then_some(1000 + u64::from(random))).collect(),
            |seeds| seeds.split_whitespace().map(|seed| seed.parse().unwrap()).collect(),
        );
        Self {
            launches: std::env::var("PALISADE_LAUNCHES").map_or(LAUNCHES, |number| number.parse().unwrap()),
            seeds,
            story: std::env::var("PALISADE_LAUNCHES_STORY").ok().map(|number| number.parse().unwrap()),
            every: std::env::var_os("PALISADE_LAUNCHES_EVERY").is_some(),
        }
    }
}

/// A story with a breach.
struct Found {
    number: u64,
    story: Story,
    outcome: Outcome,
}

/// The results of the stories of one seed.
#[derive(Default)]
struct Report {
    stories: u64,
    launches: u64,
    refused: u64,
    seconds: f64,
    /// Of each kind the first one.
    found: BTreeMap<Breach, Found>,
    /// How often each kind of refusal was printed, by the beginning of its message.
    refusals: BTreeMap<String, u64>,
}

/// Plays stories of a seed from number `first` on, until there were so many launches, or `is_enough`.
fn explore(
    arena: &Arena<'_>,
    seed: u64,
    first: u64,
    launches: u64,
    is_enough: impl Fn(&BTreeMap<Breach, Found>) -> bool,
) -> Report {
    let (mut report, begun) = (Report::default(), Instant::now());
    let locks = arena.place.is_root() && has("bwrap");
    while report.launches < launches && !is_enough(&report.found) {
        let number = first + report.stories;
        let story = generate::story(seed, number, locks);
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| arena.play(&story)));
        let outcome = outcome.unwrap_or_else(|why| {
            say(&format!("launches: {}: seed {seed}, story {number}:\n{story}\n", arena.place.name()));
            std::panic::resume_unwind(why)
        });
        report.stories += 1;
        report.launches += outcome.launches;
        report.refused += u64::try_from(outcome.refusals.len()).unwrap();
        for refusal in &outcome.refusals {
            let words = refusal.split_whitespace().filter(|word| !word.contains(['/', '*']));
            *report.refusals.entry(words.take(14).collect::<Vec<_>>().join(" ")).or_default() += 1;
        }
        for breach in outcome.breaches.keys() {
            report.found.entry(*breach).or_insert_with(|| Found {
                number,
                story: story.clone(),
                outcome: outcome.clone(),
            });
        }
    }
    report.seconds = begun.elapsed().as_secs_f64();
    report
}

/// A finding for people, as short as it can be made.
fn describe(arena: &Arena<'_>, seed: u64, breach: Breach, found: &Found) -> String {
    let shortest = shorten::shorten(arena, &found.story, breach);
    let (how, (story, outcome)) = match &shortest {
        Some((story, outcome)) => ("shortened", (story, outcome)),
        None => ("not met again; as it was", (&found.story, &found.outcome)),
    };
    let mut text = format!("{breach}: seed {seed}, story {}, as {}\n", found.number, arena.place.name());
    for (kind, detail) in &outcome.breaches {
        writeln!(text, "  {kind}: {detail}").unwrap();
    }
    for refusal in &outcome.refusals {
        writeln!(text, "  {}", refusal.trim_end()).unwrap();
    }
    writeln!(text, "  {how}:\n{story}").unwrap();
    text
}

/// All that one person plays; gives what was found.
fn play_as(place: &Place, settings: &Settings, share: (u64, u64)) -> Vec<String> {
    let arena = Arena::new(place, true);
    let mut failures = Vec::new();
    let seeds = u64::try_from(settings.seeds.len()).unwrap();
    for seed in &settings.seeds {
        let count = settings.launches.div_ceil(seeds * share.1);
        let enough = |found: &BTreeMap<Breach, Found>| {
            found.len() == BREACHES.len() || !settings.every && !found.is_empty()
        };
        // The number of the first story. A story has two launches or more, so the shares of two tests don't overlap.
        let (first, count) = settings.story.map_or((count * share.0, count), |number| (number, 1));
        let report = explore(&arena, *seed, first, count, enough);
        let Report { stories, launches, refused, seconds, found, refusals } = &report;
        say(&format!(
            "launches: {}: seed {seed}: {launches} in {stories} stories, {refused} refused, {seconds:.1} s\n",
            place.name()
        ));
        if settings.every {
            say(&format!("launches: {refusals:#?}\n"));
        }
        if launches < refused {
            failures.push(format!("seed {seed}: {refused} refusals, {launches} launches: {refusals:#?}"));
        }
        for (breach, found) in found {
            say(&format!("launches: seed {seed}: {breach}: story {}\n", found.number));
            failures.push(describe(&arena, *seed, *breach, found));
        }
        if !failures.is_empty() && !settings.every {
            break;
        }
    }
    failures
}

#[test]
fn a_thousand_launches_do_what_their_policies_say() {
    let settings = Settings::read();
    let people: Vec<Place> = everybody().into_iter().filter(|_| has("gcc")).collect();
    each_plays(&people, |place, share| play_as(place, &settings, share));
}

/// What one person plays of the world in which all rules meet.
fn meet_as(place: &Place, seed: u64, settings: &Settings, wanted: Option<u64>) -> Vec<String> {
    let arena = Arena::new(place, true);
    let locks = place.is_root() && has("bwrap");
    let pairs = together::pairs(locks);
    let count = wanted.unwrap_or(MEETINGS).min(pairs);
    let random = || Random::new(seed, 0).below(usize::try_from(pairs).unwrap());
    let first = if count == pairs { 0 } else { u64::try_from(random()).unwrap() };
    // A step that has no divisor in common with most numbers spreads what is played over all rules.
    let some = (0..count).map(|number| if count == pairs { number } else { (first + number * 1009) % pairs });
    let more = (0..count).map(|number| pairs + number);
    let (mut failures, mut launches, mut refused) = (Vec::new(), 0, 0);
    let one = settings.story.into_iter();
    let several = some.chain(more).filter(|_| settings.story.is_none());
    for number in one.chain(several) {
        let story = together::story(seed, number, locks);
        let outcome = arena.play(&story);
        launches += outcome.launches;
        refused += outcome.refusals.len();
        if let Some(breach) = outcome.breaches.keys().next() {
            let found = Found { number, story, outcome: outcome.clone() };
            say(&format!("launches: {}: rules that meet: {breach}: story {number}\n", place.name()));
            failures.push(describe(&arena, seed, *breach, &found));
            if failures.len() >= 8 {
                break;
            }
        }
    }
    say(&format!(
        "launches: {}: rules that meet, seed {seed}: {launches}, {refused} refused\n",
        place.name()
    ));
    failures
}

/// All pairs of rules of a small world (`PALISADE_MEETINGS=all`; a number plays so many), and as many drawn policies of three or
/// four.
#[test]
fn rules_that_meet_do_what_they_say() {
    let settings = Settings::read();
    let wanted = std::env::var("PALISADE_MEETINGS").ok().map(|text| text.parse().unwrap_or(u64::MAX));
    let people: Vec<Place> = everybody().into_iter().filter(|_| has("gcc")).collect();
    let failures: Vec<String> = std::thread::scope(|scope| {
        let settings = &settings;
        let seed = *settings.seeds.last().unwrap();
        let games: Vec<_> =
            people.iter().map(|place| scope.spawn(move || meet_as(place, seed, settings, wanted))).collect();
        games.into_iter().flat_map(|game| game.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// `palisade explain` and the oracle give the same answers for the same policies.
#[test]
fn explain_says_what_policies_say() {
    let mut disagreements = Vec::new();
    let mut asked = 0;
    for place in everybody().iter().filter(|_| has("gcc")) {
        let arena = Arena::new(place, true);
        let locks = place.is_root() && has("bwrap");
        for number in 0..EXPLAINED {
            let mut story = generate::story(SEEDS[0], number, locks);
            // The questions are about policies, not about options of a command line.
            story.rules.retain(|rule| rule.layer != Layer::CommandLine);
            let oracle = Oracle::new(&story);
            let mut questions = oracle.questions(&story.tree);
            questions.truncate(QUESTIONS);
            let asks: Vec<_> = questions.iter().map(|(path, access, _)| (path.clone(), *access)).collect();
            let Some(answers) = arena.explain(&story, &asks) else { continue };
            for ((path, access, expected), said) in questions.iter().zip(answers) {
                asked += 1;
                // What a link grants may be refused for more reasons.
                if said != *expected && (said || oracle.is_plain(path)) {
                    disagreements.push(format!("{}: {access} ~/{path}: {said}\n{story}", place.name()));
                }
            }
        }
    }
    assert!(disagreements.is_empty(), "{} of {asked}:\n{}", disagreements.len(), disagreements.join("\n"));
    assert!(asked >= EXPLAINED, "only {asked} answers");
}

/// The control: the same stories, without a sandbox, played by the same program and judged by the same oracle.
#[test]
fn without_a_sandbox_policies_mean_nothing() {
    for place in everybody().iter().filter(|_| has("gcc")) {
        let arena = Arena::new(place, false);
        let attacks = [Breach::Read, Breach::Changed, Breach::Replaced, Breach::Added];
        let report = explore(&arena, SEEDS[0], 0, LAUNCHES, |found| found.len() == attacks.len());
        let met: Vec<Breach> = report.found.into_keys().collect();
        assert_eq!(met, attacks, "in {} launches", report.launches);
    }
}
