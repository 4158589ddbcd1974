// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the previous version can read the events of a sandbox and its network, and that this version can read
//! the previous version's events.

mod previous;

use palisade_event::{
    Detail, EVENT_SCHEMA, Event, Kind, Launch, Layer, Mechanism, Network, Object, Operation, Origin, Outcome,
    Sandbox, Subject, Verdict, Why,
};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, SystemTime};

const TIME: Duration = Duration::new(1_700_000_000, 42);

fn refused_write() -> Event {
    Event::new(
        SystemTime::UNIX_EPOCH + TIME,
        Detail::Sandbox(Sandbox {
            call: Some("rename".into()),
            protected: Some(".git/hooks".into()),
            expected: false,
        }),
        Subject {
            pid: Some(7),
            uid: Some(1000),
            program: "sed".into(),
            thread: Some(8),
            ..Subject::default()
        },
        (Operation::Write, Object::file("/w/.git/hooks/pre-commit")),
        (Verdict::Refused, Mechanism::Broker),
        Why {
            origin: Some(Origin {
                layer: Layer::Administrator,
                file: Some(Path::new("/etc/palisade/config.toml").into()),
                line: 12,
                column: 3,
            }),
            text: ".git/hooks is protected: git runs it".into(),
        },
    )
    .with_hint(Some("palisade run --allow-name '.git/hooks' …".into()))
}

fn closed_connection() -> Event {
    let network = Network {
        address: Some(IpAddr::from([192, 0, 2, 1])),
        sent: 517,
        received: 4096,
        duration: Duration::from_millis(20),
        ..Network::new(Outcome::Closed)
    };
    Event::new(
        SystemTime::UNIX_EPOCH + TIME,
        Detail::Network(network),
        Subject { program: "curl".into(), ..Subject::default() },
        (Operation::Connect, Object::host("example.com", 443)),
        (Verdict::Allowed, Mechanism::Gateway),
        Why::text("192.0.2.1, 517 bytes out, 4096 in, 0.020 s"),
    )
}

#[test]
fn the_version_before_reads_it() {
    let event = refused_write();
    let json = serde_json::to_string(&event).unwrap();
    let read: previous::Event = serde_json::from_str(&json).unwrap();
    assert_eq!((read.schema, read.time), (EVENT_SCHEMA, SystemTime::UNIX_EPOCH + TIME));
    let subject = previous::Subject { pid: Some(7), uid: Some(1000), program: "sed".into(), sandbox: None };
    assert_eq!(read.subject, subject);
    assert_eq!(read.operation, previous::Operation::Write);
    assert_eq!(read.object, "/w/.git/hooks/pre-commit");
    assert_eq!(read.verdict, previous::Verdict::Refused);
    assert_eq!(read.why.text, event.why.text);
    let origin = read.why.origin.unwrap();
    assert_eq!((origin.layer, origin.line, origin.column), (previous::Layer::Administrator, 12, 3));
    assert_eq!(origin.file.unwrap(), Path::new("/etc/palisade/config.toml").into());
    assert_eq!(read.enforced_by, previous::Mechanism::Broker);

    let json = serde_json::to_string(&closed_connection()).unwrap();
    let read: previous::Event = serde_json::from_str(&json).unwrap();
    assert_eq!(read.object, "example.com:443");
    assert_eq!((read.verdict, read.enforced_by), (previous::Verdict::Allowed, previous::Mechanism::Gateway));
}

/// Every word that sandboxes and networks use exists in schema 1.
#[test]
fn the_version_before_knows_the_words() {
    let words = [
        (Operation::Launch, Verdict::Allowed, Mechanism::Launcher),
        (Operation::Exit, Verdict::Refused, Mechanism::Mount),
        (Operation::Read, Verdict::Killed, Mechanism::Landlock),
        (Operation::Write, Verdict::Downgraded, Mechanism::Seccomp),
        (Operation::Execute, Verdict::Allowed, Mechanism::Broker),
        (Operation::Connect, Verdict::Refused, Mechanism::NetworkNamespace),
        (Operation::Listen, Verdict::Refused, Mechanism::Gateway),
        (Operation::Syscall, Verdict::Refused, Mechanism::Rlimit),
        (Operation::Limit, Verdict::Refused, Mechanism::Cgroup),
        (Operation::Environment, Verdict::Refused, Mechanism::Environment),
    ];
    for (operation, verdict, enforced_by) in words {
        let event = Event { operation, verdict, enforced_by, ..refused_write() };
        let json = serde_json::to_value(&event).unwrap();
        let read: previous::Event = serde_json::from_value(json.clone()).unwrap();
        let again = serde_json::to_value(&read).unwrap();
        for member in ["operation", "verdict", "enforced_by", "object", "why", "time", "schema"] {
            assert_eq!(again[member], json[member], "{member}");
        }
    }
}

#[test]
fn events_of_the_version_before_are_read() {
    let old = |operation, object: &str, enforced_by| previous::Event {
        schema: 1,
        time: SystemTime::UNIX_EPOCH + TIME,
        subject: previous::Subject { pid: Some(7), uid: None, program: "sed".into(), sandbox: None },
        operation,
        object: object.into(),
        verdict: previous::Verdict::Refused,
        why: previous::Why {
            origin: Some(previous::Origin {
                layer: previous::Layer::User,
                file: Some(Path::new("/c/config.toml").into()),
                line: 3,
                column: 1,
            }),
            text: "protected".into(),
        },
        enforced_by,
    };
    let read = |event: &previous::Event| -> Event {
        serde_json::from_str(&serde_json::to_string(event).unwrap()).unwrap()
    };
    let write = read(&old(previous::Operation::Write, "/a", previous::Mechanism::Broker));
    assert_eq!((write.schema, write.time, write.count), (1, SystemTime::UNIX_EPOCH + TIME, 1));
    assert_eq!((write.kind(), &write.object), (Kind::Sandbox, &Object::file("/a")));
    assert_eq!((write.verdict, write.enforced_by), (Verdict::Refused, Mechanism::Broker));
    assert_eq!(write.why.origin.unwrap().to_string(), "/c/config.toml:3");
    assert_eq!((write.subject.pid, write.subject.program.as_str()), (Some(7), "sed"));
    let connect = read(&old(previous::Operation::Connect, "example.com:443", previous::Mechanism::Gateway));
    assert_eq!((connect.kind(), &connect.object), (Kind::Network, &Object::host("example.com", 443)));
    assert_eq!(connect.detail, Detail::Network(Network::new(Outcome::Refused)));
    let call = read(&old(previous::Operation::Syscall, "ptrace", previous::Mechanism::Seccomp));
    assert_eq!((call.kind(), &call.object), (Kind::Sandbox, &Object::syscall("ptrace", None)));
}

#[test]
fn an_event_survives_json() {
    let launch = Launch { sandbox: "7-abcdef".into(), command: "make all".into() };
    for event in [refused_write(), closed_connection()] {
        let event = Event { launch: Some(launch.clone()), count: 3, ..event };
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!((&json["sandbox"], &json["command"]), (&"7-abcdef".into(), &"make all".into()));
        assert_eq!(json["time"], 1_700_000_000_000_000_042_u64);
        assert_eq!(serde_json::from_value::<Event>(json).unwrap(), event);
    }
}

#[test]
fn what_a_newer_version_adds_is_ignored() {
    let mut json = serde_json::to_value(refused_write()).unwrap();
    json["schema"] = 99.into();
    json["weather"] = "fine".into();
    json["subject"]["weather"] = "fine".into();
    json["detail"]["weather"] = "fine".into();
    let read: Event = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(Event { schema: EVENT_SCHEMA, ..read }, refused_write());
    // An object of a newer type still has its text.
    json["target"] = serde_json::json!({"type": "cloud", "height": 3});
    let read: Event = serde_json::from_value(json.clone()).unwrap();
    assert_eq!(read.object, Object::words("/w/.git/hooks/pre-commit"));
    // An event of an unknown kind is rejected; it isn't mistaken for another kind.
    json["kind"] = "weather".into();
    assert!(serde_json::from_value::<Event>(json).is_err());
}

#[test]
fn any_bytes_are_an_error_or_an_event_that_survives() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(event) = serde_json::from_slice::<Event>(bytes) {
            let again = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<Event>(&again).unwrap(), event);
        }
    });
}
