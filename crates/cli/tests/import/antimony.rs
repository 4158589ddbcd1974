// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the import of Antimony's profiles and features, key by key.

use super::world::{World, at, list, reasons};

const ANTIMONY: &str = r##"
notes = "Set it up first.\nThen run it."
path = "/opt/app/bin/app"
id = "org.example.App"
dir = "/home/antimony/work"
lockdown = true
seccomp = "Permissive"
features = ["gtk3", "network"]
conflicts = ["hardened_malloc"]
inherits = ["base"]
binaries = ["sh", "/usr/bin/env", "tru*e", "$AT_HOME/x=/usr/bin/y", "/opt/y=/usr/bin/y"]
devices = ["/dev/dri", "/dev/null", "/dev/shm"]
namespaces = ["User", "Net", "Pid"]
arguments = ["--data", "/home/antimony/db", "${literal}"]
sandbox_args = ["strace", "-f"]
ignored_exit_codes = [139, 300]

[home]
name = "app/main"
policy = "Overlay"
lock = true
lock_policy = "Overlay"

[ipc]
portals = ["FileChooser", "Notifications"]
sees = ["org.example.Seen"]
talks = ["org.gtk.vfs.*"]
owns = ["org.mpris.{desktop}.*", "not a name"]
calls = ["org.example.Called=org.example.Method@/org/example"]

[files]
passthrough = "rw"
temp = ["/run/app"]

[files.user]
ro = ["$XDG_CONFIG_HOME/app.conf", ".apprc"]
rw = ["Music"]

[files.platform]
ro = ["/etc/app/", "relative/path"]

[files.resources]
ro = ["$XDG_DATA_HOME/app/etc=/etc/app-data"]
rx = ["/opt/app/tool"]

[files.runtime]
ro = ["$XAUTHORITY", "$XDG_RUNTIME_DIR/$WAYLAND_DISPLAY", "$XDG_RUNTIME_DIR/pulse", "/run/udev"]

[files.direct.ro]
"/etc/passwd" = "app:x:$UID:\n"

[files.direct.rx]
"/usr/bin/hello" = "#!/bin/sh\necho $@ ${HOME}\n"

[files.links]
"/usr/bin/vim" = "/usr/bin/editor"

[libraries]
files = ["libapp*"]
directories = ["app/plugins"]
roots = ["/usr/lib32"]

[environment]
LANG = "$LANG"
MODE = "quick"
DATA = "/home/antimony/data"

[[hooks.pre]]
name = "prepare"
type = "Shell"
content = "mkdir -p $ANTIMONY_HOME/${sub}"
env = true

[[hooks.pre]]
type = "Program"
content = "$AT_HOME/utilities/x"

[[hooks.post]]
type = "Program"
content = "/usr/bin/true"
arguments = ["x"]
can_fail = true

[hooks.parent]
type = "Profile"
content = "firefox"
arguments = ["http://localhost"]

[configuration.clean]
arguments = ["--clean"]

[configuration.clean.home]
policy = "None"
"##;

#[test]
fn every_key_of_an_antimony_profile_is_taken_over_or_named() {
    let world = World::new();
    let file = world.write("foreign/app.toml", ANTIMONY);
    let (profile, report) = world.imported("antimony", &file, &[]);
    for (path, value) in [
        ("name", "app"),
        ("program.path", "/opt/app/bin/app"),
        ("program.id", "org.example.App"),
        ("program.pass_files", "write"),
        ("process.cwd", "~/work"),
        ("network.mode", "host"),
        ("filesystem.view", "closure"),
        ("home.name", "app/main"),
        ("home.policy", "overlay"),
        ("home.lock", "overlay"),
        ("environment.set.MODE", "quick"),
        ("environment.set.DATA", "${home}/data"),
        ("files.read./etc/passwd", "app:x:${uid}:\n"),
        ("files.execute./usr/bin/hello", "#!/bin/sh\necho $@ $${HOME}\n"),
        ("files.links./usr/bin/editor", "/usr/bin/vim"),
        ("hooks.parent.profile", "firefox"),
        ("configurations.clean.home.policy", "none"),
    ] {
        assert_eq!(at(&profile, path).as_str(), Some(value), "{path}");
    }
    for (path, values) in [
        ("features", vec!["gtk3", "network"]),
        ("without", vec!["hardened_malloc"]),
        ("inherits", vec!["base"]),
        ("program.arguments", vec!["--data", "${home}/db", "$${literal}"]),
        ("program.wrapper", vec!["strace", "-f"]),
        ("devices.allow", vec!["/dev/dri"]),
        ("closure.libraries", vec!["libapp*", "/usr/lib32/libapp*", "app/plugins", "/usr/lib32/app/plugins"]),
        ("dbus.portals", vec!["FileChooser", "Notification"]),
        ("dbus.see", vec!["org.example.Seen"]),
        ("dbus.talk", vec!["org.gtk.vfs.*"]),
        ("dbus.own", vec!["org.mpris.${id}.*"]),
        ("dbus.call", vec!["org.example.Called=org.example.Method@/org/example"]),
        ("filesystem.read", vec!["${config}/app.conf", "/etc/app", "${runtime}/pulse", "/run/udev"]),
        ("filesystem.write", vec!["~/Music", "${runtime}/${WAYLAND_DISPLAY}", "${runtime}/pulse/native"]),
        ("filesystem.tmpfs", vec!["/run/app"]),
        ("environment.keep", vec!["LANG"]),
        ("configurations.clean.program.arguments", vec!["--clean"]),
    ] {
        assert_eq!(list(&profile, path), values, "{path}");
    }
    let execute = list(&profile, "filesystem.execute");
    for path in [
        "~/.apprc",
        "~/Music",
        "/opt/app/tool",
        "/opt/y=/usr/bin/y",
        "${data}/app/etc=/etc/app-data",
        "${XAUTHORITY}",
    ] {
        assert!(execute.contains(&path), "{path} in {execute:?}");
    }
    let programs = list(&profile, "closure.programs");
    assert!(
        programs.starts_with(&["sh", "/usr/bin/env"]) && programs.contains(&"/usr/bin/true"),
        "{programs:?}"
    );
    let before = at(&profile, "hooks.before").as_array().unwrap();
    assert_eq!(before.len(), 1, "the other one needs Antimony");
    assert_eq!(before[0]["command"][2].as_str(), Some("mkdir -p $PALISADE_HOME/$${sub}"));
    assert_eq!(before[0]["environment"].as_bool(), Some(true));
    assert_eq!(at(&profile, "hooks.after").as_array().unwrap()[0]["may_fail"].as_bool(), Some(true));
    assert_eq!(at(&profile, "process.namespaces").as_bool(), Some(true));
    assert_eq!(at(&profile, "program.ignore_exit").as_array().unwrap().len(), 1);

    let statements =
        |kind: &str| reasons(&report, kind).into_iter().map(|(statement, _)| statement).collect::<Vec<_>>();
    let left_out = statements("left_out");
    for part in ["lockdown", "$AT_HOME/x=", "300", "\"not a name\"", "\"Pid\"", "relative/path", "hooks.pre"]
    {
        assert!(left_out.iter().any(|statement| statement.contains(part)), "{part}: {left_out:?}");
    }
    let approximated = statements("approximated");
    for part in ["seccomp", "Notifications", "/dev/shm", "libraries.roots", "tru*e"] {
        assert!(approximated.iter().any(|statement| statement.contains(part)), "{part}: {approximated:?}");
    }
    assert_eq!(report["hooks"], 2);
    assert!(report["taken"].as_u64().unwrap() > 40, "{report}");
    let text = report["text"].as_str().unwrap();
    assert!(text.contains("# Set it up first.\n# Then run it.\n"), "{text}");
    assert!(
        text.contains("# line 16: `ignored_exit_codes: 300`: no program can end with this code\n"),
        "{text}"
    );
}

#[test]
fn every_key_of_an_antimony_feature_is_taken_over_or_named() {
    let world = World::new();
    let file = world.write(
        "foreign/audio.toml",
        r##"
name = "audio"
description = "Sound."
caveat = "Hears all."
requires = ["locale"]
conflicts = ["silence"]
conditional = "command -v /usr/bin/pw-cli && [ -n \"$XDG_RUNTIME_DIR\" ]"
preserve_env = true
libraries.no_sof = true

[ipc]
system_bus = true
disable = false
"##,
    );
    let (feature, report) = world.imported("antimony", &file, &["--feature"]);
    assert_eq!(at(&feature, "caveat").as_str(), Some("Hears all."));
    assert_eq!(list(&feature, "features"), ["locale"]);
    assert_eq!(list(&feature, "when"), ["exists /usr/bin/pw-cli", "variable XDG_RUNTIME_DIR"]);
    assert_eq!(list(&feature, "filesystem.execute"), ["/usr/lib", "/usr/lib64"]);
    assert_eq!(at(&feature, "dbus.system").as_str(), Some("host"));
    assert!(feature["filesystem"].get("view").is_none(), "a feature grants, and says nothing of the rest");
    let approximated = reasons(&report, "approximated");
    assert!(approximated.iter().any(|(statement, _)| statement.contains("silence")), "{approximated:?}");

    // A condition that isn't understood is never taken for one that holds.
    let file =
        world.write("foreign/odd.toml", "name = \"odd\"\ndescription = \"\"\nconditional = \"pidof x\"\n");
    let (feature, report) = world.imported("antimony", &file, &["--feature"]);
    assert_eq!(list(&feature, "when"), ["exists /", "not exists /"]);
    assert_eq!(reasons(&report, "left_out").len(), 1);
}
