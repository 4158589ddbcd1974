// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shortens a script that shows a difference as far as possible (delta debugging). Attempts that follow each other share
//! launches.

use super::known::call_of;
use super::play::Arena;
use super::script::{Difference, Pair, Script};

/// What makes two differences the same finding: call, native result, result inside.
pub(super) type Kind = (String, String, String);

pub(super) fn kind(script: &Script, difference: &Difference) -> Kind {
    let call = call_of(script, difference).split(' ').next().unwrap_or_default();
    (call.to_owned(), difference.native.clone(), difference.inside.clone())
}

/// The shortest script that was found, and its results; `None` if the difference doesn't appear when the script runs alone.
pub(super) fn shorten(arena: &Arena<'_>, script: &Script, wanted: &Kind) -> Option<(Script, Pair)> {
    let meets = |script: &Script, pair: &Pair| {
        pair.differences().iter().any(|difference| kind(script, difference) == *wanted)
    };
    let mut shortest = script.clone();
    let mut pair = arena.play(std::slice::from_ref(script)).pop().filter(|pair| meets(script, pair))?;
    let mut part = shortest.calls.len().div_ceil(2);
    while part > 0 {
        let candidates = without_parts(&shortest, part);
        let pairs = arena.play(&candidates);
        match candidates.into_iter().zip(pairs).find(|(script, pair)| meets(script, pair)) {
            Some((shorter, came)) => {
                (shortest, pair) = (shorter, came);
                part = part.min(shortest.calls.len());
            }
            None => part /= 2,
        }
    }
    Some((shortest, pair))
}

/// The script without each part of so many calls; without each entry of the tree, if that is one.
fn without_parts(script: &Script, part: usize) -> Vec<Script> {
    let mut all = Vec::new();
    for start in (0..script.calls.len()).step_by(part) {
        let mut shorter = script.clone();
        shorter.calls.drain(start..(start + part).min(script.calls.len()));
        all.push(shorter);
    }
    for at in 0..if part == 1 { script.tree.len() } else { 0 } {
        let mut shorter = script.clone();
        shorter.tree.remove(at);
        all.push(shorter);
    }
    all
}
