// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers how the guard would decide a hypothetical open or exec, and why.

use crate::guard::Guard;
use palisade_event::{Detail, Event};
use palisade_guard::facts::Access;
use palisade_guard::linear;
use palisade_guard::supposed::{Supposed, Who};
use palisade_guard::watch::Judged;
use palisade_protocol::guard::{Refusal, Supposition};
use std::path::Path;

/// Judges as the guard would judge now.
pub(crate) fn judge(guard: &Guard, supposition: &Supposition) -> Result<Event, Refusal> {
    let who = match supposition.pid {
        Some(pid) => Who::process(pid).ok_or_else(|| Refusal {
            class: "no-process".into(),
            message: format!("there is no process {pid}"),
            hint: Some("ps -e".into()),
        })?,
        None => Who::root(Path::new("/bin/sh")),
    };
    let access = if supposition.execute { Access::Execute } else { Access::Open };
    let trust = guard.engine.trust();
    let recognizer = guard.kinds.recognizer();
    let path = Path::new(&supposition.path);
    let supposed = Supposed::new(access, path, &who, &trust, &recognizer).map_err(|error| Refusal {
        class: "read".into(),
        message: format!("can't look at {}: {error}", supposition.path),
        hint: Some(format!("ls -l {}", palisade_text::quoted(&supposition.path))),
    })?;
    let policy = guard.engine.policy();
    let outcome = linear::decide(&policy.rules, &supposed);
    let refused = !outcome.decision.allow && guard.engine.is_enforcing();
    let mut event = Judged::new(&policy, outcome, refused, &supposed).event;
    let steps = linear::explain(&policy.rules, &supposed)
        .iter()
        .map(|step| {
            let why = step.reason(&policy.rules, &supposed);
            let rule = policy.rules.show(step.rule);
            format!("{} {rule}: {}", policy.origin(step.rule), why.unwrap_or_else(|| "matches".into()))
        })
        .collect();
    if let Detail::Guard(guard) = &mut event.detail {
        guard.steps = steps;
    }
    Ok(event)
}
