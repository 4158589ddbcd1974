// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade project`: allows a project's policy file, and revokes it.

use crate::output;
use crate::situation;
use crate::verb::{self, Failure, NO, YES};
use clap::{Subcommand, ValueHint};
use palisade_host::places::PROJECT_FILE;
use palisade_sandbox::error::quoted;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::trust::Status;
use palisade_sandbox::layers::{self, Project};
use palisade_text::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What to do with a project's file.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Put the project's file in force as it is now; any edit takes it out again
    Allow {
        #[command(flatten)]
        which: Which,
        /// Don't ask
        #[arg(long, short)]
        yes: bool,
    },
    /// Take the project's file out of force
    Revoke {
        #[command(flatten)]
        which: Which,
    },
    /// Say whether the project's file is in force
    Status {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The project's directory, or one in it; by default the working directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    directory: Option<PathBuf>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// The JSON answer.
#[derive(Serialize)]
struct Output {
    #[serde(serialize_with = "verb::lossy")]
    file: PathBuf,
    /// `allowed`, `changed`, `not-allowed` or `absent`.
    status: &'static str,
    /// Whether the file is in force.
    in_force: bool,
    /// Whether this call changed that.
    changed: bool,
}

/// Returns the exit code: 0 the file is in force (`revoke`: it was allowed), 1 not, 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::Allow { which, yes } => verb::finish(which.json, allow(which, *yes)),
        What::Revoke { which } => verb::finish(which.json, revoke(which)),
        What::Status { which } => verb::finish(which.json, status(which)),
    }
}

/// The host as seen from the directory in question, and the project file there.
fn find(which: &Which) -> Result<(Facts, Option<Project>), Failure> {
    let mut facts = situation::facts()?;
    if let Some(directory) = &which.directory {
        facts.cwd = facts
            .cwd
            .join(directory)
            .canonicalize()
            .map_err(|source| Failure::Read { path: directory.clone(), source })?;
    }
    let project = layers::find_project(&facts)?;
    Ok((facts, project))
}

const fn word(status: Status) -> &'static str {
    match status {
        Status::Allowed => "allowed",
        Status::Changed => "changed",
        Status::Unknown => "not-allowed",
    }
}

fn tell(which: &Which, file: &Path, status: &'static str, changed: bool, words: &str) -> Result<(), Failure> {
    if which.json {
        let answer = Output { file: file.to_owned(), status, in_force: status == "allowed", changed };
        return verb::print_json(&answer);
    }
    output::say(&format!("{}: {words}\n", harmless(&quoted(&file.to_string_lossy()))));
    Ok(())
}

fn allow(which: &Which, yes: bool) -> Result<u8, Failure> {
    let (facts, project) = find(which)?;
    let project = project.ok_or(Failure::NoProject { directory: facts.cwd.clone() })?;
    if project.status == Status::Allowed {
        tell(which, &project.file, "allowed", false, "already in force")?;
        return Ok(YES);
    }
    // A file that isn't valid can't be allowed.
    let policy = project.parse()?;
    if !yes {
        output::say(&format!(
            "{} wants, for every launch in {} and below:\n\n{}\n",
            harmless(&quoted(&project.file.to_string_lossy())),
            harmless(&quoted(&project.directory().to_string_lossy())),
            palisade_policy::render(&policy),
        ));
        if !verb::confirmed("Put it in force? [y/N] ").ok_or(Failure::NobodyToAsk)? {
            tell(which, &project.file, word(project.status), false, "not put in force")?;
            return Ok(NO);
        }
    }
    // The bytes that were shown are allowed, even if the file has changed since.
    layers::store(&facts).allow(&project.file, &project.content)?;
    tell(which, &project.file, "allowed", true, "in force until it is edited or revoked")?;
    Ok(YES)
}

fn revoke(which: &Which) -> Result<u8, Failure> {
    let (facts, project) = match find(which) {
        // A file that can't be read any more can still be revoked.
        Err(Failure::Layer(layers::LayerError::Read { .. })) => {
            let mut facts = situation::facts()?;
            if let Some(directory) = &which.directory {
                facts.cwd = facts.cwd.join(directory);
            }
            (facts, None)
        }
        found => found?,
    };
    let file = project.map_or_else(|| facts.cwd.join(PROJECT_FILE), |project| project.file);
    let was = layers::store(&facts).revoke(&file)?;
    let words = if was { "no longer in force" } else { "wasn't allowed" };
    tell(which, &file, "not-allowed", was, words)?;
    Ok(if was { YES } else { NO })
}

fn status(which: &Which) -> Result<u8, Failure> {
    let (facts, project) = find(which)?;
    let Some(project) = project else {
        tell(which, &facts.cwd.join(PROJECT_FILE), "absent", false, "there is none, here or above")?;
        return Ok(NO);
    };
    let words = match project.status {
        Status::Allowed => "in force",
        Status::Changed => "not in force: it has changed since it was allowed",
        Status::Unknown => "not in force",
    };
    tell(which, &project.file, word(project.status), false, words)?;
    Ok(if project.status == Status::Allowed { YES } else { NO })
}
