// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests when the filter of a bus starts and ends.

use super::world::{OBEDIENT, Process, World, ask, output_of, python};
use crate::support::{Run, eventually, everybody, has, job};
use palisade_acceptance::patience::Patience;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

/// The filter doesn't start before the first connection, and then sees only what it needs.
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
        // One message suffices: the launch may have ended before the launcher learned of the second kill.
        assert!(run.err.contains("the filter of the session bus has ended"), "{run:?}");
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
        // The bus ends before the first connection, and after it.
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
                let mut patience = Patience::new(Duration::from_secs(12));
                let answer = ask(&mut launcher, &mut output, line);
                assert!(["NoReply", "Disconnected", "NoServer"].contains(&&*answer), "{answer}");
                assert!(!patience.is_spent());
            }
            drop(launcher.stdin.take());
            let run = job::wait(launcher);
            assert_eq!(run.code, 0, "{run:?}");
        }
        // If there is no bus, nothing is reported, and the next launch looks for one again.
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

/// A launch where something else is in the filter's place: a line of Perl.
fn instead_of_the_filter(world: &World<'_>, line: &str, program: &str) -> Run {
    let script = world.place.write("filter", format!("#!/usr/bin/perl\n{line}\n"));
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut elsewhere = world.command("bwrap");
    elsewhere.args(["--dev-bind", "/", "/", "--ro-bind"]).arg(&script).arg("/usr/bin/xdg-dbus-proxy");
    elsewhere.arg(world.place.binary()).args(["run", "--talk", "org.example.Echo", "--"]);
    job::finish(elsewhere.args(["/usr/bin/python3", "-c", program]))
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
        // It never becomes ready.
        let run = instead_of_the_filter(&world, "sleep 1000;", &connect);
        // One that comes while others are sent away goes with them.
        let waits = |line: &&str| line.starts_with("NoReply ") && *line != "NoReply 0";
        let waited = run.ok().lines().filter(waits).count();
        assert_eq!(waited, 3, "{run:?}");
        assert!(run.ok().ends_with("\nNoServer 0"), "after three attempts connections are refused: {run:?}");
        assert_eq!(
            run.err.matches("it isn't ready after 3 s; the next connection starts it again").count(),
            2
        );
        assert_eq!(run.err.matches("it isn't ready after 3 s; it isn't started again").count(), 1, "{run:?}");
        // It ends, and says why.
        let run = instead_of_the_filter(&world, "print STDERR 'what is wrong'; exit 3;", &connect);
        assert!(run.ok().lines().all(|line| line.starts_with("NoReply ") || line == "NoServer 0"), "{run:?}");
        assert!(!run.err.contains("isn't ready"), "nobody waits for one that has ended: {run:?}");
        assert!(run.ok().ends_with("\nNoServer 0"), "{run:?}");
        assert!(run.err.contains("has ended: what is wrong; the next"), "{run:?}");
        place.forget_plans();
        // It isn't there, and so isn't the bus.
        let program = "print(__import__('os').environ.get('DBUS_SESSION_BUS_ADDRESS'))";
        let mut elsewhere = world.command("bwrap");
        elsewhere.args(["--dev-bind", "/", "/", "--ro-bind", "/dev/null", "/usr/bin/xdg-dbus-proxy"]);
        elsewhere.arg(place.binary()).args(["run", "--talk", "org.example.Echo", "--"]);
        let run = job::finish(elsewhere.args(["/usr/bin/python3", "-c", program]));
        assert_eq!(run.ok(), "None");
        assert!(run.err.contains("the package xdg-dbus-proxy has it"), "{run:?}");
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
