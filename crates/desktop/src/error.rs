// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why an application isn't enabled or disabled, and what to do about it.

use crate::application::NameError;
use crate::command::BinaryError;
use crate::entry::EntryError;
use crate::install::InstallError;
use crate::manifest::{ManifestError, aside};
use crate::search::SearchError;
use palisade_host::executable::{self, Found};
use palisade_host::places::TrustError;
use palisade_sandbox::error::quoted;
use palisade_sandbox::layers::LayerError;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Why an entry can't be made.
#[derive(Debug, thiserror::Error)]
pub enum EntryFailure {
    /// The system's entry can't be used.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A new entry can't be made.
    #[error("can't make a desktop entry: {0}")]
    Created(EntryError),
}

/// Why nothing is enabled or disabled.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// The profile's name can't be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Palisade can't find its own program.
    #[error("can't find Palisade's own program: {source}")]
    Myself {
        /// Why.
        source: std::io::Error,
    },
    /// Palisade's path can't be used.
    #[error(transparent)]
    Binary(#[from] BinaryError),
    /// The user has no home to make files in.
    #[error("can't enable anything for you: your home {home:?} is no directory")]
    Home {
        /// Where it should be.
        home: PathBuf,
    },
    /// The text isn't a type of files.
    #[error("{mime:?} isn't a file type (MIME type)")]
    Type {
        /// What was given.
        mime: String,
    },
    /// No desktop entry could be the default.
    #[error("can't make {name} a default: the system has no desktop entry of it")]
    NoEntry {
        /// The profile.
        name: String,
        /// The command that makes one.
        again: String,
    },
    /// The system's entry can't be used.
    #[error("{source}")]
    Entry {
        /// Why.
        source: EntryFailure,
        /// The command that works without the entry.
        again: String,
    },
    /// What was made can't be determined.
    #[error(transparent)]
    State {
        /// Why.
        source: ManifestError,
    },
    /// Files can't be made.
    #[error("can't enable {name}: {source}")]
    Enable {
        /// The profile.
        name: String,
        /// Why.
        source: InstallError,
        /// The command that was given.
        again: String,
    },
    /// Files can't be removed.
    #[error("can't disable {name}: {source}")]
    Disable {
        /// The profile.
        name: String,
        /// Why.
        source: InstallError,
    },
}

/// A path as a word of a command.
pub(crate) fn shown(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// What to do about a list of what was made.
pub(crate) fn store_hint(error: &ManifestError) -> Option<String> {
    Some(match error {
        ManifestError::Distrusted(TrustError::Distrusted { path, .. }) => {
            format!("look at it, then: chmod go-w {}", shown(path))
        }
        ManifestError::Broken { file, .. } => format!(
            "mv {0} {0}.old   # then enable it again: unchanged files count as made by Palisade",
            shown(file)
        ),
        ManifestError::Busy { .. } => "lslocks   # shows the process that holds it".to_owned(),
        _ => return None,
    })
}

/// Why an application isn't found, or isn't changed.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// There is no such profile, or it can't be read.
    #[error(transparent)]
    Layer(#[from] LayerError),
    /// The application can't be changed.
    #[error(transparent)]
    Desktop(#[from] DesktopError),
}

impl DesktopError {
    /// The error's class, for programs.
    pub const fn class(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::Type { .. } => "unknown-name",
            Self::Myself { .. } | Self::Binary(_) | Self::Home { .. } => "surroundings",
            Self::NoEntry { .. } | Self::Entry { .. } => "desktop-entry",
            Self::State { .. } => "store",
            Self::Enable { source, .. } | Self::Disable { source, .. } => match source {
                InstallError::Foreign { .. }
                | InstallError::Taken { .. }
                | InstallError::Aside { .. }
                | InstallError::Link { .. } => "in-the-way",
                InstallError::Manifest(_) => "store",
                InstallError::Defaults(_) | InstallError::NotText { .. } => "read",
                InstallError::Disk(_) => "write",
            },
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Name(_) => {
                "palisade profile list   # a profile with another name can inherit this one".to_owned()
            }
            // Bytes that can't be printed can't be typed.
            Self::Binary(error) if error.path.contains(|c: char| c.is_control() || c == '\u{fffd}') => {
                "install palisade in a directory whose path has none of this, such as /usr/local/bin"
                    .to_owned()
            }
            Self::Binary(error) => {
                let sudo = if rustix::process::geteuid().is_root() { "" } else { "sudo " };
                let path = quoted(&error.path);
                format!("{sudo}install -m 755 {path} /usr/local/bin/palisade   # then use that")
            }
            Self::Home { home } => format!("mkdir -p {}", shown(home)),
            Self::Type { .. } => {
                let path = std::env::var_os("PATH");
                match executable::find(OsStr::new("xdg-mime"), path.as_deref(), Path::new("/")) {
                    Found::Program(_) => {
                        "xdg-mime query filetype FILE   # prints the type of FILE".to_owned()
                    }
                    _ => "a type is written like text/plain or image/png".to_owned(),
                }
            }
            Self::NoEntry { again, .. } => format!("{again}   # makes one"),
            Self::Entry { again, .. } => format!("{again}   # makes a new entry without the system's"),
            Self::State { source } => return store_hint(source),
            Self::Enable { source: InstallError::Foreign { path, .. }, again, .. } => format!(
                "{again} --force   # keeps it as {}; palisade desktop disable puts it back",
                shown(&aside(path))
            ),
            Self::Enable { source: InstallError::Taken { by, .. }, .. } => {
                format!("palisade desktop disable {}", quoted(by))
            }
            Self::Enable { source: InstallError::Aside { aside, .. }, .. } => {
                format!("look at both, then: mv {0} {0}.old", shown(aside))
            }
            Self::Enable { source: InstallError::Link { file }, .. } => {
                format!("cp --remove-destination \"$(readlink -f {0})\" {0}   # makes it a file", shown(file))
            }
            Self::Enable { source: InstallError::Manifest(source), .. }
            | Self::Disable { source: InstallError::Manifest(source), .. } => return store_hint(source),
            _ => return None,
        })
    }
}
