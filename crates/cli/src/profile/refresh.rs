// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes plans ahead of launches.
//!
//! This is optional: the next launch replaces a plan that no longer fits. But after a large upgrade, that launch would
//! have to wait.

use crate::progress::Bar;
use crate::store;
use crate::verb::{self, Exit, NO, YES};
use crate::{open, output, situation};
use palisade_sandbox::layers::own;
use palisade_sandbox::plan::cache;
use palisade_text::harmless;
use serde::Serialize;
use std::time::Instant;

/// What to refresh.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Profiles
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// Every profile whose program is on this host
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Forget all kept plans before
    #[arg(long)]
    hard: bool,
    /// Make the plans and keep none
    #[arg(long)]
    dry_run: bool,
    /// Make the plans of a user for the system's store (`palisade store`); for root
    #[arg(long, value_name = "USER", value_hint = clap::ValueHint::Username)]
    user: Option<String>,
    /// With --user: with the variables of this process of the user's; otherwise as a login gives them
    #[arg(long, value_name = "PID", requires = "user")]
    like: Option<u32>,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Refreshed {
    profiles: Vec<One>,
}

#[derive(Serialize)]
struct One {
    name: String,
    milliseconds: f64,
    steps: usize,
    kept: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Options {
    pub(super) fn run(&self) -> Exit {
        let facts = situation::facts()?;
        let names = if self.all { own::installed(&facts) } else { self.names.clone() };
        let user = self.user.as_deref().map(|name| store::for_user(name, self.like)).transpose()?;
        if self.hard && !self.dry_run {
            match &user {
                Some(user) => user.cache().clear(),
                None => cache::Cache::new(facts.places.cache.join("plans"), facts.account.uid).clear(),
            }
        }
        let mut bar = Bar::new();
        let mut profiles = Vec::new();
        for (done, name) in names.iter().enumerate() {
            if names.len() > 1 {
                let count = format!("{done}/{} {}", names.len(), harmless(name));
                bar.show(done as u64, names.len() as u64, &count);
            }
            let begun = Instant::now();
            let made = match &user {
                Some(user) => store::plan(user, name, !self.dry_run),
                None => open::ahead(name.as_ref(), !self.dry_run).map_err(|error| error.to_string()),
            };
            let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
            profiles.push(match made {
                Ok((steps, kept)) => One { name: name.clone(), milliseconds, steps, kept, error: None },
                Err(error) => {
                    One { name: name.clone(), milliseconds, steps: 0, kept: false, error: Some(error) }
                }
            });
        }
        drop(bar);
        let failed = profiles.iter().filter(|one| one.error.is_some()).count();
        if self.json {
            verb::print_json(&Refreshed { profiles })?;
        } else {
            verb::print(&profiles.iter().map(One::line).collect::<String>())?;
            let (all, kept) = (profiles.len(), profiles.iter().filter(|one| one.kept).count());
            output::note(&format_args!("{all} planned, {kept} kept, {failed} failed"));
        }
        Ok(if failed == 0 { YES } else { NO })
    }
}

impl One {
    fn line(&self) -> String {
        match &self.error {
            None => {
                format!("{:<22} {:>9.1} ms  {} steps\n", harmless(&self.name), self.milliseconds, self.steps)
            }
            Some(error) => format!("{:<22} {}\n", harmless(&self.name), harmless(&error.replace('\n', " "))),
        }
    }
}
