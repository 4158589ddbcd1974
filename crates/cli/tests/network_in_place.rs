// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a filtered network without namespaces: the broker has the gateway make each connection.

use crate::network;
use crate::network::bed::{Bed, people};
use crate::support::job::finish;

const IN_PLACE: [&str; 2] = ["--namespaces", "none"];

fn options<'o>(more: &[&'o str]) -> Vec<&'o str> {
    [&IN_PLACE, &["--allow", "*.allowed.example"], more].concat()
}

#[test]
fn names_decide() {
    network::names_decide(&IN_PLACE);
    network::names_decide(&["--namespaces", "none", "--protect", "off"]);
}

#[test]
fn attacks_reach_nobody() {
    network::nobody_is_reached(&IN_PLACE);
}

#[test]
fn everything_is_refused_after_the_gateway() {
    network::everything_is_refused_after_the_gateway(&IN_PLACE);
}

/// Ways around the gateway that only a command in the host's network could go.
#[test]
fn ways_around_the_gateway_are_shut() {
    for place in people() {
        let bed = Bed::new(place);
        let around = bed.place.write("work/around.py", include_str!("network/around.py"));
        // A connected socket is passed in as standard input.
        let line =
            format!("exec 0<>/dev/tcp/93.184.216.34/80; exec timeout 60 $P python3 {}", around.display());
        let outside = bed.outside_bash(&line.replace("$P ", ""));
        for way in [
            "fast open by sendto",
            "fast open by sendmsg",
            "fast open by sendmmsg",
            "opened udp",
            "opened unix",
            "opened netlink",
            "bind and listen",
            "listen",
            "passed in, connected elsewhere",
        ] {
            assert!(outside.out.lines().any(|line| line.starts_with(way)), "{way}: {outside:?}");
        }
        bed.reached();
        for more in [&[][..], &["--protect", "off"]] {
            let options = options(more).join(" ");
            let palisade = format!("{} run {options} --", bed.place.binary().display());
            let inside = bed.outside_bash(&line.replace("$P", &palisade));
            assert_eq!(inside.out, "done\n", "{more:?}: {inside:?}");
            let seen = bed.reached();
            let bad = seen.iter().find(|line| line.contains("93.184.216.40") || line.contains("race"));
            assert_eq!(bad, None, "{more:?}");
        }
    }
}

/// Clients of every kind: several connections at once, waiting or not, with and without a proxy.
#[test]
fn clients_see_an_ordinary_connection() {
    let script = r#"
import asyncio, os, select, socket, fcntl
host, page = "www.allowed.example", b"GET /p HTTP/1.1\r\nHost: www.allowed.example\r\nConnection: close\r\n\r\n"
def all_of(s):
    got = b""
    while True:
        part = s.recv(9999)
        if not part: return got
        got += part
# Not blocking: the result comes at once or by poll.
s = socket.socket(); s.setblocking(False)
code = s.connect_ex((socket.gethostbyname(host), 80))
select.select([], [s], [], 9)
print("nonblocking", code, s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), s.getblocking(), fcntl.fcntl(s, fcntl.F_GETFD))
try: s.connect((socket.gethostbyname(host), 80)); print("connected twice")
except OSError as error: print(error.errno)
s.setblocking(True); s.sendall(page); print(all_of(s).endswith(b"/p 0\n"))
# Inheritable, by IPv6, and with a time limit.
s = socket.socket(socket.AF_INET6); os.set_inheritable(s.fileno(), True); s.settimeout(9)
print(socket.getaddrinfo(host, 80, socket.AF_INET6, socket.SOCK_STREAM)[0][4][0].startswith("fd"))
s.connect(socket.getaddrinfo(host, 80, socket.AF_INET6, socket.SOCK_STREAM)[0][4])
print(fcntl.fcntl(s, fcntl.F_GETFD), s.family == socket.AF_INET6, len(s.getsockname()))
s.sendall(page); print(all_of(s).endswith(b"/p 0\n"))
async def one():
    reader, writer = await asyncio.open_connection(host, 80)
    writer.write(page); got = await reader.read(); writer.close()
    return got.endswith(b"/p 0\n")
async def many(): return sum(await asyncio.gather(*(one() for _ in range(100))))
print(asyncio.run(many()))
for wrong in [-1, 99]:
    try: socket.socket(fileno=wrong)
    except (OSError, ValueError): pass
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(fd, bytes): return libc.connect(fd, bytes, len(bytes)), ctypes.get_errno()
s = socket.socket()
print(call(-1, bytes(16)), call(999, bytes(16)), call(os.open("/dev/null", os.O_RDONLY), b"\2\0" + bytes(14)), call(s.fileno(), b"\2\0"),
      call(s.fileno(), b"\1\0/x"), call(s.fileno(), bytes(200)), (libc.connect(s.fileno(), None, 16), ctypes.get_errno()))
"#;
    for place in people() {
        let bed = Bed::new(place);
        let script = bed.place.write("work/clients.py", script);
        let line = format!("python3 {}", script.display());
        let run = bed.sh(&options(&[]), &line);
        assert_eq!(
            run.ok(),
            "nonblocking 0 0 False 1\n106\nTrue\nTrue\n0 True 4\nTrue\n100\n\
             (-1, 9) (-1, 9) (-1, 88) (-1, 22) (-1, 97) (-1, 22) (-1, 14)",
            "{run:?}"
        );
    }
}

/// Ports of the host can be reached, and none lead inside.
#[test]
fn ports_are_reached_and_none_is_published() {
    for place in people() {
        let bed = Bed::new(place);
        let fetch = "curl -sS -m 8 --noproxy '*' http://127.0.0.1:80/own";
        let run = bed.sh(&[&IN_PLACE[..], &["--reach", "80"]].concat(), fetch);
        assert_eq!(run.ok(), "http 127.0.0.1 GET /own 0", "{run:?}");
        // By the proxy, too, and no other port.
        let ask = "curl -fsS -m 8 --noproxy '' -px http://127.0.0.1:1023 http://127.0.0.1:80/own";
        let run = bed.sh(&[&IN_PLACE[..], &["--reach", "80"]].concat(), ask);
        assert_eq!(run.ok(), "http 127.0.0.1 GET /own 0", "{run:?}");
        let run = bed.sh(&[&IN_PLACE[..], &["--reach", "7"]].concat(), ask);
        assert!(run.code != 0 && run.out.is_empty(), "{run:?}");
        let run = bed.sh(&options(&[]), fetch);
        assert_ne!(run.code, 0, "{run:?}");
        assert!(run.err.contains("hint: palisade run --allow 127.0.0.1"), "{run:?}");
        let run = bed.sh(&[&IN_PLACE[..], &["--publish", "18081:8000"]].concat(), "echo started");
        assert_eq!(run.out, "");
        run.refused(125, &["without a network namespace every port is the host's"]).with_hint();
    }
}

/// As in a container with Docker's default profile, which refuses `pidfd_getfd`.
#[test]
fn a_container_permits_it() {
    for place in people() {
        let bed = Bed::new(place);
        let filter = bed.place.write("contained.py", include_str!("without_namespaces/contained.py"));
        let palisade = bed.place.binary().display().to_string();
        let fetch = "curl -fsS -m 8 --noproxy '*' http://$1/page";
        let line = format!(
            "for name in www.allowed.example denied.example; do {palisade} run --best-effort --require hosts-filtered \
             --allow '*.allowed.example' --status-fd 3 -- sh -c '{fetch}' sh $name 3>status; echo $?; done; cat status"
        );
        let line = bed.place.write("line.sh", line);
        let mut command = bed.command("python3");
        let run = finish(command.arg(filter).arg("sh").arg(line));
        assert!(run.out.starts_with("http www.allowed.example GET /page 0\n0\n22\n"), "{run:?}");
        assert!(run.out.contains(r#""hosts-filtered":"connections made by the gateway""#), "{run:?}");
        assert!(run.err.contains("hint: palisade run --allow denied.example"), "{run:?}");
        assert!(!bed.reached().iter().any(|line| line.contains("denied")));
    }
}
