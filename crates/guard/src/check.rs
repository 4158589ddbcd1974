// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether settings and rules can be understood, and lists everything that is wrong with them.

use crate::linkers;
use crate::rule::RuleSet;
use crate::rule::accounts::AccountFiles;
use crate::rule::error::{Complaint, LoadError};
use crate::rule::files::{Reader, Writers};
use crate::settings::{Settings, SettingsError};
use crate::setup::{Setup, SetupError, placeholders};
use crate::watch::line::Format;
use palisade_text::Show as _;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// One mistake.
#[derive(Debug, Serialize)]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The column, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// What is wrong, for programs.
    pub class: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The line with a caret below, for people.
    #[serde(skip)]
    pub excerpt: Option<String>,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Checked {
    /// How many rules there are, if they can be understood.
    pub rules: Option<usize>,
    /// Where the rules are from.
    pub from: Option<String>,
    /// What is wrong.
    pub errors: Vec<Mistake>,
    /// How many more mistakes there are.
    pub more: usize,
}

impl Checked {
    /// Checks what palisaded would read from the directory `config`. With `path`, checks a directory like it, a file of
    /// settings or rules, or a directory of rules instead, even if users other than root may write there.
    #[must_use]
    pub fn of(config: &Path, path: Option<&Path>) -> Self {
        let mut checked = Self::default();
        match path {
            None => checked.place(config, Writers::RootOnly),
            Some(path) if path.join("guard.toml").exists() || path.join("guard.d").is_dir() => {
                checked.place(path, Writers::Anybody);
            }
            Some(path) if path.extension().is_some_and(|ending| ending == "toml") => {
                // The file may have rules, too.
                if checked.settings(path) {
                    checked.rules(path, Writers::Anybody);
                }
            }
            Some(path) => checked.rules(path, Writers::Anybody),
        }
        checked
    }

    /// Checks everything that palisaded would read from a directory.
    fn place(&mut self, config: &Path, writers: Writers) {
        let file = config.join("guard.toml");
        let settings_are_right = !file.exists() || self.settings(&file);
        let directory = config.join("guard.d");
        if settings_are_right {
            match Setup::read(config, None, writers) {
                Ok(setup) => self.understood(&setup.rules, setup.from),
                Err(error) => self.setup(&error, config),
            }
        } else if directory.is_dir() {
            self.rules(&directory, writers);
        }
    }

    /// Whether the settings are right.
    fn settings(&mut self, path: &Path) -> bool {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(source) => {
                self.setup(&SetupError::Read { path: path.to_owned(), source }, path);
                return false;
            }
        };
        let format = match Settings::parse(&text, path) {
            Ok(settings) => Format::parse(&settings.log.format),
            Err(error) => {
                self.errors.push(of_settings(&error, path));
                return false;
            }
        };
        match format {
            Ok(_) => true,
            Err(error) => {
                self.setup(&SetupError::Format(error), path);
                false
            }
        }
    }

    fn rules(&mut self, path: &Path, writers: Writers) {
        let accounts = AccountFiles::host();
        let placeholders = placeholders(&linkers::of_host());
        let reader = Reader { writers, accounts: &accounts, placeholders: &placeholders };
        let read = if path.is_dir() { reader.directory(path) } else { reader.files(&[path.to_owned()]) };
        match read {
            Ok(rules) => self.understood(&rules, path.display().to_string()),
            Err(error) => self.load(&error, path),
        }
    }

    fn understood(&mut self, rules: &RuleSet, from: String) {
        self.rules = Some(rules.len());
        self.from = Some(from);
    }

    fn setup(&mut self, error: &SetupError, path: &Path) {
        match error {
            SetupError::Rules(error) => self.load(error, path),
            SetupError::Settings(error) => self.errors.push(of_settings(error, path)),
            error => self.errors.push(Mistake {
                class: error.class().to_owned(),
                // The other errors' hint is to run this check.
                hint: matches!(error, SetupError::Read { .. } | SetupError::TooLarge { .. })
                    .then(|| error.hint())
                    .flatten(),
                ..mistake(path, error)
            }),
        }
    }

    fn load(&mut self, error: &LoadError, path: &Path) {
        match error {
            LoadError::Refused { complaints, more } => {
                self.errors.extend(complaints.iter().map(of_rule));
                self.more += more;
            }
            error => self.errors.push(of_load(error, path)),
        }
    }
}

fn mistake(path: &Path, message: &dyn std::fmt::Display) -> Mistake {
    Mistake {
        file: path.display().to_string(),
        line: None,
        column: None,
        class: String::new(),
        message: message.to_string(),
        hint: None,
        excerpt: None,
    }
}

fn of_settings(error: &SettingsError, path: &Path) -> Mistake {
    let class = "settings".to_owned();
    match error {
        SettingsError::Malformed { path, message, place } => {
            // The parser's first line names the place, its last what is wrong; between them is the excerpt.
            let lines: Vec<&str> = message.lines().collect();
            let what = lines.last().copied().unwrap_or_default();
            let excerpt = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default();
            let excerpt: String = excerpt.iter().map(|line| format!("{line}\n")).collect();
            Mistake {
                line: place.map(|(line, _)| line),
                column: place.map(|(_, column)| column),
                class,
                excerpt: Some(excerpt),
                ..mistake(path, &what)
            }
        }
        error => Mistake { class, ..mistake(path, error) },
    }
}

fn of_rule(complaint: &Complaint) -> Mistake {
    Mistake {
        line: Some(complaint.line),
        column: Some(complaint.column),
        class: complaint.error.class().to_owned(),
        hint: complaint.error.hint(),
        excerpt: excerpt(complaint),
        ..mistake(&complaint.file, &complaint.error)
    }
}

/// The line of the file as it is now, and a caret below where the mistake begins.
fn excerpt(complaint: &Complaint) -> Option<String> {
    const LONGEST: usize = 160;
    let content = std::fs::read(&complaint.file).ok()?;
    let line =
        content.split(|&byte| byte == b'\n').nth(usize::try_from(complaint.line).ok()?.checked_sub(1)?)?;
    let column = usize::try_from(complaint.column).ok()?.checked_sub(1)?;
    if line.len() > LONGEST {
        return None;
    }
    let text = String::from_utf8_lossy(line);
    let before = String::from_utf8_lossy(line.get(..column)?).chars().count();
    let number = complaint.line.to_string();
    let margin = " ".repeat(number.len());
    let length = complaint.text.chars().count().clamp(1, LONGEST);
    let caret = format!("{}{}", " ".repeat(before), "^".repeat(length));
    // A tab would shift the caret in the line below.
    let text = text.replace('\t', " ");
    Some(format!("{margin} |\n{number} | {}\n{margin} | {caret}\n", text.trim_end()))
}

fn of_load(error: &LoadError, path: &Path) -> Mistake {
    let named: (&PathBuf, &str, Option<String>) = match error {
        LoadError::Read { file, .. } => {
            (file, "read", Some(format!("ls -ld {}", palisade_text::quoted(&file.to_string_lossy()))))
        }
        LoadError::Writable { file, hint, .. } => (file, "distrusted", Some(hint.clone())),
        LoadError::TooLarge { file } => (file, "too-large", None),
        LoadError::Both { file, .. } => (file, "rules.both", Some(format!("rm {}", file.shown()))),
        LoadError::Refused { .. } => (&path.to_owned(), "rules", None),
    };
    let (file, class, hint) = named;
    // The hint is printed separately.
    let message = error.to_string();
    let message = message.lines().next().unwrap_or_default();
    Mistake { class: class.to_owned(), hint, ..mistake(file, &message) }
}
