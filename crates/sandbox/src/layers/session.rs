// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variables of the session that name one socket or one file, and a check of what they really lead to.
//!
//! Rules of features refer to them: `write = ["${runtime}/${WAYLAND_DISPLAY}"]` is meant for a socket. A variable that
//! names a directory would show the whole directory.

use crate::facts::Facts;
use palisade_policy::expand::Place;
use palisade_policy::{Context, Layer, PathPattern};
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Variables, their paths, and the kind of file that is expected there.
const MEANT: [(&str, &str, FileType); 8] = [
    ("WAYLAND_DISPLAY", "${runtime}/${WAYLAND_DISPLAY}", FileType::Socket),
    ("DISPLAY", "${x11}", FileType::Socket),
    ("XAUTHORITY", "${XAUTHORITY}", FileType::RegularFile),
    ("SSH_AUTH_SOCK", "${SSH_AUTH_SOCK}", FileType::Socket),
    ("PULSE_SERVER", "${PULSE_SERVER}", FileType::Socket),
    ("PIPEWIRE_REMOTE", "${runtime}/${PIPEWIRE_REMOTE}", FileType::Socket),
    ("DBUS_SESSION_BUS_ADDRESS", "${DBUS_SESSION_BUS_ADDRESS}", FileType::Socket),
    ("DBUS_SYSTEM_BUS_ADDRESS", "${DBUS_SYSTEM_BUS_ADDRESS}", FileType::Socket),
];

/// A variable that leads to a file of another kind than expected.
#[derive(Debug)]
pub(crate) struct Misleading {
    /// The variable.
    pub(crate) variable: &'static str,
    /// The path that it leads to.
    pub(crate) path: PathBuf,
    /// The kind that is expected.
    meant: FileType,
}

impl Misleading {
    /// The note for the user.
    pub(crate) fn note(&self) -> String {
        let meant = if self.meant == FileType::Socket { "socket" } else { "file" };
        format!("{} isn't shown: {} names it, and it is no {meant}", self.path.display(), self.variable)
    }
}

/// Whether the file at `path` is of this kind, links followed; `None` if no file is there.
pub(crate) fn is_a(path: &Path, meant: FileType) -> Option<bool> {
    let stat = rustix::fs::stat(path).ok()?;
    Some(FileType::from_raw_mode(stat.st_mode) == meant)
}

/// The caller's variables that lead to a file of another kind than expected. The plan depends on these files. A
/// variable that leads to no file isn't included: its rules have no effect.
pub(crate) fn misleading(facts: &Facts, context: &Context) -> Vec<Misleading> {
    let mut found = Vec::new();
    for (variable, pattern, meant) in MEANT {
        if !context.environment.contains_key(OsStr::new(variable)) {
            continue;
        }
        let Ok(pattern) = PathPattern::new(pattern) else { continue };
        let Ok(Place::Path(path)) = Place::of(&pattern, Layer::BuiltIn, context) else { continue };
        if is_a(&path, meant) == Some(false) {
            facts.is_there(&path);
            found.push(Misleading { variable, path, meant });
        }
    }
    found
}
