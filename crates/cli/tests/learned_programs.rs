// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests real programs whose calls are learned in one run and enforced in the next. They do the same work, and a call that
//! none of them made is refused.

use crate::support::{self, Place, Run, everybody, go, has, job};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

/// A program, what the machine needs for it, a line of shell that puts it to work, and what that prints.
struct Job {
    name: &'static str,
    needs: &'static str,
    line: &'static str,
    out: &'static str,
    /// Calls that depend on how busy the machine is.
    allowed: &'static [&'static str],
}

const JOBS: [Job; 9] = [
    Job {
        name: "python3",
        needs: "python3",
        line: "/usr/bin/python3 -c 'import threading, subprocess, socket, sqlite3, json\n\
               a, b = socket.socketpair(); t = threading.Thread(target=lambda: b.send(b.recv(9).upper())); t.start()\n\
               a.send(b\"word\"); print(a.recv(9).decode()); t.join()\n\
               print(subprocess.run([\"echo\", \"child\"], capture_output=True).stdout.decode(), end=\"\")\n\
               d = sqlite3.connect(\"d.db\"); d.execute(\"create table if not exists t(a)\"); d.commit(); print(json.dumps([1]))'",
        out: "WORD\nchild\n[1]\n",
        allowed: &[],
    },
    Job {
        name: "node",
        needs: "node",
        line: "node -e 'const fs = require(\"fs\"); fs.writeFileSync(\"n\", \"1\"); \
               const { Worker } = require(\"worker_threads\"); \
               new Worker(\"require(\\\"worker_threads\\\").parentPort.postMessage(6*7)\", {eval: true}).on(\"message\", m => { \
               console.log(m); console.log(require(\"child_process\").execSync(\"cat n\") + \"\") })'",
        out: "42\n1\n",
        allowed: &[],
    },
    Job {
        name: "java",
        needs: "java",
        line: "printf '%s' 'public class J { public static void main(String[] a) throws Exception { \
               Thread t = new Thread(() -> System.out.println(\"thread\")); t.start(); t.join(); \
               System.out.println(java.nio.file.Files.readAllLines(java.nio.file.Path.of(\"J.java\")).size()); } }' >J.java; java J.java",
        out: "thread\n1\n",
        allowed: &[],
    },
    Job { name: "go", needs: "go", line: "./static", out: "10\n", allowed: &[] },
    Job {
        name: "sqlite3",
        needs: "sqlite3",
        line: "sqlite3 s.db 'create table if not exists t(a); insert into t values(1); select count(*) > 0 from t;'",
        out: "1\n",
        allowed: &[],
    },
    Job {
        name: "gcc",
        needs: "gcc",
        line: "echo 'int puts(const char *); int main(void) { puts(\"compiled\"); return 0; }' >c.c; gcc -o c c.c && ./c",
        out: "compiled\n",
        allowed: &[],
    },
    Job {
        name: "nginx",
        needs: "nginx",
        line: "printf '%s' 'daemon off; pid /tmp/pid; error_log stderr; events { worker_connections 64; } \
               http { access_log off; client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; \
               fastcgi_temp_path /tmp/fastcgi; uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi; \
               server { listen 127.0.0.1:8080; location / { return 200 \"served\\n\"; } } }' >n.conf; \
               test $(id -u) = 0 && echo 'master_process off; user root root;' >>n.conf; \
               nginx -c $PWD/n.conf -e stderr & \
               for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.2; curl -fsS http://127.0.0.1:8080/ 2>/dev/null && break; done; \
               kill $!; wait",
        out: "served\n",
        allowed: &[],
    },
    Job {
        name: "redis-server",
        needs: "redis",
        line: "redis-server --port 7777 --save '' --dir /tmp >/dev/null & \
               for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.2; redis-cli -p 7777 set a b 2>/dev/null && break; done; \
               redis-cli -p 7777 get a; redis-cli -p 7777 shutdown; wait",
        out: "OK\nb\n",
        // Of a connection that isn't there at once.
        allowed: &["poll", "getsockopt"],
    },
    Job {
        name: "git",
        needs: "git",
        line: "rm -rf r; git init -q r && cd r && git config user.name a && git config user.email b@c && echo a >f && git add f && \
               git commit -qm m && git log --format=%s",
        out: "m\n",
        allowed: &[],
    },
];

fn run(place: &Place, name: &str, mode: &[&str], line: &str) -> Run {
    let mut command = place.command(place.binary());
    job::finish(command.args(["run", "--profile", name, "--net", "none"]).args(mode).args(["-c", line]))
}

#[test]
fn what_programs_did_once_they_may_do_again() {
    let mut tried = 0;
    for place in everybody() {
        for Job { name, needs, line, out, allowed } in JOBS {
            if !has(needs) {
                continue;
            }
            if name == "go" {
                let program = place.write("work/static", static_go());
                std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
            }
            let profile = format!(".config/palisade/profiles/{name}.toml");
            place
                .write(&profile, format!("schema = 1\nname = \"{name}\"\n[syscalls]\nallow = {allowed:?}\n"));
            let outside = place.outside(line);
            assert_eq!(outside, out, "{name} outside");
            // Twice: what happens once only, when its files aren't there yet, and what happens ever after.
            for _time in 0..2 {
                let learned = run(&place, name, &["--syscalls", "learn"], line);
                assert_eq!((learned.code, learned.out.as_str()), (0, out), "{name}: {learned:?}");
            }
            for refusal in ["errno", "kill"] {
                let mode = ["--syscalls", "enforce", "--syscall-refusal", refusal];
                let enforced = run(&place, name, &mode, line);
                assert_eq!((enforced.code, enforced.out.as_str()), (0, out), "{name}: {enforced:?}");
                assert!(!enforced.err.contains(": syscall"), "{name}: {enforced:?}");
                let other = "nice -n 5 true; sync -f /tmp";
                place.outside(other);
                let refused = run(&place, name, &mode, other);
                for (call, program) in [("getpriority", "/nice"), ("syncfs", "/sync")] {
                    let told = |line: &str| {
                        line.contains(&format!(": syscall {call} by "))
                            && line.contains(&format!("{program}: it wasn't learned for programs of {name}"))
                    };
                    assert!(refused.err.lines().any(told), "{name}: {call}: {refused:?}");
                }
            }
            tried += 1;
        }
        place.assert_all_dead();
    }
    assert!(tried >= 2, "too few programs are here: {tried}");
}

/// A static program whose threads are interrupted all the time.
fn static_go() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        go::built(
            "package main\nimport (\"fmt\"; \"sync\"; \"os\")\n\
             func main() { var g sync.WaitGroup; var m sync.Mutex; n := 0\n\
             for i := 0; i < 10; i++ { g.Add(1); go func() { defer g.Done(); for j := 0; j < 200; j++ { os.Getwd(); os.ReadFile(\"/etc/hostname\") }; m.Lock(); n++; m.Unlock() }() }\n\
             g.Wait(); fmt.Println(n) }\n",
        )
    })
}

/// A browser with its own sandbox, and with its own filters in most of its processes. Which calls its threads make depends
/// on timing, so it learns until a run makes no new call. The browser doesn't start as root.
#[test]
fn a_browser_does_again_what_it_did() {
    if !has("chromium") {
        return;
    }
    const PAGE: &str = "<html><body><p id=\"a\">1</p><script>\
                        document.getElementById(\"a\").textContent = 6 * 7</script></body></html>";
    const LINE: &str = "chromium --headless --disable-gpu --user-data-dir=/tmp/browser --dump-dom \"file://$PWD/page.html\" 2>errors";
    let place = support::ordinary();
    place.write("work/page.html", PAGE);
    let profile = "schema = 1\nname = \"browser\"\nfeatures = [\"browser-sandbox\"]\n";
    place.write(".config/palisade/profiles/browser.toml", profile);
    let worked = |run: &Run| {
        assert!(run.out.contains("<p id=\"a\">42</p>") && run.code == 0, "{run:?}");
    };
    let again = |_: &u32| {
        worked(&run(&place, "browser", &["--syscalls", "learn"], LINE));
        let enforced = run(&place, "browser", &["--syscalls", "enforce"], LINE);
        if enforced.err.contains(": syscall") {
            return false;
        }
        worked(&enforced);
        true
    };
    assert!((0..8).any(|time| again(&time)), "there is always one call more");
    let other = "nice -n 5 true; sync -f /tmp";
    let refused = run(&place, "browser", &["--syscalls", "enforce", "--syscall-refusal", "kill"], other);
    let told = |line: &str| {
        line.contains(": syscall syncfs by ") && line.contains("/sync: it wasn't learned for programs")
    };
    assert!(refused.err.lines().any(told), "{refused:?}");
    place.assert_all_dead();
}

/// What an application's own filter refuses isn't learned, and its filter goes on working in every mode.
#[test]
fn an_applications_own_filter_keeps_working() {
    for place in everybody() {
        // The program's own filter refuses getpriority with 7 (E2BIG), as the filters of Chromium do.
        let line = "import ctypes, os, platform, struct\n\
                    libc = ctypes.CDLL(None, use_errno=True)\n\
                    number = {'x86_64': 140, 'aarch64': 141}[platform.machine()]\n\
                    code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, 0x50007), (6, 0, 0, 0x7fff0000)]\n\
                    program = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *i) for i in code))\n\
                    libc.prctl(38, 1, 0, 0, 0)\n\
                    f = ctypes.create_string_buffer(struct.pack('HxxxxxxQ', len(code), ctypes.addressof(program)))\n\
                    print(libc.prctl(22, 2, f, 0, 0))\n\
                    try: os.getpriority(0, 0)\n\
                    except OSError as e: print('its own', e.errno)\n\
                    print(os.sched_rr_get_interval(0) >= 0)\n";
        place.write(".config/palisade/profiles/own.toml", "schema = 1\nname = \"own\"\n");
        place.write("work/own.py", line);
        for mode in ["learn", "enforce"] {
            let run = run(&place, "own", &["--syscalls", mode], "python3 own.py");
            assert_eq!(run.ok(), "0\nits own 7\nTrue", "{mode}: {run:?}");
        }
        let refused =
            run(&place, "own", &["--syscalls", "enforce"], "python3 -c 'import os; os.getpriority(0, 0)'");
        assert!(
            refused.err.contains("refused: syscall getpriority"),
            "what was refused wasn't learned: {refused:?}"
        );
    }
}
