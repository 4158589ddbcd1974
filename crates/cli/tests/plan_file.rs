// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests `run --plan FILE`: the file only confirms a plan that was printed before; it can't grant anything itself.

use crate::support::{Place, Run, everybody, give, job, ordinary, root};
use std::os::unix::fs::{PermissionsExt, chown, symlink};

/// Prints the plan of a launch into a file.
fn print(place: &Place, file: &str, options: &[&str]) {
    let printed = place.run(&[options, &["--dry-run", "--json"]].concat(), &["true"]);
    place.write(file, printed.ok());
}

/// A sandboxed command edits the plan that lies where it may write.
#[test]
fn an_edited_plan_gets_no_more_than_the_policy() {
    for place in everybody() {
        let secret = place.write("secret/key", "secret");
        let ran = place.home.join("ran");
        let show = format!(
            "bind = dict(next(step['bind'] for step in plan['steps'] if 'bind' in step), source='{0}', target='mnt')\n\
             plan['steps'].insert(-1, {{'bind': bind}})",
            secret.parent().unwrap().display(),
        );
        let hook = format!(
            "plan['conduct']['hooks'] = [dict(when='before', command=['/bin/sh', '-c', 'echo ran >{}'], attach=False, \
             may_fail=True, environment=None, capture=None)]",
            ran.display()
        );
        let source = place.home.display();
        let reaches = format!("cat /mnt/key {source}/secret/key; true");
        for (edit, difference) in [
            (show.as_str(), "only the file has: mount"),
            (&hook, "conduct.hooks"),
            ("plan['namespaces'].remove('network')", "namespaces"),
            ("plan['filter'] = plan['filter'][-1:]", "filter"),
            ("plan['broker'] = None", "broker"),
            ("plan['landlock'] = None", "landlock"),
            ("plan['limits'] = []", "limits"),
        ] {
            print(&place, "work/plan.json", &[]);
            assert_eq!(place.sh(&["--plan", "plan.json"], "echo as printed").ok(), "as printed");
            let program = format!(
                "import json\nplan = json.load(open('plan.json'))\n{edit}\njson.dump(plan, open('plan.json', 'w'))"
            );
            place.run(&[], &["/usr/bin/python3", "-c", &program]).ok();
            let run = place.sh(&["--plan", "plan.json"], &reaches);
            assert!(!run.out.contains("secret") && !ran.exists(), "{edit}: {run:?}");
            run.refused(
                125,
                &["plan.json", "differs from the plan that the policy and these options make", difference],
            )
            .with_hint();
        }
        // The plan that the hint's command prints is accepted.
        print(&place, "work/plan.json", &[]);
        assert_eq!(place.sh(&["--plan", "plan.json"], "echo again").ok(), "again");
    }
}

#[test]
fn options_and_policies_are_what_gives() {
    for place in everybody() {
        place.write("data/file", "data");
        print(&place, "plan.json", &["--ro", "~/data"]);
        let plan = place.home.join("plan.json");
        let plan = plan.to_str().unwrap();
        let line = "cat ~/data/file";
        assert_eq!(place.sh(&["--ro", "~/data", "--plan", plan], line).ok(), "data");
        place.sh(&["--plan", plan], line).refused(125, &["plan.json", "/data read-only"]).with_hint();
        // A policy that was added later applies.
        let policy = "schema = 1\n[limits]\nopen_files = 99\n";
        place.write(".config/palisade/config.toml", policy);
        place.sh(&["--ro", "~/data", "--plan", plan], line).refused(125, &["plan.json"]).with_hint();
    }
}

/// Whatever a plan says: what an administrator has locked since, or before the file was changed, holds.
#[test]
fn a_plan_loosens_no_lock() {
    let Some(place) = root() else { return };
    place.write("data/file", "secret");
    let data = place.home.join("data");
    let data = data.to_str().unwrap();
    let with = |config: &str, options: &[&str], line: &str| -> Run {
        let mut palisade = place.administered(config);
        job::finish(palisade.arg("run").args(options).args(["--", "sh", "-c", line]))
    };
    let printed = with("", &["--rw", data, "--dry-run", "--json"], "true");
    let plan = place.write("plan.json", printed.ok());
    let plan = plan.to_str().unwrap();
    let read = format!("cat {data}/file; echo x >{data}/new; true");
    assert_eq!(with("", &["--rw", data, "--plan", plan], &read).ok(), "secret");
    std::fs::remove_file(place.home.join("data/new")).unwrap();
    for (lock, hides) in [
        ("[locked.filesystem]\ndeny = [\"~/data\"]\n", true),
        ("[locked.filesystem]\nhide = [\"~/data/file\"]\n", true),
        ("[locked.filesystem]\nread = [\"~/data\"]\n", false),
        ("[locked.limits]\nopen_files = 99\n", false),
        ("[locked.filesystem]\nprotect_paths = [\"~/data/new\"]\n", false),
    ] {
        for options in [&["--rw", data, "--plan", plan][..], &["--plan", plan]] {
            let run = with(lock, options, &read);
            assert!(!run.out.contains("secret"), "{lock}: {run:?}");
            assert!(!place.home.join("data/new").exists(), "{lock}: {run:?}");
            run.refused(125, &[]).with_hint();
        }
        // The same plan, made under the lock: it gives what the lock leaves.
        let printed = with(lock, &["--rw", data, "--dry-run", "--json"], "true");
        if printed.code == 0 {
            let locked = place.write("locked.json", &printed.out);
            let run = with(lock, &["--rw", data, "--plan", locked.to_str().unwrap()], &read);
            assert_eq!(run.out.contains("secret"), !hides, "{lock}: {run:?}");
            let _made_where_nothing_is_against_it = std::fs::remove_file(place.home.join("data/new"));
        }
    }
}

#[test]
fn a_file_that_others_may_write_is_not_read() {
    for place in everybody() {
        print(&place, "plans/plan.json", &[]);
        let (directory, plan) = (place.home.join("plans"), place.home.join("plans/plan.json"));
        let path = plan.to_str().unwrap();
        let works = || assert_eq!(place.sh(&["--plan", path], "echo works").ok(), "works");
        works();
        for (what, bad, good) in [(&plan, 0o666, 0o644), (&directory, 0o777, 0o755)] {
            std::fs::set_permissions(what, std::fs::Permissions::from_mode(bad)).unwrap();
            let mode = format!("(owner {}, mode {bad:04o})", place.uid);
            let run = place.sh(&["--plan", path], "echo works");
            run.refused(125, &[what.to_str().unwrap(), &mode]).with_hint();
            // The hint is a command that works.
            let hint =
                run.err.lines().find_map(|line| line.strip_prefix("hint: look at it, then: ")).unwrap();
            place.outside(hint);
            assert_eq!(what.metadata().unwrap().permissions().mode() & 0o777, good);
            works();
        }
        // In a directory with the sticky bit, a user can't replace files of another user.
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o1777)).unwrap();
        works();
        // A link that belongs to the user is followed.
        let link = place.home.join("link.json");
        symlink(&plan, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(place.uid), None).unwrap();
        assert_eq!(place.sh(&["--plan", link.to_str().unwrap()], "echo works").ok(), "works");
    }
}

/// Root trusts only files of root.
#[test]
fn a_plan_of_another_user_is_not_roots() {
    let Some(place) = root() else { return };
    let other = ordinary();
    print(&place, "plan.json", &[]);
    let plan = place.home.join("plan.json");
    let path = plan.to_str().unwrap();
    assert_eq!(place.sh(&["--plan", path], "echo works").ok(), "works");
    chown(&plan, Some(other.uid), None).unwrap();
    let said = format!("(owner {}, mode", other.uid);
    let run = place.sh(&["--plan", path], "echo works");
    run.refused(125, &["plan.json", &said]).with_hint();
    let hint = run.err.lines().find_map(|line| line.strip_prefix("hint: look at it, then: ")).unwrap();
    let copy = "copy.json";
    place.outside(&hint.replace("~/plan.json", &format!("~/{copy}")));
    let copy = place.home.join(copy);
    assert_eq!(place.sh(&["--plan", copy.to_str().unwrap()], "echo works").ok(), "works");
    // A link of another user isn't trusted either.
    chown(&plan, Some(0), None).unwrap();
    let link = place.home.join("link.json");
    symlink(&plan, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(other.uid), None).unwrap();
    place.sh(&["--plan", link.to_str().unwrap()], "true").refused(125, &["link.json", &said]).with_hint();
    give(&place, &plan);
}
