// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shortens a story with a breach: it removes one launch, call, rule, option or object after another.

use super::ground::Breach;
use super::play::{Arena, Outcome};
use super::story::Story;

/// How often a race is run until it is won.
const ATTEMPTS: usize = 5;

/// The shortest story with this breach, and its outcome; `None` if the breach doesn't happen again.
pub(super) fn shorten(arena: &Arena<'_>, story: &Story, breach: Breach) -> Option<(Story, Outcome)> {
    let attempt = |story: &Story| {
        let attempts = if story.launches.iter().any(|launch| launch.race.is_some()) { ATTEMPTS } else { 1 };
        let mut outcomes = (0..attempts).map(|_| arena.play(story));
        outcomes.find(|outcome| outcome.breaches.contains_key(&breach))
    };
    let mut shortest = story.clone();
    let mut outcome = attempt(&shortest)?;
    // From the last one on: what comes later depends on what was before.
    let mut number = parts(&shortest).len();
    while number > 0 {
        number -= 1;
        let Some(shorter) = parts(&shortest).into_iter().nth(number) else { continue };
        if let Some(came) = attempt(&shorter) {
            (shortest, outcome) = (shorter, came);
        }
    }
    Some((shortest, outcome))
}

/// The story without each of its parts. (The working directory is no part that can be missing.)
fn parts(story: &Story) -> Vec<Story> {
    let mut all = Vec::new();
    let mut without = |remove: &dyn Fn(&mut Story)| {
        let mut shorter = story.clone();
        remove(&mut shorter);
        all.push(shorter);
    };
    for path in story.tree.keys().filter(|path| *path != "w") {
        let below = format!("{path}/");
        without(&|story| story.tree.retain(|other, _| other != path && !other.starts_with(&below)));
    }
    for (number, launch) in story.launches.iter().enumerate() {
        for call in 0..launch.calls.len() {
            without(&|story| drop(story.launches[number].calls.remove(call)));
        }
        if launch.race.is_some() {
            without(&|story| story.launches[number].race = None);
        }
        if !launch.options.is_empty() {
            without(&|story| story.launches[number].options.clear());
        }
    }
    for rule in 0..story.rules.len() {
        without(&|story| drop(story.rules.remove(rule)));
    }
    for launch in 0..story.launches.len() {
        without(&|story| drop(story.launches.remove(launch)));
    }
    all
}
