// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests what shipped profiles don't grant: access to the outside needs a feature that the user requests, and a note explains it.

use super::palisade;
use crate::support::{Place, job, ordinary, root};
use std::collections::BTreeMap;
use std::fs::create_dir_all;
use std::os::unix::net::UnixListener;
use toml::{Table, Value};

/// Below these lie what a desktop or a login obeys, and other programs' settings.
const OBEYED: [&str; 8] = [
    "~/.bashrc",
    "~/.config/autostart",
    "~/.config/systemd/user",
    "~/.local/bin",
    "~/.local/share/applications",
    "~/.local/share/dbus-1/services",
    "~/.local/share/gnome-shell/extensions",
    "~/.ssh",
];

/// Sockets of services that do anything as root, or as the user outside.
const SERVICES: [&str; 8] =
    ["containerd", "dbus", "docker", "libvirt", "podman", "systemd", "snapd", "polkit"];

/// Names on the session's bus by which programs are started outside, or settings of all programs are changed. `.*` behind
/// a name that is granted stands for all below it.
const OUTSIDE: [&str; 12] = [
    "ca.desrt.dconf",
    "org.freedesktop.Flatpak",
    "org.freedesktop.portal.Flatpak",
    "org.freedesktop.systemd1",
    "org.gnome.SessionManager",
    "org.gnome.Shell",
    "org.gnome.Shell.Extensions",
    "org.gtk.vfs.Daemon",
    "org.kde.KWin",
    "org.kde.kded6",
    "org.kde.krunner",
    "org.kde.plasmashell",
];

/// What a profile of these has all the same, and for what.
const EXCEPT: [(&str, &str); 4] = [
    ("dconf-editor", "ca.desrt.dconf"), // all settings are what it is for
    ("steam", "/dev/input"),            // gamepads that come and go
    ("steam", "/dev/hidraw*"),          // the same
    ("firewall-applet", "org.fedoraproject.FirewallD1"), // the firewall is what it is for
];

/// The strings of `section.list`, whatever its strength, and of every configuration.
fn strings(policy: &Table, section: &str, list: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(items) = policy.get(section).and_then(|table| table.get(list)).and_then(Value::as_array) {
        found.extend(items.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    let parts = ["default", "locked"].iter().filter_map(|part| policy.get(*part)?.as_table());
    let variants = policy.get("configurations").and_then(Value::as_table);
    let variants = variants.into_iter().flat_map(Table::values).filter_map(Value::as_table);
    for table in parts.chain(variants) {
        found.extend(strings(table, section, list));
    }
    found
}

/// A path of the home as it is with the usual directories.
fn usual(path: &str) -> String {
    let mut path = path.to_owned();
    for (variable, directory) in [
        ("${home}", "~"),
        ("${config}", "~/.config"),
        ("${data}", "~/.local/share"),
        ("${cache}", "~/.cache"),
        ("${state}", "~/.local/state"),
    ] {
        path = path.replace(variable, directory);
    }
    path
}

fn below(path: &str, directory: &str) -> bool {
    path == directory || path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

/// The parts of a policy that give access to the outside.
fn leads_outside(policy: &Table) -> Vec<String> {
    let mut found = Vec::new();
    for path in strings(policy, "filesystem", "write") {
        let usual = usual(&path);
        let obeyed = OBEYED.iter().any(|place| below(place, &usual) || below(&usual, place));
        let socket = below(&usual, "/run") && SERVICES.iter().any(|service| usual.contains(service));
        if obeyed || socket || ["/", "/home", "/run", "/etc"].contains(&usual.as_str()) {
            found.push(path);
        }
    }
    for path in strings(policy, "devices", "allow") {
        if below("/dev/input/event0", &path) || path.contains("uinput") || path.contains("hidraw") {
            found.push(path);
        }
    }
    for name in ["talk", "own"].iter().flat_map(|list| strings(policy, "dbus", list)) {
        let covers = |outside: &str| match name.strip_suffix(".*") {
            Some(above) => outside == above || outside.starts_with(&format!("{above}.")),
            None => outside == name,
        };
        if OUTSIDE.iter().any(|outside| covers(outside)) {
            found.push(name);
        }
    }
    found.extend(["system_talk", "system_own"].iter().flat_map(|list| strings(policy, "dbus", list)));
    for bus in ["session", "system"] {
        if policy.get("dbus").and_then(|dbus| dbus.get(bus)).and_then(Value::as_str) == Some("host") {
            found.push(format!("{bus} bus"));
        }
    }
    found
}

#[test]
fn nothing_that_leads_outside_is_granted_unasked() {
    let place = ordinary();
    let list: serde_json::Value = serde_json::from_str(&palisade(&place, "profile list --json").out).unwrap();
    let mut found = BTreeMap::new();
    for one in list["profiles"].as_array().unwrap() {
        let name = one["name"].as_str().unwrap();
        let text = palisade(&place, &format!("profile export {name}"));
        let policy: Table = text.ok().parse().unwrap();
        let mut outside = leads_outside(&policy);
        outside.retain(|grant| !EXCEPT.contains(&(name, grant)));
        if !outside.is_empty() {
            found.insert(name.to_owned(), outside);
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    // What the same words mean in a policy that has them.
    let bad = "[filesystem]\nwrite = [\"${config}\", \"~/.local/share/gnome-shell\", \"/run/libvirt/libvirt-sock\", \"~\"]\n\
               [devices]\nallow = [\"/dev/input\", \"/dev/input/event*\"]\n\
               [dbus]\ntalk = [\"org.gnome.Shell.Extensions\", \"org.gnome.*\"]\nsession = \"host\"\n";
    assert_eq!(leads_outside(&bad.parse().unwrap()).len(), 8, "{:?}", leads_outside(&bad.parse().unwrap()));
}

/// Runs `palisade open` as root where directories of the host are others.
fn open_beside(place: &Place, view: &[&str], arguments: &[&str]) -> job::Run {
    let mut bwrap = place.command("bwrap");
    bwrap.args(["--dev-bind", "/", "/"]).args(view);
    bwrap.arg(place.binary()).arg("open").args(arguments);
    job::finish(&mut bwrap)
}

/// Access to the system's virtual machines needs a feature, whose note explains the rights that it gives.
#[test]
fn libvirt_is_reached_on_request_only() {
    let Some(place) = root() else { return };
    let sockets = place.home.join("libvirt");
    create_dir_all(&sockets).unwrap();
    let listeners: Vec<UnixListener> =
        ["libvirt-sock", "virtqemud-sock", "libvirt-admin-sock", "virtlogd-sock"]
            .iter()
            .map(|name| UnixListener::bind(sockets.join(name)).unwrap())
            .collect();
    let connect = "import glob, os, socket\n\
         for path in sorted(glob.glob('/run/libvirt/*')):\n\
         \x20   try: socket.socket(socket.AF_UNIX).connect(path); print('reached', os.path.basename(path))\n\
         \x20   except OSError as error: print(type(error).__name__, os.path.basename(path))\n";
    let wrapper = toml::Value::from(vec!["python3", "-c", connect]);
    place.write(
        ".config/palisade/profiles/probe.toml",
        format!(
            "schema = 1\nname = \"probe\"\ninherits = [\"virt-manager\"]\n[program]\npath = \"true\"\nwrapper = {wrapper}\n"
        ),
    );
    let view = ["--tmpfs", "/run", "--bind", sockets.to_str().unwrap(), "/run/libvirt"];
    let run = open_beside(&place, &view, &["probe"]);
    assert!(!run.ok().contains("reached"), "{run:?}");
    let run = open_beside(&place, &view, &["--feature", "libvirt", "probe"]);
    assert_eq!(run.ok(), "reached libvirt-sock\nreached virtqemud-sock", "{run:?}");
    assert!(
        run.err.contains("feature libvirt: A program that controls libvirt has root's rights"),
        "{run:?}"
    );
    // Opening the profile prints how to get access, and what that means.
    let run = open_beside(&place, &view, &["--program", "true", "virt-manager"]);
    assert!(run.err.contains("profile virt-manager: ") && run.err.contains("--feature libvirt"), "{run:?}");
    drop(listeners);
}

/// A keyboard beside a gamepad stays hidden: root, and members of the group `input`, could listen to it.
#[test]
fn gamepads_are_shown_without_keyboards() {
    let Some(place) = root() else { return };
    let mut view = vec!["--dev", "/dev", "--dir", "/dev/input/by-id"];
    for device in ["/dev/input/event0", "/dev/input/event1", "/dev/input/js0", "/dev/input/mice"] {
        view.extend(["--dev-bind", "/dev/null", device]);
    }
    view.extend(["--symlink", "../event1", "/dev/input/by-id/usb-Pad-event-joystick"]);
    view.extend(["--symlink", "../event0", "/dev/input/by-id/usb-Board-event-kbd"]);
    let list = ["--program", "ls", "moonlight", "/dev/input", "/dev/input/by-id"];
    let run = open_beside(&place, &view, &list);
    let shown: Vec<&str> = run.ok().split_whitespace().collect();
    let has = |name: &str| shown.contains(&name);
    assert!(has("event1") && has("js0") && has("usb-Pad-event-joystick"), "{shown:?}");
    assert!(!has("event0") && !has("mice") && !has("usb-Board-event-kbd"), "{shown:?}");
    // All of them on request.
    let run = open_beside(
        &place,
        &view,
        &["--dry-run", "--json", "--feature", "input", "--program", "ls", "moonlight"],
    );
    let plan: serde_json::Value = serde_json::from_str(run.ok()).unwrap();
    let whole = |step: &serde_json::Value| step["bind"]["source"] == "/dev/input";
    assert!(plan["steps"].as_array().unwrap().iter().any(whole), "{run:?}");
    let says =
        |note: &serde_json::Value| note.as_str().is_some_and(|note| note.starts_with("feature input: "));
    assert!(plan["notes"].as_array().unwrap().iter().any(says), "{run:?}");
}
