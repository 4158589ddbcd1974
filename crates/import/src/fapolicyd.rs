// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Imports a host's fapolicyd: its rules, trust files, filter and settings, for Palisade's guard.
//!
//! Rules and trust files are checked and then copied unchanged. The settings are translated. Everything is checked
//! before anything is written.

use crate::error::ImportError;
use palisade_guard::import::{Fapolicyd, toml};
use palisade_guard::linkers;
use palisade_guard::rule::accounts::AccountFiles;
use palisade_guard::rule::files::{Reader, Writers};
use palisade_guard::settings::Settings;
use palisade_guard::setup::{SetupError, placeholders};
use palisade_guard::trust::edit::Mistake;
use palisade_guard::trust::edit::{self, TrustFiles};
use palisade_guard::trust::filter::{self, Filter};
use palisade_guard::watch::line::Format;
use palisade_text::Show as _;
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// The directory of fapolicyd's files.
pub const PLACE: &str = "/etc/fapolicyd";

/// Why a host's fapolicyd isn't imported.
#[derive(Debug, thiserror::Error)]
pub enum FapolicydError {
    /// A file can't be read, understood or written.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The rules can't be understood.
    #[error(transparent)]
    Rules(#[from] SetupError),
    /// The trust files can't be read.
    #[error(transparent)]
    Trust(#[from] edit::Error),
    /// The filter of what is trusted can't be understood.
    #[error("{}: {source}", path.shown())]
    Filter {
        /// Its file.
        path: PathBuf,
        /// What is wrong with it.
        source: filter::Error,
    },
}

/// A file to be written.
#[derive(Debug)]
pub struct Item {
    /// The original file.
    pub from: PathBuf,
    /// Where it goes.
    pub to: PathBuf,
    /// What is written.
    pub content: Vec<u8>,
    /// Whether the content is a translation of the original, and not a copy.
    pub translated: bool,
}

/// A note about the import.
#[derive(Debug)]
pub enum Note {
    /// The host has no rules.
    NoRules,
    /// A line of a trust file that has no effect.
    Mistake(Mistake),
    /// There is a `rpm-filter.conf`, which fapolicyd doesn't use any more.
    OldFilter,
    /// The host has no `fapolicyd.conf`.
    NoSettings,
    /// A setting that Palisade doesn't need.
    Unneeded(String),
    /// Existing rules that apply together with the imported ones.
    OtherRules(PathBuf),
}

/// Everything that will be written, and notes about it.
#[derive(Debug, Default)]
pub struct Takeover {
    /// The files, in the order in which they are written.
    pub items: Vec<Item>,
    /// How many rules there are.
    pub rules: usize,
    /// How many files are trusted.
    pub trusted: usize,
    /// Notes about the import.
    pub notes: Vec<Note>,
}

/// The content of a file. `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Vec<u8>>, ImportError> {
    match std::fs::read(path) {
        Ok(content) => Ok(Some(content)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ImportError::Read { path: path.to_owned(), source }),
    }
}

/// The content of a file that existed a moment ago.
fn content(path: &Path) -> Result<Vec<u8>, ImportError> {
    let gone = || ImportError::Read { path: path.to_owned(), source: ErrorKind::NotFound.into() };
    read(path)?.ok_or_else(gone)
}

impl Takeover {
    /// Reads the files in `place`, and determines what to write into the directory `into`.
    ///
    /// # Errors
    /// When something can't be read or understood, when there is nothing to import, or when a file exists already and
    /// may not be replaced.
    pub fn read(place: &Path, into: &Path, replace: bool) -> Result<Self, FapolicydError> {
        let mut takeover = Self::default();
        takeover.rules(place, into)?;
        takeover.trust(place, into)?;
        takeover.filter(place, into)?;
        // Last: once the settings exist, palisaded starts to use the other files.
        takeover.settings(place, into)?;
        if takeover.items.is_empty() {
            return Err(ImportError::Empty { path: place.to_owned() }.into());
        }
        takeover.check_targets(into, replace)?;
        Ok(takeover)
    }

    fn copy(&mut self, from: &Path, to: PathBuf) -> Result<(), ImportError> {
        self.items.push(Item { from: from.to_owned(), to, content: content(from)?, translated: false });
        Ok(())
    }

    /// Reads `rules.d`, otherwise `compiled.rules`, otherwise `fapolicyd.rules`, as fapolicyd does.
    fn rules(&mut self, place: &Path, into: &Path) -> Result<(), FapolicydError> {
        let accounts = AccountFiles::host();
        let placeholders = placeholders(&linkers::of_host());
        let reader = Reader { writers: Writers::Anybody, accounts: &accounts, placeholders: &placeholders };
        let failed = |error| FapolicydError::Rules(SetupError::Rules(error));
        let directory = place.join("rules.d");
        let single = ["compiled.rules", "fapolicyd.rules"].map(|name| place.join(name));
        let mut files =
            if directory.is_dir() { reader.list(&directory).map_err(failed)? } else { Vec::new() };
        let compiled = files.is_empty();
        if compiled {
            files.extend(single.into_iter().find(|path| path.exists()));
        }
        if files.is_empty() {
            self.notes.push(Note::NoRules);
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

    /// Reads `fapolicyd.trust` and `trust.d`. fapolicyd ignored lines that can't be read, too.
    fn trust(&mut self, place: &Path, into: &Path) -> Result<(), FapolicydError> {
        let main = place.join("fapolicyd.trust");
        let files = TrustFiles::new(&main, &place.join("trust.d"));
        let said = files.read()?;
        self.trusted = said.records.len();
        self.notes.extend(said.mistakes.into_iter().map(Note::Mistake));
        for file in files.list()? {
            let to = match file.file_name() {
                Some(name) if file != main => into.join("trust.d").join(name),
                _ => into.join("guard.trust"),
            };
            self.copy(&file, to)?;
        }
        Ok(())
    }

    fn filter(&mut self, place: &Path, into: &Path) -> Result<(), FapolicydError> {
        let path = place.join("fapolicyd-filter.conf");
        if place.join("rpm-filter.conf").exists() {
            self.notes.push(Note::OldFilter);
        }
        let Some(text) = read(&path)? else { return Ok(()) };
        match Filter::parse(&text) {
            Ok(_) => Ok(self.copy(&path, into.join("guard-filter.conf"))?),
            Err(source) => Err(FapolicydError::Filter { path, source }),
        }
    }

    fn settings(&mut self, place: &Path, into: &Path) -> Result<(), FapolicydError> {
        let path = place.join("fapolicyd.conf");
        let Some(bytes) = read(&path)? else {
            self.notes.push(Note::NoSettings);
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
        self.notes.extend(unneeded.map(|line| Note::Unneeded(line.trim_start_matches("# ").to_owned())));
        self.items.push(Item { from: path, to, content: rendered.into_bytes(), translated: true });
        Ok(())
    }

    /// Without `replace`, an existing file is an error, and so are other rules that would apply as well.
    fn check_targets(&mut self, into: &Path, replace: bool) -> Result<(), FapolicydError> {
        let taken = self.items.iter().find(|item| item.to.exists());
        if let (Some(item), false) = (taken, replace) {
            return Err(ImportError::Exists { path: item.to.clone() }.into());
        }
        let entries = std::fs::read_dir(into.join("guard.d")).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let is_rules = path.extension().is_some_and(|ending| ending == "rules");
            if self.rules == 0 || !is_rules || self.items.iter().any(|item| item.to == path) {
                continue;
            }
            if !replace {
                return Err(ImportError::Exists { path }.into());
            }
            self.notes.push(Note::OtherRules(path));
        }
        Ok(())
    }

    /// Writes all files beside their places first, and then puts them in their places.
    ///
    /// # Errors
    /// When a file exists already and may not be replaced, or can't be written.
    pub fn write(&self, replace: bool) -> Result<(), ImportError> {
        let mut ready: Vec<(NamedTempFile, &Path)> = Vec::new();
        for item in &self.items {
            let failed = |source| ImportError::Write { path: item.to.clone(), source };
            let directory = item.to.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(failed)?;
            let mode = Permissions::from_mode(0o644);
            let mut file = tempfile::Builder::new()
                .prefix(".imported")
                .permissions(mode)
                .tempfile_in(directory)
                .map_err(failed)?;
            // The umask may have removed permissions.
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
}
