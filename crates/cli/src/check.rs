// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade check`: says whether a policy file is valid.

use crate::asked::Asked;
use crate::output;
use crate::verb::{self, Failure, NO, YES};
use clap::{ArgMatches, ValueEnum, ValueHint};
use palisade::PlanningError;
use palisade_host::places::{ADMINISTRATOR, DISTRIBUTION, PROJECT_FILE};
use palisade_policy::{Layer, ParseError};
use palisade_sandbox::filter::replies::{self, Impossible};
use palisade_sandbox::layers::{self, LayerError, Sort};
use palisade_text::Show as _;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What to check.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "\
With options of `palisade run`, or a command after `--`, a launch is planned, too: with FILE by that profile, without
it by the policy files that are in force.

Examples:
  palisade check .palisade.toml
  palisade check --profile web -- npm test      would this launch come about?",
    mut_arg("dry_run", |arg| arg.help("Print the plan of the launch and check nothing")),
    mut_arg("json", |arg| arg.help("Answer as JSON")),
)]
pub(crate) struct Options {
    /// The policy file; without one the launch that the options speak of is checked
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// The layer it is for; by default the one of the place where it lies
    #[arg(long, value_name = "LAYER")]
    layer: Option<LayerName>,
    /// It is a feature, not a profile or configuration; so is what lies in a directory `features`
    #[arg(long)]
    as_feature: bool,
    #[command(flatten)]
    pub(crate) asked: Asked,
}

/// A layer that has files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LayerName {
    Distribution,
    Administrator,
    User,
    Project,
}

impl From<LayerName> for Layer {
    fn from(name: LayerName) -> Self {
        match name {
            LayerName::Distribution => Self::Distribution,
            LayerName::Administrator => Self::Administrator,
            LayerName::User => Self::User,
            LayerName::Project => Self::Project,
        }
    }
}

/// The answer about a file.
#[derive(Serialize)]
struct Output {
    #[serde(serialize_with = "verb::lossy")]
    file: PathBuf,
    layer: &'static str,
    valid: bool,
    errors: Vec<Mistake>,
    /// Statements that are valid and have no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// The answer about a launch.
#[derive(Serialize)]
struct LaunchAnswer {
    valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One mistake in the file.
#[derive(Serialize)]
struct Mistake {
    line: u32,
    column: u32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl From<&ParseError> for Mistake {
    fn from(error: &ParseError) -> Self {
        Self {
            line: error.line,
            column: error.column,
            message: error.problem.to_string(),
            hint: error.problem.hint(),
        }
    }
}

impl From<&Impossible> for Mistake {
    fn from(impossible: &Impossible) -> Self {
        let Impossible { origin, source } = impossible;
        Self { line: origin.line, column: origin.column, message: source.to_string(), hint: None }
    }
}

/// Returns the exit code: 0 if the file is valid, 1 if it isn't, 2 if it can't be read.
pub(crate) fn run(options: &Options, matches: &ArgMatches) -> u8 {
    verb::finish(options.asked.launch.json, check(options, matches))
}

fn check(options: &Options, matches: &ArgMatches) -> Result<u8, Failure> {
    let mut asked = options.asked.clone();
    let asks_for_launch = asked.asks_for_something(matches)?;
    let Some(file) = &options.file else { return check_launch(&asked, matches) };
    let answer = check_file(options, file, asks_for_launch)?;
    if answer == NO || !asks_for_launch {
        return Ok(answer);
    }
    asked.profile.get_or_insert_with(|| file.as_os_str().to_owned());
    check_launch(&asked, matches)
}

/// Whether a launch could be planned.
fn check_launch(asked: &Asked, matches: &ArgMatches) -> Result<u8, Failure> {
    let situation = match asked.request(matches)?.settle() {
        Err(PlanningError::Layer(LayerError::Parse { errors })) => {
            verb::say_parse_errors(&errors);
            return Ok(NO);
        }
        settled => settled?,
    };
    if let Some(done) = asked.dry_run(&situation) {
        return done;
    }
    let planned = situation.plan();
    let (error, hint) = match &planned {
        Ok(_plan) => (None, None),
        Err(error) => (Some(error.to_string()), error.hint()),
    };
    let notes = planned.as_ref().map(|plan| plan.notes.iter().map(ToString::to_string).collect());
    let notes: Vec<String> = notes.unwrap_or_default();
    if asked.launch.json {
        verb::print_json(&LaunchAnswer { valid: error.is_none(), error: error.clone(), hint, notes })?;
    } else if let Some(error) = &error {
        output::error(error, hint.as_deref());
    } else {
        output::say("nothing is wrong with the launch: it can be planned\n");
        notes.iter().for_each(|note: &String| output::note(note));
    }
    Ok(if error.is_none() { YES } else { NO })
}

/// Checks the file. With `more_follows`, a valid file has no answer of its own: the answer about a launch follows.
fn check_file(options: &Options, file: &Path, more_follows: bool) -> Result<u8, Failure> {
    let layer = options.layer.map_or_else(|| layer_of(file), Layer::from);
    let features = file.parent().and_then(Path::file_name) == Some(OsStr::new("features"));
    let sort = if options.as_feature || features { Sort::Feature } else { Sort::Profile };
    let mut impossible = Vec::new();
    let (errors, notes) = match layers::read_file(file, layer, sort) {
        Ok(policy) => {
            let policy = palisade_policy::merge(vec![policy]);
            impossible = replies::check(&policy);
            (Vec::new(), policy.idle().iter().map(ToString::to_string).collect())
        }
        Err(LayerError::Parse { errors }) => (errors, Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if more_follows && errors.is_empty() && impossible.is_empty() {
        return Ok(YES);
    }
    if options.asked.launch.json {
        verb::print_json(&Output {
            file: file.to_owned(),
            layer: layer.name(),
            valid: errors.is_empty() && impossible.is_empty(),
            errors: errors.iter().map(Mistake::from).chain(impossible.iter().map(Mistake::from)).collect(),
            notes,
        })?;
    } else if !impossible.is_empty() {
        impossible.iter().for_each(|impossible| output::error(impossible, None));
    } else if errors.is_empty() {
        output::say(&format!("{}: nothing is wrong with it as a {layer} policy\n", file.shown()));
        notes.iter().for_each(|note: &String| output::note(note));
    } else {
        verb::say_parse_errors(&errors);
    }
    Ok(if errors.is_empty() && impossible.is_empty() { YES } else { NO })
}

/// The layer that the directory of the file belongs to.
fn layer_of(file: &Path) -> Layer {
    let file = std::path::absolute(file).unwrap_or_else(|_empty| file.to_owned());
    if file.starts_with(ADMINISTRATOR) {
        Layer::Administrator
    } else if file.starts_with(DISTRIBUTION) {
        Layer::Distribution
    } else if file.file_name() == Some(OsStr::new(PROJECT_FILE)) {
        Layer::Project
    } else {
        Layer::User
    }
}
