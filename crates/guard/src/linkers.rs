// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the host's run-time linkers.

use crate::rule::Text;
use std::collections::BTreeSet;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The directories with linkers, on all distributions.
const DIRECTORIES: &[&str] = &["/lib", "/lib32", "/lib64", "/libx32", "/usr/lib", "/usr/lib32", "/usr/lib64"];

/// The real paths of the linkers, each once: `ld-linux-x86-64.so.2` and similar names, of every installed C library,
/// also below the directories of other architectures (`/usr/lib/x86_64-linux-gnu`).
#[must_use]
pub fn of_host() -> Vec<Text> {
    let mut found = BTreeSet::new();
    for directory in DIRECTORIES {
        look(Path::new(directory), &mut found, true);
    }
    found.into_iter().collect()
}

fn look(directory: &Path, found: &mut BTreeSet<Text>, deeper: bool) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.as_bytes();
        if deeper
            && name.windows(5).any(|part| part == b"linux")
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
        {
            look(&entry.path(), found, false);
        }
        let is_linker = name.starts_with(b"ld-") && name.windows(3).any(|part| part == b".so")
            || name.starts_with(b"ld.so")
            || name.starts_with(b"ld64.so");
        if is_linker && let Ok(path) = entry.path().canonicalize() {
            found.insert(path.into_os_string().into_vec().into());
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_host_has_one() {
        let found = super::of_host();
        assert!(found.iter().any(|path| path.windows(4).any(|part| part == b"/ld-")), "{found:?}");
    }
}
