// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade profile`: which profiles there are, and what one says.

use crate::answer::{self, Failure, YES, harmless};
use crate::situation;
use clap::Subcommand;
use palisade_sandbox::layers::{self, Sort};
use serde::Serialize;
use std::ffi::{OsStr, OsString};

/// What of the profiles.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the profiles
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what a profile says
    Show {
        /// A name, or a file
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Answers: 0, or 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::List { json } => answer::finish(*json, list(*json)),
        What::Show { name, json } => answer::finish(*json, show(name, *json)),
    }
}

#[derive(Serialize)]
struct List {
    profiles: Vec<Listed>,
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
    /// Why it can't be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn list(json: bool) -> Result<u8, Failure> {
    let facts = situation::facts()?;
    let mut profiles: Vec<Listed> = Vec::new();
    for profile in layers::definitions(&facts, Sort::Profile) {
        let shadowed = profiles.last().is_some_and(|before| before.name == profile.name);
        let (description, error) = match layers::read(&facts, &profile) {
            Ok(policy) => (policy.description.map(|description| description.value), None),
            Err(error) => (None, Some(error.to_string())),
        };
        profiles.push(Listed {
            name: profile.name,
            layer: profile.layer.name(),
            file: profile.file.map(|file| file.to_string_lossy().into_owned()),
            description,
            shadowed,
            error,
        });
    }
    if json {
        answer::print_json(&List { profiles })?;
    } else {
        answer::print(&profiles.iter().map(Listed::line).collect::<String>())?;
    }
    Ok(YES)
}

impl Listed {
    fn line(&self) -> String {
        let about = match (&self.error, &self.description) {
            (Some(error), _) => format!("can't be used: {}", error.lines().next().unwrap_or_default()),
            (None, Some(description)) => description.clone(),
            (None, None) => String::new(),
        };
        let shadowed = if self.shadowed { ", not used: another goes before" } else { "" };
        let from = format!("({}{shadowed})", self.layer);
        format!("{:<16} {from:<14} {}\n", harmless(&self.name), harmless(&about).replace('\n', " "))
    }
}

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
    /// The statements as a policy file.
    text: String,
}

fn show(name: &OsStr, json: bool) -> Result<u8, Failure> {
    let facts = situation::facts()?;
    let policy = layers::profile(&facts, name)?;
    let text = palisade_policy::render(&policy);
    let file = policy.file.as_ref().map(|file| file.to_string_lossy().into_owned());
    if json {
        answer::print_json(&Shown {
            name: policy.name.map(|name| name.value),
            description: policy.description.map(|description| description.value),
            layer: policy.layer.name(),
            file,
            inherits: policy.inherits.into_iter().map(|inherited| inherited.value).collect(),
            text,
        })?;
    } else {
        let from = file.map_or_else(String::new, |file| {
            format!("# {} ({})\n", harmless(&file).replace('\n', " "), policy.layer)
        });
        answer::print(&format!("{from}{}", harmless(&text)))?;
    }
    Ok(YES)
}
