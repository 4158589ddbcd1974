// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a command in words.

use crate::explain::permit;
use crate::verb::{self, Failure};
use palisade::Situation;
use palisade::explanation::CommandExplanation;
use palisade_text::Show as _;
use palisade_text::harmless;
use std::ffi::OsStr;
use std::fmt::Write as _;

/// Explains and prints.
pub(crate) fn explain(situation: &Situation, command: &OsStr, json: bool) -> Result<u8, Failure> {
    let mut explanation = CommandExplanation::of(situation, command)?;
    explanation.permit = permit(situation, explanation.permit);
    verb::tell(json, &explanation, words)?;
    Ok(verb::verdict(explanation.allowed))
}

fn words(explanation: &CommandExplanation) -> String {
    let verdict = if explanation.allowed { "yes" } else { "no" };
    let mut text = format!("{}: runs inside: {verdict}\n", harmless(&explanation.command));
    let mut line = |name: &str, words: &str| {
        // Writing to a string doesn't fail.
        let _infallible = writeln!(text, "  {name:<10} {}", harmless(words));
    };
    line("PATH", &format!("from {}", explanation.path_from));
    if explanation.searched.is_empty() {
        line("found", "nowhere");
    }
    for candidate in &explanation.searched {
        let name = if candidate.inside { "found" } else { "passed by" };
        line(name, &format!("{}: {}", candidate.path.shown(), candidate.why));
    }
    if let Some(interpreter) = &explanation.interpreter {
        let visible = if interpreter.inside { "visible inside" } else { "not visible inside" };
        line("script of", &format!("{}: {visible}", interpreter.program));
    }
    if let Some(permit) = &explanation.permit {
        line("to permit", permit);
    }
    text
}
