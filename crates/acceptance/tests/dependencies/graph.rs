// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which packages depend on which, as cargo resolves it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The programs that are shipped.
const SHIPPED: [&str; 3] = ["palisade-cli", "palisade-daemon", "palisade-bench"];

/// The workspace's directory.
pub(crate) fn root() -> PathBuf {
    // Set by cargo when it runs a test.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs this test");
    PathBuf::from(own).join("../..")
}

/// One version of a crate.
#[derive(Debug)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: String,
    /// Where it comes from; none of the workspace's own.
    pub(crate) source: Option<String>,
    /// By package id; and whether only its tests need it.
    dependencies: Vec<(String, bool)>,
}

/// All packages of the workspace and what they need on this machine's architecture, with every feature, by id.
#[derive(Debug)]
pub(crate) struct Graph(pub(crate) BTreeMap<String, Package>);

impl Graph {
    /// Asks cargo. Needs no network: everything has been built before this test is.
    pub(crate) fn read() -> Self {
        let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--offline", "--locked", "--all-features"])
            .args(["--filter-platform", &platform])
            .current_dir(root())
            .output()
            .expect("cargo runs this test, so it can be run");
        assert!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let needed: BTreeMap<String, Vec<(String, bool)>> = list(&metadata["resolve"]["nodes"])
            .into_iter()
            .map(|node| {
                let dependencies = list(&node["deps"]).into_iter().map(|dependency| {
                    let only_tests = list(&dependency["dep_kinds"]).iter().all(|kind| kind["kind"] == "dev");
                    (text(&dependency["pkg"]), only_tests)
                });
                (text(&node["id"]), dependencies.collect())
            })
            .collect();
        let packages = list(&metadata["packages"]).into_iter().map(|package| {
            let id = text(&package["id"]);
            let package = Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                license: text(&package["license"]),
                source: package["source"].as_str().map(str::to_owned),
                dependencies: needed.get(&id).cloned().unwrap_or_default(),
            };
            (id, package)
        });
        let packages: BTreeMap<_, _> = packages.collect();
        assert!(packages.len() > 100, "cargo knows only {} packages", packages.len());
        Self(packages)
    }

    /// What a package needs. Tests count for the workspace's packages only: those of other packages aren't built.
    fn needs(&self, id: &str, for_tests: bool) -> impl Iterator<Item = &str> {
        let package = &self.0[id];
        let tests = for_tests && package.source.is_none();
        package
            .dependencies
            .iter()
            .filter(move |(_, only_tests)| tests || !only_tests)
            .map(|(id, _)| id.as_str())
    }

    /// The packages that some packages need, and those that these need in turn.
    fn reached<'g>(&'g self, from: impl Iterator<Item = &'g str>, for_tests: bool) -> BTreeSet<&'g str> {
        let mut reached = BTreeSet::new();
        let mut waiting: Vec<&str> = from.collect();
        while let Some(id) = waiting.pop() {
            if reached.insert(id) {
                waiting.extend(self.needs(id, for_tests));
            }
        }
        reached
    }

    fn own(&self) -> impl Iterator<Item = (&str, &Package)> {
        self.0
            .iter()
            .filter(|(_, package)| package.source.is_none())
            .map(|(id, package)| (id.as_str(), package))
    }

    fn foreign<'g>(&'g self, ids: BTreeSet<&'g str>) -> BTreeSet<&'g str> {
        ids.into_iter().filter(|id| self.0[*id].source.is_some()).collect()
    }

    /// What the shipped programs are built with and from.
    pub(crate) fn shipped(&self) -> BTreeSet<&str> {
        let programs = self.own().filter(|(_, package)| SHIPPED.contains(&package.name.as_str()));
        self.foreign(self.reached(programs.map(|(id, _)| id), false))
    }

    /// The packages that only tests need.
    pub(crate) fn only_tested(&self) -> BTreeSet<&str> {
        let all = self.foreign(self.reached(self.own().map(|(id, _)| id), true));
        all.difference(&self.shipped()).copied().collect()
    }

    /// Crates of the workspace that name a package themselves, without the project's name.
    pub(crate) fn users(&self, id: &str) -> BTreeSet<String> {
        let shipped = self.shipped().contains(id);
        self.own()
            .filter(|(own, _)| self.needs(own, !shipped).any(|needed| needed == id))
            .map(|(_, package)| package.name.trim_start_matches("palisade-").to_owned())
            .collect()
    }

    /// Packages that name a package in their own manifest, also for their tests.
    pub(crate) fn named_by(&self, id: &str) -> BTreeSet<String> {
        let users = self.0.iter().filter(|(user, _)| self.needs(user, true).any(|needed| needed == id));
        users.map(|(_, package)| package.name.clone()).collect()
    }
}
