// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The features that the machine must have. `PALISADE_TEST_HAS` declares them (`root,userns,bwrap,python3`); a
//! feature that is declared and missing fails. If the variable isn't set, every core feature counts as declared, and
//! the optional features of the kernel are probed: one is absent only if the refusal is that of a kernel without it.
//!
//! A feature is probed when a test first asks for it: all of them together take seconds, and each test program is a
//! process. [`Features::check`] shows that no declared feature is missing.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// One line of `features.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Feature {
    /// Exits 0 if the feature is there, 3 if the machine lacks it; anything else is an error.
    probe: String,
    /// The suite is worth nothing without it.
    #[serde(default)]
    core: bool,
}

/// The features that cases may rely on.
#[derive(Debug)]
pub struct Features {
    features: BTreeMap<String, Feature>,
    /// By `PALISADE_TEST_HAS`, where it is set.
    declared: Option<Vec<String>>,
    probed: Mutex<BTreeMap<String, bool>>,
}

/// Why it can't be determined which features the machine has.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// `features.toml` can't be read.
    #[error("can't read features.toml")]
    Read(#[source] std::io::Error),
    /// `features.toml` isn't valid.
    #[error("can't parse features.toml")]
    Parse(#[source] Box<toml::de::Error>),
    /// `PALISADE_TEST_HAS` names something unknown.
    #[error("PALISADE_TEST_HAS names {0:?}, which features.toml does not know")]
    Unknown(String),
    /// A test or a case needs what `features.toml` doesn't know.
    #[error("features.toml does not know {0:?}")]
    Unfamiliar(String),
    /// Declared, or core, but the probe says no.
    #[error("{name} is declared but this machine lacks it: the probe said {said:?}")]
    Missing {
        /// The feature.
        name: String,
        /// What the probe printed.
        said: String,
    },
    /// The probe itself failed.
    #[error("the probe of {name} failed: {said:?}")]
    Probe {
        /// The feature.
        name: String,
        /// What the probe printed.
        said: String,
    },
}

/// What an earlier look at this machine has found, so that each test program needn't look again.
pub const FOUND: &str = "PALISADE_TEST_FOUND";

impl Features {
    /// What is there, as [`FOUND`] says it: every feature is probed.
    ///
    /// # Errors
    /// If a declared feature is missing, or a probe fails in an unexpected way.
    pub fn found(&self) -> Result<String, FeatureError> {
        let mut there = Vec::new();
        for name in self.features.keys() {
            if self.probe(name)? {
                there.push(name.as_str());
            }
        }
        Ok(there.join(","))
    }

    /// Reads the declaration and what there is to be probed.
    ///
    /// # Errors
    /// If one of them can't be read, or the declaration names a stranger.
    pub fn find(directory: &Path) -> Result<Features, FeatureError> {
        let text = std::fs::read_to_string(directory.join("features.toml")).map_err(FeatureError::Read)?;
        let features: BTreeMap<String, Feature> =
            toml::from_str(&text).map_err(|error| FeatureError::Parse(error.into()))?;
        let declared: Option<Vec<String>> = std::env::var("PALISADE_TEST_HAS").ok().map(|list| {
            list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        });
        if let Some(stranger) = declared.iter().flatten().find(|name| !features.contains_key(name.as_str())) {
            return Err(FeatureError::Unknown(stranger.clone()));
        }
        let mut probed = BTreeMap::new();
        if let Ok(found) = std::env::var(FOUND) {
            let found: Vec<&str> = found.split(',').collect();
            probed.extend(features.keys().map(|name| (name.clone(), found.contains(&name.as_str()))));
        }
        Ok(Features { features, declared, probed: Mutex::new(probed) })
    }

    /// Probes everything that is declared or core.
    ///
    /// # Errors
    /// The first that is missing, or whose probe fails in an unexpected way.
    pub fn check(&self) -> Result<(), FeatureError> {
        for (name, feature) in &self.features {
            if self.declared.as_ref().map_or(feature.core, |list| list.contains(name)) {
                self.probe(name)?;
            }
        }
        Ok(())
    }

    /// The first feature of `needs` that is not there.
    ///
    /// # Errors
    /// If one of them is declared and missing, its probe fails in an unexpected way, or `features.toml` doesn't name it.
    pub fn lacks<'a>(&self, needs: &'a [String]) -> Result<Option<&'a str>, FeatureError> {
        for need in needs {
            if !self.probe(need)? {
                return Ok(Some(need));
            }
        }
        Ok(None)
    }

    /// Whether `name` is there.
    ///
    /// # Panics
    /// If it is declared and missing, its probe fails in an unexpected way, or `features.toml` doesn't name it. The test
    /// that asks for it fails then.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.probe(name).unwrap_or_else(|error| panic!("{error}"))
    }

    fn probe(&self, name: &str) -> Result<bool, FeatureError> {
        let feature = self.features.get(name).ok_or_else(|| FeatureError::Unfamiliar(name.to_owned()))?;
        let wanted = match &self.declared {
            Some(list) if !list.iter().any(|declared| declared == name) => return Ok(false),
            Some(_) => true,
            None => feature.core,
        };
        // Held while it is probed: threads that ask for the same feature at once wait for one probe.
        let mut probed = self.probed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(present) = probed.get(name) {
            return Ok(*present);
        }
        let output = Command::new("/bin/sh")
            .args(["-c", &feature.probe])
            .env("PATH", crate::process::SYSTEM_PATH)
            // A test that builds something does it with this cargo, and its compiler lies beside it.
            .env("CARGO", env!("CARGO"))
            .output()
            .map_err(FeatureError::Read)?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let name = name.to_owned();
        let present = match output.status.code() {
            Some(0) => true,
            Some(3) if wanted => return Err(FeatureError::Missing { name, said }),
            Some(3) => false,
            _ => return Err(FeatureError::Probe { name, said }),
        };
        probed.insert(name, present);
        Ok(present)
    }
}
