// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a setup changes: a profile, and a copy of the program if others than root can write to the program.

use super::asker::Asker;
use super::error::SetupError;
use super::parser::Parser;
use super::profile::{DIRECTORY, Installed, Profile};
use palisade_host::places::{self, Trustee};
use palisade_text::harmless;
use std::fs::{File, Metadata, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where a copy is installed.
const COPY: &str = "/usr/local/bin/palisade";
/// This very program, even if its file was replaced or its directories are closed to root.
const SELF: &str = "/proc/self/exe";
const ROOT: Trustee = Trustee { uid: 0, private_group: None };

/// What is to be changed.
#[derive(Debug)]
pub(super) struct Change {
    /// The program that gets the profile.
    pub(super) program: PathBuf,
    /// Why a copy is installed as that program.
    pub(super) copied: Option<String>,
    profile: Profile,
    /// A file that this verb hasn't written is there. It stays, and is loaded.
    pub(super) foreign: bool,
    installed: Option<Installed>,
}

impl Change {
    /// What this host needs for the program of this process.
    pub(super) fn new() -> Result<Self, SetupError> {
        let program = std::env::current_exe().map_err(|source| SetupError::Program { source })?;
        if let Some(profile) = Profile::new(&program, None) {
            match unsuitable(&program) {
                None => return Self::with(program, None, profile, None),
                Some(why) => return Self::copy(why),
            }
        }
        Self::copy(format!("a profile can't have the path {}", harmless(&program.to_string_lossy())))
    }

    fn copy(why: String) -> Result<Self, SetupError> {
        let (program, own) = (PathBuf::from(COPY), read_metadata(Path::new(SELF))?);
        let directory = program.parent().unwrap_or(Path::new("/"));
        places::check(directory, ROOT).map_err(SetupError::Distrusted)?;
        let installed = Installed { path: program.clone(), size: own.size(), changed: own.mtime() };
        let profile = Profile::new(&program, Some(&installed))
            .ok_or_else(|| SetupError::Taken { path: program.clone() })?;
        let earlier = written(&profile.file)?.and_then(|(_profile, installed)| installed);
        if program.symlink_metadata().is_ok() && !earlier.is_some_and(|earlier| is_as_installed(&earlier)) {
            return Err(SetupError::Taken { path: program });
        }
        Self::with(program, Some(why), profile, Some(installed))
    }

    fn with(
        program: PathBuf,
        copied: Option<String>,
        profile: Profile,
        installed: Option<Installed>,
    ) -> Result<Self, SetupError> {
        // The compiler of profiles passes over a disabled one without an error.
        let disabled = Path::new(DIRECTORY).join("disable").join(&profile.name);
        if disabled.symlink_metadata().is_ok() {
            return Err(SetupError::Disabled { path: disabled });
        }
        let foreign = profile.file.symlink_metadata().is_ok() && written(&profile.file)?.is_none();
        Ok(Self { program, copied, profile, foreign, installed })
    }

    /// The changes in words.
    pub(super) fn words(&self) -> String {
        let mut words = String::new();
        let file = self.profile.file.display();
        if let Some(why) = &self.copied {
            words.push_str(&format!("  install a copy of this program as {COPY}: {why}\n"));
        }
        if self.foreign {
            words.push_str(&format!("  load the profile {file}, which is there already\n"));
        } else {
            words.push_str(&format!("  write {file} and load it:\n"));
            self.profile.text.lines().for_each(|line| words.push_str(&format!("    | {line}\n")));
            words.push_str("palisade setup --undo takes it away again.\n");
        }
        words
    }

    /// Checks that this host's AppArmor understands the profile.
    pub(super) fn check(&self, parser: &Parser) -> Result<(), SetupError> {
        if self.foreign { Ok(()) } else { parser.check(&self.profile) }
    }

    /// Makes the changes, and tries a launch. If that fails, everything is as before.
    pub(super) fn apply(&self, parser: &Parser, asker: &Asker) -> Result<(), SetupError> {
        let (program, file) = (self.program.as_path(), self.profile.file.as_path());
        let mut before = Vec::new();
        let done = (|| {
            // The profile comes first: after an interruption its file says that the copy is ours.
            if !self.foreign {
                before.push((file, saved(file)?));
                write(file, self.profile.text.as_bytes(), 0o644, None)?;
            }
            if let Some(installed) = &self.installed {
                before.push((program, saved(program)?));
                install(program, installed)?;
            }
            parser.load(file)?;
            asker.launch(program)
        })();
        if done.is_err() {
            self.revert(parser, before);
        }
        done
    }

    /// The error that led here is told; what can't be restored has no other reader.
    fn revert(&self, parser: &Parser, before: Vec<(&Path, Option<Saved>)>) {
        let file = self.profile.file.as_path();
        let earlier = before.iter().any(|(path, saved)| *path == file && saved.is_some());
        if !self.foreign && !earlier {
            let _not_loaded = parser.unload(file, &self.profile.name);
        }
        for (path, saved) in before.into_iter().rev() {
            let _same_error = match saved {
                Some(Saved { content, mode, changed }) => write(path, &content, mode, Some(changed)),
                None => remove(path),
            };
        }
        if earlier {
            let _the_earlier_one = parser.load(file);
        }
    }
}

/// Why a profile for the program would do more than is wanted, or nothing.
fn unsuitable(program: &Path) -> Option<String> {
    let shown = harmless(&program.to_string_lossy());
    if let Err(error) = places::check(program, ROOT) {
        return Some(format!(
            "others than root can write to {shown}, so a profile for it would allow user namespaces to every program \
             that they put there ({})",
            harmless(&error.to_string())
        ));
    }
    let closed =
        program.ancestors().find(|part| part.metadata().is_ok_and(|found| found.mode() & 0o001 == 0))?;
    Some(format!("only root can execute {shown} ({})", harmless(&closed.to_string_lossy())))
}

/// A profile of this verb's in a file, with the program that was installed with it.
pub(super) type Written = (Profile, Option<Installed>);

/// What this verb has written into a file. `None`: there is no such file, or it is another's.
pub(super) fn written(file: &Path) -> Result<Option<Written>, SetupError> {
    match std::fs::read(file) {
        Ok(text) => Ok(Profile::read(file, &String::from_utf8_lossy(&text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(SetupError::Read { path: file.to_owned(), source }),
    }
}

/// Whether the program is still the one that was installed.
pub(super) fn is_as_installed(installed: &Installed) -> bool {
    installed.path.symlink_metadata().is_ok_and(|found| {
        found.is_file() && found.size() == installed.size && found.mtime() == installed.changed
    })
}

pub(super) fn remove(path: &Path) -> Result<(), SetupError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(SetupError::Write { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// A file as it was.
struct Saved {
    content: Vec<u8>,
    mode: u32,
    changed: i64,
}

fn saved(path: &Path) -> Result<Option<Saved>, SetupError> {
    let content = match std::fs::read(path) {
        Ok(content) => content,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(SetupError::Read { path: path.to_owned(), source }),
    };
    let metadata = read_metadata(path)?;
    Ok(Some(Saved { content, mode: metadata.mode() & 0o7777, changed: metadata.mtime() }))
}

fn read_metadata(path: &Path) -> Result<Metadata, SetupError> {
    std::fs::metadata(path).map_err(|source| SetupError::Read { path: path.to_owned(), source })
}

fn install(program: &Path, installed: &Installed) -> Result<(), SetupError> {
    let own = std::fs::read(SELF).map_err(|source| SetupError::Read { path: SELF.into(), source })?;
    write(program, &own, 0o755, Some(installed.changed))
}

/// Writes a file as a whole or not at all.
fn write(path: &Path, content: &[u8], mode: u32, changed: Option<i64>) -> Result<(), SetupError> {
    let failed = |source| SetupError::Write { path: path.to_owned(), source };
    let directory = path.parent().unwrap_or(Path::new("/"));
    // AppArmor passes over names that begin with a dot.
    let mut file = tempfile::Builder::new().prefix(".palisade-").tempfile_in(directory).map_err(failed)?;
    let finish = |file: &File| {
        file.set_permissions(Permissions::from_mode(mode))?;
        if let Some(changed) = changed.and_then(|changed| u64::try_from(changed).ok()) {
            let after = std::time::Duration::from_secs(changed);
            file.set_modified(std::time::UNIX_EPOCH + after)?;
        }
        file.sync_all()
    };
    file.write_all(content).and_then(|()| finish(file.as_file())).map_err(failed)?;
    file.persist(path).map_err(|error| failed(error.error))?;
    Ok(())
}
