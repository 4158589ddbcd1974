// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade profile` and `palisade feature`: list, show and change definitions.
//!
//! - [`list`], [`show`]: reading
//! - [`change`]: making, editing, comparing and removing the user's own
//! - [`export`]: one file that needs no other, also in the languages of other sandboxes
//! - [`refresh`]: plans made ahead

mod change;
mod export;
mod list;
mod refresh;
mod show;

pub(crate) use change::write;

use crate::verb;
use clap::Subcommand;
use palisade_sandbox::layers::Sort;
use std::ffi::OsString;

/// What of the profiles.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the profiles
    ///
    /// `palisade open` gives a profile that needs a home one of its own. `palisade run --profile` takes --home-name for it.
    List {
        /// Only profiles whose program is on this host
        #[arg(long)]
        installed: bool,
        /// Only the names
        #[arg(long, conflicts_with_all = ["installed", "json"])]
        names: bool,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a profile
    Show {
        /// A name, or a file
        #[arg(value_name = "NAME")]
        name: OsString,
        /// With everything that it inherits and that its features add
        #[arg(long)]
        expanded: bool,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a profile of your own: for commands, or for an application
    Create(change::Create),
    /// Edit a profile, or a copy of a shipped one, with $VISUAL or $EDITOR
    Edit(change::Edit),
    /// Compare a profile of yours with the one that it replaces
    Diff(change::Diff),
    /// Remove a profile of yours; a shipped one of that name holds again
    Remove(change::Remove),
    /// Make the plans of profiles ahead of their next launch
    Refresh(refresh::Options),
    /// Write a profile as one file that needs no other
    Export(export::Options),
}

/// Returns the exit code: 0, 1 no, or 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    let sort = Sort::Profile;
    match &options.what {
        What::List { names: true, .. } => verb::finish(false, list::names(sort)),
        What::List { installed, json, .. } => verb::finish(*json, list::list(sort, *installed, *json)),
        What::Show { name, expanded, json } => verb::finish(*json, show::show(sort, name, *expanded, *json)),
        What::Create(create) => verb::finish(false, change::create(sort, create)),
        What::Edit(edit) => verb::finish(false, edit.run(sort)),
        What::Diff(diff) => verb::finish(diff.json, diff.run(sort)),
        What::Remove(remove) => verb::finish(false, remove.run(sort)),
        What::Refresh(options) => verb::finish(options.json, options.run()),
        What::Export(options) => verb::finish(false, options.run()),
    }
}

/// What of the features.
#[derive(Debug, clap::Args)]
pub(crate) struct FeatureOptions {
    #[command(subcommand)]
    what: FeatureWhat,
}

#[derive(Debug, Subcommand)]
enum FeatureWhat {
    /// List the features
    List {
        /// Only the names
        #[arg(long, conflicts_with = "json")]
        names: bool,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a feature
    Show {
        /// Its name
        #[arg(value_name = "NAME")]
        name: OsString,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Edit a feature, or a copy of a shipped one, with $VISUAL or $EDITOR
    Edit(change::Edit),
    /// Compare a feature of yours with the one that it replaces
    Diff(change::Diff),
    /// Remove a feature of yours; a shipped one of that name holds again
    Remove(change::Remove),
}

/// Returns the exit code: 0, 1 no, or 2 error.
pub(crate) fn run_feature(options: &FeatureOptions) -> u8 {
    let sort = Sort::Feature;
    match &options.what {
        FeatureWhat::List { names: true, .. } => verb::finish(false, list::names(sort)),
        FeatureWhat::List { json, .. } => verb::finish(*json, list::list(sort, false, *json)),
        FeatureWhat::Show { name, json } => verb::finish(*json, show::show(sort, name, false, *json)),
        FeatureWhat::Edit(edit) => verb::finish(false, edit.run(sort)),
        FeatureWhat::Diff(diff) => verb::finish(diff.json, diff.run(sort)),
        FeatureWhat::Remove(remove) => verb::finish(false, remove.run(sort)),
    }
}

/// The file of a definition, if it has one, for people.
fn file_of(file: Option<&std::path::Path>) -> Option<String> {
    file.map(|file| file.to_string_lossy().into_owned())
}
