// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade shell history` from a user's view.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::support::home;
use palisade_shell::history::{Entry, Filter, Store};
use serde_json::Value;
use std::io::{Read, Write};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// A home with a history.
struct Home(home::Home);

impl Deref for Home {
    type Target = home::Home;

    fn deref(&self) -> &home::Home {
        &self.0
    }
}

impl Home {
    fn new() -> Self {
        Self(home::Home::new(&["shell", "history"]))
    }

    fn store(&self) -> Store {
        Store::open(&self.path(".local/state/palisade/history.sqlite")).unwrap()
    }

    fn add(&self, line: &str, directory: &str, started: i64, exit: i32) -> i64 {
        let entry = Entry {
            line: line.into(),
            directory: directory.into(),
            session: "s1".into(),
            started: started * 1_000_000_000,
            exit: Some(exit),
            ..Entry::default()
        };
        self.store().add(&entry).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        let rows = self.store().rows(&Filter::default()).unwrap();
        rows.into_iter().map(|row| row.entry.line).collect()
    }
}

#[test]
fn an_empty_history_is_no_error() {
    let home = Home::new();
    for (arguments, code) in [
        (&["list"][..], 0),
        (&["search", "x"], 1),
        (&["stats"], 0),
        (&["export"], 0),
        (&["delete", "--matching", "x"], 1),
    ] {
        let answer = home.run(arguments);
        assert_eq!(answer.code, code, "{arguments:?}: {}", answer.err);
    }
    assert_eq!(home.json(0, &["list"])["entries"], Value::Array(Vec::new()));
    assert_eq!(home.json(0, &["stats"])["entries"], 0);
    let answer = home.run(&["delete", "7"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("no entry 7") && answer.err.contains("hint: palisade shell history list"));
}

#[test]
fn list_and_search_print_what_was_run() {
    let home = Home::new();
    home.add("make all", "/src", 1_700_000_000, 2);
    let id = home.add("for x in y\ndo z\x1b[2J\ndone", "/", 1_700_000_001, 0);
    let answer = home.run(&["list"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert_eq!(
        answer.out,
        "1  2023-11-14 22:13:20    2  make all\n\
         2  2023-11-14 22:13:21       for x in y\n                            do z\\u{1b}[2J\n                            done\n"
    );
    assert_eq!(home.run(&["list", "-n", "1", "--directory", "/src/"]).out.lines().count(), 1);
    assert!(home.run(&["list", "--failed"]).out.contains("make all"));
    assert!(home.run(&["search", "all"]).out.contains("make all"));
    assert_eq!(home.run(&["search", "--prefix", "all"]).code, 1);
    let found = home.json(0, &["search", "--prefix", "for"]);
    assert_eq!(found["entries"][0]["id"], id);
    assert_eq!(found["entries"][0]["line"], "for x in y\ndo z\x1b[2J\ndone");
    assert_eq!(found["entries"][0]["started"], "2023-11-14T22:13:21Z");
    assert_eq!((&found["entries"][0]["exit"], &found["entries"][0]["host"]), (&0.into(), &Value::Null));
    let stats = home.json(0, &["stats"]);
    assert_eq!((&stats["entries"], &stats["failed"]), (&2.into(), &1.into()));
    assert!(home.run(&["stats"]).out.contains("most frequent"));
}

#[test]
fn where_lines_led_is_shown_and_asked_for() {
    let home = Home::new();
    home.add("make", "/src", 1_700_000_000, 0);
    for (line, context, started) in
        [("ssh me@prod", "ssh me@prod", 1), ("ls", "local", 2), ("sudo -i", "sudo root", 3)]
    {
        let entry = Entry {
            line: line.into(),
            context: context.into(),
            started: (1_700_000_000 + started) * 1_000_000_000,
            exit: Some(0),
            ..Entry::default()
        };
        home.store().add(&entry).unwrap();
    }
    let answer = home.run(&["list"]);
    assert_eq!((answer.code, answer.err.as_str()), (0, ""));
    assert_eq!(
        answer.out,
        "1  2023-11-14 22:13:20                    make\n\
         2  2023-11-14 22:13:21       ssh me@prod  ssh me@prod\n\
         3  2023-11-14 22:13:22                    ls\n\
         4  2023-11-14 22:13:23       sudo root    sudo -i\n"
    );
    assert_eq!(home.run(&["list", "--context", "local"]).out, "3  2023-11-14 22:13:22       ls\n");
    assert!(home.run(&["list", "--context", "ssh"]).out.ends_with("ssh me@prod\n"));
    assert_eq!(home.run(&["search", "--context", "ssh", "sudo"]).code, 1);
    assert_eq!(home.run(&["list", "--context", ""]).code, 2);
    let found = home.json(0, &["list"]);
    let contexts: Vec<&Value> = (0..4).map(|index| &found["entries"][index]["context"]).collect();
    assert_eq!(contexts, [&Value::Null, &"ssh me@prod".into(), &"local".into(), &"sudo root".into()]);
    // What another program remembers has none.
    std::fs::write(home.path("bash"), "ssh other\n").unwrap();
    home.run(&["import", "--from", "bash", "bash"]);
    assert_eq!(home.json(0, &["search", "ssh other"])["entries"][0]["context"], Value::Null);
    assert!(home.run(&["export"]).out.contains(r#""context":"ssh me@prod""#));
}

#[test]
fn import_adds_what_is_new_only() {
    let home = Home::new();
    std::fs::write(home.path(".bash_history"), "ls\ncd /\nls\nexport TOKEN=hunter2\n").unwrap();
    let first = home.json(0, &["import", "--from", "bash"]);
    assert_eq!((&first["found"], &first["new"], &first["kept_out"]), (&4.into(), &3.into(), &1.into()));
    assert_eq!(home.json(0, &["import", "--from", "bash"])["new"], 0);
    let mut file = std::fs::File::options().append(true).open(home.path(".bash_history")).unwrap();
    file.write_all(b"vim\n\xff\xfe\n").unwrap();
    let again = home.run(&["import", "--from", "bash"]);
    assert_eq!(again.code, 0);
    assert!(
        again.err.contains("1 entry new of 5") && again.err.contains("left out 1 entry: not UTF-8"),
        "{}",
        again.err
    );
    assert_eq!(home.lines(), ["ls", "cd /", "ls", "vim"]);
    assert_eq!(home.json(0, &["import", "--from", "bash", "--with-secrets"])["new"], 1);

    std::fs::write(home.path("zsh file"), ": 1500000000:2;make\\\nall\n").unwrap();
    assert_eq!(home.json(0, &["import", "--from", "zsh", "zsh file"])["new"], 1);
    std::fs::create_dir_all(home.path(".local/share/fish")).unwrap();
    std::fs::write(home.path(".local/share/fish/fish_history"), "- cmd: fi\n  when: 1500000001\n").unwrap();
    assert_eq!(home.json(0, &["import", "--from", "fish"])["new"], 1);
    assert_eq!(home.lines()[..2], ["make\nall", "fi"]);

    let missing = home.run(&["import", "--from", "atuin"]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("atuin/history.db") && missing.err.contains("hint: "), "{}", missing.err);
    let database = home.path("atuin.db");
    let made = Command::new("sqlite3")
        .arg(&database)
        .arg(
            "CREATE TABLE history (id text, timestamp integer, duration integer, exit integer, command text,
             cwd text, session text, hostname text, deleted_at integer);
             INSERT INTO history VALUES ('a', 1500000002000000000, 7, 1, 'from atuin', '/x', 's', 'h:u', NULL);",
        )
        .status();
    // Where there is no sqlite3 the reader's own tests have to do.
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(home.json(0, &["import", "--from", "atuin", "atuin.db"])["new"], 1);
        let found = home.json(0, &["search", "from atuin"]);
        assert_eq!(found["entries"][0]["source"], "atuin");
        assert_eq!(found["entries"][0]["user"], "u");
    }
}

#[test]
fn delete_forgets_for_good() {
    let home = Home::new();
    std::fs::write(home.path("bash"), "echo one\necho two\necho three\n").unwrap();
    home.run(&["import", "--from", "bash", "bash"]);
    let found = home.json(0, &["search", "two"]);
    let id = found["entries"][0]["id"].to_string();
    assert_eq!(home.json(0, &["delete", &id])["deleted"], 1);
    assert_eq!(home.run(&["delete", &id, "1"]).code, 2, "all or nothing");
    let asked = home.run(&["delete", "--matching", "echo"]);
    assert_eq!((asked.code, home.lines().len()), (2, 2));
    assert!(asked.err.contains("hint: palisade shell history delete --matching echo --yes"), "{}", asked.err);
    assert_eq!(home.run(&["delete"]).code, 2);
    assert_eq!(home.run(&["delete", "--matching", "one", "--yes"]).code, 0);
    home.run(&["import", "--from", "bash", "bash"]);
    assert_eq!(home.lines(), ["echo three"]);
}

#[test]
fn who_is_asked_on_a_terminal_can_say_no() {
    let home = Home::new();
    home.add("echo keep", "/", 1, 0);
    for (answer, code, left) in [("n\n", 1, 1), ("\n", 1, 1), ("y\n", 0, 0)] {
        let mut script = Command::new("script")
            .args(["-qec"])
            .arg(format!("{} shell history delete --matching echo", env!("CARGO_BIN_EXE_palisade")))
            .arg("/dev/null")
            .env("HOME", home.path(""))
            .env_remove("XDG_STATE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = script.stdout.take().unwrap();
        let mut said = Vec::new();
        let mut part = [0; 256];
        while !String::from_utf8_lossy(&said).contains("[y/N]") {
            let length = out.read(&mut part).unwrap();
            assert!(length > 0, "{}", String::from_utf8_lossy(&said));
            said.extend_from_slice(&part[..length]);
        }
        assert!(String::from_utf8_lossy(&said).contains("echo keep"));
        script.stdin.take().unwrap().write_all(answer.as_bytes()).unwrap();
        out.read_to_end(&mut said).unwrap();
        assert_eq!(script.wait().unwrap().code(), Some(code), "{}", String::from_utf8_lossy(&said));
        assert_eq!(home.lines().len(), left);
    }
}

#[test]
fn export_writes_what_shells_read() {
    let home = Home::new();
    home.add("for x\ndo", "/", 1_700_000_000, 0);
    home.add("ls ü\\", "/", 1_700_000_001, 1);
    for (format, from) in [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")] {
        let answer = home.run(&["export", "--format", format, "-o", "out"]);
        assert_eq!((answer.code, answer.err.contains("2 entries")), (0, true));
        assert_eq!(std::fs::metadata(home.path("out")).unwrap().permissions().mode() & 0o777, 0o600);
        let other = Home::new();
        let file = home.path("out");
        assert_eq!(other.json(0, &["import", "--from", from, file.to_str().unwrap()])["new"], 2, "{format}");
        assert_eq!(other.lines(), home.lines(), "{format}");
    }
    let text = home.run(&["export"]).out;
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["line"], &lines[1]["exit"]), (2, &"for x\ndo".into(), &1.into()));
    let wrong = home.run(&["export", "-o", "/no/such/place"]);
    assert_eq!(wrong.code, 2);
}

#[test]
fn a_damaged_history_says_what_to_do() {
    let home = Home::new();
    home.add("ls", "/", 1, 0);
    std::fs::write(home.path(".local/state/palisade/history.sqlite"), "nothing\n".repeat(2000)).unwrap();
    let answer = home.run(&["list"]);
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("is damaged") && answer.err.contains("hint: mv "), "{}", answer.err);
}

#[test]
fn a_gigabyte_is_imported_in_bounded_memory() {
    let home = Home::new();
    let path = home.path("huge");
    let mut file = std::fs::File::create(&path).unwrap();
    // Most of it is a hole; its end is more than what is taken of lines.
    file.set_len((1 << 30) - (80 << 20)).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).unwrap();
    let filler = "x".repeat(980);
    let mut chunk = String::new();
    for number in 0..(80 << 10) {
        chunk.push_str(&format!("\necho {number:08} {filler}"));
    }
    file.write_all(chunk.as_bytes()).unwrap();
    drop((file, chunk));
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 600000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_palisade")])
        .args(["shell", "history", "import", "--from", "bash"])
        .arg(&path)
        .env("HOME", home.path(""))
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = home.lines();
    assert!((10_000..80 << 10).contains(&lines.len()), "{}", lines.len());
    let newest = format!("echo {:08} ", (80 << 10) - 1);
    assert!(lines.iter().any(|line| line.starts_with(&newest)), "the newest are there");
}
