// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A home with its own profiles and its own kept plans.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ProfilesError;
use crate::launch::Invocation;

/// The identity of a kept plan's file: another inode or time means another plan.
pub(crate) type Kept = (OsString, u64, i64, i64);

/// The home.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    cache: PathBuf,
}

impl Home {
    /// Creates the home at `path`. `cache` is its cache directory, if that is elsewhere.
    pub(crate) fn create(path: PathBuf, cache: Option<PathBuf>) -> Result<Self, ProfilesError> {
        let cache = cache.unwrap_or_else(|| path.join(".cache"));
        let home = Self { path, cache };
        for directory in [&home.profiles(), &home.cache] {
            fs::create_dir_all(directory)
                .map_err(|source| ProfilesError::Prepare { path: directory.clone(), source })?;
        }
        Ok(home)
    }

    fn profiles(&self) -> PathBuf {
        self.path.join(".config/palisade/profiles")
    }

    /// The directory of the kept plans.
    fn plans(&self) -> PathBuf {
        self.cache.join("palisade/plans")
    }

    /// Writes a profile.
    pub(crate) fn profile(&self, name: &str, text: &str) -> Result<(), ProfilesError> {
        let path = self.profiles().join(format!("{name}.toml"));
        fs::write(&path, text).map_err(|source| ProfilesError::Prepare { path, source })
    }

    /// A command in this home.
    pub(crate) fn invocation(&self, argv: &[&OsStr], directory: &Path) -> Invocation {
        let own = |name: &str| self.path.join(name).into_os_string();
        let variables = [
            ("HOME", self.path.clone().into_os_string()),
            ("XDG_CACHE_HOME", self.cache.clone().into_os_string()),
            ("XDG_CONFIG_HOME", own(".config")),
            ("XDG_DATA_HOME", own(".local/share")),
            ("XDG_STATE_HOME", own(".local/state")),
        ];
        Invocation {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            directory: directory.to_owned(),
            variables: variables.into_iter().map(|(name, value)| (name.into(), value)).collect(),
        }
    }

    /// Removes the kept plans.
    pub(crate) fn forget(&self) -> Result<(), ProfilesError> {
        let path = self.plans();
        match fs::remove_dir_all(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(ProfilesError::Prepare { path, source })
            }
            _ => Ok(()),
        }
    }

    /// The kept plans.
    pub(crate) fn kept(&self) -> Result<Vec<Kept>, ProfilesError> {
        let path = self.plans();
        let listed = (|| -> io::Result<Vec<Kept>> {
            let mut kept = Vec::new();
            for entry in fs::read_dir(&path)? {
                let entry = entry?;
                let data = entry.metadata()?;
                if Path::new(&entry.file_name()).extension().is_some_and(|ending| ending == "plan") {
                    kept.push((entry.file_name(), data.ino(), data.mtime(), data.mtime_nsec()));
                }
            }
            kept.sort();
            Ok(kept)
        })();
        match listed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map_err(|source| ProfilesError::Prepare { path, source }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_made_anew_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::create(directory.path().join("home"), None).unwrap();
        assert!(home.kept().unwrap().is_empty());
        home.forget().unwrap();
        fs::create_dir_all(home.plans()).unwrap();
        let plan = home.plans().join("a.plan");
        fs::write(&plan, "1").unwrap();
        let before = home.kept().unwrap();
        assert_eq!(before, home.kept().unwrap());
        fs::write(home.plans().join("new"), "1").unwrap();
        fs::rename(home.plans().join("new"), &plan).unwrap();
        assert_ne!(before, home.kept().unwrap());
        home.forget().unwrap();
        assert!(home.kept().unwrap().is_empty());
    }
}
