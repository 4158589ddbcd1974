// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the machine must have. `PALISADE_TEST_HAS` declares it (`root,userns,bwrap,python3`); what
//! is declared and missing fails. Undeclared, every core feature is taken as declared, and the
//! kernel's optional ones are probed: absent only for the refusal a kernel without them gives.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

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
    known: BTreeMap<String, bool>,
}

/// Why the features can't be told.
#[derive(Debug, thiserror::Error)]
pub enum FeatureError {
    /// `features.toml` can't be read.
    #[error("read features.toml")]
    Read(#[source] std::io::Error),
    /// `features.toml` isn't valid.
    #[error("parse features.toml")]
    Parse(#[source] Box<toml::de::Error>),
    /// `PALISADE_TEST_HAS` names something unknown.
    #[error("PALISADE_TEST_HAS names {0:?}, which features.toml does not know")]
    Unknown(String),
    /// Declared, or core, but the probe says no.
    #[error("{name} is declared but this machine lacks it: the probe said {said:?}")]
    Missing {
        /// The feature.
        name: String,
        /// What the probe printed.
        said: String,
    },
    /// The probe itself failed.
    #[error("the probe of {name} neither found it nor found it absent: {said:?}")]
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
    /// What is there, as [`FOUND`] says it.
    #[must_use]
    pub fn found(&self) -> String {
        let there = self.known.iter().filter(|(_, there)| **there).map(|(name, _)| name.as_str());
        there.collect::<Vec<_>>().join(",")
    }

    /// Reads the declaration and probes.
    ///
    /// # Errors
    /// If a declared feature is missing, or a probe fails in an unexpected way.
    pub fn find(directory: &Path) -> Result<Features, FeatureError> {
        let text = std::fs::read_to_string(directory.join("features.toml")).map_err(FeatureError::Read)?;
        let features: BTreeMap<String, Feature> =
            toml::from_str(&text).map_err(|error| FeatureError::Parse(error.into()))?;
        if let Ok(found) = std::env::var(FOUND) {
            let found: Vec<&str> = found.split(',').collect();
            let known = features.keys().map(|name| (name.clone(), found.contains(&name.as_str()))).collect();
            return Ok(Features { known });
        }
        let declared: Option<Vec<String>> = std::env::var("PALISADE_TEST_HAS").ok().map(|list| {
            list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
        });
        if let Some(stranger) = declared.iter().flatten().find(|name| !features.contains_key(name.as_str())) {
            return Err(FeatureError::Unknown(stranger.clone()));
        }
        let mut known = BTreeMap::new();
        for (name, feature) in &features {
            let wanted = match &declared {
                Some(list) if !list.contains(name) => {
                    known.insert(name.clone(), false);
                    continue;
                }
                Some(_) => true,
                None => feature.core,
            };
            let output = Command::new("/bin/sh")
                .args(["-c", &feature.probe])
                .env("PATH", crate::process::SYSTEM_PATH)
                .output()
                .map_err(FeatureError::Read)?;
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            let name = name.clone();
            let present = match output.status.code() {
                Some(0) => true,
                Some(3) if wanted => return Err(FeatureError::Missing { name, said }),
                Some(3) => false,
                _ => return Err(FeatureError::Probe { name, said }),
            };
            known.insert(name, present);
        }
        Ok(Features { known })
    }

    /// The first feature of `needs` that is not there; `Err` if it is not even known.
    ///
    /// # Errors
    /// The name that `features.toml` lacks.
    pub fn lacks<'a>(&self, needs: &'a [String]) -> Result<Option<&'a str>, &'a str> {
        for need in needs {
            match self.known.get(need) {
                Some(true) => {}
                Some(false) => return Ok(Some(need)),
                None => return Err(need),
            }
        }
        Ok(None)
    }

    /// Whether `name` is there.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.known.get(name).copied().unwrap_or(false)
    }
}
