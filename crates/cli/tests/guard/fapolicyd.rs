// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the migration from fapolicyd.

use super::world::{World, parse};
use crate::support::job::{Run, finish};

const CONF: &str = "permissive = 1\nq_size = 640\nwatch_fs = ext4,tmpfs\ntrust = debdb,file\nintegrity = sha256\n\
                    syslog_format = rule,dec,perm,auid,pid,exe,:,path,ftype,trust\n";
const TRUST: &str = "/usr/bin/true 5 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n";

fn fill(world: &World) {
    world.write("old/fapolicyd.conf", CONF);
    world.write("old/rules.d/10-languages.rules", "%languages=text/x-python,text/x-perl\n");
    world.write(
        "old/rules.d/90-deny.rules",
        "deny_audit perm=any all : ftype=%languages\nallow perm=any all : all\n",
    );
    world.write("old/fapolicyd.trust", TRUST);
    world.write("old/trust.d/app", &TRUST.replace("true", "app"));
    world.write("old/fapolicyd-filter.conf", "+ /\n");
}

fn import(world: &World, more: &[&str]) -> Run {
    let mut command = world.place.command(world.place.binary());
    command.args(["import", "--from", "fapolicyd", "old", "--into", "etc"]).args(more);
    finish(&mut command)
}

#[test]
fn everything_is_taken_over_and_understood() {
    for world in World::each() {
        fill(&world);
        let run = import(&world, &["--dry-run", "--json"]);
        assert_eq!((run.code, world.path("etc").exists()), (0, false), "{run:?}");
        let run = import(&world, &["--json"]);
        let answer = parse(&run);
        assert_eq!(
            (&answer["rules"], &answer["trusted"], &answer["written"]),
            (&2.into(), &2.into(), &true.into())
        );
        assert_eq!(answer["files"].as_array().unwrap().len(), 6);
        assert!(answer["notes"][0].as_str().unwrap().contains("q_size"), "{answer}");
        let rules = std::fs::read_to_string(world.path("etc/guard.d/90-deny.rules")).unwrap();
        assert!(rules.starts_with("deny_audit perm=any all : ftype=%languages"));
        let trust = std::fs::read_to_string(world.path("etc/guard.trust")).unwrap();
        assert_eq!(trust, TRUST);
        assert!(world.path("etc/trust.d/app").exists() && world.path("etc/guard-filter.conf").exists());
        world.guard(&["check", "etc"]).ok();
        world.guard(&["explain", "/etc/passwd"]).ok();

        // What is there isn't replaced unless it may be.
        import(&world, &[]).refused(2, &["it exists"]).with_hint();
        import(&world, &["--force"]).ok();
    }
}

#[test]
fn what_cannot_be_understood_changes_nothing() {
    for world in World::each() {
        let refused = |class: &str| {
            let run = import(&world, &["--json"]);
            assert_eq!((run.code, &parse(&run)["error"]["class"]), (2, &class.into()), "{run:?}");
            assert!(!world.path("etc").exists());
        };
        std::fs::create_dir_all(world.path("old")).unwrap();
        refused("syntax");
        fill(&world);
        world.write("old/fapolicyd.conf", "permisive = 1\n");
        refused("syntax");
        world.write("old/fapolicyd.conf", CONF);
        world.write("old/fapolicyd-filter.conf", "nothing\n");
        refused("filter");
        world.write("old/fapolicyd-filter.conf", "+ /\n");
        world.write("old/rules.d/90-deny.rules", "alow all all\n");
        refused("rules");
        world.write("old/rules.d/90-deny.rules", "allow perm=any all : all\n");
        world.write("old/fapolicyd.rules", "allow perm=any all : all\n");
        refused("rules");
    }
}

#[test]
fn rules_of_others_are_not_mixed_in() {
    for world in World::each() {
        fill(&world);
        world.write("etc/guard.d/50-own.rules", "allow perm=any all : all\n");
        import(&world, &[]).refused(2, &["50-own.rules", "it exists"]);
        let run = import(&world, &["--force"]);
        assert!(run.err.contains("50-own.rules stays, and its rules apply, too"), "{run:?}");
    }
}
