// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories above the working directory that exist only inside, because a mount needs them. Nothing can be made in
//! them: `../notes` would be gone with the sandbox, and the program would have succeeded.
//!
//! Outside of the home the root's mount is read-only anyway. In the private home the directory's mode refuses it, which
//! costs no mount. A process inside can change the mode: this is no boundary.

use crate::plan::Step;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The mode of such a directory. No other directory that a mount needs has it.
const MODE: u32 = 0o555;

/// Whether a step made a directory in which nothing can be made, because it lies above the working directory.
pub(crate) fn is_above(step: &Step<'_>) -> bool {
    matches!(step, Step::Directory { path, mode: MODE } if !path.as_bytes().starts_with(b".palisade/"))
}

/// A cache that isn't hidden: the Go toolchain's default for `GOPATH`.
pub(crate) const CACHE: &str = "go";

/// The mode of a directory that is made because a mount below needs it.
pub(crate) fn mode(path: &Path, working_directory: &Path, home: &Path) -> u32 {
    let is_above = path != working_directory && working_directory.starts_with(path);
    if is_above && !is_for_programs(path, home) {
        MODE
    } else if is_hidden(path, home) {
        // gpg and ssh complain about a directory of theirs that others can read.
        0o700
    } else {
        0o755
    }
}

/// Whether a path lies in a hidden directory of the home, or is one.
fn is_hidden(path: &Path, home: &Path) -> bool {
    let first = path.strip_prefix(home).ok().and_then(|rest| rest.components().next());
    first.is_some_and(|first| first.as_os_str().as_bytes().starts_with(b"."))
}

/// Whether programs make files there by themselves: the home, directories above it, and its hidden ones.
fn is_for_programs(path: &Path, home: &Path) -> bool {
    if home.starts_with(path) {
        return true;
    }
    is_hidden(path, home) || path.starts_with(home.join(CACHE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_home_and_the_working_directory_is_read_only() {
        let mode = |path: &str, working_directory: &str| {
            mode(Path::new(path), Path::new(working_directory), Path::new("/home/me"))
        };
        for (path, working_directory, expected) in [
            ("/home/me/code", "/home/me/code/x", MODE),
            ("/home/me/code/.trees", "/home/me/code/.trees/x", MODE),
            ("/srv/code", "/srv/code/x", MODE),
            ("/home/me", "/home/me/x", 0o755),
            ("/home", "/home/me/x", 0o755),
            // Programs keep their own files there.
            ("/home/me/.config", "/home/me/.config/x", 0o700),
            ("/home/me/.gnupg", "/home/me/code/x", 0o700),
            ("/home/me/go/src", "/home/me/go/src/x", 0o755),
            // They lie beside the working directory, or are it.
            ("/home/me/code/x", "/home/me/code/x", 0o755),
            ("/home/me/data", "/home/me/code/x", 0o755),
            ("/home/me/cod", "/home/me/code/x", 0o755),
        ] {
            assert_eq!(mode(path, working_directory), expected, "{path} {working_directory}");
        }
    }
}
