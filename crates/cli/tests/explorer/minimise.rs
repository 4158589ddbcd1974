// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shortens a sequence that breaks an invariant as far as possible (delta debugging). Attempts that follow each other share
//! launches.

use super::oracle::Invariant;
use super::play::{Ground, Outcome, play};
use super::sequence::{Actor, Sequence};

/// How often a sequence is played alone until it breaks something.
const ATTEMPTS: usize = 5;

/// The shortest sequence that was found, and its outcome; `None` if the sequence breaks nothing when it runs alone.
pub(super) fn minimise(
    ground: &Ground<'_>,
    sequence: &Sequence,
    invariant: Invariant,
) -> Option<(Sequence, Outcome)> {
    let breaks = |outcome: &Outcome| outcome.broken.iter().any(|one| one.invariant == invariant);
    let mut shortest = sequence.clone();
    // What happens beside another call doesn't always happen in the same order.
    let mut again = (0..ATTEMPTS).filter_map(|_| play(ground, std::slice::from_ref(sequence)).pop());
    let mut outcome = again.find(breaks)?;
    let mut part = shortest.steps.len().div_ceil(2);
    while part > 0 {
        let candidates = without_parts(&shortest, part);
        let outcomes = play(ground, &candidates);
        match candidates.into_iter().zip(outcomes).find(|(_, outcome)| breaks(outcome)) {
            Some((shorter, came)) => {
                (shortest, outcome) = (shorter, came);
                part = part.min(shortest.steps.len());
            }
            None => part /= 2,
        }
    }
    Some((shortest, outcome))
}

/// The sequence without each part of so many steps, without each such part of the tree, and in one launch less.
fn without_parts(sequence: &Sequence, part: usize) -> Vec<Sequence> {
    let mut all = Vec::new();
    for start in (0..sequence.steps.len()).step_by(part) {
        let end = (start + part).min(sequence.steps.len());
        let mut shorter = sequence.clone();
        shorter.steps.drain(start..end);
        all.push(shorter);
    }
    if part > 1 {
        return all;
    }
    for at in 0..sequence.tree.len() {
        let gone = &sequence.tree[at];
        let mut shorter = sequence.clone();
        shorter
            .tree
            .retain(|entry| entry != gone && !(gone.ends_with('/') && entry.starts_with(gone.as_str())));
        all.push(shorter);
    }
    for launch in 1..sequence.launches() {
        let mut shorter = sequence.clone();
        for step in shorter.steps.iter_mut().filter(|step| step.launch >= launch) {
            if step.launch == launch && step.actor == Actor::Before {
                step.actor = Actor::Host;
            }
            step.launch -= 1;
        }
        all.push(shorter);
    }
    all
}
