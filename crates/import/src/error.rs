// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a file isn't imported, and what to do about it.

use crate::profile::MOST;
use crate::source;
use std::path::{Path, PathBuf};

/// Why nothing is imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file can't be read.
    #[error("can't read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The path names a directory, a device or a pipe.
    #[error("can't import {path:?}: it is no regular file")]
    NotFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is too large.
    #[error("can't import {path:?}: it has more than {} KiB", source::LARGEST >> 10)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file isn't text.
    #[error("can't import {path:?}: it isn't UTF-8 after its first {valid} bytes")]
    NotText {
        /// The file.
        path: PathBuf,
        /// How many bytes are UTF-8.
        valid: usize,
    },
    /// The file has no statement: an empty profile of firejail would grant the whole home.
    #[error("can't import {path:?}: it has no statements")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A statement that the launcher itself would refuse.
    #[error("can't import {path:?}: {line}: {launcher} doesn't know {statement:?}{}", and_more(*more))]
    Unknown {
        /// The file.
        path: PathBuf,
        /// The launcher that the file is for.
        launcher: &'static str,
        /// The line of the statement.
        line: String,
        /// The statement that the launcher doesn't know.
        statement: String,
        /// How many more such statements there are.
        more: usize,
    },
    /// Not TOML.
    #[error("can't import {path:?}: line {line}: {message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// What is wrong there.
        message: String,
    },
    /// The file isn't what its agent reads.
    #[error("can't import {path:?}: line {line}, column {column}: {message}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// Where in the line, in characters.
        column: usize,
        /// What is wrong there.
        message: String,
    },
    /// The file builds on settings that are a part of the program.
    #[error("can't import {path:?}: it extends {name:?}, a template inside the program of {launcher}")]
    Template {
        /// The file.
        path: PathBuf,
        /// The template's name.
        name: String,
        /// The program.
        launcher: &'static str,
    },
    /// The files that the file builds on have no end.
    #[error("can't import {path:?}: it extends {name:?}: {why}")]
    Extends {
        /// The file.
        path: PathBuf,
        /// The file at which the chain can't go on.
        name: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// An agent's settings aren't a part that profiles use.
    #[error("can't import {path:?} as a feature: settings of {launcher} describe a whole sandbox")]
    Settings {
        /// The file.
        path: PathBuf,
        /// The program.
        launcher: &'static str,
        /// The program's name after `--from`.
        word: &'static str,
    },
    /// An included file doesn't exist: it isn't known what it would restrict.
    #[error("can't import what {line:?} names: there is no {name:?} in {}", looked.join(", "))]
    Missing {
        /// The line that includes it.
        line: String,
        /// The name of the file.
        name: String,
        /// Where it was looked for.
        looked: Vec<String>,
    },
    /// An included file lies elsewhere.
    #[error(
        "can't import what {line:?} names: {path:?} lies neither beside the profile nor in /etc/firejail"
    )]
    Outside {
        /// The line that includes it.
        line: String,
        /// Where it lies.
        path: PathBuf,
    },
    /// Files that include each other.
    #[error("can't import what {line:?} names: it includes itself")]
    Circle {
        /// The line that includes it.
        line: String,
    },
    /// More or larger included files than real profiles have.
    #[error("can't import what {line:?} names: too many files, too large, or nested too deeply")]
    Includes {
        /// The line that includes it.
        line: String,
    },
    /// Firejail has no features.
    #[error(
        "can't import {path:?} as a feature: what a part of a firejail profile means depends on the lines before it"
    )]
    Part {
        /// The file.
        path: PathBuf,
    },
    /// `--profile` wouldn't find the name.
    #[error("{name:?} can't be the name of a profile")]
    Name {
        /// The name.
        name: String,
    },
    /// The profile would have too many entries.
    #[error("can't import {path:?}: the profile would have {count} entries; at most {MOST} are read")]
    Entries {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
    /// The profile would be refused, because of a bug in this program.
    #[error("can't import {path:?}: the result isn't a valid policy file: {mistake}")]
    Unsaid {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        mistake: String,
    },
    /// A file is there already.
    #[error("can't write {path:?}: it exists")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// It can't be written.
    #[error("can't write {path:?}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl ImportError {
    /// The error's class, for programs.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Read { .. } | Self::NotFile { .. } | Self::TooLarge { .. } | Self::NotText { .. } => "read",
            Self::Empty { .. }
            | Self::Unknown { .. }
            | Self::Syntax { .. }
            | Self::Malformed { .. }
            | Self::Entries { .. }
            | Self::Unsaid { .. } => "syntax",
            Self::Missing { .. }
            | Self::Outside { .. }
            | Self::Circle { .. }
            | Self::Includes { .. }
            | Self::Template { .. }
            | Self::Extends { .. } => "include",
            Self::Part { .. } | Self::Settings { .. } | Self::Name { .. } => "usage",
            Self::Exists { .. } => "exists",
            Self::Write { .. } => "write",
        }
    }

    /// What to type instead.
    pub fn hint(&self) -> Option<String> {
        let is = |path: &Path, ending: &str| path.extension().is_some_and(|extension| extension == ending);
        Some(match self {
            Self::TooLarge { path } => format!("head {}   # what is it?", word(path)),
            Self::NotText { path, .. } => {
                format!("iconv -f latin1 -t utf-8 {} >copy   # and import that", word(path))
            }
            Self::Unknown { path, launcher: "Firejail", .. } if is(path, "toml") => {
                format!("palisade import --from antimony {}", word(path))
            }
            Self::Syntax { path, .. } if is(path, "profile") => {
                format!("palisade import --from firejail {}", word(path))
            }
            Self::Unknown { launcher, .. } => {
                format!("remove it from a copy, and import the copy: {launcher} refuses it, too")
            }
            Self::Syntax { path, line, .. } | Self::Malformed { path, line, .. } => {
                format!("sed -n {line}p {}", word(path))
            }
            Self::Read { path, .. } | Self::NotFile { path } => format!("ls -l {}", word(path)),
            Self::Missing { .. } => match palisade_sandbox::error::packages::install("firejail-profiles") {
                Some(install) => format!("{install}   # or put the file beside the profile"),
                None => "put the file beside the profile".to_owned(),
            },
            Self::Outside { path, .. } => {
                format!("cp {} .   # beside the profile, and name it without directories", word(path))
            }
            Self::Template { path, launcher: "Fence", .. } => {
                format!("fence config show --settings {} >whole.json   # and import that", word(path))
            }
            Self::Template { .. } => {
                "write the template's settings into a copy in place of `extends`, and import the copy"
                    .to_owned()
            }
            Self::Extends { path, .. } => format!("grep -n extends {}", word(path)),
            Self::Settings { path, word: from, .. } => {
                format!("palisade import --from {from} {}", word(path))
            }
            Self::Part { path } => format!("palisade import --from firejail {}", word(path)),
            Self::Name { .. } => "palisade import --name NAME …".to_owned(),
            Self::Exists { .. } => "palisade import --force …   # replaces it".to_owned(),
            Self::Write { .. } => "palisade import --output FILE …".to_owned(),
            _ => return None,
        })
    }
}

/// A path as a shell reads it.
fn word(path: &Path) -> String {
    palisade_text::quoted(&path.to_string_lossy())
}

/// Says how many more there are.
fn and_more(more: usize) -> String {
    if more == 0 { String::new() } else { format!(", and {more} more") }
}
