// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The differential test of `palisade bwrap`: random argument lists have the same results as with bubblewrap itself.
//!
//! Each list runs through both programs, in the same directory, with the same descriptors, as root and as an ordinary
//! user. The test compares the exit code, the messages, the documents for `--info-fd` and `--json-status-fd`, what a
//! program inside sees of its mounts, files, rights, numbers, descriptors and variables, and what the launch has left on
//! the host. The options are those that both have, so the bubblewrap of `PATH` decides which ones are tried.
//! `bwrap_differential/known.list` has the differences that are accepted; the generator doesn't know them.
//!
//! By hand, beside any bubblewrap:
//!
//! ```text
//! PALISADE_BIN=… PALISADE_TEST_BWRAP=… PALISADE_BWRAP_LISTS=10000 PALISADE_BWRAP_SEED=7 \
//!     cargo test -p palisade-cli --test integration -- bwrap_differential::random --nocapture
//! ```
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod generate;
mod ground;
mod known;
mod list;
mod mounts;
mod play;
mod pools;

use crate::support::{Place, everybody, has, say};
use known::Known;
use list::List;
use play::{Arena, Difference};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

/// For each person, without `PALISADE_BWRAP_LISTS`. `./x test all` plays a thousand.
const LISTS: u64 = 60;
/// Without `PALISADE_BWRAP_SEED`.
const SEED: u64 = 1;
/// So many findings of a person are made short.
const SHORTENED: usize = 12;

#[test]
fn random_lists_have_the_same_results() {
    let number =
        |name: &str, otherwise| std::env::var(name).map_or(otherwise, |number| number.parse().unwrap());
    let (lists, seed) = (number("PALISADE_BWRAP_LISTS", LISTS), number("PALISADE_BWRAP_SEED", SEED));
    if !["bwrap", "userns", "gcc"].into_iter().all(has) {
        return;
    }
    let peer = std::env::var_os("PALISADE_TEST_BWRAP").map_or_else(|| "bwrap".into(), PathBuf::from);
    let peer = in_path(peer);
    let known = known::read();
    let people = everybody();
    let played: Vec<Played> = std::thread::scope(|scope| {
        let (known, peer) = (&known, &peer);
        let games: Vec<_> =
            people.iter().map(|place| scope.spawn(move || play(place, peer, known, seed, lists))).collect();
        games.into_iter().map(|game| game.join().unwrap()).collect()
    });
    let mut failures: Vec<String> = played.iter().flat_map(|played| played.failures.clone()).collect();
    let version = &played[0].version;
    for (at, line) in known.iter().enumerate().filter(|(_, line)| line.is_about(version)) {
        let times: u64 = played.iter().map(|played| played.applied[at]).sum();
        if times == 0 {
            failures.push(format!("this accepted difference wasn't met: {}", line.line));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

fn in_path(program: PathBuf) -> PathBuf {
    if program.components().count() > 1 {
        return program;
    }
    let places = crate::support::PATH.split(':').map(|directory| PathBuf::from(directory).join(&program));
    places.into_iter().find(|path| path.exists()).unwrap_or_else(|| panic!("no {}", program.display()))
}

/// The results of one person's lists.
struct Played {
    version: String,
    failures: Vec<String>,
    /// How often each accepted difference was met.
    applied: Vec<u64>,
}

/// A finding is of the same kind if the same aspect differs in the same way.
fn kind(differences: &[Difference]) -> String {
    let first = &differences[0];
    let beginning =
        |text: &str| text.split(['/', '@']).next().unwrap_or_default().chars().take(60).collect::<String>();
    let aspect = first.aspect.split(' ').next().unwrap_or_default();
    format!("{aspect} {} {}", beginning(&first.peer), beginning(&first.ours))
}

fn play(place: &Place, peer: &std::path::Path, known: &[Known], seed: u64, lists: u64) -> Played {
    let arena = Arena::new(place, peer);
    let mut applied = vec![0; known.len()];
    let mut found: BTreeMap<String, (u64, List, u64)> = BTreeMap::new();
    let (mut number, mut compared, mut looked) = (0, 0, 0);
    let mut first = generate::first().into_iter();
    while compared < lists {
        let list = match first.next() {
            Some(list) => list.for_options(&arena.options),
            None => {
                number += 1;
                generate::list(seed, number).for_options(&arena.options).map(|list| {
                    // Most lists should start a program; some should fail as they are.
                    if list.looks && !number.is_multiple_of(4) { arena.mended(list) } else { list }
                })
            }
        };
        let Some(list) = list else { continue };
        compared += 1;
        let (ran, differences) = arena.compare(&list);
        looked += u64::from(ran);
        let unknown = known::unknown(known, &arena.version, &differences, &mut applied);
        if !unknown.is_empty() {
            found.entry(kind(&unknown)).or_insert((number, list, 0)).2 += 1;
        }
    }
    let who = place.name();
    say(&format!(
        "bwrap_differential: {who}: seed {seed}: {lists} lists beside {}, a program looked around in {looked} of them, {} kinds of differences\n",
        arena.version,
        found.len()
    ));
    let described = found.iter().enumerate().map(|(at, (kind, (number, list, times)))| {
        let (list, differences) =
            if at < SHORTENED { shorten(&arena, known, list, kind) } else { (list.clone(), Vec::new()) };
        let mut text =
            format!("{who}: seed {seed}, list {number}, {times} of this kind: {kind}\n   {list}\n");
        for Difference { aspect, peer, ours } in differences.iter().take(4) {
            writeln!(text, "    {aspect}:\n      bubblewrap: {peer}\n      ours:       {ours}").unwrap();
        }
        text
    });
    Played { version: arena.version.clone(), failures: described.collect(), applied }
}

/// The list with as few options as show a difference of this kind.
fn shorten(arena: &Arena<'_>, known: &[Known], list: &List, wanted: &str) -> (List, Vec<Difference>) {
    let differences = |list: &List| {
        known::unknown(known, &arena.version, &arena.compare(list).1, &mut vec![0; known.len()])
    };
    let mut shortest = list.clone();
    let mut shown = differences(&shortest);
    loop {
        let found = shortest.shorter().find_map(|shorter| {
            let found = differences(&shorter);
            (!found.is_empty() && kind(&found) == wanted).then_some((shorter, found))
        });
        let Some(shorter) = found else { break };
        (shortest, shown) = shorter;
    }
    (shortest, shown)
}
