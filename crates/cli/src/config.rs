// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade config`: shows the merged policy with its origins, and where its files are.

use crate::situation;
use crate::verb::{self, Failure, YES};
use clap::Subcommand;
use palisade::explanation;
use palisade_host::places::{self, PROJECT_FILE};
use palisade_policy::Layer;
use palisade_policy::statement::{self, Statement, Value};
use palisade_sandbox::layers::{self, Sort};
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// What of the configuration.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print the merged policy
    Show(Show),
    /// Print which files and directories count
    Paths {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, clap::Args)]
struct Show {
    /// Say where each statement comes from, and which are overridden
    #[arg(long)]
    origin: bool,
    /// Take the rules of a profile too: a name, or a file
    #[arg(long, short, value_name = "PROFILE")]
    profile: Option<OsString>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// Returns the exit code: 0, or 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::Show(show) => verb::finish(show.json, shown(show)),
        What::Paths { json } => verb::finish(*json, paths(*json)),
    }
}

fn shown(show: &Show) -> Result<u8, Failure> {
    let situation = situation::of_profile(show.profile.as_deref())?;
    for note in &situation.loaded.notes {
        crate::output::note(note);
    }
    let statements = statement::statements(situation.policy(), &situation.resolved()?);
    if show.json {
        verb::print_json(&Settings { settings: statements.iter().map(Setting::from).collect() })?;
    } else {
        verb::print(&statement::toml(&statements, show.origin))?;
    }
    Ok(YES)
}

#[derive(Serialize)]
struct Settings<'s> {
    settings: Vec<Setting<'s>>,
}

/// A statement in the JSON output.
#[derive(Serialize)]
struct Setting<'s> {
    section: &'static str,
    key: &'s str,
    value: &'s Value,
    list: bool,
    in_force: bool,
    #[serde(flatten)]
    place: explanation::Place,
}

impl<'s> From<&'s Statement> for Setting<'s> {
    fn from(statement: &'s Statement) -> Self {
        let &Statement { section, list, in_force, strength, .. } = statement;
        let place = explanation::Place::new(&statement.origin, strength);
        Self { section, key: &statement.key, value: &statement.value, list, in_force, place }
    }
}

/// A file or directory that Palisade reads.
#[derive(Serialize)]
struct Place {
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<&'static str>,
    #[serde(serialize_with = "verb::lossy")]
    path: PathBuf,
    present: bool,
}

#[derive(Serialize)]
struct Places {
    paths: Vec<Place>,
}

fn paths(json: bool) -> Result<u8, Failure> {
    let facts = situation::facts()?;
    let mut paths = Vec::new();
    let mut add = |what, layer: Option<Layer>, path: PathBuf| {
        let present = path.symlink_metadata().is_ok();
        paths.push(Place { what, layer: layer.map(Layer::name), path, present });
    };
    for source in layers::sources(&facts) {
        add("policy", Some(source.layer), source.file);
    }
    let project = places::project_file(&facts.cwd, &facts.account.home);
    add("policy", Some(Layer::Project), project.unwrap_or_else(|| facts.cwd.join(PROJECT_FILE)));
    for (layer, directory) in layers::directories(&facts, Sort::Profile) {
        add("profiles", Some(layer), directory);
    }
    add("plans", None, facts.places.cache.join("plans"));
    add("allowed projects", None, facts.places.state.join("projects"));
    add("running sandboxes", None, facts.places.runtime.clone());
    add(
        "hosts always allowed",
        None,
        facts.places.state.join(palisade_sandbox::network::approvals::DIRECTORY),
    );
    if json {
        verb::print_json(&Places { paths })?;
    } else {
        let line = |place: &Place| {
            let what = match place.layer {
                Some(layer) => format!("{} ({layer})", place.what),
                None => place.what.to_owned(),
            };
            let absent = if place.present { "" } else { " (not there)" };
            format!("{what:<26} {}{absent}\n", palisade_text::harmless(&place.path.to_string_lossy()))
        };
        verb::print(&paths.iter().map(line).collect::<String>())?;
    }
    Ok(YES)
}
