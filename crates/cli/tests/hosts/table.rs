// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The format of `tests/hosts.toml`.

use super::container::Container;
use super::outcome::Mode;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Guarantees with their mechanisms. An empty mechanism: the launch lacks the guarantee.
pub(super) type Guarantees = BTreeMap<String, String>;

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// Sets of guarantees, which entries name.
    pub(super) guarantees: BTreeMap<String, Guarantees>,
    #[serde(rename = "host")]
    pub(super) hosts: Vec<Host>,
}

/// A kind of host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Host {
    pub(super) name: String,
    /// The host in words, for the page.
    pub(super) words: String,
    /// The group of the page.
    pub(super) group: String,
    /// Features of the machine (`tests/acceptance/features.toml`).
    #[serde(default)]
    pub(super) needs: Vec<String>,
    /// The root that `hosts/trees.sh` makes. Without one it is this machine's.
    pub(super) tree: Option<String>,
    /// The file by which an engine marks its containers.
    pub(super) mark: Option<String>,
    /// The launches are root's.
    #[serde(default)]
    pub(super) root: bool,
    /// Shell: ends with the line in the host (`hosts/enter.sh`). `$LINE` is the line where the root is this machine's.
    pub(super) enter: Option<String>,
    /// A container of these settings instead.
    pub(super) container: Option<Container>,
    /// Changes to the environment of the line. An empty value: the variable isn't set.
    #[serde(default)]
    pub(super) environment: BTreeMap<String, String>,
    /// Scenarios of the guest that test such a host instead: lines of `scenarios.list`.
    #[serde(default)]
    pub(super) guest: Vec<String>,
    pub(super) strict: Expected,
    pub(super) best_effort: Expected,
    /// What adds the missing guarantees, for the page. Not set: what the hint says, or nothing is missing.
    pub(super) adds: Option<String>,
}

impl Host {
    /// Whether this machine makes the host; otherwise a guest does.
    pub(super) fn is_made(&self) -> bool {
        self.guest.is_empty()
    }

    pub(super) fn expected(&self, mode: Mode) -> &Expected {
        match mode {
            Mode::Strict => &self.strict,
            Mode::Best => &self.best_effort,
        }
    }
}

/// The expected outcome of a launch.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Expected {
    /// It runs.
    Runs(Runs),
    /// It fails.
    Fails(Fails),
}

/// With exactly these guarantees.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Runs {
    /// A set of the table.
    pub(super) held: String,
    /// Those that differ from the set.
    #[serde(default)]
    pub(super) but: Guarantees,
    /// Every note, in the order in which they are printed. Each is the beginning of one.
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

/// With this message and this hint.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fails {
    pub(super) error: String,
    pub(super) hint: String,
}

impl Table {
    pub(super) fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hosts.toml");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let table: Self = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let names: BTreeSet<&str> = table.hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names.len(), table.hosts.len(), "two hosts have one name");
        for host in &table.hosts {
            let ways = usize::from(host.enter.is_some())
                + usize::from(host.container.is_some())
                + usize::from(!host.is_made());
            assert_eq!(ways, 1, "{}: not exactly one of enter, container, guest", host.name);
            for mode in Mode::ALL {
                if let Expected::Runs(runs) = host.expected(mode) {
                    table.held(host, runs);
                }
            }
        }
        table
    }

    /// The guarantees of a launch that runs, with those that only root's launches have.
    pub(super) fn held(&self, host: &Host, runs: &Runs) -> Guarantees {
        let set = self.guarantees.get(&runs.held);
        let mut held = set.unwrap_or_else(|| panic!("{}: no guarantees {}", host.name, runs.held)).clone();
        held.extend(runs.but.clone());
        if !host.root {
            held.remove("root-is-nobody");
        }
        held
    }
}
