// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a sandbox without a network: a look-up is answered at once, and the user hears of it while the program runs.

use crate::support::{everybody, has, job};
use palisade_acceptance::patience::Patience;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

/// Lines that each look `$NAME` up by another resolver, print something, and end with another code than 0 if there is no
/// such name.
const LOOK_UP: [(&str, &str, &str); 5] = [
    (
        "glibc",
        "python3",
        "exec python3 -c 'import os, socket; socket.getaddrinfo(os.environ[\"NAME\"], 443)'",
    ),
    (
        "c-ares",
        "node",
        "exec node -e 'require(\"dns\").resolve4(process.env.NAME, e => process.exit(e ? 1 : 0))'",
    ),
    (
        "libuv",
        "node",
        "exec node -e 'require(\"dns\").lookup(process.env.NAME, e => process.exit(e ? 1 : 0))'",
    ),
    ("BIND", "host", "host -W 5 \"$NAME\" || exit 1"),
    ("curl", "curl", "exec curl -sS --max-time 20 \"https://$NAME/\""),
];

#[test]
fn each_resolver_is_answered_and_the_user_hears_of_the_name() {
    for place in everybody() {
        for (resolver, program, line) in LOOK_UP {
            let found = place.outside(&format!("command -v {program} || true"));
            if found.is_empty() {
                eprintln!("not tried: no {program} here");
                continue;
            }
            let name = format!("{}.example", resolver.to_lowercase());
            let mut palisade = place.palisade(&["--env", &format!("NAME={name}")], &["sh", "-c", line]);
            let run = job::finish(&mut palisade);
            assert_ne!(run.code, 0, "{resolver}: {run:?}");
            let refused = format!("palisade: refused: connect {name} by ");
            assert!(run.err.contains(&refused), "{resolver}: {run:?}");
            assert!(run.err.contains("the sandbox has no network (gateway)"), "{resolver}: {run:?}");
            let hint = format!("hint: palisade run --allow {name} …");
            assert!(run.err.contains(&hint), "{resolver}: {run:?}");
            // No other name is tried, such as one of a search list.
            let refusals = run.err.lines().filter(|line| line.contains("refused: connect")).count();
            assert_eq!(refusals, 1, "{resolver}: {run:?}");
        }
    }
}

/// The program waits for the test, which waits for the note.
#[test]
fn the_note_comes_while_the_program_runs() {
    for place in everybody() {
        let line = "getent hosts first.example; echo looked up; read word";
        let mut palisade = place.palisade(&[], &["sh", "-c", line]);
        let mut child =
            palisade.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut note = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut note).unwrap();
        assert!(note.contains("first.example by getent") && note.contains("--allow first.example"), "{note}");
        assert!(child.try_wait().unwrap().is_none(), "the program has ended");
        child.stdin.take().unwrap().write_all(b"on\n").unwrap();
        assert_eq!(job::code(job::bounded(&mut child)), 0);
    }
}

#[test]
fn addresses_are_unreachable_and_the_own_loopback_works() {
    for place in everybody() {
        let line = "import socket, errno\n\
                    for family, address in ((socket.AF_INET, '192.0.2.1'), (socket.AF_INET6, '2001:db8::1')):\n\
                    \x20   s = socket.socket(family, socket.SOCK_STREAM)\n\
                    \x20   print(errno.errorcode[s.connect_ex((address, 80))])\n\
                    own = socket.create_server(('127.0.0.1', 0))\n\
                    socket.create_connection(own.getsockname()).sendall(b'x')\n\
                    print(own.accept()[0].recv(1), socket.gethostbyname('localhost'))\n";
        let run = place.run(&[], &["python3", "-c", line]);
        assert_eq!(run.ok(), "ENETUNREACH\nENETUNREACH\nb'x' 127.0.0.1", "{run:?}");
        // A name of the host's own file.
        place.run(&[], &["getent", "hosts", "localhost"]).ok();
    }
}

#[test]
fn who_is_quiet_is_told_nothing_and_the_event_is_kept() {
    for place in everybody() {
        let run = place.run(&["-q"], &["getent", "hosts", "quiet.example"]);
        assert_eq!((run.code, run.err.as_str()), (2, ""), "{run:?}");
        let events =
            place.outside(&format!("'{}' watch --since 1h --no-follow --json", place.binary().display()));
        assert!(events.contains("quiet.example"), "{events}");
    }
}

#[test]
fn tools_are_told_not_to_try_again_where_there_is_no_network_only() {
    const RETRIES: &str = "env | grep -c -e '^PIP_RETRIES=0$' -e '^npm_config_fetch_retries=0$'; true";
    for place in everybody() {
        for (options, told) in [
            (&[][..], "2"),
            (&["--net", "host"], "0"),
            (&["--allow", "a.example"], "0"),
            (&["--namespaces", "none"], "0"),
            (&["--env", "PIP_RETRIES=3"], "1"),
        ] {
            assert_eq!(place.sh(options, RETRIES).ok(), told, "{options:?}");
        }
        let plan = place.run(&["--dry-run"], &["true"]);
        assert!(plan.ok().contains("npm_config_fetch_retries=0"), "{plan:?}");
    }
}

/// It tried for 70 s before.
#[test]
fn npm_install_ends_and_says_what_it_lacks() {
    for place in everybody().iter().filter(|_| has("npm")) {
        place.write(
            "work/package.json",
            "{\"name\": \"x\", \"version\": \"1.0.0\", \"dependencies\": {\"y\": \"1\"}}",
        );
        let mut limit = Patience::new(Duration::from_secs(30));
        let run = place.run(&[], &["npm", "install"]);
        assert!(!limit.is_spent(), "{run:?}");
        assert_ne!(run.code, 0, "{run:?}");
        assert!(run.err.contains("palisade run --allow registry.npmjs.org …"), "{run:?}");
        assert!(run.err.contains("ENOTFOUND"), "{run:?}");
    }
}

#[test]
fn the_gateway_is_gone_with_the_command() {
    for place in everybody() {
        place.sh(&[], "getent hosts a.example; getent hosts b.example; true").ok();
        place.assert_all_dead();
    }
}
