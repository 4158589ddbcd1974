// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests a host that enforces the default policy with its own package database while packages are installed and removed.

use crate::support::lines::tell;
use crate::support::packages::{end, false_refusals, others, package, palisade, program};
use crate::support::{Settings, has, host};

use palisade_acceptance::patience::Patience;
use palisade_protocol::guard::{Request, Response};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn machine() -> bool {
    ["fanotify", "overlay", "gcc", "apt"].into_iter().all(has)
}

#[test]
fn packages_come_and_go() {
    if !machine() {
        return;
    }
    let mut bed = host::unguarded("");
    for version in 1..=4 {
        package(&bed, "palisade-one", version, "");
    }
    package(&bed, "palisade-two", 1, "Depends: palisade-one\n");
    bed.run("cd /root && cp /bin/true stranger && cat palisade-one_1.deb > /dev/null").ok();
    let began = Instant::now();
    bed.start();
    tell(&format!("the host's packages: {} ms, {} files", began.elapsed().as_millis(), bed.status().trusted));
    bed.run("/root/stranger").refused();

    let other = others(&bed);
    let began = Instant::now();
    // The package's script executes the package's program at once, and so do other users.
    bed.run("dpkg -i /root/palisade-one_1.deb").ok();
    assert_eq!(bed.run_as_user("palisade-one").ok(), "palisade-one 1\n");
    bed.run("dpkg -i /root/palisade-two_1.deb && palisade-two").ok();
    for version in 2..=4 {
        bed.run(&format!("dpkg -i /root/palisade-one_{version}.deb")).ok();
        assert_eq!(bed.run_as_user("palisade-one").ok(), format!("palisade-one {version}\n"));
    }
    tell(&format!("two packages and three upgrades: {} ms", began.elapsed().as_millis()));

    // A file that a removed package leaves is untrusted.
    bed.run("cp /usr/bin/palisade-one /root/kept; dpkg -r palisade-two palisade-one").ok();
    assert!(!bed.run("palisade-one").worked());
    bed.program("/usr/bin/palisade-one", program("palisade-one 4"));
    bed.wait("what was removed isn't trusted", |bed| !bed.run("/usr/bin/palisade-one").worked());
    bed.run("/root/kept").refused();

    let failed = end(other);
    assert_eq!(failed, "", "others could not go on");
    let wrong: Vec<String> =
        false_refusals(&bed).into_iter().filter(|line| !line.contains("path=/usr/bin/palisade-")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    bed.stop();
}

#[test]
fn with_its_hook_dpkg_ends_when_all_is_trusted() {
    if !machine() {
        return;
    }
    let mut bed = host::unguarded("");
    for version in 1..=4 {
        package(&bed, "palisade-one", version, "");
    }
    // The command line and the hook as a package of their own, as a distribution would bring them.
    let at = "/root/hook";
    bed.program(format!("{at}/usr/bin/palisade"), std::fs::read(palisade()).unwrap());
    let hook = include_str!("../../../packaging/dpkg.cfg");
    bed.write(format!("{at}/etc/dpkg/dpkg.cfg.d/palisade"), hook);
    let control =
        "Package: palisade\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: a\n";
    bed.write(format!("{at}/DEBIAN/control"), control);
    bed.run(&format!(
        "cd {at} && md5sum usr/bin/palisade > DEBIAN/md5sums && dpkg-deb --root-owner-group -Znone -b . /root/palisade.deb > /dev/null"
    ))
    .ok();
    let began = Instant::now();
    bed.start();
    bed.run("dpkg -i /root/palisade.deb").ok();
    tell(&format!("start and the first package: {} ms", began.elapsed().as_millis()));
    // No process executes it, so no refusal waits for the changes: only the hook waits.
    let database = "palisade guard trust check /usr/bin/palisade-one";
    for version in 1..=4 {
        bed.run(&format!("dpkg -i --force-downgrade /root/palisade-one_{version}.deb && {database}")).ok();
    }
    let mut versions = vec![1, 3, 2, 4].into_iter().cycle();
    for _ in 0..8 {
        let version = versions.next().unwrap();
        bed.run(&format!("dpkg --unpack --force-downgrade /root/palisade-one_{version}.deb && {database}"))
            .ok();
    }
    bed.run("cp -a /usr/bin/palisade-one /root/kept && dpkg -r palisade-one && mv /root/kept /usr/bin/palisade-one").ok();
    let removed = bed.run(database);
    assert!(!removed.worked(), "{removed:?}");
    let synced = bed.run("palisade guard trust sync");
    assert!(synced.worked() && synced.err.is_empty(), "{synced:?}");
    assert!(!bed.run_as_user("palisade guard trust sync").worked());
    // A guard that isn't there, or doesn't answer, must not make dpkg fail.
    bed.stop();
    bed.run("dpkg -i /root/palisade-one_1.deb").ok();
    let gone = bed.run("palisade guard trust sync");
    assert!(!gone.worked() && gone.err.contains("hint: "), "{gone:?}");
    bed.run("dpkg -P palisade-one && rm /usr/bin/palisade && dpkg -i /root/palisade-one_2.deb").ok();
}

#[test]
fn apt_installs_from_the_network() {
    if !machine() || !has("internet") {
        return;
    }
    let mut bed = host::unguarded("");
    let hosts = bed.run("cat /etc/resolv.conf").out;
    let fetch = "cd /root && apt-get -q update && apt-get -q -y --download-only install hello figlet cowsay";
    let fetched = bed.run(fetch);
    if !fetched.worked() {
        tell(&format!("not tried: apt can't fetch packages here ({hosts:?}): {}", fetched.err));
        return;
    }
    bed.start();
    bed.run("DEBIAN_FRONTEND=noninteractive apt-get -q -y install hello figlet cowsay").ok();
    assert!(bed.run_as_user("hello").ok().contains("Hello"));
    bed.run_as_user("figlet a && /usr/games/cowsay a").ok();
    bed.run("DEBIAN_FRONTEND=noninteractive apt-get -q -y remove hello").ok();
    let wrong = false_refusals(&bed);
    assert!(wrong.is_empty(), "{wrong:#?}");
    bed.stop();
}

#[test]
fn a_package_manager_that_stands_still_or_is_killed() {
    if !machine() {
        return;
    }
    let mut bed = host::unguarded("");
    for version in 1..=2 {
        package(&bed, "palisade-one", version, "");
    }
    bed.run("cp /bin/true /root/stranger").ok();
    // dpkg is in the middle of its work: a package's script waits.
    bed.run("mkdir -p /root/slow/DEBIAN && cd /root/slow && mkdir -p usr/bin && cp /bin/true usr/bin/palisade-slow 2> /dev/null; true").ok();
    bed.write("/root/slow/DEBIAN/control", "Package: palisade-slow\nVersion: 1\nArchitecture: amd64\nMaintainer: a <a@example.org>\nDescription: a\n");
    bed.program(
        "/root/slow/DEBIAN/postinst",
        "#!/bin/sh\necho begun > /tmp/begun; while [ ! -e /tmp/go ]; do sleep 0.1; done\n",
    );
    bed.run(
        "cd /root/slow && md5sum usr/bin/* > DEBIAN/md5sums; dpkg-deb --root-owner-group -b . /root/slow.deb",
    )
    .ok();
    bed.start();
    let slow =
        bed.command(0, "100", &["dpkg", "-i", "/root/slow.deb"]).stdout(Stdio::null()).spawn().unwrap();
    bed.wait("the script runs", |bed| bed.outside("/tmp/begun").exists());
    let dpkg = bed.run("pidof -s dpkg").ok().trim().to_owned();
    bed.run(&format!("kill -STOP {dpkg}")).ok();
    let mut patience = Patience::new(Duration::from_secs(10));
    bed.run("timeout 20 /root/stranger").refused();
    bed.run_as_user("timeout 20 ls / && timeout 20 id && timeout 20 palisade-slow").ok();
    assert!(!patience.is_spent());
    // Other work of the guard doesn't wait for it either.
    bed.wait_for_import(|| bed.reload_gently());
    // Everything was read again while dpkg's status doesn't contain the package yet.
    bed.run_as_user("timeout 20 palisade-slow").ok();
    bed.run(&format!("kill -CONT {dpkg}; touch /tmp/go")).ok();
    assert!(slow.wait_with_output().unwrap().status.success());

    // dpkg is killed at several moments. It leaves a database that opens, and the packages can be repaired.
    bed.run("dpkg -i /root/palisade-one_1.deb").ok();
    for pause in ["0.02", "0.1", "0.3"] {
        bed.run(&format!("timeout -s KILL {pause} dpkg -i /root/palisade-one_2.deb; true")).ok();
        bed.run("rm -f /tmp/go; touch /tmp/go; dpkg --configure -a; dpkg -i /root/palisade-one_2.deb && dpkg -i --force-downgrade /root/palisade-one_1.deb")
            .ok();
        assert_eq!(bed.run_as_user("palisade-one").ok(), "palisade-one 1\n");
    }
    bed.run("/root/stranger").refused();
    let status = bed.status();
    assert!(status.alarms.is_empty(), "{:?}", status.alarms);
    bed.signal("-KILL");
    let _code = bed.ended();
    bed.start();
    bed.run_as_user("palisade-one").ok();
    assert!(!bed.log().contains("nothing is trusted until"), "{}", bed.log());
}

#[test]
fn rules_that_would_stop_the_host() {
    if !machine() {
        return;
    }
    let mut bed = host::unguarded("");
    bed.run("cp /bin/true /root/stranger; cp /bin/true /root/tried").ok();
    let enforce = Settings { guard: "mode = \"enforce\"".into(), ..Settings::default() };
    // At the first start, when it isn't known yet what is trusted: the database still comes into force.
    bed.rule_file(
        "50-test.rules",
        "deny_audit perm=execute all : path=/usr/bin/bash\nallow perm=any all : all\n",
    );
    bed.launch();
    bed.wait("it is told", |bed| bed.log().contains("what the rules deny is only reported"));
    bed.wait("it is in force", |bed| bed.status().trusted > 1000);
    assert!(!bed.status().enforcing);
    bed.run("/bin/bash -c true").ok();
    bed.stop();
    std::fs::remove_file(bed.outside(bed.config("guard.d/50-test.rules"))).unwrap();
    bed.start();
    // At a reload: all stays as it was.
    bed.rule_file(
        "50-test.rules",
        "deny_audit perm=execute all : path=/usr/bin/bash\nallow perm=any all : all\n",
    );
    let Response::Refused(refusal) = bed.ask(&Request::Reload { force: false }) else {
        panic!("not refused")
    };
    assert_eq!(refusal.class, "unsafe", "{refusal:?}");
    assert!(refusal.message.contains("bash") && refusal.message.contains("50-test.rules:1"), "{refusal:?}");
    assert!(refusal.hint.unwrap().contains("--force"));
    bed.run("/bin/bash -c true").ok();
    bed.run("/root/stranger").refused();
    // At a start.
    bed.stop();
    bed.launch();
    assert_eq!(bed.ended(), Some(2), "{}", bed.log());
    assert!(bed.log().contains("these rules would stop the host"), "{}", bed.log());
    bed.options = vec!["--force"];
    bed.start();
    bed.run("/bin/bash -c true").refused();
    bed.options.clear();
    bed.stop();
    std::fs::remove_file(bed.outside(bed.config("guard.d/50-test.rules"))).unwrap();
    bed.settings(&enforce);
    bed.start();

    // A trial ends by itself or on request, and stays in force if it is kept.
    bed.write(
        "/root/try.rules",
        "deny_audit perm=execute all : path=/root/tried\nallow perm=any all : all\n",
    );
    let attempt =
        |seconds: u64, path: &str| bed.ask(&Request::Try { seconds, rules: Some(path.into()), force: false });
    assert!(matches!(attempt(2, "/root/try.rules"), Response::Done { .. }));
    assert!(bed.status().trying.is_some());
    bed.run("/root/stranger").ok();
    bed.run("/root/tried").refused();
    bed.wait("it is over", |bed| bed.status().trying.is_none());
    bed.run("/root/stranger").refused();
    assert!(matches!(attempt(60, "/root/try.rules"), Response::Done { .. }));
    assert!(matches!(attempt(60, "/root/try.rules"), Response::Done { .. }));
    assert!(matches!(bed.ask(&Request::Revert), Response::Done { .. }));
    bed.run("/root/stranger").refused();
    assert!(matches!(bed.ask(&Request::Revert), Response::Refused(_)));
    bed.write(
        "/root/bad.rules",
        "deny_audit perm=execute all : path=/usr/bin/bash\nallow perm=any all : all\n",
    );
    assert!(matches!(attempt(60, "/root/bad.rules"), Response::Refused(_)));
    bed.run("/root/stranger").refused();
    bed.stop();
}
