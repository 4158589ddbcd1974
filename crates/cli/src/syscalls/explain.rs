// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shows what is known of one call, and the groups of calls.

use super::{SyscallsError, known, read};
use crate::verb::{self, Exit, NO, YES};
use palisade_sandbox::error::quoted;
use palisade_syscall::group::{self, Group};
use palisade_syscall::store::Having;
use palisade_syscall::store::key::shown;
use palisade_syscall::table::names;
use palisade_syscall::{Arch, Rules, Syscall};
use palisade_text::harmless;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Serialize)]
struct Explained<'a> {
    syscall: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u32>,
    groups: Vec<&'static str>,
    /// Always allowed and never learned.
    base: bool,
    /// What the built-in rules do with it, in words.
    built_in: String,
    learned: Vec<For>,
    /// The profile that the user asked about, and whether it allows the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
}

/// A profile that allows the call, and by which statement or binaries.
#[derive(Serialize)]
struct For {
    profile: String,
    stated: bool,
    binaries: Vec<Path>,
}

impl From<Having> for For {
    fn from(having: Having) -> Self {
        let binaries = having.binaries.into_iter().map(Path).collect();
        Self { profile: having.name, stated: having.stated, binaries }
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct Path(#[serde(serialize_with = "verb::lossy")] PathBuf);

pub(super) fn call(name: &str, profile: Option<&str>, json: bool) -> Exit {
    let call: Syscall = name.parse()?;
    let (store, profile) = match profile {
        Some(word) => {
            let (store, [name]) = known(read()?, [word])?;
            (Some(store), Some(name))
        }
        None => (read()?, None),
    };
    let profile = profile.as_deref();
    let having = match &store {
        Some(store) => store.having(call, profile).map_err(SyscallsError::from)?,
        None => Vec::new(),
    };
    let learned: Vec<For> = having.into_iter().map(For::from).collect();
    let base = group::base().contains(&call);
    let has = base || !learned.is_empty();
    let explained = Explained {
        syscall: call.name(),
        number: call.number(Arch::NATIVE),
        groups: group::groups_of(call).map(|group| group.name).collect(),
        base,
        built_in: Rules::deny_list().keeping_modes(true).explain(call, Arch::NATIVE).to_string(),
        learned,
        profile,
        allowed: profile.map(|_| has),
    };
    if json {
        verb::print_json(&explained)?;
    } else {
        verb::print(&explained.words(call))?;
    }
    Ok(if profile.is_none() || has { YES } else { NO })
}

impl Explained<'_> {
    fn words(&self, call: Syscall) -> String {
        let mut text = self.built_in.clone();
        for group in group::groups_of(call) {
            text.push_str(&format!("  in {}: {}\n", group.name, group.reason));
        }
        if self.base {
            text.push_str("  always allowed: it isn't learned\n");
        }
        for learned in &self.learned {
            let stated = learned.stated.then(|| "stated for it".to_owned());
            let path = |path: &Path| quoted(&path.0.to_string_lossy()).to_string();
            let by: Vec<String> = stated.into_iter().chain(learned.binaries.iter().map(path)).collect();
            text.push_str(&format!(
                "  learned for {}: {}\n",
                harmless(&shown(&learned.profile)),
                harmless(&by.join(", "))
            ));
        }
        match self.profile {
            _ if self.base || !self.learned.is_empty() => {}
            Some(profile) => text.push_str(&format!("  not learned for {}\n", harmless(&shown(profile)))),
            None => text.push_str("  learned for no profile\n"),
        }
        text
    }
}

#[derive(Serialize)]
struct Groups {
    groups: Vec<Shown>,
}

#[derive(Serialize)]
struct Shown {
    name: &'static str,
    reason: &'static str,
    calls: Vec<&'static str>,
}

impl From<&Group> for Shown {
    fn from(group: &Group) -> Self {
        Self { name: group.name, reason: group.reason, calls: names(&group.calls) }
    }
}

pub(super) fn groups(name: Option<&str>, json: bool) -> Exit {
    let wanted: Vec<&Group> = match name {
        Some(name) => vec![group::group(name).ok_or_else(|| SyscallsError::group(name))?],
        None => group::groups().collect(),
    };
    if json {
        verb::print_json(&Groups { groups: wanted.into_iter().map(Shown::from).collect() })?;
    } else if name.is_some() {
        let line = |call: &Syscall| format!("{call}\n");
        verb::print(&wanted.iter().flat_map(|group| &group.calls).map(line).collect::<String>())?;
    } else {
        let line =
            |group: &&Group| format!("{:<13} {:>3}  {}\n", group.name, group.calls.len(), group.reason);
        verb::print(&wanted.iter().map(line).collect::<String>())?;
    }
    Ok(YES)
}
