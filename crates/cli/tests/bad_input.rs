// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests invalid requests: the exit code of the error class, a message that names operation, object and
//! cause, a hint, and no started command. For a broken environment: `bad_surroundings.rs`.

use crate::support::job::Run;
use crate::support::{self, Place, everybody, job};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

/// Runs `palisade run WORDS…`, where a command that did start would leave the file `started`.
fn run(place: &Place, words: &[&str]) -> support::Run {
    job::finish(place.command(place.binary()).arg("run").args(words))
}

/// A command that must not run.
const NEVER: [&str; 3] = ["sh", "-c", "touch started"];

/// It is refused with 125, saying `words` and what to do; nothing has been started.
fn refused(place: &Place, options: &[&str], words: &[&str]) -> Run {
    let run = place.run(options, &NEVER);
    run.refused(125, words).with_hint();
    assert!(!place.work.join("started").exists(), "started with {options:?}");
    place.assert_all_dead();
    run
}

#[test]
fn no_command() {
    for place in everybody() {
        run(&place, &["--"]).refused(125, &["no command"]).with_hint();
        run(&place, &[]).refused(125, &["no command"]).with_hint();
        run(&place, &["--ro", "/usr"]).refused(125, &["no command"]).with_hint();
    }
}

#[test]
fn a_command_that_is_not_there() {
    for place in everybody() {
        run(&place, &["--", "no-such-command"]).refused(127, &["no-such-command", "not found"]).with_hint();
        run(&place, &["--", "./no/such"]).refused(127, &["./no/such", "not found"]).with_hint();
        run(&place, &["--", ""]).refused(127, &["run", "not found"]).with_hint();
        run(&place, &["--", "/etc/passwd/x"]).refused(127, &["/etc/passwd/x", "not found"]).with_hint();
        // Also when the plan is kept.
        run(&place, &["--", "no-such-command"]).refused(127, &["no-such-command", "not found"]).with_hint();
    }
}

#[test]
fn a_command_that_is_not_one() {
    for place in everybody() {
        place.write("work/data", "text");
        place.write("work/directory/in", "");
        for command in ["./data", "./directory", "/etc", "/etc/passwd"] {
            run(&place, &["--", command]).refused(126, &[command, "ermission denied"]).with_hint();
        }
        for (name, content, code) in [
            ("bare", "echo\n", 126),
            ("dangling", "#!/no/such/interpreter\n", 127),
            ("garbage", "\x7fELF garbage", 126),
            ("empty", "", 126),
        ] {
            let path = place.write(&format!("work/{name}"), content);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            let command = format!("./{name}");
            run(&place, &["--", &command]).refused(code, &[&command]).with_hint();
        }
    }
}

#[test]
fn a_missing_interpreter_is_named() {
    for place in everybody() {
        let path = place.write("work/script", "#!/no/such/interpreter -x\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        run(&place, &["--", "./script"]).refused(127, &["./script", "/no/such/interpreter"]).with_hint();
    }
}

#[test]
fn options_that_are_none() {
    for place in everybody() {
        refused(&place, &["--no-such-option"], &["--no-such-option"]);
        refused(&place, &["--rwx", "/"], &["--rwx"]);
        refused(&place, &["--net", "wlan"], &["wlan", "none", "host"]);
        refused(&place, &["--view", "everything"], &["closure", "system", "host"]);
        refused(&place, &["--uid", "me"], &["me"]);
        refused(&place, &["--uid", "4294967296"], &["4294967296"]);
        refused(&place, &["--uid"], &["--uid"]);
        refused(&place, &["--status-fd", "x"], &["x"]);
        refused(&place, &["--status-fd", "77"], &["--status-fd"]);
        refused(&place, &["--limit", "memory"], &["memory", "="]);
        refused(&place, &["--limit", "memroy=1G"], &["memroy=1G", "memory"]);
        refused(&place, &["--limit", "memory=lots"], &["memory=lots"]);
        refused(&place, &["--env", "NAME"], &["NAME", "="]);
        refused(&place, &["--namespaces", "some"], &["some"]);
    }
}

#[test]
fn options_that_contradict() {
    for place in everybody() {
        let both = run(&place, &["-c", "true", "--", "true"]);
        both.refused(125, &["-c"]).with_hint();
        // The last one wins where there is a pair.
        assert_eq!(place.run(&["--timings", "--no-timings"], &["true"]).err, "");
        assert_eq!(place.run(&["--verbose", "--quiet"], &["true"]).err, "");
    }
}

#[test]
fn values_that_cannot_be() {
    for place in everybody() {
        for (option, value) in [
            ("--hostname", ""),
            ("--hostname", "two words"),
            ("--hostname", &"x".repeat(65)),
            ("--env", "=value"),
            ("--ro", ""),
            ("--tmpfs", ""),
            ("--cwd", ""),
            ("--plan", "no-such-plan"),
            ("--profile", "./no-such-profile.toml"),
            ("--uid", "4294967295"),
        ] {
            let run = place.run(&[option, value], &NEVER);
            run.refused(125, &[]);
            assert!(!place.work.join("started").exists(), "started with {option} {value:?}");
        }
    }
}

#[test]
fn paths_that_are_not_there() {
    for place in everybody() {
        for option in ["--ro", "--rw"] {
            refused(&place, &[option, "missing"], &["missing", "doesn't exist", option]);
            refused(&place, &[option, "missing/nested/path"], &["missing/nested/path", "doesn't exist"]);
            refused(&place, &[option, "/etc/passwd/x"], &["/etc/passwd/x", "doesn't exist"]);
        }
        refused(&place, &["--ro", "/usr=/etc/no-such-place"], &["/etc/no-such-place"]);
        // What isn't there needn't be hidden.
        assert_eq!(place.run(&["--hide", "missing", "--deny", "missing"], &["true"]).code, 0);
        // A glob may stand for nothing.
        assert_eq!(place.run(&["--ro", "*.none"], &["true"]).code, 0);
    }
}

#[test]
fn a_working_directory_that_cannot_be() {
    for place in everybody() {
        refused(&place, &["--cwd", "/no/such/directory"], &["/no/such/directory", "working directory"]);
        refused(&place, &["--cwd", "/etc/passwd"], &["/etc/passwd", "working directory"]);
        // There, but not shown.
        let secret = place.home.join("secret");
        std::fs::create_dir(&secret).unwrap();
        refused(&place, &["--cwd", secret.to_str().unwrap()], &["secret", "working directory"]);
        assert_eq!(place.run(&["--cwd", "/usr/share"], &["pwd"]).ok(), "/usr/share");
    }
}

#[test]
fn profiles_that_are_none() {
    for place in everybody() {
        let profile = place.write("profile.toml", "");
        let name = profile.to_str().unwrap();
        for (content, word) in [
            ("schema = 1\n[filesystem]\nraed = []\n", "read"),
            ("schema = 99\n", "schema"),
            ("[filesystem\n", "profile.toml"),
            ("schema = 1\n[locked.network]\nmode = \"host\"\n", "locked"),
        ] {
            std::fs::write(&profile, content).unwrap();
            let run = refused(&place, &["--profile", name], &["profile.toml", word]);
            // The wrong line is shown on a line of its own.
            assert!(run.err.lines().count() > 5 && !run.err.contains("\\n"), "{run:?}");
        }
        std::fs::write(&profile, [0xff, 0xfe, 0]).unwrap();
        place.run(&["--profile", name], &NEVER).refused(125, &["profile.toml", "UTF-8"]);
        std::fs::remove_file(&profile).unwrap();
        std::fs::File::create(&profile).unwrap().set_len(100 << 20).unwrap();
        place.run(&["--profile", name], &NEVER).refused(125, &["profile.toml", "larger than"]);
        if !place.is_root() {
            std::fs::set_permissions(&profile, std::fs::Permissions::from_mode(0o000)).unwrap();
            refused(&place, &["--profile", name], &["profile.toml", "ermission denied"]);
        }
        refused(&place, &["--profile", place.work.to_str().unwrap()], &["work"]);
    }
}

#[test]
fn plans_that_are_none() {
    for place in everybody() {
        let plan = place.write("work/plan.json", "");
        for content in ["", "{}", "[1, 2", "{\"schema\": 1}", "\0\0"] {
            std::fs::write(&plan, content).unwrap();
            refused(&place, &["--plan", "plan.json"], &["plan.json", "read plan"]);
        }
        let good = place.run(&["--dry-run", "--json"], &["true"]);
        let other = good.ok().replacen("\"schema\": ", "\"schema\": 77", 1);
        assert_ne!(other, good.ok());
        std::fs::write(&plan, other).unwrap();
        refused(&place, &["--plan", "plan.json"], &["schema", "77"]);
        std::fs::remove_file(&plan).unwrap();
        std::fs::File::create(&plan).unwrap().set_len(100 << 20).unwrap();
        refused(&place, &["--plan", "plan.json"], &["plan.json"]);
    }
}

#[test]
fn strange_names_are_names() {
    for place in everybody() {
        for name in
            [&b"new\nline"[..], b"bad\xff\xfeutf8", b"quote'\"$(x)", b" ", b"-x", b"a=b", b"*", b"[a", b"\\"]
        {
            let directory = place.home.join(OsStr::from_bytes(name));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("in"), "there").unwrap();
            support::give(&place, &directory);
            // As the working directory.
            let mut palisade = place.palisade(&[], &["sh", "-c", "cat in; echo made >made"]);
            assert_eq!(job::finish(palisade.current_dir(&directory)).ok(), "there", "{directory:?}");
            assert_eq!(std::fs::read_to_string(directory.join("made")).unwrap(), "made\n");
            // As an argument.
            let mut palisade = place.palisade(&[], &["printf", "%s"]);
            let run = job::finish(palisade.arg(OsStr::from_bytes(name)));
            assert_eq!(run.out, String::from_utf8_lossy(name));
        }
    }
}

#[test]
fn strange_names_can_be_given() {
    for place in everybody() {
        for name in [&b"new\nline"[..], b"bad\xff\xfeutf8", b"quote'\"$(x)", b" "] {
            let directory = place.home.join(OsStr::from_bytes(name));
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(directory.join("in"), "there").unwrap();
            support::give(&place, &directory);
            for option in ["--ro", "--rw"] {
                let mut palisade = place.command(place.binary());
                palisade.arg("run").arg(option).arg(&directory).args([
                    "--",
                    "sh",
                    "-c",
                    "cat \"$1/in\"; touch \"$1/$2\"",
                    "sh",
                ]);
                let run = job::finish(palisade.arg(&directory).arg(option));
                assert_eq!(run.out, "there", "{option} {directory:?}: {run:?}");
                assert_eq!(directory.join(option).exists(), option == "--rw");
            }
        }
    }
}

#[test]
fn ten_thousand_paths() {
    for place in everybody() {
        for number in 0..100 {
            std::fs::create_dir(place.home.join(format!("d{number}"))).unwrap();
            for file in 0..100 {
                std::fs::write(place.home.join(format!("d{number}/f{file}")), "x").unwrap();
            }
        }
        let mut palisade = place.command(place.binary());
        palisade.arg("run");
        for number in 0..10_000 {
            palisade.arg("--ro").arg(place.home.join(format!("d{}/f{}", number / 100, number % 100)));
        }
        let run = job::finish(palisade.args(["--", "sh", "-c", "cat ~/d*/f* | wc -c"]));
        assert_eq!(run.ok(), "10000");
    }
}

#[test]
fn an_environment_as_large_as_the_kernel_takes() {
    for place in everybody() {
        let mut palisade = place.palisade(&[], &["sh", "-c", "env | wc -l; printf %s \"$BIG\" | wc -c"]);
        palisade.env("BIG", "x".repeat(120_000));
        for number in 0..5_000 {
            palisade.env(format!("VARIABLE_{number}"), "value of it");
        }
        let run = job::finish(&mut palisade);
        let lines: Vec<&str> = run.ok().lines().collect();
        assert!(lines[0].parse::<u32>().unwrap() >= 5_000, "{lines:?}");
        assert_eq!(lines[1], "120000");
    }
}

#[test]
fn a_thousand_arguments_and_a_long_one() {
    for place in everybody() {
        let long = "y".repeat(100_000);
        let mut palisade =
            place.palisade(&[], &["sh", "-c", "echo $#; eval \"printf %s \\\"\\${$#}\\\"\" | wc -c", "sh"]);
        let run = job::finish(palisade.args((0..1_000).map(|number| number.to_string())).arg(&long));
        assert_eq!(run.ok(), "1001\n100000");
    }
}
