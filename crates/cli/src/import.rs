// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade import`: translates profiles of other launchers, and settings of coding agents, into Palisade's language.
//!
//! The crate `palisade_import` reads and translates. This module has the options and the output.
//!
//! - [`fapolicyd`]: a whole host's rules and trust, for the guard
//! - [`report`]: what became of each statement

mod fapolicyd;
mod report;

use crate::verb::{self, Failure, NO, YES};
use crate::{output, situation};
use clap::{Args, ValueEnum, ValueHint};
use palisade_import::fapolicyd::PLACE;
use palisade_import::profile::{self, Agent, Host, Kind, Launcher, Request};
use palisade_import::report::{Finding, Outcome};
use palisade_import::target;
use palisade_sandbox::facts::Facts;
use palisade_text::harmless;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Says in Palisade's language what a profile of another launcher, or a coding agent's settings say.
#[derive(Debug, Args)]
#[command(after_help = "\
Files, devices, sockets and buses that the original doesn't grant aren't granted. What can't be said
exactly stands in the result as a comment, with its line and the reason, and is listed on standard
error; what the original kept away otherwise, and the result doesn't, is marked NOT KEPT.
Exit code: 0; 1 with --strict if anything was left out; 2 error.

Examples:
  palisade import --from firejail /etc/firejail/firefox.profile
  palisade import --from antimony okular.toml --name okular
  palisade import --from antimony features/gtk3.toml --feature --name gtk3
  palisade import --from claude ~/.claude/settings.json --name work     # palisade run --profile work -- …
  palisade import --from fapolicyd --dry-run     # of /etc/fapolicyd, into /etc/palisade")]
pub(crate) struct Options {
    /// Whose language the file is in
    #[arg(long, value_name = "PROGRAM")]
    from: From,
    /// The profile to import; of fapolicyd the directory of its files, otherwise /etc/fapolicyd
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required_if_eq_any(OF_ONE_FILE))]
    file: Option<PathBuf>,
    /// Where fapolicyd's rules and trust go; otherwise /etc/palisade
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with_all = ["name", "output", "feature", "strict"])]
    into: Option<PathBuf>,
    /// Only say what of fapolicyd would be written where
    #[arg(long, conflicts_with_all = ["name", "output", "feature", "strict"])]
    dry_run: bool,
    /// What it is to be called, and where it is to be written: among your profiles
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Write it to this file (`-`: standard output, as without --name)
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// The file is a feature
    #[arg(long)]
    feature: bool,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    /// Answer no, and write no file, if anything is left out
    #[arg(long)]
    strict: bool,
    /// Answer as JSON: the report, and the profile if it isn't written to a file
    #[arg(long)]
    json: bool,
}

/// Of these programs one file is imported.
const OF_ONE_FILE: [(&str, &str); 7] = [
    ("from", "antimony"),
    ("from", "firejail"),
    ("from", "greywall"),
    ("from", "fence"),
    ("from", "srt"),
    ("from", "claude"),
    ("from", "codex"),
];

/// A program whose files can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum From {
    Antimony,
    Firejail,
    Fapolicyd,
    Greywall,
    Fence,
    /// sandbox-runtime
    Srt,
    /// Claude Code
    Claude,
    Codex,
}

/// The report as JSON.
#[derive(Serialize)]
struct Output<'a> {
    from: From,
    #[serde(serialize_with = "verb::lossy")]
    file: PathBuf,
    kind: Kind,
    name: &'a str,
    /// The file that was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    /// The profile, if no file was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    taken: usize,
    approximated: Vec<&'a Finding>,
    left_out: Vec<&'a Finding>,
    /// Programs that the profile runs on the host.
    hooks: usize,
    /// Files that were read and belong to another user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    of_others: Vec<String>,
}

/// Imports. Returns 0, 1 if a necessary statement is left out, 2 for an error.
pub(crate) fn run(options: &Options) -> u8 {
    let imported = match options.from {
        From::Antimony => import(options, Launcher::Antimony),
        From::Firejail => import(options, Launcher::Firejail),
        From::Greywall => import(options, Launcher::Agent(Agent::Greywall)),
        From::Fence => import(options, Launcher::Agent(Agent::Fence)),
        From::Srt => import(options, Launcher::Agent(Agent::Srt)),
        From::Claude => import(options, Launcher::Agent(Agent::Claude)),
        From::Codex => import(options, Launcher::Agent(Agent::Codex)),
        From::Fapolicyd => {
            let into = options.into.as_deref().unwrap_or(Path::new(crate::guard::CONFIG));
            fapolicyd::import(options.file(), into, options.force, options.dry_run, options.json)
        }
    };
    verb::finish(options.json, imported)
}

impl Options {
    /// The file to import.
    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(PLACE))
    }
}

fn import(options: &Options, launcher: Launcher) -> Result<u8, Failure> {
    let facts = situation::facts()?;
    let kind = if options.feature { Kind::Feature } else { Kind::Profile };
    let name = profile::name(options.file(), options.name.as_deref())?;
    let host = Host {
        home: &facts.account.home,
        config: facts.places.config.parent().unwrap_or(&facts.account.home),
        uid: facts.account.uid,
    };
    let imported = profile::import(&Request { launcher, file: options.file(), kind, name: &name, host })?;
    let report = &imported.report;
    let left_out = report.left_out();
    let refused = options.strict && !left_out.is_empty();
    let target = target(options, kind, &name, &facts);
    let written = match &target {
        Some(path) if !refused => {
            target::write(path, &imported.text, options.force)?;
            Some(path.to_string_lossy().into_owned())
        }
        _ => None,
    };
    output::say(&report::words(report, &options.file().display().to_string()));
    if let Some(path) = &written {
        output::note(&format_args!("{} is written: palisade check {}", harmless(path), harmless(path)));
    } else if refused && target.is_some() {
        output::note(&"nothing is written, because something is left out");
    }
    if options.json {
        verb::print_json(&Output {
            from: options.from,
            file: options.file().to_owned(),
            kind,
            name: &name,
            text: written.is_none().then_some(imported.text.as_str()),
            written,
            taken: report.taken,
            approximated: report.of(&[Outcome::Approximated]),
            left_out,
            hooks: report.hooks,
            of_others: report.others.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        })?;
    } else if target.is_none() {
        verb::print(&imported.text)?;
    }
    Ok(if refused { NO } else { YES })
}

/// The file to write. `None` for standard output.
fn target(options: &Options, kind: Kind, name: &str, facts: &Facts) -> Option<PathBuf> {
    match (&options.output, &options.name) {
        (Some(file), _) if file == Path::new("-") => None,
        (Some(file), _) => Some(file.clone()),
        (None, None) => None,
        (None, Some(_)) => {
            let directory = match kind {
                Kind::Profile => "profiles",
                Kind::Feature => "features",
            };
            Some(facts.places.config.join(directory).join(format!("{name}.toml")))
        }
    }
}
