// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes, edits, compares and removes the user's own definitions.

use crate::verb::{self, Exit, Failure, NO, YES};
use crate::{output, situation};
use palisade_policy::Layer;
use palisade_sandbox::facts::Facts;
use palisade_sandbox::layers::{self, Definition, Sort, own};
use palisade_text::harmless;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Editors that are tried when no variable names one.
const EDITORS: [&str; 4] = ["editor", "vim", "nano", "vi"];

/// Editing.
#[derive(Debug, clap::Args)]
pub(crate) struct Edit {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Diff {
    /// Its name
    #[arg(value_name = "NAME")]
    name: String,
    /// Answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Remove {
    /// Its name; without one, those that say the same as the shipped ones
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Without asking
    #[arg(long, short)]
    yes: bool,
}

/// The user's own file of this name.
fn own_file(facts: &Facts, sort: Sort, name: &str) -> Result<PathBuf, Failure> {
    own::file(facts, sort, name).ok_or_else(|| Failure::DefinitionName { sort, name: name.to_owned() })
}

/// The text of a definition as it was written.
fn text_of(definition: &Definition) -> Result<String, Failure> {
    let path = || definition.file.clone().unwrap_or_default();
    definition.text().map_err(|source| Failure::Read { path: path(), source })
}

/// Writes a file as a whole or not at all.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |source| Failure::Write { path: path.to_owned(), source };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut file = tempfile::Builder::new().prefix(".palisade-").tempfile_in(directory).map_err(failed)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all());
    written.map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}

/// What a new definition begins with.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// What it is to be called
    #[arg(value_name = "NAME")]
    name: String,
    /// Begin with the content of another profile
    #[arg(long, value_name = "PROFILE", conflicts_with = "program")]
    from: Option<String>,
    /// The program of an application, a path or a name; without, the profile is for commands
    #[arg(long, value_name = "PROGRAM", value_hint = clap::ValueHint::CommandName)]
    program: Option<String>,
    /// Features that it asks for
    #[arg(long, value_name = "NAME")]
    feature: Vec<String>,
}

pub(super) fn create(sort: Sort, options: &Create) -> Exit {
    let (name, from) = (options.name.as_str(), options.from.as_deref());
    let facts = situation::facts()?;
    let file = own_file(&facts, sort, name)?;
    if file.symlink_metadata().is_ok() {
        return Err(Failure::DefinitionExists { sort, name: name.to_owned(), file });
    }
    let text = match from {
        Some(from) => {
            let found = own::of_name(&facts, sort, from).into_iter().next();
            let found = match found {
                Some(found) => found,
                // The error names the nearest profile.
                None => {
                    return Err(layers::profile(&facts, from.as_ref()).err().map_or_else(
                        || Failure::DefinitionName { sort, name: from.to_owned() },
                        Failure::from,
                    ));
                }
            };
            own::renamed(&text_of(&found)?, name)
        }
        None => own::template(name, &options.feature, options.program.as_deref()),
    };
    own::check(&text, &file, sort)?;
    write(&file, &text)?;
    let shown = harmless(&file.to_string_lossy());
    let used = match (&options.from, &options.program) {
        (Some(_), _) => String::new(),
        (None, Some(_)) => format!("; then: palisade open {name}"),
        (None, None) => format!("; then: palisade run --profile {name} -- COMMAND…"),
    };
    output::note(&format_args!("{shown} is written: palisade {} edit {name}{used}", sort.name()));
    Ok(YES)
}

impl Edit {
    pub(super) fn run(&self, sort: Sort) -> Exit {
        let facts = situation::facts()?;
        let file = own_file(&facts, sort, &self.name)?;
        let before = match own::of_name(&facts, sort, &self.name).first() {
            Some(definition) => text_of(definition)?,
            None => own::template(&self.name, &[], None),
        };
        // The user edits a copy. The definition in force stays complete until the user has written a valid one.
        let failed = |source| Failure::Write { path: file.clone(), source };
        let aside =
            tempfile::Builder::new().prefix("palisade-").suffix(".toml").tempfile().map_err(failed)?;
        std::fs::write(aside.path(), &before).map_err(failed)?;
        edit(sort, &self.name, aside.path())?;
        let after = std::fs::read_to_string(aside.path())
            .map_err(|source| Failure::Read { path: aside.path().to_owned(), source })?;
        if after == before {
            output::note(&format_args!("nothing was changed"));
            return Ok(NO);
        }
        if let Err(error) = own::check(&after, &file, sort) {
            // Keep what the user typed.
            if let Ok((_file, path)) = aside.keep() {
                output::note(&format_args!("what you wrote is in {}", harmless(&path.to_string_lossy())));
            }
            return Err(error.into());
        }
        write(&file, &after)?;
        output::note(&format_args!("{} is written", harmless(&file.to_string_lossy())));
        Ok(YES)
    }
}

/// Lets the user edit a file.
fn edit(sort: Sort, name: &str, path: &Path) -> Result<(), Failure> {
    let failed =
        |editor: String, reason: String| Failure::Editor { sort, name: name.to_owned(), editor, reason };
    let named = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| std::env::var(name).ok());
    let tried: Vec<String> =
        named.chain(EDITORS.map(str::to_owned)).filter(|name| !name.trim().is_empty()).collect();
    for editor in &tried {
        // The variable may hold arguments, too. They are split without a shell: that would be one more program to
        // interpret them.
        let mut words = editor.split_whitespace();
        let Some(program) = words.next() else { continue };
        match Command::new(program).args(words).arg(path).status() {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => return Err(failed(editor.clone(), status.to_string())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(editor.clone(), error.to_string())),
        }
    }
    Err(failed(tried.join(", "), "there is no such program".to_owned()))
}

#[derive(Serialize)]
struct Difference {
    name: String,
    /// The definition in use.
    own: String,
    /// The definition that it replaces.
    other: String,
    same: bool,
    diff: String,
}

fn difference(own: &Definition, other: &Definition) -> Result<Difference, Failure> {
    let (before, after) = (text_of(other)?, text_of(own)?);
    let (own_place, other_place) = (own.place(), other.place());
    let mut diff = format!("--- {other_place}\n+++ {own_place}\n");
    for hunk in palisade_text::diff::hunks(&before, &after) {
        diff.push_str(&hunk.to_string());
    }
    Ok(Difference {
        name: own.name.clone(),
        same: before == after,
        own: own_place,
        other: other_place,
        diff: if before == after { String::new() } else { diff },
    })
}

impl Diff {
    pub(super) fn run(&self, sort: Sort) -> Exit {
        let name = self.name.as_str();
        let facts = situation::facts()?;
        let found = own::of_name(&facts, sort, name);
        let [own, other, ..] = found.as_slice() else {
            return Err(Failure::NothingToCompare { sort, name: name.to_owned() });
        };
        let difference = difference(own, other)?;
        let same = difference.same;
        if self.json {
            verb::print_json(&difference)?;
        } else {
            verb::print(&difference.diff)?;
        }
        Ok(if same { YES } else { NO })
    }
}

impl Remove {
    pub(super) fn run(&self, sort: Sort) -> Exit {
        let facts = situation::facts()?;
        let Some(name) = self.name.as_deref() else { return remove_same(&facts, sort, self.yes) };
        let file = own_file(&facts, sort, name)?;
        if file.symlink_metadata().is_err() {
            return Err(Failure::NotYours { sort, name: name.to_owned() });
        }
        let next = own::of_name(&facts, sort, name).into_iter().find(|other| other.layer != Layer::User);
        let then = match next {
            Some(next) => format!("the one of the {} layer applies then", next.layer),
            None => "no other one has this name".to_owned(),
        };
        let shown = harmless(&file.to_string_lossy());
        let agreed = self.yes
            || verb::confirmed(&format!("Remove {shown}; {then}? [y/N] ")).ok_or(Failure::NobodyToAsk)?;
        if !agreed {
            return Ok(NO);
        }
        std::fs::remove_file(&file).map_err(|source| Failure::Write { path: file, source })?;
        output::note(&format_args!("{shown} is gone; {then}"));
        Ok(YES)
    }
}

/// Removes the user's definitions that say the same as the ones that they replace.
fn remove_same(facts: &Facts, sort: Sort, yes: bool) -> Exit {
    let mut any = false;
    for (own, other) in own::replacing(facts, sort) {
        let Some(file) = own.file.as_ref() else { continue };
        if text_of(&own)? != text_of(&other)? {
            continue;
        }
        any = true;
        let shown = harmless(&file.to_string_lossy());
        let question = format!("Remove {shown}, which has the same content as the shipped one? [y/N] ");
        if yes || verb::confirmed(&question).ok_or(Failure::NobodyToAsk)? {
            std::fs::remove_file(file).map_err(|source| Failure::Write { path: file.clone(), source })?;
            output::note(&format_args!("{shown} is gone"));
        }
    }
    if !any {
        output::note(&format_args!("none of yours has the same content as a shipped one"));
    }
    Ok(if any { YES } else { NO })
}
