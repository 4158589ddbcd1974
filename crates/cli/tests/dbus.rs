// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Message buses behind a filter: what gets through, what doesn't, and when the filter comes and goes.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that can't go on should panic, in its small functions too"
)]

mod support;
#[path = "dbus/world.rs"]
mod world;

use std::io::{BufRead, BufReader, Write};
use std::process::Child;
use std::time::{Duration, Instant};
use support::{Place, eventually, everybody, has, job};
use world::{Process, World};

/// What every conversation in Python begins with.
const PRELUDE: &str = "
import dbus, os, socket, sys
def echo(bus=None, name='org.example.Echo'):
    return dbus.Interface((bus or dbus.SessionBus()).get_object(name, '/org/example/Echo', introspect=False), 'org.example.Echo')
def tried(what):
    try: return str(what())
    except dbus.DBusException as error: return error.get_dbus_name().rsplit('.', 1)[1]
    except OSError as error: return type(error).__name__
";

fn python(program: &str) -> String {
    format!("{PRELUDE}{program}")
}

/// Says a line to a child, and reads the line that it answers.
fn ask(child: &mut Child, output: &mut impl BufRead, line: &str) -> String {
    writeln!(child.stdin.as_mut().unwrap(), "{line}").unwrap();
    let mut answer = String::new();
    output.read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

fn output_of(child: &mut Child) -> BufReader<std::process::ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

/// Does what it is asked for, line by line.
const OBEDIENT: &str = "
for line in sys.stdin:
    print(tried(lambda: eval(line)), flush=True)
";

#[test]
fn names_are_talked_to_seen_and_owned_as_the_policy_says() {
    if !has("dbus") {
        return;
    }
    let program = python(
        "
print(tried(lambda: echo().Say('hello')))
print(tried(lambda: echo(name='org.example.Hidden').Say('hidden')))
print(sorted(str(name) for name in dbus.SessionBus().list_names() if name.startswith('org.example')))
print(tried(lambda: dbus.SessionBus().request_name('org.example.Own.Sub')))
print(tried(lambda: dbus.SessionBus().request_name('org.example.Other')))
",
    );
    for place in everybody() {
        let world = World::new(&place);
        let run = world.python_outside(&program);
        assert_eq!(run.ok(), "hello\nhidden\n['org.example.Echo', 'org.example.Hidden']\n1\n1", "outside");
        let options = ["--talk", "org.example.Echo", "--own", "org.example.Own.*"];
        let run = world.python(&options, &program);
        assert_eq!(run.ok(), "hello\nServiceUnknown\n['org.example.Echo']\n1\nServiceUnknown", "{run:?}");
        // A name that is seen isn't talked to.
        let run = world.python(&["--see", "org.example.Echo"], &program);
        assert!(run.ok().starts_with("AccessDenied\nServiceUnknown\n['org.example.Echo']\n"), "{run:?}");
        // By default there is no bus at all.
        let run = world.python(&[], &python("print(os.environ.get('DBUS_SESSION_BUS_ADDRESS'))"));
        assert_eq!(run.ok(), "None");
        world.end();
    }
}

#[test]
fn single_methods_are_allowed_and_nobody_listens_in() {
    if !has("dbus") {
        return;
    }
    let program = python(
        "
print(tried(lambda: echo().Say('hello')))
print(tried(lambda: echo().Secret()))
driver = dbus.Interface(dbus.SessionBus().get_object('org.freedesktop.DBus', '/org/freedesktop/DBus'), 'org.freedesktop.DBus')
print(tried(lambda: driver.AddMatch(\"eavesdrop='true'\")))
monitoring = dbus.Interface(driver.proxy_object, 'org.freedesktop.DBus.Monitoring')
print(tried(lambda: monitoring.BecomeMonitor(dbus.Array([], signature='s'), dbus.UInt32(0))))
",
    );
    for place in everybody() {
        let world = World::new(&place);
        place.write(
            ".config/palisade/profiles/app.toml",
            "schema = 1\nname = \"app\"\n[program]\npath = \"/usr/bin/python3\"\n[filesystem]\nview = \"system\"\n\
             [dbus]\ncall = [\"org.example.Echo=org.example.Echo.Say@/org/example/*\"]\n\
             system_call = [\"org.example.Echo=org.example.Echo.Say@/*\"]\n",
        );
        assert_eq!(world.python_outside(&program).ok(), "hello\nNone\nNone\nNone", "outside");
        let secrets = || world.notes().iter().filter(|note| *note == "secret").count();
        assert_eq!(secrets(), 1);
        for _cold_and_hot in 0..2 {
            let run = world.open(&["app", "-c", &program]);
            assert_eq!(run.ok(), "hello\nAccessDenied\nAccessDenied\nAccessDenied", "{run:?}");
        }
        let program = python(
            "
print(tried(lambda: echo(dbus.SystemBus()).Say('system')))
print(tried(lambda: echo(dbus.SystemBus()).Secret()))
print(tried(lambda: echo().Say('session')))
",
        );
        let run = world.open(&["app", "-c", &program]);
        assert_eq!(run.ok(), "system\nAccessDenied\nsession", "{run:?}");
        assert_eq!(secrets(), 1, "nothing of it arrived");
        world.end();
    }
}

/// Every way to the real sockets works outside, and none inside.
#[test]
fn the_real_buses_are_out_of_reach() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let mut world = World::new(&place);
        let name = format!("/tmp/{}", place.mark);
        world.start_daemon("hidden", &format!("unix:abstract={name}"));
        let hidden = || job::finish(world.command("grep").args(["-q", &name, "/proc/net/unix"])).code == 0;
        assert!(eventually(hidden));
        let (session, system) = (world.socket("session"), world.socket("system"));
        let (session, system) = (session.to_str().unwrap(), system.to_str().unwrap());
        let daemon = Process::descendants(std::process::id());
        let daemon = daemon.iter().find(|process| process.name == "dbus-daemon").unwrap().pid;
        let program = python(&format!(
            "
def reach(address):
    # Also where there is a bus: is it the real one?
    return echo(dbus.bus.BusConnection(address), 'org.example.Hidden').Say('reached')
for path in ('{session}', '{system}', '/proc/self/root{session}', '/proc/{daemon}/root{session}', '/proc/1/root{session}', '/proc/self/cwd/../run/bus'):
    print(tried(lambda: reach('unix:path=' + path)))
def reach_abstract():
    with socket.socket(socket.AF_UNIX) as client: client.connect('\\0{name}')
    return 'reached'
print(tried(reach_abstract))
print(tried(lambda: echo().Say('hello')))
"
        ));
        let run = world.python_outside(&program);
        let reached = run.ok().lines().filter(|line| *line == "reached").count();
        // Others' roots are root's to look into.
        assert!(reached >= 5 && run.ok().ends_with("hello"), "outside: {run:?}");
        let directory = place.home.join("run");
        let directory = directory.to_str().unwrap();
        let shown: [&[&str]; 4] = [
            &["--talk", "org.example.Echo"],
            &["--talk", "org.example.Echo", "--net", "host"],
            // Shown with everything else of its directory it isn't meant.
            &["--talk", "org.example.Echo", "--rw", directory],
            &["--talk", "org.example.Echo", "--rw", directory, "--protect", "off"],
        ];
        for options in shown {
            let run = world.python(options, &program);
            let reached: Vec<&str> = run.ok().lines().filter(|line| *line == "reached").collect();
            assert!(reached.is_empty(), "{options:?}: {run:?}");
            assert!(run.ok().ends_with("hello"), "{options:?}: {run:?}");
        }
        world.end();
    }
}

#[test]
fn a_sandbox_has_a_socket_of_its_own_and_the_host_has_none() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let program = python(
            "
print(echo().Say('one'))
names = sorted(os.listdir('/.palisade')), oct(os.stat('/.palisade').st_mode & 0o7777)
print(*names)
try: os.unlink('/.palisade/session-bus')
except OSError as error: print(type(error).__name__, error.errno)
sys.stdin.read()
",
        );
        let mut first = world.converse(&["--talk", "org.example.Echo"], &program);
        let mut output = output_of(&mut first);
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        assert_eq!([line(), line()], ["one", "['session-bus'] 0o755"]);
        assert_eq!(line(), "OSError 30", "it can't be replaced by another");
        let found = place
            .outside("ls -A run; find / -xdev -name 'session-bus*' 2>/dev/null | grep -v '^/proc' || true");
        assert_eq!(found, "", "nothing of it is the host's");
        // Another one sees neither it nor the process that serves it.
        let filter = Process::filters(first.id())[0].pid;
        let program = python(&format!(
            "print(tried(lambda: echo().Say('two')), os.path.exists('/proc/{filter}/root'), os.listdir('/.palisade'))"
        ));
        let run = world.python(&["--talk", "org.example.Hidden"], &program);
        assert_eq!(run.ok(), "ServiceUnknown False ['session-bus']");
        drop(first.stdin.take());
        assert!(job::bounded(&mut first).success());
        world.end();
    }
}

/// Nothing is started before somebody connects; and what is started then sees nothing but its work.
#[test]
fn the_filter_comes_with_the_first_connection_and_goes_with_the_launch() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let options = ["--talk", "org.example.Echo"];
        let mut launcher = world.converse(&options, &python(OBEDIENT));
        let mut output = output_of(&mut launcher);
        assert_eq!(ask(&mut launcher, &mut output, "1 + 1"), "2");
        let before = Process::descendants(launcher.id());
        assert!(!before.iter().any(|process| process.name.contains("dbus")), "{before:?}");
        assert_eq!(ask(&mut launcher, &mut output, "echo().Say('x')"), "x");
        let filters = Process::filters(launcher.id());
        assert_eq!(filters.len(), 1, "{:?}", Process::descendants(launcher.id()));
        for _again in 0..3 {
            let line = "echo(dbus.bus.BusConnection(os.environ['DBUS_SESSION_BUS_ADDRESS'])).Say('y')";
            assert_eq!(ask(&mut launcher, &mut output, line), "y");
        }
        assert_eq!(Process::filters(launcher.id()), filters, "one serves everybody");

        let root = format!("/proc/{}/root", filters[0].pid);
        let names = |directory: &str| {
            let mut names: Vec<String> = std::fs::read_dir(format!("{root}{directory}"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        };
        assert_eq!(names("/"), [".flatpak-info", "bus", "dev", "etc", "lib", "lib64", "usr"]);
        assert_eq!(names("/dev"), ["null"]);
        assert_eq!(names("/etc"), ["ld.so.cache"]);
        assert_eq!(names("/usr/bin"), ["xdg-dbus-proxy"]);
        let link = |kind: &str| {
            let of = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
            (of(filters[0].pid), of(std::process::id()))
        };
        for kind in ["user", "mnt", "pid", "net", "ipc", "uts"] {
            let (its, ours) = link(kind);
            assert_ne!(its, ours, "{kind}");
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", filters[0].pid)).unwrap();
        for line in ["Seccomp:\t2", "NoNewPrivs:\t1", "CapEff:\t0000000000000000"] {
            assert!(status.contains(line), "no {line:?} in {status}");
        }

        drop(launcher.stdin.take());
        assert!(job::bounded(&mut launcher).success());
        assert!(eventually(|| !filters[0].lives()), "it goes with the launch");
        world.end();
    }
}

#[test]
fn many_connect_at_once_before_anybody_is_there() {
    if !has("dbus") {
        return;
    }
    // Without waiting to be connected, all at once; then each says hello to the bus.
    let program = python(
        "
clients = []
for _ in range(COUNT):
    client = socket.socket(socket.AF_UNIX); client.setblocking(False)
    client.connect('/.palisade/session-bus'); clients.append(client)
for client in clients:
    client.setblocking(True); client.settimeout(20)
    client.sendall(b'\\0AUTH EXTERNAL ' + str(os.getuid()).encode().hex().encode() + b'\\r\\n')
print(sum(client.recv(200).startswith(b'OK ') for client in clients))
",
    );
    for place in everybody() {
        let world = World::new(&place);
        for count in ["1", "2", "50"] {
            let run = world.python(&["--talk", "org.example.Echo"], &program.replace("COUNT", count));
            assert_eq!(run.ok(), count, "{run:?}");
        }
        // And with everything: each of 50 threads has a connection, and talks.
        let program = python(
            "
import threading
said = []
def talk(nth):
    bus = dbus.bus.BusConnection(os.environ['DBUS_SESSION_BUS_ADDRESS'])
    said.append(int(echo(bus).Say(str(nth)))); bus.close()
threads = [threading.Thread(target=talk, args=(nth,)) for nth in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(sorted(said) == list(range(50)))
",
        );
        assert_eq!(world.python(&["--talk", "org.example.Echo"], &program).ok(), "True");
        world.end();
    }
}

#[test]
fn descriptors_pass_in_both_directions() {
    if !has("dbus") {
        return;
    }
    let program = python(
        "
reading, writing = os.pipe(); os.write(writing, b'taken')
print(echo().Take(dbus.types.UnixFd(reading)))
print(os.read(echo().Give().take(), 100).decode())
print(len(echo().Say('x' * 1000000)))
",
    );
    for place in everybody() {
        let world = World::new(&place);
        let run = world.python(&["--talk", "org.example.Echo"], &program);
        assert_eq!(run.ok(), "taken\ngiven\n1000000", "{run:?}");
    }
}

#[test]
fn a_filter_that_is_killed_is_followed_by_another() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let mut launcher = world.converse(&["--talk", "org.example.Echo"], &python(OBEDIENT));
        let mut output = output_of(&mut launcher);
        let line = "echo(dbus.bus.BusConnection(os.environ['DBUS_SESSION_BUS_ADDRESS'])).Say('x')";
        let mut known: Vec<Process> = Vec::new();
        for _twice in 0..2 {
            assert_eq!(ask(&mut launcher, &mut output, line), "x");
            let filters = Process::filters(launcher.id());
            assert_eq!(filters.len(), 1);
            assert!(!known.contains(&filters[0]), "another one");
            place.outside(&format!("kill -9 {}", filters[0].pid));
            assert!(eventually(|| Process::filters(launcher.id()).is_empty()));
            known.extend(filters);
        }
        drop(launcher.stdin.take());
        let run = job::wait(launcher);
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(run.err.matches("the filter of the session bus has ended").count(), 2, "{run:?}");
        world.end();
    }
}

#[test]
fn a_bus_that_goes_away_is_no_reason_to_wait() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let mut world = World::without_bus(&place);
        let line = "echo(dbus.bus.BusConnection(os.environ['DBUS_SESSION_BUS_ADDRESS'])).Say('x')";
        let options = ["--talk", "org.example.Echo"];
        let program = python(OBEDIENT);
        // Gone before the first connection, and gone after it.
        for connected_before in [false, true] {
            world.start_bus("session");
            world.start_service("session", &["org.example.Echo"]);
            let mut launcher = world.converse(&options, &program);
            let mut output = output_of(&mut launcher);
            assert_eq!(ask(&mut launcher, &mut output, "1"), "1");
            if connected_before {
                assert_eq!(ask(&mut launcher, &mut output, line), "x");
            }
            world.end_all();
            std::fs::remove_file(world.socket("session")).unwrap();
            for _twice in 0..2 {
                let begun = Instant::now();
                let answer = ask(&mut launcher, &mut output, line);
                assert!(["NoReply", "Disconnected", "NoServer"].contains(&&*answer), "{answer}");
                assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
            }
            drop(launcher.stdin.take());
            let run = job::wait(launcher);
            assert_eq!(run.code, 0, "{run:?}");
        }
        // Where there is none there is nothing to be said, and the next launch looks again.
        let program =
            python("print(os.environ.get('DBUS_SESSION_BUS_ADDRESS'), os.path.exists('/.palisade'))");
        for _cold_and_hot in 0..2 {
            let run = world.python(&options, &program);
            assert_eq!((run.ok(), &*run.err), ("None False", ""));
        }
        world.start_bus("session");
        assert_eq!(world.python(&options, &program).ok(), "unix:path=/.palisade/session-bus True");
        world.end();
    }
}

/// A directory with a program in it that is called like the filter.
fn instead_of_the_filter(place: &Place, script: &str) -> String {
    let program = place.write("bin/xdg-dbus-proxy", format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    format!("{}:{}", place.home.join("bin").display(), support::PATH)
}

#[test]
fn whoever_waits_for_a_filter_that_fails_is_sent_away() {
    if !has("dbus") {
        return;
    }
    let connect = python(
        "
import time
for _ in range(8):
    begun = time.monotonic()
    print(tried(lambda: dbus.bus.BusConnection(os.environ['DBUS_SESSION_BUS_ADDRESS'])), round(time.monotonic() - begun))
",
    );
    for place in everybody() {
        let world = World::new(&place);
        let with = |path: &str| {
            let command = ["/usr/bin/python3", "-c", &connect];
            job::finish(world.palisade(&["--talk", "org.example.Echo"], &command).env("PATH", path))
        };
        // It never becomes ready.
        let path = instead_of_the_filter(&place, "exec sleep 1000");
        let run = with(&path);
        // One that comes while others are sent away goes with them.
        let waited = run.ok().lines().filter(|line| *line == "NoReply 2").count();
        assert_eq!(waited, 3, "{run:?}");
        assert!(run.ok().ends_with("\nNoServer 0"), "after three attempts connections are refused: {run:?}");
        assert_eq!(run.err.matches("it isn't ready after 2 s; the next connection tries again").count(), 2);
        assert_eq!(run.err.matches("it isn't ready after 2 s; it stays away").count(), 1, "{run:?}");
        // It ends, and says why.
        let path = instead_of_the_filter(&place, "echo what is wrong >&2; exit 3");
        let run = with(&path);
        assert!(run.ok().lines().all(|line| ["NoReply 0", "NoServer 0"].contains(&line)), "{run:?}");
        assert!(run.ok().ends_with("\nNoServer 0"), "{run:?}");
        assert!(run.err.contains("has ended: what is wrong; the next"), "{run:?}");
        // It isn't there, and so isn't the bus.
        let program = "print(__import__('os').environ.get('DBUS_SESSION_BUS_ADDRESS'))";
        let mut palisade =
            world.palisade(&["--talk", "org.example.Echo"], &["/usr/bin/python3", "-c", program]);
        let run = job::finish(palisade.env("PATH", place.home.join("nothing")));
        assert_eq!(run.ok(), "None");
        assert!(run.err.contains("apt install xdg-dbus-proxy"), "{run:?}");
        world.end();
    }
}

#[test]
fn nothing_is_left_of_a_launcher_that_is_killed() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let options = ["--talk", "org.example.Echo", "--portal", "Account"];
        let instances = || match std::fs::read_dir(place.home.join("run/.flatpak")) {
            Ok(entries) => entries.count(),
            Err(_none) => 0,
        };
        for signal in ["-9", "-15"] {
            let mut launcher = world.converse(&options, &python(OBEDIENT));
            let mut output = output_of(&mut launcher);
            assert_eq!(ask(&mut launcher, &mut output, "echo().Say('x')"), "x");
            assert_eq!(instances(), 1);
            let started = Process::descendants(launcher.id());
            assert!(started.len() >= 4, "{started:?}");
            place.outside(&format!("kill {signal} {}", launcher.id()));
            let _status = job::bounded(&mut launcher);
            let dead = eventually(|| !started.iter().any(Process::lives));
            assert!(dead, "left: {:?}", started.iter().filter(|process| process.lives()).collect::<Vec<_>>());
        }
        // What the first left was removed by the second, and that has left nothing.
        assert_eq!(instances(), 0);
        world.end();
    }
}

#[test]
fn without_namespaces_there_is_no_filter_and_no_launch() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let options = ["--talk", "org.example.Echo", "--namespaces", "none", "--protect", "off"];
        world.run(&options, &["true"]).refused(125, &["can't guarantee", "message bus"]).with_hint();
        let run = world.run(&[&options[..], &["--best-effort"]].concat(), &["/usr/bin/env"]);
        assert!(run.code == 0 && !run.out.contains("DBUS_"), "{run:?}");
        assert!(run.err.contains("the session bus isn't filtered"), "{run:?}");
    }
}

#[test]
fn the_whole_bus_is_there_if_somebody_says_so() {
    if !has("dbus") {
        return;
    }
    let program = python("print(echo().Say('a'), echo(name='org.example.Hidden').Say('b'))");
    for place in everybody() {
        let world = World::new(&place);
        let run = world.python(&["--bus", "host"], &program);
        if place.is_root() {
            // Its command is somebody else outside, whom the bus doesn't know.
            assert!(run.code != 0 && run.err.contains("may not know the command"), "{run:?}");
        } else {
            assert_eq!(run.ok(), "a b", "{run:?}");
        }
    }
}

#[test]
fn a_bus_with_an_abstract_name_is_filtered_too() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let mut world = World::without_bus(&place);
        let name = format!("/tmp/{}-session", place.mark);
        let address = format!("unix:abstract={name}");
        world.start_daemon("session", &format!("unix:abstract={name}"));
        let with = |mut command: std::process::Command| {
            job::finish(command.env("DBUS_SESSION_BUS_ADDRESS", &address))
        };
        let program = python("print(len(dbus.SessionBus().get_unique_name()) > 2)");
        let outside = || {
            let mut command = world.command("/usr/bin/python3");
            command.args(["-c", &program]);
            with(command).code == 0
        };
        assert!(eventually(outside));
        let program = python(&format!(
            "
print(len(dbus.SessionBus().get_unique_name()) > 2)
print(tried(lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}')))
"
        ));
        let options = ["--bus", "filtered"];
        let run = with(world.palisade(&options, &["/usr/bin/python3", "-c", &program]));
        assert_eq!(run.ok(), "True\nConnectionRefusedError", "{run:?}");
    }
}

/// A plan with buses is data like any other.
#[test]
fn a_printed_plan_is_applied_as_it_is_printed() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let world = World::new(&place);
        let options = ["--talk", "org.example.Echo", "--dry-run"];
        let run = world.run(&options, &["true"]);
        let told = "session bus: on the first connection /usr/bin/xdg-dbus-proxy unix:path=/bus /socket --filter --talk=org.example.Echo";
        assert!(run.ok().lines().any(|line| line == told), "{run:?}");
        let run = world.run(&[&options[..], &["--json"]].concat(), &["true"]);
        let plan = place.write("plan.json", run.ok());
        let program = python("print(echo().Say('planned'))");
        let run = world.run(&["--plan", plan.to_str().unwrap()], &["/usr/bin/python3", "-c", &program]);
        assert_eq!(run.ok(), "planned", "{run:?}");
    }
}

#[test]
fn unknown_portals_are_errors() {
    for place in everybody() {
        let run = place.run(&["--portal", "FileChoser"], &["true"]);
        run.refused(125, &["--portal FileChoser", "did you mean `FileChooser`?"]);
        place.write(
            ".config/palisade/profiles/app.toml",
            "schema = 1\nname = \"app\"\n[program]\npath = \"sh\"\n[dbus]\nportals = [\"Everything\"]\n",
        );
        let run = job::finish(place.command(place.binary()).args(["open", "app"]));
        run.refused(125, &["app.toml:6", "known portals: Account, "]);
    }
}

/// xdg-desktop-portal itself, with a backend of the test's own: who does it think is asking?
#[test]
fn portals_know_the_application() {
    if !has("dbus") || !has("portal") {
        return;
    }
    let profile = "schema = 1\nname = \"app\"\n[program]\npath = \"/usr/bin/python3\"\nid = \"org.example.App\"\n\
                   [filesystem]\nview = \"system\"\n[dbus]\nportals = [\"Account\", \"GameMode\"]\n";
    let program = python(
        "
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib
DBusGMainLoop(set_as_default=True)
loop = GLib.MainLoop()
bus = dbus.SessionBus()
desktop = bus.get_object('org.freedesktop.portal.Desktop', '/org/freedesktop/portal/desktop', introspect=False)
portal = lambda name: dbus.Interface(desktop, 'org.freedesktop.portal.' + name)
def answered(response, results):
    print(int(response), str(results.get('name'))); loop.quit()
handle = '/org/freedesktop/portal/desktop/request/%s/t' % bus.get_unique_name()[1:].replace('.', '_')
bus.add_signal_receiver(answered, 'Response', 'org.freedesktop.portal.Request', path=handle)
portal('Account').GetUserInformation('', dbus.Dictionary({'handle_token': 't'}, signature='sv'))
GLib.timeout_add_seconds(20, loop.quit)
loop.run()
print(tried(lambda: portal('GameMode').RegisterGame(os.getpid())))
print(tried(lambda: dbus.Interface(desktop, 'org.freedesktop.DBus.Properties').Get('org.freedesktop.portal.Account', 'version')))
print(tried(lambda: portal('Screenshot').Screenshot('', dbus.Dictionary({}, signature='sv'))))
print(tried(lambda: portal('ProxyResolver').Lookup('http://example.org')))
print(os.getpid())
print(open('/.flatpak-info').read() if os.path.exists('/.flatpak-info') else 'no information')
",
    );
    for place in everybody() {
        let mut world = World::without_bus(&place);
        world.start_bus("session");
        world.start_bus("system");
        let backend = "org.freedesktop.impl.portal.desktop.mock";
        world.start_service("session", &[backend, "com.feralinteractive.GameMode"]);
        place.write(
            "portals/mock.portal",
            format!(
                "[portal]\nDBusName={backend}\nInterfaces=org.freedesktop.impl.portal.Account\nUseIn=mock\n"
            ),
        );
        let mut portal = world.command("/usr/libexec/xdg-desktop-portal");
        portal.env("XDG_DESKTOP_PORTAL_DIR", place.home.join("portals")).env("XDG_CURRENT_DESKTOP", "mock");
        world.start(&mut portal);
        let name = "dbus-send --session --print-reply --dest=org.freedesktop.portal.Desktop / \
                    org.freedesktop.DBus.Peer.Ping";
        let there = || job::finish(world.command("/bin/sh").args(["-c", name])).code == 0;
        assert!(eventually(there), "xdg-desktop-portal doesn't start");

        place.write(".config/palisade/profiles/app.toml", profile);
        let outside = world.python_outside(&program);
        assert!(outside.ok().starts_with("0 User\n"), "outside: {outside:?}");
        assert!(outside.ok().ends_with("\nno information"), "outside: {outside:?}");
        assert_eq!(world.notes().iter().filter(|note| note.starts_with("portal")).count(), 1);
        for cold_or_hot in ["cold", "hot"] {
            let before = world.notes().len();
            let run = world.open(&["app", "-c", &program]);
            let lines: Vec<&str> = run.ok().lines().collect();
            // Its own portals answer, and no others.
            assert_eq!(lines[0], "0 User", "{cold_or_hot}: {run:?}");
            // Root's command is somebody else outside, for whom the portal does nothing.
            let game = if place.is_root() { "Code14" } else { "0" };
            assert_eq!(lines[1..5], [game, "1", "AccessDenied", "AccessDenied"], "{cold_or_hot}: {run:?}");
            assert_eq!(lines[6..8], ["[Application]", "name=org.example.App"], "{run:?}");
            let number = lines.iter().find_map(|line| line.strip_prefix("instance-id=")).unwrap();
            assert!(number.parse::<u32>().is_ok(), "{run:?}");
            let notes = world.notes()[before..].to_vec();
            assert_eq!(notes[0], "portal org.example.App", "who asks is the application");
            // A process inside is found by its number outside.
            if !place.is_root() {
                assert_eq!(notes[1], format!("game {}", lines[5]));
            }
        }
        // Without portals nobody takes it for an application that has them.
        let program = python("print(os.path.exists('/.flatpak-info'), len(os.listdir('/.palisade')))");
        let run = world.python(&["--talk", "org.example.Echo"], &program);
        assert_eq!(run.ok(), "False 1");
        assert_eq!(place.outside("ls -A run/.flatpak 2>/dev/null || true"), "");
        world.end();
    }
}
