// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a path in words.

use crate::explain::permit;
use crate::verb::{self, Failure};
use palisade::Situation;
use palisade::explanation::{PathExplanation, PolicyOnPath, Protection, Rule};
use palisade_policy::Wanted;
use palisade_sandbox::error::quoted;
use palisade_text::harmless;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

/// Explains and prints.
pub(crate) fn explain(
    situation: &Situation,
    given: &OsStr,
    wanted: Wanted,
    json: bool,
) -> Result<u8, Failure> {
    let mut explanation = PathExplanation::of(situation, Path::new(given), wanted)?;
    explanation.permit = permit(situation, explanation.permit);
    verb::tell(json, &explanation, words)?;
    Ok(verb::verdict(explanation.allowed))
}

/// A label and a text. Successive lines with the same label show it once.
type Line = (&'static str, String);

fn words(explanation: &PathExplanation) -> String {
    let refused = !explanation.allowed && explanation.wanted == Wanted::Write;
    let mut lines = of_policy(&explanation.policy);
    lines.extend(explanation.protected.as_ref().and_then(|name| of_name(name, refused)));
    if let Some(about) = &explanation.keeps_name_for {
        lines.push(("keeps name", format!("it can't be renamed: the policy has a rule about {about}")));
    }
    if let Some(inside) = &explanation.inside {
        let letter = |has, letter| if has { letter } else { '-' };
        let rights = [letter(inside.read, 'r'), letter(inside.write, 'w'), letter(inside.execute, 'x')];
        lines.push(("inside", format!("{} {}", String::from_iter(rights), inside.shows)));
        lines.extend(inside.step.as_ref().map(|step| ("made by", step.clone())));
        lines.extend(inside.landlock.as_ref().map(|landlock| ("Landlock", format!("allows {landlock}"))));
    }
    let notes = explanation.notes.iter().map(|note| ("note", note.clone()));
    let error = explanation.plan_error.iter().map(|error| ("no plan", error.clone()));
    let permit = explanation.permit.iter().map(|permit| ("to permit", permit.clone()));
    lines.extend(notes.chain(error).chain(permit));
    lines.extend(explanation.protected.iter().flat_map(|name| ways(name, refused)));
    let verdict = if explanation.allowed { "yes" } else { "no" };
    let path = harmless(&quoted(&explanation.path.to_string_lossy()));
    let why = harmless(&explanation.why);
    let mut text = format!("{path}: {}: {verdict}: {why}\n", explanation.wanted.word());
    for (name, words) in lines {
        // Writing to a string doesn't fail.
        let _infallible = writeln!(text, "  {name:<10} {}", harmless(&words));
    }
    text
}

/// The policy's statements. Rules of one kind show their label once.
fn of_policy(policy: &PolicyOnPath) -> Vec<Line> {
    let mut lines = Vec::new();
    if policy.because.is_empty() {
        lines.push(("policy", format!("no rule matches; {}", policy.shown_view)));
    }
    let kinds: [(_, &[Rule]); 3] = [
        ("because", &policy.because),
        ("overrides", &policy.overridden),
        ("locked by", policy.lock.as_slice()),
    ];
    for (name, rules) in kinds {
        let names = std::iter::once(name).chain(std::iter::repeat(""));
        lines.extend(names.zip(rules).map(|(name, rule)| (name, rule.shown.clone())));
    }
    lines
}

/// The line about a protected name, beside the answer. `refused`: the answer already is that writing is refused.
fn of_name(name: &Protection, refused: bool) -> Option<Line> {
    let rule = &name.shown_rule;
    if !name.kept {
        return Some(("not kept", format!("{rule}; {}", name.shown_mode)));
    }
    if name.holds {
        return Some(("holds", format!("{rule}; so it can't be moved")));
    }
    let but = if name.by_content { "; a change that names no command is let through" } else { "" };
    (!refused).then(|| ("protected", format!("{rule}{but}")))
}

/// How to permit changes of a protected name, if the answer hasn't said it already; and a second way.
fn ways(name: &Protection, refused: bool) -> Vec<Line> {
    let command = name.permit.clone().filter(|_command| !refused);
    let file = name.permit_in_file.as_ref().map(|words| format!("or {words}"));
    command.map(|words| ("to change", words)).into_iter().chain(file.map(|words| ("", words))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade::explanation::Place;
    use palisade_policy::{Protect, Strength};

    fn protection() -> Protection {
        let place = || Place { layer: "built in", file: None, line: None, strength: Strength::Default };
        Protection {
            name: ".git/config".to_owned(),
            reason: String::new(),
            place: place(),
            holds: false,
            by_content: false,
            carried: false,
            anchored: false,
            kept: true,
            mode: Protect::Broker,
            mode_from: place(),
            permit: Some("palisade run --allow-name .git/config -- COMMAND…".to_owned()),
            permit_in_file: None,
            shown_rule: ".git/config (built in)".to_owned(),
            shown_mode: "protect = \"off\" (administrator)".to_owned(),
        }
    }

    #[test]
    fn what_only_touches_on_names_is_said_beside_the_answer() {
        let by_content = Protection { by_content: true, ..protection() };
        assert!(of_name(&by_content, false).unwrap().1.contains("a change that names no command"));
        assert_eq!(ways(&by_content, false)[0].0, "to change");
        assert!(ways(&by_content, true).is_empty());
        let holder = Protection { holds: true, permit: None, ..protection() };
        assert_eq!(of_name(&holder, false).unwrap().0, "holds");
        let off = Protection { kept: false, ..protection() };
        assert!(of_name(&off, false).unwrap().1.ends_with("; protect = \"off\" (administrator)"));
    }
}
