// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that the printed plan is the plan that is applied, and that a kept plan is used exactly as long
//! as it is correct.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{self, Place, everybody, has, job, root};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// What a command can see of its sandbox, without what differs from launch to launch.
const LOOK: &str = "
grep -vE '^(Vm|Rss|Hugetlb|voluntary|nonvoluntary|Threads|Pid|Tgid|Ngid|PPid|TracerPid|NSp|NStgid|NSsid|Cpus|Mems|SigQ|Hug|x86)' /proc/self/status
sed -E 's/^[0-9]+ [0-9]+ [0-9]+:[0-9]+ //; s/ (shared|master):[0-9]+//g' /proc/self/mountinfo | sort
cat /proc/self/limits /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups | tr -s ' '
cut -d: -f1 /proc/net/dev
sed -E 's/palisade-[0-9]+/palisade-N/' /proc/self/cgroup
env | grep -v '^_=' | sort
uname -n; pwd; umask; id
for kind in user mnt pid ipc uts cgroup net; do [ $(readlink /proc/self/ns/$kind) = \"$(cat ns-$kind 2>/dev/null)\" ] && echo same $kind; done
ls -lanR --time-style=+ /dev ~ 2>&1 | sed -E 's/^total .*//; / [.][.]$/d'
ls -lan --time-style=+ / /tmp /run /var /mnt 2>&1 | grep -vE '^total| proc$| [0-9]+ +\\.\\.?$' | sed -E 's/^([^ ]+) +[0-9]+ +([0-9]+) +([0-9]+) +[0-9]+/\\1 \\2 \\3/'
ls /proc/self/fd";

fn assert_same(place: &Place, options: &[&str]) {
    place.outside(
        "for kind in user mnt pid ipc uts cgroup net; do readlink /proc/self/ns/$kind >ns-$kind; done",
    );
    let printed = place.run(&[options, &["--dry-run", "--json"]].concat(), &["true"]);
    assert_eq!(printed.code, 0, "{options:?}: {printed:?}");
    place.write("plan.json", &printed.out);
    let plan = place.home.join("plan.json");
    let direct = place.run(options, &["bash", "-c", LOOK]);
    let given = [options, &["--plan", plan.to_str().unwrap()]].concat();
    let planned = place.run(&given, &["bash", "-c", LOOK]);
    assert_eq!(direct.code, 0, "{options:?}: {direct:?}");
    for (left, right) in direct.out.lines().zip(planned.out.lines()) {
        assert_eq!(left, right, "{options:?}");
    }
    assert_eq!(
        (direct.out.lines().count(), direct.code),
        (planned.out.lines().count(), planned.code),
        "{options:?}"
    );
    let said = format!("the plan comes from {}", plan.display());
    assert!(planned.err.contains(&said) && !direct.err.contains(&said), "{options:?}: {planned:?}");
    // Printing a printed plan gives the same plan, except for its inputs.
    let again = place.run(&[&given[..], &["--dry-run", "--json"]].concat(), &["true"]);
    let essence = |text: &str| {
        let mut plan: serde_json::Value = serde_json::from_str(text).unwrap();
        let plan_of = plan.as_object_mut().unwrap();
        plan_of.retain(|key, _| !["inputs", "absent", "notes"].contains(&key.as_str()));
        plan
    };
    assert!(essence(&again.out) == essence(&printed.out), "{options:?}: {again:?}");
}

#[test]
fn a_printed_plan_makes_the_same_sandbox() {
    for place in everybody() {
        place.write("data/sub/file", "x");
        place.write("work/private/file", "x");
        for options in [
            &[][..],
            &["--ro", "~/data", "--rw", "~/data/sub=/mnt/sub"],
            &["--hide", "./private", "--tmpfs", "~/fresh"],
            &["--deny", "./private", "--deny", "**/file"],
            &["--view", "host"],
            &["--net", "host"],
            &["--limit", "open_files=99", "--limit", "core_size=0"],
            &["--hostname", "box", "--uid", "1234", "--gid", "77"],
            &["--cwd", "/usr", "--env", "NAME=value", "--keep-env", "SSH_*"],
            &["--namespaces", "none"],
        ] {
            assert_same(&place, options);
        }
    }
    if let Some(place) = root().filter(|_place| has("cgroup-limits")) {
        assert_same(&place, &["--limit", "memory=200M", "--limit", "processes=50"]);
    }
}

#[test]
fn a_dry_run_starts_nothing_and_needs_no_command() {
    for place in everybody() {
        let run = place.run(&["--dry-run"], &["touch", "started"]);
        assert!(run.ok().contains("command: touch started"), "{run:?}");
        assert!(!place.work.join("started").exists());
        let run = job::finish(place.command(place.binary()).args(["run", "--dry-run", "--json"]));
        let plan: serde_json::Value = serde_json::from_str(run.ok()).unwrap();
        assert_eq!(plan["schema"], 2);
    }
}

/// The one plan that is kept.
fn kept(place: &Place) -> PathBuf {
    let plans: Vec<PathBuf> = std::fs::read_dir(place.home.join(".cache/palisade/plans"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(plans.len(), 1, "{plans:?}");
    plans[0].clone()
}

/// Launches until a plan is kept: that doesn't happen while its inputs are new.
fn keep(place: &Place) -> PathBuf {
    assert!(support::eventually(|| {
        place.run(&[], &["true"]).ok();
        place.home.join(".cache/palisade/plans").read_dir().is_ok_and(|mut plans| plans.next().is_some())
    }));
    kept(place)
}

/// An age that a plan written now can't have.
fn age(plan: &PathBuf) -> SystemTime {
    let old = SystemTime::now() - Duration::from_secs(3600);
    std::fs::File::options().append(true).open(plan).unwrap().set_modified(old).unwrap();
    plan.metadata().unwrap().modified().unwrap()
}

fn modified(place: &Place) -> SystemTime {
    kept(place).metadata().unwrap().modified().unwrap()
}

#[test]
fn a_kept_plan_is_used() {
    for place in everybody() {
        let plan = keep(&place);
        let state = plan.metadata().unwrap();
        assert_eq!((state.mode() & 0o777, state.uid()), (0o600, place.uid));
        place.undisturbed(|| {
            place.forget_plans();
            let old = age(&keep(&place));
            assert_eq!(place.sh(&[], "echo works").ok(), "works");
            if modified(&place) == old { Ok(()) } else { Err("the plan was made again".to_owned()) }
        });
    }
}

#[test]
fn a_plan_that_cannot_be_believed_is_made_again() {
    for place in everybody() {
        let plan = keep(&place);
        let good = std::fs::read(&plan).unwrap();
        let works = |what: &str| {
            let run = place.sh(&[], "echo works; cat ~/../secret 2>/dev/null");
            assert_eq!((run.out.as_str(), run.err.as_str()), ("works\n", ""), "{what}");
        };
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut middle = good.clone();
        middle[good.len() / 2] ^= 0x40;
        for (what, content) in [
            ("empty", &[][..]),
            ("cut", &good[..good.len() - 1]),
            ("header only", &good[..24]),
            ("flipped", &flipped),
            ("changed", &middle),
            ("text", b"schema = 1"),
        ] {
            std::fs::write(&plan, content).unwrap();
            let replaced = support::eventually(|| {
                works(what);
                std::fs::read(&plan).unwrap() != content
            });
            assert!(replaced, "{what} was kept");
            std::fs::write(&plan, &good).unwrap();
        }
        for mode in [0o620, 0o602, 0o666] {
            std::fs::set_permissions(&plan, std::fs::Permissions::from_mode(mode)).unwrap();
            let old = age(&plan);
            let replaced = support::eventually(|| {
                works("writable by others");
                modified(&place) != old
            });
            assert!(replaced, "{mode:o}");
            assert_eq!(plan.metadata().unwrap().mode() & 0o777, 0o600);
        }
        // If other users may write to the directory, no plan in it is trusted.
        let directory = plan.parent().unwrap();
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(&plan, &good[..10]).unwrap();
        works("directory writable by others");
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700)).unwrap();
        // A link, a fifo, a directory in its place.
        for line in ["ln -s /etc/passwd", "mkfifo", "mkdir"] {
            let name = plan.file_name().unwrap().to_str().unwrap();
            place.outside(&format!("cd ~/.cache/palisade/plans && rm -rf {name} && {line} {name}"));
            works(line);
        }
        place.outside("rm -rf ~/.cache/palisade/plans");
        if support::is_root() {
            let plan = keep(&place);
            chown(&plan, Some(12_345), None).unwrap();
            let old = age(&plan);
            let replaced = support::eventually(|| {
                works("somebody else's");
                modified(&place) != old
            });
            assert!(replaced);
        }
    }
}

#[test]
fn a_link_turned_elsewhere_shows_and_hides_elsewhere() {
    for place in everybody() {
        for version in ["one", "two"] {
            place.write(&format!("data/{version}/name"), version);
        }
        let turn = |version: &str| place.outside(&format!("ln -sfn ~/data/{version} ~/current"));
        let shown = || place.sh(&["--ro", "~/current"], "cat ~/current/name").out;
        let options = ["--ro", "~/data", "--hide", "~/current"];
        let hidden = || place.sh(&options, "cat ~/data/one/name ~/data/two/name 2>/dev/null").out;
        turn("one");
        for _cold_and_hot in 0..2 {
            assert_eq!((shown().as_str(), hidden().as_str()), ("one", "two"));
        }
        turn("two");
        for _stale_and_hot in 0..2 {
            assert_eq!((shown().as_str(), hidden().as_str()), ("two", "one"));
        }
    }
}

#[test]
fn a_changed_input_makes_a_new_plan() {
    for place in everybody() {
        place.write(".gitconfig", "[user]\n\tname = One\n");
        place.outside("touch -d '1 hour ago' ~/.gitconfig");
        let name = || place.run(&[], &["git", "config", "user.name"]).ok().to_owned();
        place.undisturbed(|| {
            place.forget_plans();
            assert_eq!(name(), "One");
            let old = age(&keep(&place));
            assert_eq!(name(), "One");
            if modified(&place) == old { Ok(()) } else { Err("the plan was made again".to_owned()) }
        });
        place.write(".gitconfig", "[user]\n\tname = Two\n");
        assert_eq!(name(), "Two", "at the next launch, not at some later one");
        place.write(".gitconfig", "[user]\n\tname = Six\n");
        assert_eq!(name(), "Six", "of the same size");
        std::fs::remove_file(place.home.join(".gitconfig")).unwrap();
        assert_eq!(place.run(&[], &["git", "config", "user.name"]).code, 1);
        // The user's policy.
        assert_eq!(place.sh(&[], "cat ~/data/in").code, 1);
        place.write("data/in", "data");
        place.write(".config/palisade/config.toml", "schema = 1\n[filesystem]\nread = [\"~/data\"]\n");
        assert_eq!(place.sh(&[], "cat ~/data/in").ok(), "data");
        std::fs::remove_file(place.home.join(".config/palisade/config.toml")).unwrap();
        assert_eq!(place.sh(&[], "cat ~/data/in").code, 1);
    }
}

#[test]
fn launches_that_differ_have_plans_that_differ() {
    for place in everybody() {
        place.write("data/in", "data");
        keep(&place);
        assert_eq!(place.sh(&["--ro", "~/data"], "cat ~/data/in").ok(), "data");
        assert_eq!(place.sh(&[], "cat ~/data/in").code, 1);
        let mut palisade = place.palisade(&[], &["cat", "../data/in"]);
        assert_eq!(job::finish(palisade.current_dir(place.home.join("data"))).ok(), "data");
        assert_eq!(place.sh(&[], "cat ~/data/in").code, 1);
        // Values from the command line are neither saved in a plan nor mixed up.
        assert_eq!(place.sh(&["--env", "A=1"], "echo $A").ok(), "1");
        assert_eq!(place.sh(&["--env", "A=2"], "echo $A").ok(), "2");
    }
}

#[test]
fn plans_do_not_pile_up() {
    for place in everybody().into_iter().filter(|place| !place.is_root()) {
        keep(&place);
        let line = "for i in $(seq 600); do $P run --hostname h$i -- true || exit; done; ls ~/.cache/palisade/plans | wc -l";
        let run = job::finish(place.command("/bin/bash").args(["-c", line]).env("P", place.binary()));
        let count: u32 = run.ok().parse().unwrap();
        assert!(count <= 513, "{count} plans are kept");
    }
}
