// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade syscalls`: shows and changes which system calls were learned, of which binaries, for which profiles.
//!
//! - [`show`]: lists, shows and compares
//! - [`explain`]: one call, and the groups
//! - [`change`]: merges and forgets
//! - [`exchange`]: files for other hosts and other programs
//! - [`error`]: the errors

mod change;
mod error;
mod exchange;
mod explain;
mod show;

use crate::situation;
use crate::verb::{self, Failure};
use clap::{Subcommand, ValueHint};
use palisade_syscall::Syscall;
use palisade_syscall::group;
use palisade_syscall::store::{Store, word};
use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) use error::SyscallsError;

/// What of the learned calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the profiles and programs for which something was learned
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the calls of a profile or of a binary, by groups
    Show {
        /// A profile's name, or a program's name or path
        #[arg(value_name = "NAME")]
        name: String,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print which calls only one of two profiles has; answers 1 if there are any
    Diff {
        /// A profile
        #[arg(value_name = "A")]
        one: String,
        /// Another
        #[arg(value_name = "B")]
        other: String,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a profile all that was learned for others
    Merge {
        /// The others
        #[arg(value_name = "FROM", required = true)]
        from: Vec<String>,
        /// The profile, or a program by its path; made if nothing is known of it
        #[arg(long, value_name = "NAME")]
        into: String,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Write what was learned for a profile as a file
    Export {
        /// The profile
        #[arg(value_name = "NAME")]
        name: String,
        /// In which form
        #[arg(long, value_enum, value_name = "FORMAT", default_value_t = exchange::Format::Palisade)]
        format: exchange::Format,
        /// Where to; otherwise to standard output
        #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
        output: Option<PathBuf>,
    },
    /// Add the calls of a file to a profile: a file of `export`, or a container's seccomp profile (OCI)
    Import {
        /// The file
        #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// The profile, or a program by its path; made if nothing is known of it
        #[arg(long, value_name = "NAME")]
        profile: String,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a profile, everything, or binaries that no longer exist
    Clean(change::Clean),
    /// Explain a call: its groups, the built-in rules, the programs that made it
    Explain {
        /// The call's name
        #[arg(value_name = "CALL")]
        call: String,
        /// Only what was learned for this profile; answers 1 if it doesn't have the call
        #[arg(long, value_name = "NAME")]
        profile: Option<String>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the groups of calls, or the calls of one
    Groups {
        /// A group's name, such as @network
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Returns the exit code: 0, 1 no, or 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    match &options.what {
        What::List { json } => verb::finish(*json, show::list(*json)),
        What::Show { name, json } => verb::finish(*json, show::show(name, *json)),
        What::Diff { one, other, json } => verb::finish(*json, show::diff(one, other, *json)),
        What::Merge { from, into, json } => verb::finish(*json, change::merge(from, into, *json)),
        What::Export { name, format, output } => {
            verb::finish(false, exchange::export(name, *format, output.as_deref()))
        }
        What::Import { file, profile, json } => verb::finish(*json, exchange::import(file, profile, *json)),
        What::Clean(options) => verb::finish(options.json, change::clean(options)),
        What::Explain { call, profile, json } => {
            verb::finish(*json, explain::call(call, profile.as_deref(), *json))
        }
        What::Groups { name, json } => verb::finish(*json, explain::groups(name.as_deref(), *json)),
    }
}

/// Opens the user's store for reading, if there is one.
fn read() -> Result<Option<Store>, Failure> {
    Ok(Store::read(&situation::facts()?.places.syscalls()).map_err(SyscallsError::from)?)
}

/// Opens the user's store for writing, and makes it if there is none.
fn open() -> Result<Store, Failure> {
    Ok(Store::open(&situation::facts()?.places.syscalls()).map_err(SyscallsError::from)?)
}

/// The profiles that have calls in the store.
fn profiles(store: Option<&Store>) -> Result<Vec<String>, Failure> {
    Ok(store.map(Store::profiles).transpose().map_err(SyscallsError::from)?.unwrap_or_default())
}

/// The store, if it knows these profiles and programs; and the store's names for them.
fn known<const N: usize>(store: Option<Store>, words: [&str; N]) -> Result<(Store, [String; N]), Failure> {
    let profiles = profiles(store.as_ref())?;
    let mut names = [const { String::new() }; N];
    for (name, word) in names.iter_mut().zip(words) {
        *name = find(&profiles, word)?;
    }
    let unknown = names.iter().find(|name| !profiles.contains(name)).cloned();
    match (unknown, store) {
        (None, Some(store)) => Ok((store, names)),
        (unknown, _) => Err(SyscallsError::profile(&unknown.unwrap_or_default(), &profiles).into()),
    }
}

/// The key that a word names. If it names none, the word itself.
fn find(known: &[String], word: &str) -> Result<String, Failure> {
    if known.iter().any(|name| name == word) {
        return Ok(word.to_owned());
    }
    let cwd = std::env::current_dir().map_err(|source| Failure::Cwd { source })?;
    Ok(word::find(known, word, &cwd, std::env::var_os("PATH").as_deref()))
}

/// Checks that a profile can have this name here.
fn check_name(name: &str) -> Result<(), SyscallsError> {
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(SyscallsError::Name { name: name.to_owned() });
    }
    Ok(())
}

/// `1 call`, `2 calls`.
fn count(number: usize, one: &str, more: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { more })
}

/// Lines of calls. Each line begins with the first group of its calls.
fn by_group(calls: &BTreeSet<Syscall>, indent: &str) -> String {
    let mut left = calls.clone();
    let mut text = String::new();
    for group in group::groups() {
        let here: Vec<&str> =
            left.extract_if(.., |call| group.calls.contains(call)).map(Syscall::name).collect();
        if !here.is_empty() {
            text.push_str(&format!("{indent}{:<13}{}\n", group.name, here.join(" ")));
        }
    }
    text
}
