// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the file chooser of a real desktop: xdg-desktop-portal with GTK's backend and the document portal. The user picks
//! one file in the dialog, and the application gets that file and no other.

use super::world::python;
use crate::apps::display::Display;
use crate::support::{Place, Run, everybody, give, has, job, ordinary};
use std::os::unix::fs::PermissionsExt;

/// Starts the portals, opens the application, picks `~/letter` in its dialog, and prints what the application prints.
const SESSION: &str = r#"
cd ~/work
export XDG_CURRENT_DESKTOP=gtk GSETTINGS_BACKEND=memory NO_AT_BRIDGE=1
quietly() { "$@" >/dev/null 2>&1 & pids="$! $pids"; }
wait_until() { for _ in $(seq 400); do "$@" && return; sleep 0.05; done; echo "not in time: $*"; }
owned() {
    dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner \
        "string:$1" | grep -q true
}
quietly /usr/libexec/xdg-permission-store
wait_until owned org.freedesktop.impl.portal.PermissionStore
quietly /usr/libexec/xdg-document-portal
wait_until test -d "$XDG_RUNTIME_DIR/doc/by-app"
quietly /usr/libexec/xdg-desktop-portal-gtk
wait_until owned org.freedesktop.impl.portal.desktop.gtk
quietly /usr/libexec/xdg-desktop-portal
wait_until owned org.freedesktop.portal.Desktop

"$PALISADE" open app -c "$PROGRAM" ~/letter ~/other >out 2>&1 & launch=$!
dialog() { window=$(xdotool search --onlyvisible --name 'a letter of yours' 2>/dev/null | head -n 1); [ "$window" ]; }
wait_until dialog
# Keys that come before the dialog is ready are lost, and it completes the name before it accepts it.
pick() {
    xdotool windowfocus --sync "$window" key ctrl+l key ctrl+a type --delay 20 "$HOME/letter"
    sleep 0.5
    xdotool key Return
    for _ in $(seq 40); do dialog || return 0; sleep 0.05; done
    return 1
}
for _ in $(seq 10); do pick 2>/dev/null && break; done
wait $launch
cat out
kill $pids
wait
"#;

const PROFILE: &str = "schema = 1\nname = \"app\"\n[program]\npath = \"/usr/bin/python3\"\nid = \"org.example.App\"\n\
                       [filesystem]\nview = \"system\"\n[dbus]\nportals = [\"FileChooser\"]\n";

/// Asks for a file, reads it, and tries to read and write files by the paths of the arguments.
const PROGRAM: &str = "
from dbus.mainloop.glib import DBusGMainLoop
from gi.repository import GLib
DBusGMainLoop(set_as_default=True)
loop = GLib.MainLoop()
bus = dbus.SessionBus()
desktop = bus.get_object('org.freedesktop.portal.Desktop', '/org/freedesktop/portal/desktop', introspect=False)
def answered(response, results):
    paths = [str(uri).removeprefix('file://') for uri in results.get('uris', [])]
    print(int(response), [os.path.basename(path) for path in paths])
    for path in paths:
        print(tried(lambda: open(path).read()), tried(lambda: open(path, 'a')).split()[0])
    loop.quit()
handle = '/org/freedesktop/portal/desktop/request/%s/t' % bus.get_unique_name()[1:].replace('.', '_')
bus.add_signal_receiver(answered, 'Response', 'org.freedesktop.portal.Request', path=handle)
dbus.Interface(desktop, 'org.freedesktop.portal.FileChooser').OpenFile(
    '', 'a letter of yours', dbus.Dictionary({'handle_token': 't'}, signature='sv'))
GLib.timeout_add_seconds(60, loop.quit)
loop.run()
for path in sys.argv[1:]:
    print(os.path.basename(path), tried(lambda: open(path).read()))
documents = os.environ['XDG_RUNTIME_DIR'] + '/doc'
print(sorted(name for found in os.listdir(documents) for name in os.listdir(documents + '/' + found)))
";

/// Runs the session as the place's user. File systems that a process serves need `/dev/fuse`: where only root may open
/// it, root gives the session another node in a mount namespace of its own.
fn session(place: &Place, root: Option<&Place>, display: &Display) -> Run {
    let mut command = match root {
        Some(root) => {
            let node = root.home.join("fuse");
            let line = "mknod -m 666 \"$1\" c 10 229; mount --bind \"$1\" /dev/fuse; shift; exec \"$@\"";
            let mut command = root.command("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", line, "sh"]).arg(node);
            command.args(["setpriv", &format!("--reuid={}", place.uid), &format!("--regid={}", place.gid)]);
            command.args(["--clear-groups", "env"]).arg(format!("HOME={}", place.home.display()));
            command.args([&format!("USER={0}", place.name()), &format!("LOGNAME={0}", place.name())]);
            command
        }
        None => place.command("env"),
    };
    command.args(["setsid", "--wait", "dbus-run-session", "--", "sh", "-c", SESSION]);
    command.env("XDG_RUNTIME_DIR", place.home.join("run")).env("PROGRAM", python(PROGRAM));
    command.env("DISPLAY", &display.name).env("XAUTHORITY", &display.authority);
    job::finish(command.env("PALISADE", place.binary()))
}

#[test]
fn the_application_gets_the_file_that_the_user_picks() {
    if !has("dbus") || !has("chooser") {
        return;
    }
    let root = everybody().into_iter().find(Place::is_root);
    let place = ordinary();
    let display = Display::start(&place).unwrap_or_else(|error| panic!("{error}"));
    let runtime = place.home.join("run");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    give(&place, &runtime);
    place.write(".config/palisade/profiles/app.toml", PROFILE);
    place.write("letter", "dear");
    place.write("other", "secret");
    let run = session(&place, root.as_ref(), &display);
    let lines: Vec<&str> = run.ok().lines().collect();
    assert_eq!(lines[0], "0 ['letter']", "{run:?}");
    assert_eq!(lines[1], "dear <_io.TextIOWrapper", "{run:?}");
    assert_eq!(lines[2..4], ["letter FileNotFoundError", "other FileNotFoundError"], "{run:?}");
    assert_eq!(lines[4], "['letter']", "only this application's documents: {run:?}");
    drop(display);
    place.assert_all_dead();
}
