// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the store of learned calls: it returns what was written, and it reports damaged or foreign files.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use palisade_acceptance::patience::Patience;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use palisade_syscall::Syscall;
use palisade_syscall::store::{Binary, Known, Learned, Store, StoreError};
use rusqlite::Connection;

/// The environment variable that tells a copy of this program which store to write to.
const WRITER: &str = "PALISADE_TEST_WRITER";

type Seen = BTreeMap<Binary, BTreeSet<Syscall>>;

struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("state/palisade/syscalls.sqlite")
    }

    fn open(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    fn both(&self) -> [Option<StoreError>; 2] {
        [Store::open(&self.path()).err(), Store::read(&self.path()).err()]
    }
}

fn binary(path: &str, content: u8) -> Binary {
    Binary { path: path.into(), hash: [content; 32] }
}

fn calls(names: &[&str]) -> BTreeSet<Syscall> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn seen(of: &[(&Binary, &[&str])]) -> Seen {
    of.iter().map(|(binary, names)| ((*binary).clone(), calls(names))).collect()
}

fn allowed(store: &Store, profile: &str) -> Vec<&'static str> {
    store.allowed(profile).unwrap().unwrap().into_iter().map(Syscall::name).collect()
}

fn assert_sound(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let verdict: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let broken: i64 =
        connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", (), |row| row.get(0)).unwrap();
    assert_eq!(broken, 0);
}

#[test]
fn what_was_learned_comes_out() {
    let home = Home::new();
    let odd = Binary { path: std::ffi::OsStr::from_bytes(b"/opt/\xff\n").into(), hash: [9; 32] };
    let python = binary("/usr/bin/python3", 1);
    let mut store = home.open();
    assert_eq!(store.learn("web", &seen(&[(&python, &["bind", "openat"]), (&odd, &[])])).unwrap(), 2);
    let stated = Learned { binary: None, calls: calls(&["kill"]) };
    assert_eq!(store.add("web", std::slice::from_ref(&stated)).unwrap(), 1);
    drop(store);
    let store = Store::read(&home.path()).unwrap().unwrap();
    let learned = [
        stated,
        Learned { binary: Some(odd), calls: BTreeSet::new() },
        Learned { binary: Some(python), calls: calls(&["bind", "openat"]) },
    ];
    assert_eq!(store.profile("web").unwrap(), learned);
    assert_eq!(allowed(&store, "web"), ["bind", "kill", "openat"]);
    assert_eq!(store.profiles().unwrap(), ["web"]);
    assert_eq!((store.profile("other").unwrap(), store.allowed("other").unwrap()), (vec![], None));
}

#[test]
fn what_a_binary_did_under_one_profile_permits_nothing_under_another() {
    let home = Home::new();
    let [python, other, newer] = [binary("/python", 1), binary("/other", 2), binary("/python", 3)];
    let mut store = home.open();
    assert_eq!(store.learn("a", &seen(&[(&python, &["bind"]), (&other, &["kill"])])).unwrap(), 2);
    assert_eq!(store.learn("b", &seen(&[(&python, &["bind", "openat"])])).unwrap(), 2);
    assert_eq!(store.learn("c", &seen(&[(&newer, &["socket"])])).unwrap(), 1);
    assert_eq!(allowed(&store, "a"), ["bind", "kill"], "b taught it nothing");
    assert_eq!(allowed(&store, "b"), ["bind", "openat"], "and nothing of what ran only under a");
    assert_eq!(allowed(&store, "c"), ["socket"], "another content is another binary");
    let known = store.binaries().unwrap();
    assert_eq!(known.iter().map(|known| &known.binary).collect::<Vec<_>>(), [&other, &python, &newer]);
    assert_eq!(known[1].profiles, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    assert_eq!(known[1].calls, calls(&["bind", "openat"]));
    assert!(known[1].first_seen.elapsed().unwrap() < Duration::from_secs(60));
}

/// The tables of schema 1, as the first release made them.
const FIRST_FORM: &str = "
    CREATE TABLE call (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE binary (id INTEGER PRIMARY KEY, path BLOB NOT NULL, hash BLOB NOT NULL CHECK (length(hash) = 32),
        first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, UNIQUE (path, hash)) STRICT;
    CREATE TABLE binary_call (binary INTEGER NOT NULL REFERENCES binary ON DELETE CASCADE,
        call INTEGER NOT NULL REFERENCES call, PRIMARY KEY (binary, call)) STRICT, WITHOUT ROWID;
    CREATE TABLE profile (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
    CREATE TABLE profile_binary (profile INTEGER NOT NULL REFERENCES profile ON DELETE CASCADE,
        binary INTEGER NOT NULL REFERENCES binary ON DELETE CASCADE, PRIMARY KEY (profile, binary)) STRICT, WITHOUT ROWID;
    CREATE INDEX profile_binary_binary ON profile_binary (binary);
    CREATE TABLE profile_call (profile INTEGER NOT NULL REFERENCES profile ON DELETE CASCADE,
        call INTEGER NOT NULL REFERENCES call, PRIMARY KEY (profile, call)) STRICT, WITHOUT ROWID;
    INSERT INTO call VALUES (1, 'bind'), (2, 'openat'), (3, 'kill'), (4, 'teleport');
    INSERT INTO binary VALUES (1, CAST('/python' AS BLOB), zeroblob(32), 10, 20), (2, CAST('/quiet' AS BLOB), zeroblob(32), 10, 20);
    INSERT INTO binary_call VALUES (1, 1), (1, 2), (1, 4);
    INSERT INTO profile VALUES (1, 'a'), (2, 'b'), (3, 'empty');
    INSERT INTO profile_binary VALUES (1, 1), (1, 2), (2, 1);
    INSERT INTO profile_call VALUES (2, 3);
    PRAGMA application_id = 0x50616c63; PRAGMA user_version = 1;";

#[test]
fn a_store_of_the_first_form_keeps_all_that_it_allowed() {
    for write in [false, true] {
        let home = Home::new();
        fs::create_dir_all(home.path().parent().unwrap()).unwrap();
        fs::set_permissions(home.path().parent().unwrap(), Permissions::from_mode(0o700)).unwrap();
        Connection::open(home.path()).unwrap().execute_batch(FIRST_FORM).unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o600)).unwrap();
        let open = || if write { home.open() } else { Store::read(&home.path()).unwrap().unwrap() };
        for _migrated_and_again in 0..2 {
            let store = open();
            assert_eq!(allowed(&store, "a"), ["bind", "openat"]);
            assert_eq!(allowed(&store, "b"), ["bind", "kill", "openat"]);
            assert_eq!(allowed(&store, "empty"), [""; 0]);
            assert_eq!(store.strange("a").unwrap(), BTreeSet::from(["teleport".to_owned()]));
            assert_eq!(store.binaries().unwrap().len(), 2);
        }
        assert_sound(&home.path());
        home.open().learn("a", &seen(&[(&binary("/python", 0), &["mount"])])).unwrap();
        assert_eq!(allowed(&open(), "a"), ["bind", "mount", "openat"]);
        assert_eq!(allowed(&open(), "b"), ["bind", "kill", "openat"], "from here on each keeps its own");
    }
}

#[test]
fn nothing_seen_is_learned_too() {
    let home = Home::new();
    let mut store = home.open();
    assert_eq!(store.learn("quiet", &Seen::new()).unwrap(), 0);
    assert_eq!(store.allowed("quiet").unwrap(), Some(BTreeSet::new()));
}

#[test]
fn what_teaches_nothing_leaves_the_file_as_it_is_and_what_does_changes_it() {
    let home = Home::new();
    let state = || {
        let found = fs::metadata(home.path()).unwrap();
        (found.ino(), found.mtime(), found.mtime_nsec(), found.size(), fs::read(home.path()).unwrap())
    };
    let python = binary("/python", 1);
    let lesson = seen(&[(&python, &["bind"])]);
    home.open().learn("a", &lesson).unwrap();
    let before = state();
    std::thread::sleep(Duration::from_millis(30));
    let mut store = home.open();
    assert_eq!(store.learn("a", &lesson).unwrap(), 0);
    assert_eq!(state(), before);
    // Also while the connection is open: no log holds the change back.
    for (index, change) in
        [seen(&[(&python, &["kill"])]), seen(&[(&binary("/b", 1), &[])])].iter().enumerate()
    {
        let before = state();
        std::thread::sleep(Duration::from_millis(30));
        store.learn("a", change).unwrap();
        let after = state();
        assert!((before.1, before.2) != (after.1, after.2) && before.4 != after.4, "{index}");
    }
    let before = state();
    std::thread::sleep(Duration::from_millis(30));
    let old = "UPDATE binary SET last_seen = last_seen - 90000";
    Connection::open(home.path()).unwrap().execute_batch(old).unwrap();
    assert_eq!(store.learn("a", &lesson).unwrap(), 0);
    assert_ne!(state().4, before.4);
    let known = store.binaries().unwrap();
    let python = known.iter().find(|known| known.binary == python).unwrap();
    assert!(python.last_seen.elapsed().unwrap() < Duration::from_secs(60), "a day later it is seen again");
}

#[test]
fn names_of_a_newer_program_are_kept_and_left_out() {
    let home = Home::new();
    let python = binary("/python", 1);
    home.open().learn("a", &seen(&[(&python, &["bind"])])).unwrap();
    let connection = Connection::open(home.path()).unwrap();
    connection
        .execute_batch("INSERT INTO call VALUES (77, 'teleport'); INSERT INTO learned VALUES (1, 1, 77)")
        .unwrap();
    let mut store = home.open();
    assert_eq!(allowed(&store, "a"), ["bind"]);
    assert_eq!(store.profile("a").unwrap()[0].calls, calls(&["bind"]));
    assert_eq!(store.strange("a").unwrap(), BTreeSet::from(["teleport".to_owned()]));
    store.learn("a", &seen(&[(&python, &["kill"])])).unwrap();
    store.merge(&["a"], "b").unwrap();
    assert_eq!(store.strange("b").unwrap(), BTreeSet::from(["teleport".to_owned()]));
}

#[test]
fn merging_takes_binaries_and_stated_calls() {
    let home = Home::new();
    let [one, two] = [binary("/one", 1), binary("/two", 2)];
    let mut store = home.open();
    store.learn("a", &seen(&[(&one, &["bind"])])).unwrap();
    store.learn("b", &seen(&[(&two, &["kill"])])).unwrap();
    store.add("b", &[Learned { binary: None, calls: calls(&["mount"]) }]).unwrap();
    assert_eq!(store.merge(&["a", "b", "nobody"], "both").unwrap(), 5);
    assert_eq!(allowed(&store, "both"), ["bind", "kill", "mount"]);
    assert_eq!(store.merge(&["a", "b"], "both").unwrap(), 0);
    assert_eq!(allowed(&store, "a"), ["bind"]);
}

#[test]
fn forgetting() {
    let home = Home::new();
    let [one, two] = [binary("/one", 1), binary("/two", 2)];
    let mut store = home.open();
    store.learn("a", &seen(&[(&one, &["bind"]), (&two, &["kill"])])).unwrap();
    store.learn("b", &seen(&[(&one, &["bind"])])).unwrap();
    assert!(store.forget_profile("a").unwrap());
    assert!(!store.forget_profile("a").unwrap());
    assert_eq!(store.allowed("a").unwrap(), None);
    assert_eq!(store.binaries().unwrap().len(), 1, "the one that runs under b stays");
    assert_eq!(store.forget(&BTreeSet::from([one, two])).unwrap(), 1);
    assert_eq!(store.allowed("b").unwrap(), Some(BTreeSet::new()));
    store.forget_all().unwrap();
    assert_eq!(store.profiles().unwrap(), [""; 0]);
    drop(store);
    assert_sound(&home.path());
    let rows = "SELECT (SELECT count(*) FROM call) + (SELECT count(*) FROM learned)";
    let left: i64 = Connection::open(home.path()).unwrap().query_row(rows, (), |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

#[test]
fn reading_makes_nothing_and_writing_makes_it_private() {
    let home = Home::new();
    assert!(Store::read(&home.path()).unwrap().is_none());
    assert_eq!(fs::read_dir(home.dir.path()).unwrap().count(), 0);
    home.open();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&home.path()), 0o600);
    assert_eq!(mode(home.path().parent().unwrap()), 0o700);
    assert_eq!(mode(&home.dir.path().join("state")), 0o700);
    fs::set_permissions(home.path(), Permissions::from_mode(0o644)).unwrap();
    home.open();
    assert_eq!(mode(&home.path()), 0o600);
}

#[test]
fn a_newer_schema_is_refused_and_left_alone() {
    let home = Home::new();
    home.open();
    Connection::open(home.path()).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let content = fs::read(home.path()).unwrap();
    for error in home.both() {
        assert!(matches!(error, Some(StoreError::Newer { found: 99, known: 2, .. })), "{error:?}");
        assert!(error.unwrap().to_string().contains("made by a newer palisade (schema 99"));
    }
    assert_eq!(fs::read(home.path()).unwrap(), content);
}

#[test]
fn damage_is_said_and_the_file_left_for_a_look() {
    let home = Home::new();
    home.open().learn("a", &seen(&[(&binary("/python", 1), &["bind"])])).unwrap();
    let good = fs::read(home.path()).unwrap();
    let mut cut = good.clone();
    cut.truncate(4096 + 100);
    let mut noise = good.clone();
    noise[4096..].fill(0xa5);
    let mut foreign = good;
    foreign[68..72].fill(0);
    for content in [Vec::new(), b"no database".to_vec(), vec![b'x'; 100_000], cut, noise, foreign] {
        fs::write(home.path(), &content).unwrap();
        for error in home.both() {
            assert!(matches!(error, Some(StoreError::Damaged { .. })), "{error:?}");
            let error = error.unwrap();
            assert!(error.to_string().contains("syscalls.sqlite\" is damaged: "), "{error}");
        }
        assert_eq!(fs::read(home.path()).unwrap(), content);
    }
}

#[test]
fn what_another_process_keeps_locked_is_waited_for_two_seconds() {
    let home = Home::new();
    let mut store = home.open();
    let other = Connection::open(home.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    let mut patience = Patience::new(Duration::from_secs(10));
    let error = store.learn("a", &Seen::new()).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    assert!(begun.elapsed() > Duration::from_millis(1500) && !patience.is_spent());
    assert_eq!(store.profiles().unwrap(), [""; 0], "who only reads isn't kept from it");
    other.execute_batch("COMMIT; BEGIN EXCLUSIVE").unwrap();
    let error = Store::read(&home.path()).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    other.execute_batch("COMMIT").unwrap();
    store.learn("a", &Seen::new()).unwrap();
}

#[test]
fn links_and_files_of_others_are_refused() {
    let home = Home::new();
    home.open();
    let elsewhere = home.dir.path().join("elsewhere");
    fs::rename(home.path(), &elsewhere).unwrap();
    symlink(&elsewhere, home.path()).unwrap();
    for error in home.both() {
        assert!(matches!(error, Some(StoreError::Kind { .. })), "{error:?}");
    }
    fs::remove_file(home.path()).unwrap();
    fs::rename(&elsewhere, home.path()).unwrap();
    home.open();
    for (path, mode) in [(home.path(), 0o620), (home.path().parent().unwrap().to_owned(), 0o707)] {
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        for error in home.both() {
            assert!(matches!(error, Some(StoreError::Writable { .. })), "{error:?}");
        }
        fs::set_permissions(&path, before).unwrap();
    }
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(home.path(), Some(12345), None).unwrap();
        for error in home.both() {
            assert!(matches!(error, Some(StoreError::Foreign { uid: 12345, .. })), "{error:?}");
        }
    } else {
        // Any user can see that root owns the root directory.
        let error = Store::read(Path::new("/syscalls.sqlite")).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { uid: 0, .. }), "{error:?}");
    }
}

#[test]
fn a_writer_follows_when_the_file_is_replaced() {
    let home = Home::new();
    let mut store = home.open();
    fs::remove_file(home.path()).unwrap();
    store.learn("a", &Seen::new()).unwrap();
    assert_eq!(home.open().profiles().unwrap(), ["a"]);
}

#[test]
#[ignore = "what other tests start"]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let mut store = patiently(|| Store::open(Path::new(&path))).unwrap();
    let all: BTreeSet<Syscall> = Syscall::all().collect();
    let starter = std::os::unix::process::parent_id();
    // The process that started this one may have ended.
    for round in (0_u32..).take_while(|_| std::os::unix::process::parent_id() == starter) {
        let mut hash = [0; 32];
        hash[..4].copy_from_slice(&round.to_le_bytes());
        hash[4..8].copy_from_slice(&std::process::id().to_le_bytes());
        let lesson = Seen::from([(Binary { path: format!("/{round}").into(), hash }, all.clone())]);
        let new = patiently(|| store.learn("a", &lesson)).unwrap();
        assert_eq!(new, all.len());
    }
}

/// Writers that write all the time, as here, can make others wait for longer than a launch would.
fn patiently<T>(mut task: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut patience = Patience::new(Duration::from_secs(60));
    loop {
        match task() {
            Err(StoreError::Busy { .. }) if !patience.is_spent() => {}
            done => return done,
        }
    }
}

/// A writer process that ends with the test that started it, even after a panic.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _gone = self.0.wait();
    }
}

fn start_writer(home: &Home) -> Writer {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::writer", "--ignored", "--test-threads=1"])
        .env(WRITER, home.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Writer(child)
}

#[test]
fn a_writer_killed_at_any_moment_leaves_a_good_file() {
    let home = Home::new();
    home.open();
    let count = || {
        let reader = || Store::read(&home.path())?.unwrap().binaries();
        patiently(reader).unwrap().len()
    };
    let mut random = 0x2545_f491_u64;
    let mut journals = 0;
    for _kill in 0..50 {
        let before = count();
        let writer = start_writer(&home);
        let mut patience = Patience::new(Duration::from_secs(60));
        while count() == before {
            assert!(!patience.is_spent());
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_micros((random >> 33) % 30_000));
        drop(writer);
        journals += usize::from(home.path().with_extension("sqlite-journal").exists());
        let reader = Store::read(&home.path()).unwrap().unwrap();
        let known = reader.binaries().unwrap();
        assert!(known.len() > before);
        for known in &known {
            assert_eq!(known.calls.len(), Syscall::all().count(), "a lesson is whole or not at all");
        }
        assert_sound(&home.path());
        home.open().forget_all().unwrap();
    }
    assert!(journals > 0, "none was killed in the middle of a transaction");
}

#[test]
fn eight_processes_at_once_lose_nothing() {
    let home = Home::new();
    let mut writers: Vec<Writer> = (0..8).map(|_| start_writer(&home)).collect();
    let teachers =
        |known: &[Known]| known.iter().map(|known| &known.binary.hash[4..8]).collect::<BTreeSet<_>>().len();
    // Which writer gets the lock is random. A busy machine needs more time.
    let begun = Instant::now();
    let mut patience = Patience::new(Duration::from_secs(45));
    loop {
        std::thread::sleep(Duration::from_millis(500));
        for writer in &mut writers {
            assert!(writer.0.try_wait().unwrap().is_none(), "none of them failed");
        }
        let read = || Store::read(&home.path())?.map_or(Ok(Vec::new()), |store| store.binaries());
        if teachers(&patiently(read).unwrap()) > 1 && begun.elapsed() > Duration::from_millis(1500) {
            break;
        }
        assert!(!patience.is_spent(), "one of them only ever got through");
    }
    drop(writers);
    let known = home.open().binaries().unwrap();
    assert!(known.iter().all(|known| known.calls.len() == Syscall::all().count()));
}

/// A program with this file size limit sees the same error as on a full disk: a write that fails.
#[test]
fn a_full_disk_is_an_error_and_no_more() {
    let home = Home::new();
    home.open().learn("a", &seen(&[(&binary("/python", 1), &["bind"])])).unwrap();
    let state = home.path().parent().unwrap().to_owned();
    let size = fs::metadata(home.path()).unwrap().len();
    let script = if rustix::process::geteuid().is_root() {
        // In a separate mount namespace: a file system with room for one page more.
        format!(
            "cp -a '{0}' '{0}.kept' && mount -t tmpfs -o size={1},mode=700 none '{0}' \
             && cp -a '{0}.kept/.' '{0}' && \"$@\"; code=$?; cp -a '{0}/.' '{0}.kept'; exit $code",
            state.display(),
            size + 4096,
        )
    } else {
        format!("trap '' XFSZ; ulimit -f {}; \"$@\"", size / 512)
    };
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        command
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]);
        command
    };
    let writer = command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "store::writer", "--ignored", "--test-threads=1", "--nocapture"])
        .env(WRITER, home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&writer.stderr);
    assert!(!writer.status.success());
    assert!(said.contains("can't write to") || said.contains("action: \"write to\""), "{said}");
    if rustix::process::geteuid().is_root() {
        fs::remove_dir_all(&state).unwrap();
        fs::rename(state.with_extension("kept"), &state).unwrap();
    }
    let mut store = home.open();
    assert!(
        store
            .profile("a")
            .unwrap()
            .contains(&Learned { binary: Some(binary("/python", 1)), calls: calls(&["bind"]) })
    );
    store.learn("b", &Seen::new()).unwrap();
    assert_sound(&home.path());
}
