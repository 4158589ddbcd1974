// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks whether git would accept a directory of the host as a repository.

pub mod made;

use palisade_policy::names::repository::{MARKS, Marks};
use std::path::{Path, PathBuf};

/// The marks by which git recognises a repository that the directory has.
#[must_use]
pub fn marks(directory: &Path) -> Marks {
    Marks::ask(|mark| directory.join(MARKS[mark]).symlink_metadata().is_ok())
}

/// Whether git would accept as a repository the directory that the first `components` names of an absolute path lead to.
#[must_use]
pub fn is_above(path: &Path, components: usize) -> bool {
    // The root is a component of its own.
    let directory: PathBuf = path.components().take(components + 1).collect();
    marks(&directory).are_enough()
}
