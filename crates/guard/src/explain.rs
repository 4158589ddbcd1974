// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explains an open or exec: what the rules and the trust on the disk would decide about it, and why. It takes the same
//! steps as palisaded.

use crate::facts::Access;
use crate::kind::Recognizer;
use crate::linear;
use crate::rule::{RuleId, RuleSet};
use crate::settings::Mode;
use crate::setup::{Setup, SetupError};
use crate::supposed::{Supposed, Who};
use crate::trust::store::Store;
use crate::trusted::Trusted;
use crate::watch::Judged;
use crate::watch::policy::Policy;
use palisade_event::{Detail, Event};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why there is no explanation.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The file can't be looked at.
    #[error("can't look at the file: {0}")]
    File(std::io::Error),
    /// The settings can't be used.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

/// What the rules would decide, and why.
///
/// # Errors
/// When the file can't be looked at, or the settings' log format isn't one.
pub fn explain(
    setup: Setup,
    trust: &Trusted,
    access: Access,
    path: &Path,
    who: &Who,
) -> Result<Event, ExplainError> {
    let enforcing = setup.settings.mode == Mode::Enforce;
    let recognizer = Recognizer::own();
    let supposed = Supposed::new(access, path, who, trust, &recognizer).map_err(ExplainError::File)?;
    let outcome = linear::decide(&setup.rules, &supposed);
    let steps = linear::explain(&setup.rules, &supposed)
        .iter()
        .map(|step| {
            let why = step.reason(&setup.rules, &supposed).unwrap_or_else(|| "matches".to_owned());
            format!("{} {}: {why}", origin(&setup.rules, step.rule), setup.rules.show(step.rule))
        })
        .collect();
    let policy =
        Policy::new(setup.settings, setup.rules, setup.linkers, setup.from, 1).map_err(SetupError::from)?;
    let mut event = Judged::new(&policy, outcome, !outcome.decision.allow && enforcing, &supposed).event;
    if let Detail::Guard(guard) = &mut event.detail {
        guard.steps = steps;
    }
    Ok(event)
}

/// File and line of a rule.
fn origin(rules: &RuleSet, rule: RuleId) -> String {
    let place = rules.origin(rule).place;
    format!("{}:{}", rules.file(place).display(), place.line)
}

/// The sources that trust a path, as far as the database can be read.
#[must_use]
pub fn trusted_by(store: &Store, path: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    let _unreadable = store.who(path.as_os_str().as_bytes(), |source, _| {
        let source = source.to_string();
        if !sources.contains(&source) {
            sources.push(source);
        }
    });
    sources
}
