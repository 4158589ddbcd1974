// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a file can't be understood, or can't be written.

use super::{LONGEST, own::SCHEMA};
use std::path::PathBuf;

/// Why not.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// More than is read.
    #[error("it is longer than {LONGEST} bytes")]
    TooLong,
    /// Not UTF-8.
    #[error("it isn't text: {0}")]
    NotText(#[from] std::str::Utf8Error),
    /// Not JSON, or not of the form that it seems to have.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Not TOML, or not of this form.
    #[error("{}", .0.to_string().trim_end())]
    Toml(#[from] toml::de::Error),
    /// It can't be said in TOML.
    #[error(transparent)]
    Unsayable(#[from] toml::ser::Error),
    /// Another program's version of this form.
    #[error("its schema is {found}, this palisade knows {SCHEMA}")]
    Schema {
        /// What it says.
        found: u32,
    },
    /// Not hexadecimal digits.
    #[error("not hexadecimal digits: {digits:?}")]
    Digits {
        /// What stands there.
        digits: String,
    },
    /// A binary without a path, or with two.
    #[error("a binary has either `path` or `path_hex`")]
    Path,
    /// A binary that isn't named from the root.
    #[error("not an absolute path: {path:?}")]
    Relative {
        /// Its path.
        path: PathBuf,
    },
    /// Not a hash.
    #[error("not a hash of 64 hexadecimal digits: {digits:?}")]
    Hash {
        /// What stands there.
        digits: String,
    },
    /// An action that no container engine has.
    #[error("unknown action {action:?}")]
    Action {
        /// What stands there.
        action: String,
    },
}
