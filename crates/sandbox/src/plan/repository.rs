// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What git would take for a repository, as it is on the host now.

pub mod made;

use palisade_policy::names::repository::{MARKS, Marks};
use std::path::{Path, PathBuf};

/// By what git would know a directory.
#[must_use]
pub fn marks(directory: &Path) -> Marks {
    Marks::ask(|mark| directory.join(MARKS[mark]).symlink_metadata().is_ok())
}

/// Whether git would take the directory for one that the first `components` names of an absolute path lead to.
#[must_use]
pub fn is_above(path: &Path, components: usize) -> bool {
    // The root is a component of its own.
    let directory: PathBuf = path.components().take(components + 1).collect();
    marks(&directory).are_enough()
}
