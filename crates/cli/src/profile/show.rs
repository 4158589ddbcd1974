// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints definitions, alone or with everything that they include.

use super::file_of;
use crate::situation;
use crate::verb::{self, Exit, YES};
use palisade_policy::feature::{Features, LeftOut};
use palisade_sandbox::layers::{self, Sort, own};
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write;

#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    inherits: Vec<String>,
    features: Vec<String>,
    configurations: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caveat: Option<String>,
    /// What the definition includes, if the user asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    expanded: Option<Expanded>,
    /// The statements as a policy file.
    text: String,
}

#[derive(Serialize)]
pub(super) struct Expanded {
    /// The features that are there, each after those that it needs, and what needs it.
    present: Vec<Present>,
    /// The features that are missing, and why.
    left_out: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Present {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    needed_by: Option<String>,
}

impl Expanded {
    pub(super) fn of(features: &Features) -> Self {
        let names = features.present.iter().filter_map(|feature| Some(feature.name.as_ref()?.value.clone()));
        let present = names
            .map(|name| Present { needed_by: features.needed_by.get(&name).cloned().flatten(), name })
            .collect();
        let left_out = features.left_out.iter().map(|(name, why)| {
            let why = match why {
                LeftOut::Without(origin) => format!("left out by `without` ({origin})"),
                LeftOut::Condition(condition) => {
                    format!("the condition isn't met: {} ({})", condition.value, condition.origin)
                }
            };
            (name.clone(), why)
        });
        Self { present, left_out: left_out.collect() }
    }

    /// As comments of a policy file.
    pub(super) fn comments(&self) -> String {
        let mut out = String::new();
        for Present { name, needed_by } in &self.present {
            let why = needed_by.as_ref().map_or_else(String::new, |by| format!(", needed by {by}"));
            let _ = writeln!(out, "# feature {}{}", harmless(name), harmless(&why));
        }
        for (name, why) in &self.left_out {
            let _ = writeln!(out, "# without {}: {}", harmless(name), harmless(why));
        }
        out
    }
}

pub(super) fn show(sort: Sort, name: &OsStr, expanded: bool, json: bool) -> Exit {
    let facts = situation::facts()?;
    let policy = match sort {
        Sort::Profile => layers::profile(&facts, name)?,
        Sort::Feature => layers::feature(&facts, &name.to_string_lossy())?,
    };
    let (text, expanded) = if expanded {
        let (whole, features) = own::whole(&mut situation::facts()?, name)?;
        (palisade_policy::render(&whole), Some(Expanded::of(&features)))
    } else {
        (palisade_policy::render(&policy), None)
    };
    let file = file_of(policy.file.as_deref());
    if json {
        let wanted = policy.features.iter().filter(|want| want.value.wanted);
        verb::print_json(&Shown {
            features: wanted.map(|want| want.value.name.clone()).collect(),
            configurations: policy.configurations.iter().map(|one| one.name.value.clone()).collect(),
            caveat: policy.caveat.map(|caveat| caveat.value),
            name: policy.name.map(|name| name.value),
            description: policy.description.map(|description| description.value),
            layer: policy.layer.name(),
            file,
            inherits: policy.inherits.into_iter().map(|inherited| inherited.value).collect(),
            expanded,
            text,
        })?;
    } else {
        let mut out =
            file.map_or_else(String::new, |file| format!("# {} ({})\n", harmless(&file), policy.layer));
        out.extend(expanded.as_ref().map(Expanded::comments));
        out.push_str(&text);
        verb::print(&out)?;
    }
    Ok(YES)
}
