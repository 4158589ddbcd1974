// SPDX-License-Identifier: Apache-2.0 OR MIT

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use super::*;
use crate::tests::{launch, refusal};
use palisade_event::{Detail, EVENT_SCHEMA, Kind, Network, Object, Outcome, Verdict};

#[path = "../../../event/tests/previous/mod.rs"]
mod previous;

/// The environment variable that makes a copy of this program a writer: the store, the number of transactions, and of
/// events in each.
const WRITER: &str = "PALISADE_TEST_WRITER";

struct Home {
    dir: tempfile::TempDir,
    launch: Launch,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), launch: launch(&["make"]) }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("state/palisade/events.sqlite")
    }

    fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    fn event(&self, object: &str) -> Event {
        Event { launch: Some(self.launch.clone()), ..refusal(object) }
    }

    fn events(&self, count: usize) -> Vec<Event> {
        (0..count).map(|number| self.event(&format!("/{number}"))).collect()
    }

    fn writer(&self, transactions: usize, events: usize) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::writer", "--ignored", "--test-threads=1"])
            .env(WRITER, format!("{transactions} {events} {}", self.path().display()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }
}

fn everything(store: &Store) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut position = 0;
    loop {
        let page = store.after(position, &Filter::default()).unwrap();
        assert!(page.position > position || page.entries.is_empty());
        position = page.position;
        all.extend(page.entries);
        if !page.more {
            return all;
        }
    }
}

fn objects(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.event.object.to_string()).collect()
}

/// A launch of the same command, with another number.
fn sandbox(number: &str) -> Option<Launch> {
    Some(Launch { sandbox: number.into(), command: "make".into() })
}

fn assert_sound(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
}

#[test]
#[ignore = "what other tests start"]
fn writer() {
    let Ok(task) = std::env::var(WRITER) else { return };
    let mut words = task.splitn(3, ' ');
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let (transactions, events) = (number(), number());
    let path = words.next().unwrap();
    let mut store = patiently(|| Store::open(Path::new(path)));
    let launch = Some(launch(&["writer"]));
    for transaction in 0..transactions {
        let event = |number| Event { launch: launch.clone(), ..refusal(&format!("/{transaction}/{number}")) };
        let events: Vec<Event> = (0..events).map(event).collect();
        patiently(|| store.append(&events));
    }
}

/// Writers that write all the time, as here, can make others wait for longer than a launch would.
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
fn what_was_appended_is_there_for_others() {
    let home = Home::new();
    assert!(Store::find(&home.path()).unwrap().is_none());
    let mut store = home.open();
    let mut one = home.event("/a\n");
    one.hint = Some("palisade run --rw /a".into());
    store.append(&[one.clone(), home.event("/b")]).unwrap();
    let reader = Store::find(&home.path()).unwrap().unwrap();
    let page = reader.after(0, &Filter::default()).unwrap();
    assert_eq!(page.entries[0].event, one);
    assert_eq!(objects(&page.entries), ["/a\n", "/b"]);
    assert!(!page.more && page.strange == 0);
    assert_eq!(page.position, reader.end().unwrap());
    assert!(reader.after(page.position, &Filter::default()).unwrap().entries.is_empty());
    store.append(&[home.event("/c")]).unwrap();
    assert_eq!(objects(&reader.after(page.position, &Filter::default()).unwrap().entries), ["/c"]);
    assert_sound(&home.path());
}

#[test]
fn json_is_the_event_and_its_number() {
    let home = Home::new();
    let mut store = home.open();
    store.append(&[home.event("/a").with_hint(Some("palisade run --rw /a".into()))]).unwrap();
    let entries = everything(&store);
    let json = serde_json::to_value(&entries[0]).unwrap();
    assert_eq!((&json["schema"], &json["object"]), (&EVENT_SCHEMA.into(), &"/a".into()));
    assert_eq!((&json["command"], &json["count"]), (&"make".into(), &1.into()));
    assert_eq!((&json["hint"], &json["id"]), (&"palisade run --rw /a".into(), &1.into()));
    assert_eq!((&json["why"]["origin"]["line"], &json["kind"]), (&3.into(), &"sandbox".into()));
    assert_eq!(json["sandbox"], *home.launch.sandbox);
    assert_eq!(serde_json::from_value::<Event>(json).unwrap(), entries[0].event);
}

/// The previous version can read the rows that this one writes.
#[test]
fn the_version_before_reads_what_is_written() {
    let home = Home::new();
    let event = home.event("/a\n").with_hint(Some("palisade run --rw /a".into()));
    home.open().append(std::slice::from_ref(&event)).unwrap();
    let connection = Connection::open(home.path()).unwrap();
    // The previous version's query, and its reading of each column.
    let (text, hint, sandbox, command): (String, Option<String>, String, String) = connection
        .query_row(
            "SELECT e.event, e.hint, l.sandbox, l.command FROM event e JOIN launch l ON l.id = e.launch
             WHERE e.position > 0 AND json_extract(e.event, '$.subject.sandbox') IS NULL ORDER BY e.position LIMIT 1000",
            (),
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .unwrap();
    let read: previous::Event = serde_json::from_str(&text).unwrap();
    assert_eq!((read.object.as_str(), read.operation), ("/a\n", previous::Operation::Write));
    assert_eq!((read.time, read.subject.pid), (event.time, Some(7)));
    assert_eq!((read.verdict, read.enforced_by), (previous::Verdict::Refused, previous::Mechanism::Broker));
    assert_eq!(read.why.origin.unwrap().line, 3);
    assert_eq!((hint.as_deref(), sandbox.as_str()), (event.hint.as_deref(), &*home.launch.sandbox));
    assert_eq!(command, "make");
    assert!(!text.contains("make") && !text.contains("--rw"), "what has a column is written once: {text}");
}

/// This version can read the previous version's rows, and writes new ones beside them.
#[test]
fn rows_of_the_version_before_are_read() {
    let home = Home::new();
    let old = |object: &str, operation, enforced_by| previous::Event {
        schema: 1,
        time: SystemTime::now(),
        subject: previous::Subject { pid: Some(7), uid: Some(1), program: "sed".into(), sandbox: None },
        operation,
        object: object.into(),
        verdict: previous::Verdict::Refused,
        why: previous::Why { origin: None, text: "protected".into() },
        enforced_by,
    };
    home.open();
    let connection = Connection::open(home.path()).unwrap();
    connection
        .execute("INSERT INTO launch (id, sandbox, command) VALUES (1, '7-abcdef', 'npm install')", ())
        .unwrap();
    let events = [
        old("/a", previous::Operation::Write, previous::Mechanism::Broker),
        old("example.com:443", previous::Operation::Connect, previous::Mechanism::Gateway),
    ];
    for (id, event) in (1..).zip(&events) {
        let text = serde_json::to_string(event).unwrap();
        let time = nanoseconds(event.time);
        connection
            .execute(
                "INSERT INTO event (id, position, launch, time, count, event, hint) VALUES (?1, ?1, 1, ?2, 5, ?3, 'do')",
                params![id, time, text],
            )
            .unwrap();
    }
    connection.execute("UPDATE counter SET position = 2", ()).unwrap();
    let mut store = home.open();
    store.append(&[home.event("/new")]).unwrap();
    let all = everything(&store);
    assert_eq!(objects(&all), ["/a", "example.com:443", "/new"]);
    assert_eq!((all[0].event.kind(), all[1].event.kind()), (Kind::Sandbox, Kind::Network));
    assert_eq!((all[0].event.schema, all[0].event.count, all[0].event.time), (1, 5, events[0].time));
    assert_eq!(all[0].event.hint.as_deref(), Some("do"));
    let launch = all[0].event.launch.as_ref().unwrap();
    assert_eq!((&*launch.sandbox, &*launch.command), ("7-abcdef", "npm install"));
    assert_eq!(all[1].event.object, Object::host("example.com", 443));
}

#[test]
fn nobody_else_may_read_it() {
    let home = Home::new();
    home.open().append(&[home.event("/a")]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let directory = home.path().parent().unwrap().to_owned();
    assert_eq!(mode(&directory), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).unwrap() {
        let entry = entry.unwrap();
        names.push(entry.file_name().into_string().unwrap());
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
    }
    names.sort();
    assert_eq!(
        names,
        ["events.sqlite", "events.sqlite-shm", "events.sqlite-wal", "events.sqlite.lock"],
        "nothing of its making is left"
    );
    fs::set_permissions(home.path(), Permissions::from_mode(0o644)).unwrap();
    home.open();
    assert_eq!(mode(&home.path()), 0o600);
}

#[test]
fn what_others_could_change_is_refused() {
    let home = Home::new();
    home.open().append(&[home.event("/a")]).unwrap();
    let directory = home.path().parent().unwrap().to_owned();
    for (path, mode) in
        [(&home.path(), 0o620), (&home.path(), 0o602), (&directory, 0o770), (&directory, 0o707)]
    {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        for error in [Store::open(&home.path()).err(), Store::find(&home.path()).err()] {
            assert!(matches!(error, Some(StoreError::Writable { .. })), "{error:?}");
            assert!(error.unwrap().hint().unwrap().contains("chmod go-w"));
        }
        fs::set_permissions(path, before).unwrap();
    }
    home.open();
    if rustix::process::geteuid().is_root() {
        for path in [home.path(), directory] {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            assert!(matches!(Store::open(&home.path()), Err(StoreError::Foreign { uid: 12345, .. })));
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
    }
}

#[test]
fn a_link_in_its_place_is_refused_and_a_link_to_the_directory_followed() {
    let home = Home::new();
    home.open().append(&[home.event("/a")]).unwrap();
    symlink(home.path().parent().unwrap(), home.dir.path().join("link")).unwrap();
    let through = Store::find(&home.dir.path().join("link/events.sqlite")).unwrap().unwrap();
    assert_eq!(everything(&through).len(), 1);
    let elsewhere = home.dir.path().join("elsewhere");
    fs::rename(home.path(), &elsewhere).unwrap();
    symlink(&elsewhere, home.path()).unwrap();
    assert!(matches!(Store::open(&home.path()), Err(StoreError::Kind { .. })));
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let home = Home::new();
    home.open().append(&[home.event("/a")]).unwrap();
    let connection = Connection::open(home.path()).unwrap();
    connection.execute_batch("PRAGMA user_version = 99").unwrap();
    drop(connection);
    let inode = fs::metadata(home.path()).unwrap().ino();
    for error in [Store::open(&home.path()).err(), Store::find(&home.path()).err()] {
        assert!(matches!(error, Some(StoreError::Newer { found: 99, known: 1, .. })), "{error:?}");
        assert!(error.unwrap().to_string().contains("made by a newer palisade"));
    }
    assert_eq!(fs::metadata(home.path()).unwrap().ino(), inode);
}

#[test]
fn an_event_of_a_newer_program_is_passed_over() {
    let home = Home::new();
    let mut store = home.open();
    store.append(&[home.event("/a"), home.event("/b")]).unwrap();
    store
        .connection
        .execute("UPDATE event SET event = replace(event, '\"write\"', '\"teleport\"') WHERE id = 1", ())
        .unwrap();
    let page = store.after(0, &Filter::default()).unwrap();
    assert_eq!((objects(&page.entries), page.strange), (vec!["/b".to_owned()], 1));
}

#[test]
fn what_is_no_database_is_moved_aside() {
    for content in ["", "no database", &"x".repeat(100_000)] {
        let home = Home::new();
        home.open().append(&[home.event("/old")]).unwrap();
        fs::write(home.path(), content).unwrap();
        assert!(matches!(Store::find(&home.path()), Err(StoreError::Damaged { .. })), "{content:.10}");
        let mut store = home.open();
        let aside = store.take_aside().unwrap();
        assert_eq!(fs::read_to_string(aside).unwrap(), content);
        assert!(store.take_aside().is_none());
        store.append(&[home.event("/new")]).unwrap();
        assert_eq!(objects(&everything(&store)), ["/new"], "the old log wasn't taken for the new one's");
        assert_sound(&home.path());
    }
}

#[test]
fn damage_that_shows_late_is_moved_aside_too_and_the_event_kept() {
    let home = Home::new();
    let mut store = home.open();
    store.append(&home.events(2000)).unwrap();
    store.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    // Damage every page except the first, which describes the tables. The connection hasn't read all of them.
    let size = fs::metadata(home.path()).unwrap().len();
    let file = fs::OpenOptions::new().write(true).open(home.path()).unwrap();
    let noise = vec![0xa5; usize::try_from(size).unwrap() - 4096];
    std::os::unix::fs::FileExt::write_all_at(&file, &noise, 4096).unwrap();
    store.connection.execute_batch("PRAGMA shrink_memory").unwrap();
    store.append(&[home.event("/new")]).unwrap();
    assert!(store.take_aside().is_some());
    assert_eq!(objects(&everything(&store)), ["/new"]);
    assert_sound(&home.path());
}

#[test]
fn a_writer_follows_when_the_file_is_replaced() {
    let home = Home::new();
    let mut store = home.open();
    store.append(&[home.event("/a")]).unwrap();
    let reader = Store::find(&home.path()).unwrap().unwrap();
    assert!(reader.is_current());
    // As after a manual cleanup: the log is left behind.
    fs::remove_file(home.path()).unwrap();
    store.append(&[home.event("/b")]).unwrap();
    assert!(!reader.is_current());
    let reader = Store::find(&home.path()).unwrap().unwrap();
    assert_eq!(objects(&everything(&reader)), ["/b"]);
    drop(store);
    fs::remove_dir_all(home.path().parent().unwrap()).unwrap();
    home.open().append(&[home.event("/c")]).unwrap();
    assert_eq!(objects(&everything(&home.open())), ["/c"]);
    assert_sound(&home.path());
}

#[test]
fn closing_an_old_store_leaves_the_new_one_its_log() {
    let home = Home::new();
    let mut old = home.open();
    old.append(&[home.event("/a")]).unwrap();
    fs::remove_file(home.path()).unwrap();
    let mut new = home.open();
    new.append(&[home.event("/b")]).unwrap();
    drop(old);
    drop(new);
    assert_eq!(objects(&everything(&home.open())), ["/b"]);
}

#[test]
fn the_same_within_a_second_is_one_row_that_comes_again() {
    let home = Home::new();
    let mut store = home.open();
    let first = home.event("/a");
    store.append(&[first.clone(), home.event("/b")]).unwrap();
    let end = store.end().unwrap();
    store.append(&[Event { count: 41, ..first.clone() }]).unwrap();
    let page = store.after(end, &Filter::default()).unwrap();
    assert_eq!(objects(&page.entries), ["/a"], "a follower sees that it changed");
    assert_eq!((page.entries[0].id, page.entries[0].event.count), (1, 42));

    let mut later = first.clone();
    later.time += BURST;
    let mut other_rule = first.clone();
    other_rule.why.origin = None;
    let other_launch = Event { launch: sandbox("1-2"), ..first };
    store.append(&[later, other_rule, other_launch]).unwrap();
    let all = everything(&store);
    assert_eq!(objects(&all), ["/b", "/a", "/a", "/a", "/a"]);
    assert_eq!(all.iter().map(|entry| entry.event.count).collect::<Vec<_>>(), [1, 42, 1, 1, 1]);
}

#[test]
fn a_row_that_went_meanwhile_is_made_anew() {
    let home = Home::new();
    let mut store = home.open();
    let event = home.event("/a");
    store.append(std::slice::from_ref(&event)).unwrap();
    let everything_goes = Retention { rows: 0, ..Retention::default() };
    assert_eq!(store.prune(&everything_goes).unwrap(), 1);
    store.append(&[event]).unwrap();
    let page = store.after(0, &Filter::default()).unwrap();
    assert_eq!((page.entries.len(), page.entries[0].id), (1, 2), "and no number is used twice");
}

#[test]
fn filters() {
    let home = Home::new();
    let mut store = home.open();
    let mut events = home.events(4);
    let now = SystemTime::now();
    for (event, age) in events.iter_mut().zip([300, 200, 100, 0]) {
        event.time = now - Duration::from_secs(age);
    }
    events[1].launch = sandbox("7700000-abcdef");
    events[2].subject.sandbox = Some("web".into());
    store.append(&events).unwrap();
    let wanted = |filter: &Filter| {
        let page = store.after(0, filter).unwrap();
        objects(&page.entries)
    };
    let since = |age| Filter { since: Some(now - Duration::from_secs(age)), ..Filter::default() };
    assert_eq!(wanted(&since(150)), ["/2", "/3"]);
    let of_sandbox = |name: &str| Filter { sandbox: Some(name.to_owned()), ..Filter::default() };
    assert_eq!(wanted(&of_sandbox("7700000-abcdef")), ["/1"]);
    assert_eq!(wanted(&of_sandbox("7700000")), ["/1"]);
    assert_eq!(wanted(&of_sandbox("web")), ["/2"]);
    assert_eq!(wanted(&of_sandbox("7%")), [""; 0]);
    assert_eq!(wanted(&of_sandbox("7")), [""; 0]);
    let newest = store.before_newest(2, &Filter::default()).unwrap();
    assert_eq!(objects(&store.after(newest, &Filter::default()).unwrap().entries), ["/2", "/3"]);
    assert_eq!(store.before_newest(5, &Filter::default()).unwrap(), 0);
    assert_eq!(store.before_newest(1, &of_sandbox("7700000")).unwrap(), 0);
}

/// The condition in SQL equals the one in Rust.
#[test]
fn filters_of_processes_verdicts_and_kinds() {
    let home = Home::new();
    let mut store = home.open();
    let mut events = home.events(5);
    events[1].subject.pid = Some(99);
    events[2].verdict = Verdict::Killed;
    events[3].detail = Detail::Network(Network::new(Outcome::Refused));
    events[4].launch = sandbox("7700000-abcdef");
    events[4].subject.sandbox = Some("web".into());
    store.append(&events).unwrap();
    // Two events of schema 1, which don't state their kind.
    for (object, enforced_by) in [("/old", "broker"), ("old.example", "gateway")] {
        store.append(&[home.event("/old")]).unwrap();
        let edit = "UPDATE event SET event = json_set(json_remove(event, '$.kind', '$.detail', '$.target'),
            '$.object', ?1, '$.enforced_by', ?2, '$.schema', 1) WHERE id = (SELECT max(id) FROM event)";
        store.connection.execute(edit, [object, enforced_by]).unwrap();
        store.recent.clear();
    }
    let all = everything(&store);
    let wanted = |filter: Filter| {
        let found = objects(&store.after(0, &filter).unwrap().entries);
        let same: Vec<String> = all
            .iter()
            .filter(|entry| filter.wants(&entry.event))
            .map(|entry| entry.event.object.to_string())
            .collect();
        assert_eq!(found, same, "{filter:?}");
        found
    };
    let filter = Filter::default;
    assert_eq!(wanted(filter()).len(), 7);
    assert_eq!(wanted(Filter { pid: Some(99), ..filter() }), ["/1"]);
    assert_eq!(wanted(Filter { verdict: Some(Verdict::Killed), ..filter() }), ["/2"]);
    assert_eq!(wanted(Filter { verdict: Some(Verdict::Allowed), ..filter() }), [""; 0]);
    assert_eq!(wanted(Filter { kinds: vec![Kind::Network], ..filter() }), ["/3", "old.example"]);
    let sandboxes = ["/0", "/1", "/2", "/4", "/old"];
    assert_eq!(wanted(Filter { kinds: vec![Kind::Sandbox, Kind::Guard], ..filter() }), sandboxes);
    assert_eq!(wanted(Filter { kinds: vec![Kind::Network, Kind::Sandbox], ..filter() }).len(), 7);
    assert_eq!(wanted(Filter { kinds: vec![Kind::Scope], ..filter() }), [""; 0]);
    for name in ["web", "7700000", "7700000-abcdef"] {
        assert_eq!(wanted(Filter { sandbox: Some(name.into()), ..filter() }), ["/4"]);
    }
    assert_eq!(wanted(Filter { sandbox: Some("770000".into()), ..filter() }), [""; 0]);
    let both = Filter { pid: Some(99), verdict: Some(Verdict::Killed), ..filter() };
    assert_eq!(wanted(both), [""; 0]);
    let newest = store.before_newest(1, &Filter { kinds: vec![Kind::Sandbox], ..filter() }).unwrap();
    assert_eq!(objects(&store.after(newest, &filter()).unwrap().entries), ["/old", "old.example"]);
    assert!(!Filter { sandbox: Some("web".into()), ..filter() }.wants_kind(Kind::Guard));
}

#[test]
fn what_is_old_or_too_much_goes_oldest_first() {
    let home = Home::new();
    let mut store = home.open();
    store.set_retention(Retention { rows: usize::MAX, rows_of_one: usize::MAX, ..Retention::default() });
    let mut events = home.events(5000);
    for event in &mut events[..1000] {
        event.time -= Duration::from_secs(40 * 24 * 3600);
    }
    store.append(&events).unwrap();
    store.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let before = fs::metadata(home.path()).unwrap().len();
    let first = |store: &Store| everything(store).first().map(|entry| entry.event.object.to_string());
    assert_eq!(first(&store).unwrap(), "/1000", "the first append prunes");

    let rows = Retention { rows: 3000, ..Retention::default() };
    assert_eq!(store.prune(&rows).unwrap(), 1000);
    assert_eq!(first(&store).unwrap(), "/2000");

    let other = Event { launch: sandbox("1-2"), ..home.event("/other") };
    store.append(&[other]).unwrap();
    let one = Retention { rows_of_one: 1000, ..Retention::default() };
    assert_eq!(store.prune(&one).unwrap(), 2000);
    let all = everything(&store);
    assert_eq!(objects(&all)[0], "/4000");
    assert_eq!(all.len(), 1001, "the other launch's event stays");

    let bytes = Retention { bytes: 100_000, ..Retention::default() };
    let removed = store.prune(&bytes).unwrap();
    assert!((600..1000).contains(&removed), "{removed}");
    let everything_goes = Retention { age: Duration::ZERO, ..Retention::default() };
    store.prune(&everything_goes).unwrap();
    assert_eq!(first(&store), None);
    let launches: i64 =
        store.connection.query_row("SELECT count(*) FROM launch", (), |row| row.get(0)).unwrap();
    assert_eq!(launches, 0);
    store.connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    let after = fs::metadata(home.path()).unwrap().len();
    assert!(after * 3 < before, "{before} bytes became {after}");
    assert_sound(&home.path());
}

#[test]
fn every_thousand_events_it_prunes_by_itself() {
    let home = Home::new();
    let mut store = home.open();
    store.set_retention(Retention { rows: 100, ..Retention::default() });
    for event in home.events(2500) {
        store.append(&[event]).unwrap();
    }
    assert!(everything(&store).len() < 100 + PRUNE_EVERY);
}

#[test]
fn eight_processes_write_while_one_reads_and_no_row_is_lost() {
    let home = Home::new();
    // No process has made the store yet: the writers also race for that.
    let mut writers: Vec<Child> = (0..8).map(|_| home.writer(1000, 1)).collect();
    let begun = Instant::now();
    let mut seen = Vec::new();
    let mut position = 0;
    let mut reader = None;
    loop {
        let running = writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none());
        if reader.is_none() {
            reader = Store::find(&home.path()).unwrap();
        }
        if let Some(reader) = &reader {
            let page = reader.after(position, &Filter::default()).unwrap();
            position = page.position;
            seen.extend(page.entries.into_iter().map(|entry| {
                assert_eq!(entry.event.count, 1);
                (entry.event.launch.unwrap().sandbox, entry.event.object.to_string())
            }));
            if !running && !page.more {
                break;
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "{} rows", seen.len());
    }
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    eprintln!("8,000 transactions of 8 processes: {:?}", begun.elapsed());
    assert_eq!(seen.len(), 8000);
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 8000);
    assert_sound(&home.path());
}

#[test]
fn a_writer_killed_in_mid_transaction_harms_nobody() {
    const EVENTS: usize = 3000;
    let home = Home::new();
    let mut store = home.open();
    store.set_retention(Retention { rows: usize::MAX, rows_of_one: usize::MAX, ..Retention::default() });
    for delay in [30, 60, 90, 120, 150, 180] {
        let mut writer = home.writer(500, EVENTS);
        let before = store.end().unwrap();
        // Its first transaction is complete. It spends most of its time in the next one.
        let begun = Instant::now();
        while store.end().unwrap() == before {
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        std::thread::sleep(Duration::from_millis(delay));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let end = store.end().unwrap();
        assert_eq!(
            usize::try_from(end - before).unwrap() % EVENTS,
            0,
            "a transaction is whole or not at all"
        );
        let begun = Instant::now();
        store.append(&[home.event(&format!("/{delay}"))]).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2), "its lock went with it");
        store.append(&home.events(EVENTS - 1)).unwrap();
        assert_sound(&home.path());
    }
}

#[test]
fn the_journal_of_remote_file_systems_works_too() {
    let home = Home::new();
    home.open();
    fs::remove_dir_all(home.path().parent().unwrap()).unwrap();
    fs::create_dir_all(home.path().parent().unwrap()).unwrap();
    fs::write(home.path(), "").unwrap();
    layout::make(&home.path(), true).unwrap();
    home.open().append(&[home.event("/a")]).unwrap();
    assert_eq!(everything(&home.open()).len(), 1);
    assert!(!home.path().with_extension("sqlite-wal").exists());
}

#[test]
fn a_full_disk_is_an_error_and_no_more() {
    let home = Home::new();
    let mut store = home.open();
    store.append(&[home.event("/a")]).unwrap();
    store.connection.execute_batch("PRAGMA max_page_count = 20").unwrap();
    assert!(matches!(store.append(&home.events(2000)), Err(StoreError::Sqlite { .. })));
    assert_eq!(objects(&everything(&store)), ["/a"]);
    store.connection.execute_batch("PRAGMA max_page_count = 100000").unwrap();
    store.append(&home.events(2000)).unwrap();
    assert_eq!(everything(&store).len(), 2001);
}
