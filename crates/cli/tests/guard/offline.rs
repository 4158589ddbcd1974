// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the verbs that need no running daemon.

use super::world::World;

const GOOD: &str =
    "allow perm=any all : trust=1\ndeny perm=execute all : path=/usr/bin/no\nallow perm=any all : all\n";

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n[guard]\nmod = \"enforce\"\n");
        world.write("etc/guard.d/10.rules", "allow perm=any all : trust=1\nalow perm=any all : all\n");
        let run = world.guard(&["check", "etc"]);
        run.refused(
            1,
            &[
                "guard.toml:3:1: unknown field `mod`",
                "3 | mod = \"enforce\"",
                "10.rules:2:1: unknown decision",
            ],
        );
        run.refused(1, &["2 | alow perm=any all : all\n  | ^^^^\n", "did you mean `allow`?"]).with_hint();
        let (code, answer) = world.json(&["check", "etc"]);
        assert_eq!((code, &answer["valid"]), (1, &false.into()));
        let errors = answer["errors"].as_array().unwrap();
        let seen: Vec<_> =
            errors.iter().map(|error| (&error["class"], &error["line"], &error["column"])).collect();
        assert_eq!(
            seen,
            [
                (&"settings".into(), &3.into(), &1.into()),
                (&"rules.unknown-decision".into(), &2.into(), &1.into())
            ]
        );
    }
}

#[test]
fn each_kind_of_file_can_be_checked() {
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n");
        world.write("etc/guard.d/10.rules", GOOD);
        for path in ["etc", "etc/guard.toml", "etc/guard.d", "etc/guard.d/10.rules"] {
            let (code, answer) = world.json(&["check", path]);
            assert_eq!((code, &answer["valid"]), (0, &true.into()), "{path}: {answer}");
        }
        world.guard(&["check", "nowhere"]).refused(1, &["nowhere"]);
        world.write("x.toml", "schema = 7\n");
        world.guard(&["check", "x.toml"]).refused(1, &["schema 7"]);
    }
}

/// Ten megabytes are read, checked and looked through; much more is refused before it is read.
#[test]
fn large_files_of_rules() {
    use std::fmt::Write;
    let mut rules = String::new();
    let mut number = 0;
    while rules.len() < 10_000_000 {
        writeln!(rules, "allow perm=execute uid={number} : path=/opt/tool/bin/program-{number}").unwrap();
        number += 1;
    }
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n");
        world.write("etc/guard.d/10.rules", &rules);
        let run = world.guard(&["check", "etc"]);
        run.ok();
        assert!(run.err.contains(&format!("{number} rules")), "{run:?}");
        let run = world.guard(&["lint", "etc/guard.d/10.rules"]);
        assert!(run.code == 1 && run.out.contains("lint.undecided"), "{run:?}");
        world.write("etc/guard.d/10.rules", &rules.repeat(7));
        world.guard(&["check", "etc"]).refused(1, &["is larger than"]);
    }
}

#[test]
fn what_palisaded_would_read_must_be_roots() {
    for world in World::each() {
        world.write("etc/guard.d/10.rules", GOOD);
        let run = world.guard(&["check"]);
        if world.place.is_root() {
            run.ok();
        } else {
            run.refused(1, &["users other than root can write", "[distrusted]"]).with_hint();
        }
    }
}

#[test]
fn findings_have_classes_and_places() {
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n[guard.trust]\nsources = []\n");
        world.write("etc/guard.d/10.rules", GOOD);
        world.guard(&["lint"]).ok();
        world.write("etc/guard.d/20.rules", "deny perm=execute all : path=/x\n%unused=/a\n");
        let (code, answer) = world.json(&["lint"]);
        assert_eq!(code, 1, "{answer}");
        let findings = answer["findings"].as_array().unwrap();
        let shadowed = findings.iter().find(|finding| finding["class"] == "lint.shadowed").unwrap();
        assert_eq!(shadowed["line"], 1);
        assert!(shadowed["file"].as_str().unwrap().ends_with("20.rules"));
        assert!(findings.iter().any(|finding| finding["class"] == "lint.unused-set"));
    }
}

#[test]
fn rules_that_would_stop_the_host_are_found() {
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n[guard.trust]\nsources = []\n");
        let rules = world.write("no.rules", "deny perm=execute all : all\nallow perm=open all : all\n");
        let run = world.guard(&["lint", rules.to_str().unwrap()]);
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.out.contains("no.rules:1: warning: would stop the host: "), "{run:?}");
        assert!(run.out.contains("(the system's shell) [lint.would-stop]"), "{run:?}");
    }
}

#[test]
fn an_access_is_explained_by_the_files() {
    for world in World::each() {
        world.write("etc/guard.toml", "schema = 1\n[guard.trust]\nsources = []\n");
        world.write(
            "etc/guard.d/10.rules",
            "deny_audit perm=execute all : path=/usr/bin/true\nallow perm=any all : all\n",
        );
        let (code, answer) = world.json(&["explain", "/usr/bin/true"]);
        assert_eq!((code, &answer["allowed"], &answer["judged_by"]), (1, &false.into(), &"files".into()));
        assert_eq!(
            (&answer["event"]["operation"], &answer["event"]["detail"]["decision"]),
            (&"execute".into(), &"deny_audit".into())
        );
        let origin = &answer["event"]["why"]["origin"];
        assert!(origin["file"].as_str().unwrap().ends_with("10.rules") && origin["line"] == 1, "{answer}");
        assert_eq!(answer["permit"], "sudo palisade guard trust add /usr/bin/true");
        let (code, answer) = world.json(&["explain", "/usr/bin/true", "--open"]);
        assert_eq!((code, &answer["event"]["detail"]["rule"]), (0, &2.into()));
        assert!(
            answer["event"]["detail"]["steps"][0].as_str().unwrap().ends_with("perm=execute: this is open"),
            "{answer}"
        );
        let run = world.guard(&["explain", "/usr/bin/true"]);
        assert!(run.out.starts_with("execute /usr/bin/true: denied"), "{run:?}");
        world.guard(&["explain", "/nowhere"]).refused(2, &["can't read \"/nowhere\""]);
        world
            .guard(&["explain", "/usr/bin/true", "--pid", "999999999"])
            .refused(2, &["no process 999999999"])
            .with_hint();
    }
}

#[test]
fn errors_have_classes() {
    for world in World::each() {
        for (arguments, class) in [
            (&["rules"][..], "not-running"),
            (&["metrics"], "not-running"),
            (&["watch"], "not-running"),
            (&["check-path"], "no-database"),
            (&["trust", "list"], "no-database"),
            (&["trust", "verify"], "no-database"),
            (&["explain", "/nowhere"], "read"),
        ] {
            let (code, answer) = world.json(arguments);
            assert_eq!((code, &answer["error"]["class"]), (2, &class.into()), "{arguments:?}");
        }
        for arguments in
            [&["reload"][..], &["enforce"], &["permissive"], &["try"], &["keep"], &["revert"], &["stop"]]
        {
            world.guard(arguments).refused(2, &["palisaded doesn't answer"]).with_hint();
        }
        world.write("etc/guard.toml", "schema = 1\n[guard]\nx = 1\n");
        assert_eq!(world.json(&["lint"]).1["error"]["class"], "settings");
        world.write("etc/guard.toml", "schema = 1\n");
        world.write("etc/guard.d/1.rules", "alow all all\n");
        let (code, answer) = world.json(&["explain", "/usr/bin/true"]);
        assert_eq!((code, &answer["error"]["class"]), (2, &"rules".into()));
    }
}

#[test]
fn without_the_daemon_nothing_is_refused() {
    for world in World::each() {
        let run = world.guard(&["status"]);
        assert_eq!((run.code, run.out.as_str()), (1, "nothing is refused: the guard doesn't run\n"));
        assert!(run.err.contains("hint: "), "{run:?}");
        let (code, answer) = world.json(&["status"]);
        assert_eq!((code, &answer["running"]), (1, &false.into()));
    }
}

#[test]
fn kinds_and_mounts() {
    for world in World::each() {
        assert_eq!(world.guard(&["ftype", "/usr/bin/true"]).ok(), "application/x-executable");
        let script = world.write("script", "#!/bin/sh\necho\n");
        let run = world.guard(&["ftype", "/usr/bin/true", script.to_str().unwrap()]);
        assert!(run.ok().ends_with("script: text/x-shellscript"), "{run:?}");
        world.write("etc/guard.toml", "schema = 1\n[guard.watch]\nonly = [\"/nowhere\"]\n");
        let (code, answer) = world.json(&["check-watch-fs"]);
        assert_eq!(code, 1);
        let left = answer["unwatched"].as_array().unwrap();
        let root = left.iter().find(|mount| mount["mount"] == "/").unwrap();
        assert_eq!(root["because"], "not among watch.only");
    }
}

#[test]
fn built_in_rules_can_be_taken_and_edited() {
    for world in World::each() {
        for name in ["known-libs", "restrictive"] {
            let rules = world.guard(&["default", name]);
            world.write("own.rules", &format!("{}\n", rules.ok()));
            world.guard(&["check", "own.rules"]).ok();
        }
    }
}

#[test]
fn what_the_documentation_shows_can_be_understood() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guard.md")).unwrap();
    for world in World::each() {
        for (language, file) in [("toml", "shown.toml"), ("rules", "shown.rules")] {
            let blocks: Vec<&str> = text.split(&format!("```{language}\n")).skip(1).collect();
            assert!(!blocks.is_empty());
            for block in blocks {
                world.write(file, block.split("```").next().unwrap());
                world.guard(&["check", file]).ok();
            }
        }
    }
}
