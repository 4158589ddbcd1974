// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An upgrade of palisaded while it enforces: the host goes on, and is guarded again.

use super::host;
use super::made::{Binaries, VERSION};
use crate::faults::WAIT;
use crate::mishaps::gauge::{Gauge, PROGRAM, What};
use crate::stopped::{signal, standby};
use crate::support::lines::tell;
use crate::support::packages::{end, others};
use crate::support::{Bed, compile, has};
use palisade_acceptance::patience::crowd;
use palisade_protocol::guard::{Request, Response};
use std::time::Duration;

/// What systemd does with the unit, as far as the packages' scripts ask. A service of the type `notify` has begun when it answers.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "$*" >> /run/asked
case " $* " in
    *' is-enabled '*) echo enabled ;;
    *' restart '* | *' try-restart '*)
        kill -TERM "$(cat /run/guard.pid)"
        while kill -0 "$(cat /run/guard.pid)" 2> /dev/null; do sleep 0.02; done
        setsid timeout -s KILL 150 /bin/sh -c 'echo $$ > /run/guard.pid; exec /usr/sbin/palisaded' < /dev/null > /dev/null 2>> /run/guard.log &
        until palisade guard status > /dev/null 2>&1; do sleep 0.05; done ;;
esac
"#;

/// A host whose palisaded is a package's and enforces, with another version of the package.
fn guarded() -> Option<Bed> {
    if !["fanotify", "overlay", "gcc", "apt", "dpkg-deb"].into_iter().all(has) {
        return None;
    }
    let mut bed = host();
    let binaries = Binaries::new();
    binaries.pack("deb", VERSION, &[]).bring(&bed, "/root/one");
    binaries.changed().pack("deb", "99.0.0", &[]).bring(&bed, "/root/two");
    bed.run(
        "dpkg -i /root/one/*.deb && cp /bin/true /root/stranger && mkdir /run/palisade /var/lib/palisade",
    )
    .ok();
    bed.write("/plain", "plain");
    let program = compile("int main() { return 0; }", &["-static"]);
    for name in ["/trusted", "/untrusted"] {
        bed.program(name, &program);
    }
    bed.program("/gauge", compile(PROGRAM, &["-static"]));
    bed.program("/usr/local/sbin/systemctl", SYSTEMCTL);
    bed.trust("20-test", &["/trusted", "/gauge", "/usr/local/sbin/systemctl"].map(std::path::Path::new));
    // In place of the copy that other tests start.
    bed.starter = vec!["/bin/sh", "-c", "shift; exec /usr/sbin/palisaded \"$@\"", "sh"];
    bed.start();
    bed.write("/run/guard.pid", bed.pid().to_string());
    bed.run("/root/stranger").refused();
    bed.wait("a process stands by", |bed| standby(bed).is_some());
    Some(bed)
}

/// Does something while other processes execute and open files. Panics if one of them failed or had to wait.
#[track_caller]
fn meanwhile(bed: &Bed, act: impl FnOnce()) {
    let other = others(bed);
    let gauge = Gauge::start(bed);
    act();
    let records = gauge.end();
    assert_eq!(end(other), "", "others could not go on");
    let longest = |refusable: bool| {
        let durations = records.iter().filter(|record| (record.what == What::Untrusted) == refusable);
        let longest = durations.map(|record| record.end - record.begin).max().unwrap();
        Duration::from_micros(longest).div_f64(crowd().max(1.0))
    };
    let (allowed, refused) = (longest(false), longest(true));
    let failed: Vec<_> =
        records.iter().filter(|record| record.what != What::Untrusted && !record.worked).collect();
    assert!(failed.is_empty(), "{failed:?}");
    // A refusal isn't limited here: it waits until what dpkg installs meanwhile is known.
    assert!(allowed < Duration::from_secs(1), "{allowed:?}");
    let untrusted: Vec<_> =
        records.iter().filter(|record| record.what == What::Untrusted && record.worked).collect();
    let unguarded = match (untrusted.first(), untrusted.last()) {
        (Some(first), Some(last)) => (last.end - first.begin) / 1000,
        _ => 0,
    };
    tell(&format!(
        "{} opens and executions, the longest {} ms, a refusal {} ms; unguarded for {unguarded} ms",
        records.len(),
        allowed.as_millis(),
        refused.as_millis()
    ));
}

fn pid(bed: &Bed) -> u32 {
    bed.status().pid
}

/// Ends a guard that the test's own process did not start.
fn stop(bed: &Bed) {
    assert!(matches!(bed.ask(&Request::Stop), Response::Done { .. }));
    bed.run("while [ -S /run/palisade/guard.sock ]; do sleep 0.1; done; /root/stranger").ok();
}

#[test]
fn an_upgrade_while_the_guard_enforces_never_locks_the_host() {
    let Some(mut bed) = guarded() else { return };
    std::fs::create_dir_all(bed.outside("/run/systemd/system")).unwrap();
    // policy-rc.d of the tests' hosts forbids to start anything.
    bed.run("rm /usr/sbin/policy-rc.d").ok();
    for (directory, version) in [("two", "99.0.0"), ("one", VERSION)] {
        let before = pid(&bed);
        meanwhile(&bed, || {
            let said = bed.run(&format!("dpkg -i /root/{directory}/*.deb"));
            assert!(said.worked(), "{said:?}");
        });
        let said = bed
            .run(
                "dpkg-query --show --showformat '${Version} ${db:Status-Abbrev}' palisaded && cat /run/asked",
            )
            .ok();
        assert!(
            said.starts_with(&format!("{version} ii ")) && said.contains(" restart palisaded.service"),
            "{said}"
        );
        // The new one decides.
        assert_ne!(pid(&bed), before);
        assert!(bed.status().enforcing, "{}", bed.run("cat /run/guard.log").out);
        bed.run("/root/stranger").refused();
        bed.run_as_user("palisade --version").ok();
        assert_eq!(bed.run("readlink /proc/$(cat /run/guard.pid)/exe").ok(), "/usr/sbin/palisaded\n");
    }
    // Its first process has ended.
    assert_eq!(bed.ended(), Some(0));

    // One that can't begin doesn't replace one that decides.
    let before = pid(&bed);
    bed.write("/etc/palisade/guard.d/50-own.rules", "allow perm=everything all : all\n");
    meanwhile(&bed, || {
        let said = bed.run("dpkg -i /root/two/*.deb");
        assert!(said.worked() && said.err.contains("warning: this version isn't started"), "{said:?}");
        assert!(said.err.contains("\nhint: palisade guard check && systemctl restart"), "{said:?}");
    });
    assert_eq!(pid(&bed), before);
    bed.run("/root/stranger").refused();
    bed.run(
        "rm /etc/palisade/guard.d/50-own.rules; palisade guard check && systemctl restart palisaded.service",
    )
    .ok();
    assert_ne!(pid(&bed), before);
    bed.wait("the new one refuses", |bed| !bed.run("/root/stranger").worked());

    // Removing the package ends it.
    meanwhile(&bed, || drop(bed.run("dpkg -P palisaded palisade").ok()));
    bed.run("/root/stranger").ok();
    assert!(!bed.outside("/run/palisade/guard.sock").exists());
}

/// The file that the guard runs from is replaced, and the guard goes on.
#[test]
fn without_systemd_the_previous_guard_goes_on() {
    let Some(mut bed) = guarded() else { return };
    let before = pid(&bed);
    meanwhile(&bed, || {
        let said = bed.run("dpkg -i /root/two/*.deb");
        assert!(said.worked() && said.err.contains("the previous version still runs"), "{said:?}");
    });
    assert_eq!(pid(&bed), before);
    assert_eq!(bed.run(&format!("readlink /proc/{before}/exe")).ok(), "/usr/sbin/palisaded (deleted)\n");
    bed.run("/root/stranger").refused();
    // It starts its other process from the file that is gone, and reads its settings.
    let first = standby(&bed).unwrap();
    signal("-KILL", first);
    bed.wait("another process stands by", |bed| standby(bed).is_some_and(|other| other != first));
    bed.reload_gently();
    signal("-STOP", before);
    let began = std::time::Instant::now();
    bed.run("/bin/true").ok();
    assert!(began.elapsed().div_f64(crowd().max(1.0)) < WAIT + WAIT / 4);
    signal("-CONT", before);
    bed.wait("it decides again", |bed| !bed.run("/root/stranger").worked());
    bed.stop();
    // The new one begins.
    bed.start();
    bed.run("/root/stranger").refused();
    assert_ne!(pid(&bed), before);
    stop(&bed);
}
