// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade watch` with a simulated palisaded: the events that it adds to those of the store, and the selection from both.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::watch::{Home, next};
use palisade_event::{
    Decision, Detail, EVENT_SCHEMA, Event, Guard, Layer, Mechanism, Network, Object, Operation, Origin,
    Outcome, Parent, Scope, Subject, Verdict, Why,
};
use palisade_protocol::{Connection, guard, scope};
use serde_json::{Value, json};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// What it does once it is followed.
enum Act {
    Tell(Box<Event>),
    Missed(u64),
    /// Send a message of a kind that no version has sent yet.
    Strange,
    End,
}

/// One socket of palisaded's.
struct Played {
    path: PathBuf,
    acts: Sender<Act>,
    asked: Receiver<Value>,
}

impl Played {
    /// With what it remembers.
    fn at(path: PathBuf, past: Vec<Event>) -> Self {
        let listener = UnixListener::bind(&path).unwrap();
        let (acts, to_do) = channel();
        let (ask, asked) = channel();
        let to_do = Arc::new(Mutex::new(to_do));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                talk(stream, &past, &ask, &to_do.lock().unwrap());
            }
        });
        Self { path, acts, asked }
    }

    fn tell(&self, event: Event) {
        self.acts.send(Act::Tell(event.into())).unwrap();
    }

    fn asked(&self) -> Value {
        self.asked.recv_timeout(Duration::from_secs(20)).unwrap()
    }
}

fn talk(stream: UnixStream, past: &[Event], ask: &Sender<Value>, acts: &Receiver<Act>) {
    let Ok(mut connection) = Connection::begin(stream, "played") else { return };
    let Ok(request) = connection.receive::<Value>() else { return };
    let (wants_past, ends) = (request["past"] == true, request["end"] == true);
    let _nobody_asks = ask.send(request);
    let done =
        |connection: &mut Connection| connection.send(&guard::Response::Done { said: String::new() }).is_ok();
    let tell = |connection: &mut Connection, event: &Event| {
        // Both sockets say it in the same words.
        let response = scope::Response::Event(event.clone().into());
        assert_eq!(
            serde_json::to_value(&response).unwrap(),
            serde_json::to_value(guard::Response::Event(event.clone().into())).unwrap()
        );
        connection.send(&response).is_ok()
    };
    done(&mut connection);
    if wants_past {
        past.iter().all(|event| tell(&mut connection, event));
    }
    if !done(&mut connection) || ends {
        return;
    }
    while let Ok(act) = acts.recv() {
        let told = match act {
            Act::Tell(event) => tell(&mut connection, &event),
            Act::Missed(count) => connection.send(&guard::Response::Missed { count }).is_ok(),
            Act::Strange => connection.send(&json!({"answer": "weather", "is": "fine"})).is_ok(),
            Act::End => false,
        };
        if !told {
            return;
        }
    }
}

fn subject(pid: u32, program: &str) -> Subject {
    Subject { pid: Some(pid), uid: Some(1000), program: program.into(), ..Subject::default() }
}

/// A decision of the guard's about a process.
fn decision(time: SystemTime, pid: u32, path: &str) -> Event {
    let guard = Guard {
        decision: Decision::DenyAudit,
        rule: Some(2),
        trusted: Some(false),
        file_kind: "application/x-executable".into(),
        line: "rule=2".into(),
        steps: Vec::new(),
    };
    let origin = Some(Origin::line(Layer::Administrator, Path::new("/r"), 3));
    Event::new(
        time,
        Detail::Guard(guard),
        subject(pid, "/bin/sh"),
        (Operation::Execute, Object::file(path)),
        (Verdict::Refused, Mechanism::Fanotify),
        Why { origin, text: "rule 2 denies it".into() },
    )
}

/// An exec in a scope.
fn exec(time: SystemTime, pid: u32, path: &str, verdict: Verdict) -> Event {
    let detail = Scope {
        owner: 1000,
        parents: vec![Parent { pid: 7, comm: "node".into() }],
        arguments: Some(vec![path.into(), "-l".into()]),
        ..Scope::default()
    };
    Event::new(
        time,
        Detail::Scope(detail),
        Subject { scope: Some(3), ..subject(pid, "sh") },
        (Operation::Execute, Object::file(path)),
        (verdict, Mechanism::Bpf),
        Why::text("the name is denied"),
    )
}

/// A home with a store, and a palisaded that remembers: one event of each kind, each a minute after the other.
struct World {
    home: Home,
    guard: Played,
    scope: Played,
}

impl World {
    fn new() -> Self {
        let home = Home::new();
        let minute = |number: u64| SystemTime::now() - Duration::from_secs(600 - 60 * number);
        let network = Event {
            time: minute(3),
            detail: Detail::Network(Network::new(Outcome::Refused)),
            operation: Operation::Connect,
            object: Object::host("evil.example", 443),
            enforced_by: Mechanism::Gateway,
            ..home.event("/x")
        };
        let write = Event { time: minute(1), ..home.event("/w/.bashrc") };
        home.store().append(&[write, network]).unwrap();
        let guard =
            Played::at(home.root.path().join("guard.sock"), vec![decision(minute(2), 12, "/tmp/tool")]);
        let past = vec![
            exec(minute(0), 13, "/bin/first", Verdict::Allowed),
            exec(minute(4), 14, "/bin/nc\u{1b}[2J", Verdict::Killed),
        ];
        let scope = Played::at(home.root.path().join("scope.sock"), past);
        Self { home, guard, scope }
    }

    /// The objects of the events that are shown.
    #[track_caller]
    fn shown(&self, arguments: &[&str]) -> Vec<String> {
        let answer = self.home.recorded(&[&["--json"], arguments].concat());
        assert_eq!((answer.code, answer.out.is_empty()), (0, !answer.err.is_empty()), "{answer:?}");
        let object = |line: &str| -> String {
            let event: Event = serde_json::from_str(line).unwrap();
            event.object.to_string()
        };
        answer.out.lines().map(object).collect()
    }
}

const ALL: [&str; 5] = ["/bin/first", "/w/.bashrc", "/tmp/tool", "evil.example:443", "/bin/nc\u{1b}[2J"];

#[test]
fn all_kinds_are_shown_in_the_order_of_their_time() {
    let world = World::new();
    assert_eq!(world.shown(&[]), ALL);
    assert_eq!(world.shown(&["--limit", "2"]), ALL[3..]);
    assert_eq!(world.shown(&["--since", "450s"]), ALL[3..]);
    let words = world.home.recorded(&[]);
    let lines: Vec<&str> = words.out.lines().collect();
    let ends = [
        "scope 3",
        " seen: /bin/first [/bin/first -l] (13, user 1000): the name is denied: below node (7)",
        "npm install",
        " sed (4711): refused write /w/.bashrc: git runs it, /c/config.toml:3",
        "    hint: palisade run --rw /w/.bashrc -- COMMAND…",
        "guard",
        " /bin/sh (12, user 1000): refused: execute /tmp/tool (application/x-executable, not trusted): rule 2, /r:3",
        "npm install",
        " sed (4711): refused connect evil.example:443: git runs it, /c/config.toml:3",
        "    hint: palisade run --rw /x -- COMMAND…",
        "scope 3",
        r" killed: /bin/nc\u{1b}[2J [/bin/nc\u{1b}[2J -l] (14, user 1000): the name is denied: below node (7)",
    ];
    assert_eq!(lines.len(), ends.len(), "{words:?}");
    for (line, end) in lines.iter().zip(ends) {
        assert!(line.ends_with(end), "{line:?} doesn't end with {end:?}");
    }
    assert!(!words.out.contains('\u{1b}'));
}

#[test]
fn json_of_each_kind_is_one_object_a_line() {
    let world = World::new();
    let all = world.home.recorded(&["--json"]);
    let events: Vec<Value> = all.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["scope", "sandbox", "guard", "network", "scope"]);
    assert!(events.iter().all(|event| event["schema"] == EVENT_SCHEMA && event["count"] == 1));
    // Only the store numbers its events.
    let numbered: Vec<bool> = events.iter().map(|event| event.get("id").is_some()).collect();
    assert_eq!(numbered, [false, true, false, true, false]);
    assert_eq!((&events[2]["detail"]["rule"], &events[4]["subject"]["scope"]), (&json!(2), &json!(3)));
    assert!(!all.out.contains('\u{1b}'));
}

#[test]
fn only_what_is_wanted() {
    let world = World::new();
    for (arguments, wanted) in [
        (&["--kind", "guard"][..], &["/tmp/tool"][..]),
        (&["--kind", "sandbox"], &["/w/.bashrc"]),
        (&["--kind", "network,scope"], &["/bin/first", "evil.example:443", "/bin/nc\u{1b}[2J"]),
        (&["--kind", "network", "--kind", "guard"], &["/tmp/tool", "evil.example:443"]),
        (&["--pid", "12"], &["/tmp/tool"]),
        (&["--pid", "4711"], &["/w/.bashrc", "evil.example:443"]),
        (&["--pid", "99"], &[]),
        (&["--verdict", "killed"], &["/bin/nc\u{1b}[2J"]),
        (&["--verdict", "allowed"], &["/bin/first"]),
        (&["--verdict", "refused"], &["/w/.bashrc", "/tmp/tool", "evil.example:443"]),
        (&["--verdict", "refused", "--kind", "guard", "--pid", "12"], &["/tmp/tool"]),
        (&["--verdict", "refused", "--kind", "scope"], &[]),
        (&["--sandbox", &*world.home.launch.sandbox], &["/w/.bashrc", "evil.example:443"]),
        (&["--sandbox", &*world.home.launch.sandbox, "--kind", "scope"], &[]),
    ] {
        assert_eq!(world.shown(arguments), wanted, "{arguments:?}");
    }
    for (wrong, said) in [
        (&["--kind", "weather"][..], "sandbox, network, guard, scope"),
        (&["--verdict", "fine"], "would-be-refused"),
        (&["--pid", "x"], "--pid"),
    ] {
        let answer = world.home.run(wrong);
        assert!(answer.code == 2 && answer.err.contains(said), "{answer:?}");
    }
}

/// `palisade watch` asks palisaded only for the events that the user requested, and tells it which those are.
#[test]
fn palisaded_is_asked_for_what_is_wanted() {
    let world = World::new();
    world.shown(&["--verdict", "refused"]);
    let guard: guard::Request = serde_json::from_value(world.guard.asked()).unwrap();
    assert_eq!(guard, guard::Request::Follow { all: false, past: true, end: true, refused: true });
    let scope: scope::Request = serde_json::from_value(world.scope.asked()).unwrap();
    assert_eq!(scope, scope::Request::Follow { scope: None, past: true, end: true, refused: true });
    world.shown(&["--kind", "sandbox"]);
    world.shown(&["--sandbox", "1-2"]);
    assert!(world.guard.asked.try_recv().is_err() && world.scope.asked.try_recv().is_err());
    world.shown(&["--kind", "guard"]);
    world.guard.asked();
    assert!(world.scope.asked.try_recv().is_err());
}

#[test]
fn what_happens_is_followed_and_what_was_missed_is_said() {
    let world = World::new();
    let mut following = world.home.follow(&[]);
    for played in [&world.guard, &world.scope] {
        assert_eq!((&played.asked()["past"], played.path.exists()), (&json!(false), true));
    }
    let now = SystemTime::now;
    world.guard.tell(decision(now(), 1, "/tmp/one"));
    while !next(&following.out).contains("execute /tmp/one (application/x-executable") {}
    world.scope.tell(exec(now(), 2, "/bin/two", Verdict::Warned));
    while !next(&following.out).contains("warned: /bin/two [") {}
    world.home.store().append(&[world.home.event("/three")]).unwrap();
    following.sees("/three");
    world.guard.acts.send(Act::Missed(17)).unwrap();
    assert_eq!(next(&following.err), "palisade: note: 17 events came too fast to be shown");
    // What this version doesn't know is passed over.
    world.scope.acts.send(Act::Strange).unwrap();
    assert!(next(&following.err).contains("palisaded sent an event that this palisade can't read"));
    world.scope.tell(exec(now(), 3, "/bin/three", Verdict::Killed));
    while !next(&following.out).contains("killed: /bin/three [") {}
    // It ends, and is followed again when it is there again.
    world.guard.acts.send(Act::End).unwrap();
    assert_eq!(
        next(&following.err),
        "palisade: note: palisaded has ended: no events of the guard until it runs again"
    );
    assert_eq!(world.guard.asked()["past"], false);
    world.guard.tell(decision(now(), 4, "/tmp/four"));
    while !next(&following.out).contains("execute /tmp/four ") {}
    assert_eq!(following.interrupt().code(), Some(0));
    assert_eq!(following.err.iter().count(), 0);
}

#[test]
fn many_events_at_once_are_all_shown() {
    const COUNT: usize = 5000;
    let world = World::new();
    let mut following = world.home.follow(&["--kind", "guard", "--limit", &COUNT.to_string()]);
    world.guard.asked();
    (0..COUNT).for_each(|number| world.guard.tell(decision(SystemTime::now(), 1, &format!("/{number}"))));
    let mut shown = 0;
    while shown < COUNT {
        shown += usize::from(next(&following.out).contains(&format!(" execute /{shown} (")));
    }
    assert_eq!(following.end().code(), Some(0), "as many as were wanted");
}

/// A stopped palisaded doesn't delay the verb for long, and the only effect is one note.
#[test]
fn a_palisaded_that_does_not_answer_is_waited_for_a_moment_only() {
    let home = Home::new();
    home.store().append(&[home.event("/a")]).unwrap();
    let _silent = UnixListener::bind(home.root.path().join("guard.sock")).unwrap();
    let begun = Instant::now();
    let answer = home.recorded(&[]);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(answer.err, "palisade: note: palisaded doesn't answer: its events aren't shown\n");
    assert!(answer.code == 0 && answer.out.contains(" write /a: "), "{answer:?}");
}

/// If the palisaded at the socket has another version, a message says what to do, and the store is shown even so.
#[test]
fn a_palisaded_of_another_version_is_said_once() {
    let home = Home::new();
    home.store().append(&[home.event("/a")]).unwrap();
    let listener = UnixListener::bind(home.root.path().join("guard.sock")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let Ok(mut connection) = Connection::begin(stream, "old") else { continue };
            let _asked = connection.receive::<Value>();
            // The version before had this in place of an event.
            let _gone = connection.send(&json!({"answer": "decided", "time": 1, "decision": "deny"}));
        }
    });
    let answer = home.recorded(&[]);
    assert!(answer.code == 0 && answer.out.contains(" write /a: "), "{answer:?}");
    assert!(answer.err.starts_with("palisade: note: no events of the guard are shown: "), "{answer:?}");
    assert!(answer.err.contains("if it was updated since") && answer.err.lines().count() == 1);
}
