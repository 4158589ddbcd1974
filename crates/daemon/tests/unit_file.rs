// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `packaging/palisaded.service`: with what it takes from the daemon, the daemon does its work.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

use crate::support::{Bed, Settings, has};
use std::process::Command;

const UNIT: &str = include_str!("../../../packaging/palisaded.service");

fn value(key: &str) -> &'static str {
    UNIT.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).unwrap()
}

#[test]
fn the_guard_works_with_the_units_capabilities_alone() {
    if !has("fanotify") {
        return;
    }
    let names = value("CapabilityBoundingSet").split(' ').map(|name| name.to_ascii_lowercase());
    let bounds: String = names.map(|name| name.replace("cap_", ",+")).collect();
    assert_eq!(value("NoNewPrivileges"), "yes");
    let mut bed = Bed::new();
    for name in ["a", "refused"] {
        bed.copy("/bin/true", bed.at(name));
    }
    let bounds: &'static str = format!("--bounding-set=-all{bounds}").leak();
    bed.starter = vec!["setpriv", bounds, "--inh-caps=-all", "--no-new-privs", "--"];
    // A process without rights reads what is trusted, so that is started, too.
    let own = bed.at("a");
    bed.trust("10-own", &[&own]);
    bed.settings(&Settings::enforce());
    bed.rules("allow perm=any all : trust=1\ndeny_audit perm=any all : all\n");
    bed.start();
    bed.run("./a").ok();
    bed.run("./refused").refused();
    bed.run_as_user("./a").ok();
    bed.run_as_user("./refused").refused();
    let bounded = std::fs::read_to_string(format!("/proc/{}/status", bed.pid())).unwrap();
    let of = |key: &str| bounded.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
    assert_eq!((of("CapBnd:"), of("NoNewPrivs:")), (of("CapPrm:"), "1".to_owned()));
    assert!(!bed.log().contains("can't be given away"), "{}", bed.log());
}

/// systemd leaves out what it doesn't know, and says so only in its journal.
#[test]
fn systemd_knows_every_line() {
    let checked = |text: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("palisaded.service");
        std::fs::write(&file, text.replace("/usr/sbin/palisaded", "/bin/true")).unwrap();
        let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output().ok()?;
        Some(String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let Some(said) = checked(UNIT) else { return };
    assert!(!said.contains("palisaded.service"), "{said}");
    let said = checked(&UNIT.replace("RestrictRealtime", "RestrictRealtimes")).unwrap();
    assert!(said.contains("RestrictRealtimes"), "{said}");
}
