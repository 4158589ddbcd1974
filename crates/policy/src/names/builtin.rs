// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names that are protected if no layer states anything, compiled in.

use std::sync::LazyLock;

use serde::Deserialize;

use super::{Content, NameRule};
use crate::layer::Origin;

/// The text of the list.
const TEXT: &str = include_str!("../names.toml");

/// Directories into which package managers unpack packages. Packages contain names that repositories also contain,
/// but as data: no program outside obeys them there.
const PACKAGES: [&str; 6] =
    ["node_modules", "site-packages", "dist-packages", ".cargo/registry", ".cargo/git", "go/pkg/mod"];

/// An entry of the built-in list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltInName {
    /// The rule, as long as no policy changes it.
    pub rule: NameRule,
    /// The subject of the name: `version-control`, `shell`, `editor` and so on.
    pub group: String,
    /// Whether it is protected unless a policy states otherwise.
    pub on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Vec<Table>,
}

/// Names that are protected for the same reason.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    paths: Vec<String>,
    reason: String,
    group: String,
    #[serde(default)]
    carried: bool,
    #[serde(default)]
    content: Content,
    #[serde(default)]
    default: Switch,
}

#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Switch {
    #[default]
    On,
    Off,
}

/// Files in a repository's own directory are obeyed at any place, and packages never contain them.
fn is_of_a_repository(path: &str) -> bool {
    [".git/", ".hg/"].iter().any(|own| path.starts_with(own))
}

fn below() -> Vec<String> {
    PACKAGES.map(str::to_owned).to_vec()
}

impl Table {
    fn names(self) -> impl Iterator<Item = BuiltInName> {
        let on = self.default == Switch::On;
        let (reason, group) = (self.reason, self.group);
        let (carried, content) = (self.carried, self.content);
        self.paths.into_iter().map(move |path| BuiltInName {
            rule: NameRule {
                reason: reason.clone(),
                origin: Origin::built_in(),
                carried,
                except_below: if carried && !is_of_a_repository(&path) { below() } else { Vec::new() },
                path,
                content,
                anchored: false,
                locked: false,
            },
            group: group.clone(),
            on,
        })
    }
}

static LIST: LazyLock<Vec<BuiltInName>> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "the text is compiled in, and a test parses it")]
    let file: File = toml::from_str(TEXT).expect("the built-in names are tested to parse");
    file.name.into_iter().flat_map(Table::names).collect()
});

/// The built-in list, including the names that are off.
#[must_use]
pub fn built_in() -> &'static [BuiltInName] {
    &LIST
}

/// The groups of the built-in list, in its order, each once.
pub(crate) fn groups() -> impl Iterator<Item = &'static str> {
    LIST.chunk_by(|a, b| a.group == b.group).filter_map(|group| group.first()).map(|name| name.group.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::names::NamePattern;

    #[test]
    fn every_name_is_a_pattern_and_stands_there_once() {
        let mut seen = BTreeSet::new();
        let mut on = BTreeMap::new();
        for name in built_in() {
            let path = &name.rule.path;
            assert_eq!(NamePattern::new(path).unwrap().as_str(), path);
            assert!(seen.insert(path), "{path}");
            assert!(!name.rule.reason.is_empty() && !name.rule.reason.ends_with('.'), "{path}");
            // A group is on or off as a whole, so that a user who switches it on knows what that means.
            assert_eq!(*on.entry(name.group.as_str()).or_insert(name.on), name.on, "{path}");
        }
        // The entries of each group are consecutive.
        assert_eq!(groups().collect::<BTreeSet<_>>(), on.keys().copied().collect());
        assert_eq!(groups().count(), on.len());
        assert!(seen.len() > 100, "{}", seen.len());
    }
}
