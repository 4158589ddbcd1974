// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place of a rule: its layer, file and line.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The layer of a statement. Ordered: a later layer wins over an earlier one, unless the earlier one is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// Compiled into the binary.
    BuiltIn,
    /// `/usr/share/palisade`.
    Distribution,
    /// `/etc/palisade`.
    Administrator,
    /// `$XDG_CONFIG_HOME/palisade`.
    User,
    /// `.palisade.toml`, once the user has allowed it.
    Project,
    /// The arguments of this launch.
    CommandLine,
}

impl Layer {
    /// All layers, lowest first.
    pub const ALL: [Self; 6] = [
        Self::BuiltIn,
        Self::Distribution,
        Self::Administrator,
        Self::User,
        Self::Project,
        Self::CommandLine,
    ];

    /// The layer's name for users.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BuiltIn => "built in",
            Self::Distribution => "distribution",
            Self::Administrator => "administrator",
            Self::User => "user",
            Self::Project => "project",
            Self::CommandLine => "command line",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The place from which a statement was read.
///
/// Every member is always serialised, so that formats without member names (a plan's) can read it back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    /// The layer.
    pub layer: Layer,
    /// The file, if it was read from one.
    #[serde(default, serialize_with = "lossy_file")]
    pub file: Option<Arc<Path>>,
    /// The line, from 1. For the command line, the index of the argument.
    pub line: u32,
    /// The column in characters, from 1. 0 if there is none.
    pub column: u32,
}

/// Serde refuses paths that aren't UTF-8. Users read an origin, so it is converted lossily.
#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn lossy_file<S: serde::Serializer>(file: &Option<Arc<Path>>, to: S) -> Result<S::Ok, S::Error> {
    match file {
        Some(path) => to.serialize_some(&*path.to_string_lossy()),
        None => to.serialize_none(),
    }
}

impl Origin {
    /// The origin of a command-line argument.
    #[must_use]
    pub const fn argument(index: u32) -> Self {
        Self { layer: Layer::CommandLine, file: None, line: index, column: 0 }
    }

    /// The origin of a built-in value: no file states it, and it applies if no layer states one.
    #[must_use]
    pub const fn built_in() -> Self {
        Self { layer: Layer::BuiltIn, file: None, line: 0, column: 0 }
    }

    /// The origin of a line in a file.
    #[must_use]
    pub fn line(layer: Layer, file: &Path, line: u32) -> Self {
        Self { layer, file: Some(file.into()), line, column: 0 }
    }
}

/// `/etc/palisade/config.toml:12`, `built in`, `command line`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(file) => write!(f, "{}:{}", palisade_text::shown(&**file), self.line),
            None => f.write_str(self.layer.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_with_its_line_or_the_layer() {
        let line = Origin::line(Layer::User, Path::new("/c/a\n.toml"), 3);
        assert_eq!(line.to_string(), "/c/a\\n.toml:3");
        assert_eq!(Origin::argument(2).to_string(), "command line");
        assert_eq!(Origin::built_in().to_string(), "built in");
        assert!(Layer::ALL.is_sorted());
    }
}
