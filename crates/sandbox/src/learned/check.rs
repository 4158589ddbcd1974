// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares a profile with the run that it was learned from, before the profile is offered. The profile must allow what
//! was used, and refuse what was refused.

use super::calls::{self, CallDifference, Calls};
use super::hosts::{self, Compared, Hosts};
use super::{AccessTrace, Comparison, Host, Rights, Under, UsageSummary, precedence, profile};
use crate::error::PlanError;
use crate::facts::Facts;
use palisade_policy::render::{Remarks, render_with};
use palisade_policy::{Access, Grant, LayerPolicy, Resolved};
use palisade_syscall::Syscall;
use std::collections::BTreeSet;

/// The most rounds: a refusal that is stated again may reveal another one below it.
const ROUNDS: usize = 4;

/// A run under a plan.
#[derive(Debug, Clone, Copy)]
pub struct Run<'r> {
    /// The policy and plan of the run.
    pub under: &'r Under,
    /// What the run used.
    pub trace: &'r AccessTrace,
    /// The summary of the trace.
    pub account: &'r UsageSummary,
    /// The hosts that it connected to.
    pub hosts: &'r Hosts,
    /// Its system calls.
    pub calls: &'r Calls,
    /// System calls that were learned for the profile before.
    pub known: &'r BTreeSet<Syscall>,
}

/// The facts of the host that a check needs.
pub struct Ground<'g> {
    /// The host's facts.
    pub facts: &'g Facts,
    /// The rules of the run, with their paths resolved.
    pub resolved: &'g Resolved,
    /// The host's files.
    pub host: &'g dyn Host,
    /// Makes the policy and plan of the command with a profile in text form, or the reason why it can't.
    pub under: &'g dyn Fn(&str) -> Result<Under, String>,
}

/// A profile, and how it differs from the run.
#[derive(Debug)]
pub struct Checked {
    /// The profile as a file.
    pub text: String,
    /// The differences from the run, or the reason why no command can run with the profile.
    pub differences: Result<Differences, String>,
}

/// Where a profile differs from the run that it was learned from.
#[derive(Debug)]
pub struct Differences {
    /// Files.
    pub files: Comparison,
    /// Hosts.
    pub hosts: Compared,
    /// System calls.
    pub calls: Vec<CallDifference>,
}

/// Adds rules that refuse again what was refused, and returns the differences that remain.
///
/// # Errors
/// When a call's fate under a plan can't be determined.
pub fn check(
    ground: &Ground<'_>,
    run: &Run<'_>,
    mut layer: LayerPolicy,
    mut remarks: Remarks,
) -> Result<Checked, PlanError> {
    keep_narrower(ground, run, &mut layer, &mut remarks);
    precedence::keep(&mut layer, &run.under.plan);
    let mut round = 0;
    loop {
        round += 1;
        let text = render_with(&layer, &remarks);
        let after = match (ground.under)(&text) {
            Ok(after) => after,
            Err(reason) => return Ok(Checked { text, differences: Err(reason) }),
        };
        let files = Comparison::of(run.trace, &run.under.plan, &after.plan, ground.host);
        let hosts = hosts::compare(run.hosts, &run.under.plan, &after.plan);
        let by_rule: Vec<_> = hosts.lost.iter().filter_map(|lost| lost.rule.clone()).collect();
        if round == ROUNDS || (files.widens.is_empty() && hosts.gained.is_empty() && by_rule.is_empty()) {
            let calls = calls::differences(run.calls, run.known, &after)?;
            return Ok(Checked { text, differences: Ok(Differences { files, hosts, calls }) });
        }
        for change in &files.widens {
            let access = narrower(change.both);
            profile::state(&mut layer, &mut remarks, ground.facts, access, &change.path, &change.source);
        }
        // Rules that can't be stated remain as differences after the last round.
        for host in &hosts.gained {
            let _stated = layer.add_host(host, false, 0);
        }
        for address in &by_rule {
            let _stated = layer.add_host(&address.to_string(), true, 0);
        }
    }
}

/// States narrower rules again: paths for which the run had fewer rights than the profile's grant around them gives.
fn keep_narrower(ground: &Ground<'_>, run: &Run<'_>, layer: &mut LayerPolicy, remarks: &mut Remarks) {
    let granted = &run.account.grants;
    for path in ground.resolved.effective() {
        let Grant::Allowed { write, execute } = path.grant else { continue };
        let above = path.destination.ancestors().skip(1).find_map(|above| granted.get(above));
        let Some((_host, above)) = above else { continue };
        let wider = (above.write && !write) || (above.execute && !execute);
        if wider && !granted.contains_key(&path.destination) {
            let access = narrower(Rights { read: true, write, execute });
            profile::state(layer, remarks, ground.facts, access, &path.destination, &path.source);
        }
    }
}

/// The rule that grants no more than these rights.
const fn narrower(rights: Rights) -> Access {
    match rights {
        Rights { write: true, .. } => Access::Write,
        Rights { execute: true, .. } => Access::Execute,
        Rights { read: true, .. } => Access::Read,
        _ => Access::Hide,
    }
}
