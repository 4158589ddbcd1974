// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The user that runs a case: root, or an ordinary user that is made for the case and removed afterwards.

use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::case::Who;
use crate::patience::Patience;

/// useradd and userdel lock the password file and give up when it is locked. Several test programs make users at the
/// same time, so each locks this directory first. A lock file of our own would stay behind.
const PASSWORD_FILES: &str = "/etc";

/// The names of users made by this suite, whatever its process.
const PREFIX: &str = "palisade-acc-";

/// Names an ordinary user that the test runner has made. The first caller in a process that takes it has it alone.
pub const GIVEN: &str = "PALISADE_TEST_USER";

/// A user that runs a case.
#[derive(Debug)]
pub struct Person {
    /// `Root` or `User`.
    pub who: Who,
    /// The name in the password file.
    pub name: String,
    /// Numeric user.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Where the arenas of cases placed in a home go.
    pub base: PathBuf,
    made: bool,
}

/// Why there is no user to run a case.
#[derive(Debug, thiserror::Error)]
pub enum PersonError {
    /// A command of Debian's package `passwd` can't be run.
    #[error("can't run {command} (package passwd)")]
    Run {
        /// The command.
        command: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// It ran and failed.
    #[error("{command}: {said}")]
    Failed {
        /// The command.
        command: &'static str,
        /// What it said.
        said: String,
    },
    /// The home or the base directory can't be prepared.
    #[error("prepare {path}")]
    Prepare {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
}

impl Person {
    /// Root, with a base directory outside `/tmp` and outside root's own home, where the suite
    /// must leave no files.
    ///
    /// # Errors
    /// If the base can't be made.
    pub fn root(label: &str) -> Result<Person, PersonError> {
        let base = PathBuf::from(format!("/var/tmp/{PREFIX}{}-{label}", std::process::id()));
        make_directory(&base, 0, 0)?;
        Ok(Person { who: Who::Root, name: "root".into(), uid: 0, gid: 0, base, made: false })
    }

    /// The user that runs the suite, if that isn't root.
    ///
    /// # Errors
    /// If the base can't be made.
    pub fn myself(label: &str) -> Result<Person, PersonError> {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let base = PathBuf::from(format!("/var/tmp/{PREFIX}{}-{label}", std::process::id()));
        make_directory(&base, uid, gid)?;
        // Not what the environment says: it may say nothing, or something else.
        let name = Command::new("id").arg("-un").output().map_or_else(
            |_no_id| uid.to_string(),
            |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        );
        Ok(Person { who: Who::User, name, uid, gid, base, made: false })
    }

    /// Makes an ordinary user with a home of its own.
    ///
    /// # Errors
    /// If `useradd` fails or is missing.
    pub fn ordinary(label: &str) -> Result<Person, PersonError> {
        if let Some(person) = given(label)? {
            return Ok(person);
        }
        let name = format!("{PREFIX}{}-{label}", std::process::id());
        let _locked = lock_passwords()?;
        remove_stale();
        let home = PathBuf::from("/home").join(&name);
        tool(
            "useradd",
            &[
                "--create-home",
                "--home-dir",
                &home.to_string_lossy(),
                "--user-group",
                "--shell",
                "/bin/sh",
                &name,
            ],
        )?;
        let metadata =
            std::fs::metadata(&home).map_err(|source| PersonError::Prepare { path: home.clone(), source })?;
        let (uid, gid) = (metadata.uid(), metadata.gid());
        let base = home.join("cases");
        let person = Person { who: Who::User, name, uid, gid, base, made: true };
        make_directory(&person.base, uid, gid)?;
        Ok(person)
    }
}

impl Person {
    /// Where setups may leave files for later setups, such as a compiler's cache. It is removed with the user.
    #[must_use]
    pub fn kept(&self) -> PathBuf {
        self.base.join("kept")
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        if self.made {
            if let Err(error) = lock_passwords().and_then(|_locked| remove(&self.name)) {
                eprintln!("acceptance: can't remove user {}: {error}", self.name);
            }
        } else if let Err(error) = std::fs::remove_dir_all(&self.base) {
            eprintln!("acceptance: can't remove {}: {error}", self.base.display());
        }
    }
}

/// The user that the runner has made, for the first caller in this process.
fn given(label: &str) -> Result<Option<Person>, PersonError> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let Some(name) = std::env::var(GIVEN).ok().filter(|_| !TAKEN.swap(true, Ordering::Relaxed)) else {
        return Ok(None);
    };
    let home = PathBuf::from("/home").join(&name);
    let metadata =
        std::fs::metadata(&home).map_err(|source| PersonError::Prepare { path: home.clone(), source })?;
    let (uid, gid) = (metadata.uid(), metadata.gid());
    let base = home.join(format!("cases-{}-{label}", std::process::id()));
    make_directory(&base, uid, gid)?;
    Ok(Some(Person { who: Who::User, name, uid, gid, base, made: false }))
}

/// Waits for the other test programs; the lock goes with what is returned.
fn lock_passwords() -> Result<File, PersonError> {
    let failed = |source| PersonError::Prepare { path: PASSWORD_FILES.into(), source };
    let directory = File::open(PASSWORD_FILES).map_err(failed)?;
    flock(&directory, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    Ok(directory)
}

fn make_directory(path: &Path, uid: u32, gid: u32) -> Result<(), PersonError> {
    std::fs::create_dir(path)
        .and_then(|()| chown(path, Some(uid), Some(gid)))
        .map_err(|source| PersonError::Prepare { path: path.to_owned(), source })
}

fn tool(command: &'static str, arguments: &[&str]) -> Result<Output, PersonError> {
    let output = Command::new(command)
        .args(arguments)
        .env("PATH", crate::process::SYSTEM_PATH)
        .output()
        .map_err(|source| PersonError::Run { command, source })?;
    if output.status.success() {
        Ok(output)
    } else {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(PersonError::Failed { command, said })
    }
}

fn remove(name: &str) -> Result<(), PersonError> {
    // userdel refuses while a process of the user lives; a sandbox's teardown is asynchronous.
    let mut result = tool("userdel", &["--remove", name]);
    let mut patience = Patience::new(Duration::from_secs(2));
    while result.is_err() && !patience.is_spent() {
        std::thread::sleep(Duration::from_millis(50));
        result = tool("userdel", &["--remove", name]);
    }
    result.map(drop)
}

/// Removes users that a killed run has left: their name is one of this suite's, and the process that made them has ended. That
/// process makes and removes users while it holds the lock that we hold here, so we find none that is still being made.
fn remove_stale() {
    let Ok(passwd) = std::fs::read_to_string("/etc/passwd") else {
        return;
    };
    for name in passwd.lines().filter_map(|line| line.split(':').next()) {
        let pid = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok())
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // Once: others wait for the lock. The next one tries again.
            let _ = tool("userdel", &["--remove", name]);
        }
    }
}
