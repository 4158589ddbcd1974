// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that GLib, the session bus and systemd, when they read what `palisade desktop` makes, start Palisade and
//! nothing else.

use crate::desktop::world::{APP, Answer, World};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

fn there(program: &str) -> bool {
    let there =
        ["/usr/bin", "/bin", "/usr/local/bin"].iter().any(|path| Path::new(path).join(program).exists());
    if !there {
        eprintln!("not tried: no {program} here");
    }
    there
}

#[test]
fn glib_starts_palisade_whatever_the_profile_is_called() {
    if !there("gio") {
        return;
    }
    let world = World::new();
    let names = [
        "app",
        "my app",
        "a\"b",
        "a'b",
        "a\\b",
        "a\\\\",
        "$(touch x)`id`",
        "50%U",
        "a;b&c|d",
        "#a",
        "~",
        "é ü",
        "%f",
    ];
    for name in names {
        world.profile(name);
        let entry = APP.replace("--started %U", r#"--started "two words" 'single $x' %F"#);
        world.write(&format!("share/applications/{name}.desktop"), entry);
        world.done(&["enable", name]);
    }
    world.put_recorder();
    let file = world.write("a file.pdf", "");
    for name in names {
        let entry = world.home(&format!(".local/share/applications/{name}.desktop"));
        let mut launch = Command::new("timeout");
        world.environment(launch.args(["-k", "1", "20", "gio", "launch"]).arg(&entry).arg(&file));
        let launched = Answer::from(launch.output().unwrap());
        assert_eq!(launched.code, 0, "{name}: {launched:?}");
        let file = file.to_str().unwrap();
        assert_eq!(
            world.recorded(),
            ["open", name, "--", "--started", "two words", "single $x", file],
            "{name}"
        );
    }
    assert!(!world.path("x").exists());
}

#[test]
fn the_session_bus_starts_palisade() {
    if !there("dbus-run-session") || !there("dbus-send") {
        return;
    }
    let world = World::new();
    let names = ["app", "my app", "a\"b'c", "a\\b", "$(id)`id`", "50% #"];
    for (number, name) in names.iter().enumerate() {
        world.profile(name);
        // Its program is the profile's, as there is none elsewhere.
        let program = format!(
            "\"/none/{}\"",
            name.replace('\\', r"\\\\").replace('"', "\\\\\"").replace('`', "\\\\`").replace('$', "\\\\$")
        );
        let service = format!(
            "[D-BUS Service]\nName=org.example.App{number}\nExec={program} --service \"a b\"\nSystemdService=app.service\n"
        );
        world.write(&format!("share/dbus-1/services/any{number}.service"), service);
        world.done(&["enable", name]);
        let made = world.read(&format!(".local/share/dbus-1/services/org.example.App{number}.service"));
        assert!(!made.contains("SystemdService"), "{made}");
    }
    world.put_recorder();
    for (number, name) in names.iter().enumerate() {
        let start = format!(
            "XDG_DATA_HOME=$HOME/.local/share exec dbus-run-session -- dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.StartServiceByName string:org.example.App{number} uint32:0"
        );
        // Without the variable dbus-daemon goes to the home in the user database. It fails, and the bus says so.
        let failed = world.shell(&start);
        assert!(failed.err.contains("ChildExited"), "{name}: {failed:?}");
        assert_eq!(world.recorded(), ["open", name, "--", "--service", "a b"]);
    }
}

#[test]
fn systemd_takes_the_unit() {
    let world = World::new();
    let names = ["app", "my app@1", "50%\\"];
    for name in names {
        world.profile(name);
        world.done(&["enable", name, "--service"]);
    }
    let units: Vec<PathBuf> = std::fs::read_dir(world.home(".config/systemd/user"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(units.len(), names.len());
    assert!(world.home(".config/systemd/user/palisade-my\\x20app\\x401.service").exists(), "{units:?}");
    if there("systemd-analyze") {
        for unit in units {
            let mut verify = Command::new("timeout");
            verify.args(["-k", "1", "20", "systemd-analyze", "--user", "--man=no", "verify"]).arg(&unit);
            let verify =
                world.environment(&mut verify).env("XDG_RUNTIME_DIR", world.path("")).output().unwrap();
            let verify = Answer::from(verify);
            // Of other units here it may say more.
            assert!(!verify.err.contains("palisade-"), "{}: {verify:?}", unit.display());
        }
    }
}

#[test]
fn the_systems_entries_stay_valid() {
    let applications = Path::new("/usr/share/applications");
    if !there("desktop-file-validate") || !applications.exists() {
        return;
    }
    let errors = |path: &Path| -> Vec<String> {
        let output = Command::new("desktop-file-validate").arg("--no-hints").arg(path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().filter_map(|line| Some(line.split_once(": error: ")?.1.to_owned())).collect()
    };
    let world = World::new();
    let mut tried = 0;
    for entry in std::fs::read_dir(applications).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension() != Some("desktop".as_ref()) {
            continue;
        }
        let name = entry.file_stem().unwrap().to_str().unwrap();
        world.profile(name);
        let mut enable = world.command(&["enable", name]);
        let enabled = Answer::from(enable.env("XDG_DATA_DIRS", "/usr/share").output().unwrap());
        if enabled.code != 0 {
            assert!(enabled.err.contains("its Type is") || enabled.err.contains("no Exec"), "{enabled:?}");
            continue;
        }
        let ours = world.home(&format!(".local/share/applications/{name}.desktop"));
        // An entry that is marked as deleted (`Hidden`) doesn't count.
        if ours.exists() {
            let (before, after) = (errors(&entry), errors(&ours));
            assert!(after.iter().all(|error| before.contains(error)), "{name}: {after:?}");
            tried += 1;
        }
    }
    world.done(&["enable", "app", "--create"]);
    assert_eq!(errors(&world.home(".local/share/applications/app.desktop")), [""; 0]);
    eprintln!("{tried} entries");
    world.done(&["disable", "--all"]);
    assert!(!world.home(".local").exists());
}

#[test]
fn defaults_are_set_and_given_back() {
    let world = World::with_entry();
    world.write("share/applications/other.desktop", APP);
    let list = "[Default Applications]\napplication/pdf=other.desktop\n";
    world.write("home/.config/mimeapps.list", list);
    let default = |mime: &str| -> String {
        let answer = world.shell(&format!("gio mime {mime}"));
        answer.out.lines().next().unwrap_or_default().to_owned()
    };
    let gio = there("gio");
    if gio {
        assert!(default("application/pdf").ends_with("other.desktop"), "{}", default("application/pdf"));
    }
    world.done(&["enable", "app", "--mime", "application/pdf", "image/x-none"]);
    if gio {
        for mime in ["application/pdf", "image/x-none"] {
            assert!(default(mime).ends_with("app.desktop"), "{mime}: {}", default(mime));
        }
    }
    let (_code, json) = world.json(&["status"]);
    assert_eq!(json["applications"][0]["defaults"][1]["holds"], true, "{json}");
    world.done(&["disable", "app"]);
    assert_eq!(world.read(".config/mimeapps.list"), list);

    // A link is the user's arrangement; the hint keeps it from being lost.
    let file = world.home(".config/mimeapps.list");
    std::fs::rename(&file, world.home("dotfile")).unwrap();
    symlink(world.home("dotfile"), &file).unwrap();
    let (code, json) = world.json(&["enable", "app", "--mime", "application/pdf"]);
    assert_eq!(code, 2);
    assert_eq!(world.shell(json["error"]["hint"].as_str().unwrap()).code, 0, "{json}");
    world.done(&["enable", "app", "--mime", "application/pdf"]);
    assert_eq!(world.read("dotfile"), list);
}
