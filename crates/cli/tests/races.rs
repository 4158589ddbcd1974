// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests races for protected names: some threads change what a name leads to while others make calls on it
//! (`tests/acceptance/races/swap.c`). The host decides the result: afterwards every protected file must be unchanged,
//! and no new protected file may exist.
//!
//! `PALISADE_SOAK_ATTEMPTS` is the number of attempts for each user, all races together; `./x test soak` uses a
//! million. (The acceptance suite has the same races in pairs, outside and inside.)
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Place, eventually, everybody, has, job};
use palisade_acceptance::case::data_directory;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Without `PALISADE_SOAK_ATTEMPTS`: a few seconds, in which each race still has both outcomes.
const ATTEMPTS: u64 = 11_300;
/// Attempts in one launch, which has a minute. Even a slow machine makes more than 170 a second.
const PIECE: u64 = 10_000;
const THREADS: &str = "4";

/// What is exchanged, and by which process.
struct Race {
    mode: &'static str,
    /// Whether another sandbox in the same workspace does it; the two brokers know nothing of each other.
    elsewhere: bool,
    /// The share of all attempts: smaller if one attempt takes longer.
    share: u64,
}

const fn race(mode: &'static str, share: u64) -> Race {
    Race { mode, elsewhere: false, share }
}

const RACES: &[Race] = &[
    race("memory", 12),
    race("directory", 12),
    race("link", 12),
    race("descriptor", 12),
    race("magic", 12),
    race("cwd", 12),
    race("source", 8),
    // Each that is granted is a file on the disk.
    race("content", 1),
    race("born", 8),
    Race { mode: "directory", elsewhere: true, share: 12 },
    Race { mode: "link", elsewhere: true, share: 12 },
    Race { mode: "born", elsewhere: true, share: 8 },
];

impl Race {
    fn attempts(&self, all: u64) -> u64 {
        (all * self.share).div_ceil(RACES.iter().map(|race| race.share).sum())
    }

    fn name(&self) -> String {
        format!("{}{}", self.mode, if self.elsewhere { ", swapped by another sandbox" } else { "" })
    }
}

/// The results of a race.
#[derive(Default)]
struct Tally {
    attempts: u64,
    granted: u64,
    refused: u64,
    wrong: u64,
    /// Forbidden changes that the host sees.
    seen: Vec<String>,
}

impl Tally {
    /// Adds what the program says at its end.
    fn add(&mut self, race: &Race, run: &job::Run) {
        let line = run.out.lines().find(|line| line.starts_with(&format!("{}: wrong", race.mode)));
        let line = line.unwrap_or_else(|| panic!("{}: {run:?}", race.name()));
        let number = |label: &str| -> u64 {
            let rest = line.split(label).nth(1).unwrap_or_else(|| panic!("no {label:?} in {line}"));
            rest.split(|character: char| !character.is_ascii_digit()).next().unwrap().parse().unwrap()
        };
        self.attempts += number("attempts ");
        self.granted += number("granted ");
        self.refused += number("refused ");
        self.wrong += number("wrong ");
    }
}

/// A person's place with the program in it, and a new ground for each launch.
struct Ground<'p> {
    place: &'p Place,
}

impl<'p> Ground<'p> {
    fn new(place: &'p Place) -> Self {
        for file in ["swap.c", "swap.h", "attempts.c", "ground.py"] {
            place.write(file, std::fs::read(data_directory().join("races").join(file)).unwrap());
        }
        place.outside("cd && cc -O2 -pthread -o swap swap.c attempts.c");
        Self { place }
    }

    fn directory(&self) -> PathBuf {
        self.place.home.join("ground")
    }

    fn renew(&self) {
        self.place.outside(
            "cd && rm -rf ground log && mkdir ground log && cd ground && cp ../swap . && ./swap prepare && \
             python3 -IS ~/ground.py remember ~/log",
        );
    }

    fn swap(&self, options: &[&str], arguments: &[&str]) -> Command {
        let mut swap =
            self.place.palisade(&[&["--quiet"], options].concat(), &[&["./swap"], arguments].concat());
        swap.current_dir(self.directory());
        swap
    }

    /// One launch, or two of which one swaps.
    fn run(&self, options: &[&str], race: &Race, attempts: u64, tally: &mut Tally) {
        self.renew();
        let number = attempts.to_string();
        let mut arguments = vec![race.mode, &number, THREADS];
        let flipper = race.elsewhere.then(|| self.flipper(options, race));
        if race.elsewhere {
            arguments.push("elsewhere");
        }
        let run = job::finish(&mut self.swap(options, &arguments));
        if let Some(flipper) = flipper {
            self.place.write("ground/stop", "");
            job::wait(flipper).ok();
        }
        tally.add(race, &run);
        let seen = self.look(race);
        if !seen.is_empty() {
            tally.seen.push(seen);
        }
    }

    /// Starts to swap, and waits until it does.
    fn flipper(&self, options: &[&str], race: &Race) -> Child {
        let mut flipper = self.swap(options, &["flip", race.mode]);
        let child =
            flipper.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let link = |name: &str| std::fs::read_link(self.directory().join(name));
        let swaps = || link("free").is_ok() || link("link").is_ok_and(|to| to.as_os_str() == "free");
        let born = || self.directory().join("nest/refs").exists();
        assert!(eventually(|| swaps() || born()));
        child
    }

    /// What of the protected names isn't as it was, as the host sees it.
    fn look(&self, race: &Race) -> String {
        let mut look = self.place.command("python3");
        look.arg("-IS").arg(self.place.home.join("ground.py")).arg("changed");
        let look = job::finish(look.arg(self.place.home.join("log")).current_dir(self.directory()));
        assert_eq!(look.err, "", "it looked: {look:?}");
        assert_eq!(look.code == 0, !look.out.trim().is_empty(), "{look:?}");
        // A harmless configuration may be written.
        let config = self.place.read("ground/.git/config");
        if race.mode == "content"
            && look.out.trim() == ".git/config: changed"
            && !config.contains("fsmonitor")
        {
            return String::new();
        }
        let settings = |number| self.directory().join(format!("trusted-{number}/.hg/hgrc"));
        let moved = (0..8).map(settings).filter(|path| path.exists()).map(|path| path.display().to_string());
        std::iter::once(look.out.trim().to_owned())
            .chain(moved)
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }
}

/// Whether the machine can compile and judge.
fn possible() -> bool {
    has("gcc") && has("python3")
}

#[test]
fn what_is_judged_is_what_happens() {
    let all = std::env::var("PALISADE_SOAK_ATTEMPTS").map_or(ATTEMPTS, |number| number.parse().unwrap());
    let (mut table, mut failures) = (String::new(), Vec::new());
    for place in everybody().iter().filter(|_| possible()) {
        let ground = Ground::new(place);
        let mut sum = Tally::default();
        for race in RACES {
            let mut tally = Tally::default();
            // On a busy machine the thread that exchanges the names may not have run: then repeat.
            let wanted = race.attempts(all);
            let one_sided = |tally: &Tally| tally.granted == 0 || tally.refused == 0;
            while tally.attempts < wanted || (one_sided(&tally) && tally.attempts < 10 * wanted) {
                let left = wanted.saturating_sub(tally.attempts);
                let (before, piece) = (tally.attempts, if left == 0 { wanted } else { left }.min(PIECE));
                ground.run(&[], race, piece, &mut tally);
                // The program stopped early because of an error.
                if tally.attempts - before < piece {
                    break;
                }
            }
            let Tally { attempts, granted, refused, wrong, seen } = &tally;
            let who = if place.is_root() { "root" } else { "user" };
            let line = format!(
                "{who}: {attempts} attempts, {granted} granted, {refused} refused, {wrong} wrong: {}",
                race.name()
            );
            // If no call was refused, or every call was, there was no race.
            if *wrong > 0 || !seen.is_empty() || *granted == 0 || *refused == 0 {
                failures.push(format!("{line} {seen:?}"));
            }
            writeln!(table, "races: {line}").unwrap();
            sum.attempts += attempts;
            sum.wrong += wrong;
        }
        writeln!(table, "races: {} attempts, {} wrong grants", sum.attempts, sum.wrong).unwrap();
        if sum.attempts < all {
            failures.push(format!("{} of {all} attempts", sum.attempts));
        }
    }
    // Past libtest's capture: the numbers are worth reading when nothing failed, too.
    std::io::stderr().write_all(table.as_bytes()).unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// The control without the broker: here the same program wins the races that it never wins above, by the same checks.
#[test]
fn without_the_broker_each_race_is_won() {
    for place in everybody().iter().filter(|_| possible()) {
        let ground = Ground::new(place);
        for race in RACES {
            let mut tally = Tally::default();
            // There the last to write wins, and the harmless may come last.
            let is_won = |tally: &Tally| {
                tally.wrong > 0 && (matches!(race.mode, "content" | "born") || !tally.seen.is_empty())
            };
            // On a busy machine the thread that exchanges the names may not have run: then repeat.
            while !is_won(&tally) && tally.attempts < 20_000 {
                let before = tally.attempts;
                ground.run(&["--protect", "off"], race, 1000, &mut tally);
                assert!(tally.attempts > before, "{}: no attempt", race.name());
            }
            assert!(is_won(&tally), "{}: {} attempts", race.name(), tally.attempts);
        }
    }
}
