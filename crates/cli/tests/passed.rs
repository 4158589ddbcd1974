// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that a sandbox shows the files named by an application's arguments and by session variables, and no other files.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should panic, in its small functions too")]

use crate::support::{Place, Run, everybody, job, root};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

/// An application that shows what it is given, and what else is there.
fn reader(place: &Place, mode: &str, more: &str) {
    let body = format!(
        "schema = 1\nname = \"app\"\n[program]\npath = \"sh\"\npass_files = \"{mode}\"\n{more}\n\
         [closure]\nprograms = [\"cat\", \"ls\", \"tee\"]\n"
    );
    place.write(".config/palisade/profiles/app.toml", body);
}

fn open(place: &Place, options: &[&str], line: &str, argument: &Path) -> Run {
    let mut command = place.command(place.binary());
    command.arg("open").args(options).args(["app", "-c", line, "x"]).arg(argument);
    job::finish(&mut command)
}

/// The command of a hint, as words in front of `app`.
fn hinted(run: &Run) -> Vec<String> {
    let hint = run.err.lines().find_map(|line| line.strip_prefix("hint: palisade open ")).unwrap();
    let words = hint.split(" …").next().unwrap();
    words.split(' ').map(str::to_owned).collect()
}

const SHOW: &str =
    "cat \"$1\" 2>/dev/null; ls -A \"$1\" 2>/dev/null; cat ~/.ssh/id ~/private/file 2>/dev/null; true";

/// A sandboxed command has replaced a file in its working directory by a link.
#[test]
fn a_link_that_leads_out_of_the_working_directory_is_not_followed() {
    for place in everybody() {
        reader(&place, "read", "");
        place.write(".ssh/id", "key");
        let notes = place.write("private/file", "notes");
        let report = place.write("work/report.pdf", "report");
        let show = || open(&place, &[], SHOW, Path::new("report.pdf"));
        for _cold_and_hot in 0..2 {
            assert!(show().ok().starts_with("report"), "as it is");
        }
        for (target, seen) in [("../.ssh", "id"), ("../.ssh/id", "key"), ("../private/file", "notes")] {
            let line = format!("rm -rf report.pdf; ln -s {target} report.pdf");
            place.sh(&[], &line).ok();
            let run = show();
            assert!(!run.out.contains(seen) && !run.out.contains("key"), "{target}: {run:?}");
            if target != "../.ssh" {
                let real = place.home.join(target.trim_start_matches("../"));
                run.refused(125, &[report.to_str().unwrap(), real.to_str().unwrap()]).with_hint();
            }
        }
        // The option that the hint names permits this one target.
        let options = hinted(&show());
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let run = open(&place, &options, SHOW, Path::new("report.pdf"));
        assert!(run.ok().starts_with("notes") && !run.out.contains("key"), "{run:?}");
        assert!(options.contains(&notes.to_str().unwrap()), "{options:?}");
        // One that stays within is followed, and so is one above.
        place.write("work/other.pdf", "other");
        place.outside("ln -sfn other.pdf ~/work/report.pdf; ln -s ~/work ~/above");
        assert!(show().ok().starts_with("other"), "{:?}", show());
        let above = place.home.join("above/other.pdf");
        assert!(open(&place, &[], SHOW, &above).ok().starts_with("other"));
    }
}

/// A plan that is kept for a link isn't used when the link leads elsewhere.
#[test]
fn a_kept_plan_is_for_what_the_link_led_to() {
    for place in everybody() {
        reader(&place, "read", "");
        for name in ["one", "two"] {
            place.write(&format!("work/{name}"), name);
        }
        let turn = |target: &str| place.outside(&format!("ln -sfn {target} ~/work/report.pdf"));
        let shown = || open(&place, &[], "cat \"$1\"", Path::new("report.pdf")).out;
        place.undisturbed(|| {
            place.forget_plans();
            for target in ["one", "two", "one"] {
                turn(target);
                for _cold_and_hot in 0..3 {
                    if shown() != target {
                        return Err(format!("{target} isn't shown"));
                    }
                }
            }
            Ok(())
        });
    }
}

#[test]
fn directories_are_passed_only_where_the_profile_says_so() {
    for place in everybody() {
        place.write("docs/file", "file");
        let docs = place.home.join("docs");
        let show = |options: &[&str]| open(&place, options, "ls \"$1\"; cat \"$1/file\"", &docs);
        reader(&place, "read", "");
        for _cold_and_hot in 0..2 {
            let run = show(&[]);
            assert!(!run.out.contains("file") && run.err.contains("docs is a directory"), "{run:?}");
        }
        let note = show(&[])
            .err
            .lines()
            .find_map(|line| line.split_once("to show it: palisade open "))
            .map_or_else(String::new, |(_before, option)| option.trim_end_matches(" …").to_owned());
        let options: Vec<&str> = note.split(' ').collect();
        assert_eq!(show(&options).out, "file\nfile", "{options:?}");
        reader(&place, "read", "pass_directories = true");
        assert_eq!(show(&[]).out, "file\nfile");
        // A path that the user's policy denies stays denied below it.
        place.write("docs/private/key", "key");
        let policy = "schema = 1\n[filesystem]\ndeny = [\"~/docs/private\"]\nhide = [\"~/docs/*.env\"]\n";
        place.write("docs/x.env", "key");
        place.write(".config/palisade/config.toml", policy);
        let run = open(
            &place,
            &[],
            "ls \"$1\" \"$1/private\"; cat \"$1\"/*/key \"$1/x.env\"; cat \"$1/file\"",
            &docs,
        );
        assert!(run.out.ends_with("file") && !run.out.contains("key"), "{run:?}");
        // All of it by a link in the working directory isn't.
        place.outside("ln -s ~ ~/work/all");
        let run = open(&place, &[], SHOW, Path::new("all"));
        run.refused(125, &["work/all", "leads out"]).with_hint();
    }
}

/// The home holds keys, and what other programs obey: naming it isn't enough.
#[test]
fn the_home_is_not_passed() {
    for place in everybody() {
        place.write(".ssh/id", "key");
        place.write("docs/file", "file");
        reader(&place, "write", "pass_directories = true\n[home]\npolicy = \"private\"");
        let above = place.home.parent().unwrap().to_owned();
        let name = place.home.file_name().unwrap().to_str().unwrap().to_owned();
        let link = place.home.join("docs/home");
        symlink("..", &link).unwrap();
        for (directory, below, said) in [
            (place.home.as_path(), String::new(), "is your home, which isn't passed"),
            (&above, format!("/{name}"), "holds your home, and isn't passed"),
            (&link, String::new(), "is your home, which isn't passed"),
        ] {
            let line = format!("cat \"$1{below}/.ssh/id\"; echo x >\"$1{below}/made\"; true");
            for _cold_and_hot in 0..2 {
                let run = open(&place, &[], &line, directory);
                assert!(!run.out.contains("key") && run.err.contains(said), "{directory:?}: {run:?}");
                assert!(!place.home.join("made").exists(), "{directory:?}: {run:?}");
            }
            // By the option that it names it is shown.
            let run = open(&place, &[], "true", directory);
            let note =
                run.err.lines().find_map(|line| line.split_once("to show it: palisade open ")).unwrap().1;
            let options: Vec<&str> = note.trim_end_matches(" …").split(' ').collect();
            assert!(open(&place, &options, &line, directory).out.starts_with("key"), "{options:?}");
            std::fs::remove_file(place.home.join("made")).unwrap();
        }
        assert_eq!(open(&place, &[], "cat \"$1/file\"", &place.home.join("docs")).ok(), "file");
    }
}

#[test]
fn what_the_policy_denies_is_not_passed() {
    for place in everybody() {
        place.write("private/file", "notes");
        place.write("open.txt", "open");
        place.outside("ln -s ~/private ~/other");
        let file = place.home.join("private/file");
        for (mode, list, name) in [
            ("read", "deny", "private"),
            ("write", "hide", "private"),
            ("read", "deny", "other"),
            ("write", "deny", "private/*"),
        ] {
            reader(&place, mode, "");
            let policy = format!("schema = 1\n[filesystem]\n{list} = [\"~/{name}\"]\n");
            place.write(".config/palisade/config.toml", policy);
            for _twice in 0..2 {
                let run = open(&place, &[], SHOW, &file);
                run.refused(125, &["private/file", list, "config.toml"]).with_hint();
                assert!(!run.out.contains("notes"), "{run:?}");
            }
            let options = hinted(&open(&place, &[], SHOW, &file));
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            assert!(open(&place, &options, SHOW, &file).out.starts_with("notes"), "{name}: {options:?}");
            assert!(open(&place, &[], SHOW, &place.home.join("open.txt")).ok().starts_with("open"));
        }
    }
}

/// What an administrator has locked isn't passed, by whatever name, and no option is proposed that would be refused.
#[test]
fn a_lock_holds_over_what_is_passed() {
    let Some(place) = root() else { return };
    let file = place.write("private/file", "notes");
    let whole = place.home.join("private");
    place.outside("ln -s ~/private ~/other; ln -s ~/private/file ~/link");
    let with = |config: &str, options: &[&str], line: &str, argument: &Path| {
        let mut palisade = place.administered(config);
        palisade.arg("open").args(options).args(["app", "-c", line, "x"]).arg(argument);
        job::finish(&mut palisade)
    };
    reader(&place, "write", "pass_directories = true");
    let show = "cat \"$1\" \"$1/file\" 2>/dev/null; true";
    for lock in [
        "deny = [\"~/private\"]",
        "hide = [\"~/private/file\"]",
        "deny = [\"~/other\"]",
        "deny = [\"~/link\"]",
    ] {
        let lock = format!("[locked.filesystem]\n{lock}\n");
        for given in [file.clone(), place.home.join("other/file"), place.home.join("link")] {
            assert_eq!(with("", &[], show, &given).ok(), "notes");
            for _twice in 0..2 {
                let run = with(&lock, &[], show, &given);
                assert!(!run.out.contains("notes"), "{lock} {given:?}: {run:?}");
                run.refused(125, &["private/file", ", locked (/etc/palisade/config.toml"]);
                assert!(!run.err.contains("--rw") && !run.err.contains("--ro"), "{lock} {given:?}: {run:?}");
            }
            let run = with(&lock, &["--rw", file.to_str().unwrap()], show, &given);
            assert!(!run.out.contains("notes"), "{lock} {given:?}: {run:?}");
        }
        // A file in a directory that is passed stays locked, too.
        assert_eq!(with("", &[], show, &whole).ok(), "notes");
        let run = with(&lock, &[], show, &whole);
        assert!(!run.out.contains("notes"), "{lock}: {run:?}");
    }
    // A file that is locked to read-only isn't written.
    let lock = "[locked.filesystem]\nread = [\"~/private\"]\n";
    for given in [&file, &place.home.join("link")] {
        let write = "echo more >>\"$1\"";
        let run = with(lock, &[], write, given);
        assert_ne!(run.code, 0, "{given:?}: {run:?}");
        assert_eq!(place.read("private/file"), "notes", "{given:?}");
    }
    assert_eq!(with("", &[], "echo more >>\"$1\"; cat \"$1\"", &file).ok(), "notesmore");
}

/// `WAYLAND_DISPLAY=/home/ann` doesn't show a home.
#[test]
fn variables_show_sockets_and_files_only() {
    for place in everybody() {
        place.write("private/file", "notes");
        place.write("cookie", "cookie");
        let directory = place.home.join("private");
        let socket = place.home.join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        std::os::unix::fs::chown(&socket, Some(place.uid), None).unwrap();
        reader(&place, "none", "");
        let with = |feature: &str, variable: &str, value: &Path| {
            let mut command = place.command(place.binary());
            command.env("XDG_RUNTIME_DIR", place.home.join("run")).env(variable, value);
            let line = "cat \"$1/file\"; ls -d \"$1\"";
            command.args(["open", "--feature", feature, "app", "-c", line, "x"]).arg(value);
            job::finish(&mut command)
        };
        for (feature, variable) in
            [("wayland", "WAYLAND_DISPLAY"), ("ssh-agent", "SSH_AUTH_SOCK"), ("xorg", "XAUTHORITY")]
        {
            for _cold_and_hot in 0..2 {
                let run = with(feature, variable, &directory);
                assert!(!run.out.contains("notes"), "{variable}: {run:?}");
                let said = format!("{} isn't shown: {variable} names it", directory.display());
                assert!(run.err.contains(&said), "{run:?}");
            }
            let meant = if variable == "XAUTHORITY" { place.home.join("cookie") } else { socket.clone() };
            assert_eq!(with(feature, variable, &meant).out.trim(), meant.to_str().unwrap(), "{variable}");
        }
        // A socket that comes after the launch isn't shown, and the user hears why.
        let late = place.home.join("late");
        for _cold_and_hot in 0..2 {
            let run = with("ssh-agent", "SSH_AUTH_SOCK", &late);
            let said =
                format!("feature ssh-agent: SSH_AUTH_SOCK names {}, which does not exist", late.display());
            assert!(run.err.contains(&said), "{run:?}");
        }
        std::fs::rename(&socket, &late).unwrap();
        let run = with("ssh-agent", "SSH_AUTH_SOCK", &late);
        assert!(run.out.trim() == late.to_str().unwrap() && !run.err.contains("does not exist"), "{run:?}");
        let unset = with("wayland", "SSH_AUTH_SOCK", &late);
        let said =
            "feature wayland does nothing here: its condition `variable WAYLAND_DISPLAY` does not hold";
        assert!(unset.err.contains(said), "{unset:?}");
        // A link to a directory counts as a directory.
        let link = place.home.join("link");
        symlink(&directory, &link).unwrap();
        assert!(!with("wayland", "WAYLAND_DISPLAY", &link).out.contains("notes"));
        // A bus address that names a directory doesn't show the directory either.
        let mut command = place.palisade(&["--bus", "host"], &["cat"]);
        command.arg(directory.join("file"));
        command.env("DBUS_SESSION_BUS_ADDRESS", format!("unix:path={}", directory.display()));
        let run = job::finish(&mut command);
        assert!(!run.out.contains("notes") && run.err.contains("is no socket"), "{run:?}");
    }
}
