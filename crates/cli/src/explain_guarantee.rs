// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains the guarantees of a launch in words.

use crate::explain::permit;
use crate::output;
use crate::verb::{self, Failure};
use palisade::explanation::{GuaranteeExplanation, GuaranteesExplanation};
use palisade::{Guarantee, Situation};
use palisade_text::harmless;
use std::fmt::Write as _;

/// Lists and prints all guarantees.
pub(crate) fn all(situation: &Situation, json: bool) -> Result<u8, Failure> {
    let mut explanation = GuaranteesExplanation::of(situation)?;
    for one in &mut explanation.guarantees {
        one.add = typed(situation, one.add.take());
    }
    if let Some(stop) = &mut explanation.stops {
        stop.add = typed(situation, stop.add.take());
    }
    verb::tell(json, &explanation, of_all)?;
    Ok(verb::verdict(explanation.allowed))
}

/// Explains and prints one guarantee.
pub(crate) fn one(situation: &Situation, guarantee: Guarantee, json: bool) -> Result<u8, Failure> {
    let mut explanation = GuaranteeExplanation::of(situation, guarantee)?;
    explanation.add = typed(situation, explanation.add.take());
    verb::tell(json, &explanation, of_one)?;
    Ok(verb::verdict(explanation.allowed))
}

/// What adds a guarantee to this launch, as this user types it.
fn typed(situation: &Situation, add: Option<String>) -> Option<String> {
    permit(situation, add).map(|add| output::as_typed(&add).to_owned())
}

fn of_all(explanation: &GuaranteesExplanation) -> String {
    let mut text = String::new();
    if let Some(stop) = &explanation.stops {
        let _infallible = writeln!(text, "the launch doesn't start: {}", harmless(&stop.why));
        add(&mut text, stop.add.as_deref());
        if !explanation.guarantees.is_empty() {
            text.push_str("with --best-effort it has these guarantees:\n");
        }
    }
    for one in &explanation.guarantees {
        let mark = match (one.allowed, one.asked) {
            (true, _) => "yes",
            (false, true) => "NO",
            (false, false) => "no",
        };
        let _infallible = writeln!(text, "{mark:<4} {}: {}: {}", one.name, one.words, harmless(&reason(one)));
    }
    // One command often adds several.
    let mut adds: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in &explanation.guarantees {
        let Some(add) = one.add.as_deref() else { continue };
        match adds.iter_mut().find(|(known, _names)| *known == add) {
            Some((_known, names)) => names.push(one.name),
            None => adds.push((add, vec![one.name])),
        }
    }
    for (add, names) in adds {
        let _infallible = writeln!(text, "to add {}:\n  {}", names.join(", "), harmless(add));
    }
    text
}

fn of_one(explanation: &GuaranteeExplanation) -> String {
    let GuaranteeExplanation { name, words, allowed, required, .. } = explanation;
    let verdict = if *allowed { "yes" } else { "no" };
    let mut text = format!("{name}: {words}: {verdict}: {}\n", harmless(&reason(explanation)));
    if *required && explanation.asked {
        text.push_str("  required   a launch that can't have it doesn't start\n");
    }
    add(&mut text, explanation.add.as_deref());
    text
}

/// The mechanism of a guarantee, or why there is none.
fn reason(one: &GuaranteeExplanation) -> String {
    let why = one.why.clone().unwrap_or_default();
    match one.by {
        Some(by) => by.to_owned(),
        None if one.asked => why,
        None => format!("not asked for: {why}"),
    }
}

fn add(text: &mut String, add: Option<&str>) {
    if let Some(add) = add {
        let _infallible = writeln!(text, "  to add     {}", harmless(add));
    }
}
