// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists, shows and compares what was learned.

use super::{SyscallsError, by_group, count, find, known, profiles, read};
use crate::output;
use crate::verb::{self, Exit, Failure, NO, YES};
use palisade_sandbox::error::quoted;
use palisade_syscall::Syscall;
use palisade_syscall::store::{Known, Learned, Store, Summary, key};
use palisade_syscall::table::names;
use palisade_text::harmless;
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Serialize)]
struct List {
    profiles: Vec<Listed>,
}

#[derive(Serialize)]
struct Listed {
    name: String,
    /// For a program: its path, and BLAKE3 of its content if that is part of its identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    binaries: usize,
    calls: usize,
}

pub(super) fn list(json: bool) -> Exit {
    let summaries = match read()? {
        Some(store) => store.summaries().map_err(SyscallsError::from)?,
        None => Vec::new(),
    };
    let listed = |Summary { name, binaries, calls }: Summary| {
        let (path, hash) = key::parts(&name);
        let path = path.starts_with('/').then(|| path.to_owned());
        Listed { path, hash: hash.map(str::to_owned), binaries, calls, name }
    };
    let profiles: Vec<Listed> = summaries.into_iter().map(listed).collect();
    if json {
        verb::print_json(&List { profiles })?;
    } else if profiles.is_empty() {
        output::note(&"nothing was learned yet");
    } else {
        let line = |listed: &Listed| {
            let [binaries, calls] =
                [count(listed.binaries, "binary", "binaries"), count(listed.calls, "call", "calls")];
            format!("{:<22} {binaries}, {calls}\n", harmless(&key::shown(&listed.name)))
        };
        verb::print(&profiles.iter().map(line).collect::<String>())?;
    }
    Ok(YES)
}

fn union(learned: &[Learned]) -> BTreeSet<Syscall> {
    learned.iter().flat_map(|learned| &learned.calls).copied().collect()
}

/// A profile, or a path with every content that was seen there.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
    /// All calls together.
    calls: Vec<&'static str>,
    /// The calls that were stated for the profile itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    stated: Option<Vec<&'static str>>,
    binaries: Vec<ShownBinary>,
    /// Names that this version of Palisade doesn't know.
    unknown: BTreeSet<String>,
}

#[derive(Serialize)]
struct ShownBinary {
    #[serde(serialize_with = "verb::lossy")]
    path: PathBuf,
    /// BLAKE3 of the content, in hexadecimal digits.
    hash: String,
    calls: Vec<&'static str>,
    profiles: BTreeSet<String>,
    /// Seconds since 1970.
    first_seen: u64,
    last_seen: u64,
}

impl From<&Known> for ShownBinary {
    fn from(known: &Known) -> Self {
        let seconds = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            path: known.binary.path.clone(),
            hash: known.binary.hex(),
            calls: names(&known.calls),
            profiles: known.profiles.clone(),
            first_seen: seconds(known.first_seen),
            last_seen: seconds(known.last_seen),
        }
    }
}

pub(super) fn show(name: &str, json: bool) -> Exit {
    let store = read()?;
    let profiles = profiles(store.as_ref())?;
    if name.contains('/') && !profiles.contains(&find(&profiles, name)?) {
        return show_binary(store, name, json);
    }
    let (store, [name]) = known(store, [name])?;
    let name = &name;
    let learned = store.profile(name).map_err(SyscallsError::from)?;
    let unknown = store.strange(name).map_err(SyscallsError::from)?;
    let mut all = store.binaries().map_err(SyscallsError::from)?;
    all.retain(|known| known.profiles.contains(name));
    for known in &mut all {
        // Show only the calls that the program made under this profile.
        let own = learned.iter().find(|learned| learned.binary.as_ref() == Some(&known.binary));
        known.calls = own.map(|learned| learned.calls.clone()).unwrap_or_default();
    }
    let calls = union(&learned);
    let stated = learned.iter().find(|learned| learned.binary.is_none()).map(|learned| &learned.calls);
    if json {
        verb::print_json(&Shown {
            profile: Some(name.to_owned()),
            calls: names(&calls),
            stated: stated.map(names),
            binaries: all.iter().map(ShownBinary::from).collect(),
            unknown,
        })?;
        return Ok(YES);
    }
    let mut text = format!(
        "{}: {} of {}\n",
        harmless(&key::shown(name)),
        count(calls.len(), "call", "calls"),
        count(all.len(), "binary", "binaries")
    );
    if let Some(stated) = stated {
        text.push_str("stated for the profile\n");
        text.push_str(&by_group(stated, "  "));
    }
    text.push_str(&all.iter().map(words).collect::<String>());
    if !unknown.is_empty() {
        let unknown: Vec<String> = unknown.into_iter().collect();
        text.push_str(&format!("unknown to this palisade, not allowed: {}\n", harmless(&unknown.join(" "))));
    }
    verb::print(&text)?;
    Ok(YES)
}

fn words(known: &Known) -> String {
    let path = harmless(&quoted(&known.binary.path.to_string_lossy()));
    let mut text = format!("{path} ({:.8})\n", known.binary.hex());
    if known.calls.is_empty() {
        text.push_str("  nothing outside @base\n");
    }
    text + &by_group(&known.calls, "  ")
}

fn show_binary(store: Option<Store>, name: &str, json: bool) -> Exit {
    let cwd = std::env::current_dir().map_err(|source| Failure::Cwd { source })?;
    let path = cwd.join(name);
    let mut all = match &store {
        Some(store) => store.binaries().map_err(SyscallsError::from)?,
        None => Vec::new(),
    };
    all.retain(|known| known.binary.path == path);
    if all.is_empty() {
        return Err(SyscallsError::Binary { path }.into());
    }
    if json {
        let calls: BTreeSet<Syscall> = all.iter().flat_map(|known| &known.calls).copied().collect();
        verb::print_json(&Shown {
            profile: None,
            calls: names(&calls),
            stated: None,
            binaries: all.iter().map(ShownBinary::from).collect(),
            unknown: BTreeSet::new(),
        })?;
    } else {
        let under = |known: &Known| {
            let profiles: Vec<String> = known.profiles.iter().map(|name| key::shown(name)).collect();
            format!("{}  runs under {}\n", words(known), harmless(&profiles.join(", ")))
        };
        verb::print(&all.iter().map(under).collect::<String>())?;
    }
    Ok(YES)
}

#[derive(Serialize)]
struct Difference<'a> {
    same: bool,
    only: [Only<'a>; 2],
}

/// The calls that only one of two profiles has.
#[derive(Serialize)]
struct Only<'a> {
    profile: &'a str,
    calls: Vec<&'static str>,
}

pub(super) fn diff(one: &str, other: &str, json: bool) -> Exit {
    let (store, [one, other]) = known(read()?, [one, other])?;
    let (one, other) = (&*one, &*other);
    let calls = |name| -> Result<BTreeSet<Syscall>, Failure> {
        Ok(store.allowed(name).map_err(SyscallsError::from)?.unwrap_or_default())
    };
    let [ones, others] = [calls(one)?, calls(other)?];
    let [only_one, only_other]: [BTreeSet<Syscall>; 2] = [&ones - &others, &others - &ones];
    let same = ones == others;
    if json {
        let only = |profile, calls| Only { profile, calls: names(calls) };
        verb::print_json(&Difference { same, only: [only(one, &only_one), only(other, &only_other)] })?;
    } else {
        let mut text = String::new();
        for (name, calls) in [(one, &only_one), (other, &only_other)] {
            if !calls.is_empty() {
                text.push_str(&format!("only {}\n{}", harmless(&key::shown(name)), by_group(calls, "  ")));
            }
        }
        verb::print(&text)?;
    }
    Ok(if same { YES } else { NO })
}
