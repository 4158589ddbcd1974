// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a profile as one file: in Palisade's language, or in that of another sandbox.

use super::change;
use super::show::Expanded;
use crate::verb::{self, Exit, Failure, YES};
use crate::{output, situation};
use clap::ValueHint;
use palisade::{Application, Request, Situation, Subject};
use palisade_import::export::{self, Exported, bwrap, seatbelt, srt};
use palisade_policy::word::Switch;
use palisade_sandbox::layers::{self, own};
use palisade_text::harmless;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// What is written where.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What another sandbox can't express is listed on standard error. Paths are those of this host, this user
and this directory.

Examples:
  palisade profile export work --output work.toml
  palisade profile export work --srt --output ~/.srt-settings.json
  eval \"$(palisade profile export work --bwrap) make\"")]
pub(crate) struct Options {
    /// Its name
    #[arg(value_name = "NAME")]
    name: OsString,
    /// Where to; otherwise to standard output
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    language: Language,
}

/// The language of another sandbox.
#[derive(Debug, Clone, Copy, clap::Args)]
#[group(multiple = false)]
struct Language {
    /// As a line of shell that starts bubblewrap; the command follows it
    #[arg(long)]
    bwrap: bool,
    /// As settings of sandbox-runtime
    #[arg(long)]
    srt: bool,
    /// As a profile for sandbox-exec of macOS
    #[arg(long)]
    seatbelt: bool,
}

impl Options {
    pub(super) fn run(&self) -> Exit {
        let exported = match self.language {
            Language { bwrap: false, srt: false, seatbelt: false } => {
                let (whole, features) = own::whole(&mut situation::facts()?, &self.name)?;
                let text =
                    format!("{}{}", Expanded::of(&features).comments(), palisade_policy::render(&whole));
                Exported { text, missing: Vec::new() }
            }
            language => in_language(&self.name, language)?,
        };
        match &self.output {
            None => verb::print(&exported.text)?,
            Some(path) => change::write(path, &exported.text)?,
        }
        for missing in &exported.missing {
            output::note(&format_args!("not exported: {}", harmless(&missing.to_string())));
        }
        Ok(YES)
    }
}

fn in_language(name: &OsStr, language: Language) -> Result<Exported, Failure> {
    let situation = situation_of(name)?;
    let resolved = situation.resolved()?;
    if language.bwrap {
        let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        return Ok(bwrap::export(&situation.plan()?, &resolved, &variables));
    }
    let name = name.to_string_lossy();
    let subject = export::Subject { name: &name, policy: situation.policy(), resolved: &resolved };
    Ok(if language.srt { srt::export(&subject) } else { seatbelt::export(&subject) })
}

/// A launch by the profile: of its application, if it has one, otherwise of any command.
fn situation_of(name: &OsStr) -> Result<Situation, Failure> {
    let profile = layers::profile(&situation::facts()?, name)?;
    let subject = if profile.launch.is_some() {
        Subject::Application(Application { profile: name.to_owned(), ..Application::default() })
    } else {
        Subject::Command { words: Vec::new(), profile: Some(name.to_owned()) }
    };
    let mut request = Request::here(subject)?;
    // Caches belong to Palisade's own launches.
    request.words.set_switch(Switch::Caches, false, 0);
    Ok(request.settle()?)
}
