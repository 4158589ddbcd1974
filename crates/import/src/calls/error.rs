// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a file of system calls can't be understood or written.

use super::{LONGEST, own::SCHEMA};
use std::path::PathBuf;

/// Why a file can't be understood or written.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The file is too long.
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
    /// TOML can't express it.
    #[error(transparent)]
    Unsayable(#[from] toml::ser::Error),
    /// Another version of this form.
    #[error("its schema is {found}, this palisade knows {SCHEMA}")]
    Schema {
        /// The version in the file.
        found: u32,
    },
    /// Not hexadecimal digits.
    #[error("not hexadecimal digits: {digits:?}")]
    Digits {
        /// The text in the file.
        digits: String,
    },
    /// A binary without a path, or with two.
    #[error("a binary has either `path` or `path_hex`")]
    Path,
    /// A binary without an absolute path.
    #[error("not an absolute path: {path:?}")]
    Relative {
        /// Its path.
        path: PathBuf,
    },
    /// Not a hash.
    #[error("not a hash of 64 hexadecimal digits: {digits:?}")]
    Hash {
        /// The text in the file.
        digits: String,
    },
    /// An action that no container engine has.
    #[error("unknown action {action:?}")]
    Action {
        /// The text in the file.
        action: String,
    },
}
