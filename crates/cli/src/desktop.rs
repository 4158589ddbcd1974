// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade desktop`: an application's link, desktop entries and services start its profile, for this
//! user, until they are told not to. The system's own files are only read.
//!
//! - [`application`]: what of a profile is needed
//! - [`entry`], [`exec`], [`command`], [`overrides`]: reading desktop entries and writing those that start
//!   Palisade
//! - [`programs`], [`search`]: which of the system's files are an application's
//! - [`mime`]: who opens which files
//! - [`disk`], [`manifest`], [`install`]: making files and taking them away, whenever it is interrupted
//! - [`enable`], [`status`]: what there is to be made, and whether it is still there
//! - [`error`]: why not

mod application;
mod command;
mod disk;
mod enable;
mod entry;
mod error;
mod exec;
mod install;
mod manifest;
mod mime;
mod overrides;
mod programs;
mod search;
mod status;

use crate::answer::{self, Failure, NO, YES};
use crate::{output, situation};
use application::Application;
use clap::Subcommand;
use command::Binary;
use disk::Disk;
pub(crate) use error::DesktopError;
use install::Outcome;
use manifest::{Choices, Store};
use palisade_host::places::Trustee;
use palisade_sandbox::error::quoted;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers;
use palisade_text::Show as _;
use palisade_text::harmless;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
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

/// Answers: 0 done, or enabled and as it was made; 1 not; 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::Enable(enable) => answer::finish(enable.json, enable.run()),
        What::Disable(disable) => answer::finish(disable.json, disable.run()),
        What::Status(status) => answer::finish(status.json, status.run()),
    }
}

/// The answer of `enable` and of each `disable`.
#[derive(Serialize)]
struct Answer {
    name: String,
    enabled: bool,
    /// Files that are there.
    files: Vec<String>,
    removed: Vec<String>,
    /// Files that somebody has changed: they stay.
    left: Vec<String>,
    /// Files that were in the way.
    aside: Vec<String>,
    /// Files that were put back.
    restored: Vec<String>,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Answers<T> {
    applications: Vec<T>,
}

impl Answer {
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

/// Says what has become of the files.
fn tell(name: &str, word: &str, outcome: &Outcome) {
    let mut text = format!("{}: {word}\n", harmless(name));
    let mut line = |what: &str, path: &std::path::Path| {
        text.push_str(&format!("  {what:<14} {}\n", path.shown()));
    };
    for (kind, path) in &outcome.made {
        line(kind.name(), path);
    }
    for (_from, to) in &outcome.aside {
        line("kept aside", to);
    }
    for path in outcome.removed.iter().filter(|path| !outcome.restored.contains(path)) {
        line("removed", path);
    }
    for path in &outcome.restored {
        line("put back", path);
    }
    for path in &outcome.left {
        line("changed: stays", path);
    }
    output::say(&text);
}

fn store(facts: &Facts) -> Store {
    let account = &facts.account;
    let private_group = account.private_group.then_some(account.gid);
    Store::new(&account.home, &facts.places.state, Trustee { uid: account.uid, private_group })
}

impl Enable {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let application = Application::find(&mut facts, &self.name)?;
        let choices = self.choices()?;
        if !facts.account.home.is_dir() {
            return Err(DesktopError::Home { home: facts.account.home.clone() }.into());
        }
        let myself = std::env::current_exe().and_then(|path| path.canonicalize());
        let myself = myself.map_err(|source| DesktopError::Myself { source })?;
        let binary = Binary::new(&myself).map_err(DesktopError::from)?;
        let mut prepared = enable::prepare(&facts, &application, &binary, &choices, self.force)?;
        let name = &application.name;
        let outcome =
            install::enable(&Disk::default(), &store(&facts), &prepared.order).map_err(|source| {
                DesktopError::Enable { name: name.clone(), source, again: enable::command(name, &choices) }
            })?;
        let again = |unit: &str| format!("systemctl --user enable --now {}", quoted(unit));
        let hint = prepared.unit.as_deref().map(again);
        if self.json {
            prepared.notes.extend(hint);
            answer::print_json(&Answer::new(name, true, &outcome, prepared.notes))?;
            return Ok(YES);
        }
        tell(name, "enabled", &outcome);
        for note in &prepared.notes {
            output::note(note);
        }
        if let Some(hint) = hint {
            output::say(&format!("hint: {hint}   # starts it, now and at each login\n"));
        }
        Ok(YES)
    }

    fn choices(&self) -> Result<Choices, DesktopError> {
        if let Some(mime) = self.mime.iter().find(|mime| !mime::is_type(mime)) {
            return Err(DesktopError::Type { mime: mime.clone() });
        }
        Ok(Choices {
            create: self.create,
            separate: self.separate,
            others: self.others,
            service: self.service,
            mime: self.mime.clone(),
        })
    }
}

/// A name of which something may have been made; the profile may be gone since.
fn known_name(facts: &mut Facts, store: &Store, name: &OsStr) -> Result<String, Failure> {
    match name.to_str().filter(|name| layers::is_profile_name(name)) {
        Some(known) if store.file(known).symlink_metadata().is_ok() => Ok(known.to_owned()),
        _ => Application::find(facts, name).map(|application| application.name),
    }
}

impl Disable {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let store = store(&facts);
        let names = match &self.name {
            Some(name) => vec![known_name(&mut facts, &store, name)?],
            None => store.names().map_err(|source| DesktopError::State { source })?,
        };
        let mut answers = Vec::new();
        for name in &names {
            let unit = store.read(name).ok().flatten().filter(|manifest| manifest.choices.service);
            let outcome = install::disable(&Disk::default(), &store, name)
                .map_err(|source| DesktopError::Disable { name: name.clone(), source })?;
            let disabled = outcome.is_some();
            let outcome = outcome.unwrap_or_default();
            // What `systemctl enable` made is systemd's to take away; it does so without the unit, too.
            let unit = unit.map(|_manifest| quoted(&enable::unit_name(name)));
            let notes: Vec<String> = unit
                .into_iter()
                .map(|unit| format!("if you have started it: systemctl --user disable --now {unit}"))
                .collect();
            if !self.json {
                tell(name, if disabled { "disabled" } else { "wasn't enabled" }, &outcome);
                notes.iter().for_each(|note| output::note(note));
            }
            answers.push((disabled, Answer::new(name, false, &outcome, notes)));
        }
        let done = answers.iter().all(|(disabled, _answer)| *disabled) && !answers.is_empty();
        if self.json {
            let applications = answers.into_iter().map(|(_disabled, answer)| answer).collect();
            answer::print_json(&Answers { applications })?;
        } else if names.is_empty() {
            output::say("nothing is enabled\n");
        }
        Ok(if done { YES } else { NO })
    }
}

impl Status {
    fn run(&self) -> Result<u8, Failure> {
        let mut facts = situation::facts()?;
        let store = store(&facts);
        let names = match &self.name {
            Some(name) => vec![known_name(&mut facts, &store, name)?],
            None => store.names().map_err(|source| DesktopError::State { source })?,
        };
        let reports: Result<Vec<_>, _> = names.iter().map(|name| status::report(&store, name)).collect();
        let reports = reports?;
        let good = reports.iter().all(status::Report::is_good);
        if self.json {
            answer::print_json(&Answers { applications: reports })?;
        } else if reports.is_empty() {
            output::say("nothing is enabled\n");
        } else {
            answer::print(&reports.iter().map(status::Report::text).collect::<String>())?;
        }
        Ok(if good { YES } else { NO })
    }
}
