// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade guard trust`: lists, checks and changes which files are trusted.
//!
//! - [`show`]: lists the database, and compares it with the disk
//! - [`edit`]: changes the administrator's own trust files
//! - [`rebuild`]: makes the database from packages, directories and trust files

mod edit;
mod rebuild;
mod show;

use super::Places;
use crate::verb::{Exit, Failure};
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// What of trust.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// List the trusted files
    List {
        #[command(flatten)]
        which: Which,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Trust files as they are now, or all files below directories
    Add {
        /// Files and directories
        #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Write them to this file in trust.d, not to guard.trust
        #[arg(long, value_name = "NAME")]
        file: Option<String>,
    },
    /// Trust files that were added no more, or all below directories
    Delete {
        /// Files and directories
        #[arg(value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Only entries of this file in trust.d
        #[arg(long, value_name = "NAME")]
        file: Option<String>,
    },
    /// Trust files that were added as they are now
    Update {
        /// Files and directories; otherwise all that were added
        #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
        paths: Vec<PathBuf>,
        /// Only entries of this file in trust.d
        #[arg(long, value_name = "NAME")]
        file: Option<String>,
    },
    /// Hash all trusted files and list those that differ from the database; answers 1 if there are any
    Verify {
        #[command(flatten)]
        which: Which,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show which sources trust files, and whether the files are unchanged; answers 1 if one isn't trusted
    Check {
        /// The files
        #[arg(value_name = "PATH", required = true, value_hint = ValueHint::FilePath)]
        paths: Vec<PathBuf>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the database anew, of packages, directories and trust files
    Rebuild {
        /// Hash also what looks as it did
        #[arg(long)]
        everything: bool,
    },
    /// Wait until what packages and trust files say by now is in force
    Sync {
        /// Give up after this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=600))]
        within: u64,
        /// Do nothing if palisaded doesn't run: it looks at the packages when it starts
        #[arg(long)]
        if_running: bool,
    },
    /// Print the database: source, path, size and digest, a line each
    Dump {
        #[command(flatten)]
        which: Which,
    },
}

/// Which trusted files.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Only those of this source: dpkg, rpm, file or directory, or one of these by its name or path
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Only this file or directory and what is below it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    below: Option<PathBuf>,
}

impl What {
    /// Whether the answer is JSON.
    pub(super) fn json(&self) -> bool {
        matches!(
            self,
            Self::List { json: true, .. } | Self::Verify { json: true, .. } | Self::Check { json: true, .. }
        )
    }
}

/// Runs the verb.
pub(super) fn run(places: &Places, what: &What) -> Exit {
    match what {
        What::List { which, json } => show::list(places, which, *json),
        What::Verify { which, json } => show::verify(places, which, *json),
        What::Check { paths, json } => show::check(places, paths, *json),
        What::Dump { which } => show::dump(places, which),
        What::Add { paths, file } => edit::add(places, paths, file.as_deref()),
        What::Delete { paths, file } => edit::delete(places, paths, file.as_deref()),
        What::Update { paths, file } => edit::update(places, paths, file.as_deref()),
        What::Sync { within, if_running } => rebuild::sync(places, *within, *if_running),
        What::Rebuild { everything } => rebuild::rebuild(places, *everything),
    }
}

/// Only root may change the files of the whole host. Another configuration directory isn't restricted.
fn only_root(places: &Places, what: &'static str) -> Result<(), Failure> {
    let own = places.config.as_path() != std::path::Path::new(super::CONFIG);
    if own || rustix::process::geteuid().is_root() { Ok(()) } else { Err(Failure::RootOnly { what }) }
}
