// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts what was imported in its place: a whole file or none.

use crate::error::ImportError;
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Writes a whole file, in directories that are the user's alone. An existing file stays unless it may be replaced.
///
/// # Errors
/// When there is such a file, or it can't be written.
pub fn write(file: &Path, text: &str, replace: bool) -> Result<(), ImportError> {
    let failed = |source| ImportError::Write { path: file.to_owned(), source };
    let directory = match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    // No other user may write the file: a launch wouldn't trust it then.
    let mode = Permissions::from_mode(0o644);
    let new = tempfile::Builder::new().prefix(".imported").permissions(mode).tempfile_in(directory);
    let mut new = new.map_err(failed)?;
    new.write_all(text.as_bytes()).and_then(|()| new.as_file().sync_all()).map_err(failed)?;
    let kept = if replace { new.persist(file) } else { new.persist_noclobber(file) };
    match kept {
        Ok(_file) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
            Err(ImportError::Exists { path: file.to_owned() })
        }
        Err(error) => Err(failed(error.error)),
    }
}
