// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests refused connections: which process asked for one, and whether the user could be asked about it.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::{Place, eventually, job};
use serde_json::Value;
use std::process::Stdio;

/// The last event about an object, if there is one.
fn about(place: &Place, object: &str) -> Option<Value> {
    let watch = job::finish(place.command(place.binary()).args(["watch", "--all", "--no-follow", "--json"]));
    let mut events = watch.ok().lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.rfind(|event| event["object"] == object)
}

/// Asks, and stays until its standard input ends.
const ASKS: &str = r#"
import socket, sys, threading, urllib.request
how, *where = sys.argv[1:]
def ask():
    if how == "name": socket.getaddrinfo(where[0], 80)
    elif how == "address": socket.create_connection((where[0], 80)).recv(1)
    else: urllib.request.urlopen(f"http://{where[0]}/")
try: ask()
except OSError as error: print(error, flush=True)
open("refused-" + how, "w").close()
sys.stdin.read()
"#;

#[test]
fn a_refusal_names_the_process_that_asked() {
    for place in people() {
        let bed = Bed::new(place);
        let script = bed.place.write("work/asks.py", ASKS);
        for (how, host, object) in [
            ("name", "denied.example", "denied.example"),
            ("address", "93.184.216.40", "93.184.216.40:80"),
            ("proxy", "other.example", "other.example:80"),
        ] {
            let line = format!("sleep 60 & python3 {} {how} {host}; kill $!", script.display());
            let mut palisade = bed.palisade(&["--allow", "*.allowed.example"], &line);
            palisade.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = palisade.spawn().unwrap();
            assert!(eventually(|| bed.place.work.join(format!("refused-{how}")).exists()), "{how}");
            assert!(eventually(|| about(&bed.place, object).is_some()), "{how}");
            let event = about(&bed.place, object).unwrap();
            assert_eq!(event["subject"]["program"], "python3", "{how}: {event}");
            let pid = event["subject"]["pid"].as_u64().unwrap_or_else(|| panic!("{how}: {event}"));
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
            assert!(line.contains("asks.py"), "{how}: {event} {line:?}");
            drop(child.stdin.take());
            let run = job::wait(child);
            assert!(run.err.contains(&format!("refused: connect {object} by python3: ")), "{how}: {run:?}");
        }
    }
}

/// The program ends as soon as its connection is refused.
#[test]
fn a_program_that_ends_at_once_is_named_too() {
    for place in people() {
        let bed = Bed::new(place);
        for round in 0..5 {
            let host = format!("n{round}.denied.example");
            let run = bed.sh(
                &["--allow", "*.allowed.example"],
                &format!("curl -sS --noproxy '*' http://{host}/; true"),
            );
            assert!(run.err.contains(&format!("refused: connect {host} by curl: ")), "{run:?}");
            assert!(about(&bed.place, &host).unwrap()["subject"]["pid"].is_u64());
        }
    }
}

/// A socket that several processes share belongs to none of them, so the report names no process.
#[test]
fn a_socket_that_several_have_names_no_process() {
    const SHARED: &str = r#"
import os, socket
with socket.socket() as own:
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(theirs)
        os.read(ours, 1)
        os._exit(0)
    try: own.connect(("93.184.216.41", 80)); own.recv(1)
    except OSError as error: print(error)
"#;
    for place in people() {
        let bed = Bed::new(place);
        let script = bed.place.write("work/shared.py", SHARED);
        let run = bed.sh(&["--allow", "*.allowed.example"], &format!("python3 {}", script.display()));
        assert!(run.err.contains("refused: connect 93.184.216.41:80 by python3: "), "{run:?}");
        let event = about(&bed.place, "93.184.216.41:80").unwrap();
        assert!(event["subject"]["pid"].is_null(), "{event}");
    }
}

#[test]
fn without_a_terminal_it_is_said_that_nobody_could_be_asked() {
    for place in people() {
        let bed = Bed::new(place);
        let fetch = "setsid curl -fsS -m 20 http://www.allowed.example/page; echo $?";
        for _again in 0..2 {
            let palisade = bed.palisade(&["--net-default", "ask"], fetch);
            // `setsid`, because the caller of the tests may have a terminal.
            let mut alone = bed.place.command("setsid");
            alone.arg("--wait").arg(palisade.get_program()).args(palisade.get_args());
            let run = job::finish(&mut alone);
            assert_ne!(run.ok(), "0");
            let said = "www.allowed.example:80 by curl: no rule allows it, and the user couldn't be asked: there is no terminal";
            assert!(run.err.contains(said), "{run:?}");
            assert!(run.err.contains("hint: palisade run --allow www.allowed.example:80 "), "{run:?}");
        }
        // The command of the hint works.
        let options = ["--net-default", "ask", "--allow", "www.allowed.example:80"];
        assert!(bed.sh(&options, "curl -fsS -m 20 http://www.allowed.example/page").ok().contains("/page"));
    }
}
