// SPDX-License-Identifier: Apache-2.0 OR MIT
//! docs/hosts.md, from the table.

use super::table::{Expected, Guarantees, Host, Runs, Table};
use std::fmt::Write as _;

const HEAD: &str = "\
<!-- Written by crates/cli/tests/hosts.rs from tests/hosts.toml: PALISADE_HOSTS_PAGE=write ./x test cli/integration/hosts::the_page -->
# Hosts

This page lists kinds of hosts, and what a launch gets on each of them. It is for users who want to know whether Palisade runs where
they are, and what is missing there. `./x test hosts` makes each host and launches a command on it: a launch gets exactly the
guarantees of this page, or fails at once and says why.

- `palisade run` gives every guarantee, or fails.
- `palisade run --best-effort` goes on with the guarantees that the host can give. `--require NAME` names those without which it fails.
- `palisade doctor` says what the host lacks, `--status-fd` which guarantees a launch has.

\"All\" and \"in place\" are sets of guarantees; [below](#guarantees) they are listed. Other programs around Palisade differ, so no page
can list every host. [SECURITY.md](../SECURITY.md) says what each guarantee means.
";

pub(super) fn of(table: &Table) -> String {
    let mut page = HEAD.to_owned();
    let mut group = "";
    for host in &table.hosts {
        if host.group != group {
            group = &host.group;
            let _written = write!(
                page,
                "\n## {group}\n\n| host | `palisade run` | `palisade run --best-effort` | what adds the missing guarantees |\n|---|---|---|---|\n"
            );
        }
        let _written = writeln!(
            page,
            "| {} | {} | {} | {} |",
            host.words,
            outcome(&host.strict),
            outcome(&host.best_effort),
            adds(host)
        );
    }
    page.push_str(&guarantees(table));
    page
}

fn outcome(expected: &Expected) -> String {
    match expected {
        Expected::Fails(fails) => format!("fails: {}", reason(&fails.error)),
        Expected::Runs(runs) => format!("runs: {}{}", words(&runs.held), but(runs)),
    }
}

/// The end of an error, which says why: the kernel's word says little.
fn reason(error: &str) -> &str {
    let end = error.split_once("(os error ").and_then(|(_, rest)| rest.split_once("): "));
    end.map_or(error, |(_, reason)| reason)
}

fn words(set: &str) -> String {
    if set == "whole" { "all".to_owned() } else { set.replace('-', " ") }
}

fn but(runs: &Runs) -> String {
    let each = |(name, by): (&String, &String)| {
        if by.is_empty() { format!("without `{name}`") } else { format!("`{name}` by {by}") }
    };
    let each: Vec<String> = runs.but.iter().map(each).collect();
    if each.is_empty() { String::new() } else { format!(", but {}", each.join(", ")) }
}

/// The command of the hint, unless another remedy is stated.
fn adds(host: &Host) -> String {
    if let Some(adds) = &host.adds {
        return adds.clone();
    }
    match &host.strict {
        Expected::Runs(_) => String::new(),
        Expected::Fails(fails) => {
            let (command, remark) = fails.hint.split_once("   # ").unwrap_or((&fails.hint, ""));
            match remark.strip_prefix("with fewer guarantees; or ") {
                Some(other) => other.to_owned(),
                None => format!("`{command}`"),
            }
        }
    }
}

fn guarantees(table: &Table) -> String {
    let sets: Vec<(&String, &Guarantees)> = table.guarantees.iter().rev().collect();
    let mut text = "\n## Guarantees\n\nThe mechanism of each guarantee; none: the launch lacks it. `root-is-nobody` is for root's launches.\n\n| guarantee |".to_owned();
    for (name, _) in &sets {
        let _written = write!(text, " {} |", words(name));
    }
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(sets.len())));
    for name in sets.iter().flat_map(|(_, set)| set.keys()).collect::<std::collections::BTreeSet<_>>() {
        let _written = write!(text, "| `{name}` |");
        for (_, set) in &sets {
            let by = set.get(name).map_or("", String::as_str);
            let _written = write!(text, " {} |", if by.is_empty() { "none" } else { by });
        }
        text.push('\n');
    }
    text
}
