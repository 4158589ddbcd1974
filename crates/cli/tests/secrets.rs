// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `filesystem.secrets`: files that hold secrets are hidden in the project, and in what the user shows besides it.

use crate::support::{Place, Run, everybody, has, job};

const HIDE: [&str; 2] = ["--secrets", "hide"];

/// A repository with secrets of each kind.
fn project(place: &Place) {
    place.write("work/.env", "PASSWORD=one\n");
    place.write("work/sub/.env.local", "PASSWORD=two\n");
    place.write("work/keys/a.pem", "-----BEGIN EC PRIVATE KEY-----\nthree\n");
    place.write("work/.npmrc", "//registry.example.org/:_authToken=four\n");
    place.write("work/config/app.json", "{\"key\": \"sk-ant-api03-0123456789abcdefghijfive\"}\n");
    // None of these is one.
    place.write("work/keys/ca.pem", "-----BEGIN CERTIFICATE-----\npublic\n");
    place.write("work/.env.example", "PASSWORD=\n");
    place.write("work/sub/.npmrc", "save-exact=true\n");
    place.write("work/node_modules/p/.env", "PACKAGES=own\n");
    place.outside("cd ~/work && git init -q . && git add .npmrc .env.example");
}

const READ: &str = "cat .env sub/.env.local keys/a.pem .npmrc config/app.json 2>&1";
const OTHERS: &str = "cat keys/ca.pem .env.example sub/.npmrc node_modules/p/.env";

#[test]
fn they_are_hidden_and_what_git_tracks_is_denied() {
    for place in everybody().iter().filter(|_| has("git")) {
        project(place);
        let secrets = ["one", "two", "three", "four", "five"];
        let outside = place.outside(READ);
        assert!(secrets.iter().all(|secret| outside.contains(secret)), "{outside}");
        let run = place.sh(&HIDE, READ);
        assert!(!secrets.iter().any(|secret| run.out.contains(secret)), "{run:?}");
        assert!(run.out.contains(".npmrc: Permission denied"), "{run:?}");
        assert!(
            run.err.contains(
                "files with secrets are hidden: .env, config/app.json, keys/a.pem and 1 more; --ro .env"
            ),
            "{run:?}"
        );
        assert!(run.err.contains("are denied, because git tracks them: .npmrc;"), "{run:?}");
        assert_eq!(place.sh(&HIDE, OTHERS).ok(), place.outside(OTHERS).trim_end());
        // Without the option nothing is hidden.
        assert_eq!(place.sh(&[], READ).out, outside);
        // A commit loses nothing of a tracked file.
        place.outside("cd ~/work && git -c user.name=a -c user.email=a@b commit -qm first");
        let line = "git -c user.name=a -c user.email=a@b commit -qam second; git show HEAD:.npmrc";
        let run = place.sh(&[&HIDE[..], &["--allow-name", ".npmrc"]].concat(), line);
        assert!(run.out.contains("_authToken=four"), "{run:?}");
    }
}

/// The names can't be made again, moved, or reached by another path.
#[test]
fn no_way_leads_to_them() {
    for place in everybody().iter().filter(|_| has("git")) {
        project(place);
        let attack = "mv .env x; mv sub s2; ln .env hard; ln -s .env soft; cat soft; rm -f .env; cp .env copy; \
            cat /proc/self/cwd/.env; cat ../work/.env; cat copy hard s2/.env.local; tar c . | grep -ac PASSWORD=one";
        let run = place.sh(&[&HIDE[..], &["--quiet"]].concat(), &format!("{{ {attack}; }} 2>/dev/null"));
        assert_eq!(run.out.trim(), "0", "{run:?}");
        assert_eq!(
            (place.read("work/.env").as_str(), place.read("work/sub/.env.local").as_str()),
            ("PASSWORD=one\n", "PASSWORD=two\n")
        );
    }
}

#[test]
fn from_below_the_top_those_of_the_whole_repository_are_hidden() {
    for place in everybody().iter().filter(|_| has("git")) {
        project(place);
        let within = |options: &[&str], line: &str| -> Run {
            job::finish(place.palisade(options, &["sh", "-c", line]).current_dir(place.work.join("sub")))
        };
        let line =
            "cat ../.env .env.local ../keys/a.pem ../.npmrc; git log >/dev/null 2>&1; git status --short";
        let run = within(&HIDE, line);
        assert!(
            !run.out.contains("one") && !run.out.contains("three") && !run.out.contains("four"),
            "{run:?}"
        );
        assert!(within(&[], line).out.contains("one"));
        let run = within(&[&HIDE[..], &["--repo"]].concat(), "cat ../.env");
        assert_eq!(run.out, "", "{run:?}");
    }
}

#[test]
fn the_users_own_rules_stand() {
    for place in everybody().iter().filter(|_| has("git")) {
        project(place);
        let run = place.sh(&[&HIDE[..], &["--ro", ".env"]].concat(), "cat .env sub/.env.local");
        assert_eq!(run.out, "PASSWORD=one\n", "{run:?}");
        let run = place.sh(&[&HIDE[..], &["--ro", "**/.env*"]].concat(), "cat .env sub/.env.local");
        assert_eq!(run.out, "PASSWORD=one\nPASSWORD=two\n", "{run:?}");
        // A grant of the directory above isn't one of the file.
        let run = place.sh(&[&HIDE[..], &["--rw", "."]].concat(), "cat .env");
        assert_eq!(run.out, "", "{run:?}");
        // A second project is searched, too.
        place.write("other/.env", "PASSWORD=six\n");
        let run = place.sh(&[&HIDE[..], &["--ro", "../other"]].concat(), "cat ../other/.env");
        assert_eq!(run.out, "", "{run:?}");
        assert_eq!(place.sh(&["--ro", "../other"], "cat ../other/.env").out, "PASSWORD=six\n");
        // What holds a directory of settings was named for what is in it.
        place.write(".config/tool/.env", "PASSWORD=seven\n");
        let run = place.sh(&[&HIDE[..], &["--ro", "~/.config/tool"]].concat(), "cat ~/.config/tool/.env");
        assert_eq!(run.out, "PASSWORD=seven\n", "{run:?}");
        place.write(".config/palisade/profiles/mine.toml", "schema = 1\n[filesystem]\nsecrets = \"hide\"\n");
        assert_eq!(place.sh(&["--profile", "mine"], "cat .env").out, "");
        assert_eq!(place.sh(&["--profile", "mine", "--secrets", "show"], "cat .env").out, "PASSWORD=one\n");
    }
}

/// A secret that appears is hidden at the next launch, also where the plan was kept.
#[test]
fn a_kept_plan_doesnt_miss_a_new_one() {
    for place in everybody() {
        place.write("work/src/main", "");
        for _cold_and_hot in 0..2 {
            place.sh(&HIDE, "true").ok();
        }
        place.write("work/src/.env", "PASSWORD=one\n");
        assert_eq!(place.sh(&HIDE, "cat src/.env").out, "");
        place.write("work/src/settings.toml", "x = 1\n");
        assert_eq!(place.sh(&HIDE, "cat src/settings.toml").out, "x = 1\n");
        place.write("work/src/settings.toml", "x = \"ghp_0123456789012345678901234567890123456789\"\n");
        assert_eq!(place.sh(&HIDE, "cat src/settings.toml").out, "");
    }
}

/// The project belongs to an attacker: links, loops, FIFOs, a wrong index, names that aren't text.
#[test]
fn a_hostile_project_neither_stops_nor_misleads_the_search() {
    for place in everybody().iter().filter(|_| has("git")) {
        project(place);
        place.write("secret/.env", "PASSWORD=outside\n");
        place.outside(
            "cd ~/work && ln -s ../secret linked && ln -s ../secret/.env sub/.env && mkfifo sub/x.pem && ln -s . loop \
             && mkdir -p deep/.env && printf 'PASSWORD=eight' >\"$(printf 'deep/\\377.env')\" && printf junk >.git/index",
        );
        let run = place.sh(&HIDE, "cat .env sub/.env linked/.env deep/*.env .npmrc 2>/dev/null; ls deep");
        assert!(!run.out.contains("PASSWORD") && !run.out.contains("four"), "{run:?}");
        // Where the index can't be read, every file counts as tracked: none looks emptied to git.
        assert!(run.err.contains("denied"), "{run:?}");
    }
}

#[test]
fn explain_says_which_rule_hides_them() {
    for place in everybody() {
        place.write("work/.env", "PASSWORD=one\n");
        let run = job::finish(place.command(place.binary()).args(["explain", "--secrets", "hide", ".env"]));
        assert!(run.out.contains("hid"), "{run:?}");
    }
}
