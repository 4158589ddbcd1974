// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prints the line guard's verdict on a line, and manages trusted lines and the guard's lists.

use crate::output;
use crate::verb::{self, Failure, NO, YES};
use clap::{Subcommand, ValueEnum, ValueHint};
use palisade_shell::classify::{
    Classifier, Context, Level, Origin, RuleError, Verdict, lists,
    lists::ListError,
    model::{self, Opinion},
    trust::{StateError, Trust, Trusted},
};
use palisade_shell::settings::{Settings, SettingsError};
use palisade_shell::start;
use palisade_text::{Show as _, quoted};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A line, and where it is taken to come from.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code: 0 the line would simply be run, 1 it would be warned of, asked about or not run, 2 error.

Examples:
  palisade shell classify 'curl https://example.com/x | sh'
  palisade shell classify --explain --origin pasted \"$LINE\"")]
pub(super) struct Options {
    /// Say why: what, where in the line, by which rule
    #[arg(long)]
    explain: bool,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Where the line comes from
    #[arg(long, value_enum, default_value = "typed", value_name = "ORIGIN")]
    origin: From,
    /// Other settings than ~/.config/palisade/shell.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    settings: Option<PathBuf>,
    /// The line
    #[arg(allow_hyphen_values = true)]
    line: String,
}

/// Where a line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// Key by key
    Typed,
    /// From a clipboard
    Pasted,
    /// A program wrote it
    Machine,
}

/// Which lines are trusted.
#[derive(Debug, Subcommand)]
pub(super) enum TrustVerb {
    /// Never ask about exactly this line again; 1 when it was trusted already
    Add {
        /// The line
        #[arg(allow_hyphen_values = true)]
        line: String,
    },
    /// Print the trusted lines, by their hashes
    List {
        /// Answer as JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask about a line again; 1 when it wasn't trusted
    Remove {
        /// The line, or eight digits or more of its hash
        #[arg(allow_hyphen_values = true)]
        line: String,
    },
}

/// What is known to be bad.
#[derive(Debug, Subcommand)]
pub(super) enum ListsVerb {
    /// Take in a list of packages, hosts and URLs, or advisories in OSV's format, in the place of the one of that name
    Update {
        /// The list; `-` reads it from standard input
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
        /// What it is called, instead of the file's name
        #[arg(long, required_if_eq("file", "-"))]
        name: Option<String>,
    },
}

/// Why there is no verdict on a line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LineError {
    /// The settings aren't valid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// A rule of the user isn't valid.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// A file of the guard can't be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// A list can't be imported.
    #[error(transparent)]
    List(#[from] ListError),
}

impl LineError {
    /// The error's class, for programs.
    pub(crate) fn class(&self) -> &'static str {
        match self {
            Self::Settings(_) | Self::Rule(_) => "settings",
            Self::State(_) => "state",
            Self::List(_) => "list",
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Rule(_) => {
                Some("edit ~/.config/palisade/shell.toml, then: palisade shell classify ls".to_owned())
            }
            Self::State(error) => Some(format!("ls -ld {}", quoted(&error.path.to_string_lossy()))),
            Self::List(_) => Some(
                "printf 'npm some-package why it is bad\\n' > my.list; palisade shell lists update my.list"
                    .to_owned(),
            ),
        }
    }
}

#[derive(Serialize)]
struct Output<'a> {
    origin: Origin,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

#[derive(Serialize)]
struct List {
    trusted: Vec<Trusted>,
}

/// Judges a line. Returns 1 unless the line would simply be run.
pub(super) fn classify(options: &Options) -> Result<u8, Failure> {
    let (verdict, origin) = judge(options)?;
    if let Some(problem) = verdict.model.as_ref().and_then(Opinion::problem) {
        output::note(&problem);
    }
    if options.json {
        verb::print_json(&Output { origin, verdict: &verdict })?;
    } else {
        let mut text = format!("{}\n", verdict.level.name());
        if options.explain {
            text.push_str(&explained(&options.line, &verdict));
            if let Some(opinion) = &verdict.model {
                text.push_str(&format!("{}\n", palisade_text::harmless(&model::explained(opinion))));
            }
        }
        verb::print(&text)?;
    }
    Ok(if verdict.level == Level::Allow { YES } else { NO })
}

fn judge(options: &Options) -> Result<(Verdict, Origin), LineError> {
    let path = options.settings.clone().unwrap_or_else(start::settings);
    let mut settings = Settings::read(&path)?.guard;
    settings.state = Some(start::state());
    let origin = match options.origin {
        From::Typed => Origin::Typed,
        From::Pasted => Origin::Pasted,
        From::Machine => Origin::Machine,
    };
    let context = Context {
        directory: std::env::current_dir().ok(),
        root: rustix::process::geteuid().is_root(),
        ..Context::default()
    };
    let classifier = Classifier::new(&settings)?;
    // For a single line, wait for the data that a shell loads in the background.
    classifier.prepare();
    Ok((classifier.classify(&options.line, origin, &context), origin))
}

/// One paragraph for each reason: what, by which rule, and where.
fn explained(line: &str, verdict: &Verdict) -> String {
    let mut text = String::new();
    for reason in &verdict.reasons {
        let reference =
            if reason.reference.is_empty() { String::new() } else { format!(", {}", reason.reference) };
        let words = palisade_text::harmless(&reason.words);
        text.push_str(&format!("  {}: {words} ({}{reference})\n", reason.level.name(), reason.rule));
        let part = line.get(reason.span.clone()).filter(|part| !part.is_empty());
        if let Some(part) = part {
            let mut short: String = part.chars().take(80).collect();
            if short.len() < part.len() {
                short.push('…');
            }
            text.push_str(&format!("      {}\n", palisade_text::harmless(&short)));
        }
    }
    text
}

/// Changes or prints the trusted lines.
pub(super) fn trust(verb: &TrustVerb) -> Result<u8, Failure> {
    let trust = Trust::in_directory(&start::state());
    let changed = match verb {
        TrustVerb::Add { line } => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            trust.add(line, now).map_err(LineError::from)?
        }
        TrustVerb::Remove { line } => trust.remove(line).map_err(LineError::from)?,
        TrustVerb::List { json } => {
            let trusted = trust.list().map_err(LineError::from)?;
            if *json {
                verb::print_json(&List { trusted })?;
            } else {
                let lines = trusted
                    .iter()
                    .map(|line| format!("{} {} {}\n", line.hash, line.since, line.command.shown()));
                verb::print(&lines.collect::<String>())?;
            }
            true
        }
    };
    Ok(if changed { YES } else { NO })
}

/// Imports a list.
pub(super) fn lists(verb: &ListsVerb) -> Result<u8, Failure> {
    let ListsVerb::Update { file, name } = verb;
    let count = update(file, name.as_deref())?;
    verb::print(&format!("{count} lines\n"))?;
    Ok(YES)
}

fn update(file: &Path, name: Option<&str>) -> Result<usize, LineError> {
    let state = start::state();
    let count = match name {
        Some(name) if file.as_os_str() == "-" => lists::update_from(&state, name, std::io::stdin().lock()),
        Some(name) => {
            let failed = |source| StateError { operation: "open", path: file.to_owned(), source };
            lists::update_from(&state, name, std::fs::File::open(file).map_err(failed)?)
        }
        None => lists::update(&state, file),
    };
    Ok(count?)
}
