// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade agent setup`: copies a login from the user's home into the agent's own.

use super::known::Known;
use crate::output;
use crate::situation;
use crate::verb::{self, Failure, NO, YES};
use palisade_host::file::{self, Links};
use palisade_sandbox::layers::agent;
use palisade_text::Show as _;
use std::ffi::OsString;
use std::path::PathBuf;

/// The largest file that is copied. A login has some kilobytes; a file of settings with a history more.
const LARGEST: usize = 16 * 1024 * 1024;

/// Which login.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// The agent
    #[arg(value_name = "NAME")]
    name: OsString,
    /// Copy without a question
    #[arg(long)]
    yes: bool,
    /// Only show what would be copied
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

/// A file to copy.
struct Copy {
    /// Below both homes.
    name: String,
    from: PathBuf,
    content: Vec<u8>,
}

pub(super) fn run(options: &Options) -> Result<u8, Failure> {
    let mut facts = situation::facts()?;
    let known = Known::of(&mut facts, &options.name)?;
    let Some(home) = &known.home else { return Err(Failure::NoOwnHome { name: known.name }) };
    let mut copies = Vec::new();
    for name in &known.agent.login {
        let from = facts.account.home.join(name);
        match file::read(&from, LARGEST, Links::Follow) {
            Ok(content) => copies.push(Copy { name: name.clone(), from, content }),
            Err(error) if error.is_absent() => {}
            Err(source) => return Err(Failure::Login { source }),
        }
    }
    if copies.is_empty() {
        let looked: Vec<String> = known.agent.login.iter().map(|name| format!("~/{name}")).collect();
        verb::print(&format!(
            "{} has no login in your home ({}): log in inside with `palisade agent {}`\n",
            known.name,
            looked.join(", "),
            known.name
        ))?;
        return Ok(NO);
    }
    let mut text = format!("The agent's own home is {}. Copied into it:\n", home.shown());
    for copy in &copies {
        let there =
            if home.join(&copy.name).symlink_metadata().is_ok() { ", replaces the one there" } else { "" };
        text.push_str(&format!("  {} ({} bytes{there})\n", copy.from.shown(), copy.content.len()));
    }
    text.push_str("The agent, and each program that it starts, can read and use it.\n");
    verb::print(&text)?;
    if options.dry_run {
        return Ok(YES);
    }
    if !options.yes && !verb::confirmed("Copy this? [y/N] ").ok_or(Failure::NobodyToAsk)? {
        output::note(&"nothing is copied");
        return Ok(NO);
    }
    for copy in copies {
        let path = home.join(&copy.name);
        agent::put(home, copy.name.as_ref(), &copy.content)
            .map_err(|source| Failure::Write { path, source })?;
    }
    verb::print(&format!("done; start it with: palisade agent {}\n", known.name))?;
    Ok(YES)
}
