// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finds the features that grant what a run lacked.

use crate::facts::Facts;
use crate::layers::{self, Sort};
use crate::plan::planner;
use palisade_policy::{Grant, Policy, Resolved, merge};
use std::collections::BTreeMap;
use std::path::Path;

/// The most features that are named for one path.
const NAMED: usize = 3;

/// Features, and what each one grants.
#[derive(Debug)]
pub struct Givers(BTreeMap<String, Resolved>);

impl Givers {
    /// Reads all existing features.
    #[must_use]
    pub fn of(facts: &Facts) -> Self {
        let context = planner::context(facts, None);
        let each = |definition: layers::Definition| {
            let feature = layers::read(facts, &definition).ok()?;
            Some((definition.name, Policy::resolve(&merge(vec![feature]), &context).ok()?))
        };
        Self(layers::definitions(facts, Sort::Feature).into_iter().filter_map(each).collect())
    }

    /// The features that grant a path. Those that grant the least else come first. If there are many, only the first ones.
    #[must_use]
    pub fn of_path(&self, path: &Path) -> Vec<&str> {
        let gives = |resolved: &&Resolved| matches!(resolved.decide(path).grant, Grant::Allowed { .. });
        let mut found: Vec<(usize, &str)> = self
            .0
            .iter()
            .filter(|(_, resolved)| gives(resolved))
            .map(|(name, resolved)| {
                // The nearer the granted path is to the wanted one, the less else is granted.
                let above =
                    resolved.effective().into_iter().filter(|rule| path.starts_with(&rule.destination));
                let nearest = above.map(|rule| rule.destination.components().count()).max().unwrap_or(0);
                (usize::MAX - nearest, name.as_str())
            })
            .collect();
        found.sort_unstable();
        found.into_iter().take(NAMED).map(|(_, name)| name).collect()
    }
}
