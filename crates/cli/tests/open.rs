// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests opening applications by their profiles: what starts, with which home, files and features, and its lifecycle hooks.

use crate::support::{Place, Run, eventually, everybody, job};

use palisade_acceptance::patience::pause;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;
use std::time::Duration;

const PROFILES: &str = ".config/palisade/profiles";
const FEATURES: &str = ".config/palisade/features";

/// Writes a profile.
fn profile(place: &Place, name: &str, body: &str) {
    place.write(&format!("{PROFILES}/{name}.toml"), format!("schema = 1\nname = \"{name}\"\n{body}"));
}

/// Writes a feature.
fn feature(place: &Place, name: &str, body: &str) {
    place.write(&format!("{FEATURES}/{name}.toml"), format!("schema = 1\nname = \"{name}\"\n{body}"));
}

fn open(place: &Place, arguments: &[&str]) -> Run {
    job::finish(place.command(place.binary()).arg("open").args(arguments))
}

/// An application that is a line of shell.
const SHELL: &str = "[closure]\nprograms = [\"cat\", \"mkdir\", \"sleep\"]\n[program]\npath = \"sh\"\n";

#[test]
fn what_is_started_is_what_the_profile_says() {
    for place in everybody() {
        let body = "[program]\npath = \"no-such-program\"\nalternatives = [\"nor-this\", \"sh\"]\n\
                    arguments = [\"-c\", 'echo \"$0 $*\"; exit 3', \"${name}/${id}\"]\nignore_exit = [3]\n\
                    wrapper = [\"env\", \"X=wrapped\"]\n";
        profile(&place, "app", body);
        for _cold_and_hot in 0..2 {
            let run = open(&place, &["app", "--quiet", "a b", "--"]);
            assert_eq!(run.ok(), "app/palisade.app --quiet a b --", "{run:?}");
        }
        let run = open(&place, &["--program", "printf", "app", "x"]);
        assert!(run.err.contains("printf"), "another program gets its arguments: {run:?}");
        profile(
            &place,
            "app",
            "[program]\npath = \"no-such-program\"\n[launch]\npackage = \"some-package\"\n",
        );
        let run = open(&place, &["app"]);
        run.refused(
            125,
            &["isn't on this host: tried no-such-program", "hint: palisade open --program PATH app"],
        );
        let run = open(&place, &["appp"]);
        run.refused(125, &["there is no profile \"appp\"", "did you mean app?"]).with_hint();
        // As a link that is called like it.
        profile(&place, "link-app", &format!("{SHELL}arguments = [\"-c\", 'echo \"linked $*\"', \"x\"]\n"));
        let link = place.home.join("link-app");
        symlink(place.binary(), &link).unwrap();
        let run = job::finish(place.command(&link).args(["--config", "y"]));
        assert_eq!(run.ok(), "linked --config y");
    }
}

/// The link of an enabled application comes first on the path, but isn't used as the application's program.
#[test]
fn a_link_to_this_program_is_never_the_program() {
    for place in everybody() {
        profile(&place, "uname", "");
        let bin = place.home.join("bin");
        std::fs::create_dir(&bin).unwrap();
        symlink(place.binary(), bin.join("uname")).unwrap();
        let path = format!("{}:/usr/bin:/bin", bin.display());
        for _cold_and_hot in 0..2 {
            let run = job::finish(place.command(bin.join("uname")).arg("-s").env("PATH", &path));
            assert_eq!(run.ok(), "Linux", "{run:?}");
        }
    }
}

#[test]
fn homes_are_as_the_policy_says() {
    for place in everybody() {
        place.write("secret", "secret");
        profile(&place, "app", SHELL);
        let line = "cat ~/secret; cat ~/kept; echo more >>~/kept; cat ~/kept; cat /nothing/else";
        let with = |home: &str| open(&place, &["--home", home, "app", "-c", line]);
        // Without a private home no file is kept.
        for _twice in 0..2 {
            assert_eq!(with("none").out, "more\n");
        }
        assert_eq!(with("private").out, "more\n");
        assert_eq!(with("private").out, "more\nmore\nmore\n");
        let kept = ".local/share/palisade/homes/app/kept";
        assert_eq!(place.read(kept), "more\nmore\n");
        // Through the overlay it shows, and isn't changed.
        for _twice in 0..2 {
            assert_eq!(with("overlay").out, "more\nmore\nmore\nmore\nmore\n");
        }
        let run = with("read-only");
        assert_eq!(run.out, "more\nmore\nmore\nmore\n");
        assert!(run.err.contains("Read-only file system"), "{run:?}");
        assert_eq!(place.read(kept), "more\nmore\n");
        let run = open(&place, &["--home", "private", "--home-name", "other", "app", "-c", line]);
        assert_eq!(run.out, "more\n");
        let run = open(&place, &["--home", "private", "--home-name", "../x", "app"]);
        run.refused(125, &["--home-name ../x"]);
        assert!(!run.out.contains("secret"));
        place.assert_all_dead();
    }
}

/// Other users can't read the private home's directory. Names in it aren't protected, because no program outside obeys them.
#[test]
fn a_private_home_is_the_applications_alone() {
    for place in everybody() {
        profile(&place, "app", SHELL);
        let line = "echo x >~/.bashrc; mkdir -p ~/.git/hooks; echo y >~/.git/hooks/pre-commit; cat ~/.bashrc";
        assert_eq!(open(&place, &["--home", "private", "app", "-c", line]).ok(), "x");
        let home = place.home.join(".local/share/palisade/homes/app");
        assert_eq!(home.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let run = open(
            &place,
            &["--home", "none", "app", "-c", "cat /root/.local/share/palisade/homes/app/.bashrc"],
        );
        assert_ne!(run.code, 0);
    }
}

/// Files can be shown in a private home, whatever the application has put at their paths.
#[test]
fn files_are_passed_into_a_home_that_is_kept() {
    for place in everybody() {
        let file = place.write("docs/a.txt", "passed");
        place.write("outside", "outside");
        let body = "[program]\npath = \"sh\"\npass_files = \"read\"\n[home]\npolicy = \"private\"\n\
                    [closure]\nprograms = [\"cat\", \"rm\", \"ln\", \"rmdir\"]\n";
        profile(&place, "app", body);
        let file = file.to_string_lossy();
        let read = || open(&place, &["app", "-c", "cat \"$1\"", "x", &file]);
        for _cold_and_hot in 0..2 {
            assert_eq!(read().ok(), "passed");
        }
        // If the application replaces a directory by a link that leads out, the mount must not follow it.
        let line = format!("rm -r ~/docs; ln -s {} ~/docs; cat ~/docs/outside", place.home.display());
        assert_ne!(open(&place, &["app", "-c", &line]).code, 0);
        let run = read();
        assert_ne!(run.code, 0, "{run:?}");
        assert!(!place.home.join("a.txt").exists());
    }
}

#[test]
fn a_locked_home_is_for_one_at_a_time() {
    for place in everybody() {
        let body = |lock: &str| format!("{SHELL}[home]\npolicy = \"private\"\nlock = \"{lock}\"\n");
        profile(&place, "app", &body("refuse"));
        let mut first = place
            .command(place.binary())
            .args(["open", "app", "-c", "echo up; read line; echo $line >~/x"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let up = || place.home.join(".local/share/palisade/homes/app.lock").exists();
        assert!(eventually(up));
        // It is locked before the command runs, and it runs soon.
        assert!(eventually(|| open(&place, &["app", "-c", "cat ~/x"]).code == 125));
        open(&place, &["app"]).refused(125, &["another sandbox uses the home"]).with_hint();
        profile(&place, "app", &body("wait"));
        let second = place
            .command(place.binary())
            .args(["open", "app", "-c", "cat ~/x"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        pause(Duration::from_millis(200));
        std::io::Write::write_all(&mut first.stdin.take().unwrap(), b"written\n").unwrap();
        assert!(first.wait().unwrap().success());
        assert_eq!(job::wait(second).ok(), "written");
    }
}

/// While one sandbox has the home, others see it and change an overlay of it, cold and hot.
#[test]
fn a_locked_home_is_an_overlay_for_others() {
    for place in everybody() {
        let body = format!("{SHELL}[home]\nname = \"app\"\npolicy = \"private\"\nlock = \"overlay\"\n");
        profile(&place, "app", &body);
        assert_eq!(open(&place, &["app", "-c", "echo kept >~/file"]).ok(), "");
        let mut first = place
            .command(place.binary())
            .args(["open", "app", "-c", ": >~/up; read line; echo $line >~/file"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let home = place.home.join(".local/share/palisade/homes/app");
        assert!(eventually(|| home.join("up").exists()));
        for _cold_and_hot in 0..2 {
            let run =
                open(&place, &["app", "-c", "cat ~/file; echo other >~/file; echo x >~/new; cat ~/file"]);
            assert_eq!(run.out, "kept\nother\n", "{run:?}");
            assert!(run.err.contains("another sandbox uses the home"), "{run:?}");
            assert_eq!(place.read(".local/share/palisade/homes/app/file"), "kept\n");
            assert!(!home.join("new").exists());
            let run = place.sh(&["--profile", "app"], "cat ~/file; echo x >~/new");
            assert_eq!(run.out, "kept\n", "{run:?}");
            assert!(!home.join("new").exists());
        }
        // A home that the launch can't change stays so.
        let run = open(&place, &["--home", "read-only", "app", "-c", "cat ~/file; echo x >~/file"]);
        assert!(run.out == "kept\n" && run.code != 0 && !run.err.contains("another sandbox"), "{run:?}");
        std::io::Write::write_all(&mut first.stdin.take().unwrap(), b"written\n").unwrap();
        assert!(first.wait().unwrap().success());
        // A link that a program inside has made isn't followed when a mount point is made.
        let dark = place.home.join("dark");
        std::fs::create_dir(&dark).unwrap();
        place.outside(&format!("cd {}; rm -rf work; ln -s {} work", home.display(), dark.display()));
        place.write("work/below/new", "");
        let overlay = ["--profile", "app", "--home", "overlay", "--rw", "below"];
        place.sh(&overlay, "true").refused(125, &["/work"]).with_hint();
        assert!(std::fs::read_dir(&dark).unwrap().next().is_none());
        std::fs::remove_file(home.join("work")).unwrap();
        let run = place.sh(&overlay, "cat ~/file; echo x >below/new");
        assert_eq!(run.ok(), "written");
        assert_eq!(place.read("work/below/new"), "x\n");
        // The home is free again, and the overlay's plan isn't kept for it.
        let run = open(&place, &["app", "-c", "cat ~/file; echo last >~/file"]);
        assert_eq!((run.out.as_str(), run.err.as_str()), ("written\n", ""));
        assert_eq!(place.read(".local/share/palisade/homes/app/file"), "last\n");
    }
}

/// Homes can be in groups, and no home is inside another one: an application can't replace another one's home.
#[test]
fn a_home_in_a_group_is_in_no_other_home() {
    for place in everybody() {
        let in_home = |name: &str, line: &str| {
            open(&place, &["--home", "private", "--home-name", name, "app", "-c", line])
        };
        profile(&place, "app", SHELL);
        in_home("games/chess", "echo chess >~/saved").ok();
        in_home("games/chess/old", "echo old >~/saved").ok();
        let homes = place.home.join(".local/share/palisade/homes");
        assert!(homes.join(".games/chess/saved").exists() && homes.join(".games/.chess/old/saved").exists());
        place.write("secret", "secret");
        let line = format!(
            "for d in chess .chess games/chess; do mkdir -p ~/$d; echo fake >~/$d/saved; done; rm -rf ~/chess; \
             ln -s {} ~/chess; ls -a ~",
            place.home.display()
        );
        for name in ["games", "games/chess/x"] {
            let run = in_home(name, &line);
            assert!(!run.out.contains("old"), "{run:?}");
        }
        assert_eq!(in_home("games/chess", "cat ~/saved; cat ~/secret").out, "chess\n");
        assert_eq!(in_home("games/chess/old", "cat ~/saved").ok(), "old");
        for name in ["../games", "/games", "games/", "games//chess", "games/.chess", ".games"] {
            in_home(name, "true").refused(125, &["--home-name", "a name of a home"]);
        }
    }
}

#[test]
fn files_and_links_are_made_for_each_launch() {
    for place in everybody() {
        let body = format!(
            "{SHELL}[files]\n\
             read = {{ \"/etc/machine-id\" = \"0123\\n\", \"~/.config/app.conf\" = \"user=${{user}}\\n\" }}\n\
             execute = {{ \"/usr/local/bin/hello\" = \"#!/bin/sh\\necho hello $${{1}}\\n\" }}\n\
             write = {{ \"/etc/state\" = \"old\\n\" }}\nlinks = {{ \"/usr/bin/mycat\" = \"cat\" }}\n"
        );
        profile(&place, "app", &body);
        let line = "cat /etc/machine-id ~/.config/app.conf; /usr/local/bin/hello you; echo new >/etc/state; \
                    mycat /etc/state; echo x >/etc/machine-id; /etc/machine-id";
        for _cold_and_hot in 0..2 {
            let run = open(&place, &["app", "-c", line]);
            let expected = format!("0123\nuser={}\nhello you\nnew\n", place.name());
            assert_eq!(run.out, expected, "{run:?}");
            assert_ne!(run.code, 0, "what can be read can't be run");
        }
    }
}

#[test]
fn files_that_arguments_name_are_passed_and_no_others() {
    for place in everybody() {
        let paths = ["work/a b.txt", "work/other.txt", "c.txt"].map(|name| place.write(name, name));
        let body = |mode: &str| {
            format!(
                "[program]\npath = \"sh\"\npass_files = \"{mode}\"\n[closure]\nprograms = [\"cat\", \"ls\"]\n"
            )
        };
        let line = "cat \"$1\"; ls \"${1%/*}\"; echo more >>\"$1\"; cat \"$1\"";
        let with = |argument: &str| open(&place, &["app", "-c", line, "x", argument]);
        profile(&place, "app", &body("none"));
        assert_eq!(with(&paths[0].to_string_lossy()).out, "");
        profile(&place, "app", &body("read"));
        for _cold_and_hot in 0..2 {
            let run = with("a b.txt");
            assert_eq!(run.out, "work/a b.txta b.txt\nwork/a b.txt", "{run:?}");
            let run = with("../c.txt");
            assert!(run.out.starts_with("c.txtc.txt\n") && !run.out.contains("work"), "{run:?}");
            assert_eq!(with(&format!("file://{}", paths[1].display())).out.lines().count(), 2);
        }
        profile(&place, "app", &body("write"));
        assert_eq!(with("a b.txt").out, "work/a b.txta b.txt\nwork/a b.txtmore\n");
        assert_eq!(std::fs::read_to_string(&paths[0]).unwrap(), "work/a b.txtmore\n");
        // Without any the plan is another, and the one before isn't taken for it.
        assert_eq!(open(&place, &["app", "-c", "echo /home/*/*/work/*"]).out.matches(".txt").count(), 0);
    }
}

#[test]
fn features_add_what_they_say_and_only_while_they_are_needed() {
    for place in everybody() {
        for name in ["one", "two", "shared"] {
            place.write(&format!("data/{name}"), name);
        }
        feature(&place, "shared", "[filesystem]\nread = [\"~/data/shared\"]\n");
        feature(&place, "one", "features = [\"shared\"]\n[filesystem]\nread = [\"~/data/one\"]\n");
        let two = "features = [\"shared\"]\nwhen = [\"exists ~/data/two\"]\n[filesystem]\nread = [\"~/data/two\"]\n";
        feature(&place, "two", two);
        profile(&place, "app", &format!("features = [\"one\", \"two\"]\n{SHELL}"));
        let show = |options: &[&str]| {
            let line = "for name in one two shared; do cat ~/data/$name; echo; done 2>/dev/null";
            let arguments: Vec<&str> = options.iter().copied().chain(["app", "-c", line]).collect();
            open(&place, &arguments).out.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for _cold_and_hot in 0..2 {
            assert_eq!(show(&[]), "one two shared");
        }
        assert_eq!(show(&["--without", "one"]), "two shared");
        assert_eq!(show(&["--without", "one", "--without", "two"]), "");
        // A condition that no longer holds, and an edited feature, count at the next launch.
        std::fs::remove_file(place.home.join("data/two")).unwrap();
        assert_eq!(show(&[]), "one shared");
        feature(&place, "one", "[filesystem]\nread = [\"~/data/one\"]\n");
        assert_eq!(show(&[]), "one");
        place.write("data/two", "two");
        assert_eq!(show(&[]), "one two shared");
        // Also where it is about what isn't shown.
        let flag = place.write("flag", "");
        feature(&place, "two", "features = [\"shared\"]\nwhen = [\"exists ~/flag\"]\n");
        for _cold_and_hot in 0..2 {
            assert_eq!(show(&[]), "one shared");
        }
        std::fs::remove_file(&flag).unwrap();
        assert_eq!(show(&[]), "one");
        place.write("flag", "");
        feature(&place, "two", two);
        assert_eq!(show(&[]), "one two shared");

        feature(&place, "old", "conflicts = [\"shared\"]\n");
        let run = open(&place, &["--feature", "old", "app"]);
        run.refused(125, &["\"old\" and \"shared\" conflict", "\"two\" is asked for and needs \"shared\""]);
        run.with_hint();
        let run = open(&place, &["--feature", "shard", "app"]);
        run.refused(
            125,
            &["there is no feature \"shard\", which command line asks for", "did you mean shared?"],
        );
        feature(&place, "slow", "caveat = \"slower by half\"\n");
        let run = open(&place, &["--feature", "slow", "app", "-c", "true"]);
        assert!(run.err.contains("feature slow: slower by half"), "{run:?}");
    }
}

#[test]
fn configurations_are_variants() {
    for place in everybody() {
        let body = format!(
            "{SHELL}arguments = [\"-c\", 'echo $MODE', \"x\"]\n[environment.set]\nMODE = \"plain ${{HOME}}\"\n\
             [configurations.loud.environment.set]\nMODE = \"LOUD\"\n"
        );
        profile(&place, "app", &body);
        for _cold_and_hot in 0..2 {
            assert_eq!(open(&place, &["app"]).ok(), format!("plain {}", place.home.display()));
            assert_eq!(open(&place, &["--config", "loud", "app"]).ok(), "LOUD");
        }
        open(&place, &["--config", "quiet", "app"])
            .refused(125, &["profile \"app\" has no configuration \"quiet\""])
            .with_hint();
    }
}

/// A variable that a profile refers to is part of what the plan was made from.
#[test]
fn variables_are_as_they_are_now() {
    for place in everybody() {
        let body = format!(
            "{SHELL}arguments = [\"-c\", 'cat ~/shown/*; echo $GIVEN', \"x\"]\n\
             [environment.set]\nGIVEN = \"<${{WHICH_ONE}}>\"\n[filesystem]\nread = [\"~/shown/${{WHICH_ONE}}\"]\n"
        );
        profile(&place, "app", &body);
        for name in ["a", "b"] {
            place.write(&format!("shown/{name}"), name);
        }
        let with = |which: Option<&str>| {
            let mut command = place.command(place.binary());
            which.map(|which| command.env("WHICH_ONE", which));
            job::finish(command.args(["open", "app"])).out
        };
        for _cold_and_hot in 0..2 {
            assert_eq!(with(Some("a")), "a<a>\n");
            assert_eq!(with(Some("b")), "b<b>\n");
            // The setting is left out, because it can't have a meaning.
            assert_eq!(with(None), "\n");
            // The value of a variable can't lead above the directory in which it is used, and can't contain `..`.
            assert_eq!(with(Some("../secret")), "<../secret>\n");
        }
    }
}

#[test]
fn hooks_run_before_beside_and_after() {
    for place in everybody() {
        let log = place.home.join("log");
        let hook =
            place.write("hook", format!("#!/bin/sh\necho \"$*\" >>{0}; exit ${{2:-0}}\n", log.display()));
        std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
        let hook = hook.display();
        let body = format!(
            "{SHELL}[hooks]\nbefore = [{{ command = [\"{hook}\", \"before\"] }}, \
             {{ command = [\"{hook}\", \"fails\", \"1\"], may_fail = true }}, \
             {{ command = [\"sleep\", \"1000\"], attach = true }}]\n\
             after = [{{ command = [\"{hook}\", \"after\"] }}]\n"
        );
        profile(&place, "app", &body);
        for _cold_and_hot in 0..2 {
            assert_eq!(open(&place, &["app", "-c", "echo ran"]).ok(), "ran");
        }
        assert_eq!(place.read("log"), "before\nfails 1\nafter\n".repeat(2));
        place.assert_all_dead();

        let body = format!("{SHELL}[hooks]\nbefore = [{{ command = [\"{hook}\", \"no\", \"7\"] }}]\n");
        profile(&place, "app", &body);
        let run = open(&place, &["app", "-c", "echo ran"]);
        run.refused(125, &["hook", "failed: exit status: 7"]);
        assert_eq!(run.out, "");

        // Another program reads what the command prints.
        let taken = place.home.join("taken");
        let body = format!(
            "{SHELL}[hooks]\nbefore = [{{ command = [\"/bin/sh\", \"-c\", \"cat >{}\"], attach = true, \
             capture = \"output\" }}]\n",
            taken.display()
        );
        profile(&place, "app", &body);
        let run = open(&place, &["app", "-c", "echo heard; echo said >&2"]);
        assert_eq!((run.out.as_str(), run.err.as_str()), ("", "said\n"));
        assert!(eventually(|| std::fs::read_to_string(&taken).is_ok_and(|text| text == "heard\n")));
        place.assert_all_dead();
    }
}

#[test]
fn what_is_printed_is_kept_too() {
    for place in everybody() {
        profile(&place, "app", &format!("{SHELL}[behaviour]\nlog = true\n"));
        let log = ".local/state/palisade/logs/app.log";
        for round in 1..=2 {
            let run = open(&place, &["app", "-c", "echo said; echo wrong >&2; exit 5"]);
            assert_eq!((run.code, run.out.as_str(), run.err.as_str()), (5, "said\n", "wrong\n"));
            let kept = place.read(log);
            assert_eq!((kept.matches("said").count(), kept.matches("wrong").count()), (round, round));
        }
        let mode = place.home.join(log).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        place.assert_all_dead();
    }
}

#[test]
fn a_sandbox_ends_with_its_parent() {
    for place in everybody() {
        let body = format!("{SHELL}[hooks]\nparent = {{ command = [\"sleep\", \"0.3\"] }}\n");
        profile(&place, "app", &body);
        let run = open(&place, &["app", "-c", "echo up; sleep 1000"]);
        assert_eq!((run.code, run.out.as_str()), (137, "up\n"), "{run:?}");
        place.assert_all_dead();
        // A project file may grant access, but can't run programs outside.
        place.write("work/.palisade.toml", "schema = 1\n[hooks]\nparent = { command = [\"id\"] }\n");
        let run = job::finish(place.command(place.binary()).args(["project", "allow", "--yes"]));
        assert_ne!(run.code, 0);
        assert!(run.err.contains("a project file can't run programs outside the sandbox"), "{run:?}");
    }
}

#[test]
fn it_ends_with_its_last_process_if_it_says_so() {
    for place in everybody() {
        profile(&place, "app", &format!("{SHELL}[process]\nwait = \"all\"\n"));
        let line = "(sleep 0.3; echo late) & echo early; exit 4";
        let run = open(&place, &["app", "-c", line]);
        assert_eq!((run.code, run.out.as_str()), (4, "early\nlate\n"), "{run:?}");
        profile(&place, "app", SHELL);
        let run = open(&place, &["app", "-c", line]);
        assert_eq!((run.code, run.out.as_str()), (4, "early\n"), "{run:?}");
        place.assert_all_dead();
    }
}

#[test]
fn one_can_look_around_and_hear_what_is_missing() {
    for place in everybody() {
        place.write("data/file", "x");
        feature(&place, "data", "[filesystem]\nread = [\"~/data\"]\n");
        profile(&place, "app", "[program]\npath = \"sh\"\narguments = [\"-c\", \"exit 9\"]\n");
        let run = open(&place, &["--shell", "app", "-c", "echo here"]);
        assert_eq!(run.ok(), "here");
        profile(&place, "app", SHELL);
        let line = "cat ~/data/file; cat /no/such/file; true";
        let run = open(&place, &["--trace", "--stats", "app", "-c", line]);
        assert_eq!(run.code, 0, "{run:?}");
        let wanted = format!("{}/data/file", place.home.display());
        let said = run.err.lines().find(|line| line.contains(&wanted) && line.contains("by cat"));
        assert!(said.is_some_and(|line| line.contains("--feature data gives it")), "{run:?}");
        assert!(!run.err.contains("/no/such/file  "), "what isn't on the host either: {run:?}");
        assert!(run.err.contains("mounts") && run.err.contains("largest process"), "{run:?}");
    }
}

/// What a profile inherits brings what it stands on: no more is there than in the application's own profile.
#[test]
fn who_inherits_from_an_application_has_no_wider_view() {
    for place in everybody() {
        place.write("secret", "");
        let body = format!("{SHELL}arguments = [\"-c\", 'ls -d /opt ~/secret; pwd', \"x\"]\n[closure]\n");
        let body = body.replacen("[closure]\nprograms = [", "[closure]\nprograms = [\"ls\", ", 1);
        profile(&place, "base", body.trim_end_matches("[closure]\n"));
        profile(&place, "own", "inherits = [\"base\"]\n");
        profile(&place, "wide", "inherits = []\n[program]\npath = \"sh\"\n");
        let base = open(&place, &["base"]);
        assert!(!base.out.contains("/opt") && !base.out.contains("secret"), "{base:?}");
        let own = open(&place, &["own"]);
        assert_eq!((own.code, &own.out, &own.err), (base.code, &base.out, &base.err));
        // A profile may state that it inherits nothing; then the defaults are as without a profile.
        let run = open(&place, &["wide", "-c", "ls -d /opt; pwd"]);
        assert!(run.ok().contains("/opt"), "{run:?}");
    }
}

/// A grant that names a link of the host's is for what it leads to, where the link itself is in sight, too.
#[test]
fn a_link_that_is_in_sight_is_granted_with_what_it_leads_to() {
    for place in everybody() {
        place.write("elsewhere/file", "found");
        std::fs::create_dir(place.home.join("shown")).unwrap();
        symlink("../elsewhere/file", place.home.join("shown/link")).unwrap();
        let (shown, link) = (place.home.join("shown"), place.home.join("shown/link"));
        let (shown, link) = (shown.to_str().unwrap(), link.to_str().unwrap());
        for grant in ["--ro", "--rw"] {
            let run = place.run(&["--ro", shown, grant, link], &["cat", link]);
            assert_eq!(run.ok(), "found", "{run:?}");
            let run = place.run(&["--ro", shown], &["cat", link]);
            assert_ne!(run.code, 0, "{run:?}");
        }
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_starts() {
    for place in everybody() {
        profile(&place, "a", "inherits = [\"b\"]\n");
        profile(&place, "b", "inherits = [\"a\"]\n");
        open(&place, &["a"]).refused(125, &["profiles inherit in a circle: a > b > a"]);
        profile(&place, "app", &format!("{SHELL}[filesystem]\nrequire = [\"~/must\"]\n"));
        open(&place, &["app", "-c", "true"])
            .refused(125, &["~/must doesn't exist", "app.toml:8 requires"])
            .with_hint();
        place.write("must", "");
        assert_eq!(open(&place, &["app", "-c", "true"]).code, 0);
        let large = format!("schema = 1\n{}", "#".repeat(2 << 20));
        place.write(&format!("{PROFILES}/large.toml"), large);
        open(&place, &["large"]).refused(125, &["large.toml"]);
        profile(&place, "app", "[home]\npolicy = \"kept\"\n");
        open(&place, &["app"]).refused(125, &["`home.policy` can't be \"kept\"", "possible values"]);
        profile(&place, "app", SHELL);
        let file = place.home.join(PROFILES).join("app.toml");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
        open(&place, &["app"]).refused(125, &["refusing policy"]).with_hint();
        assert_eq!(open(&place, &["--home", "kept", "app"]).code, 125);
        assert_eq!(open(&place, &[]).code, 125);
    }
}
