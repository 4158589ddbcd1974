// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds programs.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Searches PATH.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| executable(path));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(program))
        .find(|path| executable(path))
}

/// Searches the system's own directories, then PATH.
pub(crate) fn of_the_system(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/bin"]
        .iter()
        .map(|directory| Path::new(directory).join(program))
        .find(|path| executable(path))
        .or_else(|| on_path(program))
}

/// Finds the `palisade` to measure: the named one, else the one beside this program, else the one on PATH.
pub(crate) fn palisade(named: Option<&Path>) -> Option<PathBuf> {
    if let Some(named) = named {
        return named.canonicalize().ok().filter(|path| executable(path));
    }
    env::current_exe()
        .ok()
        .and_then(|own| own.parent().map(|directory| directory.join("palisade")))
        .filter(|path| executable(path))
        .or_else(|| on_path("palisade"))
}

fn executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_a_shell_and_not_a_directory() {
        assert!(of_the_system("sh").is_some());
        assert!(on_path("/usr/bin").is_none());
        assert!(on_path("no-such-program-anywhere").is_none());
        assert!(palisade(Some(Path::new("/no/such/file"))).is_none());
    }
}
