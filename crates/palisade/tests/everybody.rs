// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The users that the tests run as, and what the tests share.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use palisade::{Helper, Sandbox};
use palisade_acceptance::person::Person;
use palisade_acceptance::programs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A variable that is set in tests that an ordinary user runs.
const AGAIN: &str = "PALISADE_TEST_AGAIN";

/// The program that launches.
pub(crate) fn helper() -> Helper {
    let own = std::env::current_exe().unwrap();
    let built = programs::palisade(&own.parent().and_then(Path::parent).unwrap().join("tests"));
    Helper::at(&built).unwrap()
}

/// A directory of one test, with everything in the system's places visible.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        // Not in /tmp, because /tmp is private inside.
        let place = tempfile::Builder::new().prefix("palisade-embed-").tempdir_in("/var/tmp").unwrap();
        std::fs::create_dir(place.path().join("work")).unwrap();
        Self(place)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.0.path().join("work").canonicalize().unwrap()
    }

    /// The default sandbox in its working directory, with a home that has no settings.
    pub(crate) fn sandbox(&self) -> Sandbox {
        Sandbox::new()
            .helper(helper())
            .current_dir(self.work())
            .variable("HOME", self.0.path())
            .variable("XDG_STATE_HOME", self.0.path().join("state"))
            .variable("XDG_CONFIG_HOME", self.0.path().join("config"))
    }
}

/// Children of this process, zombies among them.
pub(crate) fn children() -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of =
        |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks
        .flat_map(|task| of(task).split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Descriptors and threads of this process.
pub(crate) fn held() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

#[test]
fn everything_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() || std::env::var_os(AGAIN).is_some() {
        return;
    }
    let person = Person::ordinary("embed").unwrap();
    // The checkout may lie where an ordinary user can't reach it.
    let place = tempfile::Builder::new().prefix("palisade-embed-bin-").tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let copy = |from: &Path, name: &str| {
        let to = place.path().join(name);
        std::fs::copy(from, &to).unwrap();
        std::fs::set_permissions(&to, Permissions::from_mode(0o755)).unwrap();
        to
    };
    let tests = copy(&std::env::current_exe().unwrap(), "tests");
    let palisade = copy(helper().path(), "palisade");
    let output = Command::new(tests)
        .args([
            "--test-threads",
            "1",
            "--skip",
            "everything_holds_for_an_ordinary_user",
            "--skip",
            "examples::",
            "--skip",
            "api::",
        ])
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _value)| name.to_string_lossy().starts_with("PALISADE_")))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &person.base)
        .env("PALISADE_BIN", palisade)
        .env(AGAIN, "1")
        .current_dir("/")
        .uid(person.uid)
        .gid(person.gid)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("test result: ok."), "{said}\n{output:?}");
}
