// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the import with files that shells write, and with damaged files.

use std::io::Write;

use proptest::prelude::*;

use super::*;
use crate::history::LONGEST;

const LIMITS: Limits = Limits { file: 1 << 20, entries: 1000, text: 1 << 20 };
/// The modification time of files without times.
const MODIFIED: i64 = 1_600_000_000 * SECOND;
const TEXTS: [Kind; 3] = [Kind::Bash, Kind::Zsh, Kind::Fish];

fn lines(kind: Kind, bytes: &[u8]) -> Vec<String> {
    read_bytes(kind, bytes, MODIFIED, &LIMITS).entries.into_iter().map(|taken| taken.entry.line).collect()
}

fn seconds(imported: &Imported) -> Vec<i64> {
    imported.entries.iter().map(|taken| taken.entry.started / SECOND).collect()
}

#[test]
fn bash_without_times_has_a_line_each() {
    let file = b"ls\n\n# a note\n#12ab\nfor x in y; do z; done\necho \xff\nlast";
    let imported = read_bytes(Kind::Bash, file, MODIFIED, &LIMITS);
    let found: Vec<&str> = imported.entries.iter().map(|taken| taken.entry.line.as_str()).collect();
    assert_eq!(found, ["ls", "# a note", "#12ab", "for x in y; do z; done", "last"]);
    assert_eq!((imported.unusable, imported.older), (1, 0));
    let times: Vec<i64> = imported.entries.iter().map(|taken| taken.entry.started).collect();
    assert!(times.is_sorted() && times[4] < MODIFIED && !imported.entries[0].timed);
}

#[test]
fn bash_with_times_has_commands_of_several_lines() {
    let file = b"#1500000000\nls\n#1500000001\nfor x in y\ndo\n\n  z\ndone\n#1500000002\n#1500000003\nlast\n";
    let imported = read_bytes(Kind::Bash, file, MODIFIED, &LIMITS);
    assert_eq!(lines(Kind::Bash, file), ["ls", "for x in y\ndo\n\n  z\ndone", "last"]);
    assert_eq!(seconds(&imported), [1_500_000_000, 1_500_000_001, 1_500_000_003]);
    // Times were switched on later. bash, too, reads such a file line by line.
    let file = b"ls\n#1500000001\ncd\nvim\n";
    let imported = read_bytes(Kind::Bash, file, MODIFIED, &LIMITS);
    assert_eq!(lines(Kind::Bash, file), ["ls", "cd", "vim"]);
    assert_eq!(seconds(&imported), [1_500_000_000, 1_500_000_001, 1_500_000_001]);
    assert_eq!(imported.entries.iter().map(|taken| taken.timed).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn times_that_cannot_be_right_are_none() {
    for stamp in ["0", "99999999999999999999", "9999999999999", "000"] {
        let file = format!("#{stamp}\nls\n");
        let imported = read_bytes(Kind::Bash, file.as_bytes(), MODIFIED, &LIMITS);
        assert!(!imported.entries[0].timed && imported.entries[0].entry.started < MODIFIED, "{stamp}");
    }
}

#[test]
fn zsh_is_read_plain_and_extended() {
    // "ü" is c3 bc, "à" is c3 a0: zsh writes the second byte of the latter as two bytes.
    let file = b": 1500000000:3;ls \xc3\xbc \xc3\x83\x80\n\
        plain\n\
        \\: colon\n\
        : 1500000001:0;for x in y; do\\\n  z\\\ndone\n\
        : 1500000002:0;echo a\\ \n\
        : no time\n\
        : 1500000003:0;echo 'a; b'\n\
        : 1500000004:0;echo \\\\\n  b\n";
    let imported = read_bytes(Kind::Zsh, file, MODIFIED, &LIMITS);
    assert_eq!(
        lines(Kind::Zsh, file),
        [
            "ls ü à",
            "plain",
            ": colon",
            "for x in y; do\n  z\ndone",
            "echo a\\",
            ": no time",
            "echo 'a; b'",
            "echo \\\n  b",
        ]
    );
    assert_eq!(imported.entries[0].entry.duration, Some(3 * SECOND));
    assert_eq!(imported.entries[0].entry.started, 1_500_000_000 * SECOND);
    assert_eq!(lines(Kind::Zsh, b"ls\\"), ["ls"]);
}

#[test]
fn fish_is_read_with_its_escapes() {
    let file = b"- cmd: ls \\\\n\n  when: 1500000000\n  paths:\n    - a\n    - cmd: no\n\
        - cmd: for x in y\\n  z\\nend\n  when: 1500000001\n- cmd: echo: 'a'\ngarbage\n- cmd:\n- cmd: a\\b\\\n";
    let imported = read_bytes(Kind::Fish, file, MODIFIED, &LIMITS);
    assert_eq!(lines(Kind::Fish, file), ["ls \\n", "for x in y\n  z\nend", "echo: 'a'", "a\\b\\"]);
    assert_eq!(seconds(&imported), [1_500_000_000, 1_500_000_001, 1_500_000_001, 1_500_000_001]);
}

#[test]
fn what_is_too_long_is_left_out_and_the_rest_is_there() {
    let long = "x".repeat(3 * LONGEST);
    for (kind, file) in [
        (Kind::Bash, format!("a\n{long}\nb\n")),
        (Kind::Bash, format!("#1500000000\na\n#1500000001\n{long}\n#1500000002\nb\n")),
        (Kind::Bash, format!("#1500000000\na\n#1500000001\n{}\n#1500000002\nb\n", "y\n".repeat(LONGEST))),
        (Kind::Zsh, format!("a\n{long}\nb\n")),
        (Kind::Zsh, format!("a\n{}\nb\n", "y\\\n".repeat(2 * LONGEST))),
        (Kind::Fish, format!("- cmd: a\n- cmd: {long}\n  when: 1500000000\n- cmd: b\n")),
    ] {
        let imported = read_bytes(kind, file.as_bytes(), MODIFIED, &LIMITS);
        assert_eq!(lines(kind, file.as_bytes()), ["a", "b"], "{kind:?}");
        assert_eq!(imported.unusable, 1, "{kind:?}");
    }
}

#[test]
fn the_newest_are_kept() {
    let text: String = (0..100).map(|number| format!("line {number:02}\n")).collect();
    let limits = Limits { entries: 3, ..LIMITS };
    let imported = read_bytes(Kind::Bash, text.as_bytes(), MODIFIED, &limits);
    let found: Vec<&str> = imported.entries.iter().map(|taken| taken.entry.line.as_str()).collect();
    assert_eq!((found, imported.older), (vec!["line 97", "line 98", "line 99"], 97));
    let limits = Limits { text: 15, ..LIMITS };
    assert_eq!(read_bytes(Kind::Bash, text.as_bytes(), MODIFIED, &limits).entries.len(), 2);

    // Only the end of a large file is read, from the beginning of a line on.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    std::fs::write(&path, &text).unwrap();
    let imported = read(Kind::Bash, &path, &Limits { file: 12, ..LIMITS }).unwrap();
    assert!(imported.cut);
    assert_eq!(imported.entries.iter().map(|taken| &taken.entry.line).collect::<Vec<_>>(), ["line 99"]);
}

#[test]
fn a_line_that_is_being_written_is_left_for_later() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    std::fs::write(&path, "one\ntw").unwrap();
    let mut file = File::open(&path).unwrap();
    let mut lines = Lines::new(&mut file, 6);
    assert_eq!(lines.next().unwrap(), Some(lines::Line::Whole(b"one")));
    File::options().append(true).open(&path).unwrap().write_all(b"o\nthree\n").unwrap();
    assert_eq!(lines.next().unwrap(), None);
}

#[test]
fn what_is_no_file_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let missing = read(Kind::Bash, &directory.path().join("no"), &LIMITS).unwrap_err();
    assert!(missing.is_missing() && missing.hint().is_some());
    assert!(matches!(read(Kind::Bash, directory.path(), &LIMITS), Err(ImportError::NotAFile { .. })));
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert!(matches!(read(Kind::Zsh, &pipe, &LIMITS), Err(ImportError::NotAFile { .. })));
    assert!(matches!(read(Kind::Atuin, Path::new("/dev/zero"), &LIMITS), Err(ImportError::NotAFile { .. })));
}

#[test]
fn files_are_where_the_shells_have_them() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let none = |_name: &str| None;
    assert_eq!(Kind::Bash.file(home, none), home.join(".bash_history"));
    assert_eq!(Kind::Zsh.file(home, none), home.join(".zsh_history"));
    assert_eq!(Kind::Fish.file(home, none), home.join(".local/share/fish/fish_history"));
    assert_eq!(Kind::Atuin.file(home, none), home.join(".local/share/atuin/history.db"));
    let zsh = |name: &str| (name == "HISTFILE").then(|| "/x/.zsh_history".into());
    assert_eq!(Kind::Zsh.file(home, zsh), Path::new("/x/.zsh_history"));
    assert_eq!(Kind::Bash.file(home, zsh), home.join(".bash_history"));
    std::fs::write(home.join(".histfile"), "").unwrap();
    assert_eq!(Kind::Zsh.file(home, none), home.join(".histfile"));
    let data = |name: &str| (name == "XDG_DATA_HOME").then(|| "/x".into());
    assert_eq!(Kind::Fish.file(home, data), Path::new("/x/fish/fish_history"));
}

/// Makes a database like atuin's.
fn atuin(path: &Path, journal: &str) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA journal_mode = {journal};
             CREATE TABLE history (id text primary key, timestamp integer not null, duration integer not null,
                exit integer not null, command text not null, cwd text not null, session text not null,
                hostname text not null, deleted_at integer);
             INSERT INTO history VALUES
                ('b', 1500000002000000000, 5000000, 1, 'make', '/src', 's1', 'box:me', NULL),
                ('a', 1500000001000000000, -1, -1, 'ls', 'unknown', 's1', 'box', NULL),
                ('c', 1500000003000000000, 1, 0, 'gone', '/src', 's1', 'box:me', 1500000004000000000),
                ('d', 1500000005000000000, 1, 0, CAST(x'6cff' AS TEXT), '/src', 's1', 'box:me', NULL),
                ('e', 'when?', 1, 0, 'odd', '/src', 's1', 'box:me', NULL);"
        ))
        .unwrap();
    connection
}

#[test]
fn atuin_is_read_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let names = || {
        let mut names: Vec<_> =
            directory.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    for (name, journal) in [("with ? and #.db", "DELETE"), ("log.db", "WAL")] {
        let path = directory.path().join(name);
        drop(atuin(&path, journal));
        let (before, there) = (std::fs::read(&path).unwrap(), names());
        let imported = read(Kind::Atuin, &path, &LIMITS).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert_eq!(names(), there);
        let [ls, make] = &imported.entries[..] else { panic!("{imported:?}") };
        assert_eq!((ls.entry.line.as_str(), ls.entry.exit, ls.entry.duration), ("ls", None, None));
        assert_eq!((ls.entry.directory.as_str(), ls.entry.host.as_str()), ("", "box"));
        let expected = Entry {
            line: "make".into(),
            directory: "/src".into(),
            host: "box".into(),
            user: "me".into(),
            session: "s1".into(),
            context: String::new(),
            started: 1_500_000_002 * SECOND,
            duration: Some(5_000_000),
            exit: Some(1),
        };
        assert_eq!(make, &Taken { entry: expected, timed: true });
        assert_eq!(imported.unusable, 2);
        let one = read(Kind::Atuin, &path, &Limits { entries: 1, ..LIMITS }).unwrap();
        assert_eq!(one.entries.len(), 0, "the newest isn't text");
    }
    // Reads while atuin writes to its log.
    let path = directory.path().join("live.db");
    let live = atuin(&path, "WAL");
    live.execute(
        "INSERT INTO history VALUES ('f', 1500000009000000000, 1, 0, 'new', '/', 's', 'h:u', NULL)",
        (),
    )
    .unwrap();
    let before = std::fs::read(&path).unwrap();
    let imported = read(Kind::Atuin, &path, &LIMITS).unwrap();
    assert_eq!(imported.entries.last().unwrap().entry.line, "new");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    drop(live);
    std::fs::write(&path, "no database").unwrap();
    let error = read(Kind::Atuin, &path, &LIMITS).unwrap_err();
    assert!(matches!(error, ImportError::Database { .. }) && error.hint().is_some());
}

fn command() -> impl Strategy<Value = String> {
    "[a-z#:;0-9\\\\ 'ü\u{80}\u{a0}à\n-]{1,40}".prop_filter("blank", |line| !line.trim().is_empty())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_printed_is_read_again(
        kind in prop::sample::select(TEXTS.to_vec()),
        entries in prop::collection::vec((command(), 1..1_700_000_000i64, 0..100i64), 0..12),
    ) {
        let entries: Vec<Entry> = entries
            .into_iter()
            .filter(|(line, ..)| {
                // Leaves out what bash's format can't express, and what no shell keeps.
                kind != Kind::Bash || !line.split('\n').any(|line| line.starts_with('#')) && !line.ends_with('\n')
            })
            .filter(|(line, ..)| kind != Kind::Zsh || !line.ends_with('\n'))
            .map(|(line, started, duration)| Entry {
                line,
                started: started * SECOND,
                duration: (kind == Kind::Zsh).then_some(duration * SECOND),
                ..Entry::default()
            })
            .collect();
        let mut file = Vec::new();
        for entry in &entries {
            print(kind, entry, &mut file);
        }
        let imported = read_bytes(kind, &file, MODIFIED, &LIMITS);
        let found: Vec<Entry> = imported.entries.into_iter().map(|taken| taken.entry).collect();
        prop_assert_eq!(found, entries);
    }
}

/// Checks any bytes: nothing panics, the limits hold, and all entries are usable.
fn anything(kind: Kind, bytes: &[u8]) {
    let limits = Limits { entries: 3, text: 64, ..LIMITS };
    let imported = read_bytes(kind, bytes, MODIFIED, &limits);
    assert!(imported.entries.len() <= 3);
    assert!(imported.entries.iter().map(|taken| taken.entry.line.len()).sum::<usize>() <= 64);
    assert!(imported.entries.iter().all(|taken| taken.entry.is_usable()));
}

#[test]
fn any_bytes_can_be_bash_s() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        anything(Kind::Bash, bytes);
        anything(Kind::Bash, &[b"#15\n", bytes].concat());
    });
}

#[test]
fn any_bytes_can_be_zsh_s() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        anything(Kind::Zsh, bytes);
        anything(Kind::Zsh, &[b": 15:0;", bytes, b"\\\n", bytes].concat());
    });
}

#[test]
fn any_bytes_can_be_fish_s() {
    bolero::check!().with_iterations(20_000).for_each(|bytes: &[u8]| {
        anything(Kind::Fish, bytes);
        anything(Kind::Fish, &[b"- cmd: ", bytes, b"\n  when: ", bytes].concat());
    });
}

#[test]
fn a_damaged_database_is_an_error_or_less() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history.db");
    drop(atuin(&path, "DELETE"));
    let whole = std::fs::read(&path).unwrap();
    bolero::check!().with_iterations(400).with_type::<Vec<(u16, u8)>>().for_each(|changes| {
        let mut bytes = whole.clone();
        for (at, byte) in changes {
            let at = usize::from(*at) % bytes.len();
            bytes[at] = *byte;
        }
        std::fs::write(&path, &bytes).unwrap();
        if let Ok(imported) = read(Kind::Atuin, &path, &LIMITS) {
            assert!(imported.entries.iter().all(|taken| taken.entry.is_usable()));
        }
    });
}
