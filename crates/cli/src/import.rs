// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `palisade import`: profiles of other launchers, in the language of this one.
//!
//! A profile that is imported grants no file, device, socket or bus that the original doesn't: where the two differ, the
//! narrower is said, and a comment says so. What kept something away and can't be said is named as such, in the profile
//! and to who imports.
//!
//! - [`antimony`], [`firejail`]: what their files say
//! - [`fapolicyd`]: a whole host's rules and trust, for the guard
//! - `draft`, `document`, `text`: the profile on its way to text
//! - `report`: what became of each statement
//! - `error`: why nothing is imported; `source`: reading what others wrote; `pattern`, `programs`: patterns of names, programs that they name

mod antimony;
mod document;
mod draft;
mod error;
mod fapolicyd;
mod firejail;
mod pattern;
mod programs;
mod report;
mod source;
#[cfg(test)]
mod tests;
mod text;

use crate::answer::{self, Failure, NO, YES};
use crate::{output, situation};
use clap::{Args, ValueEnum, ValueHint};
use draft::Draft;
pub(crate) use error::ImportError;
use palisade_policy::Layer;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::is_profile_name;
use palisade_text::harmless;
use report::{Finding, Outcome};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The most that a policy file may hold.
const MOST: usize = palisade_policy::parse::MOST_ENTRIES;

/// Says in Palisade's language what a profile of another launcher says.
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
  palisade import --from fapolicyd --dry-run     # of /etc/fapolicyd, into /etc/palisade")]
pub(crate) struct Options {
    /// Whose language the file is in
    #[arg(long, value_name = "LAUNCHER")]
    from: From,
    /// The profile to import; of fapolicyd the directory of its files, otherwise /etc/fapolicyd
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required_if_eq_any([("from", "antimony"), ("from", "firejail")]))]
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

/// A launcher whose files can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum From {
    Antimony,
    Firejail,
    Fapolicyd,
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    Profile,
    Feature,
}

/// The report for programs.
#[derive(Serialize)]
struct Answer<'a> {
    from: From,
    #[serde(serialize_with = "answer::lossy")]
    file: PathBuf,
    kind: Kind,
    name: &'a str,
    /// Where it was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<String>,
    /// The profile, if it wasn't.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    taken: usize,
    approximated: Vec<&'a Finding>,
    left_out: Vec<&'a Finding>,
    /// Programs that the profile has run on the host.
    hooks: usize,
}

/// Imports: 0, 1 if something is left out that mustn't, 2 error.
pub(crate) fn run(options: &Options) -> u8 {
    if options.from == From::Fapolicyd {
        let into = options.into.as_deref().unwrap_or(Path::new(crate::guard::CONFIG));
        let imported = fapolicyd::import(options.file(), into, options.force, options.dry_run, options.json);
        return answer::finish(options.json, imported);
    }
    answer::finish(options.json, import(options))
}

impl Options {
    /// What is imported.
    fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new(fapolicyd::PLACE))
    }
}

fn import(options: &Options) -> Result<u8, Failure> {
    let facts = situation::facts()?;
    let kind = if options.feature { Kind::Feature } else { Kind::Profile };
    let name = name_of(options)?;
    let (draft, text) = translate(options, kind, &name, &facts)?;
    let report = &draft.report;
    let left_out = report.left_out();
    let refused = options.strict && !left_out.is_empty();
    let target = target(options, kind, &name, &facts);
    let written = match &target {
        Some(path) if !refused => {
            write(path, &text, options.force)?;
            Some(path.to_string_lossy().into_owned())
        }
        _ => None,
    };
    output::say(&report.words(&options.file().display().to_string()));
    if let Some(path) = &written {
        output::note(&format_args!("{} is written: palisade check {}", harmless(path), harmless(path)));
    } else if refused && target.is_some() {
        output::note(&"nothing is written, because something is left out");
    }
    if options.json {
        answer::print_json(&Answer {
            from: options.from,
            file: options.file().to_owned(),
            kind,
            name: &name,
            text: written.is_none().then_some(text.as_str()),
            written,
            taken: report.taken,
            approximated: report.of(&[Outcome::Approximated]),
            left_out,
            hooks: report.hooks,
        })?;
    } else if target.is_none() {
        answer::print(&text)?;
    }
    Ok(if refused { NO } else { YES })
}

/// The profile and its text.
fn translate(
    options: &Options,
    kind: Kind,
    name: &str,
    facts: &Facts,
) -> Result<(Draft, String), ImportError> {
    let file = options.file();
    let content = source::read(file)?;
    let mut draft = Draft::default();
    let launcher = match options.from {
        From::Antimony => "Antimony",
        From::Firejail => "Firejail",
        // Its rules are no profile: they are taken over elsewhere.
        From::Fapolicyd => return Err(ImportError::NotFile { path: file.to_owned() }),
    };
    let base = file.file_name().unwrap_or_default().to_string_lossy();
    let header = &mut draft.document.header;
    header.push(format!(
        "Imported from {base}, a file of {launcher}. Comments say what couldn't be taken over exactly."
    ));
    draft.table("").text("name", name);
    match options.from {
        From::Antimony => antimony::import(file, &content, kind, &mut draft)?,
        From::Firejail if kind == Kind::Feature => return Err(ImportError::Part { path: file.to_owned() }),
        From::Firejail | From::Fapolicyd => {
            program(file, name, &mut draft);
            let host = firejail::Host {
                home: &facts.account.home,
                config: facts.places.config.parent().unwrap_or(&facts.account.home),
                uid: facts.account.uid,
            };
            firejail::import(file, &content, &host, &mut draft)?;
        }
    }
    if let [first, more @ ..] = draft.report.unknown.as_slice() {
        return Err(ImportError::Unknown {
            path: file.to_owned(),
            launcher,
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
    // Nothing is written that a launch would refuse.
    if let Err(mistakes) = parse {
        let mistake = mistakes.first().map(ToString::to_string).unwrap_or_default();
        return Err(ImportError::Unsaid { path: file.to_owned(), mistake });
    }
    Ok((draft, text))
}

/// Firejail's profiles are for the program that they are called like.
fn program(file: &Path, name: &str, draft: &mut Draft) {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    if stem != name && is_profile_name(&stem) {
        draft.set("program", "path", document::Value::Text(text::plain(&stem)));
    }
}

/// What the profile is called: as asked, or as its file.
fn name_of(options: &Options) -> Result<String, ImportError> {
    let name = match &options.name {
        Some(name) => name.clone(),
        None => options.file().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    if is_profile_name(&name) && !name.contains('\u{fffd}') {
        Ok(name)
    } else {
        Err(ImportError::Name { name })
    }
}

/// The file to write; none for standard output.
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

/// Puts a whole file in its place; one that is there stays unless it may be replaced.
fn write(file: &Path, text: &str, replace: bool) -> Result<(), ImportError> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let failed = |source| ImportError::Write { path: file.to_owned(), source };
    let directory = match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // Not for others to write to, or no launch would believe it.
    let mode = std::fs::Permissions::from_mode(0o644);
    let new = tempfile::Builder::new().prefix(".imported").permissions(mode).tempfile_in(directory);
    let mut new = new.map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
    let kept = if replace { new.persist(file) } else { new.persist_noclobber(file) };
    match kept {
        Ok(_file) => Ok(()),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            Err(ImportError::Exists { path: file.to_owned() })
        }
        Err(error) => Err(failed(error.error)),
    }
}
