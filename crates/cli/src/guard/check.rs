// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard check`: says whether settings and rules are valid.

use super::{Places, count};
use crate::output;
use crate::verb::{self, Exit, NO, YES};
use palisade_guard::check::{Checked, Mistake};
use palisade_text::harmless;
use serde::Serialize;
use std::path::Path;

/// The answer.
#[derive(Serialize)]
struct Document {
    valid: bool,
    /// How many rules there are, if they are valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<usize>,
    /// The file or directory that they are from.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    errors: Vec<Mistake>,
    /// How many more errors there are.
    more: usize,
}

/// Returns yes if everything is valid.
pub(super) fn check(places: &Places, path: Option<&Path>, json: bool) -> Exit {
    let checked = Checked::of(&places.config, path);
    let valid = checked.errors.is_empty();
    if json {
        let Checked { rules, from, errors, more } = checked;
        verb::print_json(&Document { valid, rules, from, errors, more })?;
    } else {
        say(&checked);
    }
    Ok(if valid { YES } else { NO })
}

fn say(checked: &Checked) {
    for error in &checked.errors {
        let place = match (error.line, error.column) {
            (Some(line), Some(column)) => format!("{}:{line}:{column}: ", error.file),
            _ => String::new(),
        };
        let message = harmless(&format!("{place}{}", error.message));
        let mut text = format!("palisade: error: {message} [{}]\n", error.class);
        text.push_str(error.excerpt.as_deref().unwrap_or_default());
        if let Some(hint) = &error.hint {
            text.push_str(&format!("hint: {}\n", harmless(hint)));
        }
        output::say(&text);
    }
    if checked.more > 0 {
        output::say(&format!("and {}\n", count(checked.more as u64, "more error", "more errors")));
    }
    if checked.errors.is_empty() {
        let from = harmless(checked.from.as_deref().unwrap_or_default());
        let rules = count(checked.rules.unwrap_or_default() as u64, "rule", "rules");
        output::say(&format!("{rules} from {from}: nothing is wrong\n"));
    }
}
