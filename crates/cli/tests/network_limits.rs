// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a filtered network when something is missing or at its limit: nftables, descriptors, the record of events.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::network::bed::{Bed, people};
use crate::support::{Place, Run, eventually, job};
#[allow(dead_code, reason = "each test file uses a part of it")]
use palisade_acceptance::patience::Patience;
use rustix::process::Pid;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ALLOW: [&str; 2] = ["--allow", "*.allowed.example"];
const FETCH: &str = "curl -fsS -m 20";
const DIRECT: &str = "curl -fsS -m 20 --noproxy '*'";

/// The same command as on a kernel without nf_tables.
fn without_nftables(bed: &Bed, command: &Command) -> Run {
    let script = bed.place.write("without_nftables.py", include_str!("network/without_nftables.py"));
    let mut words: Vec<_> = command.get_args().map(ToOwned::to_owned).collect();
    let palisade = words.iter().position(|word| word == bed.place.binary()).unwrap();
    words.splice(palisade..palisade, ["python3".into(), script.into()]);
    let mut whole = bed.place.command(command.get_program());
    job::finish(whole.args(words))
}

#[test]
fn without_nftables_only_programs_that_use_a_proxy_get_anywhere() {
    for place in people() {
        let bed = Bed::new(place);
        let ca = "--cacert $CA";
        let line = format!(
            "{FETCH} http://www.allowed.example/1; {FETCH} {ca} https://www.allowed.example/2; \
             for how in \"$NOT\" \"$NAMED\" \"$ADDRESS\" \"$SIX\"; do {DIRECT} $how; echo $?; done; \
             {FETCH} http://denied.example/; echo $?; {FETCH} http://10.9.8.7/; echo $?"
        );
        let variables = "NOT=http://denied.example/3 NAMED=http://www.allowed.example/4 \
                         ADDRESS=http://93.184.216.34/5 SIX=http://[2606:2800:220:1::34]/6";
        let line = format!("export {variables}; {line}");
        let run = without_nftables(&bed, &bed.palisade(&ALLOW, &line));
        let first = "http www.allowed.example GET /1 0\nhttps www.allowed.example GET /2 0\n";
        let codes: Vec<&str> =
            run.out.strip_prefix(first).unwrap_or_else(|| panic!("{run:?}")).lines().collect();
        // curl's codes: no such name; no connection (three times); errors from the proxy.
        assert_eq!(codes, ["6", "7", "7", "7", "22", "22"], "{run:?}");
        assert!(run.err.contains("only programs that use a proxy reach the network"), "{run:?}");
        assert!(run.err.contains("(nftables: "), "{run:?}");
        assert!(run.err.contains("palisade run --allow denied.example"), "{run:?}");
        let seen = bed.reached();
        let beyond = |line: &&String| {
            ["/3", "/4", "/5", "/6", ".216.40", "10.9.8.7"].iter().any(|word| line.contains(word))
        };
        assert_eq!(seen.iter().find(beyond), None, "{seen:?}");
        // The same with nftables: so it is this that makes the difference.
        let run = bed.sh(&ALLOW, &format!("{DIRECT} http://www.allowed.example/4"));
        assert_eq!(
            (run.out.as_str(), run.err.as_str()),
            ("http www.allowed.example GET /4 0\n", ""),
            "{run:?}"
        );
        let mut doctor = bed.command(bed.place.binary());
        let said = |run: Run| {
            let from = run.out.find("only allowed hosts are reached").unwrap_or_else(|| panic!("{run:?}"));
            run.out[from..].lines().take(3).collect::<Vec<_>>().join("\n")
        };
        let doctor = doctor.arg("doctor");
        let without = said(without_nftables(&bed, doctor));
        assert!(
            without.contains("only programs that use a proxy") && without.contains("needs nftables"),
            "{without}"
        );
        assert!(!said(job::finish(doctor)).contains("needs nftables"));
    }
}

/// Opens a given number of connections, waits for all of them, and prints how many were answered, how many were refused,
/// and how many got no answer. Then it opens one more.
const MANY: &str = r#"
import select, socket, sys, time, os
def connect():
    s = socket.create_connection(("www.allowed.example", 7), timeout=20)
    s.sendall(b"hello\n")
    return s
first = connect()
assert first.recv(6) == b"hello\n"
open("asked", "w").close()
while not os.path.exists("limited"): time.sleep(0.01)
waiting, answered, refused = [], [], 0
for _ in range(60):
    try: waiting.append(connect())
    except OSError: refused += 1
begun = time.monotonic()
while waiting and time.monotonic() - begun < 15:
    for s in select.select(waiting, [], [], 0.2)[0]:
        waiting.remove(s)
        try: said = s.recv(6)
        except OSError: said = b""
        if said: answered.append(s)
        else: refused += 1
print(len(answered), refused, len(waiting), flush=True)
for s in answered + waiting: s.close()
until = time.monotonic() + 15
while True:
    try:
        s = connect()
        s.settimeout(2)
        if s.recv(6) == b"hello\n": break
    except OSError: pass
    assert time.monotonic() < until, "it doesn't recover"
    time.sleep(0.1)
print("again", first.send(b"there\n"), first.recv(6))
"#;

/// The process that serves the network of a launch.
fn server_of(bed: &Bed, launcher: &Child) -> Pid {
    let found = bed.place.outside(&format!("pgrep -P {} palisade-net", launcher.id()));
    Pid::from_raw(found.trim().parse().unwrap()).unwrap()
}

/// The user or group with whose rights a process runs.
fn owner(process: std::num::NonZeroI32, key: &str) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn without_descriptors_who_comes_is_refused_and_later_served_again() {
    if !rustix::process::geteuid().is_root() {
        eprintln!(
            "not tried: only root sees which descriptors a server has; root's run tries it as an ordinary user, too"
        );
        return;
    }
    for place in people() {
        let bed = Bed::new(place);
        bed.place.write("work/many.py", MANY);
        let mut palisade = bed.palisade(&ALLOW, "exec python3 many.py");
        let child = palisade.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let asked = bed.place.work.join("asked");
        assert!(eventually(|| asked.exists()));
        let server = server_of(&bed, &child);
        let open = std::fs::read_dir(format!("/proc/{server}/fd", server = server.as_raw_nonzero()))
            .unwrap()
            .count();
        // Room for some connections, of two descriptors each. Root's gateway runs as another user.
        let limit = open + 21;
        let server = server.as_raw_nonzero();
        let (who, group) = (owner(server, "Uid:"), owner(server, "Gid:"));
        let lowered = Command::new("setpriv")
            .args([&format!("--reuid={who}"), &format!("--regid={group}"), "--keep-groups", "prlimit"])
            .args([format!("--pid={server}"), format!("--nofile={limit}:{limit}")])
            .status();
        assert!(lowered.unwrap().success());
        bed.place.write("work/limited", "");
        let run = job::wait(child);
        assert_eq!(run.code, 0, "{run:?}");
        let mut lines = run.out.lines();
        let counts: Vec<u32> = lines.next().unwrap().split(' ').map(|count| count.parse().unwrap()).collect();
        let [answered, refused, waiting] = counts[..] else { panic!("{run:?}") };
        assert!((5..=11).contains(&answered), "{run:?}");
        assert_eq!((waiting, answered + refused), (0, 60), "nobody is left waiting: {run:?}");
        assert_eq!(lines.next(), Some("again 6 b'there\\n'"), "{run:?}");
        assert!(
            run.err.contains("Too many open files") || run.err.contains("No file descriptors"),
            "{run:?}"
        );
        let watched = format!("{} watch --all --no-follow --json", bed.place.binary().display());
        let watched = bed.place.outside(&watched);
        assert!(watched.contains("can't accept connections for now: "), "{watched}");
    }
}

/// What a network does while its events can't be recorded: as always.
const WORK: &str = "curl -fsS -m 20 http://www.allowed.example/1; curl -fsS -m 20 http://denied.example/; \
                    curl -fsS -m 20 http://www.allowed.example/2";
const WORKED: &str = "http www.allowed.example GET /1 0\nhttp www.allowed.example GET /2 0\n";

#[test]
fn a_locked_record_stops_nobody() {
    for place in people() {
        let bed = Bed::new(place);
        assert_eq!(bed.sh(&ALLOW, WORK).out, WORKED);
        let store = bed.place.home.join(".local/state/palisade/events.sqlite");
        let hold = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); \
                    c.execute('BEGIN EXCLUSIVE'); print('held', flush=True); sys.stdin.read()";
        let mut holder = bed.place.command("python3");
        holder.args(["-c", hold]).arg(&store).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut held = [0; 5];
        std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut held).unwrap();
        assert_eq!(&held, b"held\n");
        let mut patience = Patience::new(Duration::from_secs(15));
        let run = bed.sh(&ALLOW, WORK);
        assert!(!patience.is_spent(), "{run:?}");
        assert_eq!(run.out, WORKED, "{run:?}");
        assert!(
            run.err.contains("refusals aren't recorded") && run.err.contains("kept busy by another process"),
            "{run:?}"
        );
        assert!(run.err.contains("refused: connect denied.example"), "it is said all the same: {run:?}");
        drop(holder.stdin.take());
        holder.wait().unwrap();
        let run = bed.sh(&ALLOW, WORK);
        assert!(run.out == WORKED && !run.err.contains("aren't recorded"), "{run:?}");
    }
}

#[test]
fn a_full_disk_stops_nobody() {
    for place in people().into_iter().filter(Place::is_root) {
        let bed = Bed::new(place);
        let state = bed.place.home.join(".local/state/palisade");
        let fill = format!(
            "mkdir -p {0} && mount -t tmpfs -o size=1m,mode=700 none {0} && ! head -c 2M /dev/zero >{0}/filled 2>/dev/null",
            state.display()
        );
        bed.outside(&fill).ok();
        let run = bed.sh(&ALLOW, WORK);
        assert_eq!(run.out, WORKED, "{run:?}");
        assert!(run.err.contains("refusals aren't recorded"), "{run:?}");
        assert!(run.err.contains("refused: connect denied.example"), "{run:?}");
        bed.outside(&format!("rm {}/filled", state.display())).ok();
        let run = bed.sh(&ALLOW, WORK);
        assert!(run.out == WORKED && !run.err.contains("aren't recorded"), "{run:?}");
    }
}
