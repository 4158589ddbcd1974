// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Translates a file of another launcher to the text of a profile or a feature.

pub use crate::agents::Agent;
use crate::document::Value;
use crate::draft::Draft;
use crate::error::ImportError;
use crate::report::Report;
use crate::{agents, antimony, firejail, source, text};
use palisade_policy::Layer;
use palisade_sandbox::layers::is_profile_name;
use serde::Serialize;
use std::path::Path;

/// The largest number of entries in a policy file.
pub(crate) const MOST: usize = palisade_policy::parse::MOST_ENTRIES;

/// A launcher whose profiles can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// Its profiles and features are TOML.
    Antimony,
    /// Its profiles are lines.
    Firejail,
    /// A coding agent, or a sandbox for agents.
    Agent(Agent),
}

impl Launcher {
    /// Its name.
    const fn name(self) -> &'static str {
        match self {
            Self::Antimony => "Antimony",
            Self::Firejail => "Firejail",
            Self::Agent(agent) => agent.name(),
        }
    }
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program or a job.
    Profile,
    /// A system resource that profiles use.
    Feature,
}

/// The facts of the host that the import needs.
#[derive(Debug, Clone, Copy)]
pub struct Host<'h> {
    /// The user's home.
    pub home: &'h Path,
    /// The directory of the user's configuration: `~/.config`.
    pub config: &'h Path,
    /// The user's number.
    pub uid: u32,
}

/// What to import.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    /// The launcher that the file is for.
    pub launcher: Launcher,
    /// The file. What it includes is looked for beside it and among the launcher's own files.
    pub file: &'r Path,
    /// What it is for.
    pub kind: Kind,
    /// The name of the profile or the feature.
    pub name: &'r str,
    /// What of the host has to be known.
    pub host: Host<'r>,
}

/// The result of importing a file.
#[derive(Debug)]
pub struct Imported {
    /// The text of a policy file that a launch would read.
    pub text: String,
    /// What became of each statement.
    pub report: Report,
}

/// The name of a file's profile: the name that the user asks for, otherwise the file's name without its ending.
///
/// # Errors
/// When `--profile` wouldn't find the name.
pub fn name(file: &Path, asked: Option<&str>) -> Result<String, ImportError> {
    let name = match asked {
        Some(name) => name.to_owned(),
        None => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    if is_profile_name(&name) && !name.contains('\u{fffd}') {
        Ok(name)
    } else {
        Err(ImportError::Name { name })
    }
}

/// Reads a file of another launcher and expresses the same in Palisade's language.
///
/// # Errors
/// When the file, or one that it includes, can't be read, or when the launcher itself would refuse it; when a launch
/// would refuse the result.
pub fn import(request: &Request<'_>) -> Result<Imported, ImportError> {
    let &Request { launcher, file, kind, name, host } = request;
    let read = source::read(file)?;
    let content = read.text;
    let mut draft = Draft::default();
    draft.report.read(file, read.owner, host.uid);
    let base = file.file_name().unwrap_or_default().to_string_lossy();
    let header = &mut draft.document.header;
    header.push(format!(
        "Imported from {base}, a file of {}. Comments say what couldn't be imported exactly.",
        launcher.name()
    ));
    draft.table("").text("name", name);
    match launcher {
        Launcher::Antimony => antimony::import(file, &content, kind, &mut draft)?,
        Launcher::Agent(agent) if kind == Kind::Feature => {
            let (launcher, word) = (agent.name(), agent.word());
            return Err(ImportError::Settings { path: file.to_owned(), launcher, word });
        }
        Launcher::Agent(agent) => agents::import(agent, file, &content, &host, &mut draft)?,
        Launcher::Firejail if kind == Kind::Feature => {
            return Err(ImportError::Part { path: file.to_owned() });
        }
        Launcher::Firejail => {
            program(file, name, &mut draft);
            firejail::import(file, &content, &host, &mut draft)?;
        }
    }
    if let [first, more @ ..] = draft.report.unknown.as_slice() {
        return Err(ImportError::Unknown {
            path: file.to_owned(),
            launcher: launcher.name(),
            line: first.at.to_string(),
            statement: first.statement.clone(),
            more: more.len(),
        });
    }
    if draft.report.taken == 0 && draft.report.findings.is_empty() {
        return Err(ImportError::Empty { path: file.to_owned() });
    }
    let count = draft.document.count();
    if count > MOST {
        return Err(ImportError::Entries { path: file.to_owned(), count });
    }
    let text = draft.document.render();
    let parse = match kind {
        Kind::Profile => palisade_policy::parse(&text, None, Layer::User).map(drop),
        Kind::Feature => palisade_policy::parse_feature(&text, None, Layer::User).map(drop),
    };
    // Never write what a launch would refuse.
    if let Err(mistakes) = parse {
        let mistake = mistakes.first().map(ToString::to_string).unwrap_or_default();
        return Err(ImportError::Unsaid { path: file.to_owned(), mistake });
    }
    Ok(Imported { text, report: draft.report })
}

/// A profile of firejail is for the program of the same name.
fn program(file: &Path, name: &str, draft: &mut Draft) {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if stem != name && is_profile_name(&stem) {
        draft.set("program", "path", Value::Text(text::plain(&stem)));
    }
}
