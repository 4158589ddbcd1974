// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests which files are trusted, without the daemon.

use super::world::{Guarded, World};

fn files_only(world: &World) {
    world.write(
        "etc/guard.toml",
        "schema = 1\n[guard.trust]\nsources = [\"files\"]\nintegrity = \"sha256\"\n",
    );
}

fn paths(answer: &serde_json::Value) -> Vec<&str> {
    answer["files"].as_array().unwrap().iter().map(|file| file["path"].as_str().unwrap()).collect()
}

#[test]
fn from_nothing_to_trusted_and_back() {
    for world in World::each() {
        files_only(&world);
        let tool = world.write("bin/a tool", "#!/bin/sh\n");
        let tool = tool.to_str().unwrap();
        assert!(world.guard(&["trust", "rebuild"]).err.contains("0 files are trusted"));
        let run = world.guard(&["trust", "add", tool]);
        assert_eq!((run.code, run.err.as_str()), (0, "1 file added\n"));
        // The database knows it without a rebuild.
        assert_eq!(paths(&world.json(&["trust", "list"]).1), [tool.replace(' ', "%20")]);
        assert_eq!(world.json(&["trust", "check", tool]).0, 0);
        world.guard(&["trust", "add", tool]).refused(2, &["already"]).with_hint();

        // It is another file now.
        world.write("bin/a tool", "#!/bin/no\n");
        let (code, answer) = world.json(&["trust", "verify"]);
        assert_eq!((code, &answer["differences"][0]["what"]), (1, &"content".into()), "{answer}");
        let (code, answer) = world.json(&["trust", "check", tool]);
        assert_eq!((code, &answer["files"][0]["trusted"]), (1, &false.into()));
        assert_eq!(answer["files"][0]["sources"].as_array().unwrap().len(), 1);
        assert_eq!(world.guard(&["trust", "update"]).err, "1 file updated\n");
        assert_eq!(world.json(&["trust", "verify"]).0, 0);

        assert_eq!(world.guard(&["trust", "delete", tool]).err, "1 file deleted\n");
        assert!(paths(&world.json(&["trust", "list"]).1).is_empty());
        world.guard(&["trust", "delete", tool]).refused(2, &["no trust file names"]).with_hint();
    }
}

#[test]
fn directories_sources_and_files_of_their_own() {
    for world in World::each() {
        files_only(&world);
        for name in ["app/one", "app/deep/two", "other"] {
            world.write(name, name);
        }
        world.guard(&["trust", "rebuild"]).ok();
        world.guard(&["trust", "add", "app", "--file", "app"]).ok();
        world.guard(&["trust", "add", "other"]).ok();
        assert_eq!(paths(&world.json(&["trust", "list"]).1).len(), 3);
        assert_eq!(paths(&world.json(&["trust", "list", "--below", "app/deep"]).1).len(), 1);
        let own = world.path("etc/trust.d/app");
        let of_app = world.json(&["trust", "list", "--source", own.to_str().unwrap()]).1;
        assert_eq!(paths(&of_app).len(), 2);
        assert_eq!(paths(&world.json(&["trust", "list", "--source", "file"]).1).len(), 3);
        assert!(paths(&world.json(&["trust", "list", "--source", "dpkg"]).1).is_empty());
        let (code, answer) = world.json(&["trust", "list", "--source", "nobody"]);
        assert_eq!((code, &answer["error"]["class"]), (2, &"not-listed".into()));
        let dump = world.guard(&["trust", "dump"]);
        assert!(dump.ok().lines().all(|line| line.starts_with("filedb /") && line.split(' ').count() == 4));
        world
            .guard(&["trust", "add", "other", "--file", "../x"])
            .refused(2, &["can't be a trust file's name"]);
        assert_eq!(world.guard(&["trust", "delete", "app"]).err, "2 files deleted\n");
    }
}

#[test]
fn the_hosts_own_files_are_roots() {
    for world in World::each().into_iter().filter(|world| !world.place.is_root()) {
        for verb in [&["trust", "add", "/usr/bin/true"][..], &["trust", "rebuild"], &["trust", "update"]] {
            let mut command = world.place.command(world.place.binary());
            command.arg("guard").args(verb).arg("--socket").arg(world.path("sock"));
            crate::support::job::finish(&mut command).refused(2, &["only root can change"]).with_hint();
        }
    }
}

/// Rules that refuse to open untrusted files also refuse it to root, who must open a file to trust it.
#[test]
fn what_may_not_be_opened_can_be_trusted_while_that_is_enforced() {
    let rules = "allow perm=any all : trust=1\n\
                 deny_audit perm=any all : dir=%DIR%\n\
                 allow perm=any all : all\n";
    let Some(guarded) = Guarded::trusting(rules, "\"files\"") else { return };
    guarded.guard(&["enforce", "--force"]).ok();
    let new = guarded.file("good");
    let read = || crate::support::job::finish(&mut guarded.inside(&["cat", &new])).code == 0;
    assert!(!read() && !guarded.runs("good"));
    let run = guarded.guard(&["trust", "add", &new]);
    assert_eq!((run.code, run.err.as_str()), (0, "1 file added\n"), "{run:?}");
    guarded.guard(&["trust", "sync"]).ok();
    assert!(read() && guarded.runs("good") && !guarded.runs("bad"));
    // Below a directory, and as they are now.
    let run = guarded.guard(&["trust", "delete", &new]);
    assert_eq!(run.code, 0, "{run:?}");
    guarded.guard(&["trust", "sync"]).ok();
    assert!(!guarded.runs("good"));
    assert_eq!(guarded.guard(&["trust", "add", &guarded.file("")]).err, "2 files added\n");
    guarded.guard(&["trust", "sync"]).ok();
    assert!(guarded.runs("good") && guarded.runs("bad"));
    crate::support::job::finish(&mut guarded.inside(&[
        "sh",
        "-c",
        "cp /bin/false \"$0\"",
        &guarded.file("bad"),
    ]))
    .ok();
    guarded.wait_until("another content isn't trusted", || !guarded.runs("bad"));
    assert_eq!(guarded.guard(&["trust", "update", &guarded.file("bad")]).err, "1 file updated\n");
    guarded.guard(&["trust", "sync"]).ok();
    let ran =
        crate::support::job::finish(&mut guarded.inside(&["sh", "-c", "exec \"$0\"", &guarded.file("bad")]));
    assert_eq!(ran.code, 1, "it is false now: {ran:?}");
    // An ordinary user can't have palisaded read a file.
    let run = guarded.guard_as_user(&["trust", "add", &new]);
    assert_ne!(run.code, 0, "{run:?}");
}

#[test]
fn programs_of_path_that_nobody_trusts() {
    for world in World::each() {
        files_only(&world);
        for name in ["bin/one", "bin/two"] {
            let path = world.write(name, "#!/bin/sh\n");
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        world.write("bin/no-program", "");
        world.guard(&["trust", "add", "bin/one"]).ok();
        world.guard(&["trust", "rebuild"]).ok();
        let ask = || {
            let mut command = world.guard_command(&["check-path", "--json"]);
            crate::support::job::finish(command.env("PATH", world.path("bin")))
        };
        let run = ask();
        let answer = super::world::parse(&run);
        assert_eq!((run.code, &answer["looked_at"]), (1, &2.into()));
        assert!(answer["untrusted"][0].as_str().unwrap().ends_with("bin/two"), "{answer}");
        world.guard(&["trust", "add", "bin/two"]).ok();
        assert_eq!(ask().code, 0);
    }
}

#[test]
fn the_daemon_hears_of_what_is_added() {
    let rules =
        "allow perm=any all : trust=1\ndeny_audit perm=execute all : dir=%DIR%/\nallow perm=any all : all\n";
    let Some(guarded) = Guarded::trusting(rules, "\"files\"") else { return };
    guarded.guard(&["enforce"]).ok();
    assert!(!guarded.runs("good"));
    let (_, answer) = guarded.json(&["explain", &guarded.file("good")]);
    let permit = answer["permit"].as_str().unwrap().strip_prefix("sudo palisade guard ").unwrap().to_owned();
    // The command that the hint names permits it.
    guarded.guard(&permit.split(' ').collect::<Vec<_>>()).ok();
    guarded.wait_until("it is trusted", || guarded.runs("good"));
    assert!(!guarded.runs("bad"));
    let (code, answer) = guarded.json(&["explain", &guarded.file("good")]);
    assert_eq!((code, &answer["event"]["detail"]["trusted"]), (0, &true.into()), "{answer}");
    assert!(answer["trusted_by"][0].as_str().unwrap().ends_with("/etc/guard.trust"), "{answer}");
    guarded.guard(&["trust", "delete", &guarded.file("good")]).ok();
    guarded.wait_until("it is trusted no more", || !guarded.runs("good"));
}
