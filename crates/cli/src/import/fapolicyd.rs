// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host's fapolicyd: its rules, trust files, filter and settings, for Palisade's guard.
//!
//! Rules and trust files are copied as they are, once they have been understood; the settings are said in Palisade's
//! words. Everything is understood before anything is written.

use super::ImportError;
use crate::answer::{self, Failure, YES};
use crate::guard::{CONFIG, GuardError};
use crate::output;
use palisade_guard::import::{Fapolicyd, toml};
use palisade_guard::linkers;
use palisade_guard::rule::accounts::AccountFiles;
use palisade_guard::rule::files::{Reader, Writers};
use palisade_guard::settings::Settings;
use palisade_guard::setup::{SetupError, placeholders};
use palisade_guard::trust::edit::TrustFiles;
use palisade_guard::trust::filter::Filter;
use palisade_guard::watch::line::Format;
use palisade_text::Show as _;
use serde::Serialize;
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Where fapolicyd's files are.
pub(super) const PLACE: &str = "/etc/fapolicyd";

/// A file to be written.
struct Item {
    from: PathBuf,
    to: PathBuf,
    content: Vec<u8>,
}

/// All that is to be written, and what is to be said of it.
#[derive(Default)]
struct Plan {
    items: Vec<Item>,
    rules: usize,
    trusted: usize,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct Document<'a> {
    from: &'static str,
    written: bool,
    rules: usize,
    trusted: usize,
    files: Vec<Copied<'a>>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Copied<'a> {
    #[serde(serialize_with = "lossy")]
    from: &'a Path,
    #[serde(serialize_with = "lossy")]
    to: &'a Path,
    /// What is written, if it isn't a copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

fn lossy<S: serde::Serializer>(path: &&Path, to: S) -> Result<S::Ok, S::Error> {
    answer::lossy(path, to)
}

/// Takes over what is in `place`, into the directory `into`.
pub(super) fn import(place: &Path, into: &Path, force: bool, dry: bool, json: bool) -> Result<u8, Failure> {
    if !dry && into == Path::new(CONFIG) && !rustix::process::geteuid().is_root() {
        return Err(Failure::RootOnly { what: "what may execute on this host" });
    }
    let mut plan = Plan::default();
    plan.rules(place, into)?;
    plan.trust(place, into)?;
    plan.filter(place, into)?;
    // Last: with it palisaded begins to go by the others.
    plan.settings(place, into)?;
    if plan.items.is_empty() {
        return Err(ImportError::Empty { path: place.to_owned() }.into());
    }
    plan.check_targets(into, force)?;
    if !dry {
        write(&plan.items, force)?;
    }
    plan.say(dry, json)?;
    Ok(YES)
}

/// What a file holds, if there is one.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ImportError> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ImportError::Read { path: path.to_owned(), source }),
    }
}

/// What a file holds that was seen a moment ago.
fn content(path: &Path) -> Result<Vec<u8>, ImportError> {
    let gone = || ImportError::Read { path: path.to_owned(), source: ErrorKind::NotFound.into() };
    read(path)?.ok_or_else(gone)
}

impl Plan {
    fn copy(&mut self, from: &Path, to: PathBuf) -> Result<(), ImportError> {
        self.items.push(Item { from: from.to_owned(), to, content: content(from)? });
        Ok(())
    }

    /// `rules.d`, otherwise `compiled.rules`, otherwise `fapolicyd.rules`: as fapolicyd does.
    fn rules(&mut self, place: &Path, into: &Path) -> Result<(), Failure> {
        let accounts = AccountFiles::host();
        let placeholders = placeholders(&linkers::of_host());
        let reader = Reader { writers: Writers::Anybody, accounts: &accounts, placeholders: &placeholders };
        let failed = |error| Failure::from(GuardError::Setup(SetupError::Rules(error)));
        let directory = place.join("rules.d");
        let single = ["compiled.rules", "fapolicyd.rules"].map(|name| place.join(name));
        let mut files =
            if directory.is_dir() { reader.list(&directory).map_err(failed)? } else { Vec::new() };
        let compiled = files.is_empty();
        if compiled {
            files.extend(single.into_iter().find(|path| path.exists()));
        }
        if files.is_empty() {
            self.notes.push(
                "there are no rules: the built-in ones count (palisade guard default known-libs)".into(),
            );
            return Ok(());
        }
        self.rules = reader.place(place).map_err(failed)?.len();
        for file in files {
            let name =
                if compiled { "fapolicyd.rules".as_ref() } else { file.file_name().unwrap_or_default() };
            self.copy(&file, into.join("guard.d").join(name))?;
        }
        Ok(())
    }

    /// `fapolicyd.trust` and `trust.d`. A line that can't be read was nothing to fapolicyd, either.
    fn trust(&mut self, place: &Path, into: &Path) -> Result<(), Failure> {
        let main = place.join("fapolicyd.trust");
        let files = TrustFiles::new(&main, &place.join("trust.d"));
        let said = files.read().map_err(GuardError::from)?;
        self.trusted = said.records.len();
        self.notes.extend(said.mistakes.iter().map(|mistake| format!("{mistake}; the line has no effect")));
        for file in files.list().map_err(GuardError::from)? {
            let to = match file.file_name() {
                Some(name) if file != main => into.join("trust.d").join(name),
                _ => into.join("guard.trust"),
            };
            self.copy(&file, to)?;
        }
        Ok(())
    }

    fn filter(&mut self, place: &Path, into: &Path) -> Result<(), Failure> {
        let path = place.join("fapolicyd-filter.conf");
        if place.join("rpm-filter.conf").exists() {
            self.notes.push(
                "rpm-filter.conf isn't taken over: fapolicyd itself goes by fapolicyd-filter.conf by now"
                    .into(),
            );
        }
        let Some(text) = read(&path)? else { return Ok(()) };
        match Filter::parse(&text) {
            Ok(_) => Ok(self.copy(&path, into.join("guard-filter.conf"))?),
            Err(source) => Err(GuardError::Filter { path, source }.into()),
        }
    }

    fn settings(&mut self, place: &Path, into: &Path) -> Result<(), Failure> {
        let path = place.join("fapolicyd.conf");
        let Some(bytes) = read(&path)? else {
            self.notes.push("there is no fapolicyd.conf: the settings are Palisade's own, permissive".into());
            return Ok(());
        };
        let text = String::from_utf8(bytes).map_err(|error| ImportError::NotText {
            path: path.clone(),
            valid: error.utf8_error().valid_up_to(),
        })?;
        let config = Fapolicyd::parse(&text).map_err(|error| ImportError::Syntax {
            path: path.clone(),
            line: error.line,
            message: error.wrong.to_string(),
        })?;
        let rendered = toml::render(&config);
        let unsaid = |mistake: String| ImportError::Unsaid { path: path.clone(), mistake };
        let to = into.join("guard.toml");
        let settings = Settings::parse(&rendered, &to).map_err(|error| unsaid(error.to_string()))?;
        Format::parse(&settings.log.format).map_err(|error| unsaid(error.to_string()))?;
        let unneeded = rendered.lines().skip_while(|line| *line != "# Not needed here:").skip(1);
        self.notes.extend(unneeded.map(|line| format!("not taken over: {}", line.trim_start_matches("# "))));
        self.items.push(Item { from: path, to, content: rendered.into_bytes() });
        Ok(())
    }

    /// Nothing that is there is replaced unless that is wanted, and no other rules come between.
    fn check_targets(&mut self, into: &Path, force: bool) -> Result<(), Failure> {
        let taken = self.items.iter().find(|item| item.to.exists());
        if let (Some(item), false) = (taken, force) {
            return Err(ImportError::Exists { path: item.to.clone() }.into());
        }
        let entries = std::fs::read_dir(into.join("guard.d")).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_rules = path.extension().is_some_and(|ending| ending == "rules");
            if self.rules == 0 || !is_rules || self.items.iter().any(|item| item.to == path) {
                continue;
            }
            if !force {
                return Err(ImportError::Exists { path }.into());
            }
            self.notes.push(format!("{} stays, and its rules count, too", path.shown()));
        }
        Ok(())
    }

    fn say(&self, dry: bool, json: bool) -> Result<(), Failure> {
        if json {
            let files = self.items.iter().map(|item| Copied {
                from: &item.from,
                to: &item.to,
                text: item
                    .to
                    .ends_with("guard.toml")
                    .then(|| String::from_utf8_lossy(&item.content).into_owned()),
            });
            let (files, notes) = (files.collect(), self.notes.as_slice());
            let (rules, trusted) = (self.rules, self.trusted);
            answer::print_json(&Document { from: "fapolicyd", written: !dry, rules, trusted, files, notes })?;
            return Ok(());
        }
        let verb = if dry { "would write" } else { "wrote" };
        let line = |item: &Item| format!("{verb} {} from {}\n", item.to.shown(), item.from.shown());
        answer::print(&self.items.iter().map(line).collect::<String>())?;
        self.notes.iter().for_each(|note| output::note(note));
        output::say(&format!("{} rules and {} trusted files\n", self.rules, self.trusted));
        if !dry {
            output::say("hint: palisade guard check && palisade guard lint\n");
        }
        Ok(())
    }
}

/// Writes all files beside their places, and only then puts them there.
fn write(items: &[Item], replace: bool) -> Result<(), ImportError> {
    let mut ready: Vec<(NamedTempFile, &Path)> = Vec::new();
    for item in items {
        let failed = |source| ImportError::Write { path: item.to.clone(), source };
        let directory = item.to.parent().unwrap_or(Path::new("/"));
        DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
        let mode = Permissions::from_mode(0o644);
        let mut file = tempfile::Builder::new()
            .prefix(".imported")
            .permissions(mode)
            .tempfile_in(directory)
            .map_err(failed)?;
        // The umask may have taken something away.
        file.as_file().set_permissions(Permissions::from_mode(0o644)).map_err(failed)?;
        file.write_all(&item.content).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        ready.push((file, &item.to));
    }
    for (file, to) in ready {
        let kept = if replace { file.persist(to) } else { file.persist_noclobber(to) };
        kept.map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => ImportError::Exists { path: to.to_owned() },
            _ => ImportError::Write { path: to.to_owned(), source: error.error },
        })?;
    }
    Ok(())
}
