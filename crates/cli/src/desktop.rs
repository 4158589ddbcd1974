// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade desktop`: makes an application's link, desktop entries and services start its profile, for this user,
//! until the user disables that. The crate `palisade_desktop` makes the files. This module has the options and the
//! output.
//!
//! - [`words`]: the output for people: what happened to files, and notes

pub(crate) mod words;

use crate::verb::{self, Failure, NO, YES};
use crate::{output, situation};
use clap::Subcommand;
use palisade_desktop::{Choices, Desktop, FindError, Outcome};
use palisade_sandbox::error::quoted;
use palisade_sandbox::facts::Facts;
use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// What to do with an application.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Have an application's link, desktop entry and services start its profile
    Enable(Enable),
    /// Take away what `enable` made, and put back what was there before
    Disable(Disable),
    /// Say what is enabled, and whether it is still as it was made
    Status(Status),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything is made below your home and listed in $XDG_STATE_HOME/palisade/desktop; the system's
files stay as they are. What an earlier `enable` made and this one doesn't ask for goes.

Examples:
  palisade desktop enable okular                         the link, the entry, services of the bus
  palisade desktop enable okular --others                and the entries for single types of files
  palisade desktop enable okular --mime application/pdf  and have it open these
  palisade desktop enable syncthing --service            and a unit for systemd --user")]
struct Enable {
    /// The profile
    #[arg(value_name = "APP")]
    name: OsString,
    /// Make a desktop entry where the system has none that can be used
    #[arg(long)]
    create: bool,
    /// Make a desktop entry for each configuration, not an action of the one
    #[arg(long)]
    separate: bool,
    /// Take other desktop entries that start the same program, too
    #[arg(long)]
    others: bool,
    /// Have it open files of these types by default
    #[arg(long, value_name = "TYPE", num_args = 1.., value_delimiter = ',')]
    mime: Vec<String>,
    /// Make a unit for systemd --user; it isn't started
    #[arg(long)]
    service: bool,
    /// Keep aside what is in the way
    #[arg(long)]
    force: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Disable {
    /// The profile
    #[arg(value_name = "APP", required_unless_present = "all", conflicts_with = "all")]
    name: Option<OsString>,
    /// All that are enabled
    #[arg(long)]
    all: bool,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Status {
    /// The profile; by default all that are enabled
    #[arg(value_name = "APP")]
    name: Option<OsString>,
    /// Answer as JSON
    #[arg(long)]
    json: bool,
}

/// Returns the exit code: 0 done, or enabled and unchanged; 1 not; 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::Enable(enable) => verb::finish(enable.json, enable.run()),
        What::Disable(disable) => verb::finish(disable.json, disable.run()),
        What::Status(status) => verb::finish(status.json, status.run()),
    }
}

/// The JSON answer of `enable`, and of `disable` for each application.
#[derive(Serialize)]
struct Output {
    name: String,
    enabled: bool,
    /// Files that exist now.
    files: Vec<String>,
    removed: Vec<String>,
    /// Files that were changed since Palisade made them: they stay.
    left: Vec<String>,
    /// Files that were in the way and are kept aside.
    aside: Vec<String>,
    /// Files that were put back.
    restored: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Outputs<T> {
    applications: Vec<T>,
}

impl Output {
    fn new(name: &str, enabled: bool, outcome: &Outcome, notes: Vec<String>) -> Self {
        let texts =
            |paths: &[PathBuf]| paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let kept: Vec<PathBuf> = outcome.aside.iter().map(|(_from, to)| to.clone()).collect();
        let made: Vec<PathBuf> = outcome.made.iter().map(|(_kind, path)| path.clone()).collect();
        Self {
            name: name.to_owned(),
            enabled,
            files: texts(&made),
            removed: texts(&outcome.removed),
            left: texts(&outcome.left),
            aside: texts(&kept),
            restored: texts(&outcome.restored),
            notes,
        }
    }
}

impl From<FindError> for Failure {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Layer(error) => error.into(),
            FindError::Desktop(error) => error.into(),
        }
    }
}

impl Enable {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let done = Desktop::of(&mut facts).enable(&self.name, &self.choices(), self.force)?;
        let mut notes: Vec<String> = done.notes.iter().map(words::note).collect();
        let again = |unit: &String| format!("systemctl --user enable --now {}", quoted(unit));
        let hint = done.unit.as_ref().map(again);
        if self.json {
            notes.extend(hint);
            verb::print_json(&Output::new(&done.name, true, &done.outcome, notes))?;
            return Ok(YES);
        }
        output::say(&words::outcome(&done.name, "enabled", &done.outcome));
        notes.iter().for_each(|note| output::note(note));
        if let Some(hint) = hint {
            output::say(&format!("hint: {hint}   # starts it, now and at each login\n"));
        }
        Ok(YES)
    }

    fn choices(&self) -> Choices {
        Choices {
            create: self.create,
            separate: self.separate,
            others: self.others,
            service: self.service,
            mime: self.mime.clone(),
        }
    }
}

/// The named application, or all enabled applications.
fn names(facts: &mut Facts, name: Option<&OsString>) -> Result<Vec<String>, Failure> {
    let mut desktop = Desktop::of(facts);
    match name {
        Some(name) => Ok(vec![desktop.known(name)?]),
        None => Ok(desktop.names()?),
    }
}

impl Disable {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let names = names(&mut facts, self.name.as_ref())?;
        let desktop = Desktop::of(&mut facts);
        let mut answers = Vec::new();
        for name in &names {
            let done = desktop.disable(name)?;
            let disabled = done.outcome.is_some();
            let outcome = done.outcome.unwrap_or_default();
            let note = |unit: String| {
                format!("if you have started it: systemctl --user disable --now {}", quoted(&unit))
            };
            let notes: Vec<String> = done.unit.map(note).into_iter().collect();
            if !self.json {
                let word = if disabled { "disabled" } else { "wasn't enabled" };
                output::say(&words::outcome(name, word, &outcome));
                notes.iter().for_each(|note| output::note(note));
            }
            answers.push((disabled, Output::new(name, false, &outcome, notes)));
        }
        let done = answers.iter().all(|(disabled, _answer)| *disabled) && !answers.is_empty();
        if self.json {
            let applications = answers.into_iter().map(|(_disabled, answer)| answer).collect();
            verb::print_json(&Outputs { applications })?;
        } else if names.is_empty() {
            output::say("nothing is enabled\n");
        }
        Ok(if done { YES } else { NO })
    }
}

impl Status {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let names = names(&mut facts, self.name.as_ref())?;
        let desktop = Desktop::of(&mut facts);
        let reports: Result<Vec<_>, _> = names.iter().map(|name| desktop.status(name)).collect();
        let reports = reports?;
        let good = reports.iter().all(|report| report.is_good());
        if self.json {
            verb::print_json(&Outputs { applications: reports })?;
        } else if reports.is_empty() {
            output::say("nothing is enabled\n");
        } else {
            verb::print(&reports.iter().map(words::report).collect::<String>())?;
        }
        Ok(if good { YES } else { NO })
    }
}
