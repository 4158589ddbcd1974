// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Examines what a host can guarantee to launches of a policy, by which mechanisms, and whether everything else is in order.

use crate::{PlanningError, Request, Situation};
use palisade_host::places::{self, Trustee};
use palisade_sandbox::facts::Facts;
use palisade_sandbox::guarantee::{self, Evidence, Have, OLDEST_KERNEL, Row};
use palisade_text::Show as _;
use serde::Serialize;
use std::path::Path;

/// The result, serialised as `palisade doctor --json` prints it, without the version of that form.
#[derive(Debug, Serialize)]
pub struct Examination {
    /// Whether the policy can be fully enforced.
    pub enforceable: bool,
    /// The kernel's version.
    pub kernel: Check,
    /// The guarantees, and the mechanisms that give them.
    pub guarantees: Vec<Row>,
    /// Other conditions that must hold.
    pub checks: Vec<Check>,
}

/// Another condition that must hold.
#[derive(Debug, Serialize)]
pub struct Check {
    /// What is checked.
    pub name: &'static str,
    /// Whether it holds.
    pub have: Have,
    /// Whether launches fail without it.
    pub fatal: bool,
    /// What was examined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Examination {
    /// Examines the host for the launches of a situation. `configuration` says whether its policy files are in order.
    /// `more` holds the results of other checks.
    #[must_use]
    pub fn of(situation: &Situation, configuration: Check, more: Vec<Check>) -> Self {
        let evidence = Evidence::gather(&situation.facts);
        let guarantees = guarantee::evaluate(situation.policy(), &evidence);
        let mut checks = vec![configuration, planned(situation)];
        checks.extend(own_places(&situation.facts));
        checks.extend(more);
        let kernel = kernel(&evidence);
        let enforceable = !kernel_fails(&kernel)
            && !guarantees.iter().any(Row::fails)
            && !checks.iter().any(|check| check.fatal && !check.have.is_yes());
        Self { enforceable, kernel, guarantees, checks }
    }
}

impl Request {
    /// The host and the policy, and whether the policy files are in order. If they aren't, the built-in layer replaces them.
    ///
    /// # Errors
    /// As [`Request::settle`], except for policy files that can't be read or trusted.
    pub fn examine(self) -> Result<(Situation, Check), PlanningError> {
        let check = |have, remedy| Check { name: "configuration", have, fatal: true, what: None, remedy };
        let without = self.clone();
        match self.settle() {
            Ok(situation) => Ok((situation, check(Have::Yes, None))),
            Err(PlanningError::Layer(error)) => {
                let situation = without.settle_by_built_in()?;
                Ok((situation, check(Have::No(error.to_string()), error.hint())))
            }
            Err(error) => Err(error),
        }
    }
}

fn kernel(evidence: &Evidence) -> Check {
    let (major, minor) = OLDEST_KERNEL;
    let (have, what) = match &evidence.release {
        Some(release) if release.at_least(major, minor) => (Have::Yes, Some(release.to_string())),
        Some(release) => (Have::No(format!("this is {release}")), Some(release.to_string())),
        None => (Have::Unknown("/proc/sys/kernel/osrelease holds no version".to_owned()), None),
    };
    let remedy = matches!(have, Have::No(_))
        .then(|| format!("kernel {major}.{minor} or later: older ones aren't tested"));
    Check { name: "kernel", have, fatal: false, what, remedy }
}

/// An older kernel may have everything that is needed. The table of guarantees decides.
const fn kernel_fails(kernel: &Check) -> bool {
    kernel.fatal && !kernel.have.is_yes()
}

/// Whether a launch could be planned here.
fn planned(situation: &Situation) -> Check {
    let (have, remedy) = match situation.plan() {
        Ok(_plan) => (Have::Yes, None),
        Err(error) => (Have::No(error.to_string()), error.hint()),
    };
    Check { name: "plan for this directory", have, fatal: true, what: None, remedy }
}

/// Checks that only the user can write to Palisade's own directories.
fn own_places(facts: &Facts) -> Vec<Check> {
    let account = &facts.account;
    let trustee = Trustee { uid: account.uid, private_group: account.private_group.then_some(account.gid) };
    let places = &facts.places;
    let own = [
        // Only the first is necessary: without plans a launch is slower, and projects can be allowed again.
        ("configuration directory", &places.config, true),
        ("plan cache", &places.cache, false),
        ("state directory", &places.state, false),
    ];
    own.into_iter()
        .map(|(name, path, fatal)| {
            let (have, remedy) = examine_place(path, trustee);
            Check { name, have, fatal, what: Some(path.shown().to_string()), remedy }
        })
        .collect()
}

/// The directory, or the nearest one above it that it would be made in.
fn examine_place(path: &Path, trustee: Trustee) -> (Have, Option<String>) {
    let Some(existing) = path.ancestors().find(|path| path.exists()) else {
        return (Have::Unknown("no part of its path exists".to_owned()), None);
    };
    if let Err(error) = places::check(existing, trustee) {
        let shown = palisade_sandbox::error::quoted(&existing.to_string_lossy());
        return (
            Have::No(error.to_string()),
            Some(format!("namei -l {shown}   # shows each part; then: chown or chmod go-w PART")),
        );
    }
    match rustix::fs::access(existing, rustix::fs::Access::WRITE_OK) {
        Ok(()) => (Have::Yes, None),
        Err(errno) => (Have::No(format!("can't write to {}: {errno}", existing.shown())), None),
    }
}
