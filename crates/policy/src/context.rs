// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The facts of one launch that patterns refer to.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The values of `~`, `.` and `${…}`. The caller gathers them; this crate reads no files or environment.
///
/// All paths must be absolute and contain no links: with a link in `cwd`, the kernel would resolve `..` to another
/// directory than this crate does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Context {
    /// The home directory: `~`, `${home}`.
    pub home: PathBuf,
    /// The working directory of the launch: `.`, `${cwd}`, and what relative patterns start from.
    pub cwd: PathBuf,
    /// The directory of the project file: `${project}`, and what its relative patterns start from.
    pub project: Option<PathBuf>,
    /// The user's name: `${user}`.
    pub user: String,
    /// The user's number: `${uid}`.
    pub uid: u32,
    /// `$XDG_RUNTIME_DIR`: `${runtime}`.
    pub runtime_dir: Option<PathBuf>,
    /// `${config}`, `${data}`, `${cache}`, `${state}`.
    pub directories: Directories,
    /// The application that is opened: `${name}`, `${id}`.
    pub application: Option<Application>,
    /// The caller's variables: `${WAYLAND_DISPLAY}`.
    pub environment: BTreeMap<OsString, OsString>,
}

/// The user's directories by the XDG base directory specification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Directories {
    /// `$XDG_CONFIG_HOME`.
    pub config: PathBuf,
    /// `$XDG_DATA_HOME`.
    pub data: PathBuf,
    /// `$XDG_CACHE_HOME`.
    pub cache: PathBuf,
    /// `$XDG_STATE_HOME`.
    pub state: PathBuf,
}

/// The application of a profile that is opened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Application {
    /// The profile's name.
    pub name: String,
    /// `program.id`.
    pub id: Option<String>,
}

impl Application {
    /// Its id. Without a stated id, one is made from the name: portals accept only application ids with a dot.
    #[must_use]
    pub fn id(&self) -> String {
        let made = || {
            let part: String = self
                .name
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
                .collect();
            // No part of a bus name may begin with a digit.
            let digit = part.starts_with(|c: char| c.is_ascii_digit());
            format!("palisade.{}{part}", if digit { "_" } else { "" })
        };
        match &self.id {
            Some(id) if id.contains('.') => id.clone(),
            Some(id) => format!("palisade.{id}"),
            None => made(),
        }
    }
}
