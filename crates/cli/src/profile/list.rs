// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists definitions.

use super::file_of;
use crate::situation;
use crate::verb::{self, Exit, YES};
use palisade_policy::word::HomePolicy;
use palisade_policy::{LayerPolicy, merge};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Sort};
use palisade_sandbox::layers::{application, profiles};
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct List {
    #[serde(skip_serializing_if = "Option::is_none")]
    profiles: Option<Vec<Listed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<Vec<Listed>>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    layer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Another of the same name is used instead.
    shadowed: bool,
    /// Whether a test has launched it as it is shipped. `None` if it opens no application.
    #[serde(skip_serializing_if = "Option::is_none")]
    tested: Option<bool>,
    /// Whether its program is on this host. `None` if it opens no application.
    #[serde(skip_serializing_if = "Option::is_none")]
    installed: Option<bool>,
    /// What it does with its home, if it needs one.
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<&'static str>,
    /// Why it can't be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Prints the names, one a line.
pub(super) fn names(sort: Sort) -> Exit {
    let facts = situation::facts()?;
    let mut names: Vec<String> =
        layers::definitions(&facts, sort).into_iter().map(|found| found.name).collect();
    names.dedup();
    let lines: String = names.iter().map(|name| format!("{}\n", harmless(name))).collect();
    verb::print(&lines)?;
    Ok(YES)
}

pub(super) fn list(sort: Sort, installed_only: bool, json: bool) -> Exit {
    let facts = situation::facts()?;
    let mut listed: Vec<Listed> = Vec::new();
    let mut homes = Homes::default();
    for definition in layers::definitions(&facts, sort) {
        let shadowed = listed.last().is_some_and(|before| before.name == definition.name);
        let read = layers::read(&facts, &definition);
        // A profile opens an application if it says how that is launched.
        let opens = read.as_ref().is_ok_and(|policy| sort == Sort::Profile && policy.launch.is_some());
        let (description, error) = match &read {
            Ok(policy) => (policy.description.as_ref().map(|text| text.value.clone()), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let shipped = definition.file.is_none();
        if let (Ok(policy), false) = (&read, shadowed) {
            homes.note(&definition.name, policy);
        }
        listed.push(Listed {
            installed: read
                .ok()
                .filter(|_| opens)
                .map(|policy| is_installed(&facts, &definition.name, policy)),
            tested: opens.then(|| shipped && profiles::is_tested(&definition.name)),
            layer: definition.layer.name(),
            file: file_of(definition.file.as_deref()),
            name: definition.name,
            description,
            shadowed,
            home: None,
            error,
        });
    }
    if sort == Sort::Profile {
        for listed in &mut listed {
            listed.home = homes.of(&listed.name, DEEPEST);
        }
    }
    if installed_only {
        listed.retain(|listed| listed.installed == Some(true));
    }
    if json {
        let (profiles, features) = match sort {
            Sort::Profile => (Some(listed), None),
            Sort::Feature => (None, Some(listed)),
        };
        verb::print_json(&List { profiles, features })?;
    } else {
        verb::print(&listed.iter().map(Listed::line).collect::<String>())?;
    }
    Ok(YES)
}

/// As deep as profiles may inherit from others.
const DEEPEST: u32 = 16;

/// What profiles state about their homes: a profile's own statement, and the profiles that it inherits.
#[derive(Default)]
struct Homes(BTreeMap<String, (HomePolicy, Vec<String>)>);

impl Homes {
    fn note(&mut self, name: &str, policy: &LayerPolicy) {
        let inherits = policy.inherits.iter().map(|name| name.value.clone()).collect();
        self.0.insert(name.to_owned(), (merge(vec![policy.clone()]).home().value, inherits));
    }

    fn of(&self, name: &str, depth: u32) -> Option<&'static str> {
        let (own, inherits) = self.0.get(name)?;
        match own {
            HomePolicy::None => {
                let depth = depth.checked_sub(1)?;
                inherits.iter().rev().find_map(|name| self.of(name, depth))
            }
            own => Some(own.key()),
        }
    }
}

fn is_installed(facts: &Facts, name: &str, profile: LayerPolicy) -> bool {
    application::program_of(facts, name, &merge(vec![profile])).is_some()
}

impl Listed {
    fn line(&self) -> String {
        let about = match (&self.error, &self.description) {
            (Some(error), _) => format!("can't be used: {}", error.lines().next().unwrap_or_default()),
            (None, Some(description)) => description.clone(),
            (None, None) => String::new(),
        };
        let needs = if self.home.is_some() { " Needs a home." } else { "" };
        let mut remarks = vec![self.layer];
        if self.shadowed {
            remarks.push("not used: another one overrides it");
        }
        match (self.tested, self.installed) {
            (Some(true), _) => remarks.push("tested"),
            (Some(false), _) => remarks.push("untested"),
            (None, _) => {}
        }
        if self.installed == Some(false) {
            remarks.push("not installed");
        }
        let from = format!("({})", remarks.join(", "));
        format!("{:<22} {from:<36} {}{needs}\n", harmless(&self.name), harmless(&about.replace('\n', " ")))
    }
}
