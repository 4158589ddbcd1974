// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains a system call or an environment variable in words.

use crate::verb::{self, Failure};
use palisade::Situation;
use palisade::explanation::{SyscallExplanation, VariableExplanation};
use palisade_text::harmless;

pub(crate) mod names;

/// Explains a system call.
pub(crate) fn syscall(situation: &Situation, name: &str, json: bool) -> Result<u8, Failure> {
    let explanation = SyscallExplanation::of(situation, name)?;
    if let Some(error) = &explanation.by_mounts {
        crate::output::note(error);
    }
    verb::tell(json, &explanation, of_call)?;
    Ok(verb::verdict(explanation.allowed))
}

fn of_call(explanation: &SyscallExplanation) -> String {
    let mut text = explanation.words.clone();
    for (name, words) in [("stated by", &explanation.stated_by), ("to permit", &explanation.permit)] {
        if let Some(words) = words {
            text.push_str(&format!("  {name}  {}\n", harmless(words)));
        }
    }
    text
}

/// Explains a variable.
pub(crate) fn variable(situation: &Situation, name: &str, json: bool) -> Result<u8, Failure> {
    let explanation = VariableExplanation::of(situation, name)?;
    verb::tell(json, &explanation, of_variable)?;
    Ok(verb::verdict(explanation.allowed))
}

fn of_variable(explanation: &VariableExplanation) -> String {
    let VariableExplanation { name, fate, outside, why, permit, .. } = explanation;
    let outside = if *outside { "" } else { " (it isn't set here)" };
    let permit = permit.as_ref().map(|permit| format!("  to permit  {}\n", harmless(permit)));
    let permit = permit.unwrap_or_default();
    format!("{}: {fate}{outside}: {}\n{permit}", harmless(name), harmless(why))
}
