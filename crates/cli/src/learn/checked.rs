// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A profile decided against the run that it was learned from, before it is offered: what was used is to be allowed, and
//! what was refused is to be refused.

use super::calls::{self, Calls};
use super::hosts::{self, Compared, Hosts};
use super::{Situation, Under, precedence, profile};
use crate::run::RunError;
use crate::trace::Disk;
use palisade_policy::render::{Remarks, render_with};
use palisade_policy::{Access, Grant, Layer, LayerPolicy};
use palisade_sandbox::layers;
use palisade_sandbox::learned::{Account, Change, Comparison, Journal, Rights};
use palisade_syscall::Syscall;
use palisade_text::Show as _;
use std::collections::BTreeSet;

/// Differences of one kind that are told.
const TOLD: usize = 12;
/// A refusal that is kept may uncover another one below it.
const ROUNDS: usize = 4;

/// A run under a plan.
pub(super) struct Run<'r> {
    pub(super) under: &'r Under,
    pub(super) journal: &'r Journal,
    pub(super) account: &'r Account,
    pub(super) hosts: &'r Hosts,
    pub(super) calls: &'r Calls,
    /// System calls that were learned for the profile before.
    pub(super) known: &'r BTreeSet<Syscall>,
}

/// A profile with what is wrong with it.
pub(super) struct Checked {
    /// The profile as a file.
    pub(super) text: String,
    /// Sentences about where it differs from the run.
    pub(super) differences: Vec<String>,
}

/// Keeps refused what was refused, and tells where the profile differs from the run even so.
pub(super) fn check(
    situation: &Situation,
    run: &Run<'_>,
    mut layer: LayerPolicy,
    mut remarks: Remarks,
) -> Result<Checked, RunError> {
    keep_narrower(situation, run, &mut layer, &mut remarks)?;
    precedence::keep(&mut layer, &run.under.plan);
    let mut round = 0;
    loop {
        round += 1;
        let text = render_with(&layer, &remarks);
        let after = match under(situation, &text) {
            Ok(after) => after,
            Err(reason) => return Ok(Checked { text, differences: vec![unusable(&reason)] }),
        };
        let files = Comparison::of(run.journal, &run.under.plan, &after.plan, &Disk);
        let hosts = hosts::compare(run.hosts, &run.under.plan, &after.plan);
        let by_rule: Vec<_> = hosts.lost.iter().filter_map(|lost| lost.rule.clone()).collect();
        if round == ROUNDS || (files.widens.is_empty() && hosts.gained.is_empty() && by_rule.is_empty()) {
            let mut differences = differences(&files, &hosts);
            differences.extend(few(calls::differences(run.calls, run.known, &after)?));
            return Ok(Checked { text, differences });
        }
        for change in &files.widens {
            let access = narrower(change.both);
            profile::state(&mut layer, &mut remarks, &situation.facts, access, &change.path, &change.source);
        }
        // What can't be stated is told in the last round.
        for host in &hosts.gained {
            let _stated = layer.add_host(host, false, 0);
        }
        for address in &by_rule {
            let _stated = layer.add_host(&address.to_string(), true, 0);
        }
    }
}

/// The policy and plan of the command with the profile as it is written; why there is none. System calls are those that
/// were learned for what it ran as: with the profile they become the profile's.
pub(super) fn under(situation: &Situation, text: &str) -> Result<Under, String> {
    let parsed = palisade_policy::parse(text, None, Layer::User);
    let profile = parsed.map_err(|errors| errors.first().map(ToString::to_string).unwrap_or_default())?;
    let loaded = layers::load_unkept(&situation.facts, profile).map_err(|error| error.to_string())?;
    let plan = situation.plan_to_learn_by(&loaded).map_err(|error| error.to_string())?;
    Ok(Under { policy: loaded.policy, plan })
}

pub(super) fn unusable(reason: &str) -> String {
    format!("no command can be run with the profile: {reason}")
}

/// States again what was granted less of inside of what the profile grants.
fn keep_narrower(
    situation: &Situation,
    run: &Run<'_>,
    layer: &mut LayerPolicy,
    remarks: &mut Remarks,
) -> Result<(), RunError> {
    let resolved = situation.resolved()?;
    let granted = &run.account.grants;
    for path in resolved.effective() {
        let Grant::Allowed { write, execute } = path.grant else { continue };
        let above = path.destination.ancestors().skip(1).find_map(|above| granted.get(above));
        let Some((_host, above)) = above else { continue };
        let wider = (above.write && !write) || (above.execute && !execute);
        if wider && !granted.contains_key(&path.destination) {
            let access = narrower(Rights { read: true, write, execute });
            profile::state(layer, remarks, &situation.facts, access, &path.destination, &path.source);
        }
    }
    Ok(())
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

fn differences(files: &Comparison, hosts: &Compared) -> Vec<String> {
    let file =
        |change: &Change, what: &str| format!("{} {} {what}", change.path.shown(), done(change.access));
    let host = |host: &String, what: &str| format!("{host} was {what}");
    let lacks = files.lacks.iter().map(|change| file(change, "here, and the profile refuses it"));
    let widens = files.widens.iter().map(|change| file(change, "in vain, and the profile allows it"));
    let lost = hosts.lost.iter().map(|lost| host(&lost.host, "reached, and the profile refuses it"));
    let gained = hosts.gained.iter().map(|gained| host(gained, "refused, and the profile allows it"));
    [few(lacks.collect()), few(widens.collect()), few(lost.collect()), few(gained.collect())].concat()
}

/// The first of several sentences, and how many more there are.
pub(super) fn few(mut sentences: Vec<String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(TOLD);
    sentences.truncate(TOLD);
    sentences.extend((more > 0).then(|| format!("and {more} more")));
    sentences
}

/// What was done with a file.
const fn done(access: Access) -> &'static str {
    match access {
        Access::Write => "was changed",
        Access::Execute => "was executed",
        _ => "was read",
    }
}
