// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the thread that writes the history, for which no shell waits. It must survive killed shells, full disks, and
//! homes that can't be written to.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use palisade_shell::history::import::Kind;
use palisade_shell::history::{Entry, Filter, Index, Privacy, Sources, Store, StoreError, Writer, load, now};

/// The directory in which a test's child works.
const CHILD: &str = "PALISADE_HISTORY_CHILD";
const LONG: Duration = Duration::from_secs(60);

fn entry(line: impl Into<String>) -> Entry {
    Entry { line: line.into(), directory: "/src".into(), started: now(), ..Entry::default() }
}

fn store(directory: &Path) -> PathBuf {
    directory.join("palisade/history.sqlite")
}

fn lines(file: &Path) -> Vec<String> {
    let Some(store) = Store::read(file).unwrap() else { return Vec::new() };
    store.rows(&Filter::default()).unwrap().into_iter().map(|row| row.entry.line).collect()
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// A store that other processes write to becomes free at some time. On a busy machine, or beside many processes, that
/// may be later than a shell would wait.
fn patiently<T>(mut task: impl FnMut() -> Result<T, StoreError>) -> T {
    for _ in 0..100 {
        match task() {
            Err(StoreError::Busy { .. }) => {}
            done => return done.unwrap(),
        }
    }
    panic!("its turn never comes");
}

/// The exact statements that made a store of version 1.
const FIRST: &str = "
PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE word (
    id    INTEGER PRIMARY KEY,
    value TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE entry (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    line      TEXT NOT NULL,
    directory INTEGER REFERENCES word,
    host      INTEGER REFERENCES word,
    user      INTEGER REFERENCES word,
    session   INTEGER REFERENCES word,
    started   INTEGER NOT NULL, -- nanoseconds since 1970, UTC
    duration  INTEGER,          -- nanoseconds
    exit      INTEGER,
    source    INTEGER REFERENCES word, -- what it was imported from
    imported  BLOB UNIQUE              -- what tells an imported entry from all others
) STRICT;
CREATE INDEX entry_started ON entry (started);
-- Hashes of lines that the user deleted: they aren't imported again.
CREATE TABLE forgotten (
    line BLOB PRIMARY KEY
) STRICT, WITHOUT ROWID;
PRAGMA application_id = 1348562024; PRAGMA user_version = 1;
COMMIT;
INSERT INTO word VALUES (1, '/src'), (2, 'box'), (3, 'me'), (4, 's1'), (5, 'zsh');
WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
INSERT INTO entry (line, directory, host, user, session, started, duration, exit, source)
    SELECT 'line ' || i, 1, 2, 3, 4, i, 5, i % 2, iif(i % 10, NULL, 5) FROM n;
";

/// A store of version 1, which no process has open.
fn of_version_1(file: &Path) -> rusqlite::Connection {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let old = rusqlite::Connection::open(file).unwrap();
    old.execute_batch(FIRST).unwrap();
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o600)).unwrap();
    std::fs::set_permissions(file.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
    old
}

/// Checks that everything of version 1 is there.
#[track_caller]
fn assert_whole(store: &Store) {
    let rows = store.rows(&Filter::default()).unwrap();
    assert_eq!(rows.len(), 2000);
    for (row, number) in rows.iter().zip(1i64..) {
        let entry = Entry {
            line: format!("line {number}"),
            directory: "/src".into(),
            host: "box".into(),
            user: "me".into(),
            session: "s1".into(),
            context: String::new(),
            started: number,
            duration: Some(5),
            exit: Some(i32::try_from(number % 2).unwrap()),
        };
        assert_eq!((&row.entry, row.id), (&entry, number));
        assert_eq!(row.source.as_deref(), (number % 10 == 0).then_some("zsh"));
    }
}

fn version(file: &Path) -> i64 {
    let raw = rusqlite::Connection::open(file).unwrap();
    raw.query_row("PRAGMA user_version", (), |row| row.get(0)).unwrap()
}

/// Runs this test again as a separate process.
fn child(test: &str, directory: &Path, around: &[&str]) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut words = around.iter().map(|word| (*word).to_owned()).chain([own.to_str().unwrap().to_owned()]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(["--exact", &format!("history_writer::{test}"), "--nocapture"])
        .env(CHILD, directory);
    command
}

#[test]
fn what_started_and_ended_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = store(&directory.path().canonicalize().unwrap());
    let writer = Writer::new(&file);
    let make = writer.started(entry("make"));
    let top = writer.started(entry("top"));
    writer.finished(make, Some(2), Some(Duration::from_millis(1500)), "ssh prod");
    assert!(eventually(|| lines(&file).len() == 2), "it is written while the writer goes on");
    writer.forget("top");
    writer.finished(top, Some(0), None, "local");
    let last = writer.started(entry("vim"));
    writer.finished(last, None, None, "");
    drop(writer);
    let rows = Store::read(&file).unwrap().unwrap().rows(&Filter::default()).unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.entry.line.as_str(), row.entry.exit)).collect();
    assert_eq!(found, [("make", Some(2)), ("vim", None)]);
    assert_eq!(rows[0].entry.duration, Some(1_500_000_000));
    assert_eq!((rows[0].entry.context.as_str(), rows[1].entry.context.as_str()), ("ssh prod", ""));
}

#[test]
fn a_damaged_store_is_told_of_and_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let file = store(&directory.path().canonicalize().unwrap());
    drop(Store::open(&file).unwrap());
    std::fs::write(&file, "no database\n".repeat(1000)).unwrap();
    let writer = Writer::new(&file);
    writer.started(entry("ls"));
    let mut told = None;
    assert!(eventually(|| {
        told = told.take().or_else(|| writer.problem());
        told.is_some()
    }));
    assert!(told.unwrap().contains("history.sqlite.damaged"));
    drop(writer);
    assert_eq!(
        (lines(&file), std::fs::read(file.with_extension("sqlite.damaged")).is_ok()),
        (vec!["ls".into()], true)
    );
}

/// At whatever moment the process is killed: what was committed is there, in order, and the next process continues.
#[test]
fn it_survives_being_killed_at_any_moment() {
    if let Some(directory) = std::env::var_os(CHILD) {
        let writer = Writer::new(&store(Path::new(&directory)));
        for number in 0.. {
            let id = writer.started(entry(format!("line {number:06}")));
            writer.finished(id, Some(0), Some(Duration::from_nanos(number)), "local");
            // The queue is bounded, and this loop is faster than typing.
            while writer.lost() > 0 {
                std::thread::sleep(LONG);
            }
            if number % 16 == 0 {
                println!("\nat {number}");
                std::thread::sleep(Duration::from_millis(3));
            }
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let mut before = 0;
    for round in 0..12u64 {
        let mut child = child("it_survives_being_killed_at_any_moment", &place, &["env"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().starts_with("at ")));
        // The first rounds kill the process while it makes the database, the later ones while it writes.
        if round > 3 {
            assert!(eventually(|| lines(&store(&place)).len() > before), "whoever comes next goes on");
        }
        std::thread::sleep(Duration::from_micros(round * round * 700));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));

        let Some(found) = Store::read(&store(&place)).unwrap() else { continue };
        let rows = found.rows(&Filter::default()).unwrap();
        assert!(rows.len() >= before, "what was there is there");
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        let mut new: Vec<_> = rows.iter().filter(|row| row.id > i64::try_from(before).unwrap()).collect();
        new.sort_by_key(|row| row.id);
        for (number, row) in new.iter().enumerate() {
            assert_eq!(
                row.entry.line,
                format!("line {number:06}"),
                "round {round}: nothing between is missing"
            );
        }
        // All commands have ended, except those that ran at the kill.
        let open = new.iter().position(|row| row.entry.exit.is_none()).unwrap_or(new.len());
        assert!(new[open..].len() <= 1, "round {round}: {}", new[open..].len());
        assert_eq!(ids.len(), ids.iter().collect::<std::collections::BTreeSet<_>>().len());
        before = rows.len();
    }
    assert!(before > 0);
    let check = Store::open(&store(&place)).unwrap();
    assert_eq!(check.statistics(1).unwrap().entries, i64::try_from(before).unwrap());
}

/// Runs a test in a mount namespace with a small disk.
fn on_a_small_disk(test: &str) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let mount = format!("mount -t tmpfs -o size=512k,mode=700 none {place:?} && exec \"$@\"");
    let around = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", &mount, "sh"];
    let output = child(test, &place, &around).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn a_full_disk_is_told_of_once_and_waited_for() {
    let Some(directory) = std::env::var_os(CHILD) else {
        return on_a_small_disk("a_full_disk_is_told_of_once_and_waited_for");
    };
    let directory = Path::new(&directory);
    let file = store(directory);
    let writer = Writer::new(&file);
    writer.started(entry("first"));
    assert!(eventually(|| lines(&file) == ["first"]));
    // Fill the disk completely.
    let mut ballast = std::fs::File::create(directory.join("ballast")).unwrap();
    while std::io::Write::write_all(&mut ballast, &[1; 512]).is_ok() {}
    let mut told = Vec::new();
    assert!(eventually(|| {
        writer.started(entry("x".repeat(20_000)));
        told.extend(writer.problem());
        !told.is_empty()
    }));
    assert!(told[0].contains("hint: make room"), "{told:?}");
    for _ in 0..200 {
        writer.started(entry("again"));
    }
    assert_eq!(writer.problem(), None, "once is enough");
    drop(ballast);
    std::fs::remove_file(directory.join("ballast")).unwrap();
    // Dropping the writer tries once more.
    writer.started(entry("last"));
    drop(writer);
    let found = lines(&file);
    assert!(found.len() > 200 && found.first().unwrap() == "first", "{}", found.len());
    assert!(found.iter().any(|line| line == "last"), "what was kept is written when there is room");
}

#[test]
fn a_home_that_cannot_be_written_is_read_and_told_of_once() {
    let Some(directory) = std::env::var_os(CHILD) else {
        return on_a_small_disk("a_home_that_cannot_be_written_is_read_and_told_of_once");
    };
    let directory = Path::new(&directory);
    let file = store(directory);
    Store::open(&file).unwrap().add(&entry("known")).unwrap();
    let status = Command::new("mount").args(["-o", "remount,ro"]).arg(directory).status().unwrap();
    assert!(status.success());
    for (file, known) in [(file, true), (directory.join("other/history.sqlite"), false)] {
        let writer = Writer::new(&file);
        let id = writer.started(entry("ls"));
        writer.finished(id, Some(0), None, "local");
        let mut told = Vec::new();
        assert!(eventually(|| {
            told.extend(writer.problem());
            !told.is_empty()
        }));
        assert!(told[0].contains("hint: "), "{told:?}");
        writer.started(entry("cd"));
        drop(writer);
        let sources = Sources { store: Some(file), ..Sources::default() };
        let loaded = load(sources).wait(LONG).unwrap();
        assert_eq!(loaded.index.suggest("kn", ""), known.then_some("known"), "{:?}", loaded.problems);
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
    }
}

#[test]
fn an_index_is_made_of_the_store_and_the_shells_files() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().canonicalize().unwrap();
    let file = store(&place);
    let mut stored = Store::open(&file).unwrap();
    stored.add(&Entry { exit: Some(0), ..entry("git status") }).unwrap();
    stored.add(&entry("forget me")).unwrap();
    stored.forget("forget me").unwrap();
    let (bash, fish) = (place.join("bash"), place.join("fish"));
    std::fs::write(&bash, "git stash\nforget me\nx --password=hunter2\n hidden\n").unwrap();
    std::fs::write(&fish, "- cmd: fish only\n  when: 1500000000\n").unwrap();
    let missing = place.join("missing");
    let files =
        vec![(Kind::Bash, bash), (Kind::Fish, fish), (Kind::Zsh, missing), (Kind::Zsh, place.clone())];
    let sources = Sources { store: Some(file), files, ..Sources::default() };
    let mut loading = load(sources);
    // A line is typed meanwhile.
    let mut index = Index::default();
    index.add(&entry("git status --short"));
    let loaded = loading.wait(LONG).unwrap();
    assert!(loading.take().is_none() && loading.is_done());
    assert_eq!(loaded.problems.len(), 1, "what is there and can't be read: {:?}", loaded.problems);
    index.adopt(loaded.index);
    let ask = |typed: &str| index.suggest(typed, "/src").map(str::to_owned);
    assert_eq!(ask("git st").as_deref(), Some("git status --short"));
    assert_eq!(ask("git sta").as_deref(), Some("git status --short"));
    assert_eq!(ask("git stas").as_deref(), Some("git stash"));
    assert_eq!(ask("fish").as_deref(), Some("fish only"));
    for out in ["forget", "x --pass", " hid"] {
        assert_eq!(ask(out), None);
    }
    assert!(Privacy::default().keeps_out(" hidden").is_some());
}

#[test]
fn a_store_of_the_version_before_is_read_and_brought_up_to_date_by_who_writes() {
    let directory = tempfile::tempdir().unwrap();
    let file = store(&directory.path().canonicalize().unwrap());
    let old = of_version_1(&file);
    // Reading changes nothing.
    let reader = Store::read(&file).unwrap().unwrap();
    assert_whole(&reader);
    let of = |context: &str| Filter { context: Some(context.to_owned()), ..Filter::default() };
    assert_eq!(reader.rows(&of("local")).unwrap(), []);
    assert_eq!(reader.row(7).unwrap().unwrap().entry.context, "");
    assert_eq!(version(&file), 1);
    // A shell of the older version goes on using the store.
    let mut writer = Store::open(&file).unwrap();
    assert_eq!(version(&file), 2);
    assert_whole(&writer);
    old.execute("INSERT INTO entry (line, started) VALUES ('from the old one', 3000)", ()).unwrap();
    writer.add(&Entry { context: "ssh prod".into(), ..entry("ssh prod") }).unwrap();
    let lines = |store: &Store, filter: &Filter| {
        store.rows(filter).unwrap().into_iter().map(|row| row.entry.line).collect::<Vec<_>>()
    };
    assert_eq!(lines(&writer, &of("ssh")), ["ssh prod"]);
    assert_eq!(lines(&reader, &of("ssh")), [""; 0], "what was opened before goes on as before");
    assert_eq!(lines(&reader, &Filter::default())[2000..], ["from the old one", "ssh prod"]);
    // The upgrade happens only once.
    assert_eq!(lines(&Store::open(&file).unwrap(), &of("ssh")), ["ssh prod"]);
    assert_eq!(version(&file), 2);
}

#[test]
fn several_bring_a_store_up_to_date_at_once() {
    for _ in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let file = store(&directory.path().canonicalize().unwrap());
        drop(of_version_1(&file));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut store = patiently(|| Store::open(&file));
                    patiently(|| store.add(&entry("new")));
                });
            }
        });
        let rows = Store::read(&file).unwrap().unwrap().rows(&Filter::default()).unwrap();
        assert_eq!((rows.len(), version(&file)), (2004, 2));
    }
}

#[test]
fn a_store_is_whole_when_who_brings_it_up_to_date_is_killed() {
    const NAME: &str = "a_store_is_whole_when_who_brings_it_up_to_date_is_killed";
    if let Some(directory) = std::env::var_os(CHILD) {
        println!("\nnow");
        let _open = Store::open(&store(Path::new(&directory))).unwrap();
        println!("\ndone");
        std::thread::sleep(LONG);
        return;
    }
    const ROUNDS: u32 = 24;
    let mut takes = Duration::ZERO;
    for round in 0..=ROUNDS {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().canonicalize().unwrap();
        let file = store(&place);
        drop(of_version_1(&file));
        let mut child = child(NAME, &place, &["env"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "now"));
        let begun = Instant::now();
        if round == 0 {
            // Measure how long it takes: the other children are killed within that time.
            assert!(said.any(|line| line.unwrap() == "done"));
            takes = begun.elapsed();
        } else {
            while begun.elapsed() < takes * round / ROUNDS {
                std::hint::spin_loop();
            }
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        // The store has the old or the new version, nothing in between.
        assert_whole(&Store::read(&file).unwrap().unwrap());
        let mut next = Store::open(&file).unwrap();
        assert!(next.take_aside().is_none());
        assert_whole(&next);
        assert_eq!(version(&file), 2);
    }
}

/// The proxy asks for problems once a second, and stops when nothing happens. It goes on until a problem was fetched, so that
/// the problem is told although no key follows.
#[test]
fn a_problem_is_awaited_until_it_is_fetched() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("palisade"), "").unwrap();
    let writer = Writer::new(&store(directory.path()));
    assert!(!writer.may_tell());
    writer.started(entry("lost"));
    // The thread has tried meanwhile, if the machine isn't slow.
    std::thread::sleep(Duration::from_millis(300));
    let mut told = None;
    assert!(eventually(|| {
        assert!(writer.may_tell());
        told = writer.problem();
        told.is_some()
    }));
    assert!(told.is_some_and(|problem| problem.starts_with("the history isn't saved for now")));
    // In the pause before the next attempt, nothing is awaited.
    writer.started(entry("lost, too"));
    assert!(eventually(|| !writer.may_tell()));
    assert_eq!(writer.problem(), None);
}
