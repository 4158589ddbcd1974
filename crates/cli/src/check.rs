// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade check`: whether a policy file says what can be understood.

use crate::answer::{self, Failure, NO, YES};
use crate::output;
use clap::{ValueEnum, ValueHint};
use palisade_host::places::{ADMINISTRATOR, DISTRIBUTION, PROJECT_FILE};
use palisade_policy::{Layer, ParseError};
use palisade_sandbox::filter::answering::{self, Impossible};
use palisade_sandbox::layers::{self, LayerError, Sort};
use palisade_text::Show as _;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// What to check.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The policy file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// The layer it is for; by default the one of the place where it lies
    #[arg(long, value_name = "LAYER")]
    layer: Option<LayerName>,
    /// It is a feature, not a profile or configuration; so is what lies in a directory `features`
    #[arg(long)]
    feature: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
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

/// The answer.
#[derive(Serialize)]
struct Answer {
    #[serde(serialize_with = "answer::lossy")]
    file: PathBuf,
    layer: &'static str,
    valid: bool,
    errors: Vec<Mistake>,
    /// What can be understood and has no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One thing wrong.
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

/// Answers: 0 it can be understood, 1 it can't, 2 it can't be read.
pub(crate) fn run(options: &Options) -> u8 {
    answer::finish(options.json, check(options))
}

fn check(options: &Options) -> Result<u8, Failure> {
    let file = &options.file;
    let layer = options.layer.map_or_else(|| layer_of(file), Layer::from);
    let features = file.parent().and_then(Path::file_name) == Some(OsStr::new("features"));
    let sort = if options.feature || features { Sort::Feature } else { Sort::Profile };
    let mut impossible = Vec::new();
    let (errors, notes) = match layers::read_file(file, layer, sort) {
        Ok(policy) => {
            let policy = palisade_policy::merge(vec![policy]);
            impossible = answering::check(&policy);
            (Vec::new(), policy.idle().iter().map(ToString::to_string).collect())
        }
        Err(LayerError::Parse { errors }) => (errors, Vec::new()),
        Err(error) => return Err(error.into()),
    };
    if options.json {
        answer::print_json(&Answer {
            file: file.clone(),
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
        answer::say_parse_errors(&errors);
    }
    Ok(if errors.is_empty() && impossible.is_empty() { YES } else { NO })
}

/// The layer of the place where a file lies.
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
