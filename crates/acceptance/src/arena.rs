// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directories of one run, and the variables by which its snippets name them.

use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use crate::case::Place;
use crate::person::Person;

/// One run's directories. Everything is removed with it.
///
/// ```text
/// TOP/home          H   the home
/// TOP/home/work     W   the workspace, and the current directory
/// TOP/outside       O   somewhere else that the person may write to
/// TOP/log           L   the harness's, with what the snippet printed
/// /tmp/palisade-acc-T   S   a directory of the host's /tmp
/// ```
#[derive(Debug)]
pub struct Arena {
    /// Unguessable: names what this run makes outside its own directories.
    pub token: String,
    /// What an attack that reads must bring out. The attack never gets it from the harness.
    pub secret: String,
    top: PathBuf,
    /// `H`.
    pub home: PathBuf,
    /// `W`.
    pub work: PathBuf,
    /// `O`.
    pub outside: PathBuf,
    /// `L`.
    pub log: PathBuf,
    /// `S`.
    pub shared: PathBuf,
}

impl Arena {
    /// Makes the directories, owned by `person`.
    ///
    /// # Errors
    /// If one of them can't be made.
    pub fn new(person: &Person, place: Place) -> io::Result<Arena> {
        let token = random(6)?;
        let secret = format!("secret-{}", random(12)?);
        let top = match place {
            Place::Home => person.base.join(&token),
            Place::Tmp => PathBuf::from(format!("/tmp/palisade-acc-{token}-top")),
        };
        let arena = Arena {
            home: top.join("home"),
            work: top.join("home/work"),
            outside: top.join("outside"),
            log: top.join("log"),
            shared: PathBuf::from(format!("/tmp/palisade-acc-{token}")),
            token,
            secret,
            top,
        };
        for path in [&arena.top, &arena.home, &arena.work, &arena.outside, &arena.log, &arena.shared] {
            std::fs::DirBuilder::new().mode(0o755).create(path)?;
            chown(path, Some(person.uid), Some(person.gid))?;
        }
        Ok(arena)
    }

    /// The file with what the snippet printed.
    #[must_use]
    pub fn stdout(&self) -> PathBuf {
        self.log.join("stdout")
    }

    /// The file with what it, or the tool, complained about.
    #[must_use]
    pub fn stderr(&self) -> PathBuf {
        self.log.join("stderr")
    }

    /// Replaces `$W`, `$O` and `$H`.
    #[must_use]
    pub fn expand(&self, text: &str) -> String {
        text.replace("$W", &self.work.to_string_lossy())
            .replace("$O", &self.outside.to_string_lossy())
            .replace("$H", &self.home.to_string_lossy())
    }

    /// The variables that an attack gets; the text is the same in shell and Python.
    #[must_use]
    pub fn attack_names(&self) -> String {
        [
            ("W", &*self.work.to_string_lossy()),
            ("O", &*self.outside.to_string_lossy()),
            ("H", &*self.home.to_string_lossy()),
            ("S", &*self.shared.to_string_lossy()),
            ("T", &self.token),
        ]
        .iter()
        .map(|(name, value)| format!("{name}='{value}'\n"))
        .collect()
    }

    /// The variables that the harness's own shell snippets get, those of the attack included.
    #[must_use]
    pub fn harness_names(&self, person: &Person, data: &Path) -> String {
        let mut names = self.attack_names();
        for (name, value) in [
            ("SECRET", &*self.secret),
            ("L", &*self.log.to_string_lossy()),
            ("OUT", &*self.stdout().to_string_lossy()),
            ("DATA", &*data.to_string_lossy()),
            ("ME", &person.uid.to_string()),
            ("KEPT", &*person.kept().to_string_lossy()),
        ] {
            names.push_str(&format!("{name}='{value}'\n"));
        }
        names
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for path in [&self.top, &self.shared] {
            if let Err(error) = remove(path) {
                eprintln!("acceptance: can't remove {}: {error}", path.display());
            }
        }
    }
}

/// A process that was just killed may still create a file: try again.
fn remove(path: &Path) -> io::Result<()> {
    let mut result = std::fs::remove_dir_all(path);
    for _ in 0..20 {
        match &result {
            Ok(()) => break,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
        }
        result = std::fs::remove_dir_all(path);
    }
    result
}

fn random(bytes: usize) -> io::Result<String> {
    use std::io::Read;
    let mut buffer = vec![0; bytes];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut buffer)?;
    Ok(buffer.iter().map(|byte| format!("{byte:02x}")).collect())
}
