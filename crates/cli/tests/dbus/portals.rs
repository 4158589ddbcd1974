// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which portals can be used, and what they know about the calling application.

use super::world::{World, python};
use crate::support::{eventually, everybody, has, job};

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

/// Asks a real xdg-desktop-portal, with a backend of the test, which application it sees as the caller.
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
            // Outside, root's command runs as another user, for which this portal does nothing.
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
        // Without `portals` it has no instance metadata, so no portal sees it as a sandboxed application.
        let program = python("print(os.path.exists('/.flatpak-info'), len(os.listdir('/.palisade')))");
        let run = world.python(&["--talk", "org.example.Echo"], &program);
        assert_eq!(run.ok(), "False 1");
        assert_eq!(place.outside("ls -A run/.flatpak 2>/dev/null || true"), "");
        world.end();
    }
}

/// Files that the user has given the application, and no others.
#[test]
fn documents_are_those_of_the_application() {
    if !has("dbus") {
        return;
    }
    for place in everybody() {
        let mut world = World::without_bus(&place);
        world.start_bus("session");
        place.write(
            ".config/palisade/profiles/app.toml",
            "schema = 1\nname = \"app\"\n[program]\npath = \"sh\"\nid = \"org.example.App\"\n\
             [filesystem]\nview = \"system\"\n[dbus]\nportals = [\"Documents\"]\n",
        );
        let line =
            "cat $XDG_RUNTIME_DIR/doc/1/file; cat $XDG_RUNTIME_DIR/doc/by-app/org.example.Other/2/file";
        assert_eq!(
            world.open(&["app", "-c", line]).out,
            "",
            "where nobody hands out documents there are none"
        );
        for (id, text) in [("org.example.App/1", "mine"), ("org.example.Other/2", "another's")] {
            place.write(&format!("run/doc/by-app/{id}/file"), text);
        }
        for _cold_and_hot in 0..2 {
            let run = world.open(&["app", "-c", line]);
            assert_eq!(run.out, "mine", "{run:?}");
            assert!(run.err.contains("by-app/org.example.Other"), "{run:?}");
        }
        // Only portals that hand out files bring them.
        let run = world.run(&["--portal", "Camera"], &["sh", "-c", "ls $XDG_RUNTIME_DIR"]);
        assert_eq!(run.out, "bus\n", "{run:?}");
        world.end();
    }
}
