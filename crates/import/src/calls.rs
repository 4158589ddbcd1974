// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which system calls were learned, as files: written, and read again; and the seccomp profiles of containers.
//!
//! - `own`: this program's own form, as TOML or JSON, with every binary
//! - `oci`: seccomp profiles of the OCI runtime specification
//! - [`Warning`]: what of a file couldn't be imported
//! - [`ExchangeError`]: why a file can't be understood, or can't be written

mod error;
mod oci;
mod own;
mod warning;

pub use error::ExchangeError;
use palisade_syscall::store::Learned;
use serde_json::Value;
pub use warning::{Names, Warning};

/// More than any list of calls needs.
pub const LONGEST: u64 = 4 << 20;

/// A form of what was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML, with every binary.
    Toml,
    /// The same as JSON.
    Json,
    /// The seccomp profile of a container: all calls together, with the base.
    Oci,
}

/// What a file says.
#[derive(Debug)]
pub struct Imported {
    /// What is to be added to a profile.
    pub learned: Vec<Learned>,
    /// What of it couldn't be imported.
    pub warnings: Vec<Warning>,
}

/// What was learned for a profile, as the text of a file.
///
/// # Errors
/// When it can't be said in that form.
pub fn export(profile: &str, learned: &[Learned], format: Format) -> Result<String, ExchangeError> {
    match format {
        Format::Toml => own::toml(profile, learned),
        Format::Json => own::json(profile, learned),
        Format::Oci => oci::export(learned.iter().flat_map(|learned| &learned.calls).copied().collect()),
    }
}

/// What a file says, in whichever form. `content` may hold one byte more than [`LONGEST`], which is then an error.
///
/// # Errors
/// When it is too long, no text, or in no form that is known.
pub fn import(content: &[u8]) -> Result<Imported, ExchangeError> {
    if content.len() as u64 > LONGEST {
        return Err(ExchangeError::TooLong);
    }
    let text = std::str::from_utf8(content)?;
    if !text.trim_start().starts_with('{') {
        return own::from_toml(text);
    }
    let value: Value = serde_json::from_str(text)?;
    if value.get("defaultAction").is_some() { oci::import(value) } else { own::from_json(value) }
}
