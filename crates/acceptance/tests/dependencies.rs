// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks the dependencies: every crate has a row in docs/dependencies.md and satisfies deny.toml. It needs no network.
#![expect(clippy::expect_used, reason = "a test may die of what cargo should have said")]

mod graph;
mod license;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use graph::{Graph, root};
use serde::Deserialize;

/// deny.toml, as far as it can be checked without a network.
#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
    exceptions: Vec<Exception>,
}

#[derive(Deserialize)]
struct Exception {
    #[serde(rename = "crate")]
    name: String,
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Bans {
    multiple_versions: String,
    deny: Vec<Banned>,
    skip: Vec<Skip>,
}

#[derive(Deserialize)]
struct Banned {
    #[serde(rename = "crate")]
    name: String,
    /// Packages that may use it all the same.
    #[serde(default)]
    wrappers: Vec<String>,
    reason: String,
}

#[derive(Deserialize)]
struct Skip {
    /// `NAME@VERSION`.
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Sources {
    unknown_registry: String,
    unknown_git: String,
    allow_registry: Vec<String>,
}

fn deny() -> Deny {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    toml::from_str(&text).unwrap_or_else(|error| panic!("deny.toml: {error}"))
}

fn none_of(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn licenses_are_allowed() {
    let (graph, deny) = (Graph::read(), deny());
    let mut wrong = Vec::new();
    for package in graph.0.values() {
        let own = deny.licenses.exceptions.iter().filter(|exception| exception.name == package.name);
        let own: Vec<&String> = own.flat_map(|exception| &exception.allow).collect();
        let allowed = |license: &str| {
            deny.licenses.allow.iter().chain(own.iter().copied()).any(|allowed| allowed == license)
        };
        if license::satisfied(&package.license, &allowed) != Some(true) {
            wrong.push(format!("{} {} is under {:?}", package.name, package.version, package.license));
        }
    }
    for exception in &deny.licenses.exceptions {
        if !graph.0.values().any(|package| package.name == exception.name) {
            wrong.push(format!("deny.toml has an exception for {}, which nothing needs", exception.name));
        }
    }
    none_of(&wrong);
}

#[test]
fn everything_comes_from_the_registry() {
    let (graph, deny) = (Graph::read(), deny());
    assert_eq!([&*deny.sources.unknown_registry, &*deny.sources.unknown_git], ["deny", "deny"]);
    let mut wrong = Vec::new();
    for package in graph.0.values() {
        let source = package.source.as_deref();
        let registry = source.map(|source| source.strip_prefix("registry+").unwrap_or(source));
        if registry
            .is_some_and(|registry| !deny.sources.allow_registry.iter().any(|allowed| allowed == registry))
        {
            wrong.push(format!("{} {} comes from {source:?}", package.name, package.version));
        }
    }
    none_of(&wrong);
}

#[test]
fn nothing_ships_twice() {
    let (graph, deny) = (Graph::read(), deny());
    assert_eq!(deny.bans.multiple_versions, "deny");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in graph.shipped() {
        let package = &graph.0[id];
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let mut wrong = Vec::new();
    for skip in &deny.bans.skip {
        let (name, version) = skip.name.split_once('@').unwrap_or((&skip.name, ""));
        if skip.reason.is_empty() || !versions.get_mut(name).is_some_and(|versions| versions.remove(version))
        {
            wrong.push(format!("deny.toml skips {}, which doesn't ship, or doesn't say why", skip.name));
        }
    }
    for (name, versions) in versions {
        if versions.len() > 1 {
            wrong.push(format!("{name} ships in several versions: {versions:?}"));
        }
    }
    none_of(&wrong);
}

#[test]
fn what_is_banned_is_absent() {
    let (graph, deny) = (Graph::read(), deny());
    let mut wrong = Vec::new();
    for banned in &deny.bans.deny {
        assert!(!banned.reason.is_empty(), "{} is banned without a reason", banned.name);
        for (id, package) in graph.0.iter().filter(|(_, package)| package.name == banned.name) {
            if let Some(user) = graph.named_by(id).into_iter().find(|user| !banned.wrappers.contains(user)) {
                wrong.push(format!("{user} uses {} {}: {}", package.name, package.version, banned.reason));
            }
        }
    }
    none_of(&wrong);
}

const SHIPPED: &str = "What ships";
const TESTED: &str = "What only tests use";
const BROUGHT: &str = "What those bring";
const BROUGHT_TO_TESTS: &str = "What those bring to tests";

/// A row as it should be: crate, version, license, users.
fn row(graph: &Graph, id: &str) -> String {
    let package = &graph.0[id];
    let users: Vec<String> = graph.users(id).into_iter().collect();
    let version: Vec<&str> = package.version.split('.').take(2).collect();
    format!("| `{}` | {} | {} | {} |", package.name, version.join("."), package.license, users.join(", "))
}

#[test]
fn every_dependency_has_its_row() {
    let graph = Graph::read();
    let text =
        std::fs::read_to_string(root().join("docs/dependencies.md")).expect("docs/dependencies.md is there");
    let tables = table::tables(&text);
    let mut wrong = Vec::new();
    for (ids, direct, brought) in
        [(graph.shipped(), SHIPPED, BROUGHT), (graph.only_tested(), TESTED, BROUGHT_TO_TESTS)]
    {
        let (named, rest): (BTreeSet<&str>, BTreeSet<&str>) =
            ids.into_iter().partition(|id| !graph.users(id).is_empty());
        let rows: BTreeMap<&str, &Vec<String>> =
            tables[direct].iter().map(|row| (row[0].as_str(), row)).collect();
        for id in &named {
            let expected = row(&graph, id);
            let found = rows.get(graph.0[*id].name.as_str());
            match found {
                None => wrong.push(format!("{direct:?} lacks a row: {expected} seconds | why |")),
                Some(cells) if cells.len() != 6 || cells.iter().any(String::is_empty) => {
                    wrong.push(format!("{direct:?}: the row of {} lacks something", cells[0]));
                }
                Some(cells) => {
                    let found = format!("| `{}` | {} | {} | {} |", cells[0], cells[1], cells[2], cells[3]);
                    if found != expected {
                        wrong.push(format!("{direct:?} says {found}\n    but it is {expected}"));
                    }
                }
            }
        }
        let names: BTreeSet<&str> = rest.iter().map(|id| graph.0[*id].name.as_str()).collect();
        let mut listed: BTreeSet<&str> = BTreeSet::new();
        for row in &tables[brought] {
            let crates: Vec<&str> = row[1].split(", ").collect();
            if row[2] != crates.len().to_string() {
                wrong.push(format!("{brought:?}: {} brings {}, not {}", row[0], crates.len(), row[2]));
            }
            listed.extend(crates);
        }
        let missing = names.difference(&listed);
        wrong.extend(missing.map(|name| format!("{brought:?} lacks {name}: who brings it?")));
        // Other architectures need a few crates less.
        if cfg!(target_arch = "x86_64") {
            let direct_names: BTreeSet<&str> = named.iter().map(|id| graph.0[*id].name.as_str()).collect();
            let gone = rows.keys().copied().filter(|name| !direct_names.contains(name));
            wrong.extend(gone.map(|name| format!("{direct:?} has {name}, which nothing names any more")));
            let gone = listed.difference(&names);
            wrong.extend(gone.map(|name| format!("{brought:?} has {name}, which nothing brings any more")));
        }
    }
    none_of(&wrong);
}
