// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decides whether a word in a system file names the application's program.

use palisade_host::environment::Environment;
use palisade_host::executable::DEFAULT_PATH;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The application's program, and how names of programs are looked up.
#[derive(Debug)]
pub(crate) struct Programs {
    directories: Vec<PathBuf>,
    palisade: PathBuf,
    programs: Vec<PathBuf>,
    resolved: Option<PathBuf>,
}

impl Programs {
    /// `programs` are paths or names, tried in order. `palisade` is the path of this program without links.
    pub(crate) fn new(environment: &Environment, palisade: &Path, programs: Vec<PathBuf>) -> Self {
        let directories = match environment.get("PATH") {
            Some(_set) => environment.absolute_list("PATH"),
            None => std::env::split_paths(DEFAULT_PATH).collect(),
        };
        let mut all = Self { directories, palisade: palisade.to_owned(), programs, resolved: None };
        all.resolved = all.programs.iter().find_map(|program| all.resolve(program));
        all
    }

    /// Whether `word` names the application's program: it is written as in the profile, or leads to the same file, or
    /// neither file exists and both have the same name.
    pub(crate) fn is_program(&self, word: &str) -> bool {
        let word = Path::new(word);
        let same_name =
            |program: &PathBuf| word.file_name().is_some() && word.file_name() == program.file_name();
        self.programs.iter().any(|program| program == word)
            || match (self.resolve(word), &self.resolved) {
                (Some(found), Some(resolved)) => found == *resolved,
                (None, None) => self.programs.iter().any(same_name),
                _ => false,
            }
    }

    /// The directories in which programs are looked up.
    pub(crate) fn directories(&self) -> &[PathBuf] {
        &self.directories
    }

    /// The file, without links, that a word names. Links to Palisade are skipped to find the programs behind them: the
    /// links that `enable` makes come before the programs.
    fn resolve(&self, word: &Path) -> Option<PathBuf> {
        if word.is_absolute() {
            return self.real(word);
        }
        if word.components().count() != 1 {
            return None;
        }
        self.directories.iter().find_map(|directory| self.real(&directory.join(word)))
    }

    fn real(&self, path: &Path) -> Option<PathBuf> {
        let real = path.canonicalize().ok().filter(|real| *real != self.palisade)?;
        let metadata = real.metadata().ok()?;
        (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(real)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn program(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn names_and_links_lead_to_the_program() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let (real, palisade) = (root.join("lib/app.real"), root.join("lib/palisade"));
        program(&real);
        program(&palisade);
        program(&root.join("bin/other"));
        symlink(&real, root.join("bin/app")).unwrap();
        std::fs::create_dir(root.join("own")).unwrap();
        symlink(&palisade, root.join("own/app")).unwrap();
        let path = format!("{0}/own:{0}/bin", root.display());
        let environment = Environment::from_iter([("PATH", path)]);
        let programs = Programs::new(&environment, &palisade, vec!["other-app".into(), "app".into()]);
        for word in ["app", &root.join("bin/app").to_string_lossy(), &real.to_string_lossy()] {
            assert!(programs.is_program(word), "{word}");
        }
        for word in ["other", "lib/app", "", "/", "palisade", "/usr/bin/app"] {
            assert!(!programs.is_program(word), "{word}");
        }
    }

    #[test]
    fn what_is_not_there_is_known_by_its_name() {
        let programs =
            Programs::new(&Environment::from_iter([("PATH", "/none")]), Path::new("/p"), vec!["app".into()]);
        assert!(programs.is_program("/none/app") && programs.is_program("app"));
        assert!(!programs.is_program("/none/other") && !programs.is_program(""));
    }
}
