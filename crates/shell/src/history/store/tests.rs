// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The store returns exactly what was put into it.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::history::import::Taken;

fn entry(line: &str, started: i64) -> Entry {
    Entry {
        line: line.into(),
        directory: "/src".into(),
        host: "box".into(),
        user: "me".into(),
        session: "s1".into(),
        context: "local".into(),
        started,
        duration: Some(5),
        exit: Some(0),
    }
}

fn taken(line: &str, started: i64, timed: bool) -> Taken {
    Taken { entry: Entry { line: line.into(), started, ..Entry::default() }, timed }
}

struct Home(tempfile::TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap().join("state/palisade/history.sqlite")
    }

    fn open(&self) -> Store {
        Store::open(&self.file()).unwrap()
    }
}

fn lines(store: &Store, filter: &Filter) -> Vec<String> {
    store.rows(filter).unwrap().into_iter().map(|row| row.entry.line).collect()
}

#[test]
fn entries_come_back_as_they_were() {
    let home = Home::new();
    assert_eq!(Store::read(&home.file()).unwrap().map(drop), None);
    assert!(!home.file().exists(), "reading makes nothing");
    let mut store = home.open();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&home.file()), mode(home.file().parent().unwrap())), (0o600, 0o700));
    let full = entry("make\n  'all' \\ ü", 20);
    let bare = Entry { line: "ls".into(), started: 10, ..Entry::default() };
    let first = store.add(&full).unwrap();
    let second = store.add(&bare).unwrap();
    let log = home.file().with_file_name("history.sqlite-wal");
    assert_eq!(mode(&log), 0o600);
    let store = Store::read(&home.file()).unwrap().unwrap();
    let rows = store.rows(&Filter::default()).unwrap();
    assert_eq!(rows[0], Row { id: second, entry: bare, source: None });
    assert_eq!(rows[1], Row { id: first, entry: full.clone(), source: None });
    assert_eq!(store.row(first).unwrap().unwrap().entry, full);
    assert_eq!(store.row(99).unwrap(), None);
}

#[test]
fn filters_hold_together() {
    let home = Home::new();
    let mut store = home.open();
    store.add(&entry("git log", 1)).unwrap();
    store.add(&Entry { exit: Some(1), ..entry("git log", 2) }).unwrap();
    store.add(&Entry { directory: "/".into(), exit: None, ..entry("git_log%", 3) }).unwrap();
    store.add(&Entry { session: "s2".into(), ..entry("cargo git", 4) }).unwrap();
    let ask = |filter: Filter| lines(&store, &filter);
    let none = Filter::default;
    assert_eq!(ask(Filter { begins: Some("git".into()), ..none() }), ["git log", "git log", "git_log%"]);
    assert_eq!(
        ask(Filter { contains: Some("git".into()), most: Some(2), ..none() }),
        ["git_log%", "cargo git"]
    );
    assert_eq!(ask(Filter { contains: Some("%".into()), ..none() }), ["git_log%"]);
    assert_eq!(ask(Filter { directory: Some("/".into()), ..none() }), ["git_log%"]);
    assert_eq!(ask(Filter { directory: Some("/never".into()), ..none() }), [""; 0]);
    assert_eq!(ask(Filter { session: Some("s2".into()), ..none() }), ["cargo git"]);
    assert_eq!(ask(Filter { since: Some(3), ..none() }), ["git_log%", "cargo git"]);
    assert_eq!(ask(Filter { failed: Some(true), ..none() }), ["git log"]);
    assert_eq!(ask(Filter { failed: Some(false), begins: Some("git".into()), ..none() }), ["git log"]);
    store.add(&Entry { context: "sudo root > ssh prod".into(), ..entry("sudo -i", 5) }).unwrap();
    store.add(&Entry { context: "ssh production".into(), ..entry("ssh production", 6) }).unwrap();
    store.add(&Entry { context: String::new(), ..entry("unknown", 7) }).unwrap();
    let of =
        |context: &str| lines(&store, &Filter { context: Some(context.into()), since: Some(4), ..none() });
    assert_eq!(of("local"), ["cargo git"]);
    assert_eq!(of("ssh"), ["sudo -i", "ssh production"]);
    assert_eq!(of("ssh prod"), ["sudo -i"]);
    assert_eq!(of("sudo root"), ["sudo -i"]);
    assert_eq!(of("sudo root > ssh prod"), ["sudo -i"]);
    assert_eq!((of("prod"), of("s"), of("%")), (vec![], vec![], vec![]));
    let statistics = store.statistics(1).unwrap();
    assert_eq!((statistics.entries, statistics.lines, statistics.failed), (7, 6, 1));
    assert_eq!(statistics.span, Some((1, 7)));
    assert_eq!(statistics.frequent, [("git log".to_owned(), 2)]);
    assert_eq!(statistics.directories, [("/src".to_owned(), 6)]);
}

#[test]
fn importing_twice_adds_nothing_and_what_is_new_is_added() {
    let home = Home::new();
    let mut store = home.open();
    let timed = [taken("ls", 1, true), taken("ls", 2, true), taken("cd", 2, true), taken("", 3, true)];
    assert_eq!(store.import("zsh", &timed).unwrap(), 3);
    assert_eq!(store.import("zsh", &timed).unwrap(), 0);
    assert_eq!(store.import("atuin", &timed).unwrap(), 3, "another's are others");
    // Without times, the number of entries of a line decides.
    let untimed = [taken("ls", 7, false), taken("ls", 8, false)];
    assert_eq!(store.import("bash", &untimed).unwrap(), 2);
    let later =
        [taken("ls", 17, false), taken("vim", 18, false), taken("ls", 19, false), taken("ls", 20, false)];
    assert_eq!(store.import("bash", &later).unwrap(), 2);
    assert_eq!(store.import("bash", &later).unwrap(), 0);
    let rows = store.rows(&Filter::default()).unwrap();
    assert_eq!(rows.last().map(|row| (row.entry.started, row.source.as_deref())), Some((20, Some("bash"))));
}

#[test]
fn what_was_deleted_is_gone_and_stays_away() {
    let home = Home::new();
    let mut store = home.open();
    let secret = "a line that nobody should see";
    let id = store.add(&entry(secret, 1)).unwrap();
    let other = store.add(&entry(secret, 2)).unwrap();
    assert_eq!(store.delete(&[id, 12345]).unwrap(), 1);
    assert!(!store.is_forgotten(secret).unwrap(), "one is left");
    assert_eq!(store.delete(&[other]).unwrap(), 1);
    assert!(store.is_forgotten(secret).unwrap());
    assert_eq!(store.import("zsh", &[taken(secret, 5, true)]).unwrap(), 0);
    for name in ["history.sqlite", "history.sqlite-wal"] {
        let bytes = std::fs::read(home.file().with_file_name(name)).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, secret.as_bytes()).is_none(), "it is still in {name}");
    }
    // If the user runs the line again, it is remembered again.
    store.add(&entry(secret, 3)).unwrap();
    assert!(!store.is_forgotten(secret).unwrap());
    store.add(&entry(secret, 4)).unwrap();
    assert_eq!(store.forget(secret).unwrap(), 2);
    assert!(store.is_forgotten(secret).unwrap() && lines(&store, &Filter::default()).is_empty());
}

#[test]
fn damage_is_moved_aside_and_a_newer_one_is_left_alone() {
    let home = Home::new();
    drop(home.open());
    std::fs::write(home.file(), b"no database at all, but long enough to look at".repeat(100)).unwrap();
    assert!(matches!(Store::read(&home.file()), Err(StoreError::Damaged { .. })));
    let mut store = home.open();
    let aside = store.take_aside().unwrap();
    assert!(aside.exists() && store.take_aside().is_none());
    store.add(&entry("ls", 1)).unwrap();
    drop(store);
    let raw = rusqlite::Connection::open(home.file()).unwrap();
    raw.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(raw);
    for error in [Store::open(&home.file()).unwrap_err(), Store::read(&home.file()).unwrap_err()] {
        assert!(matches!(error, StoreError::Newer { found: 99, .. }) && error.hint().is_some());
    }
}

#[test]
fn another_program_s_database_is_not_taken_for_ours() {
    let home = Home::new();
    std::fs::create_dir_all(home.file().parent().unwrap()).unwrap();
    rusqlite::Connection::open(home.file()).unwrap().execute_batch("CREATE TABLE x (y)").unwrap();
    assert!(matches!(Store::read(&home.file()), Err(StoreError::Damaged { .. })));
}

#[test]
fn one_that_is_removed_while_open_is_made_again() {
    let home = Home::new();
    let mut store = home.open();
    store.add(&entry("ls", 1)).unwrap();
    for name in ["history.sqlite", "history.sqlite-wal", "history.sqlite-shm"] {
        let _perhaps_not_there = std::fs::remove_file(home.file().with_file_name(name));
    }
    store.add(&entry("cd", 2)).unwrap();
    assert_eq!(lines(&home.open(), &Filter::default()), ["cd"]);
}

/// Beside other tests the store may be locked longer than a shell would wait.
fn patiently<T>(mut task: impl FnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..100 {
        match task() {
            Err(StoreError::Busy { .. }) => {}
            done => return done.unwrap(),
        }
    }
    panic!("its turn never comes");
}

#[test]
fn several_write_at_once() {
    let home = Home::new();
    drop(home.open());
    std::thread::scope(|scope| {
        for shell in 0..4 {
            let file = home.file();
            scope.spawn(move || {
                let mut store = Store::open(&file).unwrap();
                for number in 0..50 {
                    let entry = entry(&format!("{shell} {number}"), number);
                    patiently(|| store.add(&entry));
                }
            });
        }
    });
    assert_eq!(lines(&home.open(), &Filter::default()).len(), 200);
}
