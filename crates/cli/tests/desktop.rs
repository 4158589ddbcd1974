// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade desktop`: what it makes in a home, what it refuses, and that undoing it leaves nothing.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

pub(crate) mod world;

use std::fs::Permissions;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use world::{APP, Answer, World};

#[test]
fn enabled_shown_and_disabled_without_a_trace() {
    let world = World::with_entry();
    let before = world.tree();
    let enabled = world.done(&["enable", "app", "--service"]);
    assert_eq!(enabled.out, "", "words aren't data");
    assert!(enabled.err.contains("hint: systemctl --user enable --now palisade-app.service"), "{enabled:?}");
    assert_eq!(std::fs::read_link(world.home(".local/bin/app")).unwrap(), world.palisade());
    let entry = world.read(".local/share/applications/app.desktop");
    let palisade = world.palisade().display().to_string();
    assert!(entry.contains(&format!("\nExec=\"{palisade}\" open app -- --started %U\n")), "{entry}");
    assert!(entry.contains(&format!("\nExec=\"{palisade}\" open app -- --new-window\n")), "{entry}");
    assert!(
        entry.contains(&format!("\nTryExec={palisade}\n")) && entry.contains("\nMimeType=application/pdf;\n")
    );
    assert!(!entry.contains("DBusActivatable"), "{entry}");

    let status = world.done(&["status"]);
    assert!(status.out.starts_with("app: enabled\n  link           /"), "{status:?}");
    let (code, json) = world.json(&["status", "app"]);
    assert_eq!(code, 0);
    let application = &json["applications"][0];
    assert_eq!((&application["enabled"], &application["intact"]), (&true.into(), &true.into()), "{json}");
    assert_eq!(application["files"].as_array().unwrap().len(), 3);
    assert_eq!(application["files"][1]["kind"], "desktop-entry");

    let enabled = world.tree();
    world.done(&["enable", "app", "--service"]);
    assert_eq!(world.tree(), enabled, "once more changes nothing");
    let disabled = world.done(&["disable", "app"]);
    assert!(disabled.err.contains("systemctl --user disable --now palisade-app.service"), "{disabled:?}");
    assert_eq!(world.tree(), before);
    assert_eq!(world.run(&["status", "app"]).code, 1);
    assert_eq!(world.run(&["disable", "app"]).code, 1);
    assert_eq!(world.run(&["disable", "--all"]).code, 1);
    assert_eq!(world.run(&["status"]).code, 0);
    assert_eq!(world.tree(), before);
}

#[test]
fn names_that_are_no_profiles_are_refused() {
    let world = World::new();
    world.profile("-x");
    world.profile("palisade");
    world.profile("x.toml");
    world.write("home/profile.toml", "schema = 1\n");
    let before = world.tree();
    let near = world.run(&["enable", "apq"]);
    assert_eq!(near.code, 2);
    assert!(near.err.contains("hint: did you mean app?"), "{near:?}");
    for name in ["a/b", "../app", "./home/profile.toml", "", ".", "palisade", "x.toml", "app\u{1b}[2J"] {
        for verb in ["enable", "disable", "status"] {
            let answer = world.run(&[verb, name]);
            assert_eq!(answer.code, 2, "{verb} {name:?}: {answer:?}");
            assert!(answer.err.contains("\nhint: ") && !answer.err.contains('\u{1b}'), "{answer:?}");
        }
    }
    assert_eq!(world.run(&["enable", "--", "-x"]).code, 2);
    let mut odd = world.command(&["enable"]);
    let odd = odd.arg(std::ffi::OsString::from_vec(b"app\xff".to_vec())).output().unwrap();
    assert_eq!(odd.status.code(), Some(2));
    for wrong in
        [&["enable"][..], &["disable"], &["disable", "app", "--all"], &["enable", "app", "--mime", "pdf"]]
    {
        assert_eq!(world.run(wrong).code, 2, "{wrong:?}");
    }
    assert_eq!(world.tree(), before);
}

#[test]
fn without_an_entry_there_is_the_link_and_one_can_be_made() {
    let world = World::new();
    let link = world.done(&["enable", "app"]);
    assert!(
        link.err.contains("there is only the link; `palisade desktop enable app --create` makes one"),
        "{link:?}"
    );
    assert!(!world.home(".local/share").exists());
    assert_eq!(world.run(&["enable", "app", "--mime", "a/b"]).code, 2);
    world.done(&["enable", "app", "--create"]);
    let entry = world.read(".local/share/applications/app.desktop");
    assert!(entry.contains("\nName=app\nIcon=app\n"), "{entry}");
    // Renewed as it was asked for.
    std::fs::remove_file(world.home(".local/bin/app")).unwrap();
    let (code, json) = world.json(&["status", "app"]);
    assert_eq!((code, &json["applications"][0]["files"][0]["state"]), (1, &"missing".into()));
    assert_eq!(json["applications"][0]["again"], "palisade desktop enable app --create");
    assert_eq!(world.shell("palisade desktop enable app --create").code, 0);
    assert_eq!(world.run(&["status", "app"]).code, 0);
}

#[test]
fn entries_that_cannot_be_used_are_named_and_one_can_be_made() {
    let bad: [(&str, Vec<u8>); 7] = [
        ("larger than 1048576 bytes", vec![b'x'; 10 << 20]),
        ("no UTF-8", b"[Desktop Entry]\nType=Application\nExec=app \xff\n".to_vec()),
        ("no Exec", b"[Desktop Entry]\nType=Application\nName=x\n".to_vec()),
        ("a quote isn't closed", b"[Desktop Entry]\nType=Application\nExec=sh -c \"app\\\n".to_vec()),
        ("no group [Desktop Entry]", Vec::new()),
        ("its Type is", b"[Desktop Entry]\nType=Link\nURL=file:///\n".to_vec()),
        (
            "larger than",
            format!("[Desktop Entry]\nType=Application\nExec={}\n", "x".repeat(1 << 20)).into_bytes(),
        ),
    ];
    for (what, content) in bad {
        let world = World::new();
        world.write("share/applications/app.desktop", content);
        let before = world.tree();
        let answer = world.run(&["enable", "app"]);
        assert_eq!(answer.code, 2, "{what}: {answer:?}");
        assert!(answer.err.contains(what) && answer.err.contains("--create"), "{what}: {answer:?}");
        assert_eq!(world.tree(), before, "{what}");
        world.done(&["enable", "app", "--create"]);
        assert!(world.read(".local/share/applications/app.desktop").contains("open app -- %U"), "{what}");
    }
}

#[test]
fn places_that_are_no_files_keep_nobody_waiting() {
    let world = World::new();
    let applications = world.path("share/applications");
    std::fs::create_dir_all(applications.join("app.desktop")).unwrap();
    assert_eq!(world.run(&["enable", "app"]).code, 2, "a directory");
    std::fs::remove_dir(applications.join("app.desktop")).unwrap();
    symlink("/dev/zero", applications.join("app.desktop")).unwrap();
    assert_eq!(world.run(&["enable", "app"]).code, 2, "a device");
    std::fs::remove_file(applications.join("app.desktop")).unwrap();
    let made = Command::new("mkfifo").arg(applications.join("app.desktop")).status().unwrap();
    assert!(made.success());
    assert_eq!(world.run(&["enable", "app"]).code, 2, "a pipe");
    std::fs::remove_file(applications.join("app.desktop")).unwrap();
    symlink("app.desktop", applications.join("app.desktop")).unwrap();
    assert_eq!(world.run(&["enable", "app"]).code, 2, "a link to itself");
    // A link to a file is one, as on NixOS.
    std::fs::remove_file(applications.join("app.desktop")).unwrap();
    symlink(world.write("store/app.desktop", APP), applications.join("app.desktop")).unwrap();
    world.done(&["enable", "app"]);
    assert!(!world.home(".local/share/applications/app.desktop").is_symlink());
}

#[test]
fn what_is_in_the_way_is_never_overwritten() {
    let world = World::with_entry();
    world.write("home/.local/share/applications/app.desktop", "mine");
    world.write("home/.local/bin/app", "mine, too");
    let before = world.tree();
    let (code, json) = world.json(&["enable", "app"]);
    assert_eq!((code, &json["error"]["class"]), (2, &"in-the-way".into()));
    assert_eq!(world.tree(), before);
    // What the hint says works.
    let hint = json["error"]["hint"].as_str().unwrap();
    let forced = world.shell(hint);
    assert_eq!(forced.code, 0, "{hint}: {forced:?}");
    assert_eq!(world.read(".local/share/applications/app.desktop.palisade-saved"), "mine");
    let (code, json) = world.json(&["status", "app"]);
    let kept = json["applications"][0]["files"][0]["aside"].as_str();
    assert_eq!((code, kept), (0, world.home(".local/bin/app.palisade-saved").to_str()));
    world.done(&["disable", "app"]);
    assert_eq!(world.tree(), before);
}

#[test]
fn what_was_changed_is_left_and_named() {
    let world = World::with_entry();
    world.done(&["enable", "app"]);
    let entry = world.write("home/.local/share/applications/app.desktop", "changed");
    let status = world.run(&["status", "app"]);
    assert_eq!(status.code, 1);
    assert!(status.out.contains("changed since"), "{status:?}");
    assert_eq!(world.run(&["enable", "app"]).code, 2);
    let (code, json) = world.json(&["disable", "app"]);
    assert_eq!((code, &json["applications"][0]["left"][0]), (0, &entry.to_str().unwrap().into()));
    assert_eq!(std::fs::read(&entry).unwrap(), b"changed");
    assert!(!world.home(".local/bin").exists());
}

#[test]
fn a_newer_entry_of_the_systems_is_noticed_and_taken() {
    let world = World::with_entry();
    world.done(&["enable", "app"]);
    world.write("share/applications/app.desktop", APP.replace("--started", "--begun"));
    let (code, json) = world.json(&["status", "app"]);
    assert_eq!((code, &json["applications"][0]["files"][1]["state"]), (0, &"outdated".into()));
    world.done(&["enable", "app"]);
    assert!(world.read(".local/share/applications/app.desktop").contains("--begun"));
    assert_eq!(world.json(&["status", "app"]).1["applications"][0]["outdated"], false);
}

#[test]
fn a_home_that_cannot_be_written_stays_as_it_is() {
    const NOBODY: u32 = 65534;
    let world = World::new();
    let root = rustix::process::geteuid().is_root();
    let enable = || {
        let mut command = world.command(&["enable", "app"]);
        if root {
            command.uid(NOBODY).gid(NOBODY);
        }
        Answer::from(command.output().unwrap())
    };
    let allow =
        |path: &str, mode| std::fs::set_permissions(world.path(path), Permissions::from_mode(mode)).unwrap();
    allow("", 0o755);
    if root {
        let given = Command::new("chown").args(["-R", "65534:65534"]).arg(world.home("")).status().unwrap();
        assert!(given.success());
    }
    let before = world.tree();
    allow("home", 0o555);
    let refused = enable();
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.err.contains("can't make directory") && refused.err.contains("Permission denied"),
        "{refused:?}"
    );
    assert_eq!(world.tree(), before);
    // The list can be written, but not what it lists.
    allow("home", 0o777);
    std::fs::create_dir_all(world.home(".local/bin")).unwrap();
    std::os::unix::fs::chown(world.home(".local"), root.then_some(NOBODY), None).unwrap();
    allow("home", 0o755);
    allow("home/.local/bin", 0o555);
    let before = world.tree();
    let refused = enable();
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("can't make link"), "{refused:?}");
    assert_eq!(world.tree(), before);
    allow("home/.local/bin", 0o777);
    let enabled = enable();
    assert_eq!(enabled.code, 0, "{enabled:?}");
}

#[test]
fn a_path_that_cannot_be_written_everywhere_is_refused() {
    let world = World::new();
    let odd = world.path("a=b");
    std::fs::rename(world.path("a b"), &odd).unwrap();
    let mut command = Command::new(odd.join("palisade"));
    let answer =
        Answer::from(world.environment(command.args(["desktop", "enable", "app"])).output().unwrap());
    assert_eq!(answer.code, 2);
    assert!(answer.err.contains("the path contains =") && answer.err.contains("hint: install"), "{answer:?}");
}

#[test]
fn what_the_profile_says_of_its_application_counts() {
    let world = World::new();
    let profile = "schema = 1\n[program]\nid = \"org.x.App\"\npath = \"gone\"\nalternatives = [\"true\"]\n\
                   [configurations.clean.home]\npolicy = \"none\"\n";
    world.write("home/.config/palisade/profiles/app.toml", profile);
    world.write("share/applications/org.x.App.desktop", APP);
    world.write("share/applications/kind.desktop", APP.replace("=true ", "=/usr/bin/true "));
    let enabled = world.done(&["enable", "app"]);
    assert!(
        enabled.err.contains("1 other desktop entry starts its program without Palisade (kind.desktop)"),
        "{enabled:?}"
    );
    let entry = world.read(".local/share/applications/org.x.App.desktop");
    assert!(entry.contains("\nActions=new;palisade-clean;\n"), "{entry}");
    assert!(entry.contains(" open --config clean app -- --started %U\n"), "{entry}");
    world.done(&["enable", "app", "--separate"]);
    assert!(!world.read(".local/share/applications/org.x.App.desktop").contains("--config"));
    let clean = world.read(".local/share/applications/palisade-app-clean.desktop");
    assert!(
        clean.contains("\nName=App (clean)\n") && clean.contains(" open --config clean app -- "),
        "{clean}"
    );
}

#[test]
fn others_that_start_the_program_are_named_and_can_be_taken() {
    let world = World::with_entry();
    for number in 1..=4 {
        let entry = format!(
            "[Desktop Entry]\nType=Application\nName=x\nExec=app --kind{number} %f\nNoDisplay=true\n"
        );
        world.write(&format!("share/applications/kind{number}.desktop"), entry);
    }
    let enabled = world.done(&["enable", "app"]);
    assert!(
        enabled.err.contains("4 other desktop entries start its program without Palisade (kind1.desktop, "),
        "{enabled:?}"
    );
    world.done(&["enable", "app", "--others"]);
    assert!(world.read(".local/share/applications/kind4.desktop").contains("open app -- --kind4 %f\n"));
    world.done(&["enable", "app"]);
    assert!(!world.home(".local/share/applications/kind4.desktop").exists());
}

#[test]
fn killed_at_any_time_the_next_call_puts_things_right() {
    let world = World::with_entry();
    world.write("home/.config/mimeapps.list", "[Default Applications]\na/b=x.desktop\n");
    world.write("home/.local/share/applications/app.desktop", "mine");
    // What has no list yet can leave the list's directories.
    std::fs::create_dir_all(world.home(".local/state")).unwrap();
    let before = world.tree();
    let enable = ["enable", "app", "--force", "--service", "--mime", "application/pdf"];
    world.done(&enable);
    let enabled = world.tree();
    world.done(&["disable", "app"]);
    let mut killed = 0;
    for round in 0..60u64 {
        let arguments = if round % 2 == 0 { &enable[..] } else { &["disable", "app"] };
        if round % 2 == 1 {
            world.done(&enable);
        }
        let mut child = world.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500 * (round / 2 % 30)));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        if round % 4 < 2 {
            world.done(&enable);
            assert_eq!(world.tree(), enabled, "round {round}");
        }
        let _maybe_nothing = world.run(&["disable", "app"]);
        assert_eq!(world.tree(), before, "round {round}");
    }
    assert!(killed > 0);
}

#[test]
fn names_of_files_cannot_steer_the_terminal() {
    let world = World::with_entry();
    world.write(
        "share/applications/\u{1b}[2J.desktop",
        "[Desktop Entry]\nType=Application\nName=x\nExec=app\n",
    );
    let enabled = world.done(&["enable", "app"]);
    assert!(enabled.err.contains("1 other") && !enabled.err.contains('\u{1b}'), "{enabled:?}");
    let enabled = world.done(&["enable", "app", "--others"]);
    assert!(!enabled.err.contains('\u{1b}'), "{enabled:?}");
    let status = world.done(&["status"]);
    assert!(!status.out.contains('\u{1b}'), "{status:?}");
}
