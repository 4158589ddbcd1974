// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Merges profiles, and forgets learned calls.

use super::{SyscallsError, check_name, count, find, known, open, profiles, read};
use crate::output;
use crate::verb::{self, Exit, Failure, NO, YES};
use palisade_sandbox::error::quoted;
use palisade_syscall::store::{Binary, Known, key::shown, word};
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Serialize)]
struct Merged<'a> {
    profile: &'a str,
    /// How many binaries, calls of binaries and stated calls the profile didn't have yet.
    new: usize,
    calls: usize,
}

pub(super) fn merge(from: &[String], into: &str, json: bool) -> Exit {
    check_name(into)?;
    let mut names = Vec::new();
    let read = read()?;
    let known_names = profiles(read.as_ref())?;
    for word in from {
        let name = find(&known_names, word)?;
        if !known_names.contains(&name) {
            return Err(SyscallsError::profile(&name, &known_names).into());
        }
        names.push(name);
    }
    let from: Vec<&str> = names.iter().map(String::as_str).collect();
    let into = &word::of(&known_names, into).map_err(SyscallsError::from)?;
    let mut store = open()?;
    let new = store.merge(&from, into).map_err(SyscallsError::from)?;
    let calls = store.allowed(into).map_err(SyscallsError::from)?.unwrap_or_default().len();
    if json {
        verb::print_json(&Merged { profile: into, new, calls })?;
    } else {
        output::say(&format!("{}: {} now\n", harmless(&shown(into)), count(calls, "call", "calls")));
    }
    Ok(YES)
}

/// What to forget.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
pub(super) struct Clean {
    /// The profile, or the program by its name or path, and the binaries that ran under no other
    #[arg(value_name = "PROFILE", group = "which")]
    profile: Option<String>,
    /// Everything
    #[arg(long, conflicts_with = "profile", group = "which")]
    all: bool,
    /// Only binaries that are no longer there or have another content now
    #[arg(long, group = "which")]
    gone: bool,
    /// Don't ask
    #[arg(long, short)]
    yes: bool,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Serialize)]
struct Cleaned {
    profiles: Vec<String>,
    binaries: Vec<String>,
}

pub(super) fn clean(options: &Clean) -> Exit {
    let (store, profile) = match &options.profile {
        Some(word) => {
            let (store, [name]) = known(read()?, [word])?;
            (Some(store), Some(name))
        }
        None => (read()?, None),
    };
    let Some(store) = store else { return nothing(options) };
    if options.gone {
        let mut all = store.binaries().map_err(SyscallsError::from)?;
        let of = profile.as_ref();
        all.retain(|known| of.is_none_or(|profile| known.profiles.contains(profile)) && is_gone(known));
        return forget(options, all.into_iter().map(|known| known.binary).collect());
    }
    let profiles = match &profile {
        Some(name) => vec![name.clone()],
        None => store.profiles().map_err(SyscallsError::from)?,
    };
    if profiles.is_empty() {
        return nothing(options);
    }
    let words: Vec<String> = profiles.iter().map(|name| harmless(&shown(name))).collect();
    if !agreed(options, &format!("Forget all that was learned for {}? [y/N] ", words.join(", ")))? {
        return Ok(NO);
    }
    let mut store = open()?;
    match &profile {
        Some(name) => drop(store.forget_profile(name).map_err(SyscallsError::from)?),
        None => store.forget_all().map_err(SyscallsError::from)?,
    }
    tell(options, Cleaned { profiles, binaries: Vec::new() })
}

fn forget(options: &Clean, gone: BTreeSet<Binary>) -> Exit {
    if gone.is_empty() {
        return nothing(options);
    }
    let paths: Vec<String> = gone.iter().map(|binary| binary.path.to_string_lossy().into_owned()).collect();
    let shown: Vec<String> = paths.iter().map(|path| format!("  {}\n", harmless(&quoted(path)))).collect();
    let number = count(gone.len(), "binary", "binaries");
    let question =
        format!("Changed or removed since they were learned:\n{}Forget {number}? [y/N] ", shown.concat());
    if !agreed(options, &question)? {
        return Ok(NO);
    }
    open()?.forget(&gone).map_err(SyscallsError::from)?;
    tell(options, Cleaned { profiles: Vec::new(), binaries: paths })
}

/// Whether a binary is gone. A binary that can't be read may be unchanged.
fn is_gone(known: &Known) -> bool {
    known.is_gone().unwrap_or_else(|error| {
        output::note(&format_args!("{:?} can't be read and is kept: {error}", known.binary.path));
        false
    })
}

fn agreed(options: &Clean, question: &str) -> Result<bool, Failure> {
    if options.yes {
        return Ok(true);
    }
    Ok(verb::confirmed(question).ok_or(SyscallsError::NobodyToAsk)?)
}

fn nothing(options: &Clean) -> Exit {
    tell(options, Cleaned { profiles: Vec::new(), binaries: Vec::new() })
}

fn tell(options: &Clean, cleaned: Cleaned) -> Exit {
    if options.json {
        verb::print_json(&cleaned)?;
    } else {
        let [profiles, binaries] = [&cleaned.profiles, &cleaned.binaries].map(Vec::len);
        let words = match (profiles, binaries) {
            (0, 0) => "nothing to forget".to_owned(),
            (0, _) => format!("forgot {}", count(binaries, "binary", "binaries")),
            _ => format!("forgot {}", count(profiles, "profile", "profiles")),
        };
        output::say(&format!("{words}\n"));
    }
    Ok(YES)
}
