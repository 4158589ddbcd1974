// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Facts about the host's files, read from the disk.

use super::Host;
use palisade_host::executable;
use std::path::{Path, PathBuf};

/// The host's files.
#[derive(Debug, Clone, Copy)]
pub struct Disk;

impl Host for Disk {
    fn exists(&self, path: &Path) -> bool {
        path.symlink_metadata().is_ok()
    }

    fn is_program(&self, path: &Path) -> bool {
        path.is_file() && matches!(executable::kind(path), Ok(executable::Kind::Elf))
    }

    fn interpreter(&self, path: &Path) -> Option<PathBuf> {
        match executable::kind(path).ok()? {
            executable::Kind::Script(interpreter) => Some(interpreter.program),
            _ => None,
        }
    }
}
