// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `palisade profile` and `palisade feature`, and how plans of applications are made.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod reach;

use crate::support::{self, Place, Run, everybody, has, job, ordinary};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

fn palisade(place: &Place, line: &str) -> Run {
    job::finish(place.command(place.binary()).args(line.split(' ')))
}

fn json(place: &Place, line: &str) -> Value {
    let run = palisade(place, line);
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:?}"))
}

fn own(name: &str) -> String {
    format!(".config/palisade/profiles/{name}.toml")
}

/// What the peer's users look for is there: so many profiles and features by these names.
#[test]
fn those_that_are_shipped_are_listed() {
    let place = ordinary();
    let profiles = json(&place, "profile list --json");
    let profiles = profiles["profiles"].as_array().unwrap();
    let features = json(&place, "feature list --json");
    let features = features["features"].as_array().unwrap();
    let names = |list: &[Value]| -> Vec<String> {
        list.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    for (list, wanted) in [
        (names(profiles), include_str!("profiles/names.list")),
        (names(features), include_str!("profiles/features.list")),
    ] {
        let missing: Vec<&str> = wanted
            .lines()
            .filter(|line| !line.starts_with('#') && !list.iter().any(|name| name == line))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
    for one in profiles.iter().chain(features) {
        assert!(one["error"].is_null(), "{one}");
        assert!(one["description"].as_str().is_some_and(|text| !text.is_empty()), "{one}");
    }
    let shell = profiles.iter().find(|one| one["name"] == "sh").unwrap();
    assert_eq!(shell["installed"], true);
    let base = profiles.iter().find(|one| one["name"] == "default").unwrap();
    assert!(base["installed"].is_null(), "{base}");
    let installed = json(&place, "profile list --installed --json");
    assert!(installed["profiles"].as_array().unwrap().len() < profiles.len());
}

#[test]
fn one_is_shown_by_itself_and_with_what_it_comes_to() {
    let place = ordinary();
    let run = palisade(&place, "profile show firefox");
    assert!(run.ok().contains("features = ["), "{run:?}");
    let shown = json(&place, "profile show --expanded firefox --json");
    let present = shown["expanded"]["present"].as_array().unwrap();
    let at = |name: &str| present.iter().position(|one| one["name"] == name);
    assert!(at("fonts").unwrap() < at("gtk3").unwrap(), "{shown}");
    assert_eq!(present[at("fonts").unwrap()]["needed_by"], "gtk3");
    // The printed profile is complete.
    let text = palisade(&place, "profile export firefox").out;
    assert!(
        !text.lines().take_while(|line| !line.starts_with('[')).any(|line| line.starts_with("features")),
        "{text}"
    );
    place.write(&own("whole"), &text);
    assert_eq!(palisade(&place, &format!("check {}/{}", place.home.display(), own("whole"))).code, 0);
    palisade(&place, "feature show no-such").refused(2, &["there is no feature \"no-such\""]).with_hint();
}

#[test]
fn ones_own_are_made_edited_compared_and_removed() {
    for place in everybody() {
        assert_eq!(palisade(&place, "profile create mine --feature fonts").code, 0);
        assert!(place.read(&own("mine")).contains("features = [\"fonts\"]"));
        palisade(&place, "profile create mine")
            .refused(2, &["there is a profile \"mine\" of yours"])
            .with_hint();
        palisade(&place, "profile create ../x").refused(2, &["can't be a profile's name"]);
        palisade(&place, "profile create x --from chromum").refused(2, &["did you mean chromium?"]);
        assert_eq!(palisade(&place, "profile create web --from chromium").code, 0);
        assert!(place.read(&own("web")).contains("name = \"web\""));

        // An editor with an argument, and a path with a space.
        let editor = place.write("ed", "#!/bin/sh\nsed -i \"$1\" \"$2\"\n");
        std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
        let edit = |what: &str, script: &str| {
            let mut command = place.command(place.binary());
            command.env("EDITOR", format!("{} {script}", editor.display()));
            job::finish(command.args(what.split(' ')))
        };
        let run = edit("profile edit vim", "s/shell/python/");
        assert_eq!(run.code, 0, "{run:?}");
        assert!(place.read(&own("vim")).contains("features = [\"python\"]"));
        assert_eq!(edit("profile edit vim", "s/nothing/x/").code, 1);
        // An invalid profile takes no effect, and isn't lost.
        let run = edit("profile edit vim", "s/features/featurs/");
        run.refused(2, &["unknown key `featurs`", "did you mean `features`?", "what you wrote is in "]);
        let kept = run.err.split("what you wrote is in ").nth(1).unwrap().lines().next().unwrap();
        assert!(std::fs::read_to_string(kept).unwrap().contains("featurs"));
        std::fs::remove_file(kept).unwrap();
        assert!(place.read(&own("vim")).contains("features = [\"python\"]"));
        let run = job::finish(
            place
                .command(place.binary())
                .env("EDITOR", "no-such-editor")
                .env("PATH", "/none")
                .args(["profile", "edit", "vim"]),
        );
        run.refused(2, &["can't edit with no-such-editor"]).with_hint();

        let run = palisade(&place, "profile diff vim");
        assert_eq!(run.code, 1);
        assert!(run.out.contains("-features = [\"shell\"]\n+features = [\"python\"]"), "{run:?}");
        palisade(&place, "profile diff mine").refused(2, &["replaces no other"]);
        palisade(&place, "profile remove vim").refused(2, &["no terminal to ask on"]);
        let run = palisade(&place, "profile remove vim --yes");
        assert!(run.err.contains("the one of the built in layer applies then"), "{run:?}");
        palisade(&place, "profile remove vim --yes").refused(2, &["there is no profile \"vim\" of yours"]);
        // One that says the same as the shipped one.
        place.write(&own("vim"), include_str!("../../sandbox/src/data/profiles/vim.toml"));
        assert_eq!(palisade(&place, "profile diff vim").code, 0);
        assert_eq!(palisade(&place, "profile remove --yes").code, 0);
        assert!(!place.home.join(own("vim")).exists() && place.home.join(own("mine")).exists());

        let run = edit("feature edit fonts", "s/^description.*$/description='mine'/");
        assert_eq!(run.code, 0, "{run:?}");
        assert!(palisade(&place, "feature show fonts").out.contains("mine"));
    }
}

/// Without a program it is for commands, and holds with `palisade run` as it is written; with one it is opened.
#[test]
fn a_profile_for_commands_is_made_without_a_program() {
    for place in everybody() {
        let made = palisade(&place, "profile create mine");
        assert!(made.err.contains("; then: palisade run --profile mine -- COMMAND…"), "{made:?}");
        let text = place.read(&own("mine"));
        assert!(!text.contains("[program]"), "{text}");
        assert_eq!(place.sh(&["--profile", "mine"], "echo runs").ok(), "runs");
        // What it suggests is valid.
        place.write(
            &own("mine"),
            text.replace("# read", "read")
                .replace("# write", "write")
                .replace("# hide", "hide")
                .replace("# allow", "allow")
                .replace("# keep", "keep"),
        );
        place.outside("mkdir -p ~/data ~/out ~/work/secrets; echo x >~/data/x; echo s >~/work/secrets/s");
        let run = place.sh(&["--profile", "mine"], "cat ~/data/x; echo y >~/out/y; cat secrets/s; true");
        assert_eq!(run.ok(), "x");
        assert_eq!(place.read("out/y"), "y\n");

        let made = palisade(&place, "profile create app --program true");
        assert!(made.err.contains("; then: palisade open app"), "{made:?}");
        assert_eq!(palisade(&place, "open app").code, 0);
    }
}

#[test]
fn the_list_says_which_profiles_need_a_home() {
    for place in everybody() {
        place.write(&own("homely"), "schema = 1\n[home]\npolicy = \"overlay\"\n");
        place.write(&own("heir"), "schema = 1\ninherits = [\"homely\"]\n");
        palisade(&place, "profile create plain");
        let lists = json(&place, "profile list --json");
        let profiles = lists["profiles"].as_array().unwrap();
        let printed = palisade(&place, "profile list");
        let names = palisade(&place, "profile list --names");
        for (name, home) in [
            ("homely", Some("overlay")),
            ("heir", Some("overlay")),
            ("plain", None),
            ("firefox-esr", Some("private")),
        ] {
            let one = profiles.iter().find(|one| one["name"] == name).unwrap();
            assert_eq!(one["home"].as_str(), home, "{one}");
            let line = printed.ok().lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            assert_eq!(line.contains("Needs a home."), home.is_some(), "{line}");
            assert!(names.ok().lines().any(|line| line == name), "{name}");
        }
        // What the list means by it.
        place.sh(&["--profile", "homely"], "true").refused(125, &["home"]).with_hint();
        assert_eq!(place.sh(&["--profile", "homely", "--home-name", "x"], "echo runs").ok(), "runs");
        assert_eq!(place.sh(&["--profile", "plain"], "echo runs").ok(), "runs");
    }
}

fn plans(place: &Place) -> Vec<PathBuf> {
    let directory = place.home.join(".cache/palisade/plans");
    std::fs::read_dir(directory).into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn plans_are_made_ahead() {
    for place in everybody() {
        // The first one's own directory changes what it depends on, and so do other tests, which make users: a plan is kept
        // only if what it was made from hasn't just changed.
        let refreshed = support::eventually(|| {
            let run = palisade(&place, "profile refresh sh bash --json");
            let answer: Value = serde_json::from_str(&run.out).unwrap();
            assert_eq!((run.code, answer["profiles"].as_array().unwrap().len()), (0, 2), "{run:?}");
            plans(&place).len() >= 2
        });
        assert!(refreshed, "{:?}", plans(&place));
        let kept = plans(&place).len();
        assert_eq!(palisade(&place, "profile refresh --dry-run vim sh").code, 0);
        assert_eq!(plans(&place).len(), kept);
        assert!(support::eventually(|| {
            assert_eq!(palisade(&place, "profile refresh --hard sh").code, 0);
            plans(&place).len() == 1
        }));
        let run = palisade(&place, "profile refresh no-such sh");
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.out.contains("there is no profile"), "{run:?}");
        palisade(&place, "profile refresh").with_hint();
    }
}

/// Two launches that race for a cold cache, and launches that are killed while they plan, leave either a complete plan or none.
#[test]
fn a_cold_cache_is_raced_for_and_killed_over() {
    let place = ordinary();
    let open = || {
        let mut command = place.command(place.binary());
        command.args(["open", "sh", "-c", "echo $((6 * 7))"]);
        command
    };
    for _round in 0..10 {
        let _cleared = std::fs::remove_dir_all(place.home.join(".cache/palisade"));
        let piped =
            || open().stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn();
        let racers: Vec<_> = (0..4).map(|_| piped().unwrap()).collect();
        for racer in racers {
            assert_eq!(job::wait(racer).ok(), "42");
        }
    }
    for round in 0..200_u64 {
        let _cleared = std::fs::remove_dir_all(place.home.join(".cache/palisade/plans"));
        let mut child = open().stdout(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_micros(round * 400));
        let _ended_already = child.kill();
        child.wait().unwrap();
    }
    assert_eq!(job::finish(&mut open()).ok(), "42");
    assert_eq!(job::finish(&mut open()).ok(), "42");
    place.assert_all_dead();
}

/// Planning only reads files. It runs no shell, no loader, and no program of the host.
#[test]
fn planning_runs_nothing() {
    if !has("strace") {
        return;
    }
    let place = ordinary();
    let log = place.home.join("log");
    for profile in ["sh", "vim", "python3", "git", "gcc"] {
        let mut command = place.command("strace");
        command.args(["-f", "-qq", "-e", "trace=execve,execveat", "-e", "signal=none", "-o"]).arg(&log);
        let run = job::finish(command.arg(place.binary()).args(["open", "--dry-run", profile]));
        assert_eq!(run.code, 0, "{run:?}");
        let calls = std::fs::read_to_string(&log).unwrap();
        assert_eq!(calls.lines().count(), 1, "only itself: {calls}");
    }
}

/// The next launch notices the changes of an upgrade.
#[test]
fn an_upgrade_is_noticed() {
    for place in everybody().iter().filter(|_| has("gcc")) {
        // A program with a library of its own, beside it.
        let source = place.write("src/lib.c", "int answer(void) { return 1; }\n");
        place.write(
            "src/main.c",
            "#include <stdio.h>\nint answer(void); int main(void) { printf(\"%d\\n\", answer()); }\n",
        );
        let build = "cd ~/src && gcc -shared -fPIC -o libanswer.so lib.c && \
                     gcc -o app main.c -L. -lanswer -Wl,-rpath,'$ORIGIN'";
        place.outside(build);
        let program = place.home.join("src/app");
        place.write(&own("app"), format!("schema = 1\n[program]\npath = \"{}\"\n", program.display()));
        for _cold_and_hot in 0..2 {
            assert_eq!(palisade(place, "open app").ok(), "1");
        }
        // As package managers do it: another file in its place.
        std::fs::write(&source, "int extra(void); int answer(void) { return extra(); }\n").unwrap();
        place.write("src/extra.c", "int extra(void) { return 2; }\n");
        place.outside(
            "cd ~/src && gcc -shared -fPIC -o libextra.so extra.c && \
             gcc -shared -fPIC -o new.so lib.c -L. -lextra -Wl,-rpath,'$ORIGIN' && mv new.so libanswer.so",
        );
        assert_eq!(palisade(place, "open app").ok(), "2", "a library that wasn't needed before");
    }
}
