// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade watch` with a store that the test fills.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use palisade_acceptance::patience::Patience;
use palisade_event::{
    Detail, EVENT_SCHEMA, Event, Launch, Layer, Mechanism, Object, Operation, Origin, Sandbox, Subject,
    Verdict, Why,
};
use palisade_events::Store;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant, SystemTime};

/// Longer than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Home {
    pub(crate) root: tempfile::TempDir,
    pub(crate) launch: Launch,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            root: tempfile::tempdir().unwrap(),
            launch: Launch::new(&["npm", "install"], std::process::id(), SystemTime::now()),
        }
    }

    fn path(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(".local/state/palisade/events.sqlite")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.path()).unwrap()
    }

    pub(crate) fn event(&self, object: &str) -> Event {
        let event = Event::new(
            SystemTime::now(),
            Detail::Sandbox(Sandbox::default()),
            Subject { pid: Some(4711), uid: Some(1000), program: "sed".into(), ..Subject::default() },
            (Operation::Write, Object::file(object)),
            (Verdict::Refused, Mechanism::Broker),
            Why {
                origin: Some(Origin {
                    layer: Layer::User,
                    file: Some(Path::new("/c/config.toml").into()),
                    line: 3,
                    column: 1,
                }),
                text: "git runs it".into(),
            },
        );
        let hint = Some(format!("palisade run --rw {object} -- COMMAND…"));
        Event { launch: Some(self.launch.clone()), hint, ..event }
    }

    fn append(&self, objects: &[&str]) {
        let events: Vec<Event> = objects.iter().map(|object| self.event(object)).collect();
        self.store().append(&events).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_palisade"));
        command
            .arg("watch")
            // A socket without a server, so that no palisaded of this machine sends events.
            .arg("--socket")
            .arg(self.root.path().join("guard.sock"))
            .args(arguments)
            .current_dir(self.root.path())
            .env_clear()
            .env("HOME", self.root.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Answer {
        let output = self.command(arguments).output().unwrap();
        Answer {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn recorded(&self, arguments: &[&str]) -> Answer {
        self.run(&[&["--no-follow"], arguments].concat())
    }

    pub(crate) fn follow(&self, arguments: &[&str]) -> Following {
        let mut child =
            self.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        let following = Following { child, out, err };
        let said = next(&following.err);
        assert!(said.contains("waiting"), "{said}");
        following
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (to, from) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            if to.send(line.unwrap()).is_err() {
                break;
            }
        }
    });
    from
}

/// The next line, which must come.
#[track_caller]
pub(crate) fn next(lines: &Receiver<String>) -> String {
    let mut patience = Patience::new(PATIENCE);
    loop {
        match lines.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => return line,
            Err(RecvTimeoutError::Timeout) if !patience.is_spent() => {}
            Err(error) => panic!("no line: {error}"),
        }
    }
}

pub(crate) struct Following {
    child: Child,
    pub(crate) out: Receiver<String>,
    pub(crate) err: Receiver<String>,
}

impl Following {
    /// Waits for a line about `object`.
    pub(crate) fn sees(&self, object: &str) -> String {
        loop {
            let line = next(&self.out);
            if line.contains(&format!(" {object}:")) {
                return line;
            }
        }
    }

    pub(crate) fn interrupt(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.end()
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        let mut patience = Patience::new(PATIENCE);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(!patience.is_spent(), "it goes on");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

#[test]
fn nothing_recorded_is_said_and_no_error() {
    let home = Home::new();
    let none = home.recorded(&[]);
    assert_eq!((none.code, none.out.as_str()), (0, ""), "{none:?}");
    assert!(
        none.err.contains("no matching event is recorded in") && none.err.lines().count() == 1,
        "{none:?}"
    );
    assert!(!home.path().parent().unwrap().exists(), "who only looks makes nothing");
    home.append(&["/a"]);
    let other = home.recorded(&["--sandbox", "1-2"]);
    assert_eq!((other.code, other.out.as_str()), (0, ""), "{other:?}");
}

#[test]
fn a_refusal_says_who_what_why_and_what_would_permit_it() {
    let home = Home::new();
    home.append(&["/w/.git/hooks/pre-commit", "/w/b\n\u{1b}[2J\u{202e}"]);
    let all = home.recorded(&[]);
    assert_eq!((all.code, all.err.as_str()), (0, ""), "{all:?}");
    let lines: Vec<&str> = all.out.lines().collect();
    assert_eq!(lines.len(), 5, "{all:?}");
    assert_eq!(lines[0], format!("sandbox {}: npm install", home.launch.sandbox));
    let (clock, rest) = lines[1].split_once(" sed").unwrap();
    assert_eq!(rest, " (4711): refused write /w/.git/hooks/pre-commit: git runs it, /c/config.toml:3");
    assert!(clock.contains(':'), "{all:?}");
    assert_eq!(lines[2], "    hint: palisade run --rw /w/.git/hooks/pre-commit -- COMMAND…");
    assert!(lines[3].contains(r"write /w/b\n\u{1b}[2J\u{202e}: "), "{all:?}");
    assert!(!all.out.contains('\u{1b}') && !all.out.contains('\u{202e}'));
}

#[test]
fn json_is_one_versioned_object_a_line() {
    let home = Home::new();
    home.append(&["/a\n", "/b"]);
    let all = home.recorded(&["--json"]);
    assert_eq!((all.code, all.err.as_str(), all.out.lines().count()), (0, "", 2), "{all:?}");
    let first: Value = serde_json::from_str(all.out.lines().next().unwrap()).unwrap();
    let mut members: Vec<&str> = first.as_object().unwrap().keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(
        members,
        [
            "command",
            "count",
            "enforced_by",
            "hint",
            "id",
            "kind",
            "object",
            "operation",
            "sandbox",
            "schema",
            "subject",
            "target",
            "time",
            "verdict",
            "why"
        ]
    );
    assert_eq!(
        (&first["schema"], &first["id"], &first["count"]),
        (&EVENT_SCHEMA.into(), &1.into(), &1.into())
    );
    assert_eq!((&first["object"], &first["verdict"]), (&"/a\n".into(), &"refused".into()));
    assert_eq!(first["sandbox"], *home.launch.sandbox);
    assert_eq!((&first["subject"]["pid"], &first["why"]["origin"]["line"]), (&4711.into(), &3.into()));
    assert!(first["time"].as_u64().unwrap() > 1_700_000_000_000_000_000);
    let event: Event = serde_json::from_value(first).unwrap();
    assert_eq!(event.object, Object::file("/a\n"));
}

#[test]
fn what_to_begin_with() {
    let home = Home::new();
    let mut events: Vec<Event> = (0..5).map(|number| home.event(&format!("/{number}"))).collect();
    for event in &mut events[..2] {
        event.time -= Duration::from_secs(7200);
    }
    events[4].launch = Some(Launch { sandbox: "9900000-abcdef".into(), ..home.launch.clone() });
    home.store().append(&events).unwrap();
    let shown = |arguments: &[&str]| {
        let answer = home.recorded(&[&["--json"], arguments].concat());
        assert_eq!(answer.code, 0, "{answer:?}");
        let object = |line: &str| -> String {
            serde_json::from_str::<Value>(line).unwrap()["object"].as_str().unwrap().to_owned()
        };
        answer.out.lines().map(object).collect::<String>()
    };
    assert_eq!(shown(&[]), "/0/1/2/3/4");
    assert_eq!(shown(&["--all"]), "/0/1/2/3/4");
    assert_eq!(shown(&["--since", "1h"]), "/2/3/4");
    assert_eq!(shown(&["--since", "1w"]), "/0/1/2/3/4");
    assert_eq!(shown(&["--limit", "2"]), "/3/4");
    assert_eq!(shown(&["--limit", "2", "--since", "3h"]), "/3/4");
    assert_eq!(shown(&["--sandbox", "9900000"]), "/4");
    assert_eq!(shown(&["--sandbox", &home.launch.sandbox]), "/0/1/2/3");
}

#[test]
fn more_than_a_page_is_shown_in_order() {
    let home = Home::new();
    let events: Vec<Event> = (0..2500).map(|number| home.event(&number.to_string())).collect();
    home.store().append(&events).unwrap();
    let all = home.recorded(&[]);
    let shown: Vec<&str> = all.out.lines().filter(|line| line.contains(" write ")).collect();
    assert_eq!(shown.len(), 2500);
    assert!(shown[0].contains(" write 0:") && shown[2499].contains(" write 2499:"));
    let end = home.run(&["--all", "--limit", "2"]);
    assert_eq!(end.code, 0, "following ends when so many were shown");
    assert!(end.out.contains(" write 2498:") && end.out.contains(" write 2499:"), "{end:?}");
    assert!(!end.out.contains(" write 2497:"), "{end:?}");
}

#[test]
fn wrong_options_are_errors() {
    let home = Home::new();
    for wrong in [&["--all", "--since", "1h"][..], &["--since", "soon"], &["--limit", "0"]] {
        let answer = home.run(wrong);
        assert_eq!((answer.code, answer.out.as_str()), (2, ""), "{wrong:?}: {answer:?}");
    }
    assert!(home.run(&["--since", "soon"]).err.contains("1h30m"));
}

#[test]
fn a_store_that_others_may_write_to_is_an_error_with_what_to_do() {
    let home = Home::new();
    home.append(&["/a"]);
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
    for arguments in [&["--no-follow", "--json"][..], &["--json"]] {
        let answer = home.run(arguments);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.err.contains("may be written by others"), "{answer:?}");
        assert!(answer.err.contains("hint: ") && answer.err.contains("chmod go-w"), "{answer:?}");
        let error: Value = serde_json::from_str(&answer.out).unwrap();
        assert_eq!((&error["schema"], &error["error"]["class"]), (&1.into(), &"store".into()));
    }
}

#[test]
fn a_store_that_comes_to_be_is_followed_without_polling() {
    let home = Home::new();
    let mut following = home.follow(&[]);
    let mut store = None;
    let mut quickest = PATIENCE;
    for number in 0..5 {
        let object = format!("/{number}");
        let begun = Instant::now();
        store.get_or_insert_with(|| home.store()).append(&[home.event(&object)]).unwrap();
        following.sees(&object);
        quickest = quickest.min(begun.elapsed());
    }
    eprintln!("shown after {quickest:?}");
    assert!(quickest < Duration::from_millis(500), "the fallback is slower than that: {quickest:?}");
    assert_eq!(following.interrupt().code(), Some(0));
    assert_eq!(following.err.iter().count(), 0, "it says only once that it waits");
}

#[test]
fn only_what_is_new_and_each_thing_once() {
    let home = Home::new();
    home.append(&["/old"]);
    let mut following = home.follow(&[]);
    home.append(&["/new", "/newer"]);
    following.sees("/newer");
    following.interrupt();
    let rest: Vec<String> = following.out.iter().collect();
    assert!(rest.iter().all(|line| line.contains("hint:")), "{rest:?}");

    let mut following = home.follow_all();
    following.sees("/old");
    following.sees("/new");
    following.sees("/newer");
    home.append(&["/newest"]);
    following.sees("/newest");
    assert_eq!(following.interrupt().code(), Some(0));
}

impl Home {
    /// With something to show at once it doesn't say that it waits.
    fn follow_all(&self) -> Following {
        let mut child =
            self.command(&["--all"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Following { child, out, err }
    }
}

#[test]
fn a_loop_of_refusals_is_shown_again_with_its_count() {
    let home = Home::new();
    let following = home.follow(&[]);
    let mut store = home.store();
    let event = home.event("/a");
    store.append(std::slice::from_ref(&event)).unwrap();
    assert!(!following.sees("/a").contains("times"));
    store.append(&[Event { count: 99_999, ..event }]).unwrap();
    assert!(following.sees("/a").ends_with(" (100000 times)"));
}

#[test]
fn a_store_that_is_replaced_or_damaged_is_followed_on() {
    let home = Home::new();
    home.append(&["/old"]);
    let mut following = home.follow(&[]);
    home.append(&["/a"]);
    following.sees("/a");
    std::fs::remove_file(home.path()).unwrap();
    home.append(&["/b"]);
    following.sees("/b");
    std::fs::remove_dir_all(home.path().parent().unwrap()).unwrap();
    home.append(&["/c"]);
    following.sees("/c");
    std::fs::remove_dir_all(home.path().parent().unwrap().parent().unwrap()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    home.append(&["/d"]);
    following.sees("/d");
    std::fs::write(home.path().with_extension("other"), "no database").unwrap();
    std::fs::rename(home.path().with_extension("other"), home.path()).unwrap();
    let said = next(&following.err);
    assert!(said.contains("damaged"), "{said}");
    home.append(&["/e"]);
    following.sees("/e");
    assert_eq!(following.interrupt().code(), Some(0));
}

#[test]
fn who_reads_no_more_ends_it() {
    let home = Home::new();
    home.append(&["/a"]);
    let mut child = home.command(&["--all"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with("sandbox "), "{line}");
    // Nothing more happens that it could fail to write.
    drop(out);
    let mut following = Following { child, out: channel().1, err: channel().1 };
    assert_eq!(following.end().code(), Some(0));
}
