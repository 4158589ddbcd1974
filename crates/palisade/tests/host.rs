// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that Palisade changes nothing in the process that embeds it.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::everybody::{Place, helper};
use palisade::{Helper, HelperError};
use palisade_protocol::Connection;
use palisade_protocol::launch::{Order, Told};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

/// What a launch could leave behind in a process: signals, umask, ids, working directory.
fn state() -> BTreeMap<String, String> {
    // Of this thread: the main thread blocks every signal while it starts the next test's thread.
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let kept = ["Umask", "SigBlk", "SigIgn", "SigCgt", "ShdPnd", "Uid", "Gid", "NoNewPrivs", "Seccomp"];
    let lines = status.lines().filter_map(|line| line.split_once(':'));
    let mut state: BTreeMap<String, String> = lines
        .filter(|(name, _value)| kept.contains(name))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    state.insert("directory".to_owned(), std::env::current_dir().unwrap().display().to_string());
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Process group, session, terminal, its foreground group.
    let rest = stat.rsplit_once(") ").unwrap().1;
    state.insert("job".to_owned(), rest.split(' ').skip(2).take(4).collect::<Vec<_>>().join(" "));
    state
}

#[test]
fn a_process_is_afterwards_what_it_was_before() {
    let place = Place::new();
    let before = state();
    for line in ["exit 0", "kill -KILL $$", "echo x > .git/hooks/pre-commit"] {
        let _status = place.sandbox().command("sh").args(["-c", line]).output().unwrap();
    }
    drop(place.sandbox().command("sleep").arg("600").spawn().unwrap());
    assert_eq!(state(), before);
    // A command starts in the process's current directory, whatever plan was made before.
    let sandbox = palisade::Sandbox::new().helper(helper());
    for directory in ["/usr", "/etc"] {
        std::env::set_current_dir(directory).unwrap();
        let run = sandbox.command("pwd").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), directory, "{run:?}");
    }
    std::env::set_current_dir(&before["directory"]).unwrap();
}

#[test]
fn a_program_that_others_can_write_does_not_launch() {
    let place = Place::new();
    let copy = place.work().join("palisade");
    std::fs::copy(helper().path(), &copy).unwrap();
    assert!(Helper::at(&copy).is_ok());
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = Helper::at(&copy).unwrap_err();
    assert!(matches!(error, HelperError::Distrusted { .. }) && error.hint().contains("chmod"), "{error}");
    assert!(matches!(Helper::at("/no/such/palisade".as_ref()), Err(HelperError::Open { .. })));
}

/// Executes a hint's command. cli/tests/hints has the hints that `palisade` prints.
fn follow(hint: &str) -> String {
    let command = hint.split("   #").next().unwrap();
    let run = Command::new("sh").args(["-c", command]).env_remove(OTHER_RUN).output().unwrap();
    assert!(run.status.success(), "{hint}: {run:?}");
    String::from_utf8_lossy(&run.stdout).into_owned()
}

#[test]
fn the_hint_about_a_distrusted_program_shows_who_can_write_it() {
    let place = Place::new();
    let copy = place.work().join("palisade");
    std::fs::copy(helper().path(), &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o777)).unwrap();
    let hint = Helper::at(&copy).unwrap_err().hint();
    let shown = follow(&hint);
    assert!(shown.lines().any(|line| line.contains("rwxrwxrwx") && line.ends_with("palisade")), "{shown}");
    let (_shows, then) = hint.split_once("then: ").unwrap();
    follow(&then.replace("PART", copy.to_str().unwrap()));
    assert!(Helper::at(&copy).is_ok());
}

/// Set where the next test runs itself.
const OTHER_RUN: &str = "PALISADE_TEST_OTHER_RUN";

#[test]
fn the_hint_about_a_missing_program_names_the_variable_that_is_read() {
    if std::env::var_os(OTHER_RUN).is_some() {
        assert_eq!(Helper::find().unwrap().path(), std::env::var_os("PALISADE_HELPER").unwrap());
        return;
    }
    let hint = Helper::at("/no/such/palisade".as_ref()).unwrap_err().hint();
    let set =
        hint.split("   #").next().unwrap().replace("/path/to/palisade", helper().path().to_str().unwrap());
    let own = std::env::current_exe().unwrap();
    let name = "host::the_hint_about_a_missing_program_names_the_variable_that_is_read";
    let line = format!("{set} {OTHER_RUN}=1 {} --exact {name}", own.display());
    let shown = follow(&line);
    assert!(shown.contains("1 passed"), "{shown}");
}

#[test]
fn the_hint_about_another_program_asks_it_for_its_version() {
    let place = Place::new();
    let other = Helper::at("/usr/bin/true".as_ref()).unwrap();
    let error = place.sandbox().helper(other).command("true").output().unwrap_err();
    let hint = error.hint().unwrap();
    assert!(hint.starts_with("/usr/bin/true --version"), "{error}: {hint}");
    follow(&hint);
}

#[test]
fn a_library_of_another_version_is_told_so() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut child = Command::new(helper().path())
        .args(["embedded", "--", "true"])
        .stdin(OwnedFd::from(theirs))
        .spawn()
        .unwrap();
    let mut connection = Connection::begin(ours, "a test").unwrap();
    connection.send(&Order::Launch { program: "0.0.1-of-old".into(), name: None }).unwrap();
    let Told::Failed { message, hint, code } = connection.receive().unwrap() else { panic!() };
    assert!(message.contains("0.0.1-of-old") && hint.is_some() && code == 125, "{message}");
    assert_eq!(child.wait().unwrap().code(), Some(125));
}

#[test]
fn who_types_the_verb_is_told_what_it_is_for() {
    let output =
        Command::new(helper().path()).args(["embedded", "--", "true"]).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(125) && said.contains("no socket") && said.contains("hint: "),
        "{said}"
    );
}
