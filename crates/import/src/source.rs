// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads foreign files: only regular ones, of a limited size, in UTF-8.

use crate::ImportError;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The largest file that is read.
pub(crate) const LARGEST: u64 = 1 << 20;

/// What was read.
pub(crate) struct Source {
    pub(crate) text: String,
    /// The number of the user to whom the file belongs.
    pub(crate) owner: u32,
}

/// A file's text, and its owner. A link is followed.
///
/// # Errors
/// When it can't be read, is no regular file, too large, or not UTF-8.
pub(crate) fn read(path: &Path) -> Result<Source, ImportError> {
    let failed = |source| ImportError::Read { path: path.to_owned(), source };
    // Opening a pipe without a writer would block.
    let flags = rustix::fs::OFlags::NONBLOCK.union(rustix::fs::OFlags::NOCTTY);
    let mut options = File::options();
    options.read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or_default());
    let file = options.open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(ImportError::NotFile { path: path.to_owned() });
    }
    let too_large = || ImportError::TooLarge { path: path.to_owned() };
    if metadata.len() > LARGEST {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // The file may grow while it is read.
    file.take(LARGEST + 1).read_to_end(&mut content).map_err(failed)?;
    if content.len() as u64 > LARGEST {
        return Err(too_large());
    }
    let text = String::from_utf8(content).map_err(|error| ImportError::NotText {
        path: path.to_owned(),
        valid: error.utf8_error().valid_up_to(),
    })?;
    Ok(Source { text, owner: metadata.uid() })
}
