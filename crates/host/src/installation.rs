// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the directory in which a program of the user's is installed together with the code that it loads: a package of npm
//! or a virtual environment. The program's own file names neither.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::file::{self, Links};
use crate::toolchain;

/// `pyvenv.cfg` has a few lines.
const CFG_CAP: usize = 64 * 1024;

/// The directories that a program without links needs besides its own file, in the home or outside of it.
#[must_use]
pub fn directories(program: &Path, home: &Path) -> Vec<PathBuf> {
    let modules = || {
        let named = program.ancestors().filter(|above| above.file_name() == Some(OsStr::new("node_modules")));
        // Packages that a package needs lie beside it, or in it: the outermost directory holds them all.
        named.last().map(Path::to_owned)
    };
    let fine = |directory: &PathBuf| toolchain::acceptable(directory, home).is_ok();
    modules().into_iter().filter(fine).collect()
}

/// The virtual environment in whose `bin` a program lies, and the directory of its interpreter.
#[must_use]
pub fn virtual_environment(program: &Path, home: &Path) -> Vec<PathBuf> {
    let Some(root) = program.parent().filter(|bin| bin.ends_with("bin")).and_then(Path::parent) else {
        return Vec::new();
    };
    let Ok(configuration) = file::read(&root.join("pyvenv.cfg"), CFG_CAP, Links::Refuse) else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&configuration);
    // The directory `bin` of the interpreter.
    let base =
        text.lines().filter_map(|line| line.split_once('=')).find(|(key, _value)| key.trim() == "home");
    let prefix = base.and_then(|(_key, value)| Path::new(value.trim()).parent()).map(Path::to_owned);
    let fine = |directory: &PathBuf| toolchain::acceptable(directory, home).is_ok();
    std::iter::once(root.to_owned()).chain(prefix).filter(fine).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_shown_whole() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let modules = home.join(".npm-global/lib/node_modules");
        std::fs::create_dir_all(modules.join("a/node_modules/b")).unwrap();
        std::fs::write(modules.join("a/node_modules/b/cli.js"), "").unwrap();
        assert_eq!(directories(&modules.join("a/node_modules/b/cli.js"), &home), [modules]);
        assert!(directories(&home.join("bin/tool"), &home).is_empty());
    }

    #[test]
    fn a_virtual_environment_names_its_interpreter() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (root, base) = (home.join("tools/aider"), home.join("pythons/3.12"));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(base.join("bin")).unwrap();
        std::fs::write(root.join("bin/aider"), "").unwrap();
        assert!(virtual_environment(&root.join("bin/aider"), &home).is_empty());
        let text = format!("version = 3.12\nhome = {}\n", base.join("bin").display());
        std::fs::write(root.join("pyvenv.cfg"), text).unwrap();
        assert_eq!(virtual_environment(&root.join("bin/aider"), &home), [root.clone(), base]);
        // It may not name the home itself.
        let text = format!("home = {}\n", home.join("bin").display());
        std::fs::write(root.join("pyvenv.cfg"), text).unwrap();
        assert_eq!(virtual_environment(&root.join("bin/aider"), &home), [root]);
    }
}
