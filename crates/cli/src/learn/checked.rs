// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compares a learned profile with the run that it was learned from, and describes the differences in words.

use super::{Situation, Under};
use crate::run::RunError;
use palisade_policy::render::Remarks;
use palisade_policy::{Access, Layer, LayerPolicy};
use palisade_sandbox::layers;
use palisade_sandbox::learned::calls::CallDifference;
pub(super) use palisade_sandbox::learned::check::Run;
use palisade_sandbox::learned::check::{self, Differences, Ground};
use palisade_sandbox::learned::{Change, Disk};
use palisade_text::Show as _;

/// How many differences of one kind are printed.
const TOLD: usize = 12;

/// A profile, and where it differs from its run.
pub(super) struct Checked {
    /// The profile as a file.
    pub(super) text: String,
    /// Sentences about where it differs from the run.
    pub(super) differences: Vec<String>,
}

/// Keeps refused what the run was refused, and describes where the profile still differs from the run.
pub(super) fn check(
    situation: &Situation,
    run: &Run<'_>,
    layer: LayerPolicy,
    remarks: Remarks,
) -> Result<Checked, RunError> {
    let ground = Ground {
        facts: &situation.facts,
        resolved: &situation.resolved()?,
        host: &Disk,
        under: &|text| under(situation, text),
    };
    let checked = check::check(&ground, run, layer, remarks)?;
    let differences = match checked.differences {
        Ok(differences) => sentences(&differences),
        Err(reason) => vec![unusable(&reason)],
    };
    Ok(Checked { text: checked.text, differences })
}

/// The policy and plan of the command with the profile as it is written; an error says why there is none. The plan uses
/// the system calls that were learned under the profile of the run; with the new profile they become the new profile's.
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

fn sentences(differences: &Differences) -> Vec<String> {
    let Differences { files, hosts, calls } = differences;
    let file =
        |change: &Change, what: &str| format!("{} {} {what}", change.path.shown(), done(change.access));
    let host = |host: &String, what: &str| format!("{host} was {what}");
    let call = |call: &CallDifference| match call {
        CallDifference::Refused(call) => {
            format!("the system call {call} was made, and the profile refuses it")
        }
        CallDifference::Made(call) => {
            format!("the system call {call} was refused, and the profile allows it")
        }
        CallDifference::Known(call) => {
            format!("the system call {call} was refused, but it was learned for the profile before")
        }
    };
    let lacks = files.lacks.iter().map(|change| file(change, "in this run, and the profile refuses it"));
    let widens = files.widens.iter().map(|change| file(change, "without success, and the profile allows it"));
    let lost = hosts.lost.iter().map(|lost| host(&lost.host, "reached, and the profile refuses it"));
    let gained = hosts.gained.iter().map(|gained| host(gained, "refused, and the profile allows it"));
    [
        few(lacks.collect()),
        few(widens.collect()),
        few(lost.collect()),
        few(gained.collect()),
        few(calls.iter().map(call).collect()),
    ]
    .concat()
}

/// The first sentences, and how many more there are.
pub(super) fn few(mut sentences: Vec<String>) -> Vec<String> {
    let more = sentences.len().saturating_sub(TOLD);
    sentences.truncate(TOLD);
    sentences.extend((more > 0).then(|| format!("and {more} more")));
    sentences
}

/// What was done with a file, in words.
const fn done(access: Access) -> &'static str {
    match access {
        Access::Write => "was changed",
        Access::Execute => "was executed",
        _ => "was read",
    }
}
