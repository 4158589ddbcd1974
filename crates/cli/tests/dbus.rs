// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests message buses behind a filter: which messages pass, and which don't. `ends` tests when the filter starts and ends,
//! `portals` tests desktop portals, and
//! `chooser` a whole desktop's file chooser.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

mod chooser;
mod ends;
mod portals;
mod world;

use crate::support::{eventually, everybody, has, job};
use std::io::BufRead;
use world::{Process, World, output_of, python};

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
        // A name with `see` can be seen, but gets no messages.
        let run = world.python(&["--see", "org.example.Echo"], &program);
        assert!(run.ok().starts_with("AccessDenied\nServiceUnknown\n['org.example.Echo']\n"), "{run:?}");
        // By default there is no bus.
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

/// The profile for GNOME's extensions may call the shell's methods about extensions, and no others.
#[test]
fn the_manager_of_extensions_is_given_single_methods_of_the_shell() {
    if !has("dbus") {
        return;
    }
    let call =
        "call --session --dest org.gnome.Shell.Extensions --object-path /org/gnome/Shell/Extensions --method";
    let methods = [
        ("org.gnome.Shell.Extensions.ListExtensions", "extensions", true),
        ("org.gnome.Shell.Extensions.InstallRemoteExtension x@y", "cancelled", true),
        // Loads code from a directory that exists. The shell offers this method to authors of extensions.
        ("org.gnome.Shell.Extensions.ReloadExtension x@y", "reloaded", false),
        ("org.gnome.Shell.Eval 1", "evaluated", false),
    ];
    for place in everybody() {
        let mut world = World::new(&place);
        world.start_service("session", &["org.gnome.Shell.Extensions"]);
        for (method, answer, allowed) in methods {
            let line = format!("{call} {method}");
            let words: Vec<&str> = line.split(' ').collect();
            assert!(
                job::finish(world.command("gdbus").args(&words)).ok().contains(answer),
                "{method} outside"
            );
            let run = world.open(&[&["--program", "gdbus", "extension-manager"], &words[..]].concat());
            assert_eq!(run.out.contains(answer), allowed, "{method}: {run:?}");
            assert_eq!(run.err.contains("AccessDenied"), !allowed, "{method}: {run:?}");
        }
        assert_eq!(world.notes().iter().filter(|note| note.starts_with("eval")).count(), 1);
        // Opening it prints a note that explains what extensions are.
        let run = world.open(&["--program", "gdbus", "extension-manager", "help"]);
        assert!(run.err.contains("profile extension-manager: Extensions run in GNOME's shell"), "{run:?}");
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
        // Homes of other tests may be there, with half a million files; the own one is looked through by itself.
        let found = place.outside(
            "ls -A run; find . / -xdev -path '/home/palisade-acc-*' -prune -o -name 'session-bus*' -print \
             2>/dev/null | grep -v '^/proc' || true",
        );
        assert_eq!(found, "", "nothing of it is the host's");
        // Another sandbox sees neither the socket nor the filter's process.
        let filter = Process::filters(first.id())[0].pid;
        let program = python(&format!(
            "print(tried(lambda: echo().Say('two')), os.path.exists('/proc/{filter}/root'), os.listdir('/.palisade'))"
        ));
        let run = world.python(&["--talk", "org.example.Hidden"], &program);
        assert_eq!(run.ok(), "ServiceUnknown False ['session-bus']", "{run:?}");
        drop(first.stdin.take());
        assert!(job::bounded(&mut first).success());
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
            // Outside, root's command runs as another user, which the bus doesn't know.
            assert!(run.code != 0 && run.err.contains("may refuse the command"), "{run:?}");
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
        let given = ["--talk", "org.example.Echo", "--plan", plan.to_str().unwrap()];
        assert_eq!(world.python(&given, &program).ok(), "planned");
        // The filter's program runs outside of the sandbox, so a plan file can't choose it.
        let other = run.ok().replace("/usr/bin/xdg-dbus-proxy", "/usr/bin/xdg-dbus-other");
        assert_ne!(other, run.ok());
        place.write("plan.json", other);
        world
            .python(&given, &program)
            .refused(125, &["plan.json", "differs from the plan that the policy"])
            .with_hint();
    }
}
