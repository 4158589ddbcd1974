// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests the packages that `./x package` makes, from the binaries that the tests have: in a host of its own, each package is
//! installed, upgraded, downgraded and removed, and leaves nothing.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod archive;
mod checkers;
mod deb;
mod licences;
mod made;
mod rpm;
mod same;
mod upgrade;

use crate::support::{Bed, host};
use std::collections::BTreeSet;

/// A host without a guard.
fn host() -> Bed {
    let bed = host::unguarded("");
    // The copy of palisaded that the tests' own guards run is no part of a package, and neither are its directories.
    // Without the file of man-db, no installation renews the index of the whole manual.
    bed.run(
        "rm -f /var/lib/man-db/auto-update; rm /usr/local/sbin/palisaded /etc/palisade/trust.d/10-own; rmdir /run/palisade /var/lib/palisade",
    )
    .ok();
    bed
}

/// The paths of a host's files with their types and links. Caches are left out, what package managers remember, and places in
/// which other processes of this machine work.
fn files(bed: &Bed) -> BTreeSet<String> {
    let listed = bed.run(
        "find /etc /usr /opt /srv /var /home/stranger -xdev \\( -path /usr/local -o -path /var/cache -o -path /var/lib/dpkg \
         -o -path /var/lib/rpm -o -path /var/log -o -path /var/spool -o -path /var/tmp \\) -prune -o -printf '%y %p %l\\n'
find /run/palisade 2> /dev/null; true",
    );
    // What Python keeps of a program that another test starts as root, such as gdb, on a new machine.
    listed.ok().lines().filter(|line| !line.contains("/__pycache__")).map(str::to_owned).collect()
}

/// Panics unless both hosts' files are the same.
#[track_caller]
fn assert_same(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let stays: Vec<_> = after.difference(before).collect();
    let lacks: Vec<_> = before.difference(after).collect();
    assert!(stays.is_empty() && lacks.is_empty(), "stays: {stays:#?}\nlacks: {lacks:#?}");
}

/// Panics unless the installed `palisade` confines commands, for root and for an ordinary user.
#[track_caller]
fn assert_works(bed: &Bed, version: &str) {
    assert_eq!(bed.run("palisade --version").ok(), format!("palisade {version}\n"));
    let script = "palisade run -- sh -c 'echo inside; echo x > /etc/own' 2>&1";
    // What a program leaves in its user's home belongs to the user, not to the package.
    let script = format!("export HOME=$(mktemp -d); cd; {script}");
    for said in [bed.run(&script), bed.run_as_user(&script)] {
        assert!(said.out.contains("inside\n") && !said.worked(), "{said:?}");
    }
    assert!(!bed.outside("/etc/own").exists());
}
