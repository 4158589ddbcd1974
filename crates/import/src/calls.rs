// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes learned system calls to files, and reads them; also reads and writes the seccomp profiles of containers.
//!
//! - `own`: Palisade's own form, as TOML or JSON, with every binary
//! - `oci`: seccomp profiles of the OCI runtime specification
//! - [`Warning`]: what couldn't be imported from a file
//! - [`ExchangeError`]: why a file can't be understood, or can't be written

mod error;
mod oci;
mod own;
mod warning;

pub use error::ExchangeError;
use palisade_syscall::store::Learned;
use serde_json::Value;
pub use warning::{Names, Warning};

/// The longest file that is read. No list of calls needs more.
pub const LONGEST: u64 = 4 << 20;

/// A form of a file of learned calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// TOML, with every binary.
    Toml,
    /// The same as JSON.
    Json,
    /// The seccomp profile of a container: all calls together, with the base.
    Oci,
}

/// The content of a file.
#[derive(Debug)]
pub struct Imported {
    /// What should be added to a profile.
    pub learned: Vec<Learned>,
    /// What couldn't be imported.
    pub warnings: Vec<Warning>,
}

/// The text of a file with the calls that were learned for a profile.
///
/// # Errors
/// When that form can't express the calls.
pub fn export(profile: &str, learned: &[Learned], format: Format) -> Result<String, ExchangeError> {
    match format {
        Format::Toml => own::toml(profile, learned),
        Format::Json => own::json(profile, learned),
        Format::Oci => oci::export(learned.iter().flat_map(|learned| &learned.calls).copied().collect()),
    }
}

/// The content of a file in any known form. `content` may hold one byte more than [`LONGEST`], which is then an error.
///
/// # Errors
/// When it is too long, isn't text, or has no known form.
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
