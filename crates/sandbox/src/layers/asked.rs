// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the user should know of the features that the command line asks for. A profile's author chose the other ones.

use std::ffi::OsStr;
use std::path::Path;

use palisade_policy::condition::Fact;
use palisade_policy::feature::{Features, LeftOut};
use palisade_policy::{Context, Layer, LayerPolicy};

use crate::error::quoted;
use crate::facts::Facts;

/// Notes about the features that the command line, one of `layers`, asks for: the caveat of each; which ones do nothing here;
/// and which socket or file does not exist that a variable names.
pub(super) fn notes(
    layers: &[LayerPolicy],
    features: &Features,
    context: &Context,
    facts: &Facts,
) -> Vec<String> {
    let asked: Vec<&str> = layers
        .iter()
        .filter(|layer| layer.layer == Layer::CommandLine)
        .flat_map(|layer| &layer.features)
        .filter(|want| want.value.wanted)
        .map(|want| want.value.name.as_str())
        .collect();
    let mut notes = Vec::new();
    for feature in &features.present {
        let Some(name) = feature.name.as_ref().filter(|name| asked.contains(&name.value.as_str())) else {
            continue;
        };
        if let Some(caveat) = &feature.caveat {
            notes.push(format!("feature {}: {}", name.value, caveat.value));
        }
        for condition in &feature.when {
            if let Fact::Variable(variable, _) = &condition.value.fact
                && let Some(path) = missing(variable, context, facts)
            {
                notes.push(format!(
                    "feature {}: {variable} names {}, which does not exist",
                    name.value,
                    quoted(&path)
                ));
            }
        }
    }
    for (name, why) in &features.left_out {
        if let LeftOut::Condition(condition) = why
            && asked.contains(&name.as_str())
        {
            notes.push(format!(
                "feature {name} does nothing here: its condition `{}` does not hold",
                condition.value
            ));
        }
    }
    notes
}

/// The absolute path that the variable has as its value, if nothing is there.
fn missing(variable: &str, context: &Context, facts: &Facts) -> Option<String> {
    let path = Path::new(context.environment.get(OsStr::new(variable))?);
    (path.is_absolute() && !facts.is_there(path)).then(|| path.to_string_lossy().into_owned())
}
