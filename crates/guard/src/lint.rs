// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lints a host's rules: finds what is probably a mistake, in the rules themselves and in what they would stop.

use crate::decide::Decider;
use crate::facts::Access;
use crate::rule::Place;
use crate::rule::lint as rules_lint;
use crate::safety;
use crate::setup::Setup;
use crate::trusted::Trusted;
use palisade_text::Show as _;
use serde::Serialize;
use std::path::PathBuf;

/// How many stopped files are named one by one; the rest is counted.
const MOST_STOPPED: usize = 20;

/// Something that is probably a mistake.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The file of rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The class, for programs.
    pub class: String,
    /// The message, for people.
    pub message: String,
    /// It is only information.
    pub note: bool,
}

impl Finding {
    fn at(setup: &Setup, place: Option<Place>, class: &str, message: String) -> Self {
        Self {
            file: place.map(|place| setup.rules.file(place).display().to_string()),
            line: place.map(|place| place.line),
            class: class.to_owned(),
            message,
            note: false,
        }
    }
}

/// Findings about the rules themselves.
#[must_use]
pub fn rules(setup: &Setup) -> Vec<Finding> {
    let findings = rules_lint::lint(&setup.rules);
    let of = |finding: &rules_lint::Finding| Finding {
        note: finding.is_note(),
        ..Finding::at(setup, finding.place(&setup.rules), finding.class(), finding.message(&setup.rules))
    };
    findings.iter().map(of).collect()
}

/// What the host couldn't do any more under these rules. `own`: the guard's own programs.
#[must_use]
pub fn stops(setup: &Setup, trust: &Trusted, own: &[PathBuf]) -> Vec<Finding> {
    const CLASS: &str = "lint.would-stop";
    let stopped = safety::stopped(&Decider::new(&setup.rules), trust, own);
    let more = stopped.len().saturating_sub(MOST_STOPPED);
    let mut findings: Vec<Finding> = stopped
        .iter()
        .take(MOST_STOPPED)
        .map(|stopped| {
            let place = stopped.rule.map(|rule| setup.rules.origin(rule).place);
            let verb = if stopped.access == Access::Execute { "be executed" } else { "be opened" };
            let (path, what) = (stopped.path.shown(), &stopped.what);
            let message = format!("would stop the host: {path} could not {verb} ({what})");
            Finding::at(setup, place, CLASS, message)
        })
        .collect();
    if more > 0 {
        let message = format!("would stop the host: {more} more files that it needs");
        findings.push(Finding::at(setup, None, CLASS, message));
    }
    findings
}
