// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade store`: manages the system store, plans and policies for users that none of their programs can change.

use crate::verb::{self, Failure, NO, YES};
use crate::{open, output};
use clap::Subcommand;
use palisade_sandbox::plan::store::user::{ForUser, UserError};
use palisade_sandbox::plan::store::{self, STORE};
use serde::Serialize;
use std::collections::BTreeMap;

/// The system's store.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make it: from then on only the system's policy files, profiles and plans count for ordinary users
    Enable,
    /// Remove it with all plans in it
    Disable,
    /// Say whether it is there, and for whom there are plans
    Status {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Serialize)]
struct Status {
    enabled: bool,
    directory: &'static str,
    users: Vec<Plans>,
}

#[derive(Serialize)]
struct Plans {
    uid: u32,
    plans: usize,
}

pub(crate) fn run(options: &Options) -> u8 {
    let json = matches!(options.what, What::Status { json: true });
    verb::finish(
        json,
        match options.what {
            What::Enable => enable(),
            What::Disable => disable(),
            What::Status { json } => status(json),
        },
    )
}

fn root_only() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(Failure::RootOnly { what: "the system's store" })
    }
}

fn enable() -> Result<u8, Failure> {
    root_only()?;
    store::make().map_err(|errno| Failure::Write { path: STORE.into(), source: errno.into() })?;
    output::note(&"from now on only the system's policy files and profiles count for ordinary users");
    output::note(&"plans are made ahead by: palisade profile refresh --all --user NAME");
    Ok(YES)
}

fn disable() -> Result<u8, Failure> {
    root_only()?;
    let removed = store::remove().map_err(|source| Failure::Write { path: STORE.into(), source })?;
    Ok(if removed { YES } else { NO })
}

fn status(json: bool) -> Result<u8, Failure> {
    let enabled = store::is_there();
    let users = if enabled { store::users() } else { BTreeMap::new() };
    let users: Vec<Plans> = users.into_iter().map(|(uid, plans)| Plans { uid, plans }).collect();
    if json {
        verb::print_json(&Status { enabled, directory: STORE, users })?;
    } else {
        let mut text =
            format!("{STORE}: {}\n", if enabled { "only the system's policy counts" } else { "not there" });
        for user in &users {
            text.push_str(&format!("  user {}: {} plans\n", user.uid, user.plans));
        }
        verb::print(&text)?;
    }
    Ok(if enabled { YES } else { NO })
}

impl From<UserError> for Failure {
    fn from(error: UserError) -> Self {
        match error {
            UserError::NoStore => Self::NoStore,
            UserError::NoAccount { name } => Self::NoAccount { name },
            UserError::Account(error) => Self::Account(error),
            UserError::Variables { path, source } => Self::Read { path, source },
        }
    }
}

/// The user called `name`, with the variables of process `like`.
pub(crate) fn for_user(name: &str, like: Option<u32>) -> Result<ForUser, Failure> {
    root_only()?;
    Ok(ForUser::new(name, like)?)
}

/// Makes the plan of a profile for a user, and keeps it if asked to. Returns the number of steps, and whether it is kept.
pub(crate) fn plan(user: &ForUser, profile: &str, keep: bool) -> Result<(usize, bool), String> {
    user.plan(keep, || open::for_store(profile.as_ref()).map_err(|error| error.to_string()))
}
