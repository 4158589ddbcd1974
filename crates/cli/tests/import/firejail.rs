// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the import of firejail's profiles, statement by statement.

use super::world::{World, at, list, reasons};

#[test]
fn a_firejail_profile_is_what_all_its_files_come_to() {
    let world = World::new();
    world.write(
        "foreign/disable-some.inc",
        "blacklist ${HOME}/.ssh\nblacklist ${HOME}/.app\nread-only ${HOME}/.bashrc\nblacklist ${HOME}/.config/*\n",
    );
    world.write("foreign/app.local", "env LOCAL=1\n");
    let file = world.write(
        "foreign/app.profile",
        "# Description: An application\nquiet\ninclude app.local\ninclude globals.local\nignore noexec ${HOME}\n\
         noblacklist ${HOME}/.app\nnoblacklist ${HOME}/.config/app\ninclude disable-some.inc\n\
         noexec ${HOME}\nnoexec /srv\nmkdir ${HOME}/.app\nmkfile ${HOME}/.apprc\n\
         caps.drop all\nnonewprivs\nnoroot\nnogroups\nseccomp !keyctl\nprotocol unix\nnetfilter\n\
         no3d\nnosound # and no more\nnovideo\nprivate-tmp\nprivate-cache\nprivate-etc passwd,fonts\n\
         dbus-user filter\ndbus-user.talk org.freedesktop.Notifications\ndbus-system none\nx11 none\n\
         hostname box\nmachine-id\nenv A=b \"c\nrmenv SECRET_ENV\nrlimit-fsize 10M\nrlimit-nofile 64\n\
         disable-mnt\ntracelog\ndns 9.9.9.9\ndeterministic-shutdown\n?HAS_APPIMAGE: whitelist ${HOME}/x\n\
         memory-deny-write-execute\njoin-or-start app\n",
    );
    let (profile, report) = world.imported("firejail", &file, &[]);
    for (path, value) in [
        ("description", "An application"),
        ("filesystem.view", "closure"),
        ("home.policy", "none"),
        ("network.mode", "none"),
        ("dbus.session", "filtered"),
        ("dbus.system", "none"),
        ("process.hostname", "box"),
        ("process.wait", "command"),
        ("environment.set.A", "b \"c"),
        ("environment.set.LOCAL", "1"),
        ("limits.file_size", "10M"),
        ("files read /etc/resolv.conf", "nameserver 9.9.9.9\n"),
    ] {
        assert_eq!(at(&profile, path).as_str(), Some(value), "{path}");
    }
    let has = |path: &str, value: &str| list(&profile, path).contains(&value);
    for (path, value) in [
        ("filesystem.hide", "~/.ssh"),
        ("filesystem.hide", "~/.config/*"),
        ("filesystem.hide", "/etc/hosts"),
        ("filesystem.read", "/etc/passwd"),
        ("filesystem.read", "/etc/fonts"),
        ("filesystem.write", "~"),
        ("filesystem.write", "/run/user/${uid}/${WAYLAND_DISPLAY}"),
        ("filesystem.write", "~/.config/app"),
        ("filesystem.execute", "~"),
        ("filesystem.execute", "~/.bashrc"),
        ("filesystem.tmpfs", "~/.cach[e]"),
        ("filesystem.tmpfs", "/var/tmp"),
        ("dbus.talk", "org.freedesktop.Notifications"),
        ("devices.allow", "/dev/input"),
        ("environment.remove", "SECRET_ENV"),
        ("syscalls.allow", "keyctl"),
        ("syscalls.deny", "modify_ldt"),
        ("syscalls.deny", "memfd_create"),
    ] {
        assert!(has(path, value), "{path}: {value} in {profile}");
    }
    for (path, value) in [
        ("filesystem.hide", "~/.app"),
        ("filesystem.write", "~/.bashrc"),
        ("filesystem.write", "${x11}"),
        ("filesystem.write", "/run/user/${uid}/pulse/native"),
        ("filesystem.read", "/etc"),
        ("filesystem.write", "/mnt"),
        ("filesystem.execute", "/srv"),
        ("devices.allow", "/dev/snd"),
        ("devices.allow", "/dev/dri"),
        ("devices.allow", "/dev/video[0-9]*"),
        ("syscalls.deny", "keyctl"),
    ] {
        assert!(!has(path, value), "{path}: {value} in {profile}");
    }
    assert!(profile["environment"].get("keep").is_none_or(
        |keep| !keep.to_string().contains("DISPLAY\"") || keep.to_string() == "[\"WAYLAND_DISPLAY\"]"
    ));
    let before = at(&profile, "hooks.before").as_array().unwrap();
    assert_eq!(before[0]["command"].as_array().unwrap().last().unwrap().as_str(), Some("${home}/.app"));
    assert_eq!(before.len(), 2);

    let left_out = reasons(&report, "left_out");
    let named: Vec<&str> = left_out.iter().map(|(statement, _)| statement.as_str()).collect();
    assert_eq!(named, ["nogroups", "memory-deny-write-execute", "join-or-start app"], "{left_out:?}");
    assert_eq!(report["left_out"][0]["restricts"], true);
    assert_eq!(report["left_out"][2]["restricts"], false);
}

#[test]
fn what_is_whitelisted_is_all_there_is() {
    let world = World::new();
    let file = world.write(
        "foreign/app.profile",
        "whitelist ${HOME}/.app\nwhitelist-ro ${HOME}/Pictures\nwhitelist ${DOWNLOADS}\nwhitelist /usr/share/app\n\
         whitelist ${RUNUSER}/wayland-*\nnowhitelist ${HOME}/.other\nwhitelist ${HOME}/.other\nwhitelist ${HOME}\n\
         blacklist ${HOME}/.app/keys\nblacklist ${HOME}/elsewhere\nprivate-bin env,tru?,no-such-program-here\nnet none\n",
    );
    world.write("home/.config/user-dirs.dirs", "XDG_DOWNLOAD_DIR=\"$HOME/Geladenes\"\n");
    let (profile, report) = world.imported("firejail", &file, &[]);
    let write = list(&profile, "filesystem.write");
    for (path, expected) in
        [("~/.app", true), ("~/Geladenes", true), ("~", false), ("~/Pictures", false), ("~/.other", false)]
    {
        assert_eq!(write.contains(&path), expected, "{path}: {write:?}");
    }
    let hide = list(&profile, "filesystem.hide");
    for (path, expected) in
        [("~/.app/keys", true), ("/usr/share", false), ("~/elsewhere", false), ("~", false)]
    {
        assert_eq!(hide.contains(&path), expected, "{path}: {hide:?}");
    }
    let execute = list(&profile, "filesystem.execute");
    for (path, expected) in [
        ("~/Pictures", true),
        ("/usr/share/app", true),
        ("/usr/bin/env", true),
        ("/usr/bin/true", true),
        ("/usr/lib", true),
        ("/usr/share", false),
        ("/usr/bin", false),
        ("/usr", false),
    ] {
        assert_eq!(execute.contains(&path), expected, "{path}: {execute:?}");
    }
    let read = list(&profile, "filesystem.read");
    assert!(!read.contains(&"/sys") && !read.contains(&"/run/user/${uid}/pulse"), "{read:?}");
    assert_eq!(list(&profile, "environment.keep"), ["DISPLAY", "XAUTHORITY", "WAYLAND_DISPLAY"]);
    let left_out = reasons(&report, "left_out");
    assert_eq!(left_out.len(), 1, "{left_out:?}");
    assert_eq!(left_out[0].0, "whitelist ${HOME}");
    assert_eq!(
        at(&profile, "dbus.session").as_str(),
        Some("none"),
        "its socket isn't among what is whitelisted"
    );
    let silent = world.write("foreign/silent.profile", "net none\n");
    let (profile, report) = world.imported("firejail", &silent, &[]);
    // The profile doesn't mention the bus, so firejail leaves it open.
    assert_eq!(at(&profile, "dbus.session").as_str(), Some("filtered"));
    assert!(report["text"].as_str().unwrap().contains("Name the services that the program needs."));
}

#[test]
fn what_is_named_is_still_taken_away_by_what_follows() {
    let world = World::new();
    let file = world.write(
        "foreign/app.profile",
        "private-etc fonts,passwd\nprivate-opt app\nprivate-bin env,true\nblacklist /etc/fonts/conf.d\n\
         blacklist /etc/passwd\nblacklist /opt/app/secret\nblacklist /usr/bin/env\nread-only /mnt\nread-write /mnt\n\
         read-write /usr/share/x\nhosts-file ${HOME}/hosts\nblacklist ${RUNUSER}\n",
    );
    let (profile, report) = world.imported("firejail", &file, &[]);
    let has = |path: &str, value: &str| list(&profile, path).contains(&value);
    for (path, value, expected) in [
        ("filesystem.read", "/etc/fonts", true),
        ("filesystem.read", "/etc/passwd", false),
        ("filesystem.hide", "/etc/passwd", true),
        ("filesystem.hide", "/etc/fonts/conf.d", true),
        ("filesystem.hide", "/etc/hosts", false),
        ("filesystem.read", "~/hosts=/etc/hosts", true),
        ("filesystem.execute", "/opt/app", true),
        ("filesystem.execute", "/opt", false),
        ("filesystem.hide", "/opt/app/secret", true),
        ("filesystem.execute", "/usr/bin/true", true),
        ("filesystem.execute", "/usr/bin/env", false),
        ("filesystem.write", "/mnt", false),
        ("filesystem.write", "/usr/share/x", false),
        ("filesystem.read", "${XAUTHORITY}", false),
        ("filesystem.write", "/run/user/${uid}/pulse/native", false),
        ("filesystem.write", "/run/user/${uid}/${WAYLAND_DISPLAY}", false),
    ] {
        assert_eq!(has(path, value), expected, "{path}: {value} in {profile}");
    }
    assert_eq!(at(&profile, "dbus.session").as_str(), Some("none"));
    let left_out = reasons(&report, "left_out");
    let named: Vec<&str> = left_out.iter().map(|(statement, _)| statement.as_str()).collect();
    assert_eq!(named, ["read-write /mnt", "read-write /usr/share/x"]);
}
