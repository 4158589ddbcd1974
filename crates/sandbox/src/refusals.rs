// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a launch tells programs inside: what was refused, in a file that only the launcher writes, and the policy about
//! hosts and names, for `palisade mcp serve`.
//!
//! The file is made in the runtime directory, mounted read-only, and removed as soon as it is mounted. So nothing is left
//! of a launch that is killed, and no path leads to another launch's file.

use crate::error::PlanError;
use crate::facts::Facts;
use crate::package::PlanMode;
use crate::plan::text::Text;
use crate::plan::{NameEnforcement, Plan, Step};
use crate::registry::RegistryError;
use crate::registry::directory::Directory;
use crate::view::tree::{Tree, relative};
use palisade_policy::decide::EffectivePath;
use palisade_policy::names::NameRules;
use palisade_policy::network::NetworkRules;
use palisade_policy::word::Switch;
use palisade_policy::{Grant, NetworkMode, Policy, Strength};
use palisade_sys::landlock::Rights;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Outside: the user's file to which refusals are appended. Inside: the file of this launch.
pub const VARIABLE: &str = "PALISADE_REFUSALS";
/// The file inside.
pub const FILE: &str = "/.palisade/refusals.jsonl";
/// The policy about hosts and names, inside.
pub const POLICY: &str = "/.palisade/policy.json";
/// A longer policy isn't read.
const LONGEST_POLICY: u64 = 4 << 20;
/// How many names are tried for the file.
const ATTEMPTS: u32 = 16;

/// The part of the policy that a program inside can't find out without trying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InsidePolicy {
    /// The version of this form.
    pub schema: u32,
    /// The network that the launch has.
    pub network: NetworkMode,
    /// A lock states it, so that no command of the user changes it.
    pub network_locked: bool,
    /// The rules for hosts, if the network is filtered.
    pub rules: NetworkRules,
    /// The protected names.
    pub names: NameRules,
    /// The trees in which the policy lets the command write.
    pub writable: Vec<PathBuf>,
}

impl InsidePolicy {
    /// The policy of the sandbox in which this process runs. `None` outside, and where the launch told nothing.
    #[must_use]
    pub fn here() -> Option<Self> {
        let mut text = String::new();
        File::open(POLICY).ok()?.take(LONGEST_POLICY).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }
}

/// Whether programs inside are told of refusals: the policy says so, or the caller has the variable.
pub(crate) fn are_told(facts: &Facts, policy: &Policy) -> bool {
    facts.depends_on_variable(VARIABLE);
    let stated = facts.environment.get(VARIABLE).is_some_and(|value| !value.is_empty());
    stated || policy.switch(Switch::Refusals).value
}

/// Adds the file of refusals and the policy to the tree, where the launch builds one of its own. Returns whether it did.
pub(crate) fn place(
    tree: &mut Tree<'_>,
    facts: &Facts,
    policy: &Policy,
    (paths, enforcement): (&[EffectivePath], NameEnforcement),
) -> Result<bool, PlanError> {
    if !are_told(facts, policy) || !matches!(facts.purpose, PlanMode::Launch) {
        return Ok(false);
    }
    let mode = policy.network();
    let network = mode.value;
    let writable = paths.iter().filter(|path| matches!(path.grant, Grant::Allowed { write: true, .. }));
    let inside = InsidePolicy {
        schema: 1,
        network,
        network_locked: mode.strength == Strength::Locked,
        rules: if network == NetworkMode::Filtered {
            policy.network_rules()
        } else {
            NetworkRules::default()
        },
        names: if enforcement == NameEnforcement::Nobody { NameRules::default() } else { policy.names() },
        writable: writable.map(|path| path.destination.clone()).collect(),
    };
    // A path that isn't UTF-8 can't be told.
    let text = serde_json::to_string(&inside).unwrap_or_default();
    tree.made_file(Path::new(POLICY), 0o444, Text::new(text)?, false, Rights::READ_FILE)?;
    tree.made_file(Path::new(FILE), 0o444, Text::literal(c""), false, Rights::READ_FILE)?;
    tree.push(Step::Refusals { path: relative(Path::new(FILE))? });
    Ok(true)
}

/// The directories and files of the host in which the command of a plan can write.
#[must_use]
pub fn writable(plan: &Plan<'_>) -> Vec<PathBuf> {
    let writes = |rights: Rights| rights.intersection(Rights::WRITE_FILE) == Rights::WRITE_FILE;
    let in_place = plan.namespaces.is_empty();
    plan.steps
        .iter()
        .filter_map(|step| match step {
            Step::Bind(bind) if bind.write && !bind.devices => match bind.origin {
                crate::plan::Origin::WorkingDirectory => std::env::current_dir().ok(),
                crate::plan::Origin::Inside => None,
                _ => Some(bind.source.as_path().to_owned()),
            },
            Step::Overlay { upper, .. } => Some(Path::new("/").join(upper.as_path())),
            Step::Allow { path, rights } if in_place && writes(*rights) => {
                Some(Path::new("/").join(path.as_path()))
            }
            _ => None,
        })
        .map(|path| path.canonicalize().unwrap_or(path))
        .collect()
}

/// The file of one launch, before it is mounted.
#[derive(Debug)]
pub struct RefusalsSource {
    file: Option<OwnedFd>,
    directory: OwnedFd,
    name: CString,
    path: CString,
}

impl RefusalsSource {
    /// Makes the file of a launch, if its plan has one.
    ///
    /// # Errors
    /// When the runtime directory can't be used.
    pub fn make(plan: &Plan<'_>) -> Result<Option<Self>, RegistryError> {
        let has_one = plan.steps.iter().any(|step| matches!(step, Step::Refusals { .. }));
        let Some(listing) = plan.listing.as_ref().filter(|_| has_one) else { return Ok(None) };
        let place = listing.directory.as_path();
        let failed = |source| RegistryError::Directory { directory: place.to_owned(), source };
        let directory = Directory::of_launch(place, rustix::process::geteuid().as_raw())?.into_descriptor();
        // The builder follows no links, and the path to the directory may have some.
        let real = rustix::fs::readlink(format!("/proc/self/fd/{}", directory.as_raw_fd()), Vec::new())
            .map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for attempt in 0..ATTEMPTS {
            let text = format!("refusals-{}-{attempt}", std::process::id());
            let Ok(name) = CString::new(text) else { break };
            match rustix::fs::openat(&directory, &name, flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => {
                    let path = CString::new([real.to_bytes(), b"/", name.to_bytes()].concat());
                    let Ok(path) = path else { break };
                    let made = Self { file: Some(file), directory, name, path };
                    // The command of root's launch is another user. No other user reaches the directory.
                    let mode = Mode::from_raw_mode(0o644);
                    made.file
                        .as_ref()
                        .map_or(Ok(()), |file| rustix::fs::fchmod(file, mode))
                        .map_err(failed)?;
                    return Ok(Some(made));
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(failed(Errno::EXIST))
    }

    /// The path, which has no links.
    #[must_use]
    pub fn path(&self) -> &CStr {
        &self.path
    }

    /// The open file, once. The mount stays when the file is removed from the directory.
    pub fn take(&mut self) -> Option<OwnedFd> {
        self.file.take()
    }
}

/// On drop: removes the file's name.
impl Drop for RefusalsSource {
    fn drop(&mut self) {
        let _not_there = rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty());
    }
}
