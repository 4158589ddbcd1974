// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of `palisade wrap`: a command that is started by its name is confined, and afterwards isn't.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{PATH, Place, Run, everybody, has, job};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

fn wrap(place: &Place, words: &[&str]) -> Run {
    let mut command = place.command(place.binary());
    command.arg("wrap").args(words).env("PATH", format!("{}/bin:{PATH}", place.home.display()));
    job::finish(command.env("SHELL", "/bin/bash"))
}

fn links(place: &Place) -> PathBuf {
    place.home.join(".local/share/palisade/wrapped/bin")
}

/// A line of shell with the links first on `PATH`.
fn line(place: &Place, line: &str) -> Run {
    let path = format!("{}:{}/bin:{PATH}", links(place).display(), place.home.display());
    job::finish(place.command("sh").args(["-c", line]).env("PATH", path))
}

/// A program of the user's own, which the default view of a launch doesn't show by itself.
fn program(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.write(&format!("bin/{name}"), text);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_wrapped_command_is_confined_by_its_name() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        place.write("secret", "secret");
        assert_eq!(line(&place, "cat ~/secret").ok(), "secret");
        let made = wrap(&place, &["cat", "env"]);
        assert!(made.ok().contains("wrapped"), "{made:?}");
        assert!(made.err.contains("hint: palisade wrap --path"), "{made:?}");
        let refused = line(&place, "cat ~/secret");
        assert!(refused.code != 0 && !refused.out.contains("secret"), "{refused:?}");
        // Input, output, exit code and the program's own name are as ever.
        assert_eq!(line(&place, "echo a | cat - 2>&1").ok(), "a");
        assert_eq!(line(&place, "cat /none/x").code, 1);
        let environment = line(&place, "env");
        let path = environment.out.lines().find(|line| line.starts_with("PATH=")).unwrap();
        assert!(!path.contains("wrapped/bin"), "{path}");
        // Inside, the program itself runs.
        let inside = line(&place, "env cat /etc/hostname; env env true");
        assert_eq!(inside.code, 0, "{inside:?}");
        // By its path it isn't confined, and that is said in the help.
        assert_eq!(line(&place, "/usr/bin/cat ~/secret || /bin/cat ~/secret").ok(), "secret");

        let again = wrap(&place, &["cat"]);
        assert!(again.ok().contains("unchanged"), "{again:?}");
        let secret = place.home.join("secret");
        wrap(&place, &["--ro", secret.to_str().unwrap(), "cat"]).ok();
        assert_eq!(line(&place, "cat ~/secret").ok(), "secret");
        let list: Value = serde_json::from_str(wrap(&place, &["--list", "--json"]).ok()).unwrap();
        let words = list["commands"][0]["launch"].as_array().unwrap();
        assert_eq!(words[1], format!("--ro={}", secret.display()), "{list}");

        wrap(&place, &["--remove", "cat"]).ok();
        assert_eq!(line(&place, "cat ~/secret").ok(), "secret");
        assert!(wrap(&place, &["--list"]).ok().starts_with("env "));
        wrap(&place, &["--remove", "--all"]).ok();
        assert!(!place.home.join(".local/share/palisade/wrapped").exists());
        assert_eq!(wrap(&place, &["--remove", "--all"]).code, 1);
        assert!(wrap(&place, &["--list"]).ok().contains("nothing is wrapped"));
    }
}

#[test]
fn the_program_is_the_next_on_path_and_never_the_link() {
    if !has("userns") {
        return;
    }
    for place in everybody() {
        wrap(&place, &["env"]).ok();
        let links = links(&place);
        symlink(&links, place.home.join("same")).unwrap();
        let run = |path: String| {
            job::finish(place.command("timeout").args(["20", "sh", "-c", "env true"]).env("PATH", path))
        };
        let (links, home) = (links.display(), place.home.display());
        // The directory under another name, twice, and with a slash at its end.
        run(format!("{links}:{home}/same:{links}/:{PATH}")).ok();
        let only = job::finish(
            place
                .command(place.home.join("same/env"))
                .arg("true")
                .env("PATH", format!("{links}:{home}/same")),
        );
        only.refused(125, &["isn't on PATH any more"]).with_hint();
        // A second link to this program isn't the command's program.
        std::fs::create_dir(place.home.join("second")).unwrap();
        symlink(place.binary(), place.home.join("second/env")).unwrap();
        run(format!("{links}:{home}/second:{PATH}")).ok();
    }
}

#[test]
fn a_command_with_a_profile_is_opened_by_it() {
    for place in everybody() {
        program(&place, "npm", "#!/bin/sh\n");
        let made = wrap(&place, &["npm", "--allow", "registry.npmjs.org"]);
        assert!(made.ok().contains("palisade open --allow=registry.npmjs.org npm --"), "{made:?}");
        let made = wrap(&place, &["--profile", "read-only", "npm"]);
        assert!(made.ok().contains("palisade run --profile=read-only -- npm"), "{made:?}");
    }
}

#[test]
fn bad_names_and_places_are_errors_and_nothing_is_made() {
    for place in everybody() {
        for (name, words) in [
            ("a/b", "slash"),
            ("/bin/ls", "slash"),
            (".x", "dot"),
            ("bwrap", "something else"),
            ("palisade", "something else"),
            ("palisade-line", "something else"),
            ("no-such-program-7", "no such program"),
            ("", "empty"),
        ] {
            wrap(&place, &["ls", name]).refused(2, &[words]);
            assert!(!links(&place).exists(), "{name}");
        }
        wrap(&place, &["--allow", "a b", "ls"]).refused(2, &["a b"]);
        wrap(&place, &["--profile", "no-such", "ls"]).refused(2, &["no-such"]);
        wrap(&place, &["--remove", "ls"]).refused(2, &["isn't wrapped"]).with_hint();
        assert!(!links(&place).exists());

        // A file that isn't ours stays.
        for made in ["file", "link"] {
            let path = links(&place).join("ls");
            std::fs::create_dir_all(links(&place)).unwrap();
            match made {
                "file" => std::fs::write(&path, "mine").unwrap(),
                _ => symlink("/usr/bin/id", &path).unwrap(),
            }
            crate::support::give(&place, &place.home.join(".local"));
            wrap(&place, &["ls"]).refused(2, &["in the way"]).with_hint();
            assert!(path.symlink_metadata().is_ok());
            std::fs::remove_file(&path).unwrap();
        }
        // Others can write to the directory.
        std::fs::set_permissions(links(&place), PermissionsExt::from_mode(0o777)).unwrap();
        wrap(&place, &["ls"]).refused(2, &["isn't trusted"]).with_hint();
        std::fs::set_permissions(links(&place), PermissionsExt::from_mode(0o700)).unwrap();
        wrap(&place, &["ls"]).ok();
        // What others could have written isn't obeyed.
        let file = place.home.join(".local/share/palisade/wrapped/ls.json");
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
        line(&place, "ls").refused(125, &["isn't trusted"]).with_hint();
        std::fs::write(&file, "{").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        line(&place, "ls").refused(125, &["can't understand"]).with_hint();
        let unknown = job::finish(place.command(place.binary()).args(["wrap", "ls"]).env_remove("HOME"));
        assert!(unknown.code == 0 || unknown.code == 2, "{unknown:?}");
    }
}

#[test]
fn the_start_up_file_is_afterwards_as_it_was() {
    for place in everybody() {
        wrap(&place, &["env"]).ok();
        for old in [None, Some(""), Some("a=1\n"), Some("a=1"), Some("# >>> palisade wrap >>>\n")] {
            let path = place.home.join(".bashrc");
            match old {
                Some(old) => drop(place.write(".bashrc", old)),
                None => assert!(!path.exists()),
            }
            wrap(&place, &["--path"]).ok();
            let written = place.read(".bashrc");
            wrap(&place, &["--path"]).ok();
            assert_eq!(place.read(".bashrc"), written);
            let first = place.outside(". ~/.bashrc >/dev/null 2>&1; command -v env");
            assert_eq!(first.trim_end(), links(&place).join("env").to_str().unwrap());
            wrap(&place, &["--remove", "--path"]).ok();
            match old {
                Some(old) => assert_eq!(place.read(".bashrc"), old),
                None => assert!(!path.exists()),
            }
            let _made = std::fs::remove_file(path);
        }
        let mut unknown = place.command(place.binary());
        let run = job::finish(unknown.args(["wrap", "--path"]).env("SHELL", "/usr/bin/elvish"));
        run.refused(2, &["elvish"]).with_hint();
    }
}
