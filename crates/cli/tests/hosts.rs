// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Palisade on every kind of host: sandboxes, containers, bare roots, restricted kernels. A host is an entry of
//! `tests/hosts.toml`, with the guarantees that a launch gets there, or the message and the hint with which it fails.
//!
//! Each host is made in mount and PID namespaces of its own, and ends with them. `PALISADE_HOSTS` selects hosts by name, with
//! commas between them; `all`, as `./x test hosts` sets it, makes it a failure that one can't be made. Without the variable
//! those are made for which the machine has the features. `PALISADE_HOSTS_PAGE=write` writes docs/hosts.md, which states the same table for users.
#![expect(clippy::unwrap_used, reason = "a test may die of what the machine should give")]

mod container;
mod entered;
mod outcome;
mod page;
mod table;

use crate::support::{self, has};
use outcome::Mode;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use table::{Host, Table};

#[test]
fn every_host_gets_the_guarantees_that_the_table_states() {
    let table = Table::read();
    let wanted = std::env::var("PALISADE_HOSTS").ok();
    let all = wanted.as_deref() == Some("all");
    let is_wanted = |host: &Host| {
        all || wanted.as_ref().is_none_or(|names| names.split(',').any(|name| name == host.name))
    };
    for name in wanted.iter().flat_map(|names| names.split(',')) {
        assert!(
            all || table.hosts.iter().any(|host| host.name == name),
            "tests/hosts.toml has no host {name}"
        );
    }
    let hosts = table.hosts.iter().filter(|host| host.is_made() && is_wanted(host));
    // Asked for first, so that a missing feature that is declared fails before anything is made.
    let (hosts, lacking): (Vec<&Host>, Vec<&Host>) =
        hosts.partition(|host| host.needs.iter().all(|need| has(need)));
    let lacking: Vec<&str> = lacking.iter().map(|host| host.name.as_str()).collect();
    assert!(!all || lacking.is_empty(), "PALISADE_TEST_HAS lacks what these need: {lacking:?}");
    let next = AtomicUsize::new(0);
    let found = Mutex::new((BTreeSet::new(), Vec::new()));
    let work = || {
        while let Some(host) = hosts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let failures = examine(&table, host);
            let mut found = found.lock().unwrap();
            found.0.insert(host.name.as_str());
            found.1.extend(failures);
        }
    };
    // Kept until the end, so that all hosts share one user and one copy of the program.
    let place = support::ordinary();
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    drop(place);
    let (ran, failures) = found.into_inner().unwrap();
    assert!(failures.is_empty(), "\n{}", failures.join("\n\n"));
    assert_eq!(ran.len(), hosts.len(), "a host didn't run");
    println!("{} hosts of {}", ran.len(), table.hosts.len());
}

/// What isn't as the table says.
fn examine(table: &Table, host: &Host) -> Vec<String> {
    let said = match entered::run(host) {
        Ok(said) => said,
        Err(why) => return vec![format!("{}: {why}", host.name)],
    };
    Mode::ALL
        .into_iter()
        .filter_map(|mode| {
            let judged = said.get(&mode).ok_or_else(|| "it wasn't launched".to_owned());
            let why = judged.and_then(|outcome| outcome::judge(table, host, mode, outcome)).err()?;
            Some(format!("{}, {}: {why}", host.name, mode.command()))
        })
        .collect()
}

/// Scenarios of the guest stand for hosts that need a kernel of their own.
#[test]
fn hosts_that_need_another_kernel_are_scenarios_of_the_guest() {
    let scenarios = include_str!("../../bpf/tests/guest/scenarios.list");
    for host in Table::read().hosts.iter().filter(|host| !host.is_made()) {
        for scenario in &host.guest {
            assert!(scenarios.lines().any(|line| line == scenario), "{}: no scenario {scenario}", host.name);
        }
    }
}

#[test]
fn the_page_states_the_table() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hosts.md");
    let page = page::of(&Table::read());
    if std::env::var_os("PALISADE_HOSTS_PAGE").is_some_and(|word| word == "write") {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page,
        "docs/hosts.md isn't what tests/hosts.toml says\nhint: PALISADE_HOSTS_PAGE=write ./x test cli/integration/hosts::the_page"
    );
}
